"""Text report of ab: the patterns of its lines, and its counts with the options of its command."""

from __future__ import annotations

import getopt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadbook.core.units import TIME_UNITS_S
from loadbook.tools.base import ToolOutput
from loadbook.tools.line_patterns import LinePattern, TextReport

# error class of loadbook -> class in ab's report
ERROR_CLASSES = {"connect": "connect", "receive": "read", "length": "length", "exceptions": "other", "write": "write"}
PERCENTILES = (50, 66, 75, 80, 90, 95, 98, 99)
TIME_METRICS = {"connect": "connect_time", "waiting": "ttfb", "total": "latency"}  # ab's row -> metric
PLAIN_HEADING = "min avg max"  # the table's heading when ab runs with -S

_N = r"\d{1,20}"
_REAL = r"\d{1,20}\.\d+"
_FIVE = r" {4}\d| {3}\d{2}| {2}\d{3}| \d{4}|\d{5}|\d{1,4}(?= )"  # %5d, also without its blanks
TIMED_REQUESTS = 50_000  # the number of requests that ab's option -t sets
GETOPT_STRING = "n:c:t:s:b:T:p:u:v:lrkVhwiIx:y:z:C:H:P:A:g:X:de:SqB:m:Z:f:E:W:R:"  # ab.c, 2.4.x and trunk
EMPTY_SHARE = 0.05  # answers with less than this share of the page's bytes on average were lost, not another page
FileSources = Mapping[str, bytes | Path]


def _labelled_line(name: str, label: str, value: str, example: str, optional: bool = False) -> LinePattern:
    return LinePattern(name, f"{label}: {example}", re.escape(label) + ":", rf" +{value}", optional)


def _count_line(name: str, label: str, unit: str = "", optional: bool = False) -> LinePattern:
    return _labelled_line(name, label, rf"(?P<{name}>{_N}){unit}", f"100{unit}", optional)


def _real_line(name: str, label: str, unit: str, optional: bool = False) -> LinePattern:
    return _labelled_line(name, label, rf"(?P<{name}>{_REAL}){re.escape(unit)}", f"1.234{unit}", optional)


def _times_line(row: str, plain: bool) -> LinePattern:
    """Return the pattern of a row of times; with -S (`plain`) it is ``%5d %5d%5d``, in which numbers may touch."""
    example = f"{row.capitalize()}:        0    1   1.6      1      22"
    rest = (
        rf" *(?P<{row}_min>{_N}) +(?P<{row}_mean>{_N}) +(?P<{row}_sd>{_REAL}) +(?P<{row}_p50>{_N}) +(?P<{row}_max>{_N})"
    )
    if plain:
        example = f"{row.capitalize() + ':':12}    0     0    1"
        rest = rf" *(?P<{row}_min>\d{{1,6}}) (?P<{row}_mean>{_FIVE})(?P<{row}_max> *\d{{1,6}})"
    return LinePattern(f"{row}_times", example, f"{row.capitalize()}: ", rest)


HEAD_PATTERNS = (
    LinePattern("port", "Server Port:            8080", "Server Port:", rf" +{_N}"),
    LinePattern("path", "Document Path:          /", "Document Path:", r" +(?P<url>\S.*)"),
    LinePattern("document", "Document Length:        4 bytes", "Document Length:",
                rf" +(?:Variable|(?P<page_bytes>{_N}) bytes)"),
    _count_line("workers", "Number of workers", optional=True),  # trunk
    _count_line("concurrency", "Concurrency Level"),
    _count_line("achieved", "Concurrency achieved", optional=True),  # trunk
    _real_line("duration", "Time taken for tests", " seconds"),
    LinePattern("window", "Number of requests:     50000 (window)",
                "Number of requests:", rf" +(?P<window>{_N})(?: \(window\))?", True),  # trunk
    _count_line("complete", "Complete requests"),
    _count_line("failed", "Failed requests"),
    LinePattern("classes", "   (Connect: 0, Receive: 0, Length: 299, Exceptions: 0)", r" +\(Connect: ",
                rf"(?P<connect>{_N}), (?:Receive: (?P<receive>{_N}), )?"
                rf"Length: (?P<length>{_N}), Exceptions: (?P<exceptions>{_N})\)", True),
    _count_line("write", "Write errors", optional=True),
    _count_line("non2xx", "Non-2xx responses", optional=True),
    _count_line("kept", "Keep-Alive requests", optional=True),
    _count_line("bytes", "Total transferred", " bytes"),
    _count_line("sent", "Total body sent", optional=True),
    _count_line("html", "HTML transferred", " bytes"),
    _real_line("rate", "Requests per second", " [#/sec] (mean)", True),
    LinePattern("computed", "Time per request:       1.456 [ms] (mean)",
                rf"Time per request: +{_REAL} \[ms\] \(mean\)$", optional=True),
    LinePattern("across", "Time per request:       0.029 [ms] (mean, across all concurrent requests)",
                r"Time per request: +\S+ \[ms\] \(mean, ", r"across all concurrent requests\)", True),
    _real_line("transfer", "Transfer rate", " [Kbytes/sec] received", True),
)  # fmt: skip
RATE_LINES = ("rate", "computed", "across", "transfer")
TIMES_HEADING = (
    LinePattern("heading", "Connection Times (ms)", r"Connection Times \(ms\)$"),
    LinePattern("columns", "              min  mean[+/-sd] median   max", r" +min +(?:mean|avg)", r".* max"),
)
PERCENTILE_TABLE = (
    LinePattern("table", "Percentage of the requests served within a certain time (ms)",
                "Percentage of the requests served", r" within a certain time \(ms\)", True),
    *(LinePattern(f"row{p}", f"  {p}%      1", rf" {{1,2}}{p}% ", rf" *(?P<p{p}>{_N})", True) for p in PERCENTILES),
    LinePattern("row100", " 100%     22 (longest request)", " 100% ", rf" *(?P<p100>{_N}) \(longest request\)", True),
)  # fmt: skip


def report_patterns(lines: Sequence[str]) -> tuple[LinePattern, ...]:
    """Return the patterns of a report's lines: option -S changes the rows of times, and 0 requests leave them out."""
    rows = ("connect", "processing", "waiting", "total")
    if any(re.match(r"Complete requests: +0$", line) for line in lines):
        return HEAD_PATTERNS
    is_plain = any(" ".join(line.split()) == PLAIN_HEADING for line in lines)
    times = (_times_line(row, is_plain) for row in rows)
    return (*HEAD_PATTERNS, *TIMES_HEADING, *times, *PERCENTILE_TABLE)


def command_options(argv: Sequence[str]) -> list[tuple[str, str]]:
    """Return (option, value) pairs of an ab command line in order; [] if it has no options, or one unknown to ab."""
    try:
        return getopt.getopt(list(argv[1:]), GETOPT_STRING)[0]
    except getopt.GetoptError:
        return []


def _printed_heads(lines: Sequence[str]) -> list[int | None]:
    """Return the Content-Length of each answer whose head ab -v 2 printed; None for a head without one."""
    heads: list[int | None] = []
    in_head = False
    for line in lines:
        if line == "LOG: header received:":
            heads.append(None)
            in_head = True
        elif not line:
            in_head = False
        elif in_head and (match := re.fullmatch(r"content-length: *(\d{1,18})", line, re.IGNORECASE)):
            heads[-1] = int(match[1])
    return heads


@dataclass(frozen=True)
class AbReport:
    """The parsed report with the options of its command."""

    report: TextReport
    output: ToolOutput
    lines: Sequence[str]

    @property
    def files(self) -> FileSources:
        """The files that ab wrote besides its report: content, or the path of a file too large for memory."""
        return {**self.output.files, **self.output.paths}

    @property
    def options(self) -> dict[str, str]:
        """Options of the command line. As in ab, -t sets -n to 50,000, which a later -n overrides."""
        values: dict[str, str] = {}
        for name, value in command_options(self.output.argv):
            values[name] = value
            if name == "-t":
                values["-n"] = str(TIMED_REQUESTS)
        return values

    @property
    def duration_s(self) -> float:
        """Printed duration of the test in seconds, exact to 0.5 ms."""
        return self.report.value("duration", TIME_UNITS_S, "s")

    @property
    def complete(self) -> int:
        """Number of ab's "Complete requests", which include failed ones."""
        return self.report.count("complete")

    @property
    def answered(self) -> int:
        """Number of complete requests; 0 if ab received no byte, as it also calls unanswered requests complete."""
        return self.complete if self.report.count("bytes") else 0

    @property
    def timed_requests(self) -> int:
        """Number of requests in ab's times: all complete ones; of ab built from trunk at most its "window"."""
        return min(self.complete, self.report.count("window") or self.complete)

    @property
    def cuts_kib(self) -> bool:
        """Whether this is ab 2.0, which cuts the bytes to whole KiB before it divides them by the time."""
        return any(line.startswith("This is ApacheBench, Version 2.0.") for line in self.lines)

    @property
    def failures(self) -> dict[str, int]:
        """Number of failures by error class of loadbook (connect, read, length, ...)."""
        return {error_class: self.report.count(field) for field, error_class in ERROR_CLASSES.items()}

    @property
    def percentiles_ms(self) -> dict[int, int]:
        """The printed percentiles of total time in whole milliseconds (0: minimum, 100: maximum)."""
        rows = {0: "total_min", **{p: f"p{p}" for p in PERCENTILES}, 100: "total_max"}
        return {p: self.report.count(field) for p, field in rows.items() if field in self.report}

    @property
    def status_errors(self) -> int | None:
        """Number of responses of status 400 and above; None if they cannot be separated from redirects.

        They can if ab ran with -v 2 or higher, which prints the code of each response other than 2xx.
        """
        matches = (re.fullmatch(r"WARNING: Response code not 2xx \((.)..\)", line) for line in self.lines)
        first_digits = [match[1] for match in matches if match]
        if len(first_digits) != self.report.count("non2xx"):
            return None if self.report.count("non2xx") else 0
        return sum(digit not in "123" for digit in first_digits)

    @property
    def checks_lengths(self) -> bool:
        """Whether ab compared the length of each answer with that of the first one, which it does without -l."""
        return "page_bytes" in self.report.fields

    @property
    def is_whole(self) -> bool | None:
        """Whether every answer came, and came whole; None if that is not known: lost ones are complete to ab -l.

        ab keeps a connection alive only after all bytes of a Content-Length. With -v 2 it prints the head of each
        answer, so that the lengths in them can be added up.
        """
        if self.checks_lengths or 0 < self.complete == self.report.count("kept"):
            return True
        heads = _printed_heads(self.lines)
        if not heads:
            return None
        sizes = [size for size in heads if size is not None]
        adds_up = len(sizes) < len(heads) or sum(sizes) == self.report.count("html")
        return len(heads) == self.complete and adds_up

    @property
    def first_was_another(self) -> bool:
        """Whether the first answer was not the page, so that ab counts good answers as failed.

        Either it was empty and others were not, or most had another length, and they were not just lost.
        """
        html, wrong = self.report.count("html"), self.report.count("length")
        page = self.report.count("page_bytes")
        if not self.checks_lengths or not html:
            return False
        others = html - (self.complete - wrong) * page  # bytes of the answers of another length
        return page == 0 or (wrong > self.complete / 2 and others > EMPTY_SHARE * page * wrong)

    @property
    def ok(self) -> int | None:
        """Number of good responses; None if ab cannot tell them."""
        if not self.answered:
            return 0
        if self.first_was_another or self.is_whole is False:
            return None
        failed = [n for n in (*self.failures.values(), self.status_errors) if n != 0]
        if None in failed or len(failed) > 1:
            return None
        ok = self.complete - (failed[0] or 0 if failed else 0)
        return ok if ok >= 0 else None
