"""nghttp2's h2load, up to 1.68 and the wider table from 1.69: closed loop, HTTP/1.1 or HTTP/2 (`src/h2load.cc`).

- For HTTP/2 over TLS use `extra = ["--npn-list=h2", "-m", "10"]` (`--alpn-list` in newer versions), without TLS
  `["-p", "h2c"]`. `Host` is sent as `:authority`; empty header values are refused.
- `requests` are responses of any status; `ok` is its "succeeded" (2xx and 3xx). A request can be both of another
  status and lost with its connection; then there is no total `errors`. With a duration, `duration` is the requested
  one, without warm-up.
- **h2load does not reopen a connection** that fails or that an HTTP/2 server closes (nginx: after
  `keepalive_requests`). With `requests` the rest are errors, and the rate comes from fewer connections (doubt
  `stopped_early`). **With a duration h2load 1.52 reports 0 failed, 0 errored**; loadbook detects it by the clients'
  rates (doubt `connections_lost`).
- **h2load 1.52 may never end** when a server closes connections over HTTP/1.1 (nginx: after 1000 requests). Such a
  trial is killed and recorded as failed; `keepalive_requests = 100_000_000` avoids it.
- **Times** are not corrected; those below 1 ms are truncated to 1 us. Versions before 1.69 print no percentiles:
  `extra = ["--log-file=h2load.log"]` gives exact ones (nearest rank), for 25 bytes per request and some of the rate.
  Without it, times of over a million requests are a random sample. Connect and first-byte times count once per
  connection, and are missing after h2load's own warm-up.
- Reports of 2015 and 2016 with the line `traffic: N bytes total` are refused.
"""

# The text has whole us below 1 ms, two decimals of ms or s above; units of bytes are powers of 1024. --log-file has a
# line per request that ended: start in us since 1970, status (-1 failed), duration in us. h2load appends to that
# file, so the measurement follows the warm-up.

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loadbook.core.errors import ParseError, ToolError
from loadbook.core.units import BYTE_UNITS, COUNT_UNITS, TIME_UNITS_S
from loadbook.study.workload import Workload
from loadbook.tools import base, line_patterns
from loadbook.tools.base import Measurement, ParsedReport, Target, ToolOutput
from loadbook.tools.line_patterns import LinePattern, TextReport
from loadbook.tools.request_rows import per_second_samples

if TYPE_CHECKING:
    from loadbook.request_logs.summary import Histogram, Summary

_TIME = r"\d{1,20}(?:\.\d\d)?(?:us|ms|s)"
_SIZE = r"\d{1,20}(?:\.\d\d)?[KMGT]?B"
_INT = r"\d{1,20}"
_REAL = r"\d{1,20}\.\d\d"
COLUMN_STATISTICS = {s: s for s in ("min", "max", "p95", "p99", "mean", "sd")} | {"median": "p50"}
TIME_ROWS = {"request": "latency", "connect": "connect_time", "ttfb": "ttfb"}
BLOCK_BYTES = 8 << 20
PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
MAX_SAMPLES = 1_000_000  # h2load.cc: shared by the threads; of more requests, its statistics use a random sample
RESERVED_OPTIONS = (
    *("-n", "--requests", "-c", "--clients", "-t", "--threads", "-D", "--duration", "--warm-up-time"),
    *("-i", "--input-file", "-B", "--base-uri", "--connect-to", "-h", "--help", "--version"),
)
REPORT_START = r"spawning thread #\d+: \d+ total client|finished in \d+(\.\d\d)?(us|ms|s),"
LOST_CONNECTION_RATIO = 1.1  # sum of the clients' own rates / total rate: above it, clients ended before the test did


def _row_pattern(name: str, start: str, cell: str) -> LinePattern:
    example = f"time for {name}:       14us      4.87ms       257us       378us    96.40%"
    return LinePattern(name, example, start, rf"(?P<{name}>(?: +{cell})+) +(?P<{name}_within>{_REAL})%")


LINE_PATTERNS = (
    # printed before any worker starts, so nothing can interleave with it
    LinePattern("plan", "spawning thread #0: 10 total client(s). 10000 total requests", "spawning thread #0: ",
                rf"{_INT} total client\(s\)\. (?:.*{_INT} total requests|"
                r"Timing-based test with \S+ of warm-up time and (?P<main>\d\S*s) of main duration "
                r"for measurements\.)"),
    LinePattern("finished", "finished in 270.64ms, 73899.73 req/s, 16.77MB/s", "finished in ",
                rf"(?P<finished>{_TIME}), (?P<rate>{_REAL}) req/s, (?P<transfer>{_SIZE})/s"),
    LinePattern("requests",
                "requests: 20000 total, 20000 started, 20000 done, 20000 succeeded, 0 failed, 0 errored, 0 timeout",
                "requests: ",
                rf"(?P<total>{_INT}) total, (?P<started>{_INT}) started, (?P<done>{_INT}) done, "
                rf"(?P<ok>{_INT}) succeeded, (?P<failed>{_INT}) failed, (?P<errored>{_INT}) errored, "
                rf"(?P<timeout>{_INT}) timeout"),
    LinePattern("status", "status codes: 20000 2xx, 0 3xx, 0 4xx, 0 5xx", "status codes: ",
                rf"(?P<s2>{_INT}) 2xx, (?P<s3>{_INT}) 3xx, (?P<s4>{_INT}) 4xx, (?P<s5>{_INT}) 5xx"),
    LinePattern("traffic",
                "traffic: 4.54MB (4760000) total, 3.49MB (3660000) headers (space savings 0.00%), 78.13KB (80000) data",
                "traffic: ",
                rf"(?P<size>{_SIZE}) \((?P<bytes>{_INT})\) total, {_SIZE} \({_INT}\) headers "
                rf"\(space savings -?{_REAL}%\), {_SIZE} \({_INT}\) data"),
    LinePattern("table", "                     min         max         mean         sd        +/- sd", " +min +max ",
                r" *(?P<columns>\S.*) +\+/- sd"),
    _row_pattern("request", r"(?:time for request:|request +:)", _TIME),
    _row_pattern("connect", r"(?:time for connect:|connect +:)", _TIME),
    _row_pattern("ttfb", r"(?:time to 1st byte:|TTFB +:)", _TIME),
    _row_pattern("clients", r"req/s +:", _REAL),
)  # fmt: skip


def table_row(report: TextReport, row: str) -> dict[str, tuple[float, str]]:
    """Return the row "request", "connect", "ttfb" or "clients" of the table as {statistic: (value, printed text)}.

    Values are seconds, but 1/s for "clients" (requests per second of a client). The result is empty if h2load
    measured nothing: it then prints zeros in every column, also under "+/- sd".
    """
    names, texts = ["min", "max", *report.text("columns").split()], report.text(row).split()
    if len(names) != len(texts) or not set(names) <= set(COLUMN_STATISTICS) or len(set(names)) != len(names):
        raise report.error_at(row, f"{len(texts)} values under the columns {' '.join(names)}")
    table = COUNT_UNITS if row == "clients" else TIME_UNITS_S
    numbers = [text.rstrip("mus") for text in texts]
    cells = [(float(n) * table[text[len(n) :]], text) for n, text in zip(numbers, texts, strict=True)]
    values = {COLUMN_STATISTICS[name]: cell for name, cell in zip(names, cells, strict=True)}
    measured = report.text(f"{row}_within") != "0.00" or any(value for value, _ in values.values())
    order = [values[s][0] for s in ("min", "p50", "p95", "p99", "max") if s in values]
    if order != sorted(order) or not values["min"][0] <= values.get("mean", values["min"])[0] <= values["max"][0]:
        raise report.error_at(row, "minimum, mean, percentiles and maximum do not ascend")
    return values if measured else {}


def log_file_name(argv: Sequence[str]) -> str | None:
    """Return the file name in the command's option --log-file, without its folder; None without that option."""
    for word, next_word in itertools.pairwise((*argv, "")):
        option, equals, value = word.partition("=")
        if option == "--log-file":
            return (value if equals else next_word).rpartition("/")[2] or None
    return None


def read_log(file: str, source: bytes | Path, last: int) -> Summary:
    """Return the summary of the last `last` lines of a log; ParseError if it has fewer lines or an invalid one.

    Earlier lines are those of a warm-up, as h2load appends. `file` is the log's name in error messages.
    """
    from loadbook.request_logs.read import summarise
    from loadbook.request_logs.summary import Summary

    lines, end = 0, b"\n"
    for block in _read_blocks(source):
        lines, end = lines + block.count(b"\n"), block[-1:]
    if lines < last or end != b"\n":
        raise ParseError("h2load", file, lines, f"{lines} whole lines for the {last} requests of the summary")
    try:
        return summarise(source, "h2load", file=file, start=_offset_after(source, lines - last)) if last else Summary()
    except ParseError as error:
        raise ParseError("h2load", file, error.line and error.line + lines - last, error.reason) from None


def _read_blocks(source: bytes | Path) -> Iterator[bytes]:
    with source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as file:
        while block := file.read(BLOCK_BYTES):
            yield block


def _offset_after(source: bytes | Path, lines: int) -> int:
    """Return the byte offset at which line `lines` (counted from 0) begins."""
    import numpy as np

    start = 0
    for block in _read_blocks(source) if lines else ():
        count = block.count(b"\n")
        if count >= lines:
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
            return start + int(ends[lines - 1]) + 1
        start, lines = start + len(block), lines - count
    return start


def answered_count(report: TextReport) -> int:
    """Return the number of responses of any status; h2load's "done" would include streams that the server reset."""
    return report.count("total") - report.count("errored")


def duration_with_error(report: TextReport) -> tuple[float, float]:
    """Return (duration, rounding error) in seconds, by which h2load computes rates: with -D, the requested duration."""
    if "main" in report:
        return report.value("main", TIME_UNITS_S), 0.0
    return report.value("finished", TIME_UNITS_S), 2 * report.half_width("finished", TIME_UNITS_S)


def check_report(report: TextReport) -> None:
    """Raise ParseError if the report contradicts itself."""
    total, done, ok, failed, errored = (report.count(f) for f in ("total", "done", "ok", "failed", "errored"))
    if ok + failed != total or errored > failed or done > total or not ok <= answered_count(report) <= done:
        raise report.error_at("requests", "succeeded, failed and errored do not go with the total")
    seconds = duration_with_error(report)
    if seconds[0] <= 0:
        raise report.error_at("finished", "impossible: no time passed")
    line_patterns.check_rate(report, (answered_count(report), 0), seconds, "rate")
    bytes_of_cut_rate = (report.count("bytes"), seconds[0])  # the rate is cut, not rounded
    line_patterns.check_rate(report, bytes_of_cut_rate, seconds, "transfer")
    size, exact = report.value("size", BYTE_UNITS), report.count("bytes")
    if abs(size - exact) > report.half_width("size", BYTE_UNITS) * (1 + 1e-6):
        raise report.error_at("traffic", f"{exact} bytes are not {report.text('size')}")
    if answered_count(report) == 0 and table_row(report, "request"):
        raise report.error_at("request", "times of requests without a single answer")


def read_request_log(report: TextReport, output: ToolOutput) -> Summary | None:
    """Return the summary of the --log-file, after comparison with the report; None if there is no such file."""
    name = log_file_name(output.argv)
    source = output.files.get(name, output.paths.get(name)) if name else None
    if name is None or source is None:
        return None
    figures = read_log(name, source, report.count("done"))
    log = figures.total()
    if log.answered != answered_count(report):
        raise ParseError("h2load", name, 0, f"{log.answered} answers, but {answered_count(report)} in the report")
    status_counts = {c: log.classes.get(c, 0) for c in (2, 3, 4, 5)}
    if any(n > report.count(f"s{c}") for c, n in status_counts.items()):
        raise ParseError("h2load", name, 0, f"statuses {status_counts} are not those of the report")
    table_times, threads = table_row(report, "request"), max(1, output.stdout.count(b"spawning thread #"))
    if not log.answered or report.count("done") > MAX_SAMPLES // threads:
        return figures
    # minimum, maximum and mean of the log must equal those of the table within 1 us and the table's rounding
    times = log.latency
    log_times = {"min": times.percentile_s(0), "max": times.percentile_s(100), "mean": times.mean_s()}
    for statistic, exact in log_times.items():
        value, printed = table_times.get(statistic, (-1.0, "nothing"))
        half_width = line_patterns.rounding_half_width(printed.replace("nothing", "0s"), TIME_UNITS_S)
        if abs(value - exact) > 2e-6 + 2 * half_width:
            raise ParseError("h2load", name, 0, f"{statistic} {exact * 1e6:g} us is not the {printed} of the report")
    return figures


def client_count(lines: Sequence[str]) -> int:
    """Return the number of clients over all threads, from the lines that h2load prints when it creates them."""
    matches = (re.match(r"spawning thread #\d+: (\d{1,9}) total client", line) for line in lines)
    return sum(int(match[1]) for match in matches if match)


class H2load(base.Tool):
    """nghttp2's h2load; the module docstring defines its metrics.

    Open loads are not supported: --rps is per client and waits for responses, and times lack the intended start.
    """

    name = "h2load"
    binary = "h2load"
    report_begin = r"starting benchmark\.{3}\nspawning thread #0: \d+ total client"  # weighttp has the first line, too
    report_end = r"req/s +:"
    install_hint = "apt-get install nghttp2-client"
    streamed_inputs = ("files",)
    load_models = frozenset({"closed"})
    has_timeout = False
    hang_cause = (
        "h2load goes on without end when it reopens a connection at the instant its time is over: let the server keep "
        "connections open (a service's variable keepalive_requests = 100_000_000), or use wrk"
    )
    known_versions = ("1",)
    version_argv: tuple[str, ...] = ("h2load", "--version")
    version_pattern = rb"^h2load nghttp2/(\d\S*)"

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return h2load's argument list, for HTTP/1.1 unless `extra` has options such as ``--npn-list=h2``.

        `timeout_s` is not supported: h2load 1.52 aborts when ``-N`` finds an idle connection in a test with ``-D``.
        """
        base.check_workload(self, workload, RESERVED_OPTIONS, supported_fields=("requests",))
        if not workload.keepalive:
            # with the header Connection: close, h2load 1.52 opens one connection after another and never ends
            raise ToolError("h2load cannot close connections after each request", "use the tool wrk or ab")
        if workload.connections < workload.threads:
            problem = f"h2load needs a connection for each of {workload.threads} threads, not {workload.connections}"
            raise ToolError(problem, "raise connections or lower threads")
        if any(word.startswith("--log-file") and "/" in word for word in workload.extra):
            raise ToolError("h2load's log must be in the working folder, from where it is collected", "drop the folder")
        argv = ["h2load", "--h1", f"-c{workload.connections}", f"-t{workload.threads}"]
        if workload.requests is None:
            ms = round(duration_s * 1000)
            if ms < 1 or abs(ms - duration_s * 1000) > 1e-6:
                raise ToolError(f"h2load takes whole milliseconds only: {duration_s:g} s cannot be done", "round it")
            argv += ["-D", f"{ms}ms" if ms % 1000 else f"{ms // 1000}s"]
        else:
            argv += ["-n", str(workload.requests)]
        for name, value in base.request_headers(workload).items():
            if not value.strip():
                raise ToolError(f"h2load cannot send the header {name} without a value", "drop it, or use the tool wrk")
            # h2load writes Host itself, from :authority
            argv += ["-H", f"{':authority' if name.lower() == 'host' else name}: {value}"]
        return [*argv, *workload.extra, base.target_url(target, workload.path)]

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return the name of the log if `extra` has ``--log-file=NAME``; writing it lowers the rate somewhat."""
        log = log_file_name(workload.extra)
        return (log,) if log else ()

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report, with exact percentiles if there is a log of the requests."""
        lines = line_patterns.restore_indentation(line_patterns.clean_lines(output.stdout), LINE_PATTERNS)
        line_patterns.require_report(self.name, output, lines, REPORT_START, self.report_end)
        report = line_patterns.read_report(self.name, lines, LINE_PATTERNS)
        check_report(report)
        figures, doubts = read_request_log(report, output), tuple(_doubts(report, output, lines))
        times = figures.total().latency if figures and answered_count(report) else None
        samples = tuple(per_second_samples(figures)) if figures else ()
        times_us = {"latency": times.times_us()} if times else {}
        return ParsedReport(tuple(_rows(report, times)), samples, doubts, times_us)


TOOL = H2load()


def _rows(report: TextReport, log_times: Histogram | None) -> Iterator[Measurement]:
    """Yield the measurements; percentiles are computed from the log, if there is one, and then have no `text`."""
    requests, ok = answered_count(report), report.count("ok")
    yield Measurement("requests", "count", requests, "1", report.text_if("done", requests))
    yield Measurement("ok", "count", ok, "1", report.text("ok"))
    yield Measurement("requests_per_s", "value", report.value("rate", COUNT_UNITS), "1/s", report.text("rate"))
    ok_per_s = line_patterns.part_per_s(report, ok, requests, duration_with_error(report))
    yield Measurement("ok_per_s", "value", ok_per_s, "1/s", None)
    lasted = "main" if "main" in report else "finished"
    yield Measurement("duration", "value", report.value(lasted, TIME_UNITS_S), "s", report.text(lasted))
    yield from _error_rows(report)
    for c in range(2, 6):
        yield Measurement(f"status_{c}xx", "count", report.count(f"s{c}"), "1", report.text(f"s{c}"))
    yield Measurement("bytes_read", "count", report.count("bytes"), "B", report.text("bytes"))
    yield Measurement("bytes_per_s", "value", report.value("transfer", BYTE_UNITS), "B/s", report.text("transfer"))
    for row, metric in TIME_ROWS.items() if requests else ():
        cells = table_row(report, row)
        exact = log_times if row == "request" else None
        for statistic, (value, printed) in cells.items():
            if not (exact and statistic.startswith("p")):
                yield Measurement(metric, statistic, value, "s", printed)
        if exact:
            yield from (Measurement(metric, f"p{p:g}", exact.percentile_s(p), "s", None) for p in PERCENTILES)


def _error_rows(report: TextReport) -> Iterator[Measurement]:
    """Yield errors by class, and their total unless classes overlap (status read, then the connection was lost)."""
    status, timeout = report.count("s4") + report.count("s5"), report.count("timeout")
    lost = report.count("total") - report.count("done")
    unseen = timeout if timeout > lost else 0  # with -D, h2load leaves time-outs out of errored
    if status == report.count("failed") - report.count("errored"):
        total = report.count("failed") + unseen
        yield Measurement("errors", "count", total, "1", report.text_if("failed", total))
    yield Measurement("errors_timeout", "count", timeout, "1", report.text("timeout"))
    yield Measurement("errors_status", "count", status, "1", None)
    other = report.count("errored") - timeout + unseen
    yield Measurement("errors_other", "count", other, "1", report.text_if("errored", other))


def _doubts(report: TextReport, output: ToolOutput, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the doubts about the numbers, as (name, sentence)."""
    all_lines = line_patterns.clean_lines(output.stderr) + list(lines)  # with a terminal, stderr is part of stdout
    if failed := sum("client could not connect to host" in line for line in all_lines):
        yield "connections", f"{failed} connects failed; h2load does not retry those, so fewer were open"
    started, total = report.count("started"), report.count("total")
    if "main" in report and not started and client_count(lines):
        yield "connections", "no client started a request: with -D, h2load counts connections that fail nowhere"
    if "main" not in report and started < total:
        text = f"{started} of {total} requests were started: h2load gives a client up when its connection fails"
        yield "stopped_early", f"{text}, so its rate is of fewer connections and a shorter time"
    rate = report.value("rate", COUNT_UNITS)
    summed = client_count(lines) * table_row(report, "clients").get("mean", (0.0, ""))[0]
    if "main" in report and (summed > LOST_CONNECTION_RATIO * rate or report.count("timeout")):
        text = "connections were lost, which h2load does not count as errors with -D: its clients' own rates add up to"
        yield "connections_lost", f"{text} {summed:.0f} 1/s, its rate over the whole time is {rate:.0f} 1/s"
    if answered_count(report) > MAX_SAMPLES:
        yield "sampled", f"times are of at most {MAX_SAMPLES} requests, drawn by h2load from {answered_count(report)}"
    statuses = sum(report.count(f"s{c}") for c in range(2, 6))
    if "main" in report and not report.count("failed") and statuses > answered_count(report):
        text = f"{statuses} status codes for {answered_count(report)} responses"
        yield "counts_differ", f"{text}: h2load counts those of the warm-up, too"
    elif statuses > report.count("done"):
        text = f"{statuses} status codes for {report.count('done')} finished requests"
        yield "counts_differ", f"{text}: the others began to be answered and were cut"
    log = log_file_name(output.argv)
    if log and log not in output.files and log not in output.paths:
        yield "log_missing", f"the command asks for {log}, which was not collected: no percentiles from it"
    if output.exit_code:
        yield "exit_code", f"h2load ended with exit code {output.exit_code} although its report is complete"
