"""Artillery 2: its report in JSON (`--output`) is read, or the text that it prints; loadbook does not run it.

- `requests` are responses of any status; requests without one are `errors`, by the class that their codes tell if
  these are as many (doubt `errors_unclassed`): users also fail outside of requests. Rates
  are over the time from the first to the last event.
- Times are `ttfb`, to the first byte, in whole milliseconds, from the actual start. Percentiles are right to 1 %
  (DDSketch); a minimum was 13 ms where the server took 20 ms.
- The text has the same counts and times, without p75, p90 and p99.9. It has rates only if the load lay in one of the
  periods of 10 s by which Artillery reports (doubt `coarse_duration` if not).

Sources: Artillery `packages/core/lib/ssms.js`, `engine_http.js`, its reference "reported metrics"; 2.0.21 measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from loadbook.core.bucketed_times import BucketedTimes
from loadbook.core.errors import OtherProgram
from loadbook.core.metrics import count_error_classes
from loadbook.tools import artillery_text, base, line_patterns
from loadbook.tools.artillery_text import ArtilleryText
from loadbook.tools.base import Measurement, ParsedReport, ToolOutput
from loadbook.tools.json_report import JsonReport
from loadbook.tools.request_rows import status_rows

STATISTICS = {
    "mean": "mean", "min": "min", "p50": "p50", "p75": "p75", "p90": "p90", "p95": "p95", "p99": "p99", "p99.9": "p999",
    "max": "max",
}  # fmt: skip
TEXT_SUMMARY = artillery_text.REPORT_END.encode()
SKETCH_ERROR = 0.01  # of a percentile
# codes of Node's and got's errors -> classes
ERROR_PATTERNS = (
    ("errors_driver", r"EMFILE|ENFILE|EADDRNOTAVAIL|ENOBUFS"),
    ("errors_connect", r"ECONNREFUSED|ENOTFOUND|EHOSTUNREACH|ENETUNREACH|EAI_AGAIN"),
    ("errors_timeout", r"TIMEDOUT|Timeout"),
    ("errors_write", r"EPIPE"),
    ("errors_read", r"ECONNRESET|HPE_|ERR_STREAM|socket hang up"),
)


class Artillery(base.ImportedTool):
    """Artillery; the module docstring defines its metrics."""

    name = "artillery"
    binary = "artillery"
    report_begin = artillery_text.REPORT_BEGIN
    report_end = artillery_text.REPORT_END
    report_keys = ("aggregate", "intermediate")

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report: JSON on stdout or in a file beside it, else the text."""
        report = _Report(output)
        timed = {"ttfb": BucketedTimes(report.answered)} if report.times else {}
        return ParsedReport(tuple(report.rows()), doubts=tuple(report.doubts()), span=report.span, bucketed=timed)


TOOL = Artillery()


class _Report(JsonReport):
    """The aggregate of one report, after a check that it is complete and does not contradict itself.

    `text` is None for a report in JSON. `seconds` and `span` are None if a text does not tell them.
    """

    tool = "artillery"
    text: ArtilleryText | None = None
    span: tuple[float, float] | None = None
    seconds: float | None

    def __init__(self, output: ToolOutput) -> None:
        self.output, self.line = output, 0
        aggregate = self._read()
        self.counters = self.table(aggregate, "counters")
        self.sent = self._counter("http.requests")
        self.codes = {
            int(name.rpartition(".")[2]): self._counter(name)
            for name in self.counters
            if name.startswith("http.codes.") and name.rpartition(".")[2].isdigit()
        }
        self.answered = sum(self.codes.values())
        self.unanswered = self.sent - self.answered
        errors = (name for name in self.counters if name.startswith("errors."))
        self.failed = {name.removeprefix("errors."): self._counter(name) for name in errors}
        self._check()
        if self.text:
            self.seconds = self.text.seconds
        else:
            first_ms, last_ms = (self.number(aggregate, key) for key in ("firstMetricAt", "lastMetricAt"))
            self.span = (first_ms / 1000, last_ms / 1000)
            self.seconds = (last_ms - first_ms) / 1000
        self.times = self._times(self.table(aggregate, "summaries"))

    def rows(self) -> Iterator[Measurement]:
        """Yield counts, rates and times."""
        classes = count_error_classes(self.failed.items(), ERROR_PATTERNS)
        known = classes if sum(classes.values()) == self.unanswered else {}
        yield from status_rows(self.codes, known, self.unanswered, self.seconds)
        yield Measurement("bytes_read", "count", self._counter("http.downloaded_bytes"), "B", None)
        for statistic, value in self.times.items():
            printed = self.text.printed[artillery_text.NAMES.get(statistic, statistic)] if self.text else None
            step = artillery_text.step_s(statistic) if printed else None
            yield Measurement("ttfb", statistic, value, "s", printed, step)

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield the doubts about the numbers, as (name, sentence)."""
        by_code = sum(self.failed.values())
        if by_code != self.unanswered:
            most = sorted(self.failed.items(), key=lambda item: -item[1])[:4]
            codes = f" ({', '.join(f'{name} {number}' for name, number in most)})" if most else ""
            text = f"{by_code} errors by code{codes} are not the {self.unanswered} requests without a response"
            yield "errors_unclassed", f"{text}: they have no classes"
        unfinished = (
            self._counter("vusers.created") - self._counter("vusers.completed") - self._counter("vusers.failed")
        )
        if unfinished > 0:
            yield "stopped_early", f"{unfinished} users had not ended"
        if self.seconds is None:
            text = "the text does not tell the duration of the load, which is not in one of its periods"
            yield "coarse_duration", f"{text}: no rates"
        if self.times and self.times.get("mean", self.times["max"]) < base.COARSE_S:
            yield "whole_ms", "Artillery has whole milliseconds only, too coarse for times this short"
        if self.output.exit_code:
            yield "exit_code", f"artillery ended with exit code {self.output.exit_code}"

    def _counter(self, name: str) -> int:
        return self.count(self.counters, name) if name in self.counters else 0

    def _read(self) -> dict[str, Any]:
        """Return the aggregate of stdout or of a file; ParseError if there is none, or several."""
        contents = {"stdout": self.output.stdout, **self.output.files}
        report = self.read_one(contents, *TOOL.report_keys)
        if report is None and artillery_text.is_text(lines := line_patterns.clean_lines(self.output.stdout)):
            self.text = artillery_text.read_text(lines)
            self.line = self.text.line
            return self.text.aggregate
        if report is None:
            raise self.refused(self._missing_reason())
        if self.output.stdout.count(TEXT_SUMMARY) > 1:
            raise self.refused("a second report: two in one output")
        return self.table(report, "aggregate")

    def _missing_reason(self) -> str:
        """Return the reason why there is no report, derived from the output of Artillery or of another program."""
        if not self.output.stdout.strip():
            circumstances = line_patterns.exit_text(self.output) + line_patterns.stderr_text(self.output)
            return f"empty: artillery was killed, could not start, or wrote its JSON to a file{circumstances}"
        return line_patterns.other_output_text("artillery", self.output)

    def _check(self) -> None:
        """Raise ParseError if counts contradict each other."""
        if any(name.startswith(("socketio.", "websocket.", "browser.")) for name in self.counters) and not self.sent:
            raise self.refused(OtherProgram("no report of HTTP: loadbook reads those of Artillery's HTTP engine"))
        if self.unanswered < 0:
            raise self.refused(f"{self.answered} responses by status of {self.sent} requests")
        responses = self._counter("http.responses")
        if responses != self.answered:
            raise self.refused(f"{responses} responses are not the {self.answered} by status")
        if any(not 100 <= code < 600 for code in self.codes):
            raise self.refused(f"an impossible status: {max(self.codes)}")

    def _times(self, summaries: Mapping[str, Any]) -> dict[str, float]:
        """Return {statistic: s} of the time to the first byte; ParseError if they contradict each other."""
        if not self.answered:
            return {}
        table = self.table(summaries, "http.response_time")
        if self.count(table, "count") != self.answered:
            raise self.refused(f"times of {table['count']} responses, of {self.answered}")
        times = {
            name: self.number(table, key) / 1000 for name, key in STATISTICS.items() if key in (*table, "min", "max")
        }
        ordered = [value for name, value in times.items() if name != "mean"]
        if any(after < before * (1 - 2 * SKETCH_ERROR) for before, after in pairwise(ordered)):
            raise self.refused("minimum, percentiles and maximum do not ascend")
        if "mean" in times and not times["min"] <= times["mean"] * (1 + 1e-3) + 1e-4:
            raise self.refused("minimum and mean do not ascend")
        return times
