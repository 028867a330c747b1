"""httperf 0.9: open loop at connection level (httperf/httperf `src/stat/basic.c`, formats.md section 1).

`requests` are replies, never attempts; rates are replies / test-duration, because httperf's own reply rate needs
more than 5 s per sample. `ttfb` is its "response" time, a mean, and `bytes_per_s` its "Net I/O", requests included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from loadbook.core.errors import ToolError
from loadbook.core.units import BYTE_UNITS, COUNT_UNITS, TIME_UNITS_S
from loadbook.design.workload import Workload
from loadbook.tools import plan, text
from loadbook.tools.base import ToolOutput, Measurement, ParsedReport, Sample, Target
from loadbook.tools.httperf_forms import ERROR_FIELDS, LINE_PATTERNS, SESSION_LINES, parse_option_number, offered_rate, echoed_options
from loadbook.tools.text import TextReport

RATE_INTERVAL_S = 5.0  # httperf.c: one reply-rate sample every 5 s
RESERVED_OPTIONS = (
    *("--server", "--port", "--uri", "--rate", "--period", "--num-conns", "--num-calls", "--timeout", "--client"),
    *("--wsess", "--wsesslog", "--wsesspage", "--add-header", "--runtime", "--help", "--version", "-h", "-V"),
)
HISTOGRAM_HEADING = "Connection lifetime histogram (time in ms):"


class Httperf:
    """The tool httperf; see the module's first lines for what its numbers mean.

    Its closed mode (no ``--rate``: one connection after another) is not offered: httperf 0.9.0 cannot end it after a
    given time.
    """

    name = "httperf"
    binary = "httperf"
    install_hint = "apt-get install httperf"
    opens_connections_at_rate = True  # whatever was answered by then
    load_models = frozenset({"open"})
    known_versions = ("0.9",)
    version_argv: tuple[str, ...] = (
        "httperf",
        "-V",
        "-h",
    )  # -V alone runs a test against localhost:80 in 0.9.0; -h ends it first

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version, ``0.9.0``."""
        match = re.search(rb"httperf-(\d[\w.]*) compiled", stdout + stderr)
        if not match:
            raise ToolError(
                f"httperf: no version in {(stdout + stderr)[:80]!r}", "install httperf (apt install httperf)"
            )
        return match[1].decode()

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return httperf's argument list: rate_per_s / calls_per_connection connections start every second."""
        plan.check_workload(self, workload, RESERVED_OPTIONS, supported_fields=("requests", "calls_per_connection"))
        if workload.threads != 1:
            raise ToolError("httperf has one thread only", "set threads = 1 and use more drivers, or the tool wrk")
        if not workload.keepalive and workload.calls_per_connection != 1:
            raise ToolError("keepalive = false contradicts calls_per_connection > 1", "drop one of the two")
        if ":" in target.address:
            raise ToolError(f"httperf speaks IPv4 only, not {target.address}", "use an IPv4 address, or the tool wrk")
        rate = (workload.rate_per_s or 0) / workload.calls_per_connection
        connections = _connection_count(workload, rate * duration_s)
        argv = ["httperf", "--server", target.address, "--port", str(target.port), "--uri", workload.path]
        argv += ["--rate", f"{rate:.10g}", "--num-conns", str(connections)]
        argv += ["--num-calls", str(workload.calls_per_connection), "--timeout", f"{workload.timeout_s:g}"]
        argv += ["--ssl"] if target.scheme == "https" else []
        return [*argv, *_header_options(workload), *workload.extra]

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return nothing: httperf needs no files."""
        return {}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return nothing: httperf writes no files."""
        return ()

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report, and the samples that ``--verbose`` prints."""
        lines = text.clean_lines(output.stdout)
        text.require_report(self.name, output, lines, "httperf --", "Errors: fd-unavail")
        report = text.read_report(self.name, lines, LINE_PATTERNS)
        _check_report(report)
        samples = (*_rate_samples(report, lines), *_lifetime_samples(report, lines))
        return ParsedReport(tuple(_rows(report)), samples, tuple(_doubts(report, output, lines)))


TOOL = Httperf()


def _connection_count(workload: Workload, in_time: float) -> int:
    """Return how many connections to start: for a number of requests, or as many as there is time for."""
    calls, requests = workload.calls_per_connection, workload.requests
    if requests is not None and requests % calls:
        raise ToolError(f"httperf cannot make {requests} requests, {calls} on each connection", "use a multiple")
    connections = round(in_time) if requests is None else requests // calls
    if connections < 1:
        hint = "raise rate_per_s or duration_s, or lower calls_per_connection"
        raise ToolError(f"httperf would start no connection in {workload.duration_s:g} s", hint)
    return connections


def _header_options(workload: Workload) -> list[str]:
    r"""Return the options for request headers; httperf keeps only the last --add-header, and reads ``\`` as escape."""
    headers = plan.request_headers(workload)
    host = next((value for name, value in headers.items() if name.lower() == "host"), None)
    others = [f"{name}: {value}" for name, value in headers.items() if name.lower() != "host"]
    joined = "".join(line.replace("\\", "\\\\") + r"\n" for line in others)
    return (["--server-name", host] if host is not None else []) + (["--add-header", joined] if joined else [])


def _check_report(report: TextReport) -> None:
    """Raise ParseError where the report contradicts itself (formats.md 6.5)."""
    classes = sum(report.count(f"s{c}") for c in range(1, 6))
    if classes != report.count("replies"):
        raise report.error_at("status", f"{classes} replies by status, {report.count('replies')} in all")
    if report.count("errors") != sum(report.count(field) for fields in ERROR_FIELDS.values() for field in fields):
        raise report.error_at("errors_2", "the classes of errors do not add up to their total")
    lasted = (report.value("duration", TIME_UNITS_S, "s"), 0.0005)
    text.check_rate(report, (report.count("connections"), 0), lasted, "connection_rate")
    text.check_rate(report, (report.count("sent"), 0), lasted, "sent_rate")
    for fields in (("min", "mean", "max"), ("rate_min", "rate_mean", "rate_max")):
        values = [v for f in fields if (v := report.optional_value(f, COUNT_UNITS)) is not None]
        if values != sorted(values):
            raise report.error_at(fields[0], "minimum, average and maximum do not ascend")
    size = [report.optional_value(f, COUNT_UNITS) for f in ("header", "content", "footer", "size")]
    if None not in size and sum(size[:3]) != size[3]:  # type: ignore[arg-type]
        raise report.error_at("reply_size", "header, content and footer do not add up to the total")
    _check_sessions(report)


def _check_sessions(report: TextReport) -> None:
    """Raise ParseError unless the session block is whole where the command asked for sessions."""
    has_sessions = any(name.startswith("wsess") for name in echoed_options(report))
    for line_name in SESSION_LINES:
        if has_sessions and line_name not in report:
            raise report.error_at("total", f"report is not complete: no session block ({line_name})")
    if has_sessions and sum(int(n) for n in report.text("lengths").split()) != report.count("sessions"):
        raise report.error_at("lengths", "the histogram does not add up to the number of sessions")


def _rows(report: TextReport) -> Iterator[Measurement]:
    """Yield the measurements; texts are httperf's own, in its units."""
    replies, duration = report.count("replies"), report.value("duration", TIME_UNITS_S, "s")
    ok = report.count("s2") + report.count("s3")
    yield Measurement("requests", "count", replies, "1", report.text("replies"))
    yield Measurement("ok", "count", ok, "1", None)
    for metric, n in (("requests_per_s", replies), ("ok_per_s", ok)):
        if n == 0 or duration > 0:  # a test under half a millisecond prints 0.000 s: no rate, unless nothing came
            yield Measurement(metric, "value", n / duration if n else 0.0, "1/s", None)
    rate = offered_rate(report)
    if rate is not None:
        yield Measurement("offered_per_s", "value", rate[0], "1/s", rate[1])
    yield Measurement("duration", "value", duration, "s", report.text("duration"))
    yield from _error_rows(report)
    for c in range(1, 6):
        yield Measurement(f"status_{c}xx", "count", report.count(f"s{c}"), "1", report.text(f"s{c}"))
    net, cpu = report.optional_value("net", BYTE_UNITS, "KB"), report.optional_value("cpu", COUNT_UNITS)
    if net is not None:
        yield Measurement("bytes_per_s", "value", net, "B/s", report.text("net"))
    if cpu is not None:
        yield Measurement("driver_cpu", "value", cpu / 100, "1", report.text("cpu") + "%")
    yield from _time_rows(report)
    yield from _reply_rate_rows(report)


def _error_rows(report: TextReport) -> Iterator[Measurement]:
    """Yield errors by class. httperf's classes are failed connections, so they do not overlap with replies >= 400."""
    status = report.count("s4") + report.count("s5")
    total = report.count("errors") + status
    yield Measurement("errors", "count", total, "1", None if status else report.text("errors"))
    for name, fields in ERROR_FIELDS.items():
        n = sum(report.count(field) for field in fields)
        yield Measurement(f"errors_{name}", "count", n, "1", report.text(fields[0]) if len(fields) == 1 else None)
    yield Measurement("errors_status", "count", status, "1", None)


def _time_rows(report: TextReport) -> Iterator[Measurement]:
    """Yield times, which httperf prints as 0.0 where nothing was answered: then there are none."""
    fields = [("connect_time", "mean", "connect_time"), ("ttfb", "mean", "ttfb")] if report.count("replies") else []
    if fields and report.optional_value("length", COUNT_UNITS):  # replies per connection that ended after at least one reply
        fields += [("connection_time", statistic, statistic) for statistic in ("mean", "sd", "min", "max", "p50")]
    for metric, statistic, field in fields:
        value = report.optional_value(field, TIME_UNITS_S, "ms")
        if value is not None:
            yield Measurement(metric, statistic, value, "s", report.text(field))


def _reply_rate_rows(report: TextReport) -> Iterator[Measurement]:
    """Yield the statistics of the 5 s reply-rate samples; of no sample there is none, of one no deviation."""
    samples = report.count("samples")
    for statistic in ("mean", "sd", "min", "max"):
        value = report.optional_value(f"rate_{statistic}", COUNT_UNITS)
        if value is not None and samples > (statistic == "sd"):
            yield Measurement("requests_per_s", statistic, value, "1/s", report.text(f"rate_{statistic}"))


def _rate_samples(report: TextReport, lines: Sequence[str]) -> Iterator[Sample]:
    """Yield the reply rates that --verbose prints; x is the end of the sample in s from the start.

    Of n clients, client i takes its first sample after (i + 1) * 5 / n seconds.
    """
    first = (report.count("id") + 1) * RATE_INTERVAL_S / max(1, report.count("clients"))
    rates = [m[1] for line in lines[: report.line_numbers["total"]] if (m := re.fullmatch(r"reply-rate = (\d+\.\d)", line))]
    if rates and len(rates) != report.count("samples"):
        raise report.error_at("reply_rate", f"{len(rates)} reply-rate lines, {report.count('samples')} samples")
    for i, rate in enumerate(rates):
        yield Sample("reply_rate", "requests_per_s", first + i * RATE_INTERVAL_S, "s", float(rate), "1/s")


def _lifetime_samples(report: TextReport, lines: Sequence[str]) -> Iterator[Sample]:
    """Yield the histogram of connection times that a doubled --verbose prints: middle of a 1 ms bin, connections."""
    if HISTOGRAM_HEADING not in lines:
        return
    for line in lines[lines.index(HISTOGRAM_HEADING) : report.line_numbers["total"]]:
        if match := re.fullmatch(r" +(\d+\.\d) (\d+)", line):
            yield Sample("lifetime", "connection_time", float(f"{match[1]}e-3"), "s", float(match[2]), "1")


def _doubts(report: TextReport, output: ToolOutput, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what makes the numbers mean less than they seem to."""
    all_lines = text.clean_lines(output.stderr) + list(lines)  # over a pty, stderr is in stdout
    if report.count("samples") == 0 and report.count("replies"):
        yield "too_short", "no reply-rate sample: httperf takes one every 5 s; its manual wants 30 (150 s)"
    if limits := sum(report.count(field) for field in ERROR_FIELDS["driver"]):
        yield (
            "driver_limits",
            (
                f"{limits} connections could not be started for want of file descriptors or ports on the driver: "
                "by httperf's manual the results are meaningless"
            ),
        )
    if text.find_port_exhaustion(all_lines):
        yield (
            "ports_exhausted",
            f"the driver ran out of local ports (error 99), counted as other: {report.text('other')}",
        )
    if any("parse_status_line: " in line for line in all_lines):
        yield "not_http", "answers were not HTTP: httperf counts them as replies of some status"
    cpu = report.optional_value("cpu", COUNT_UNITS)
    if cpu is not None and cpu < 90 and report.value("duration", TIME_UNITS_S, "s") >= 1:
        yield "driver_disturbed", f"httperf got {cpu:g} % of a CPU; it polls without pause, so something took the rest"
    requested, started = echoed_options(report).get("num-conns", "0"), report.count("connections") + limits
    if started < parse_option_number(report, requested):
        yield "stopped_early", f"{started} of {requested} connections were started"
    if output.exit_code:
        yield "exit_code", f"httperf ended with exit code {output.exit_code} although its report is complete"
