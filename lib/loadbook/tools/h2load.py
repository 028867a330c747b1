"""h2load: closed loop, HTTP/1.1 or 2 (nghttp2/nghttp2 `src/h2load.cc`, formats.md section 5).

`requests` are answers of any status, like h2load's req/s; `ok` its "succeeded" (2xx and 3xx). Its "failed" are all that
did not succeed: never issued, lost with their connection (the two are "errored"), or answered with another status. With
-D, `duration` is the one asked for, without warm-up, and h2load forgets requests that were lost with a connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from loadbook.core.errors import ToolError
from loadbook.core.units import BYTE_UNITS, COUNT_UNITS, TIME_UNITS_S
from loadbook.design.workload import Workload
from loadbook.tools import h2load_log, plan, text
from loadbook.tools.base import ToolOutput, Measurement, ParsedReport, Target
from loadbook.tools.h2load_forms import LINE_PATTERNS, TIME_ROWS, table_row
from loadbook.tools.h2load_log import RequestLog
from loadbook.tools.h2load_report import MAX_SAMPLES, answered_count, check_report, client_count, read_request_log, ok_per_s
from loadbook.tools.text import TextReport

RESERVED_OPTIONS = (
    *("-n", "--requests", "-c", "--clients", "-t", "--threads", "-D", "--duration", "--warm-up-time"),
    *("-i", "--input-file", "-B", "--base-uri", "--connect-to", "-h", "--help", "--version"),
)
REPORT_START = r"spawning thread #\d+: \d+ total client|finished in \d+(\.\d\d)?(us|ms|s),"
LOST_CONNECTION_RATIO = 1.1  # rates of the clients over the whole's rate: above it, clients ended before the test did


class H2load:
    """The tool h2load; see the module's first lines for what its numbers mean.

    Open loads are not offered: --rps is per client, waits for answers, and its times are not from the intended start.
    """

    name = "h2load"
    binary = "h2load"
    install_hint = "apt-get install nghttp2-client"
    streamed_inputs = ("files",)
    load_models = frozenset({"closed"})
    known_versions = ("1",)
    version_argv: tuple[str, ...] = ("h2load", "--version")

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version, ``1.52.0``."""
        match = re.search(rb"^h2load nghttp2/(\d\S*)", stdout + stderr, re.MULTILINE)
        if not match:
            raise ToolError(
                f"h2load: no version in {(stdout + stderr)[:80]!r}", "install h2load (apt install nghttp2-client)"
            )
        return match[1].decode()

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return h2load's argument list, for HTTP/1.1; ``-m 10`` or ``--npn-list=h2`` in `extra` come after that.

        `timeout_s` has no option: h2load 1.52 aborts when ``-N`` finds an idle connection in a test with ``-D``.
        """
        plan.check_workload(self, workload, RESERVED_OPTIONS, supported_fields=("requests",))
        plan.check_no_timeout(self, workload)
        if not workload.keepalive:
            # asked with Connection: close, h2load 1.52 opens connection after connection and never ends
            raise ToolError("h2load cannot close connections after each request", "use the tool wrk or ab")
        if workload.connections < workload.threads:
            raise ToolError(
                f"h2load needs a connection for each of {workload.threads} threads, not {workload.connections}",
                "raise connections or lower threads",
            )
        if any(word.startswith("--log-file") and "/" in word for word in workload.extra):
            raise ToolError("h2load's log must be in the working folder, from where it is collected", "drop the folder")
        argv = ["h2load", "--h1", f"-c{workload.connections}", f"-t{workload.threads}"]
        argv += ["-D", _duration(duration_s)] if workload.requests is None else ["-n", str(workload.requests)]
        for name, value in plan.request_headers(workload).items():
            argv += ["-H", _header(name, value)]
        return [*argv, *workload.extra, plan.target_url(target, workload.path)]

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return nothing: h2load needs no files."""
        return {}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return the log's name if `extra` asks for one (``--log-file=h2load.log``): it costs some of the rate."""
        log = h2load_log.log_file_name(workload.extra)
        return (log,) if log else ()

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report, with exact percentiles where a log of the requests is there."""
        lines = text.clean_lines(output.stdout)
        text.require_report(self.name, output, lines, REPORT_START, r"req/s +:")
        report = text.read_report(self.name, lines, LINE_PATTERNS)
        check_report(report)
        log = read_request_log(report, output)
        times_us = {"latency": log.times_us} if log and log.answered else {}
        doubts = tuple(_doubts(report, output, lines))
        return ParsedReport(tuple(_rows(report, log)), log.samples if log else (), doubts, times_us)


TOOL = H2load()


def _duration(value_s: float) -> str:
    """Return a time as h2load takes it: a whole number of s or ms."""
    ms = round(value_s * 1000)
    if ms < 1 or abs(ms - value_s * 1000) > 1e-6:
        raise ToolError(f"h2load takes whole milliseconds only: {value_s:g} s cannot be done", "round it")
    return f"{ms}ms" if ms % 1000 else f"{ms // 1000}s"


def _header(name: str, value: str) -> str:
    """Return one request header; h2load writes Host itself, from :authority."""
    if not value.strip():
        raise ToolError(f"h2load cannot send the header {name} without a value", "drop it, or use the tool wrk")
    return f":authority: {value}" if name.lower() == "host" else f"{name}: {value}"


def _rows(report: TextReport, log: RequestLog | None) -> Iterator[Measurement]:
    """Yield the measurements; percentiles of a log are derived, so that they have no text."""
    requests, ok = answered_count(report), report.count("ok")
    yield Measurement("requests", "count", requests, "1", _text_if_equal(report, "done", requests))
    yield Measurement("ok", "count", ok, "1", report.text("ok"))
    yield Measurement("requests_per_s", "value", report.value("rate", COUNT_UNITS), "1/s", report.text("rate"))
    yield Measurement("ok_per_s", "value", ok_per_s(report), "1/s", None)
    lasted = "main" if "main" in report else "finished"
    yield Measurement("duration", "value", report.value(lasted, TIME_UNITS_S), "s", report.text(lasted))
    yield from _error_rows(report)
    for c in range(2, 6):
        yield Measurement(f"status_{c}xx", "count", report.count(f"s{c}"), "1", report.text(f"s{c}"))
    yield Measurement("bytes_read", "count", report.count("bytes"), "B", report.text("bytes"))
    yield Measurement("bytes_per_s", "value", report.value("transfer", BYTE_UNITS), "B/s", report.text("transfer"))
    for row, metric in TIME_ROWS.items() if requests else ():
        cells = table_row(report, row)
        exact = log is not None and log.answered and row == "request"
        for statistic, (value, printed) in cells.items():
            if not (exact and statistic.startswith("p")):
                yield Measurement(metric, statistic, value, "s", printed)
        if exact and log is not None:
            for percent in h2load_log.PERCENTILES:
                yield Measurement(metric, f"p{percent:g}", log.times.percentile_s(percent), "s", None)


def _error_rows(report: TextReport) -> Iterator[Measurement]:
    """Yield errors by class; the total where no answer is in two (a status was read, then the connection was lost)."""
    status, timeout = report.count("s4") + report.count("s5"), report.count("timeout")
    lost = report.count("total") - report.count("done")
    unseen = timeout if timeout > lost else 0  # with -D, h2load leaves time-outs out of errored
    if status == report.count("failed") - report.count("errored"):
        total = report.count("failed") + unseen
        yield Measurement("errors", "count", total, "1", _text_if_equal(report, "failed", total))
    yield Measurement("errors_timeout", "count", timeout, "1", report.text("timeout"))
    yield Measurement("errors_status", "count", status, "1", None)
    other = report.count("errored") - timeout + unseen
    yield Measurement("errors_other", "count", other, "1", _text_if_equal(report, "errored", other))


def _text_if_equal(report: TextReport, field: str, value: int) -> str | None:
    """Return a field's text if it is this value."""
    return report.text(field) if report.count(field) == value else None


def _doubts(report: TextReport, output: ToolOutput, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what makes the numbers mean less than they seem to."""
    all_lines = text.clean_lines(output.stderr) + list(lines)  # over a pty, stderr is in stdout
    if failed := sum("client could not connect to host" in line for line in all_lines):
        yield "connections", f"{failed} connects failed; h2load does not retry those, so fewer were open"
    started, total = report.count("started"), report.count("total")
    if "main" in report and not started and client_count(lines):
        yield "connections", "no client started a request: with -D, h2load counts connections that fail nowhere"
    if "main" not in report and started < total:
        yield (
            "stopped_early",
            f"{started} of {total} requests were started: h2load gives a client up when its connection fails, "
            "so its rate is of fewer connections and a shorter time",
        )
    rate, summed = report.value("rate", COUNT_UNITS), client_count(lines) * table_row(report, "clients").get("mean", (0.0, ""))[0]
    if "main" in report and (summed > LOST_CONNECTION_RATIO * rate or report.count("timeout")):
        yield (
            "connections_lost",
            f"connections were lost, which h2load does not count as errors with -D: its clients' own rates add up to "
            f"{summed:.0f} 1/s, its rate over the whole time is {rate:.0f} 1/s",
        )
    if answered_count(report) > MAX_SAMPLES:
        yield "sampled", f"times are of at most {MAX_SAMPLES} requests, drawn by h2load from {answered_count(report)}"
    log = h2load_log.log_file_name(output.argv)
    if log and log not in output.files and log not in output.paths:
        yield "log_missing", f"the command asks for {log}, which was not collected: no percentiles from it"
    if output.exit_code:
        yield "exit_code", f"h2load ended with exit code {output.exit_code} although its report is complete"
