"""Apache ab 2: closed loop, HTTP/1.0, one URL, one thread (apache/httpd `support/ab.c`, branch 2.4.x, and trunk).

- Above about 50,000 requests per second ab's thread is the limit. An expired time-out ends ab without a report, and
  the trial fails.
- Pages of variable length need `extra = ["-l"]`, otherwise other lengths than the first are `errors_length`. With -l
  ab calls lost and cut answers complete, so `ok` may be too high (doubt `unchecked_answers`), unless every connection
  was kept alive, or `-v 2` prints the head of every answer. `ok` and `errors` are missing if these heads prove answers
  lost, and if the first answer was empty, or most others had another length (doubt `first_answer`).
- `requests` are ab's "Complete requests", failed ones included, or 0 if ab received no byte. **`ok` and
  `errors_status` are missing if ab cannot tell**: "Non-2xx" counts redirects and errors alike (doubt `non_2xx`), and
  `extra = ["-v", "2"]` prints every code. Its classes of failure overlap: with two of them there is no `ok` and no
  `errors`.
- `latency` is ab's total time, of failed attempts, too: from the start of the connection (kept alive: of the request)
  to its end. `ttfb` is its waiting time, from the end of the request. `connect_time` exists only without kept
  connections. With the file of `-e`, which loadbook asks for, percentiles have 0.001 ms; without it all times are
  whole ms. `-g FILE` in `extra` adds requests started per second. HTML (`-w`) is refused.
- Reports of `-d` and `-S` are read: the first have no percentiles, both together no median. `bytes_per_s` of ab 2.0,
  which cuts bytes to whole KiB, is computed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from loadbook.core.errors import ParseError, ToolError
from loadbook.core.units import BYTE_UNITS, COUNT_UNITS
from loadbook.study.workload import Workload
from loadbook.tools import base, line_patterns
from loadbook.tools.ab_files import read_percentiles, started_per_second
from loadbook.tools.ab_report import (
    ERROR_CLASSES,
    PERCENTILES,
    RATE_LINES,
    TIME_METRICS,
    AbReport,
    command_options,
    report_patterns,
)
from loadbook.tools.base import Measurement, ParsedReport, Target, ToolOutput

PROGRESS_PREFIXES = (b"Completed ", b"Finished ", b"\n", b"\r\n")  # lines on stderr that are progress, not errors
PERCENTILES_FILE = "pct.csv"
MAX_CONNECTIONS = 20_000  # ab.c MAX_CONCURRENCY
REQUESTS_PER_S, MAX_REQUESTS = 200_000, 100_000_000  # more than one thread can send; ab takes 32 B for each
RESERVED_OPTIONS = ("-n", "-c", "-t", "-s", "-k", "-e", "-r", "-q", "-w", "-h", "-V", "-X")
LOGIN_OPTIONS = ("-A", "-P", "-C")


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
        _check_transfer(run)
    if complete:
        _check_times(run)


def _check_transfer(run: AbReport) -> None:
    """Raise ParseError unless the rate of bytes follows from the bytes."""
    report, kib = run.report, run.report.count("bytes") / 1024
    cut = kib % 1 if run.cuts_kib else 0.0
    line_patterns.check_rate(report, (kib - cut / 2, cut / 2), (run.duration_s, 0.0005), "transfer")
    per_request = kib / run.complete  # needs no duration, which is rounded
    rate, transfer = report.value("rate", COUNT_UNITS), report.value("transfer", COUNT_UNITS)
    slack = 0.00501 * (1 + per_request) + 1e-9 * transfer + rate * cut / run.complete
    if abs(rate * per_request - transfer) > slack:
        text = f"{report.text('transfer')} does not follow from {per_request:g} KB a request"
        raise report.error_at("transfer", text)


def _check_times(run: AbReport) -> None:
    """Raise ParseError if times do not ascend, or percentiles are missing.

    They may be after one request, with -d, and where the command is not known, which may have had -d: a doubt then.
    """
    report = run.report
    present = [line_name in report for line_name in ("table", *(f"row{p}" for p in (*PERCENTILES, 100)))]
    absent = run.timed_requests == 1 or "-d" in run.options or not run.output.argv
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
        Connections must then be kept alive, or ``-v 2`` be there as well, so that lost answers are told.
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
        load = {"connections": report.text("concurrency")} | line_patterns.printed_load(report)
        return ParsedReport(rows, tuple(started_per_second(run)), tuple(_doubts(run, exact)), load=load)


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
    if "transfer" in report and run.cuts_kib and run.duration_s:
        yield Measurement("bytes_per_s", "value", report.count("bytes") / run.duration_s, "B/s", None)
    elif "transfer" in report:
        bytes_per_s = report.value("transfer", BYTE_UNITS, "KB")
        yield Measurement("bytes_per_s", "value", bytes_per_s, "B/s", report.text("transfer"))


def _error_rows(run: AbReport) -> Iterator[Measurement]:
    """Yield errors by class, and their total if at most one class occurred, because ab's classes may overlap."""
    classes, status = run.failures, run.status_errors
    occurred = [n for n in (*classes.values(), status) if n != 0]
    unnoticed = run.complete > 0 and run.report.count("bytes") == 0 and not occurred  # failures that ab did not notice
    cannot_tell = unnoticed or run.first_was_another or (run.is_whole is False and not occurred)
    if None not in occurred and len(occurred) < 2 and not cannot_tell:
        n = (occurred[0] if occurred else 0) or 0
        yield Measurement("errors", "count", n, "1", run.report.text_if("failed", n))
    for field, name in ERROR_CLASSES.items():
        if name == "length" and not run.checks_lengths:
            continue
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
    elif run.first_was_another:
        text = f"{report.text('length')} of {complete} answers had not the first one's {report.text('page_bytes')} B"
        yield "first_answer", f"{text}: that was another page, or empty, so neither good answers nor errors are known"
    elif not run.is_whole:
        fewer = "good answers may be fewer" if run.is_whole is None else "good answers are fewer, and not known"
        yield "unchecked_answers", f"with -l ab calls lost and cut answers complete: {fewer}"
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
    if run.timed_requests > 1 and not exact and "table" not in report and "-d" not in options:
        yield "percentiles_lost", "the report ends before ab's table of percentiles: it was cut, or ab ran with -d"
    if run.answered and not exact and report.count("total_mean") * 1e-3 < base.COARSE_S:
        yield "whole_ms", "times are whole milliseconds, too coarse for times this short; ab -e writes finer ones"
    if b"illegal option" in run.output.stderr or b"invalid option" in run.output.stderr:
        yield "options", "ab did not know an option, ignored the rest of its command line, and ran all the same"
    if run.output.exit_code:
        yield "exit_code", f"ab ended with exit code {run.output.exit_code} although its report is complete"
