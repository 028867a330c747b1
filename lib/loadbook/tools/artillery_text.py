"""Artillery's text, read into the form of its report in JSON: what `artillery run` prints at its end (2.0.21).

The summary has the numbers of the JSON in full (`console-reporter.js`), without p75, p90, p999 and the times of the
first and the last event. Those are known only if one period has the whole load: its width is then their difference.
`http.request_rate` is a mean of rounded rates of periods, and no rate of the whole. Workers add up their rounded rates.
The periods are progress: their counts must add up to those of the summary.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from loadbook.core.errors import ParseError
from loadbook.tools import line_patterns

REPORT_BEGIN = "Test run id: "
REPORT_END = "Summary report @ "
PERIOD = "Metrics for period to: "
STATISTICS = ("min", "max", "mean", "median", "p95", "p99")
NAMES = {"p50": "median"}  # statistic -> its name in the text, if that is another
STEPS_S = {"min": 1e-3, "max": 1e-3}  # whole milliseconds; the others have one decimal
STEP_S = 1e-4
_START = re.compile(rf"{REPORT_BEGIN}|Phase started: .*\(index: 0, ")
_CLOCK = r"(?P<clock>\d\d:\d\d:\d\d)\([+-]\d{4}\)"
_PERIOD = re.compile(rf"{PERIOD}{_CLOCK} \(width: (?P<seconds>\d+(?:\.\d{{1,3}})?)s\)")
_SUMMARY = re.compile(rf"{REPORT_END}{_CLOCK}")
_TOTAL = re.compile(r"All VUs finished\. Total time: (?P<seconds>\d+) seconds?")
_RATE = "http.request_rate"
PERIOD_S = 10.0  # periods begin at whole multiples of it
RATE_SHARE, LEAST_RATE = 0.6, 20.0  # a sum of rates that workers rounded is not below this share, from 20/s on
_HEADING = re.compile(r"(?P<name>\w[^:]*(?:\.[^:]*)*):")
# a name that is too long for its line ends with three dots
_ROW = re.compile(r" *(?P<name>\S.*?)(?:: \.+|\.{3} {1,2}) *(?P<value>[^\s.]\S*)")
_OWN = ("http.", "vusers.", "errors.")  # beginnings of metrics that are counts; custom ones can be anything


@dataclass
class Section:
    """The metrics of a period, or of the summary: `line` is that of its first line, `seconds` the width of a period.

    `summaries` maps a metric to {statistic: value as printed}, `rates` one to its rate as printed. `clock_s` is the
    printed time of day. `total_s` of the summary is the whole time of the run, None if the text lacks it.
    """

    line: int
    seconds: float | None = None
    clock_s: int = 0
    total_s: int | None = None
    rates: dict[str, str] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)
    summaries: dict[str, dict[str, str]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ArtilleryText:
    """A text in the form of the aggregate in JSON; `printed` has the times of responses as printed.

    `line` is the first of the summary. `seconds` is the time from the first to the last event, None if not known.
    """

    aggregate: dict[str, Any]
    printed: dict[str, str]
    seconds: float | None
    line: int


def is_text(lines: Sequence[str]) -> bool:
    """Return whether an output has a summary or a period."""
    return any(line.startswith((REPORT_END, PERIOD)) for line in lines)


def read_text(lines: Sequence[str]) -> ArtilleryText:
    """Return the numbers of the summary; ParseError if it is cut, there twice, or contradicts the periods."""
    periods, summary, is_whole = _sections(lines)
    _check_end(summary)
    seconds = _check_periods(periods, summary, is_whole)
    printed = summary.summaries.get("http.response_time", {})
    times: dict[str, Any] = {name: _number(text) for name, text in printed.items()}
    times["p50"], times["count"] = times.get("median"), summary.counters["http.responses"]
    table = {"http.response_time": {name: value for name, value in times.items() if value is not None}}
    aggregate = {"counters": dict(summary.counters), "summaries": table if printed else {}}
    return ArtilleryText(aggregate, printed, seconds, summary.line)


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d+(?:\.\d)?", text) else None


def _sections(lines: Sequence[str]) -> tuple[list[Section], Section, bool]:
    """Return the periods, the summary, and whether the text has its beginning, and so all periods."""
    periods, summary, section, is_whole = list[Section](), None, None, False
    heading, total_s = "", None
    for number, line in enumerate(lines, 1):
        if period := _PERIOD.fullmatch(line):
            section = Section(number, float(period["seconds"]), _clock_s(period["clock"]))
            periods.append(section)
        elif whole := _SUMMARY.fullmatch(line):
            if summary is not None:
                raise _refused(number, line_patterns.second_report(line))
            section = summary = Section(number, None, _clock_s(whole["clock"]), total_s)
        elif line.startswith((PERIOD, REPORT_END)):
            raise _broken(number, line)
        elif line.startswith("All VUs finished"):
            section = None
            total_s = int(total["seconds"]) if (total := _TOTAL.fullmatch(line)) else None
        elif _START.match(line):
            is_whole = is_whole or not (periods or summary)
        elif section is not None and line:
            heading = _add_line(section, heading, number, line)
        if section is not None and section.line == number:
            heading = ""
    if summary is None:
        raise _refused(0, f"report is not complete: no line like '{REPORT_END}11:48:45(+0000)'")
    return periods, summary, is_whole


def _add_line(section: Section, heading: str, number: int, line: str) -> str:
    """Add a line of a section; return the metric whose statistics come next ("": none)."""
    if match := _ROW.fullmatch(line):
        name, value = match["name"], match["value"]
        times = section.summaries.get(heading, {})
        if heading and len(times) < len(STATISTICS) and name == STATISTICS[len(times)]:
            times[name] = value
            if not re.fullmatch(r"\d+(?:\.\d)?|null", value) and heading.startswith(_OWN):
                raise _broken(number, line)
            return heading
        _require_all(section, heading)
        _add_count(section, name, value, number, line)
    elif match := _HEADING.fullmatch(line):
        _require_all(section, heading)
        if match["name"] in section.lines:
            raise _refused(number, line_patterns.second_report(line))
        section.summaries[match["name"]], section.lines[match["name"]] = {}, number
        return match["name"]
    elif line.startswith(_OWN) or re.search(r"\.{5}|^ +\w+:", line):
        raise _broken(number, line)
    return ""


def _add_count(section: Section, name: str, value: str, number: int, line: str) -> None:
    """Add a counter to a section; rates and metrics of plugins are not kept."""
    if name in section.lines and not name.startswith("errors."):  # two messages may have been cut alike
        raise _refused(number, line_patterns.second_report(line))
    section.lines[name] = number
    if name == _RATE:
        section.rates[name] = value
    if value.isdecimal():
        section.counters[name] += int(value)
    elif (name.startswith(_OWN) and not re.fullmatch(r"\d+(?:\.\d+)?/sec", value)) or name in STATISTICS:
        raise _broken(number, line)


def _require_all(section: Section, heading: str) -> None:
    """Raise ParseError unless a metric of times has all of its statistics."""
    if heading and len(section.summaries[heading]) < len(STATISTICS):
        problem = f"{len(section.summaries[heading])} of the {len(STATISTICS)} lines of {heading}"
        raise _refused(section.lines[heading], f"report is not complete: {problem}")


def _check_end(summary: Section) -> None:
    """Raise ParseError if the summary was cut: its last lines are those of the users."""
    for heading in summary.summaries:
        _require_all(summary, heading)
    counters = summary.counters
    needed = ["vusers.created", "vusers.session_length" if counters["vusers.completed"] else "vusers.failed"]
    needed += ["http.response_time", "http.downloaded_bytes"] if counters["http.responses"] else []
    for name in needed:
        if name not in summary.lines:
            raise _refused(summary.line, f"report is not complete: no line {name!r}")
    by_class = {name.rpartition(".")[2][:1] for name in counters if name.startswith("http.codes.")}
    timed = {name[-3:-2] for name in summary.summaries if re.fullmatch(r"http\.response_time\.\dxx", name)}
    if timed and timed != by_class:
        raise _refused(summary.line, "the classes of statuses with times are not those with counts")


def _check_periods(periods: Sequence[Section], summary: Section, is_whole: bool) -> float | None:
    """Return the duration of the load, None if several periods hide it; ParseError if they contradict the summary."""
    total = sum((period.counters for period in periods), Counter())
    if (is_whole and total != summary.counters) or not total <= summary.counters:
        names = total.keys() | summary.counters.keys()
        name = min(name for name in names if total[name] != summary.counters[name])
        problem = f"{name} is {summary.counters[name]}, but {total[name]} in all periods"
        raise _refused(summary.lines.get(name, summary.line), problem)
    if len(periods) != 1 or total != summary.counters:
        return None
    if differing := [name for name, times in periods[0].summaries.items() if times != summary.summaries.get(name)]:
        raise _refused(summary.lines.get(differing[0], summary.line), f"{differing[0]} is another than in its period")
    return _checked_width(periods[0], summary)


def _checked_width(period: Section, summary: Section) -> float:
    """Return the width of the only period; ParseError if total time, clock or rate of requests contradict it."""
    seconds = period.seconds or 0.0
    if seconds > PERIOD_S:
        raise _refused(period.line, f"a width of {seconds:g} s, but a period has {PERIOD_S:g} s")
    if summary.total_s is not None and seconds > summary.total_s + 1:
        raise _refused(period.line, f"a width of {seconds:g} s, but a total time of {summary.total_s} s")
    elapsed_s = (summary.clock_s - period.clock_s + PERIOD_S) % 86400  # since the period's begin
    if elapsed_s + 1 < seconds:
        raise _refused(period.line, f"a width of {seconds:g} s, but the summary is {elapsed_s:g} s after the begin")
    printed = summary.rates.get(_RATE, "")
    if printed and printed != period.rates.get(_RATE, printed):
        raise _refused(summary.lines[_RATE], f"{_RATE} is another than in its period")
    rate, least = float(printed.removesuffix("/sec") or 0), summary.counters["http.requests"] / max(1.0, seconds)
    if least >= LEAST_RATE and 0 < rate < RATE_SHARE * least:
        raise _refused(period.line, f"{least:.0f} requests a second in {seconds:g} s, but {_RATE} is {printed}")
    return seconds


def _clock_s(text: str) -> int:
    """Return the seconds since midnight of a time of day such as ``11:48:45``."""
    hours, minutes, seconds = map(int, text.split(":"))
    return 3600 * hours + 60 * minutes + seconds


def _broken(number: int, line: str) -> ParseError:
    return _refused(number, f"line cut or changed: {line.strip()[:60]!r}")


def _refused(line: int, problem: str) -> ParseError:
    return ParseError("artillery", "stdout", line, problem)


def step_s(statistic: str) -> float:
    """Return the step in seconds to which a time is rounded."""
    return STEPS_S.get(statistic, STEP_S)
