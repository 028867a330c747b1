"""The lines of an ab 2.3 report (apache/httpd `support/ab.c`, branch 2.4.x, and what trunk adds)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from loadbook.tools.text import Form

CLASSES = {"connect": "connect", "receive": "read", "length": "length", "exceptions": "other"}  # ab's -> ours
PERCENTILES = (50, 66, 75, 80, 90, 95, 98, 99)
TIMES = {"connect": "connect_time", "waiting": "ttfb", "total": "latency"}  # row of Connection Times -> metric
PLAIN = "              min   avg   max"  # the heading with -S

_N = r"\d{1,20}"
_REAL = r"\d{1,20}\.\d+"
_FIVE = r" {4}\d| {3}\d{2}| {2}\d{3}| \d{4}|\d{5}"  # %5d


def _labelled(name: str, label: str, value: str, shows: str, optional: bool = False) -> Form:
    return Form(name, f"{label}: {shows}", re.escape(label) + ":", rf" +{value}", optional)


def _count(name: str, label: str, unit: str = "", optional: bool = False) -> Form:
    return _labelled(name, label, rf"(?P<{name}>{_N}){unit}", f"100{unit}", optional)


def _real(name: str, label: str, unit: str, optional: bool = False) -> Form:
    return _labelled(name, label, rf"(?P<{name}>{_REAL}){re.escape(unit)}", f"1.234{unit}", optional)


def _times(row: str) -> Form:
    """Return the form of a row with mean, deviation and median."""
    shows = f"{row.capitalize()}:        0    1   1.6      1      22"
    rest = (
        rf" +(?P<{row}_min>{_N}) +(?P<{row}_mean>{_N}) +(?P<{row}_sd>{_REAL}) +(?P<{row}_p50>{_N}) +(?P<{row}_max>{_N})"
    )
    return Form(f"{row}_times", shows, f"{row.capitalize()}: ", rest)


def _plain_times(row: str) -> Form:
    """Return the form of a row printed with -S: ``%5d %5d%5d``, so that mean and maximum may touch."""
    shows = f"{row.capitalize() + ':':12}    0     0    1"
    rest = rf" *(?P<{row}_min>\d{{1,6}}) (?P<{row}_mean>{_FIVE})(?P<{row}_max> *\d{{1,6}})"
    return Form(f"{row}_times", shows, f"{row.capitalize()}: ", rest)


def _percentile(percent: int) -> Form:
    return Form(f"row{percent}", f"  {percent}%      1", f"  {percent}% ", rf" *(?P<p{percent}>{_N})", True)


HEAD = (
    Form("port", "Server Port:            8080", "Server Port:", rf" +{_N}"),
    Form("path", "Document Path:          /", "Document Path:", r" +\S.*"),
    Form("document", "Document Length:        4 bytes", "Document Length:", rf" +(?:Variable|{_N} bytes)"),
    _count("workers", "Number of workers", optional=True),  # trunk
    _count("concurrency", "Concurrency Level"),
    _count("achieved", "Concurrency achieved", optional=True),  # trunk
    _real("duration", "Time taken for tests", " seconds"),
    Form(
        "window",
        "Number of requests:     50000 (window)",
        "Number of requests:",
        rf" +(?P<window>{_N})(?: \(window\))?",
        True,
    ),  # trunk
    _count("complete", "Complete requests"),
    _count("failed", "Failed requests"),
    Form(
        "classes",
        "   (Connect: 0, Receive: 0, Length: 299, Exceptions: 0)",
        r" +\(Connect: ",
        rf"(?P<connect>{_N}), (?:Receive: (?P<receive>{_N}), )?"
        rf"Length: (?P<length>{_N}), Exceptions: (?P<exceptions>{_N})\)",
        True,
    ),
    _count("write", "Write errors", optional=True),
    _count("non2xx", "Non-2xx responses", optional=True),
    _count("kept", "Keep-Alive requests", optional=True),
    _count("bytes", "Total transferred", " bytes"),
    _count("sent", "Total body sent", optional=True),
    _count("html", "HTML transferred", " bytes"),
    _real("rate", "Requests per second", " [#/sec] (mean)", True),
    Form(
        "computed",
        "Time per request:       1.456 [ms] (mean)",
        rf"Time per request: +{_REAL} \[ms\] \(mean\)$",
        optional=True,
    ),
    Form(
        "across",
        "Time per request:       0.029 [ms] (mean, across all concurrent requests)",
        r"Time per request: +\S+ \[ms\] \(mean, ",
        r"across all concurrent requests\)",
        True,
    ),
    _real("transfer", "Transfer rate", " [Kbytes/sec] received", True),
)
RATES = ("rate", "computed", "across", "transfer")
HEADING = Form("heading", "Connection Times (ms)", r"Connection Times \(ms\)$")
COLUMNS = Form("columns", "              min  mean[+/-sd] median   max", r" +min +(?:mean|avg)", r".* max")
TABLE = (
    Form("table", "Percentage of the requests served within a certain time (ms)", "Percentage of the requests served",
         r" within a certain time \(ms\)", True),
    *map(_percentile, PERCENTILES),
    Form("row100", " 100%     22 (longest request)", " 100% ", rf" *(?P<p100>{_N}) \(longest request\)", True),
)  # fmt: skip


def forms(lines: Sequence[str]) -> tuple[Form, ...]:
    """Return the forms of this report: with -S other rows of times, of no request none at all."""
    rows = ("connect", "processing", "waiting", "total")
    if any(re.match(r"Complete requests: +0$", line) for line in lines):
        return HEAD
    times = map(_plain_times if PLAIN in lines else _times, rows)
    return (*HEAD, HEADING, COLUMNS, *times, *TABLE)
