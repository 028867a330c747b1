"""The lines of a wrk 4 report, and of the block that wrk.lua appends to it (wg/wrk `src/wrk.c`, `src/units.c`).

Times have two decimals and us, ms, s or m (minutes) from 0.85 of the next unit on; bytes count in 1024.
"""

from __future__ import annotations

import re

from loadbook.tools.text import Form

BEGIN, END = "loadbook-begin 1", "loadbook-end"
ERRORS = ("connect", "read", "write", "timeout", "status")
# field in the forms below -> statistic, in the order in which wrk.lua prints them
STATISTICS = {f: f for f in ("min", "mean", "sd", "max", "p50", "p75", "p90", "p99")} | {"p999": "p99.9"}

_TIME = r"\d{1,20}\.\d\d(?:us|ms|s|m|h)"
_SPREAD = rf"(?:{_TIME}|-?nanu?s?)"
_SIZE = r"\d{1,20}\.\d\d[KMGT]?B"
_RATE = r"(?:\d+\.\d\d[kMGT]?|-?nan)"
_INT = r"-?\d{1,20}"


def _percentile(p: int, shows: str) -> Form:
    return Form(f"p{p}", shows, rf" {{5}}{p}%", rf" +(?P<p{p}>{_TIME})", optional=True)


FORMS = (
    Form(
        "head",
        "Running 3s test @ http://127.0.0.1:18090/",
        "Running ",
        r"(?P<asked>\d{1,20}[smh]) test @ (?P<url>\S.*)",
    ),
    Form(
        "load",
        "  2 threads and 50 connections",
        r"  (?P<threads>\d{1,20}) threads",
        r" and (?P<connections>\d{1,20}) connections",
    ),
    Form(
        "columns",
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev",
        "  Thread Stats",
        r" +Avg +Stdev +Max +\+/- Stdev",
    ),
    Form(
        "latency",
        "    Latency     3.21ms    6.27ms  75.31ms   90.55%",
        "    Latency ",
        rf" *(?P<mean>{_SPREAD}) +(?P<sd>{_SPREAD}) +(?P<max>{_TIME}) +(?P<within>\d+\.\d\d|-?nan)%",
    ),
    # per thread and 100 ms: not the total throughput, so nothing is taken from it
    Form(
        "rates",
        "    Req/Sec    21.24k     6.53k   31.50k    52.46%",
        "    Req/Sec ",
        rf"( *{_RATE}){{3}} +(?:\d+\.\d\d|-?nan)%",
    ),
    Form("percentiles", "  Latency Distribution", "  Latency Distribution", optional=True),
    _percentile(50, "     50%  830.00us"),
    _percentile(75, "     75%    3.02ms"),
    _percentile(90, "     90%    9.04ms"),
    _percentile(99, "     99%   30.00ms"),
    Form(
        "total",
        "  129242 requests in 3.10s, 28.23MB read",
        r"  (?P<requests>\d{1,20}) requests in",
        rf" (?P<duration>{_TIME}), (?P<bytes>{_SIZE}) read",
    ),
    Form(
        "sockets",
        "  Socket errors: connect 0, read 12490, write 0, timeout 0",
        "  Socket errors:",
        rf" connect (?P<connect>{_INT}), read (?P<read>{_INT}), write (?P<write>{_INT}), timeout (?P<timeout>{_INT})",
        optional=True,
    ),
    Form(
        "non2xx",
        "  Non-2xx or 3xx responses: 57434",
        "  Non-2xx",
        rf" or 3xx responses: (?P<status>{_INT})",
        optional=True,
    ),
    Form("rate", "Requests/sec:  41695.86", "Requests/sec:", r" +(?P<rate>\d{1,20}\.\d\d)"),
    Form("transfer", "Transfer/sec:      9.11MB", "Transfer/sec:", rf" +(?P<transfer>{_SIZE})"),
)
EXACT = (
    Form("begin", BEGIN, re.escape(BEGIN)),
    Form("duration", "duration 3099711us", "duration ", r"(?P<duration>\d{1,20}us)"),
    Form("requests", "requests 129242", "requests ", r"(?P<requests>\d{1,20})"),
    Form("bytes", "bytes 29601300B", "bytes ", r"(?P<bytes>\d{1,20}B)"),
    *(Form(name, f"{name} 0", f"{name} ", rf"(?P<{name}>\d{{1,20}})") for name in ERRORS),
    *(
        Form(field, f"{name} 830us", rf"{re.escape(name)} ", rf"(?P<{field}>\d{{1,20}}(?:\.\d+)?us)", optional=True)
        for field, name in STATISTICS.items()
    ),
    Form("end", END, re.escape(END)),
)
