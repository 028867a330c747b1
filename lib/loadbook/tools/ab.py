"""Apache ab 2.3: closed loop, HTTP/1.0, one URL, one thread (apache/httpd `support/ab.c`, branch 2.4.x, and trunk).

- Above about 50,000 requests per second ab's thread is the limit. An expired time-out ends ab without a report, and
  the trial fails.
- Pages of variable length need `extra = ["-l"]`, otherwise other lengths than the first are `errors_length`.
- `requests` are ab's "Complete requests", failed ones included, or 0 if ab received no byte. **`ok` and
  `errors_status` are missing if ab cannot tell**: "Non-2xx" counts redirects and errors alike (doubt `non_2xx`), and
  `extra = ["-v", "2"]` prints every code. Its classes of failure overlap: with two of them there is no `ok` and no
  `errors`.
- `latency` is ab's total time, of failed attempts, too: from the start of the connection (kept alive: of the request)
  to its end. `ttfb` is its waiting time, from the end of the request. `connect_time` exists only without kept
  connections. With the file of `-e`, which loadbook asks for, percentiles have 0.001 ms; without it all times are
  whole ms. `-g FILE` in `extra` adds requests started per second. HTML (`-w`) is refused.
"""

# Besides the report ab writes two files, recognised by their first lines: -e and -g (one row per request in whole ms,
# sorted by total time, not by start).

from __future__ import annotations

import getopt
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loadbook.core.errors import ParseError, ToolError
from loadbook.core.units import BYTE_UNITS, COUNT_UNITS, TIME_UNITS_S
from loadbook.study.workload import Workload
from loadbook.tools import base, line_patterns
from loadbook.tools.base import Measurement, ParsedReport, Sample, Target, ToolOutput
from loadbook.tools.line_patterns import LinePattern, TextReport

# error class of loadbook -> class in ab's report
ERROR_CLASSES = {"connect": "connect", "receive": "read", "length": "length", "exceptions": "other", "write": "write"}
PERCENTILES = (50, 66, 75, 80, 90, 95, 98, 99)
TIME_METRICS = {"connect": "connect_time", "waiting": "ttfb", "total": "latency"}  # ab's row -> metric
PLAIN_HEADING = "min   avg   max"  # the table's heading when ab runs with -S

_N = r"\d{1,20}"
_REAL = r"\d{1,20}\.\d+"
_FIVE = r" {4}\d| {3}\d{2}| {2}\d{3}| \d{4}|\d{5}"  # %5d
CSV_HEAD, CSV_LINE = "Percentage served,Time in ms", re.compile(r"(\d{1,3}),(\d{1,12}\.\d{3})")
TSV_HEAD = "starttime\tseconds\tctime\tdtime\tttime\twait"
MAX_SPAN_S = 7 * 86400
MAX_CSV_BYTES = 10_000  # the file has 101 lines
FileSources = Mapping[str, bytes | Path]
TIMED_REQUESTS = 50_000  # the number of requests that ab's option -t sets
GETOPT_STRING = "n:c:t:s:b:T:p:u:v:lrkVhwiIx:y:z:C:H:P:A:g:X:de:SqB:m:Z:f:E:W:R:"  # ab.c, 2.4.x and trunk
PROGRESS_PREFIXES = (b"Completed ", b"Finished ", b"\n", b"\r\n")  # lines on stderr that are progress, not errors
PERCENTILES_FILE = "pct.csv"
MAX_CONNECTIONS = 20_000  # ab.c MAX_CONCURRENCY
REQUESTS_PER_S, MAX_REQUESTS = 200_000, 100_000_000  # more than one thread can send; ab takes 32 B for each
RESERVED_OPTIONS = ("-n", "-c", "-t", "-s", "-k", "-e", "-r", "-q", "-w", "-h", "-V", "-X")
LOGIN_OPTIONS = ("-A", "-P", "-C")


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
        rf" +(?P<{row}_min>{_N}) +(?P<{row}_mean>{_N}) +(?P<{row}_sd>{_REAL}) +(?P<{row}_p50>{_N}) +(?P<{row}_max>{_N})"
    )
    if plain:
        example = f"{row.capitalize() + ':':12}    0     0    1"
        rest = rf" *(?P<{row}_min>\d{{1,6}}) (?P<{row}_mean>{_FIVE})(?P<{row}_max> *\d{{1,6}})"
    return LinePattern(f"{row}_times", example, f"{row.capitalize()}: ", rest)


HEAD_PATTERNS = (
    LinePattern("port", "Server Port:            8080", "Server Port:", rf" +{_N}"),
    LinePattern("path", "Document Path:          /", "Document Path:", r" +\S.*"),
    LinePattern("document", "Document Length:        4 bytes", "Document Length:", rf" +(?:Variable|{_N} bytes)"),
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
    *(LinePattern(f"row{p}", f"  {p}%      1", f"  {p}% ", rf" *(?P<p{p}>{_N})", True) for p in PERCENTILES),
    LinePattern("row100", " 100%     22 (longest request)", " 100% ", rf" *(?P<p100>{_N}) \(longest request\)", True),
)  # fmt: skip


def report_patterns(lines: Sequence[str]) -> tuple[LinePattern, ...]:
    """Return the patterns of a report's lines: option -S changes the rows of times, and 0 requests leave them out."""
    rows = ("connect", "processing", "waiting", "total")
    if any(re.match(r"Complete requests: +0$", line) for line in lines):
        return HEAD_PATTERNS
    is_plain = any(line.lstrip() == PLAIN_HEADING for line in lines)
    times = (_times_line(row, is_plain) for row in rows)
    return (*HEAD_PATTERNS, *TIMES_HEADING, *times, *PERCENTILE_TABLE)


def _head(source: bytes | Path) -> bytes:
    with source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as file:
        return file.read(MAX_CSV_BYTES)


def _matching_file(files: FileSources, head: str, option_value: str | None) -> str | None:
    """Return the name of the one file that begins with the line `head`; None if no file does.

    `option_value` is the value of the option (-e or -g) that makes ab write the file; None if it was not given.
    """
    matching = [name for name, data in files.items() if _head(data).startswith(head.encode())]
    expected_name = (option_value or "").rpartition("/")[2]
    if expected_name in files and expected_name not in matching:
        raise ParseError("ab", expected_name, 1, f"does not begin {head!r}: empty, cut, or another file")
    if len(matching) > 1:
        raise ParseError("ab", matching[1], 1, f"a second file like {matching[0]}: which belongs to this report?")
    return matching[0] if matching else None


def read_percentiles(run: AbReport) -> dict[int, str]:
    """Return {percentile: milliseconds as printed} of the -e file (0: minimum, 100: maximum); {} without that file.

    For percentile p the file shows element ``round(count * p / 100)`` of the sorted times, the report's table element
    ``floor(count * p / 100)``, so the file may be one element ahead. For small counts and high p the file's index is
    past the last element, and ab prints memory contents behind the array: there the maximum is returned instead.
    """
    name, count = _matching_file(run.files, CSV_HEAD, run.options.get("-e")), run.timed_requests
    if name is None:
        return {}
    data = _head(run.files[name])
    lines = [line for line in line_patterns.clean_lines(data)[1:] if line]
    for number, line in enumerate(lines, 2):
        match = CSV_LINE.fullmatch(line)
        if match is None or int(match[1]) != number - 2:
            raise ParseError("ab", name, number, f"expected percentile {number - 2} and a time, not {line[:60]!r}")
    if len(lines) != 101 or not data.endswith(b"\n"):
        raise ParseError("ab", name, 0, f"not complete: {len(lines)} of 101 percentiles")
    times = {p: line.partition(",")[2] for p, line in enumerate(lines) if count > 1 or p in (0, 100)}
    times |= {p: times[100] for p in times if p and count * (100 - p) <= 50}
    if list(times.values()) != sorted(times.values(), key=float):
        raise ParseError("ab", name, 0, "percentiles do not ascend")
    whole_ms = run.percentiles_ms
    for p in (p for p in whole_ms if p in times):
        rounded = (int(times[p].replace(".", "")) + 500) // 1000  # three decimals
        next_ms = next((whole_ms[q] for q in sorted(whole_ms) if q > p), whole_ms[p])
        same_element = p in (0, 100) or count * p % 100 < 50
        if rounded != whole_ms[p] if same_element else not whole_ms[p] <= rounded <= next_ms:
            raise ParseError("ab", name, p + 2, f"{times[p]} ms is not the {whole_ms[p]} ms of the report")
    return times


def started_per_second(run: AbReport) -> Iterator[Sample]:
    """Yield the requests started in each second (1/s), counted in the -g file; nothing without that file."""
    name, count = _matching_file(run.files, TSV_HEAD, run.options.get("-g")), run.timed_requests
    if name is None:
        return
    import numpy as np

    from loadbook.request_logs.read import read_batches

    batches = list(read_batches(run.files[name], "ab", file=name))
    rows = sum(len(batch) + len(batch.damage) for batch in batches)
    if rows != count or any(batch.damage for batch in batches):
        raise ParseError("ab", name, 0, f"not complete: {rows} rows for {count} requests")
    if not rows:
        return
    times_ms = np.concatenate([batch.elapsed for batch in batches])
    for p, printed_ms in run.percentiles_ms.items():
        if p and times_ms[min(count * p // 100, count - 1)] != printed_ms:
            raise ParseError("ab", name, 0, f"its percentile {p} is not the {printed_ms} ms of the report")
    seconds = np.concatenate([batch.start_us for batch in batches if batch.start_us is not None]) // 1_000_000
    first, last = int(seconds.min()), int(seconds.max())
    if last - first > MAX_SPAN_S:
        raise ParseError("ab", name, 0, f"its rows start over {last - first} s")
    for second, started in enumerate(np.bincount(seconds - first).tolist()):
        yield Sample("started", "requests_per_s", second, "s", started, "1/s")


def command_options(argv: Sequence[str]) -> list[tuple[str, str]]:
    """Return (option, value) pairs of an ab command line in order; [] if it has no options, or one unknown to ab."""
    try:
        return getopt.getopt(list(argv[1:]), GETOPT_STRING)[0]
    except getopt.GetoptError:
        return []


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
    def ok(self) -> int | None:
        """Number of good responses; None if several classes of errors occurred or `status_errors` is None."""
        if not self.answered:
            return 0
        failed = [n for n in (*self.failures.values(), self.status_errors) if n != 0]
        if None in failed or len(failed) > 1:
            return None
        ok = self.complete - (failed[0] or 0 if failed else 0)
        return ok if ok >= 0 else None


def require_ab_report(output: ToolOutput, lines: Sequence[str]) -> None:
    """Raise ParseError with the probable reason if the output has no complete report; ignores progress on stderr."""
    if any(re.match(r" *This is ApacheBench, Version \S+ <i>", line) for line in lines):
        raise ParseError("ab", "stdout", 0, "this is the HTML of ab -w, which lacks the percentiles: run without -w")
    stderr = [line for line in output.stderr[:100_000].splitlines(True) if not line.startswith(PROGRESS_PREFIXES)]
    without_progress = replace(output, stderr=b"".join(stderr).lstrip())
    try:
        line_patterns.require_report("ab", without_progress, lines, Ab.report_begin, Ab.report_end)
    except ParseError as error:
        for line in lines:
            if match := re.fullmatch(r"Total of (\d+) requests completed", line):
                what = f"ab gave up after {match[1]} requests: {error.reason}"
                raise ParseError("ab", "stdout", 0, what) from None
        raise


def check_report(run: AbReport) -> None:
    """Raise ParseError if the report is incomplete or contradicts itself."""
    report, complete, lasted = run.report, run.complete, (run.duration_s, 0.0005)
    if report.count("failed") and "classes" not in report:
        raise report.error_at("failed", "report is not complete: the line with the classes of failures is missing")
    overlapping = report.count("failed") != sum(run.failures.values()) - report.count("write")
    if overlapping and "workers" not in report:  # trunk counts failed requests once, 2.4 adds up the classes
        raise report.error_at("classes", "the classes of failures do not add up to their total")
    if report.count("non2xx") > complete + report.count("concurrency"):  # ab may stop while responses are half read
        raise report.error_at("non2xx", "more answers that are not 2xx than requests")
    present = [line_name in report for line_name in RATE_LINES]
    if any(present) != all(present) or (not present[0] and complete and run.duration_s > 0):
        raise report.error_at("complete", "report is not complete: the lines with rates are missing")
    if present[0]:
        line_patterns.check_rate(report, (complete, 0), lasted, "rate")
        line_patterns.check_rate(report, (report.count("bytes") / 1024, 0), lasted, "transfer")
        per_request = report.count("bytes") / 1024 / complete  # needs no duration, which is rounded
        rate, transfer = report.value("rate", COUNT_UNITS), report.value("transfer", COUNT_UNITS)
        if abs(rate * per_request - transfer) > 0.00501 * (1 + per_request) + 1e-9 * transfer:
            text = f"{report.text('transfer')} does not follow from {per_request:g} KB a request"
            raise report.error_at("transfer", text)
    if complete:
        _check_times(run)


def _check_times(run: AbReport) -> None:
    """Raise ParseError if times do not ascend or percentiles are missing (allowed after one request and with -d)."""
    report = run.report
    present = [line_name in report for line_name in ("table", *(f"row{p}" for p in (*PERCENTILES, 100)))]
    absent = run.timed_requests == 1 or "-d" in run.options
    if any(present) != all(present) or not (present[0] or absent):
        raise report.error_at("total_times", "report is not complete: the table of percentiles is missing or cut")
    for row in TIME_METRICS:
        fields = [f"{row}_{statistic}" for statistic in ("min", "p50", "max")]
        for order in ([f for f in fields if f in report], [f"{row}_min", f"{row}_mean", f"{row}_max"]):
            if (values := [report.count(f) for f in order]) != sorted(values):
                raise report.error_at(f"{row}_times", "minimum, mean, median and maximum do not ascend")
    percentiles = list(run.percentiles_ms.values())
    if percentiles != sorted(percentiles) or (present[0] and report.count("p100") != report.count("total_max")):
        raise report.error_at("total_times", "percentiles do not ascend to the maximum")
    if present[0] and "total_p50" in report and report.count("total_p50") < report.count("p50"):
        raise report.error_at("total_times", "the median is below the table's 50 %")


class Ab(base.Tool):
    """Apache ab (``ab``); the module docstring defines its metrics."""

    name = "ab"
    binary = "ab"
    report_begin = r"This is ApacheBench"
    report_end = r"HTML transferred:"
    install_hint = "apt-get install apache2-utils"
    streamed_inputs = ("files",)
    load_models = frozenset({"closed"})
    known_versions = ("2.3",)
    version_argv: tuple[str, ...] = ("ab", "-V")
    version_pattern = rb"ApacheBench, Version (\d[\w.-]*)"

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version, ``2.3``, followed by the Subversion revision if the build prints one."""
        version = super().version(stdout, stderr)
        revision = re.search(rb"ApacheBench, Version \S+ <\$Revision: (\d+)", stdout + stderr)
        return version + (f" r{revision[1].decode()}" if revision else "")

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return ab's argument list. -n follows -t, which would cap requests at 50,000; -r survives a socket reset.

        For pages whose length changes, put ``-l`` into `extra`: ab counts a response of another length as a failure.
        """
        base.check_workload(
            self, workload, RESERVED_OPTIONS, supported_fields=("requests",), secret_options=LOGIN_OPTIONS
        )
        if workload.threads != 1:
            raise ToolError("ab has one thread only", "set threads = 1, or use the tool wrk")
        if workload.connections > MAX_CONNECTIONS:
            raise ToolError(f"ab opens {MAX_CONNECTIONS} connections at most", "lower connections, or use more drivers")
        seconds = base.whole_seconds(self, "duration", duration_s) if workload.requests is None else 0
        most = max(min(seconds * REQUESTS_PER_S, MAX_REQUESTS), workload.connections)
        argv = ["ab", "-q", "-r", *(["-t", str(seconds)] if seconds else []), "-n", str(workload.requests or most)]
        argv += ["-c", str(workload.connections)]
        argv += ["-s", str(base.whole_seconds(self, "timeout_s", workload.timeout_s)), "-e", PERCENTILES_FILE]
        argv += ["-k"] if workload.keepalive else []
        for name, value in base.request_headers(workload).items():
            argv += ["-H", f"{name}: {value}"]
        return [*argv, *workload.extra, base.target_url(target, workload.path)]

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return the name of the -e file (percentiles), and of the -g file (requests) if `extra` has that option."""
        return (PERCENTILES_FILE, *(value for name, value in command_options(("ab", *workload.extra)) if name == "-g"))

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report; percentiles come from the -e file if ab wrote one."""
        cleaned = line_patterns.clean_lines(output.stdout)
        require_ab_report(output, cleaned)
        patterns = report_patterns(cleaned)
        lines = line_patterns.restore_indentation(cleaned, patterns)
        report = line_patterns.read_report(self.name, lines, patterns)
        run = AbReport(report, output, lines)
        check_report(run)
        exact = read_percentiles(run)
        rows = (*_count_rows(run), *_time_rows(run, exact))
        return ParsedReport(rows, tuple(started_per_second(run)), tuple(_doubts(run, exact)))


TOOL = Ab()


def _count_rows(run: AbReport) -> Iterator[Measurement]:
    """Yield the measurements of counts and rates; `text` is the value as ab printed it."""
    report, ok, answered = run.report, run.ok, run.answered
    yield Measurement("requests", "count", answered, "1", report.text_if("complete", answered))
    if ok is not None:
        yield Measurement("ok", "count", ok, "1", None)
    if not answered:
        yield Measurement("requests_per_s", "value", 0.0, "1/s", None)
    elif "rate" in report:
        yield Measurement("requests_per_s", "value", report.value("rate", COUNT_UNITS), "1/s", report.text("rate"))
    if ok is not None and ("rate" in report or not answered):
        ok_per_s = line_patterns.part_per_s(report, ok, run.complete, (run.duration_s, 0.0005)) if ok else 0.0
        yield Measurement("ok_per_s", "value", ok_per_s, "1/s", None)
    yield Measurement("duration", "value", run.duration_s, "s", report.text("duration"))
    yield from _error_rows(run)
    yield Measurement("bytes_read", "count", report.count("bytes"), "B", report.text("bytes"))
    if "transfer" in report:
        bytes_per_s = report.value("transfer", BYTE_UNITS, "KB")
        yield Measurement("bytes_per_s", "value", bytes_per_s, "B/s", report.text("transfer"))


def _error_rows(run: AbReport) -> Iterator[Measurement]:
    """Yield errors by class, and their total if at most one class occurred, because ab's classes may overlap."""
    classes, status = run.failures, run.status_errors
    occurred = [n for n in (*classes.values(), status) if n != 0]
    unnoticed = run.complete > 0 and run.report.count("bytes") == 0 and not occurred  # failures that ab did not notice
    if None not in occurred and len(occurred) < 2 and not unnoticed:
        n = (occurred[0] if occurred else 0) or 0
        yield Measurement("errors", "count", n, "1", run.report.text_if("failed", n))
    for field, name in ERROR_CLASSES.items():
        yield Measurement(f"errors_{name}", "count", classes[name], "1", run.report.text_if(field, classes[name]))
    if status is not None:
        yield Measurement("errors_status", "count", status, "1", None)
    elif not any(classes.values()):  # ab counts 2xx, but not 3xx and 4xx separately
        yield Measurement("status_2xx", "count", max(0, run.complete - run.report.count("non2xx")), "1", None)


def _time_rows(run: AbReport, exact: Mapping[int, str]) -> Iterator[Measurement]:
    """Yield the statistics of times; no connect time with keep-alive, as ab counts 0 ms for each reused connection."""
    names = {0: "min", **{p: f"p{p}" for p in PERCENTILES}, 100: "max"}
    table = {names[p]: run.report.text(f"p{p}") for p in PERCENTILES if f"p{p}" in run.report}
    table |= {names[p]: milliseconds for p, milliseconds in exact.items() if p in names}
    for row, metric in TIME_METRICS.items():
        if not run.answered or (metric == "connect_time" and run.report.count("kept")):
            continue
        statistics = ("mean", "sd", "min", "max", "p50")
        printed_values = {s: run.report.text(f"{row}_{s}").strip() for s in statistics if f"{row}_{s}" in run.report}
        for statistic, printed in (printed_values | (table if metric == "latency" else {})).items():
            yield Measurement(metric, statistic, float(f"{printed}e-3"), "s", printed)


def _doubts(run: AbReport, exact: Mapping[int, str]) -> Iterator[tuple[str, str]]:
    """Yield the doubts about the numbers, as (name, sentence)."""
    report, complete, options = run.report, run.complete, run.options
    if complete and report.count("bytes") == 0:
        yield "zero_bytes", f"ab calls {complete} requests complete, but not a byte came back: none was answered"
    elif sum(n > 0 for n in run.failures.values()) > 1:
        yield "errors_overlap", "one failure counts in several of ab's classes: total and good answers cannot be told"
    if run.status_errors is None:
        text = f"{report.text('non2xx')} of {complete} answers were not 2xx; ab does not tell redirects from errors"
        yield "non_2xx", f"{text}, so neither good answers nor error responses are counted"
    limit = int(options.get("-n", "0") if options.get("-n", "").isdecimal() else 0)
    requested_s = options.get("-t", "0")
    early = run.duration_s < (float(requested_s) * 0.98 if requested_s.isdecimal() else 0.0)  # 2 %: ab's resolution
    if early and complete >= limit > 0:
        yield "request_cap", f"ab stopped at {complete} requests after {report.text('duration')} s of {requested_s} s"
    elif complete < limit and (early or "-t" not in options):
        yield "stopped_early", f"{complete} of {limit} requests were done when ab was stopped"
    if "-k" in options and report.count("kept") < complete / 2:
        yield "keepalive", f"{report.count('kept')} of {complete} requests were kept alive by the server"
    if "achieved" in report and report.count("achieved") < report.count("concurrency"):
        yield "connections", f"{report.text('achieved')} of {report.text('concurrency')} connections were opened"
    if run.timed_requests < complete:
        text = f"times are means over a window of {run.timed_requests} requests: percentiles are too narrow"
        yield "latency_averaged", text
    if run.answered and not exact and report.count("total_mean") * 1e-3 < base.COARSE_S:
        yield "whole_ms", "times are whole milliseconds, too coarse for times this short; ab -e writes finer ones"
    if b"illegal option" in run.output.stderr or b"invalid option" in run.output.stderr:
        yield "options", "ab did not know an option, ignored the rest of its command line, and ran all the same"
    if run.output.exit_code:
        yield "exit_code", f"ab ended with exit code {run.output.exit_code} although its report is complete"
