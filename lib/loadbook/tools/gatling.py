"""Gatling 3: its log of requests, its printed summary, or the JSON of its report is read; loadbook does not run it.

- **The log** (`simulation.log`: text of 3.4 to 3.12, binary of 3.13 to 3.15) gives all that follows exactly, to 1 ms.
  `requests` are answers, `ok` those that passed their checks; a KO request whose message is that of a check was
  answered, `errors_status` if its status failed with 400 or above. One with an exception or a timeout was not.
  `latency` is that of answers, `duration` from the first start to the last end. Groups, and requests that could not be
  built, are no attempts. A cut last record is `torn`. If a message does not tell which, the doubt is `failed_unknown`.
- Of a summary or JSON, the rest holds.
- The JSON (`js/global_stats.json` or `js/stats.json`; 3.14.9 writes none) gives no percentiles, as it does not name
  them; `gatling.conf` can change them.
- A request is KO if it had no response or if a check failed, by default that of its status: with KO requests there
  are `attempts`, `attempts_per_s` and `attempt_time` of all, and no `requests` (doubt `failed_unknown`).
- `latency` is that of OK requests, in whole milliseconds, from the call to the last byte, with connecting.
- A comma in the rate is one of decimals if the number of requests has none: some locales print it.
- The rate divides by whole seconds, rounded up: below 20 s it is left out, below 200 s a doubt (`coarse_duration`).

Sources: `gatling-charts/.../GlobalStatsJsonTemplate.scala` and `ConsoleTemplate.scala`; measured: 3.10.5, 3.14.9.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from loadbook.tools import base, line_patterns, request_rows
from loadbook.tools.base import Measurement, ParsedReport, ToolOutput
from loadbook.tools.json_report import JsonReport

if TYPE_CHECKING:
    from loadbook.request_logs.summary import Summary

WHOLE_MS = "Gatling has whole milliseconds only, too coarse for times this short"
# the beginning of a log: as text, or as binary file, with the version
_LOG = re.compile(rb"RUN\t[^\t\n]*\t[^\t\n]*\t\d{13}\t|ASSERTION\t\S+\r?\n|\0\0\0\0[\x05-\x20]\d+\.\d")

MIN_RATE_S, MIN_SURE_S = 20.0, 200.0  # a second too much is 5 % and 0.5 % of these
SUMMARY = "---- Global Information ---"
JSON_MARKS = ("numberOfRequests", "meanNumberOfRequestsPerSecond")
JSON_TIMES = {"mean": "meanResponseTime", "sd": "standardDeviation", "min": "minResponseTime", "max": "maxResponseTime"}
# labels of the summary, without their units, of 3.10.5 and of 3.14.9
SUMMARY_LABELS = {
    "request count": "requests",
    "min response time": "min",
    "max response time": "max",
    "mean response time": "mean",
    "std deviation": "sd",
    "response time std deviation": "sd",
    "mean requests/sec": "rate",
    "mean throughput": "rate",
}
_NUMBER = r"(-|[\d,.]+)"
_SUMMARY_LINE = re.compile(
    rf"> (?P<label>[a-z][\w/. ]*?)(?: \((?:ms|rps)\))? +(?:{_NUMBER} \(OK={_NUMBER} +KO={_NUMBER} *\)"
    rf"|\| +{_NUMBER} \| +{_NUMBER} \| +{_NUMBER})"
)
SUMMARY_PERCENTILES = 4  # `gatling.charting.indicators.percentile1` to `percentile4`
_PERCENTILE = re.compile(r"response time (\d+(?:\.\d+)?)(?:st|nd|rd|th) percentile")


@dataclass(frozen=True)
class Figures:
    """Numbers of all requests: counts, the printed rate (1/s), and times in ms by statistic, of all and of OK ones."""

    total: int
    ok: int
    failed: int
    rate_per_s: float
    times_ms: dict[str, float]
    ok_times_ms: dict[str, float]

    @property
    def seconds(self) -> float:
        """Gatling's duration, from which it computes the rate: a whole number of seconds; 0 if the rate is 0."""
        return float(round(self.total / self.rate_per_s)) if self.rate_per_s else 0.0


class Gatling(base.ImportedTool):
    """Gatling; the module docstring defines its metrics."""

    name = "gatling"
    binary = "gatling"
    streamed_inputs = ("stdout", "files")
    report_begin = r"Simulation \S+ started\.\.\."
    report_end = SUMMARY
    rows_begin = r"RUN\t[^\t\n]*\t[^\t\n]*\t\d{13}\t"

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one run: from its log, else its summary in stdout, or the report's JSON."""
        sources: dict[str, bytes | Path] = {**output.files, **output.paths}
        sources.setdefault("stdout", output.stdout)
        logs = [name for name, data in sources.items() if _LOG.match(base.head_of(data))]
        if logs:
            return _parse_log(logs[0], sources[logs[0]], output)
        report = _Report(output)
        return ParsedReport(tuple(report.rows()), doubts=tuple(report.doubts()))


TOOL = Gatling()


def _parse_log(file: str, data: bytes | Path, output: ToolOutput) -> ParsedReport:
    """Return the rows of a run whose single requests are known."""
    from loadbook.request_logs.read import summarise

    figures = summarise(data, "gatling", file=file)
    return request_rows.log_report(figures, "latency", None, [*_log_doubts(file, figures, output)], ("torn",))


def _log_doubts(file: str, figures: Summary, output: ToolOutput) -> Iterator[tuple[str, str]]:
    """Yield the doubts about the numbers of a log, as (name, sentence)."""
    yield from request_rows.damage_doubts(file, figures)
    latency = figures.total().latency
    if latency.count and latency.mean_s() < base.COARSE_S:
        yield "whole_ms", WHOLE_MS
    if output.exit_code:
        yield "exit_code", f"gatling ended with exit code {output.exit_code}"


class _Report(JsonReport):
    """The numbers of one run, after a check that they do not contradict each other."""

    tool = "gatling"

    def __init__(self, output: ToolOutput) -> None:
        self.output, self.line = output, 0
        contents = {"stdout": output.stdout, **output.files}
        figures_by_file = [
            figures for name, content in contents.items() if (figures := self._json_figures(name, content))
        ]
        summary = self._summary_figures()
        if summary is None and not figures_by_file:
            raise self.refused(self._missing_reason())
        self.figures = summary or figures_by_file[0]
        for other in figures_by_file:
            if (other.total, other.ok, other.failed) != (self.figures.total, self.figures.ok, self.figures.failed):
                raise self.refused(f"two reports that differ: {other.total} requests, and {self.figures.total}")
        self._check()

    def rows(self) -> Iterator[Measurement]:
        """Yield counts, rates and times."""
        figures = self.figures
        for metric, count in (("attempts" if figures.failed else "requests", figures.total), ("ok", figures.ok)):
            yield Measurement(metric, "count", count, "1", None)
            if figures.seconds >= MIN_RATE_S or not figures.total:
                rate = count / figures.seconds if figures.total else 0.0
                yield Measurement(f"{metric}_per_s", "value", rate, "1/s", None)
        yield Measurement("errors", "count", figures.failed, "1", None)
        times = figures.ok_times_ms if figures.failed else figures.times_ms  # equal, but for percentiles' estimates
        for statistic, milliseconds in times.items() if figures.ok else ():
            yield Measurement("latency", statistic, milliseconds / 1000, "s", None)
        for statistic, milliseconds in figures.times_ms.items() if figures.failed else ():
            yield Measurement("attempt_time", statistic, milliseconds / 1000, "s", None)

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield the doubts about the numbers, as (name, sentence)."""
        figures = self.figures
        if figures.failed:
            text = f"{figures.failed} of {figures.total} requests failed, and the report does not tell which had"
            yield "failed_unknown", f"{text} a response: `latency` is that of the {figures.ok} others"
        if figures.total:
            if not any(name[1:2].isdigit() for name in figures.times_ms):
                text = "the JSON does not name its percentiles, which gatling.conf can change: left out"
                yield "percentiles_unnamed", f"{text}; the summary that Gatling prints names them: keep it, too"
            if figures.times_ms["mean"] / 1000 < base.COARSE_S:
                yield "whole_ms", WHOLE_MS
        if 0 < figures.seconds < MIN_SURE_S:
            text = f"Gatling divides by whole seconds, rounded up, here {figures.seconds:g}"
            lost = figures.seconds < MIN_RATE_S
            yield "coarse_duration", f"{text}: {'no rates' if lost else 'rates may be too low by the last of them'}"
        if self.output.exit_code:
            yield "exit_code", f"gatling ended with exit code {self.output.exit_code}"

    def _json_figures(self, name: str, content: bytes) -> Figures | None:
        """Return the numbers of the JSON in a file; ParseError if they are not complete; None without JSON."""
        named = self.read_one({name: content}, "contents", "stats")  # stats.json: all requests, and each name of them
        report = self.table(named, "stats") if named else self.read_one({name: content}, *JSON_MARKS)
        if report is None:
            return None
        counts, rates = self.table(report, "numberOfRequests"), self.table(report, "meanNumberOfRequestsPerSecond")
        times, ok_times = (
            {statistic: self.number(self.table(report, key), column) for statistic, key in JSON_TIMES.items()}
            for column in ("total", "ok")
        )
        total, ok, failed = (self.count(counts, key) for key in ("total", "ok", "ko"))
        return Figures(total, ok, failed, self.number(rates, "total"), times, ok_times)

    def _summary_figures(self) -> Figures | None:
        """Return the numbers of the summary in stdout; ParseError if it is not complete; None without one."""
        lines = [line.lstrip() for line in line_patterns.clean_lines(self.output.stdout)]  # it may be indented
        starts = [number for number, line in enumerate(lines) if line.startswith(SUMMARY)]
        if not starts:
            return None
        self.file, self.line = "stdout", starts[-1] + 1
        if len(starts) > 1:
            raise self.refused(line_patterns.unsplit_report(lines[starts[1]]))
        read: dict[str, list[str]] = {}
        has_thousands = True
        for line in lines[self.line :]:
            if line.startswith("----"):
                break
            if (match := _SUMMARY_LINE.fullmatch(line.strip())) is None:
                continue
            label, numbers = match["label"], [n for n in match.groups()[1:] if n is not None]
            percent = _PERCENTILE.fullmatch(label)
            name = f"p{float(percent[1]):g}" if percent else SUMMARY_LABELS.get(label)
            if name is None or name in read:
                raise self.refused(f"a line of the summary that is not known: {label!r}")
            if name == "requests":
                has_thousands = "," in numbers[0]  # in all numbers or in none: then a rate's comma is one of decimals
            comma = "." if name == "rate" and not has_thousands else ""
            read[name] = [number.replace(",", comma) for number in numbers]
        if missing := [name for name in ("requests", *JSON_TIMES, "rate") if name not in read]:
            raise self.refused(f"report is not complete: no {missing[0]} in the summary")
        if (percents := sum(name[1:2].isdigit() for name in read)) != SUMMARY_PERCENTILES:
            raise self.refused(f"report is not complete: {percents} of {SUMMARY_PERCENTILES} percentiles")
        try:
            total, ok, failed = (int(number) if number != "-" else 0 for number in read.pop("requests"))
            values, ok_values = (
                {name: float(numbers[column]) if numbers[column] != "-" else 0.0 for name, numbers in read.items()}
                for column in (0, 1)
            )
        except ValueError:
            raise self.refused("a number of the summary that is none") from None
        del ok_values["rate"]
        return Figures(total, ok, failed, values.pop("rate"), values, ok_values)

    def _missing_reason(self) -> str:
        """Return the reason why there is no report, derived from the output of Gatling or of another program."""
        if re.search(rb"^Simulation \S+ started\.\.\.", self.output.stdout, re.MULTILINE):
            return f"Gatling ended before its summary{line_patterns.exit_text(self.output)}"
        if not self.output.stdout.strip():
            return f"empty{line_patterns.exit_text(self.output)}{line_patterns.stderr_text(self.output)}"
        return line_patterns.other_output_text("gatling", self.output)

    def _check(self) -> None:
        """Raise ParseError if counts, rate or times contradict each other."""
        figures = self.figures
        if figures.ok + figures.failed != figures.total:
            raise self.refused(f"{figures.ok} requests OK and {figures.failed} KO are not {figures.total}")
        if not figures.total:
            return
        if not figures.seconds:
            raise self.refused(f"{figures.total} requests at {figures.rate_per_s:g} a second")
        if abs(figures.total / figures.seconds - figures.rate_per_s) > 0.006:  # the summary has two decimals or more
            raise self.refused(f"{figures.rate_per_s:g} requests a second are not {figures.total} in whole seconds")
        for times in (figures.times_ms, *([figures.ok_times_ms] if figures.ok else [])):
            self._check_times(times)

    def _check_times(self, times: Mapping[str, float]) -> None:
        """Raise ParseError if times do not ascend."""
        percents = sorted((float(name[1:]), value) for name, value in times.items() if name[1:2].isdigit())
        ordered = [times["min"], *(value for _, value in percents), times["max"]]
        if any(after < before for before, after in pairwise(ordered)):
            raise self.refused("minimum, percentiles and maximum do not ascend")
        if not times["min"] <= times["mean"] <= times["max"]:
            raise self.refused("minimum, mean and maximum do not ascend")
