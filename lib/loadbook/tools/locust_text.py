"""Tables that Locust prints at the end of a run (on stderr, older versions on stdout), and rows of any of its tables.

Locust cuts mean, minimum and maximum to whole milliseconds, and rounds percentiles to them, from 100 on to two digits
(`locust/stats.py`). Rates have two decimals and count from the start of the run. Failures of all kinds are among the
requests and their times, so that with failures these are `attempts`, `attempts_per_s` and `attempt_time`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from loadbook.core.bucketed_times import Bucket, BucketedTimes
from loadbook.core.errors import ParseError
from loadbook.tools import base, line_patterns
from loadbook.tools.base import Measurement, ToolOutput

_HEAD = re.compile(r" *(?:Type +)?Name +# reqs +# fails +\|")
_ROW = re.compile(
    r" *(?P<name>.*?) +(?P<requests>\d+) +(?P<failures>\d+)\((?P<share>\d+\.\d\d)%\) *"
    r"\| *(?P<mean>\d+) +(?P<min>\d+) +(?P<max>\d+) +(?P<median>\d+) *"
    r"\| *(?P<rate>\d+\.\d\d) +(?P<failure_rate>\d+\.\d\d)"
)
START = r"\[[^\]]{1,40}\] \S{1,99}/INFO/locust\.main: Starting Locust .*"
TITLE = r" *Response time percentiles \(approximated\)"
_TITLE = re.compile(TITLE)
_PERCENT_HEAD = re.compile(r" *(?:Type +)?Name +(?P<percents>(?:\d+(?:\.\d+)?% +)+)# reqs")
_ERROR_HEAD = re.compile(r" *# occurrences +Error *")
_ERROR_ROW = re.compile(r" *(?P<number>\d+) +(?P<error>\S.*)")
_RULE = re.compile(r" *-[-|]+")
TOTAL = "Aggregated"
CUT_MS = 1.0  # step of the times that are cut


class Entry(NamedTuple):
    """One row of a table: all requests of one name, or of the whole run.

    `times` maps a statistic to (ms as printed, step in ms): mean, min, max, median, and percentiles such as p99.9.
    `rates` has the requests and the failures per second as printed, None if the table has none of the whole run.
    `rate_step` is the step of both.
    """

    line: int
    name: str
    requests: int
    failures: int
    times: dict[str, tuple[str, float]]
    rates: tuple[str, str] | None
    rate_step: float = 0.01

    def ms(self, statistic: str) -> float:
        """Return a time in ms."""
        return float(self.times[statistic][0])


class Figures(NamedTuple):
    """Rows and doubts of the whole run, and its duration in s, None if that is not known."""

    rows: tuple[Measurement, ...]
    doubts: tuple[tuple[str, str], ...]
    seconds: float | None


def rounded_step_ms(text: str) -> float:
    """Return the step in ms to which Locust rounds a percentile of this size: 1 below 100, 10 for ``"120"``."""
    return 10.0 ** max(0, min(len(text.partition(".")[0]) - 2, 3))


def rounded_times(counts: Mapping[float, int]) -> BucketedTimes:
    """Return the times that Locust rounds to those of `counts`, ms -> number, as its `StatsEntry._log_response_time`.

    Those below 100 ms are rounded to whole ones, those below 1 s to tens, those below 10 s to hundreds. So 100 stands
    for 99.5 to 105.
    """
    buckets = []
    for ms, number in sorted(counts.items()):
        above = rounded_step_ms(str(ms))
        below = rounded_step_ms(str(ms - above / 2)) if ms else 0.0
        buckets.append(Bucket(max(0.0, ms - below / 2) / 1000, (ms + above / 2) / 1000, number, ms / 1000))
    return BucketedTimes(sum(counts.values()), tuple(buckets))


def read_tables(output: ToolOutput) -> Figures | None:
    """Return the figures in Locust's last two tables; None if there is no table, ParseError if they are cut."""
    for file, data in (("stdout", output.stdout), ("stderr", output.stderr)):
        lines = line_patterns.clean_lines(data)
        if any(_HEAD.match(line) for line in lines):
            entries = _read_entries(file, lines)
            check_entries(file, entries)
            return figures(file, entries[-1], "table")
    return None


def read_error_report(output: ToolOutput) -> list[tuple[str, int]]:
    """Return (method, name and error; occurrences) of Locust's error report; [] if there is none, or it is cut."""
    for data in (output.stdout, output.stderr):
        lines = line_patterns.clean_lines(data)
        heads = [place for place, line in enumerate(lines) if _ERROR_HEAD.fullmatch(line)]
        if len(heads) != 1:
            continue
        errors: list[tuple[str, int]] = []
        for line in lines[heads[0] + 2 :]:  # below the head is a rule
            if _RULE.fullmatch(line):
                return errors
            if match := _ERROR_ROW.fullmatch(line):
                errors.append((match["error"], int(match["number"])))
    return []


def _read_entries(file: str, lines: Sequence[str]) -> list[Entry]:
    """Return the rows of the last tables, that of the whole run last."""
    titles = [place for place, line in enumerate(lines) if _TITLE.fullmatch(line)]
    if len(titles) > 1:
        raise ParseError("locust", file, titles[1] + 1, line_patterns.unsplit_report(lines[titles[1]]))
    heads = [place for place, line in enumerate(lines) if _HEAD.match(line)]
    if not titles or heads[-1] > titles[0]:
        reason = "report is not complete: Locust was killed, or its last table was cut"
        raise ParseError("locust", file, heads[-1] + 1, reason)
    head = _PERCENT_HEAD.fullmatch(lines[titles[0] + 1]) if titles[0] + 1 < len(lines) else None
    if head is None:
        raise ParseError("locust", file, titles[0] + 2, "line cut or changed; expected '... 50% ... 100% # reqs'")
    percents = head["percents"].replace("%", "").split()
    percentile_row = re.compile(rf" *(?P<name>.*?)(?P<times>(?: +\d+){{{len(percents)}}}) +(?P<requests>\d+)")
    entries = [_entry(number, row) for number, row in _rows(file, lines, heads[-1], _ROW)]
    timed = {row["name"]: (number, row) for number, row in _rows(file, lines, titles[0] + 1, percentile_row)}
    for entry in entries:
        if not entry.requests and entry.name not in timed:
            continue
        number, row = timed.pop(entry.name, (titles[0] + 1, {"requests": "", "times": ""}))
        if row["requests"] != str(entry.requests):
            raise ParseError(
                "locust", file, number, f"no percentiles of {entry.requests} requests of {entry.name[:60]!r}"
            )
        for percent, text in zip(percents, row["times"].split(), strict=True):
            entry.times[f"p{percent}"] = (text, rounded_step_ms(text))
    if timed:
        raise ParseError(
            "locust", file, min(n for n, _ in timed.values()), "percentiles of a name that has no requests"
        )
    return entries


def _rows(
    file: str, lines: Sequence[str], head: int, pattern: re.Pattern[str]
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield (line number, fields) of the rows of a table: between two rules, and one of the whole run behind them."""
    rules = 0
    for place in range(head + 1, len(lines)):
        if _RULE.fullmatch(lines[place]):
            rules += 1
            continue
        match = pattern.fullmatch(lines[place])
        if rules == 2 and (match or not lines[place]):
            if match and match["name"] == TOTAL:
                yield place + 1, match.groupdict()
                return
            if not match and pattern is not _ROW:  # a run without a single request
                return
        if match is None or rules != 1:
            raise ParseError(
                "locust", file, place + 1, f"row cut or changed, or not in its table: {lines[place][:60]!r}"
            )
        yield place + 1, match.groupdict()
    raise ParseError("locust", file, len(lines), f"report is not complete: no row {TOTAL!r}")


def _entry(line: int, row: Mapping[str, str]) -> Entry:
    requests, failures = int(row["requests"]), int(row["failures"])
    share = 100 * failures / requests if requests else 0.0
    if failures > requests or abs(float(row["share"]) - share) > 0.0051:
        raise ParseError(
            "locust", "stdout", line, f"{failures} failures of {requests} requests are not {row['share']}%"
        )
    times = {key: (row[key], CUT_MS) for key in ("mean", "min", "max", "median")} if requests else {}
    return Entry(line, row["name"], requests, failures, times, (row["rate"], row["failure_rate"]))


def check_entries(file: str, entries: Sequence[Entry]) -> None:
    """Raise ParseError if a row contradicts itself, or the last one is not the sum of the others."""
    *parts, total = entries
    if len({entry.name for entry in entries}) < len(entries):
        raise ParseError("locust", file, total.line, "a row is there twice")
    for entry in entries:
        _check_times(file, entry)
        if entry.rates and total.rates:
            slack = entry.rate_step * 0.51 * (entry.requests + total.requests) + 1e-6 * total.requests
            rates, counts = [*entry.rates, total.rates[0]], (entry.requests, entry.failures)
            for rate, count in zip(map(float, rates[:2]), counts, strict=True):
                if abs(rate * total.requests - count * float(rates[2])) > slack + 1e-4 * count * float(rates[2]):
                    raise ParseError("locust", file, entry.line, "its rates do not follow from its counts")
    counted = [part for part in parts if part.requests]
    if not counted:  # with --json, Locust forgets the names before it prints its tables
        return
    sums = [sum(part[at] for part in parts) for at in (2, 3)]  # type: ignore[misc]
    if sums != [total.requests, total.failures]:
        text = f"the rows have {sums[0]} requests and {sums[1]} failures, not {total.requests} and {total.failures}"
        raise ParseError("locust", file, total.line, text)
    weighted = sum(part.requests * part.ms("mean") for part in counted)
    slack = sum(part.requests * part.times["mean"][1] for part in counted) + 1e-6 * weighted
    extremes = (min(part.ms("min") for part in counted), max(part.ms("max") for part in counted))
    if abs(weighted - total.requests * total.ms("mean")) > slack or extremes != (total.ms("min"), total.ms("max")):
        raise ParseError(
            "locust", file, total.line, f"mean, minimum or maximum of {TOTAL} does not follow from the rows"
        )


def _check_times(file: str, entry: Entry) -> None:
    """Raise ParseError if the times of a row do not ascend, within the steps in which they are printed."""
    if not entry.times:
        return
    percentiles = [(float(text), step) for name, (text, step) in entry.times.items() if name.startswith("p")]
    percents = [float(name[1:]) for name in entry.times if name.startswith("p")]
    ascending = all(one[0] <= other[0] for one, other in pairwise(percentiles)) and percents == sorted({*percents})
    ascending = ascending and all(percent <= 100 for percent in percents)
    low, high = entry.ms("min"), entry.ms("max")
    inner = [*percentiles, (entry.ms("median"), rounded_step_ms(entry.times["median"][0]))]
    within = all(low - step <= value <= high + step for value, step in inner) and low <= entry.ms("mean") <= high
    last, step = percentiles[-1] if percentiles else (high, 1.0)
    if not ascending or not within or ("p100" in entry.times and abs(last - high) > step / 2 + CUT_MS):
        raise ParseError("locust", file, entry.line, "minimum, percentiles, mean and maximum do not ascend")


def figures(file: str, total: Entry, source: str) -> Figures:
    """Return the rows and doubts of the whole run by its row; `source` is the kind of table for the doubts."""
    failed = total.failures
    rate = float(total.rates[0]) if total.rates else 0.0
    known = rate and 0.5 * total.rate_step <= base.COARSE_STEP * rate
    seconds = total.requests / rate if known else None
    rows = [Measurement("attempts" if failed else "requests", "count", total.requests, "1", str(total.requests))]
    rows.append(Measurement("ok", "count", total.requests - failed, "1", None))
    if known and total.rates:
        metric = "attempts_per_s" if failed else "requests_per_s"
        rows.append(Measurement(metric, "value", rate, "1/s", total.rates[0]))
        rows.append(Measurement("ok_per_s", "value", rate * (1 - failed / total.requests), "1/s", None))
    if seconds is not None:
        rows.append(Measurement("duration", "value", seconds, "s", None))
    rows.append(Measurement("errors", "count", failed, "1", str(failed)))
    times = {"p50": total.times["median"]} | total.times if total.times else {}
    metric, coarse = "attempt_time" if failed else "latency", None
    for statistic, (text, step) in times.items():
        value = float(text)
        if statistic in ("median", "p100") or step > base.LARGEST_STEP * value:
            coarse = coarse or (text if statistic != "p100" else None)
            continue
        rows.append(Measurement(metric, statistic, value / 1000, "s", text, step / 1000))
        coarse = coarse or (text if step > base.COARSE_STEP * value else None)
    return Figures(tuple(rows), tuple(_doubts(total, source, coarse)), seconds)


def _doubts(total: Entry, source: str, coarse: str | None) -> Iterator[tuple[str, str]]:
    if total.failures:
        text = (
            f"{total.failures} of {total.requests} requests failed, and the {source} does not tell which had a response"
        )
        yield "failed_unknown", f"{text}: times and rates are those of all attempts"
    if coarse is not None:
        yield "whole_ms", f"Locust's {source} has whole milliseconds, from 100 on two digits, such as {coarse!r}"
