"""autocannon 4 to 9: closed loop, single-threaded unless it has workers.

- `requests` are responses of any status, `ok` those of 2xx or 3xx, rates those over the run's duration. `latency` is
  in whole milliseconds, too coarse for fast pages (doubt `whole_ms`). A minimum above the median is left out.
- **No rate**: with `-R` the requests of a second all start at its beginning, and the correction adds times that no
  request had (`lib/run.js`). A report of such a run has doubts (`bursts`, `added_times`) and, unless `-C` was given,
  `attempt_time` instead of `latency`.
- **Lost requests** (a server that closes kept connections, such as nginx after 1,000 requests) shift all later times of
  a connection. Then there is `attempt_time`, too (doubt `stale_times`); short shifts cannot be seen in a report. `-x`
  leaves times and bytes of all but 2xx out (doubt `good_only`).
- **No number of requests**: a run with `-a` ends at its next whole second, so that its report has neither duration
  nor rates (doubt `amount_rate`).
- Bodies that were cut are no errors: requests with neither response nor error are the doubt `unanswered`.
- Early versions time responses of 2xx alone; without any there is no `latency`.
- **Read**: the output of `--json`, and the table, which is on stderr. SIGINT and SIGTERM lose the report, and `-n`
  prints nothing.
- **The table** has the times and the duration of the JSON, but tells `requests` and `ok` for small rates only: it
  rounds. `--renderStatusCodes` tells every status, without it redirects and errors are one number (doubt `non_2xx`).
  It does not tell `-R`: keep the command beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from loadbook.core.errors import ParseError, ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base, line_patterns
from loadbook.tools.autocannon_text import CLASSES, Table, has_table, read_table
from loadbook.tools.base import Measurement, ParsedReport, Target, ToolOutput
from loadbook.tools.json_report import Document, JsonReport, find_report, printed_load
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
LITTLE_SLACK = 1.05  # factor by which the mean number of requests under way can seem to be above its limit
_PACED = ("-R", "--overallRate", "-r", "--connectionRate")


def has_option(argv: Sequence[str], *names: str) -> bool:
    """Return whether a command line has one of these options, with its value attached or not."""
    return any(re.match(rf"{re.escape(name)}(?:=|\d|$)", word) for word in argv for name in names)


class Autocannon(base.Tool):
    """autocannon; the module docstring defines its metrics."""

    name = "autocannon"
    binary = "autocannon"
    report_keys = ("url", "requests", "latency")
    install_hint = recipes()["autocannon"].hint
    load_models = frozenset({"closed"})
    version_argv: tuple[str, ...] = ("autocannon", "--version")
    version_pattern = rb"^(?:autocannon )?v?(\d+\.\d[\w.+-]*)$"
    known_versions = ("4", "5", "6", "7", "8", "9")
    report_begin = r"Running .* test @ "  # as wrk's
    report_end = r"\d+k? requests in "

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
        """Return the rows of one report in JSON; without it of the table, on stderr or in a file as stdout."""
        found = find_report(self.name, {"stdout": output.stdout}, *self.report_keys)
        if found is not None:
            report = _Report(output, found)
            load = printed_load(found.value, {"connections": "connections", "pipelining": "pipelining"}, "url")
            return ParsedReport(tuple(report.rows()), doubts=tuple(report.doubts()), load=load)
        for file, data in (("stdout", output.stdout), ("stderr", output.stderr)):
            if has_table(lines := line_patterns.clean_lines(data)):
                return _table_report(read_table(file, lines), output)
        raise ParseError(self.name, "stdout", 0, _missing_reason(output))


TOOL = Autocannon()


def _has_added_times(argv: Sequence[str]) -> bool:
    """Return whether a command line has a rate, without the option that leaves the times as they are."""
    return has_option(argv, *_PACED) and not has_option(argv, "-C", "--ignoreCoordinatedOmission")


def _excludes_errors(argv: Sequence[str]) -> bool:
    """Return whether a command line leaves out times and bytes of responses other than 2xx."""
    return has_option(argv, "-x", "--excludeErrorStats")


def _missing_reason(output: ToolOutput) -> str:
    """Return the reason why there is no report, derived from the output of autocannon or of another program."""
    if any(line_patterns.clean_lines(output.stdout)):
        return line_patterns.other_output_text("autocannon", output)
    circumstances = line_patterns.exit_text(output) + line_patterns.stderr_text(output)
    return f"empty: autocannon was stopped, could not start, or was told to be silent (-n){circumstances}"


def _table_report(table: Table, output: ToolOutput) -> ParsedReport:
    """Return the rows and doubts of a table."""
    unanswered = None
    if table.sent is not None and table.answered is not None and not table.is_rounded:
        unanswered = (table.sent - table.answered - int(table.failed), table.sent, table.limit)
    run = _Run(
        seconds=table.seconds,
        counted=table.asked_s is None,
        paced=has_option(output.argv, *_PACED),
        added_times=_has_added_times(output.argv),
        excluded=_excludes_errors(output.argv) and (table.codes != {} or table.good is not None),
        lost=table.failed != table.timeouts,
        answered=table.responses or 0.0,
        limit=table.limit,
        mean_ms=float(table.times["mean"].removesuffix(" ms")) if table.times else None,
        unanswered=unanswered,
        asked_s=table.asked_s,
    )
    doubts = (*run.doubts(output), *table.doubts())
    return ParsedReport(tuple(table.rows(run.counted, run.time_metric)), doubts=doubts, load=table.load)


class _Run(NamedTuple):
    """What the doubts about a run are judged by.

    `excluded`: times and bytes are those of 2xx only. `lost`: there were errors other than time-outs. `limit` is the
    number of requests that can be under way. `unanswered` is (requests without response and error, requests, `limit`),
    None if not known. `mean_ms` is None without a response.
    """

    seconds: float
    counted: bool
    paced: bool
    added_times: bool
    excluded: bool
    lost: bool
    answered: float
    limit: float
    mean_ms: float | None
    unanswered: tuple[int, int, float] | None
    asked_s: float | None = None

    @property
    def is_stale(self) -> bool:
        """Whether times are counted from an earlier request of the connection, as after each that was lost.

        autocannon keeps lost requests in the queue of a connection that it opens again (`lib/httpClient.js`). Then
        requests were lost, or more of them seem to be under way on average than there can be (Little's law).
        """
        if self.mean_ms is None or self.added_times:
            return False
        vanished = not self.paced and self.unanswered is not None and self.unanswered[0] > self.limit
        under_way = self.mean_ms / 1000 * self.answered / self.seconds
        return self.lost or vanished or under_way > LITTLE_SLACK * self.limit

    @property
    def time_metric(self) -> str:
        """The metric that the times are of."""
        return "attempt_time" if self.added_times or self.is_stale else "latency"

    def doubts(self, output: ToolOutput) -> Iterator[tuple[str, str]]:
        """Yield the doubts about the numbers, as (name, sentence)."""
        asked = next((after for word, after in pairwise(output.argv) if word in ("-d", "--duration")), "")
        asked_s = float(asked) if asked.isdecimal() else self.asked_s
        if self.counted:
            text = "a number of requests ended the run, which lasts until its next whole second"
            yield "amount_rate", f"{text}: no duration, no rates"
        elif asked_s and self.seconds < base.MIN_DURATION_SHARE * asked_s:
            yield "stopped_early", f"the load lasted {self.seconds:g} s of the {asked_s:g} s that were asked for"
        if self.added_times and self.mean_ms is not None:
            yield "added_times", "autocannon's correction added times of requests that were never made: no latency"
        elif self.is_stale:
            text = "after a lost request autocannon times each answer from an earlier request of its connection"
            yield "stale_times", f"{text}: no latency"
        elif self.mean_ms is not None and self.mean_ms / 1000 < base.COARSE_S:
            yield "whole_ms", "autocannon has whole milliseconds only, too coarse for times this short"
        if self.excluded and self.mean_ms is not None:
            yield "good_only", "autocannon -x: times and bytes are those of 2xx responses only"
        if self.paced:
            yield "bursts", "a rate of autocannon is a burst at the start of every second: not an open loop"
        elif self.unanswered and self.unanswered[0] > self.unanswered[2]:
            number, sent, _ = self.unanswered
            yield "unanswered", f"{number} of {sent} requests have neither a response nor an error"
        if output.exit_code:
            yield "exit_code", f"autocannon ended with exit code {output.exit_code}"


class _Report(JsonReport):
    """One report in JSON, after a check that it is complete and does not contradict itself."""

    tool = "autocannon"

    def __init__(self, output: ToolOutput, found: Document) -> None:
        self.output = output
        self.file, self.line, self.report = found
        report = self.report
        self.codes = {name: self.count(report, name) for name in CLASSES}
        self.answered = sum(self.codes.values())
        self.latency, self.requests = self.table(report, "latency"), self.table(report, "requests")
        self.sent = self.count(self.requests, "sent")
        self.failed, self.timeouts = self.count(report, "errors"), self.count(report, "timeouts")
        self.seconds = self.number(report, "duration")
        self.received = self.number(self.table(report, "throughput"), "total")
        # early versions time answers of 2xx alone, and print null where there is none
        self.is_timed = bool(self.answered) and (self.codes["2xx"] > 0 or self.latency.get("average") is not None)
        self._check()
        argv = output.argv
        # the report does not tell whether a number of requests ended the run: then nothing is under way at its end
        counted = has_option(argv, "-a", "--amount") if argv else self.sent == self.answered + self.failed > 0
        if self.latency.get("totalCount") is None:
            times = self.codes["2xx"] if _excludes_errors(argv) else self.answered
            added_times = _has_added_times(argv)
        else:
            times = self.count(self.latency, "totalCount")
            added_times = times > self.answered
        limit = self.number(report, "connections") * max(1, self.number(report, "pipelining"))
        self.run = _Run(
            seconds=self.seconds,
            counted=counted,
            paced=added_times or has_option(argv, *_PACED),
            added_times=added_times,
            excluded=times < self.answered,
            lost=self.failed > self.timeouts,
            answered=times,
            limit=limit,
            mean_ms=self.latency["average"] if self.is_timed else None,
            unanswered=(self.sent - self.answered - self.failed, self.sent, limit),
        )

    def rows(self) -> Iterator[Measurement]:
        """Yield counts, rates and times."""
        ok, failed_status = self.codes["2xx"] + self.codes["3xx"], self.codes["4xx"] + self.codes["5xx"]
        yield Measurement("requests", "count", self.answered, "1", None)
        yield Measurement("ok", "count", ok, "1", None)
        if not self.run.counted:
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
        if not self.run.counted:
            yield Measurement("bytes_per_s", "value", self.received / self.seconds, "B/s", None)
        if not self.is_timed:
            return
        statistics = STATISTICS if self.latency["min"] > self.latency["p50"] else {"min": "min"} | STATISTICS
        for statistic, key in statistics.items():
            yield Measurement(self.run.time_metric, statistic, self.latency[key] / 1000, "s", str(self.latency[key]))

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield the doubts about the numbers, as (name, sentence)."""
        yield from self.run.doubts(self.output)

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
        if self.answered and not self.is_timed:
            return
        for key in ("min", *STATISTICS.values()):
            self.number(self.latency, key)
        ordered = [self.latency[key] for key in ("p50", "p75", "p90", "p99", "p99_9")]
        if ordered != sorted(ordered) or ordered[-1] > self.latency["max"] + 1:
            raise self.refused("percentiles and maximum of the latency do not ascend")
