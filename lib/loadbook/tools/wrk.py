"""wrk 4 and 1: closed loop, any number of connections, whole seconds (wg/wrk `src/wrk.c`, `src/units.c`).

- **wrk corrects `latency`**: after a pause of the server it adds samples as if requests had continued
  (`stats_correct`). Do not compare its percentiles with another tool's.
- `threads` must divide `connections`. loadbook's Lua script prints exact counts, and times in microseconds. A script
  of your own, `extra = ["-s", "/path/on/the/driver/post.lua"]`, replaces it; numbers then have the three digits of
  wrk's text. If Lua rejects a script, wrk continues without it (doubt `script`).
- Responses after `timeout_s` count as requests and `ok`, but not in the latencies (doubt `latency_censored`).
  Requests without a response count nowhere.
- wrk 1 ("Making 100000 requests to") corrects nothing. Its latency is that of connections which it looks at a few times
  a second (doubt `latency_sampled`); it counts overdue connections again every 2 s (doubt `timeouts_weighted`).
- A server that closes connections causes `errors_read`, one that died `errors_write`. The exit code is always 0.
"""

# Times in the report have two decimals in us, ms, s or m (minutes), the larger unit from 0.85 of it on; units of
# bytes are powers of 1024. wrk2 began as a copy of wrk 4, so both reports share their beginning (`HEAD_PATTERNS`),
# end (`TAIL_PATTERNS`) and doubts.

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources

from loadbook.core.errors import OtherProgram, ParseError, ToolError
from loadbook.core.units import BYTE_UNITS, COUNT_UNITS, TIME_UNITS_S
from loadbook.study.workload import Workload
from loadbook.tools import base, line_patterns
from loadbook.tools.autocannon_text import has_table
from loadbook.tools.base import Measurement, ParsedReport, Target, ToolOutput
from loadbook.tools.line_patterns import LinePattern, TextReport

BLOCK_BEGIN, BLOCK_END = "loadbook-begin 1", "loadbook-end"
PERCENTILE_FIELDS = ("p50", "p75", "p90", "p99")
ERROR_FIELDS = ("connect", "read", "write", "timeout", "status")
# field in the patterns below -> statistic, in the order in which wrk.lua prints them
STATISTICS = {f: f for f in ("min", "mean", "sd", "max", "p50", "p75", "p90", "p99")} | {"p999": "p99.9"}

TIME_PATTERN = r"\d{1,20}\.\d\d(?:us|ms|s|m|h)"
_SPREAD = rf"(?:{TIME_PATTERN}|-?nanu?s?)"
_NO_UNIT = r"\d{1,20} +\d{1,20} +\d{1,20}"  # as a build of wrk printed them (wg/wrk issue 77)
_SIZE = r"\d{1,20}\.\d\d[KMGT]?B"
_RATE = r"(?:\d+\.\d\d[kMGT]?|-?nan)"
_INT = r"-?\d{1,20}"


HEAD_PATTERNS = (
    LinePattern("head", "Running 3s test @ http://127.0.0.1:18090/", "(?:Running|Making) ",
                r"(?:(?P<asked>\d{1,20}[smh]) test @ |(?P<asked_requests>\d{1,20}) requests to )(?P<url>\S.*)"),
    LinePattern("load", "  2 threads and 50 connections", r"  (?P<threads>\d{1,20}) threads",
                r" and (?P<connections>\d{1,20}) connections"),
    LinePattern("columns", "  Thread Stats   Avg      Stdev     Max   +/- Stdev", "  Thread Stats",
                r" +Avg +Stdev +Max +\+/- Stdev"),
    LinePattern("latency", "    Latency     3.21ms    6.27ms  75.31ms   90.55%", "    Latency ",
                rf" *(?:(?P<mean>{_SPREAD}) +(?P<sd>{_SPREAD}) +(?P<max>{TIME_PATTERN})|(?P<no_unit>{_NO_UNIT}))"
                r" +(?P<within>\d+\.\d\d|-?nan)%"),
    # rates per thread and 100 ms, not the total throughput, so these values are not used
    LinePattern("rates", "    Req/Sec    21.24k     6.53k   31.50k    52.46%", "    Req/Sec ",
                rf"( *{_RATE}){{3}} +(?:\d+\.\d\d|-?nan)%"),
)  # fmt: skip
TAIL_PATTERNS = (
    LinePattern("total", "  129242 requests in 3.10s, 28.23MB read", r"  (?P<requests>\d{1,20}) requests in",
                rf" (?P<duration>{TIME_PATTERN}), (?P<bytes>{_SIZE}) read"),
    LinePattern("sockets", "  Socket errors: connect 0, read 12490, write 0, timeout 0", "  Socket errors:",
                rf" connect (?P<connect>{_INT}), read (?P<read>{_INT}), write (?P<write>{_INT}), "
                rf"timeout (?P<timeout>{_INT})", optional=True),
    LinePattern("non2xx", "  Non-2xx or 3xx responses: 57434", "  Non-2xx",
                rf" or 3xx responses: (?P<status>{_INT})", optional=True),
    LinePattern("rate", "Requests/sec:  41695.86", "Requests/sec:", r" +(?P<rate>\d{1,20}\.\d\d)"),
    LinePattern("transfer", "Transfer/sec:      9.11MB", "Transfer/sec:", rf" +(?P<transfer>{_SIZE})"),
)  # fmt: skip
LINE_PATTERNS = (
    *HEAD_PATTERNS,
    LinePattern("percentiles", "  Latency Distribution", "  Latency Distribution", optional=True),
    *(
        LinePattern(f"p{p}", f"     {p}%  {time}", rf" {{5}}{p}%(?: |$)", rf" *(?P<p{p}>{TIME_PATTERN})", optional=True)
        for p, time in ((50, "830.00us"), (75, "  3.02ms"), (90, "  9.04ms"), (99, " 30.00ms"))
    ),
    *TAIL_PATTERNS,
)
EXACT_PATTERNS = (
    LinePattern("begin", BLOCK_BEGIN, re.escape(BLOCK_BEGIN)),
    LinePattern("duration", "duration 3099711us", "duration ", r"(?P<duration>\d{1,20}us)"),
    LinePattern("requests", "requests 129242", "requests ", r"(?P<requests>\d{1,20})"),
    LinePattern("bytes", "bytes 29601300B", "bytes ", r"(?P<bytes>\d{1,20}B)"),
    *(LinePattern(name, f"{name} 0", f"{name} ", rf"(?P<{name}>\d{{1,20}})") for name in ERROR_FIELDS),
    *(LinePattern(field, f"{name} 830us", re.escape(name) + " ", rf"(?P<{field}>\d{{1,20}}(?:\.\d+)?us)", optional=True)
      for field, name in STATISTICS.items()),
    LinePattern("end", BLOCK_END, re.escape(BLOCK_END)),
)  # fmt: skip
STATISTICS_ROW = re.compile(rf"    (\S+) +{TIME_PATTERN} +{TIME_PATTERN} +{TIME_PATTERN} +\S+%$")
SCRIPT_NAME = "loadbook.lua"
DELAY_FUNCTION = b"\nfunction delay() return %d end -- think time: ms before each request, not part of its latency\n"
SCRIPT_ERROR = re.compile(r"(\S+): (?:cannot open \1|\1:\d+: )")  # wrk continues without a script that Lua rejects
RESERVED_OPTIONS = ("-t", "--threads", "-c", "--connections", "-d", "--duration", "-T", "--timeout", "-v", "--version")


def is_wrk2(lines: Sequence[str]) -> bool:
    """Return whether a report is wrk2's: it has a line on calibration or HdrHistogram, or "nan" as Req/Sec."""
    wrk2_lines = r" *Thread calibration:|  Latency Distribution \(HdrHistogram|    Req/Sec +-?nan "
    return any(re.match(wrk2_lines, line) for line in lines)


def is_wrk_1(report: TextReport) -> bool:
    """Return whether a report is that of wrk 1, which made a number of requests instead of running for a time."""
    return "asked_requests" in report


def require_report(tool: str, output: ToolOutput, lines: Sequence[str]) -> None:
    """Raise ParseError with the probable reason unless there is a report as wrk and wrk2 print it."""
    if has_table(lines):  # its first line is as wrk's
        raise ParseError(tool, "stdout", 0, OtherProgram(f"no report of {tool} but one of autocannon"))
    line_patterns.require_report(tool, output, lines, "Running |Making ", Wrk.report_end)


def mean_latency_s(report: TextReport) -> float:
    """Return the mean latency in s; wrk truncates the column to 8 characters, so 1000.00ms is printed as 1000.00m."""
    printed = report.text("mean")
    return 1.0 if printed == "1000.00m" else report.value("mean", TIME_UNITS_S)


def has_latency(report: TextReport) -> bool:
    """Return whether latency is printed with its unit; without samples wrk prints zeros, and -nan under "+/- Stdev"."""
    return "max" in report and "nan" not in report.text("within") and report.value("max", TIME_UNITS_S) > 0


def lost_percentiles(report: TextReport) -> list[str]:
    """Return the percentiles ("p99", ...) that wrk printed as 0.00us although a lower one, or the maximum, is not 0.

    wrk prints such zeros after long runs.
    """
    values = {field: report.value(field, TIME_UNITS_S) for field in PERCENTILE_FIELDS if field in report}
    positive = [field for field, value in values.items() if value > 0]
    if not positive:
        return list(values) if has_latency(report) else []
    if [values[field] for field in positive] != sorted(values[field] for field in positive):
        return []
    return [field for field, value in values.items() if not value and field > positive[0]]


def check_totals(report: TextReport) -> None:
    """Raise ParseError unless requests, errors, bytes, duration and rates are consistent."""
    duration, requests = report.value("duration", TIME_UNITS_S), report.count("requests")
    if duration <= 0 or report.count("status") > requests:
        raise report.error_at("total", "impossible: no time passed, or more error responses than responses")
    if requests == 0 and has_latency(report):
        raise report.error_at("latency", "latency without a single request")
    lasted = (duration, report.half_width("duration", TIME_UNITS_S))
    line_patterns.check_rate(report, (requests, 0), lasted, "rate")
    size = (report.value("bytes", BYTE_UNITS), report.half_width("bytes", BYTE_UNITS))
    line_patterns.check_rate(report, size, lasted, "transfer")


def count_rows(
    report: TextReport, exact: TextReport | None = None, offered: tuple[float, str] | None = None
) -> Iterator[Measurement]:
    """Yield counts and rates.

    `exact` is the block that loadbook's Lua script printed, None without one; `offered` is the requested rate (1/s)
    and its text, None for a closed loop.
    """
    most_exact = exact or report
    requests, errors = report.count("requests"), {name: report.count(name) for name in ERROR_FIELDS}
    ok, duration = requests - errors["status"], most_exact.value("duration", TIME_UNITS_S)
    lasted = (duration, report.half_width("duration", TIME_UNITS_S))
    ok_per_s = ok / duration if exact else line_patterns.part_per_s(report, ok, requests, lasted)
    yield Measurement("requests", "count", requests, "1", report.text("requests"))
    yield Measurement("ok", "count", ok, "1", None)
    yield Measurement("requests_per_s", "value", report.value("rate", COUNT_UNITS), "1/s", report.text("rate"))
    yield Measurement("ok_per_s", "value", ok_per_s, "1/s", None)
    if offered:
        yield Measurement("offered_per_s", "value", offered[0], "1/s", offered[1])
    yield Measurement("duration", "value", duration, "s", most_exact.text("duration"))
    # wrk 4 counts a late error response as time-out and status error; wrk2 and wrk 1 an overdue connection repeatedly
    if not (errors["timeout"] and (errors["status"] or report.tool == "wrk2" or is_wrk_1(report))):
        yield Measurement("errors", "count", sum(errors.values()), "1", None)
    for name, n in errors.items():
        yield Measurement(f"errors_{name}", "count", n, "1", report.text_if(name, n))
    yield Measurement("bytes_read", "count", most_exact.value("bytes", BYTE_UNITS), "B", most_exact.text("bytes"))
    yield Measurement("bytes_per_s", "value", report.value("transfer", BYTE_UNITS), "B/s", report.text("transfer"))


def connection_doubts(report: TextReport) -> Iterator[tuple[str, str]]:
    """Yield (name, sentence) of a doubt if fewer connections than requested may have been open."""
    threads, requested, failed = (report.count(field) for field in ("threads", "connections", "connect"))
    if threads and requested % threads:
        opened = requested // threads * threads
        yield "connections", f"{opened} of {requested} connections were opened: each thread gets the same whole number"
    if failed:
        text = f"{failed} connects failed; {report.tool} does not retry those at the start, so fewer were open"
        yield "connections", text


def run_doubts(report: TextReport, rc: int | None) -> Iterator[tuple[str, str]]:
    """Yield doubts about wrapped counters, a run that was too short or far too long, and an exit code other than 0.

    Each is (name, sentence); `rc` is the exit code, None if not known.
    """
    tool = report.tool
    if any(report.text(name).startswith("-") for name in ERROR_FIELDS if name in report):
        yield "counter_wrapped", f"an error counter passed 2^31: {tool} counts in 32 bits, so it may have wrapped"
    yield from _requests_doubts(report) if is_wrk_1(report) else _duration_doubts(report)
    if rc:
        yield "exit_code", f"{tool} ended with exit code {rc} although its report is complete"


def _requests_doubts(report: TextReport) -> Iterator[tuple[str, str]]:
    """Yield the doubt about wrk 1 if it made fewer requests than asked for: each thread makes the same whole number."""
    asked, threads = report.count("asked_requests"), max(1, report.count("threads"))
    if report.count("requests") < asked // threads * threads:
        text = f"{report.text('requests')} requests of the {report.text('asked_requests')} that were asked for"
        yield "stopped_early", text


def _duration_doubts(report: TextReport) -> Iterator[tuple[str, str]]:
    """Yield the doubts about a run that was far shorter or longer than asked for."""
    tool, asked = report.tool, report.text("asked")
    scale, requested = TIME_UNITS_S[asked[-1]], int(asked[:-1])
    duration = report.value("duration", TIME_UNITS_S)
    if duration < (requested - 0.5) * scale:
        yield "stopped_early", f"{tool} ran {report.text('duration')} of the {asked} asked for"
    if duration > (requested + 0.5) * scale * 1.5 + 5:
        yield "clock", f"{tool} says it ran {report.text('duration')} instead of {asked}: it trusts the wall clock"


class Wrk(base.Tool):
    """wrk 4; the module docstring defines its metrics."""

    name = "wrk"
    binary = "wrk"
    report_begin = r"Running .* test @ |Making \d+ requests to "
    report_end = r"Transfer/sec:"
    install_hint = "apt-get install wrk"
    load_models = frozenset({"closed"})
    known_versions = ("4",)
    version_argv: tuple[str, ...] = ("wrk", "-v")  # prints version and usage, exit code 1

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version, such as ``4.1.0``; ToolError for wrk2, whose binary may also be called wrk."""
        output = stdout + stderr
        match = re.search(rb"^wrk (?:debian/)?(\d[\w.]*|\w+)", output, re.MULTILINE)
        if not match or b"--rate" in output:
            problem = "it is wrk2, another tool" if b"--rate" in output else f"`wrk -v` printed {output[:80]!r}"
            raise ToolError(f"wrk: no version found: {problem}", "install wrk 4 (apt install wrk)")
        return match[1].decode()

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return wrk's argument list; ToolError if connections are no multiple of threads or times no whole seconds."""
        base.check_workload(self, workload, RESERVED_OPTIONS, supported_fields=("think_time_s",))
        if workload.connections % workload.threads:
            raise ToolError(
                f"wrk would open {workload.connections // workload.threads * workload.threads} of "
                f"{workload.connections} connections: each of {workload.threads} threads gets the same whole number",
                "make connections a multiple of threads",
            )
        if workload.think_time_s and _has_user_script(workload):
            problem = "think_time_s is made by loadbook's own script, and wrk runs one only"
            raise ToolError(problem, "define delay() in yours")
        if workload.think_time_s:
            _think_ms(workload)
        argv = ["wrk", f"-t{workload.threads}", f"-c{workload.connections}"]
        argv += [f"-d{base.whole_seconds(self, 'duration', duration_s)}s"]
        argv += ["--timeout", f"{base.whole_seconds(self, 'timeout_s', workload.timeout_s)}s"]
        argv += ["--latency"] if _has_user_script(workload) else ["--latency", "-s", SCRIPT_NAME]
        for name, value in base.request_headers(workload).items():
            argv += ["-H", f"{name}: {value}"]
        return [*argv, *workload.extra, base.target_url(target, workload.path)]

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return the Lua script that prints exact results after the run; none if `extra` names a script of the user."""
        if _has_user_script(workload):
            return {}
        script = (resources.files(__package__) / "wrk.lua").read_bytes()
        return {SCRIPT_NAME: script + (DELAY_FUNCTION % _think_ms(workload) if workload.think_time_s else b"")}

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report: from the Lua block if there is one, checked against the text report."""
        lines = line_patterns.restore_indentation(line_patterns.clean_lines(output.stdout), LINE_PATTERNS)
        require_report(self.name, output, lines)
        if is_wrk2(lines):
            raise ParseError(self.name, "stdout", 0, OtherProgram("no report of wrk but one of wrk2, another tool"))
        report = line_patterns.read_report(self.name, lines, LINE_PATTERNS)
        exact = None
        if SCRIPT_NAME in output.argv or BLOCK_BEGIN in lines or BLOCK_END in lines:
            first = lines.index(BLOCK_BEGIN) if BLOCK_BEGIN in lines else len(lines)
            exact = line_patterns.read_report(self.name, lines[first:], EXACT_PATTERNS, first=first + 1)
        _check_report(report, output.argv)
        if exact is not None:
            _check_exact_block(report, exact)
        doubts = [*_doubts(report, output), *_ignored_rows(lines[report.line_numbers["columns"] :])]
        load = line_patterns.printed_load(report, "connections", "threads")
        return ParsedReport(tuple(_rows(report, exact)), doubts=tuple(doubts), load=load)


TOOL = Wrk()


def _has_user_script(workload: Workload) -> bool:
    """Return whether `extra` names a Lua script, in place of loadbook's own, since wrk runs only one."""
    return any(word.startswith(("-s", "--s")) for word in workload.extra)


def _think_ms(workload: Workload) -> int:
    """Return the think time in whole milliseconds, as wrk's delay() requires; ToolError for fractions."""
    ms = round(workload.think_time_s * 1000)
    if ms < 1 or abs(ms - workload.think_time_s * 1000) > 1e-6:
        raise ToolError(f"wrk waits whole milliseconds only: {workload.think_time_s:g} s cannot be done", "round it")
    return ms


def _check_report(report: TextReport, argv: Sequence[str]) -> None:
    """Raise ParseError if the report contradicts itself."""
    present = [line_name in report for line_name in ("percentiles", "p50", "p75", "p90", "p99")]
    if any(present) != all(present) or (not present[0] and "--latency" in argv):
        raise report.error_at("latency", "the latency distribution is not complete")
    check_totals(report)
    if has_latency(report):
        order = [mean_latency_s(report), report.value("max", TIME_UNITS_S)]
        order_p = [report.value(f, TIME_UNITS_S) for f in (*PERCENTILE_FIELDS, "max") if f in report]
        order_p = order_p if not lost_percentiles(report) else []
        if order != sorted(order) or order_p != sorted(order_p):
            raise report.error_at("latency", "mean and percentiles do not ascend to the maximum")


def _check_exact_block(report: TextReport, exact: TextReport) -> None:
    """Raise ParseError unless the values of the Lua block equal those of the text report within its rounding."""
    for field in ("requests", *ERROR_FIELDS):
        if report.count(field) != exact.count(field):
            raise exact.error_at(field, f"{exact.text(field)} is not the {report.count(field)} of the text above")
    if has_latency(report) != all(field in exact for field in STATISTICS):
        raise exact.error_at("end", "latency statistics are not complete")
    shared = [f for f in ("duration", "bytes", *STATISTICS) if f in report and f in exact]
    for field in shared:
        table = BYTE_UNITS if field == "bytes" else TIME_UNITS_S
        printed = mean_latency_s(report) if field == "mean" else report.optional_value(field, table)
        if printed is None:
            continue
        slack = report.half_width(field, table) + 0.51e-6
        if abs(exact.value(field, table) - printed) > slack * (1 + 1e-9):
            raise exact.error_at(field, f"{exact.text(field)} is not the {report.text(field)} of the text above")


def _rows(report: TextReport, exact: TextReport | None) -> Iterator[Measurement]:
    """Yield the measurements, without percentiles that wrk wrongly printed as 0.00us."""
    yield from count_rows(report, exact)
    most_exact = exact or report
    if has_latency(report):
        lost = lost_percentiles(report) if exact is None else []
        for field, statistic in STATISTICS.items():
            value = None
            if field == "mean":
                value = mean_latency_s(most_exact)
            elif field in most_exact and field not in lost:
                value = most_exact.optional_value(field, TIME_UNITS_S)
            if value is not None:
                yield Measurement("latency", statistic, value, "s", most_exact.text(field))


def _ignored_rows(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield a note on rows below the column heads that wrk itself does not print."""
    own = ("Latency", "Req/Sec")
    if names := [match[1] for line in lines if (match := STATISTICS_ROW.match(line)) and match[1] not in own]:
        yield "ignored_rows", f"wrk itself prints no {', '.join(names)}: not read"


def _doubts(report: TextReport, output: ToolOutput) -> Iterator[tuple[str, str]]:
    """Yield the doubts about the numbers, as (name, sentence)."""
    yield from connection_doubts(report)
    if "no_unit" in report:
        text = f"wrk printed its latency without a unit ({' '.join(report.text('no_unit').split())})"
        yield "latency_without_unit", f"{text}: there is no latency"
    if lost := lost_percentiles(report):
        yield "percentiles_lost", f"wrk printed 0.00us for {', '.join(lost)}: those percentiles are left out"
    if is_wrk_1(report) and has_latency(report):
        text = "wrk 1 looks at the latency of one connection of each thread, 5 to 10 times a second"
        yield "latency_sampled", f"{text}: not every request is in its mean and maximum"
    if is_wrk_1(report) and report.count("timeout"):
        text = f"{report.text('timeout')} time-outs: wrk 1 counts an overdue connection again every 2 s"
        yield "timeouts_weighted", f"{text}, so they are not a number of requests"
    elif report.count("timeout") > report.count("requests"):
        text = f"{report.text('timeout')} time-outs of {report.text('requests')} requests: wrk 2 and 3 count an overdue"
        yield "timeouts_weighted", f"{text} connection again every 2 s, so they are not a number of requests"
    elif report.count("timeout"):
        text = f"{report.text('timeout')} time-outs: wrk 4 counts late responses as requests and leaves them out of its"
        more = "latencies (wrk 2 and 3 count overdue connections); requests never answered are in neither"
        yield "latency_censored", f"{text} {more}"
    # with a terminal, stderr is part of stdout
    all_lines = line_patterns.clean_lines(output.stderr[:10_000]) + line_patterns.clean_lines(output.stdout[:10_000])
    if script_error := next((line for line in all_lines if SCRIPT_ERROR.match(line)), None):
        yield "script", f"wrk ran without its script, or without a part of it: {script_error[:200]}"
    yield from run_doubts(report, output.exit_code)
