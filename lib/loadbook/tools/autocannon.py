"""autocannon 4 to 9: closed loop, single-threaded unless it has workers.

- `requests` are responses of any status, `ok` those of 2xx or 3xx, rates those over the run's duration. `latency` is
  in whole milliseconds, too coarse for fast pages (doubt `whole_ms`). A minimum above the median is left out.
- **No rate**: with `-R` the requests of a second all start at its beginning, and the correction adds times that no
  request had (`lib/run.js`). A report of such a run has doubts (`bursts`, `added_times`) and, unless `-C` was given,
  no latency.
- **No number of requests**: a run with `-a` ends at its next whole second, so that its report has neither duration
  nor rates (doubt `amount_rate`).
- Bodies that were cut are no errors: requests with neither response nor error are the doubt `unanswered`.
- **Read**: the output of `--json`. SIGINT and SIGTERM lose the report, and `-n` prints nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from loadbook.core.errors import ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base, line_patterns
from loadbook.tools.base import Measurement, ParsedReport, Target, ToolOutput
from loadbook.tools.json_report import JsonReport
from loadbook.tools.recipes import recipes

RESERVED_OPTIONS = (
    *("-c", "--connections", "-d", "--duration", "-a", "--amount", "-R", "--overallRate", "-r", "--connectionRate"),
    *("-t", "--timeout", "-w", "--workers", "-j", "--json", "-n", "--no-progress", "-H", "--headers", "-x"),
    *("--excludeErrorStats", "-C", "--ignoreCoordinatedOmission", "-S", "--socketPath", "-E", "--expectBody", "-f"),
    *("--forever", "-o", "--overallRate", "--on-port", "-B", "--bailout"),
)
STATISTICS = {
    "mean": "average", "sd": "stddev", "p50": "p50", "p75": "p75", "p90": "p90", "p99": "p99", "p99.9": "p99_9",
    "max": "max",
}  # fmt: skip
CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")


def has_option(argv: Sequence[str], *names: str) -> bool:
    """Return whether a command line has one of these options, with its value attached or not."""
    return any(re.match(rf"{re.escape(name)}(?:=|\d|$)", word) for word in argv for name in names)


def has_table(lines: Sequence[str]) -> bool:
    """Return whether lines are of the tables that autocannon prints without ``--json``."""
    return any("Req/Bytes counts sampled" in line or re.match(r"\d\S* requests in ", line) for line in lines)


class Autocannon(base.Tool):
    """autocannon; the module docstring defines its metrics."""

    name = "autocannon"
    binary = "autocannon"
    install_hint = recipes()["autocannon"].hint
    load_models = frozenset({"closed"})
    version_argv: tuple[str, ...] = ("autocannon", "--version")
    version_pattern = rb"^(?:autocannon )?v?(\d+\.\d[\w.+-]*)$"
    known_versions = ("4", "5", "6", "7", "8", "9")

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return autocannon's argument list; ToolError for connections of single requests, which it cannot make."""
        base.check_workload(self, workload, RESERVED_OPTIONS)
        if not workload.keepalive:
            raise ToolError("autocannon cannot open a connection for every request", "leave workload.keepalive out")
        if workload.connections % workload.threads:
            problem = f"autocannon gives each of {workload.threads} workers the same number of connections"
            raise ToolError(problem, "make connections a multiple of threads")
        argv = ["autocannon", "--json", "-c", str(workload.connections)]
        argv += ["-d", str(base.whole_seconds(self, "duration", duration_s))]
        argv += ["-t", str(base.whole_seconds(self, "timeout_s", workload.timeout_s))]
        argv += ["-w", str(workload.threads)] if workload.threads > 1 else []
        for name, value in workload.headers.items():
            argv += ["-H", f"{name}={value}"]
        return [*argv, *workload.extra, base.target_url(target, workload.path)]

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report in JSON."""
        report = _Report(output)
        return ParsedReport(tuple(report.rows()), doubts=tuple(report.doubts()))


TOOL = Autocannon()


class _Report(JsonReport):
    """One report in JSON, after a check that it is complete and does not contradict itself."""

    tool = "autocannon"

    def __init__(self, output: ToolOutput) -> None:
        self.output, self.line = output, 0
        self.report = report = self._read()
        self.codes = {name: self.count(report, name) for name in CLASSES}
        self.answered = sum(self.codes.values())
        self.latency, self.requests = self.table(report, "latency"), self.table(report, "requests")
        self.sent = self.count(self.requests, "sent")
        self.failed, self.timeouts = self.count(report, "errors"), self.count(report, "timeouts")
        self.seconds = self.number(report, "duration")
        self.received = self.number(self.table(report, "throughput"), "total")
        self._check()
        argv = output.argv
        # the report does not tell whether a number of requests ended the run: then nothing is under way at its end
        self.counted = has_option(argv, "-a", "--amount") if argv else self.sent == self.answered + self.failed > 0
        paced = has_option(argv, "-R", "--overallRate", "-r", "--connectionRate")
        times = self.latency.get("totalCount")
        self.added_times = paced and not has_option(argv, "-C", "--ignoreCoordinatedOmission")
        self.added_times = self.added_times if times is None else times != self.answered
        self.unanswered = 0 if paced else self.sent - self.answered - self.failed
        self.paced = paced

    def rows(self) -> Iterator[Measurement]:
        """Yield counts, rates and times."""
        ok, failed_status = self.codes["2xx"] + self.codes["3xx"], self.codes["4xx"] + self.codes["5xx"]
        yield Measurement("requests", "count", self.answered, "1", None)
        yield Measurement("ok", "count", ok, "1", None)
        if not self.counted:
            yield Measurement("requests_per_s", "value", self.answered / self.seconds, "1/s", None)
            yield Measurement("ok_per_s", "value", ok / self.seconds, "1/s", None)
            yield Measurement("duration", "value", self.seconds, "s", str(self.report["duration"]))
        yield Measurement("errors", "count", self.failed + self.answered - ok, "1", None)
        yield Measurement("errors_status", "count", failed_status, "1", None)
        yield Measurement("errors_timeout", "count", self.timeouts, "1", str(self.timeouts))
        yield Measurement("errors_other", "count", self.failed - self.timeouts + self.codes["1xx"], "1", None)
        for name, count in self.codes.items():
            yield Measurement(f"status_{name}", "count", count, "1", str(count))
        yield Measurement("bytes_read", "count", self.received, "B", str(self.received))
        if not self.counted:
            yield Measurement("bytes_per_s", "value", self.received / self.seconds, "B/s", None)
        if not self.answered or self.added_times:
            return
        statistics = STATISTICS if self.latency["min"] > self.latency["p50"] else {"min": "min"} | STATISTICS
        for statistic, key in statistics.items():
            yield Measurement("latency", statistic, self.latency[key] / 1000, "s", str(self.latency[key]))

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield the doubts about the numbers, as (name, sentence)."""
        argv = self.output.argv
        asked = next((after for word, after in pairwise(argv) if word in ("-d", "--duration")), "")
        if self.counted:
            text = "a number of requests ended the run, which lasts until its next whole second"
            yield "amount_rate", f"{text}: no duration, no rates"
        elif asked.isdecimal() and self.seconds < base.MIN_DURATION_SHARE * int(asked):
            yield "stopped_early", f"the load lasted {self.seconds:g} s of the {asked} s that were asked for"
        if self.added_times and self.answered:
            yield "added_times", "autocannon's correction added times of requests that were never made: no latency"
        elif self.answered and self.latency["average"] / 1000 < base.COARSE_S:
            yield "whole_ms", "autocannon has whole milliseconds only, too coarse for times this short"
        if self.paced:
            yield "bursts", "a rate of autocannon is a burst at the start of every second: not an open loop"
        limit = self.number(self.report, "connections") * max(1, self.number(self.report, "pipelining"))
        if self.unanswered > limit:
            yield "unanswered", f"{self.unanswered} of {self.sent} requests have neither a response nor an error"
        if self.output.exit_code:
            yield "exit_code", f"autocannon ended with exit code {self.output.exit_code}"

    def _read(self) -> dict[str, Any]:
        """Return the report; ParseError if there is none, or several."""
        report = self.read_one({"stdout": self.output.stdout}, "url", "requests", "latency")
        if report is None:
            raise self.refused(self._missing_reason())
        return report

    def _missing_reason(self) -> str:
        """Return the reason why there is no report, derived from the output of autocannon or of another program."""
        lines, errors = (
            [line for line in line_patterns.clean_lines(stream) if line]
            for stream in (self.output.stdout, self.output.stderr)
        )
        if any(has_table(stream) for stream in (errors, lines)):
            return "only autocannon's table, whose numbers are rounded: use --json"
        if not lines:
            circumstances = line_patterns.exit_text(self.output) + line_patterns.stderr_text(self.output)
            return f"empty: autocannon was stopped, could not start, or was told to be silent (-n){circumstances}"
        return line_patterns.other_output_text("autocannon", self.output)

    def _check(self) -> None:
        """Raise ParseError if the counts or the times contradict each other."""
        if not self.seconds > 0:
            raise self.refused("a duration of 0 s")
        total, non_2xx = self.count(self.requests, "total"), self.count(self.report, "non2xx")
        if total != self.answered or non_2xx != self.answered - self.codes["2xx"]:
            text = f"{total} requests, of them {non_2xx} without status 2xx, are not those of the classes"
            raise self.refused(f"{text} (autocannon -x leaves some out)")
        if self.timeouts > self.failed or self.sent < self.answered:
            raise self.refused("time-outs exceed errors, or responses the requests that were sent")
        for key in ("min", *STATISTICS.values()):
            self.number(self.latency, key)
        ordered = [self.latency[key] for key in ("p50", "p75", "p90", "p99", "p99_9")]
        if ordered != sorted(ordered) or ordered[-1] > self.latency["max"] + 1:
            raise self.refused("percentiles and maximum of the latency do not ascend")
