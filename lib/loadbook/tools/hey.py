"""hey 0.1: its text report and its CSV are read; loadbook does not run it.

- `requests` are responses of any status; "Requests/sec" counts failed attempts, `requests_per_s` responses. Failures
  have no class except those that their messages tell. Times have steps of 0.1 ms.
- A rate (`-q`) is that of each worker, and late requests are never made up: times are `service_time`.
- The CSV (`-o csv`) has no failed attempts, so that there are no `errors` (doubt `failed_missing`). Its times below 0.4
  ms are left out. `duration` is from the first start to the last end; before 0.1.2 there is none, and no rate.
- Reports of over a million responses, of which hey forgets the rest, are refused.

Sources: hey `requester/print.go`, `requester/report.go`; versions 0.1.2 and 0.1.5 measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from loadbook.core import units
from loadbook.core.errors import OtherProgram, ParseError
from loadbook.core.go_programs import FAILURE_PATTERNS, duration_s, number_option, option
from loadbook.core.metrics import count_error_classes
from loadbook.tools import base, line_patterns, response_csv
from loadbook.tools.base import Measurement, ParsedReport, ToolOutput
from loadbook.tools.line_patterns import LinePattern
from loadbook.tools.oha import is_text_report
from loadbook.tools.request_rows import status_rows, timed_load_doubts

DEFAULT_WORKERS = 50
STEP_S = 0.0001  # unit of the last digit of hey's times
_SECONDS = r"(?P<{}>\d+\.\d{{4}}| NaN) secs"
_LINES = (
    LinePattern("head", "Summary:", r"Summary:"),
    LinePattern("total", "  Total:	2.0121 secs", r"  Total:(?:\t| +)", _SECONDS.format("total")),
    LinePattern("slowest", "  Slowest:	0.0230 secs", r"  Slowest:(?:\t| +)", _SECONDS.format("max")),
    LinePattern("fastest", "  Fastest:	0.0102 secs", r"  Fastest:(?:\t| +)", _SECONDS.format("min")),
    LinePattern("average", "  Average:	0.0112 secs", r"  Average:(?:\t| +)", _SECONDS.format("mean")),
    LinePattern("rate", "  Requests/sec:	444.3131", r"  Requests/sec:(?:\t| +)", r"(?P<rate>\d+\.\d{4})"),
    LinePattern(
        "data", "  Total data:	10728 bytes", r"  Total data:(?:\t| +)", r"(?P<bytes>\d+) bytes", optional=True
    ),
    LinePattern("histogram", "Response time histogram:", r"Response time histogram:"),
    LinePattern("latencies", "Latency distribution:", r"Latency distribution:"),
    LinePattern("details", "Details (average, fastest, slowest):", r"Details \(average, fastest, slowest\):"),
    LinePattern("statuses", "Status code distribution:", r"Status code distribution:"),
    LinePattern("errors", "Error distribution:", r"Error distribution:", optional=True),
)
# beginning and whole of a row of each table
_PERCENTILE = re.compile(r"  \d+%"), re.compile(r"  (\d+)%%? in (\d+\.\d{4}) secs")
_STATUS = re.compile(r"  \["), re.compile(r"  \[([1-5]\d\d)\](?:\t| +)(\d+) responses")
_FAILURE = re.compile(r"  \["), re.compile(r"  \[(\d+)\](?:\t| +)(.+)")
_ROWS = dict.fromkeys((r"\d+%%? in .*", r"\[\d+\](?:\t| +).*"), "  ")
_PERCENTS = (10, 25, 50, 75, 90, 95, 99)


class Hey(base.ImportedTool):
    """hey; the module docstring defines its metrics."""

    name = "hey"
    binary = "hey"
    report_begin = r"Summary:"
    report_end = r"Status code distribution:"
    streamed_inputs = ("stdout", "files")
    rows_begin = "response-time,DNS"

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one text report, or of one CSV."""
        if found := response_csv.find_csv(response_csv.HEY, output):
            rate = _offered_per_s(output.argv)
            seconds, number = duration_s(option(output.argv, "z") or "") or 0.0, number_option(output.argv, "n") or 0.0
            load = response_csv.Load(seconds, 0.0 if seconds else number, rate)
            metric = "service_time" if rate else "latency"
            return response_csv.parse(response_csv.HEY, *found, metric, load, output)
        report = _Report(output)
        return ParsedReport(tuple(report.rows()), doubts=tuple(report.doubts()))


TOOL = Hey()


def _offered_per_s(argv: Sequence[str]) -> float | None:
    """Return the rate of all workers together in 1/s; None without one."""
    return (number_option(argv, "c") or DEFAULT_WORKERS) * (number_option(argv, "q") or 0) or None


class _Report:
    """One text report, after a check that it is complete and does not contradict itself."""

    def __init__(self, output: ToolOutput) -> None:
        lines = line_patterns.restore_indentation(line_patterns.clean_lines(output.stdout), _LINES, _ROWS)
        self.output = output
        self._require(lines)
        self.text = text = line_patterns.read_report("hey", lines, _LINES)
        self.seconds = text.value("total", units.TIME_UNITS_S, "s")
        places = text.line_numbers
        after_statuses = places.get("errors", len(lines))
        statuses = self.text.rows(lines, places["statuses"], after_statuses, _STATUS)
        failures = self.text.rows(lines, after_statuses, len(lines), _FAILURE)
        percentiles = self.text.rows(lines, places["latencies"], places["details"], _PERCENTILE)
        self.statuses = {int(code): int(n) for code, n in statuses}
        self.errors = count_error_classes(((message, int(n)) for n, message in failures), FAILURE_PATTERNS)
        self.answered, self.unanswered = sum(self.statuses.values()), sum(self.errors.values())
        self._check_rows(lines, statuses, failures, percentiles)
        # hey prints 0% for a percentile of which there are too few requests
        self.percentiles = {
            int(percent): (float(seconds), seconds) for percent, seconds in percentiles if percent != "0"
        }
        self.offered_per_s = _offered_per_s(output.argv)
        self._check()

    def rows(self) -> Iterator[Measurement]:
        """Yield counts, rates and times."""
        yield from status_rows(self.statuses, self.errors, self.unanswered, self.seconds, self.offered_per_s)
        if "bytes" in self.text:
            read = self.text.count("bytes")
            yield Measurement("bytes_read", "count", read, "B", self.text.text("bytes"))
            yield Measurement("bytes_per_s", "value", read / self.seconds, "B/s", None)
        if not self.answered:
            return
        metric = "service_time" if self.offered_per_s else "latency"
        for statistic in ("mean", "min", "max"):
            value = self.text.value(statistic, units.TIME_UNITS_S, "s")
            yield Measurement(metric, statistic, value, "s", self.text.text(statistic))
        for percent, (value, printed) in self.percentiles.items():
            if percent >= 50:
                yield Measurement(metric, f"p{percent}", value, "s", printed)

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield the doubts about the numbers, as (name, sentence)."""
        argv, attempts = self.output.argv, self.answered + self.unanswered
        asked_s, number = duration_s(option(argv, "z") or "") or 0.0, number_option(argv, "n") or 0
        if self.answered and self.text.value("mean", units.TIME_UNITS_S, "s") < STEP_S / 2 / 0.05:
            yield "coarse_times", "hey's times have steps of 0.1 ms, too coarse for times this short"
        if not asked_s and attempts < number:
            text = f"{attempts} attempts of the {number:g} requests that were asked for"
            yield "stopped_early", f"{text} (hey makes a multiple of its workers)"
        made, why_late = f"{attempts} requests", "hey never makes up for late ones"
        yield from timed_load_doubts(made, attempts, self.seconds, asked_s, self.offered_per_s, why_late)
        if self.output.exit_code:
            yield "exit_code", f"hey ended with exit code {self.output.exit_code}"

    def _require(self, lines: Sequence[str]) -> None:
        """Raise ParseError with the probable reason unless there is a report."""
        if not any(lines) and b"Usage: hey" in self.output.stderr:
            reason = f"hey printed its usage: an argument was wrong{line_patterns.exit_text(self.output)}"
            raise ParseError("hey", "stdout", 0, reason + line_patterns.stderr_text(self.output))
        if is_text_report(lines):  # its first line is as hey's
            raise ParseError("hey", "stdout", 0, OtherProgram("no report of hey but one of oha"))
        line_patterns.require_report("hey", self.output, lines, Hey.report_begin, Hey.report_end)

    def _check_rows(self, lines: Sequence[str], *tables: Sequence[tuple[str, ...]]) -> None:
        """Raise ParseError for rows outside of their tables, twice, in another order, missing, or cut at the end."""
        statuses, failures, percentiles = tables
        percents = [int(percent) for percent, _ in percentiles if percent != "0"]
        if len({code for code, _ in statuses}) < len(statuses) or len(set(failures)) < len(failures):
            raise self.text.error_at("statuses", "a row is there twice")
        if self.answered and (len(percentiles) != len(_PERCENTS) or not set(percents) <= set(_PERCENTS)):
            raise self.text.error_at("latencies", f"{len(percentiles)} percentiles instead of {len(_PERCENTS)}")
        if percents != sorted(set(percents)):
            raise self.text.error_at("latencies", "percentiles do not ascend")
        beginnings = (_STATUS[0], _PERCENTILE[0])
        if sum(any(begin.match(line) for begin in beginnings) for line in lines) != sum(map(len, tables)):
            raise self.text.error_at("statuses", "a row is not in its table")
        if failures and _FAILURE[0].match(lines[-1]):
            raise self.text.error_at("errors", "report is not complete: its last line has no end")

    def _check(self) -> None:
        """Raise ParseError if counts, rate or times contradict each other."""
        if not self.seconds > 0:
            raise self.text.error_at("total", "a total time of 0 s")
        attempts, rate = self.answered + self.unanswered, self.text.value("rate", units.COUNT_UNITS)
        low, high = (rate * (self.seconds + sign * STEP_S / 2) for sign in (-1, 1))
        if not low - 0.5 <= attempts <= high + 0.5:
            text = f"statuses and errors have {attempts} attempts, and the rate {low:.0f} to {high:.0f}"
            raise self.text.error_at("rate", f"{text}: hey keeps a million responses at most")
        self.seconds = attempts / rate if attempts else self.seconds  # more digits than the total time
        if not self.answered:
            return
        table = units.TIME_UNITS_S
        low, mean, high = (self.text.value(name, table, "s") for name in ("min", "mean", "max"))
        ordered = [low, *(value for value, _ in self.percentiles.values()), high]
        if ordered != sorted(ordered) or not low <= mean <= high:
            raise self.text.error_at("latencies", "fastest, percentiles, average and slowest do not ascend")
