"""ab 2.3: closed loop, HTTP/1.0, one thread (apache/httpd `support/ab.c`, formats.md section 3).

`requests` are ab's complete requests, failed ones included, unless not a byte came back: then none was answered. Its
classes of failures overlap, so that it does not tell how many answers were good once two of them occurred, or once an
answer was not 2xx: ab does not tell 3xx from 4xx. `ok` is left out then. `latency` is ab's total time, connecting
included; `ttfb` its waiting time. The report has whole milliseconds; the percentiles in the file of -e have 0.001 ms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from loadbook.core.errors import ToolError
from loadbook.core.units import BYTES, COUNT, TIME_S
from loadbook.design.workload import Workload
from loadbook.tools import ab_files, plan, text
from loadbook.tools.ab_forms import CLASSES, PERCENTILES, TIMES, forms
from loadbook.tools.ab_report import Run, check, options, require
from loadbook.tools.base import Captured, Measurement, Parsed, Sample, Target
from loadbook.tools.text import Report

CSV = "pct.csv"
MAX_CONNECTIONS = 20_000  # ab.c MAX_CONCURRENCY
REQUESTS_PER_S, MAX_REQUESTS = 200_000, 100_000_000  # room for more than one thread can do; 32 B of memory each
OWNED = ("-n", "-c", "-t", "-s", "-k", "-e", "-r", "-q", "-w", "-h", "-V", "-X")
LOGIN = ("-A", "-P", "-C")
COARSE_S = 0.010  # under this, a rounding of half a millisecond is more than the margin of 5 % for times


class Ab:
    """The tool ab; see the module's first lines for what its numbers mean."""

    name = "ab"
    binary = "ab"
    get = "apt-get install apache2-utils"
    streams = ("files",)
    load_models = frozenset({"closed"})
    known = ("2.3",)
    version_argv: tuple[str, ...] = ("ab", "-V")

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version, ``2.3``, with the revision where the build tells it."""
        match = re.search(rb"ApacheBench, Version (\d[\w.-]*)(?: <\$Revision: (\d+))?", stdout + stderr)
        if not match:
            raise ToolError(f"ab: no version in {(stdout + stderr)[:80]!r}", "install ab (apt install apache2-utils)")
        return match[1].decode() + (f" r{match[2].decode()}" if match[2] else "")

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return ab's argument list: -n after -t lifts -t's cap of 50,000; -r, since a reset would end ab unreported.

        For pages whose length changes, put ``-l`` into `extra`: ab calls every other length than the first a failure.
        """
        plan.check(self, workload, OWNED, able=("requests",), secret=LOGIN)
        if workload.threads != 1:
            raise ToolError("ab has one thread only", "set threads = 1, or use the tool wrk")
        if workload.connections > MAX_CONNECTIONS:
            raise ToolError(f"ab opens {MAX_CONNECTIONS} connections at most", "lower connections, or use more drivers")
        argv = ["ab", "-q", "-r", *self._length(workload, duration_s), "-c", str(workload.connections)]
        argv += ["-s", str(plan.whole_seconds(self, "timeout_s", workload.timeout_s)), "-e", CSV]
        argv += ["-k"] if workload.keepalive else []
        for name, value in plan.headers(workload).items():
            argv += ["-H", f"{name}: {value}"]
        return [*argv, *workload.extra, plan.url(target, workload.path)]

    def _length(self, workload: Workload, duration_s: float) -> list[str]:
        """Return the options that end the run."""
        if workload.requests is not None:
            return ["-n", str(workload.requests)]
        seconds = plan.whole_seconds(self, "duration", duration_s)
        return ["-t", str(seconds), "-n", str(max(min(seconds * REQUESTS_PER_S, MAX_REQUESTS), workload.connections))]

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return nothing: ab needs no files."""
        return {}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return the file of percentiles, and that of -g if `extra` asks for one."""
        return (CSV, *(value for name, value in options(("ab", *workload.extra)) if name == "-g"))

    def parse(self, captured: Captured) -> Parsed:
        """Return the rows of one report, with the percentiles of -e where that file is there."""
        lines = text.lines(captured.stdout)
        require(captured, lines)
        report = text.read(self.name, lines, forms(lines))
        run = Run(report, captured, lines)
        check(run)
        exact = ab_files.percentiles(run.files, run.timed, run.asked.get("-e"))
        ab_files.check_percentiles(CSV, exact, run.whole, run.timed)
        rows = (*_count_rows(run), *_time_rows(run, exact))
        return Parsed(rows, tuple(_samples(run)), tuple(_doubts(run, exact)))


TOOL = Ab()


def _count_rows(run: Run) -> Iterator[Measurement]:
    """Yield counts and rates; texts are ab's own."""
    report, ok = run.report, run.ok
    duration = report.value("duration", TIME_S, "s")
    answered = run.answered
    yield Measurement("requests", "count", answered, "1", report.text("complete") if answered == run.complete else None)
    if ok is not None:
        yield Measurement("ok", "count", ok, "1", None)
    if not answered:
        yield Measurement("requests_per_s", "value", 0.0, "1/s", None)
    elif "rate" in report:
        yield Measurement("requests_per_s", "value", report.value("rate", COUNT), "1/s", report.text("rate"))
    if ok is not None and ("rate" in report or not answered):
        yield Measurement("ok_per_s", "value", _per_second(report, ok), "1/s", None)
    yield Measurement("duration", "value", duration, "s", report.text("duration"))
    yield from _error_rows(run)
    yield Measurement("bytes_read", "count", run.count("bytes"), "B", report.text("bytes"))
    if "transfer" in report:
        yield Measurement("bytes_per_s", "value", report.value("transfer", BYTES, "KB"), "B/s", report.text("transfer"))


def _per_second(report: Report, ok: int) -> float:
    """Return ok / duration, with the duration from whichever of text and rate shows more digits of it."""
    if not ok:
        return 0.0
    rate, duration = report.value("rate", COUNT), report.value("duration", TIME_S, "s")
    if rate > 0 and (duration == 0 or 0.005 / rate < 0.0005 / duration):
        return rate * (ok / report.count("complete"))
    return ok / duration


def _error_rows(run: Run) -> Iterator[Measurement]:
    """Yield errors by class, and their total where only one class occurred: then nothing overlaps."""
    classes, status = run.failures, run.status_errors
    occurred = [n for n in (*classes.values(), status) if n != 0]
    silent = run.complete > 0 and run.count("bytes") == 0 and not occurred  # failures that ab did not notice
    if None not in occurred and len(occurred) < 2 and not silent:
        n = (occurred[0] if occurred else 0) or 0
        printed = run.report.text("failed") if n == run.count("failed") else None
        yield Measurement("errors", "count", n, "1", printed)
    fields = {ours: field for field, ours in CLASSES.items()} | {"write": "write"}
    for name, n in classes.items():
        given = fields[name] in run.report
        yield Measurement(f"errors_{name}", "count", n, "1", run.report.text(fields[name]) if given else None)
    if status is not None:
        yield Measurement("errors_status", "count", status, "1", None)
    elif not any(classes.values()):  # ab tells how many were 2xx, not what the others were
        yield Measurement("status_2xx", "count", max(0, run.complete - run.count("non2xx")), "1", None)


def _time_rows(run: Run, exact: Mapping[int, str]) -> Iterator[Measurement]:
    """Yield times. With keep-alive, most requests connect in 0 ms: ab's times to connect are no connection's then."""
    names = {0: "min", **{p: f"p{p}" for p in PERCENTILES}, 100: "max"}
    table = {names[p]: run.report.text(f"p{p}") for p in PERCENTILES if f"p{p}" in run.report}
    table |= {names[p]: milliseconds for p, milliseconds in exact.items() if p in names}
    for row, metric in TIMES.items():
        if not run.answered or (metric == "connect_time" and run.count("kept")):
            continue
        statistics = ("mean", "sd", "min", "max", "p50")
        found = {s: run.report.text(f"{row}_{s}").strip() for s in statistics if f"{row}_{s}" in run.report}
        for statistic, printed in (found | (table if metric == "latency" else {})).items():
            yield Measurement(metric, statistic, float(f"{printed}e-3"), "s", printed)


def _samples(run: Run) -> Iterator[Sample]:
    """Yield requests started in each second, from -g; x is the second's start."""
    for second, n in ab_files.started_per_second(run.files, run.timed, run.whole, run.asked.get("-g")):
        yield Sample("started", "requests_per_s", second, "s", n, "1/s")


def _doubts(run: Run, exact: Mapping[int, str]) -> Iterator[tuple[str, str]]:
    """Yield what makes the numbers mean less than they seem to."""
    report, complete, asked = run.report, run.complete, run.asked
    if complete and run.count("bytes") == 0:
        yield "zero_bytes", f"ab calls {complete} requests complete, but not a byte came back: none was answered"
    elif sum(n > 0 for n in run.failures.values()) > 1:
        yield "errors_overlap", "one failure counts in several of ab's classes: total and good answers cannot be told"
    if run.status_errors is None:
        yield (
            "non_2xx",
            (
                f"{report.text('non2xx')} of {complete} answers were not 2xx; ab does not tell redirects from errors, "
                "so neither good answers nor error responses are counted"
            ),
        )
    limit = int(asked.get("-n", "0") if asked.get("-n", "").isdecimal() else 0)
    early = report.value("duration", TIME_S, "s") < _seconds(asked.get("-t", "0"))
    if early and complete >= limit > 0:
        yield "request_cap", f"ab stopped at {complete} requests after {report.text('duration')} s of {asked['-t']} s"
    elif complete < limit and (early or "-t" not in asked):
        yield "stopped_early", f"{complete} of {limit} requests were done when ab was stopped"
    if "-k" in asked and run.count("kept") < complete / 2:
        yield "keepalive", f"{run.count('kept')} of {complete} requests were kept alive by the server"
    if "achieved" in report and run.count("achieved") < run.count("concurrency"):
        yield "connections", f"{report.text('achieved')} of {report.text('concurrency')} connections were opened"
    if run.timed < complete:
        yield "latency_averaged", f"times are means over a window of {run.timed} requests: percentiles are too narrow"
    if run.answered and not exact and report.count("total_mean") * 1e-3 < COARSE_S:
        yield "whole_ms", "times are whole milliseconds, too coarse for times this short; ab -e writes finer ones"
    if b"illegal option" in run.captured.stderr or b"invalid option" in run.captured.stderr:
        yield "options", "ab did not know an option, ignored the rest of its command line, and ran all the same"
    if run.captured.rc:
        yield "exit_code", f"ab ended with exit code {run.captured.rc} although its report is complete"


def _seconds(printed: str) -> float:
    """Return the value of -t, less the resolution with which ab keeps to it."""
    return float(printed) * 0.98 if printed.isdecimal() else 0.0
