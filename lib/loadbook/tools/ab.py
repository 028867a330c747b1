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
from loadbook.core.units import BYTE_UNITS, COUNT_UNITS, TIME_UNITS_S
from loadbook.design.workload import Workload
from loadbook.tools import ab_files, plan, text
from loadbook.tools.ab_forms import ERROR_CLASSES, PERCENTILES, TIME_METRICS, line_patterns
from loadbook.tools.ab_report import AbReport, check_report, command_options, require_ab_report
from loadbook.tools.base import ToolOutput, Measurement, ParsedReport, Sample, Target
from loadbook.tools.text import TextReport

PERCENTILES_FILE = "pct.csv"
MAX_CONNECTIONS = 20_000  # ab.c MAX_CONCURRENCY
REQUESTS_PER_S, MAX_REQUESTS = 200_000, 100_000_000  # room for more than one thread can do; 32 B of memory each
RESERVED_OPTIONS = ("-n", "-c", "-t", "-s", "-k", "-e", "-r", "-q", "-w", "-h", "-V", "-X")
LOGIN_OPTIONS = ("-A", "-P", "-C")
COARSE_S = 0.010  # under this, a rounding of half a millisecond is more than the margin of 5 % for times


class Ab:
    """The tool ab; see the module's first lines for what its numbers mean."""

    name = "ab"
    binary = "ab"
    install_hint = "apt-get install apache2-utils"
    streamed_inputs = ("files",)
    load_models = frozenset({"closed"})
    known_versions = ("2.3",)
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
        plan.check_workload(self, workload, RESERVED_OPTIONS, supported_fields=("requests",), secret_options=LOGIN_OPTIONS)
        if workload.threads != 1:
            raise ToolError("ab has one thread only", "set threads = 1, or use the tool wrk")
        if workload.connections > MAX_CONNECTIONS:
            raise ToolError(f"ab opens {MAX_CONNECTIONS} connections at most", "lower connections, or use more drivers")
        argv = ["ab", "-q", "-r", *self._length(workload, duration_s), "-c", str(workload.connections)]
        argv += ["-s", str(plan.whole_seconds(self, "timeout_s", workload.timeout_s)), "-e", PERCENTILES_FILE]
        argv += ["-k"] if workload.keepalive else []
        for name, value in plan.request_headers(workload).items():
            argv += ["-H", f"{name}: {value}"]
        return [*argv, *workload.extra, plan.target_url(target, workload.path)]

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
        return (PERCENTILES_FILE, *(value for name, value in command_options(("ab", *workload.extra)) if name == "-g"))

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report, with the percentiles of -e where that file is there."""
        lines = text.clean_lines(output.stdout)
        require_ab_report(output, lines)
        report = text.read_report(self.name, lines, line_patterns(lines))
        run = AbReport(report, output, lines)
        check_report(run)
        exact = ab_files.percentiles(run.files, run.timed_requests, run.options.get("-e"))
        ab_files.check_percentiles(PERCENTILES_FILE, exact, run.percentiles_ms, run.timed_requests)
        rows = (*_count_rows(run), *_time_rows(run, exact))
        return ParsedReport(rows, tuple(_samples(run)), tuple(_doubts(run, exact)))


TOOL = Ab()


def _count_rows(run: AbReport) -> Iterator[Measurement]:
    """Yield counts and rates; texts are ab's own."""
    report, ok = run.report, run.ok
    duration = report.value("duration", TIME_UNITS_S, "s")
    answered = run.answered
    yield Measurement("requests", "count", answered, "1", report.text("complete") if answered == run.complete else None)
    if ok is not None:
        yield Measurement("ok", "count", ok, "1", None)
    if not answered:
        yield Measurement("requests_per_s", "value", 0.0, "1/s", None)
    elif "rate" in report:
        yield Measurement("requests_per_s", "value", report.value("rate", COUNT_UNITS), "1/s", report.text("rate"))
    if ok is not None and ("rate" in report or not answered):
        yield Measurement("ok_per_s", "value", _ok_per_s(report, ok), "1/s", None)
    yield Measurement("duration", "value", duration, "s", report.text("duration"))
    yield from _error_rows(run)
    yield Measurement("bytes_read", "count", run.count("bytes"), "B", report.text("bytes"))
    if "transfer" in report:
        yield Measurement("bytes_per_s", "value", report.value("transfer", BYTE_UNITS, "KB"), "B/s", report.text("transfer"))


def _ok_per_s(report: TextReport, ok: int) -> float:
    """Return ok / duration, with the duration from whichever of text and rate shows more digits of it."""
    if not ok:
        return 0.0
    rate, duration = report.value("rate", COUNT_UNITS), report.value("duration", TIME_UNITS_S, "s")
    if rate > 0 and (duration == 0 or 0.005 / rate < 0.0005 / duration):
        return rate * (ok / report.count("complete"))
    return ok / duration


def _error_rows(run: AbReport) -> Iterator[Measurement]:
    """Yield errors by class, and their total where only one class occurred: then nothing overlaps."""
    classes, status = run.failures, run.status_errors
    occurred = [n for n in (*classes.values(), status) if n != 0]
    unnoticed_failures = run.complete > 0 and run.count("bytes") == 0 and not occurred  # failures that ab did not notice
    if None not in occurred and len(occurred) < 2 and not unnoticed_failures:
        n = (occurred[0] if occurred else 0) or 0
        printed = run.report.text("failed") if n == run.count("failed") else None
        yield Measurement("errors", "count", n, "1", printed)
    fields = {error_class: field for field, error_class in ERROR_CLASSES.items()} | {"write": "write"}
    for name, n in classes.items():
        is_printed = fields[name] in run.report
        yield Measurement(f"errors_{name}", "count", n, "1", run.report.text(fields[name]) if is_printed else None)
    if status is not None:
        yield Measurement("errors_status", "count", status, "1", None)
    elif not any(classes.values()):  # ab tells how many were 2xx, not what the others were
        yield Measurement("status_2xx", "count", max(0, run.complete - run.count("non2xx")), "1", None)


def _time_rows(run: AbReport, exact: Mapping[int, str]) -> Iterator[Measurement]:
    """Yield times. With keep-alive, most requests connect in 0 ms: ab's times to connect are no connection's then."""
    names = {0: "min", **{p: f"p{p}" for p in PERCENTILES}, 100: "max"}
    table = {names[p]: run.report.text(f"p{p}") for p in PERCENTILES if f"p{p}" in run.report}
    table |= {names[p]: milliseconds for p, milliseconds in exact.items() if p in names}
    for row, metric in TIME_METRICS.items():
        if not run.answered or (metric == "connect_time" and run.count("kept")):
            continue
        statistics = ("mean", "sd", "min", "max", "p50")
        printed_values = {s: run.report.text(f"{row}_{s}").strip() for s in statistics if f"{row}_{s}" in run.report}
        for statistic, printed in (printed_values | (table if metric == "latency" else {})).items():
            yield Measurement(metric, statistic, float(f"{printed}e-3"), "s", printed)


def _samples(run: AbReport) -> Iterator[Sample]:
    """Yield requests started in each second, from -g; x is the second's start."""
    for second, n in ab_files.started_per_second(run.files, run.timed_requests, run.percentiles_ms, run.options.get("-g")):
        yield Sample("started", "requests_per_s", second, "s", n, "1/s")


def _doubts(run: AbReport, exact: Mapping[int, str]) -> Iterator[tuple[str, str]]:
    """Yield what makes the numbers mean less than they seem to."""
    report, complete, options = run.report, run.complete, run.options
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
    limit = int(options.get("-n", "0") if options.get("-n", "").isdecimal() else 0)
    early = report.value("duration", TIME_UNITS_S, "s") < _min_duration_s(options.get("-t", "0"))
    if early and complete >= limit > 0:
        yield "request_cap", f"ab stopped at {complete} requests after {report.text('duration')} s of {options['-t']} s"
    elif complete < limit and (early or "-t" not in options):
        yield "stopped_early", f"{complete} of {limit} requests were done when ab was stopped"
    if "-k" in options and run.count("kept") < complete / 2:
        yield "keepalive", f"{run.count('kept')} of {complete} requests were kept alive by the server"
    if "achieved" in report and run.count("achieved") < run.count("concurrency"):
        yield "connections", f"{report.text('achieved')} of {report.text('concurrency')} connections were opened"
    if run.timed_requests < complete:
        yield "latency_averaged", f"times are means over a window of {run.timed_requests} requests: percentiles are too narrow"
    if run.answered and not exact and report.count("total_mean") * 1e-3 < COARSE_S:
        yield "whole_ms", "times are whole milliseconds, too coarse for times this short; ab -e writes finer ones"
    if b"illegal option" in run.output.stderr or b"invalid option" in run.output.stderr:
        yield "options", "ab did not know an option, ignored the rest of its command line, and ran all the same"
    if run.output.exit_code:
        yield "exit_code", f"ab ended with exit code {run.output.exit_code} although its report is complete"


def _min_duration_s(printed: str) -> float:
    """Return the value of -t, less the resolution with which ab keeps to it."""
    return float(printed) * 0.98 if printed.isdecimal() else 0.0
