"""The lines of a wrk 4 report, and of the block that wrk.lua appends to it (wg/wrk `src/wrk.c`, `src/units.c`).

Times have two decimals and us, ms, s or m (minutes) from 0.85 of the next unit on; bytes count in 1024. wrk2 began as
a copy of wrk 4 and shares how reports begin (`HEAD_PATTERNS`) and end (`TAIL_PATTERNS`), and what can be wrong with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from loadbook.core.units import BYTE_UNITS, COUNT_UNITS, TIME_UNITS_S
from loadbook.tools import text
from loadbook.tools.text import LinePattern, TextReport

BLOCK_BEGIN, BLOCK_END = "loadbook-begin 1", "loadbook-end"
ERROR_FIELDS = ("connect", "read", "write", "timeout", "status")
# field in the patterns below -> statistic, in the order in which wrk.lua prints them
STATISTICS = {f: f for f in ("min", "mean", "sd", "max", "p50", "p75", "p90", "p99")} | {"p999": "p99.9"}

TIME_PATTERN = r"\d{1,20}\.\d\d(?:us|ms|s|m|h)"
_SPREAD = rf"(?:{TIME_PATTERN}|-?nanu?s?)"
_SIZE = r"\d{1,20}\.\d\d[KMGT]?B"
_RATE = r"(?:\d+\.\d\d[kMGT]?|-?nan)"
_INT = r"-?\d{1,20}"


def _percentile_line(p: int, example: str) -> LinePattern:
    return LinePattern(f"p{p}", example, rf" {{5}}{p}%", rf" +(?P<p{p}>{TIME_PATTERN})", optional=True)


HEAD_PATTERNS = (
    LinePattern(
        "head",
        "Running 3s test @ http://127.0.0.1:18090/",
        "Running ",
        r"(?P<asked>\d{1,20}[smh]) test @ (?P<url>\S.*)",
    ),
    LinePattern(
        "load",
        "  2 threads and 50 connections",
        r"  (?P<threads>\d{1,20}) threads",
        r" and (?P<connections>\d{1,20}) connections",
    ),
    LinePattern(
        "columns",
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev",
        "  Thread Stats",
        r" +Avg +Stdev +Max +\+/- Stdev",
    ),
    LinePattern(
        "latency",
        "    Latency     3.21ms    6.27ms  75.31ms   90.55%",
        "    Latency ",
        rf" *(?P<mean>{_SPREAD}) +(?P<sd>{_SPREAD}) +(?P<max>{TIME_PATTERN}) +(?P<within>\d+\.\d\d|-?nan)%",
    ),
    # per thread and 100 ms: not the total throughput, so nothing is taken from it
    LinePattern(
        "rates",
        "    Req/Sec    21.24k     6.53k   31.50k    52.46%",
        "    Req/Sec ",
        rf"( *{_RATE}){{3}} +(?:\d+\.\d\d|-?nan)%",
    ),
)
TAIL_PATTERNS = (
    LinePattern(
        "total",
        "  129242 requests in 3.10s, 28.23MB read",
        r"  (?P<requests>\d{1,20}) requests in",
        rf" (?P<duration>{TIME_PATTERN}), (?P<bytes>{_SIZE}) read",
    ),
    LinePattern(
        "sockets",
        "  Socket errors: connect 0, read 12490, write 0, timeout 0",
        "  Socket errors:",
        rf" connect (?P<connect>{_INT}), read (?P<read>{_INT}), write (?P<write>{_INT}), timeout (?P<timeout>{_INT})",
        optional=True,
    ),
    LinePattern(
        "non2xx",
        "  Non-2xx or 3xx responses: 57434",
        "  Non-2xx",
        rf" or 3xx responses: (?P<status>{_INT})",
        optional=True,
    ),
    LinePattern("rate", "Requests/sec:  41695.86", "Requests/sec:", r" +(?P<rate>\d{1,20}\.\d\d)"),
    LinePattern("transfer", "Transfer/sec:      9.11MB", "Transfer/sec:", rf" +(?P<transfer>{_SIZE})"),
)
LINE_PATTERNS = (
    *HEAD_PATTERNS,
    LinePattern("percentiles", "  Latency Distribution", "  Latency Distribution", optional=True),
    _percentile_line(50, "     50%  830.00us"),
    _percentile_line(75, "     75%    3.02ms"),
    _percentile_line(90, "     90%    9.04ms"),
    _percentile_line(99, "     99%   30.00ms"),
    *TAIL_PATTERNS,
)
EXACT_PATTERNS = (
    LinePattern("begin", BLOCK_BEGIN, re.escape(BLOCK_BEGIN)),
    LinePattern("duration", "duration 3099711us", "duration ", r"(?P<duration>\d{1,20}us)"),
    LinePattern("requests", "requests 129242", "requests ", r"(?P<requests>\d{1,20})"),
    LinePattern("bytes", "bytes 29601300B", "bytes ", r"(?P<bytes>\d{1,20}B)"),
    *(LinePattern(name, f"{name} 0", f"{name} ", rf"(?P<{name}>\d{{1,20}})") for name in ERROR_FIELDS),
    *(
        LinePattern(field, f"{name} 830us", rf"{re.escape(name)} ", rf"(?P<{field}>\d{{1,20}}(?:\.\d+)?us)", optional=True)
        for field, name in STATISTICS.items()
    ),
    LinePattern("end", BLOCK_END, re.escape(BLOCK_END)),
)


def is_wrk2(lines: list[str]) -> bool:
    """Tell whether a report is one of wrk2: it calibrates for 10 s, and has no rate samples where a run was shorter."""
    wrk2_lines = r"  Thread calibration:|  Latency Distribution \(HdrHistogram|    Req/Sec +-?nan "
    return any(re.match(wrk2_lines, line) for line in lines)


def mean_latency_s(report: TextReport) -> float:
    """Return the mean latency in s; wrk cuts the column to 8 characters, so 1000.00ms prints as 1000.00m."""
    printed = report.text("mean")
    return 1.0 if printed == "1000.00m" else report.value("mean", TIME_UNITS_S)


def has_latency(report: TextReport) -> bool:
    """Tell whether latency was sampled: without samples wrk prints zeros, and -nan for the share within one sd."""
    return "nan" not in report.text("within") and report.value("max", TIME_UNITS_S) > 0


def check_totals(report: TextReport) -> None:
    """Raise ParseError unless requests, errors, bytes, duration and rates go together (formats.md 6.5)."""
    duration, requests = report.value("duration", TIME_UNITS_S), report.count("requests")
    if duration <= 0 or report.count("status") > requests:
        raise report.error_at("total", "impossible: no time passed, or more error responses than responses")
    if requests == 0 and has_latency(report):
        raise report.error_at("latency", "latency without a single request")
    lasted = (duration, text.rounding_half_width(report.text("duration"), TIME_UNITS_S))
    text.check_rate(report, (requests, 0), lasted, "rate")
    size = (report.value("bytes", BYTE_UNITS), text.rounding_half_width(report.text("bytes"), BYTE_UNITS))
    text.check_rate(report, size, lasted, "transfer")


def ok_per_s(report: TextReport, ok: int) -> float:
    """Return ok / duration, with the duration from whichever of text and rate shows more digits of it."""
    rate, duration = report.value("rate", COUNT_UNITS), report.value("duration", TIME_UNITS_S)
    if rate > 0 and 0.005 / rate < text.rounding_half_width(report.text("duration"), TIME_UNITS_S) / duration:
        return rate * (ok / report.count("requests"))
    return ok / duration


def connection_doubts(report: TextReport) -> Iterator[tuple[str, str]]:
    """Yield why fewer connections may have been open than asked for."""
    threads, requested, failed = (report.count(field) for field in ("threads", "connections", "connect"))
    if threads and requested % threads:
        opened = requested // threads * threads
        yield "connections", f"{opened} of {requested} connections were opened: each thread gets the same whole number"
    if failed:
        yield (
            "connections",
            f"{failed} connects failed; {report.tool} does not retry those at the start, so fewer were open",
        )


def run_doubts(report: TextReport, rc: int | None) -> Iterator[tuple[str, str]]:
    """Yield wrapped counters, a run shorter or far longer than asked for, an exit code."""
    tool = report.tool
    if any(report.text(name).startswith("-") for name in ERROR_FIELDS if name in report):
        yield "counter_wrapped", f"an error counter passed 2^31: {tool} counts in 32 bits, so it may have wrapped"
    scale, requested = TIME_UNITS_S[report.text("asked")[-1]], int(report.text("asked")[:-1])
    duration = report.value("duration", TIME_UNITS_S)
    if duration < (requested - 0.5) * scale:
        yield "stopped_early", f"{tool} ran {report.text('duration')} of the {report.text('asked')} asked for"
    if duration > (requested + 0.5) * scale * 1.5 + 5:
        yield (
            "clock",
            f"{tool} says it ran {report.text('duration')} instead of {report.text('asked')}: it trusts the wall clock",
        )
    if rc:
        yield "exit_code", f"{tool} ended with exit code {rc} although its report is complete"
