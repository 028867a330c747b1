"""The lines of an ab 2.3 report (apache/httpd `support/ab.c`, branch 2.4.x, and what trunk adds)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from loadbook.tools.text import LinePattern

ERROR_CLASSES = {"connect": "connect", "receive": "read", "length": "length", "exceptions": "other"}  # ab's -> ours
PERCENTILES = (50, 66, 75, 80, 90, 95, 98, 99)
TIME_METRICS = {"connect": "connect_time", "waiting": "ttfb", "total": "latency"}  # row of Connection Times -> metric
PLAIN_HEADING = "              min   avg   max"  # the heading with -S

_N = r"\d{1,20}"
_REAL = r"\d{1,20}\.\d+"
_FIVE = r" {4}\d| {3}\d{2}| {2}\d{3}| \d{4}|\d{5}"  # %5d


def _labelled_line(name: str, label: str, value: str, example: str, optional: bool = False) -> LinePattern:
    return LinePattern(name, f"{label}: {example}", re.escape(label) + ":", rf" +{value}", optional)


def _count_line(name: str, label: str, unit: str = "", optional: bool = False) -> LinePattern:
    return _labelled_line(name, label, rf"(?P<{name}>{_N}){unit}", f"100{unit}", optional)


def _real_line(name: str, label: str, unit: str, optional: bool = False) -> LinePattern:
    return _labelled_line(name, label, rf"(?P<{name}>{_REAL}){re.escape(unit)}", f"1.234{unit}", optional)


def _times_line(row: str) -> LinePattern:
    """Return the pattern of a row with mean, deviation and median."""
    example = f"{row.capitalize()}:        0    1   1.6      1      22"
    rest = (
        rf" +(?P<{row}_min>{_N}) +(?P<{row}_mean>{_N}) +(?P<{row}_sd>{_REAL}) +(?P<{row}_p50>{_N}) +(?P<{row}_max>{_N})"
    )
    return LinePattern(f"{row}_times", example, f"{row.capitalize()}: ", rest)


def _plain_times_line(row: str) -> LinePattern:
    """Return the pattern of a row printed with -S: ``%5d %5d%5d``, so that mean and maximum may touch."""
    example = f"{row.capitalize() + ':':12}    0     0    1"
    rest = rf" *(?P<{row}_min>\d{{1,6}}) (?P<{row}_mean>{_FIVE})(?P<{row}_max> *\d{{1,6}})"
    return LinePattern(f"{row}_times", example, f"{row.capitalize()}: ", rest)


def _percentile_line(percent: int) -> LinePattern:
    return LinePattern(f"row{percent}", f"  {percent}%      1", f"  {percent}% ", rf" *(?P<p{percent}>{_N})", True)


HEAD_PATTERNS = (
    LinePattern("port", "Server Port:            8080", "Server Port:", rf" +{_N}"),
    LinePattern("path", "Document Path:          /", "Document Path:", r" +\S.*"),
    LinePattern("document", "Document Length:        4 bytes", "Document Length:", rf" +(?:Variable|{_N} bytes)"),
    _count_line("workers", "Number of workers", optional=True),  # trunk
    _count_line("concurrency", "Concurrency Level"),
    _count_line("achieved", "Concurrency achieved", optional=True),  # trunk
    _real_line("duration", "Time taken for tests", " seconds"),
    LinePattern(
        "window",
        "Number of requests:     50000 (window)",
        "Number of requests:",
        rf" +(?P<window>{_N})(?: \(window\))?",
        True,
    ),  # trunk
    _count_line("complete", "Complete requests"),
    _count_line("failed", "Failed requests"),
    LinePattern(
        "classes",
        "   (Connect: 0, Receive: 0, Length: 299, Exceptions: 0)",
        r" +\(Connect: ",
        rf"(?P<connect>{_N}), (?:Receive: (?P<receive>{_N}), )?"
        rf"Length: (?P<length>{_N}), Exceptions: (?P<exceptions>{_N})\)",
        True,
    ),
    _count_line("write", "Write errors", optional=True),
    _count_line("non2xx", "Non-2xx responses", optional=True),
    _count_line("kept", "Keep-Alive requests", optional=True),
    _count_line("bytes", "Total transferred", " bytes"),
    _count_line("sent", "Total body sent", optional=True),
    _count_line("html", "HTML transferred", " bytes"),
    _real_line("rate", "Requests per second", " [#/sec] (mean)", True),
    LinePattern(
        "computed",
        "Time per request:       1.456 [ms] (mean)",
        rf"Time per request: +{_REAL} \[ms\] \(mean\)$",
        optional=True,
    ),
    LinePattern(
        "across",
        "Time per request:       0.029 [ms] (mean, across all concurrent requests)",
        r"Time per request: +\S+ \[ms\] \(mean, ",
        r"across all concurrent requests\)",
        True,
    ),
    _real_line("transfer", "Transfer rate", " [Kbytes/sec] received", True),
)
RATE_LINES = ("rate", "computed", "across", "transfer")
TIMES_HEADING = LinePattern("heading", "Connection Times (ms)", r"Connection Times \(ms\)$")
TIMES_COLUMNS = LinePattern("columns", "              min  mean[+/-sd] median   max", r" +min +(?:mean|avg)", r".* max")
PERCENTILE_TABLE = (
    LinePattern("table", "Percentage of the requests served within a certain time (ms)", "Percentage of the requests served",
         r" within a certain time \(ms\)", True),
    *map(_percentile_line, PERCENTILES),
    LinePattern("row100", " 100%     22 (longest request)", " 100% ", rf" *(?P<p100>{_N}) \(longest request\)", True),
)  # fmt: skip


def line_patterns(lines: Sequence[str]) -> tuple[LinePattern, ...]:
    """Return the patterns of this report: with -S other rows of times, of no request none at all."""
    rows = ("connect", "processing", "waiting", "total")
    if any(re.match(r"Complete requests: +0$", line) for line in lines):
        return HEAD_PATTERNS
    times = map(_plain_times_line if PLAIN_HEADING in lines else _times_line, rows)
    return (*HEAD_PATTERNS, TIMES_HEADING, TIMES_COLUMNS, *times, *PERCENTILE_TABLE)
