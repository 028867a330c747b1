"""httperf 0.9: open loop for connections, which start at a given rate.

- `rate_per_s` counts requests; the rate of connections is `rate_per_s / calls_per_connection`. At most 1,022
  connections are open at once. httperf polls, so one CPU is always full; a `driver_cpu` well below 100 % means a
  disturbance.
- `requests` are replies. Rates are replies / test-duration: httperf's own reply rate takes more than 5 s per sample,
  and is 0.0 for shorter runs (doubt `too_short`). `bytes_per_s` is its "Net I/O", which includes requests.
- Times are `connect_time` and `ttfb` (its "response"), means only, to 0.1 ms, and `connection_time`, whose median is
  the middle of a 1 ms bin and can exceed the mean.

Source of the formats: httperf/httperf `src/stat/basic.c`, `src/stat/sess_stat.c`, `src/httperf.c`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from loadbook.core.errors import ToolError
from loadbook.core.units import BYTE_UNITS, COUNT_UNITS, TIME_UNITS_S
from loadbook.study.workload import Workload
from loadbook.tools import base, line_patterns
from loadbook.tools.base import Measurement, ParsedReport, Sample, Target, ToolOutput
from loadbook.tools.line_patterns import LinePattern, TextReport

SESSION_LINES = ("session_rate", "session", "lifetime", "failtime", "lengths")
# error class of loadbook -> httperf's counters
ERROR_FIELDS = {
    "connect": ("connrefused",), "timeout": ("client_timo", "socket_timo"), "read": ("connreset",),
    "driver": ("fd_unavail", "addrunavail", "ftab_full"), "other": ("other",),
}  # fmt: skip

_REAL = r"(?:\d{1,20}\.\d+|-?nan|-?inf)"
BIN_S = 0.001  # of the histogram of connection times, whose middles are printed as medians
RATE_INTERVAL_S = 5.0  # httperf.c: one reply-rate sample every 5 s
RESERVED_OPTIONS = (
    *("--server", "--port", "--uri", "--rate", "--period", "--num-conns", "--num-calls", "--timeout", "--client"),
    *("--wsess", "--wsesslog", "--wsesspage", "--add-header", "--runtime", "--help", "--version", "-h", "-V"),
)
HISTOGRAM_HEADING = "Connection lifetime histogram (time in ms):"


def _line(name: str, example: str, template: str, optional: bool = False) -> LinePattern:
    """Return the pattern of a template: ``{name:d}`` is an integer, ``{name}`` a real; ``|`` ends `start`."""
    start, rest = template.split("|")
    parts = re.split(r"\{(\w*)(:d)?\}", rest)
    regex = re.escape(parts[0])
    for field, integer, literal in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        number = r"\d{1,20}" if integer else _REAL
        regex += (f"(?P<{field}>{number})" if field else number) + re.escape(literal)
    return LinePattern(name, example, re.escape(start), regex, optional)


LINE_PATTERNS = (
    # httperf's own command line, with the defaults filled in
    LinePattern("echo", "httperf --client=0/1 --server=... ", "httperf(?= --)",
                r"(?P<echo> .*--client=(?P<id>\d{1,20})/(?P<clients>\d{1,20}) .*)"),
    _line("total", "Total: connections 300 requests 449 replies 222 test-duration 7.733 s",
          "Total: connections| {connections:d} requests {sent:d} replies {replies:d} test-duration {duration} s"),
    _line("connections", "Connection rate: 38.8 conn/s (25.8 ms/conn, <=74 concurrent connections)",
          "Connection rate:| {connection_rate} conn/s ({} ms/conn, <={:d} concurrent connections)"),
    _line("life", "Connection time [ms]: min 1054.5 avg 1654.3 max 1998.9 median 1683.5 stddev 208.5",
          "Connection time [ms]: min| {min} avg {mean} max {max} median {p50} stddev {sd}"),
    _line("connect", "Connection time [ms]: connect 0.0", "Connection time [ms]: connect| {connect_time}"),
    _line("length", "Connection length [replies/conn]: 1.490", "Connection length [replies/conn]:| {length}"),
    _line("request_rate", "Request rate: 58.1 req/s (17.2 ms/req)",
          "Request rate:| {sent_rate} req/s ({} ms/req)"),
    _line("request_size", "Request size [B]: 86.0", "Request size [B]:| {}"),
    _line("reply_rate", "Reply rate [replies/s]: min 30.6 avg 30.6 max 30.6 stddev 0.0 (1 samples)",
          "Reply rate [replies/s]:| min {rate_min} avg {rate_mean} max {rate_max} stddev {rate_sd}"
          " ({samples:d} samples)"),
    _line("reply_time", "Reply time [ms]: response 767.8 transfer 0.0",
          "Reply time [ms]:| response {ttfb} transfer {}"),
    _line("reply_size", "Reply size [B]: header 116.0 content 5.0 footer 0.0 (total 121.0)",
          "Reply size [B]:| header {header} content {content} footer {footer} (total {size})"),
    _line("status", "Reply status: 1xx=0 2xx=222 3xx=0 4xx=0 5xx=0",
          "Reply status:| 1xx={s1:d} 2xx={s2:d} 3xx={s3:d} 4xx={s4:d} 5xx={s5:d}"),
    _line("cpu", "CPU time [s]: user 0.25 system 7.48 (user 3.2% system 96.7% total 99.9%)",
          "CPU time [s]:| user {} system {} (user {cpu_user}% system {cpu_system}% total {cpu}%)"),
    _line("net", "Net I/O: 8.3 KB/s (0.1*10^6 bps)", "Net I/O:| {net} KB/s ({}*10^6 bps)"),
    _line("errors", "Errors: total 227 client-timo 227 socket-timo 0 connrefused 0 connreset 0",
          "Errors: total| {errors:d} client-timo {client_timo:d} socket-timo {socket_timo:d} "
          "connrefused {connrefused:d} connreset {connreset:d}"),
    _line("errors_2", "Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0",
          "Errors: fd-unavail| {fd_unavail:d} addrunavail {addrunavail:d} ftab-full {ftab_full:d} other {other:d}"),
    _line("session_rate", "Session rate [sess/s]: min 0.00 avg 41.57 max 0.00 stddev 0.00 (143/150)",
          "Session rate [sess/s]:| min {} avg {} max {} stddev {} ({sessions_done:d}/{sessions:d})",
          optional=True),
    _line("session", "Session: avg 1.48 connections/session", "Session: avg| {} connections/session",
          optional=True),
    _line("lifetime", "Session lifetime [s]: 0.5", "Session lifetime [s]:| {}", optional=True),
    _line("failtime", "Session failtime [s]: 0.1", "Session failtime [s]:| {}", optional=True),
    LinePattern("lengths", "Session length histogram: 5 0 1 143", "Session length histogram:",
                r"(?P<lengths>(?: \d{1,20})+)", optional=True),
)  # fmt: skip


def echoed_options(report: TextReport) -> dict[str, str]:
    """Return {name without "--": text} of the options in the command that httperf echoes; "" for one without a value.

    Of a repeated option the first is used, since a header's text may look like options.
    """
    pairs = re.findall(r" --([\w-]+)(?:=('.*?'(?= |\Z)|\S*))?", report.text("echo"))
    return dict(reversed(pairs))


def offered_rate(report: TextReport) -> tuple[float, str | None] | None:
    """Return (requested requests per second, its text if printed); None if the load has no constant rate.

    With several calls on a connection (or in a session) the rate is that of the calls: connections per second times
    calls on each. Only connections are then an open loop, the calls on each a closed one.
    """
    options = echoed_options(report)
    calls = options["wsess"].split(",")[1:2] if "wsess" in options else [options.get("num-calls", "")]
    if "wsesslog" in options or "wsesspage" in options or calls == [""] or not {"rate", "period"} & set(options):
        return None
    if "rate" in options:
        rate = parse_option_number(report, options["rate"]) * parse_option_number(report, *calls)
        return rate, options["rate"] if calls == ["1"] else None
    if options["period"][:1] not in ("u", "e"):  # v: a rate that varies
        return None
    periods = [parse_option_number(report, text) for text in options["period"][1:].split(",")]
    return (parse_option_number(report, *calls) * len(periods) / sum(periods), None) if sum(periods) > 0 else None


def parse_option_number(report: TextReport, *text: str) -> float:
    """Return an option's one value, in the notation of printf's %g, as a number.

    ParseError for anything else, also if `text` has no or several values.
    """
    if len(text) != 1 or not re.fullmatch(r"\d{1,20}(?:\.\d+)?(?:e[+-]\d\d)?", text[0]):
        printed = repr(" ".join(text) or "nothing")
        raise report.error_at("echo", f"{printed} is not a number in the command that httperf echoes")
    return float(text[0])


class Httperf(base.Tool):
    """httperf; the module docstring defines its metrics.

    Closed loads (no ``--rate``: one connection after another) are not supported, since httperf 0.9.0 cannot end them
    after a given time.
    """

    name = "httperf"
    binary = "httperf"
    report_begin = r"httperf .*--client=\d+/\d+ "
    report_end = r"Errors: fd-unavail"
    install_hint = "apt-get install httperf"
    opens_connections_at_rate = True  # even while replies are outstanding
    load_models = frozenset({"open"})
    known_versions = ("0.9",)
    # in 0.9.0, -V alone runs a test against localhost:80; -h ends it first
    version_argv: tuple[str, ...] = ("httperf", "-V", "-h")
    version_pattern = rb"httperf-(\d[\w.]*) compiled"

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return httperf's argument list: rate_per_s / calls_per_connection connections start every second.

        For `arrivals` "poisson" the periods between starts are exponentially distributed (option --period=e).
        """
        supported = ("requests", "calls_per_connection", "arrivals")
        base.check_workload(self, workload, RESERVED_OPTIONS, supported_fields=supported)
        if workload.arrivals == "users":
            raise ToolError("httperf has no users who wait for responses", "use arrivals = 'even' or 'poisson'")
        if workload.threads != 1:
            raise ToolError("httperf has one thread only", "set threads = 1 and use more drivers, or the tool wrk")
        if not workload.keepalive and workload.calls_per_connection != 1:
            raise ToolError("keepalive = false contradicts calls_per_connection > 1", "drop one of the two")
        if ":" in target.address:
            raise ToolError(f"httperf speaks IPv4 only, not {target.address}", "use an IPv4 address, or the tool wrk")
        calls, requests = workload.calls_per_connection, workload.requests
        if requests is not None and requests % calls:
            raise ToolError(f"httperf cannot make {requests} requests, {calls} on each connection", "use a multiple")
        rate = (workload.rate_per_s or 0) / calls
        connections = round(rate * duration_s) if requests is None else requests // calls
        if connections < 1:
            hint = "raise rate_per_s or duration_s, or lower calls_per_connection"
            raise ToolError(f"httperf would start no connection in {workload.duration_s:g} s", hint)
        argv = ["httperf", "--server", target.address, "--port", str(target.port), "--uri", workload.path]
        spacing = ["--period", f"e{1 / rate:.10g}"] if workload.arrivals == "poisson" else ["--rate", f"{rate:.10g}"]
        argv += [*spacing, "--num-conns", str(connections)]
        argv += ["--num-calls", str(calls), "--timeout", f"{workload.timeout_s:g}"]
        argv += ["--ssl"] if target.scheme == "https" else []
        return [*argv, *_header_options(workload), *workload.extra]

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report, with the reply rates and the histogram that ``--verbose`` prints."""
        lines = line_patterns.clean_lines(output.stdout)
        line_patterns.require_report(self.name, output, lines, "httperf --", self.report_end)
        report = line_patterns.read_report(self.name, lines, LINE_PATTERNS)
        _check_report(report)
        samples = tuple(_samples(report, lines))
        return ParsedReport(tuple(_rows(report)), samples, tuple(_doubts(report, output, lines)))


TOOL = Httperf()


def _header_options(workload: Workload) -> list[str]:
    r"""Return the options for request headers, joined since httperf keeps only the last --add-header; escapes ``\``."""
    headers = base.request_headers(workload)
    host = next((value for name, value in headers.items() if name.lower() == "host"), None)
    others = [f"{name}: {value}" for name, value in headers.items() if name.lower() != "host"]
    joined = "".join(line.replace("\\", "\\\\") + r"\n" for line in others)
    return (["--server-name", host] if host is not None else []) + (["--add-header", joined] if joined else [])


def _check_report(report: TextReport) -> None:
    """Raise ParseError if the report contradicts itself."""
    classes = sum(report.count(f"s{c}") for c in range(1, 6))
    if classes != report.count("replies"):
        raise report.error_at("status", f"{classes} replies by status, {report.count('replies')} in all")
    if report.count("errors") != sum(report.count(field) for fields in ERROR_FIELDS.values() for field in fields):
        raise report.error_at("errors_2", "the classes of errors do not add up to their total")
    lasted = (report.value("duration", TIME_UNITS_S, "s"), 0.0005)
    line_patterns.check_rate(report, (report.count("connections"), 0), lasted, "connection_rate")
    line_patterns.check_rate(report, (report.count("sent"), 0), lasted, "sent_rate")
    for fields in (("min", "mean", "max"), ("rate_min", "rate_mean", "rate_max")):
        values = [v for f in fields if (v := report.optional_value(f, COUNT_UNITS)) is not None]
        if values != sorted(values):
            raise report.error_at(fields[0], "minimum, average and maximum do not ascend")
    size = [report.optional_value(f, COUNT_UNITS) for f in ("header", "content", "footer", "size")]
    if None not in size and sum(size[:3]) != size[3]:  # type: ignore[arg-type]
        raise report.error_at("reply_size", "header, content and footer do not add up to the total")
    has_sessions = any(name.startswith("wsess") for name in echoed_options(report))
    for line_name in SESSION_LINES if has_sessions else ():
        if line_name not in report:
            raise report.error_at("total", f"report is not complete: no session block ({line_name})")
    if has_sessions and sum(int(n) for n in report.text("lengths").split()) != report.count("sessions"):
        raise report.error_at("lengths", "the histogram does not add up to the number of sessions")


def _rows(report: TextReport) -> Iterator[Measurement]:
    """Yield the measurements; `text` is the value as httperf printed it, in its own unit."""
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
    # httperf's errors are failed connections, so they do not overlap with replies of status >= 400
    status = report.count("s4") + report.count("s5")
    total = report.count("errors") + status
    yield Measurement("errors", "count", total, "1", report.text_if("errors", total))
    for name, fields in ERROR_FIELDS.items():
        n = sum(report.count(field) for field in fields)
        yield Measurement(f"errors_{name}", "count", n, "1", report.text(fields[0]) if len(fields) == 1 else None)
    yield Measurement("errors_status", "count", status, "1", None)
    for c in range(1, 6):
        yield Measurement(f"status_{c}xx", "count", report.count(f"s{c}"), "1", report.text(f"s{c}"))
    net, cpu = report.optional_value("net", BYTE_UNITS, "KB"), report.optional_value("cpu", COUNT_UNITS)
    if net is not None:
        yield Measurement("bytes_per_s", "value", net, "B/s", report.text("net"))
    if cpu is not None:
        yield Measurement("driver_cpu", "value", cpu / 100, "1", report.text("cpu") + "%")
    yield from _time_rows(report)
    samples = report.count("samples")  # number of 5 s reply rates; 0 have no mean, 1 no deviation
    for statistic in ("mean", "sd", "min", "max"):
        value = report.optional_value(f"rate_{statistic}", COUNT_UNITS)
        if value is not None and samples > (statistic == "sd"):
            yield Measurement("requests_per_s", statistic, value, "1/s", report.text(f"rate_{statistic}"))


def _time_rows(report: TextReport) -> Iterator[Measurement]:
    """Yield the statistics of times; none without replies, since httperf then prints 0.0."""
    fields = [("connect_time", "mean", "connect_time"), ("ttfb", "mean", "ttfb")] if report.count("replies") else []
    if fields and report.optional_value("length", COUNT_UNITS):  # replies per connection that ended after a reply
        fields += [("connection_time", statistic, statistic) for statistic in ("mean", "sd", "min", "max", "p50")]
    for metric, statistic, field in fields:
        value = report.optional_value(field, TIME_UNITS_S, "ms")
        if field == "p50" and (not value or value < report.value("min", TIME_UNITS_S, "ms") - BIN_S):
            continue  # connections longer than httperf's histogram (100 s): it prints a median of 0.0
        if value is not None:
            yield Measurement(metric, statistic, value, "s", report.text(field))


def _samples(report: TextReport, lines: Sequence[str]) -> Iterator[Sample]:
    """Yield the reply rates that --verbose prints, and the histogram of connection times that --verbose twice prints.

    x is the end of a rate's interval of 5 s, in seconds from the start (with n clients, client i takes its first sample
    after (i + 1) * 5 / n seconds), or the middle of a histogram's bin of 1 ms, in seconds.
    """
    lines = lines[: report.line_numbers["total"]]
    first = (report.count("id") + 1) * RATE_INTERVAL_S / max(1, report.count("clients"))
    rates = [match[1] for line in lines if (match := re.fullmatch(r"reply-rate = (\d+\.\d)", line))]
    if rates and len(rates) != report.count("samples"):
        raise report.error_at("reply_rate", f"{len(rates)} reply-rate lines, {report.count('samples')} samples")
    for i, rate in enumerate(rates):
        yield Sample("reply_rate", "requests_per_s", first + i * RATE_INTERVAL_S, "s", float(rate), "1/s")
    for line in lines[lines.index(HISTOGRAM_HEADING) :] if HISTOGRAM_HEADING in lines else ():
        if match := re.fullmatch(r" *(\d+\.\d) (\d+)", line):
            yield Sample("lifetime", "connection_time", float(f"{match[1]}e-3"), "s", float(match[2]), "1")


def _doubts(report: TextReport, output: ToolOutput, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the doubts about the numbers, as (name, sentence)."""
    all_lines = line_patterns.clean_lines(output.stderr) + list(lines)  # with a terminal, stderr is part of stdout
    if report.count("samples") == 0 and report.count("replies"):
        yield "too_short", "no reply-rate sample: httperf takes one every 5 s; its manual wants 30 (150 s)"
    if limits := sum(report.count(field) for field in ERROR_FIELDS["driver"]):
        text = f"{limits} connections could not be started for want of file descriptors or ports on the driver"
        yield "driver_limits", f"{text}: by httperf's manual the results are meaningless"
    if line_patterns.find_port_exhaustion(all_lines):
        text = f"the driver ran out of local ports (error 99), counted as other: {report.text('other')}"
        yield "ports_exhausted", text
    if any("parse_status_line: " in line for line in all_lines):
        yield "not_http", "answers were not HTTP: httperf counts them as replies of some status"
    cpu = report.optional_value("cpu", COUNT_UNITS)
    if cpu is not None and cpu < 90 and report.value("duration", TIME_UNITS_S, "s") >= 1:
        yield "driver_disturbed", f"httperf got {cpu:g} % of a CPU; it polls without pause, so something took the rest"
    requested, started = echoed_options(report).get("num-conns", "0"), report.count("connections") + limits
    if started < parse_option_number(report, requested):
        yield "stopped_early", f"{started} of {requested} connections were started"
    elif not report.count("errors") and not report.optional_value("length", COUNT_UNITS):
        calls = parse_option_number(report, echoed_options(report).get("num-calls", "1"))
        if 0 < report.count("replies") < report.count("connections") * calls:
            yield "stopped_early", f"{report.text('replies')} replies, and no connection came to its end: interrupted?"
    if output.exit_code:
        yield "exit_code", f"httperf ended with exit code {output.exit_code} although its report is complete"
