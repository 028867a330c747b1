"""The lines of an httperf 0.9 report (httperf/httperf `src/stat/basic.c`, `src/stat/sess_stat.c`, `src/httperf.c`)."""

from __future__ import annotations

import re

from loadbook.tools.text import LinePattern, TextReport

SESSION_LINES = ("session_rate", "session", "lifetime", "failtime", "lengths")
ERROR_FIELDS = {  # ours -> httperf's
    "connect": ("connrefused",),
    "timeout": ("client_timo", "socket_timo"),
    "read": ("connreset",),
    "driver": ("fd_unavail", "addrunavail", "ftab_full"),
    "other": ("other",),
}

_REAL = r"(?:\d{1,20}\.\d+|-?nan|-?inf)"


def _template_regex(template: str) -> str:
    """Return a regular expression for a printf-like template: ``{name:d}`` an integer, ``{name}`` a real."""
    parts = re.split(r"\{(\w*)(:d)?\}", template)
    regex = re.escape(parts[0])
    for name, integer, literal in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        number = r"\d{1,20}" if integer else _REAL
        regex += (f"(?P<{name}>{number})" if name else number) + re.escape(literal)
    return regex


def _template_line(name: str, example: str, start: str, template: str, optional: bool = False) -> LinePattern:
    return LinePattern(name, example, re.escape(start), _template_regex(template), optional)


LINE_PATTERNS = (
    # the effective command with defaults expanded
    LinePattern(
        "echo",
        "httperf --client=0/1 --server=... ",
        "httperf(?= --)",
        r"(?P<echo> .*--client=(?P<id>\d{1,20})/(?P<clients>\d{1,20}) .*)",
    ),
    _template_line(
        "total",
        "Total: connections 300 requests 449 replies 222 test-duration 7.733 s",
        "Total: connections",
        " {connections:d} requests {sent:d} replies {replies:d} test-duration {duration} s",
    ),
    _template_line(
        "connections",
        "Connection rate: 38.8 conn/s (25.8 ms/conn, <=74 concurrent connections)",
        "Connection rate:",
        " {connection_rate} conn/s ({} ms/conn, <={:d} concurrent connections)",
    ),
    _template_line(
        "life",
        "Connection time [ms]: min 1054.5 avg 1654.3 max 1998.9 median 1683.5 stddev 208.5",
        "Connection time [ms]: min",
        " {min} avg {mean} max {max} median {p50} stddev {sd}",
    ),
    _template_line("connect", "Connection time [ms]: connect 0.0", "Connection time [ms]: connect", " {connect_time}"),
    _template_line("length", "Connection length [replies/conn]: 1.490", "Connection length [replies/conn]:", " {length}"),
    _template_line("request_rate", "Request rate: 58.1 req/s (17.2 ms/req)", "Request rate:", " {sent_rate} req/s ({} ms/req)"),
    _template_line("request_size", "Request size [B]: 86.0", "Request size [B]:", " {}"),
    _template_line(
        "reply_rate",
        "Reply rate [replies/s]: min 30.6 avg 30.6 max 30.6 stddev 0.0 (1 samples)",
        "Reply rate [replies/s]:",
        " min {rate_min} avg {rate_mean} max {rate_max} stddev {rate_sd} ({samples:d} samples)",
    ),
    _template_line(
        "reply_time", "Reply time [ms]: response 767.8 transfer 0.0", "Reply time [ms]:", " response {ttfb} transfer {}"
    ),
    _template_line(
        "reply_size",
        "Reply size [B]: header 116.0 content 5.0 footer 0.0 (total 121.0)",
        "Reply size [B]:",
        " header {header} content {content} footer {footer} (total {size})",
    ),
    _template_line(
        "status",
        "Reply status: 1xx=0 2xx=222 3xx=0 4xx=0 5xx=0",
        "Reply status:",
        " 1xx={s1:d} 2xx={s2:d} 3xx={s3:d} 4xx={s4:d} 5xx={s5:d}",
    ),
    _template_line(
        "cpu",
        "CPU time [s]: user 0.25 system 7.48 (user 3.2% system 96.7% total 99.9%)",
        "CPU time [s]:",
        " user {} system {} (user {cpu_user}% system {cpu_system}% total {cpu}%)",
    ),
    _template_line("net", "Net I/O: 8.3 KB/s (0.1*10^6 bps)", "Net I/O:", " {net} KB/s ({}*10^6 bps)"),
    _template_line(
        "errors",
        "Errors: total 227 client-timo 227 socket-timo 0 connrefused 0 connreset 0",
        "Errors: total",
        " {errors:d} client-timo {client_timo:d} socket-timo {socket_timo:d} connrefused {connrefused:d}"
        " connreset {connreset:d}",
    ),
    _template_line(
        "errors_2",
        "Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0",
        "Errors: fd-unavail",
        " {fd_unavail:d} addrunavail {addrunavail:d} ftab-full {ftab_full:d} other {other:d}",
    ),
    _template_line(
        "session_rate",
        "Session rate [sess/s]: min 0.00 avg 41.57 max 0.00 stddev 0.00 (143/150)",
        "Session rate [sess/s]:",
        " min {} avg {} max {} stddev {} ({sessions_done:d}/{sessions:d})",
        optional=True,
    ),
    _template_line("session", "Session: avg 1.48 connections/session", "Session: avg", " {} connections/session", optional=True),
    _template_line("lifetime", "Session lifetime [s]: 0.5", "Session lifetime [s]:", " {}", optional=True),
    _template_line("failtime", "Session failtime [s]: 0.1", "Session failtime [s]:", " {}", optional=True),
    LinePattern(
        "lengths",
        "Session length histogram: 5 0 1 143",
        "Session length histogram:",
        r"(?P<lengths>(?: \d{1,20})+)",
        optional=True,
    ),
)


def echoed_options(report: TextReport) -> dict[str, str]:
    """Return the options of the echoed command; the first of a name counts (a header's text may look like more)."""
    pairs = re.findall(r" --([\w-]+)(?:=('.*?'(?= |\Z)|\S*))?", report.text("echo"))
    return dict(reversed(pairs))


def offered_rate(report: TextReport) -> tuple[float, str | None] | None:
    """Return requests asked for per second, and their text if printed as such; None for loads of no constant rate.

    With several calls on a connection (or in a session) the load is open for connections, closed inside them.
    """
    options = echoed_options(report)
    calls = options["wsess"].split(",")[1:2] if "wsess" in options else [options.get("num-calls", "")]
    if "wsesslog" in options or "wsesspage" in options or calls == [""] or not {"rate", "period"} & set(options):
        return None
    if "rate" in options:
        return parse_option_number(report, options["rate"]) * parse_option_number(report, *calls), options["rate"] if calls == ["1"] else None
    if options["period"][:1] not in ("u", "e"):  # v: a rate that varies
        return None
    periods = [parse_option_number(report, text) for text in options["period"][1:].split(",")]
    return (parse_option_number(report, *calls) * len(periods) / sum(periods), None) if sum(periods) > 0 else None


def parse_option_number(report: TextReport, *text: str) -> float:
    """Return an option's number as printf %g writes it; ParseError for anything else."""
    if len(text) != 1 or not re.fullmatch(r"\d{1,20}(?:\.\d+)?(?:e[+-]\d\d)?", text[0]):
        raise report.error_at(
            "echo", f"{' '.join(text) or 'nothing'!r} is not a number in the command that httperf echoes"
        )
    return float(text[0])
