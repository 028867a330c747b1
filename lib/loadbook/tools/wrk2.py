"""wrk2: open loop at a constant rate on persistent connections (giltene/wrk2 `src/wrk.c`, `src/hdr_histogram.c`).

- Build giltene/wrk2 and put its binary on the drivers' PATH as `wrk2`. The command follows the help of 2019 and has
  not been run by us; the parser is tested on captures. Rates are whole; `threads` must divide `connections`.
- Do not use it for the highest rate: above capacity, intended latency only grows with the duration.
- `latency_intended` (`-L`) counts from the scheduled start of a request, `service_time` (`-U`) from its actual start.
  The maximum is the lower edge of its bin (0.1 %), percentiles are upper edges, so p99.999 can exceed it.
- **Times start after wrk2's own calibration** of 10 s + 5 ms for each connection of a thread; `requests`, rates and
  errors cover the whole run. Shorter runs are not calibrated (doubt `too_short`): plan 20 s or more. wrk2 itself
  loses about 1 % of the rate.
- **`errors_timeout` is not a number of requests**, as an overdue connection counts again every 2 s (doubt
  `timeouts_weighted`); there is no total `errors`.
"""

# A latency block is a short list of percentiles with units, then the "Detailed Percentile spectrum": values in ms,
# percentiles as fractions. -U prints a second block with the same lines, so each block is read under its heading.

from __future__ import annotations

import getopt
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from loadbook.core.bucketed_times import Bucket, BucketedTimes
from loadbook.core.errors import OtherProgram, ParseError, ToolError
from loadbook.core.units import COUNT_UNITS, TIME_UNITS_S
from loadbook.study.workload import Workload
from loadbook.tools import base, line_patterns, wrk
from loadbook.tools.base import Measurement, ParsedReport, Sample, Target, ToolOutput
from loadbook.tools.line_patterns import LinePattern, TextReport
from loadbook.tools.wrk import HEAD_PATTERNS, TAIL_PATTERNS, TIME_PATTERN, has_latency, mean_latency_s

# field in the patterns below -> percent, as the short list prints it
PERCENT_FIELDS = {
    "p50": "50.000", "p75": "75.000", "p90": "90.000", "p99": "99.000",
    "p999": "99.900", "p9999": "99.990", "p99999": "99.999", "p100": "100.000",
}  # fmt: skip
LONG_OPTIONS = (
    "connections= duration= threads= script= header= latency u_latency batch_latency timeout= help version rate="
)
_MS = r"\d{1,20}\.\d{3}"
_HEADING = "  Latency Distribution (HdrHistogram - "

LINE_PATTERNS = (
    *HEAD_PATTERNS,
    *(
        LinePattern(
            kind.lower(), f"{_HEADING}{kind} Latency)", re.escape(f"{_HEADING}{kind} Latency"), r".*\)", optional=True
        )
        for kind in ("Recorded", "Uncorrected")
    ),
    *TAIL_PATTERNS,
)
CALIBRATION = LinePattern(
    "calibration",
    "  Thread calibration: mean lat.: 1.500ms, rate sampling interval: 10ms",
    "  Thread calibration:",
    ".*",
)
BLOCK_PATTERNS = (
    *(LinePattern(field, f"{percent:>7}%  836.00us",
                  rf" {{0,2}}{re.escape(percent)}%", rf" +(?P<{field}>{TIME_PATTERN})")
      for field, percent in PERCENT_FIELDS.items()),
    LinePattern("spectrum", "  Detailed Percentile spectrum:", "  Detailed Percentile spectrum:"),
    LinePattern("columns", "       Value   Percentile   TotalCount 1/(1-Percentile)", " +Value ",
                r" *Percentile +TotalCount +1/\(1-Percentile\)"),
    LinePattern("moments", "#[Mean    =        0.876, StdDeviation   =        0.458]", r"#\[Mean ",
                rf" *= *(?P<mean>{_MS}|-?nan), StdDeviation += *(?P<sd>{_MS}|-?nan)\]"),
    LinePattern("max", "#[Max     =        4.876, Total count    =         2948]", r"#\[Max ",
                rf" *= *(?P<max>{_MS}), Total count += *(?P<count>\d{{1,20}})\]"),
    LinePattern("buckets", "#[Buckets =           27, SubBuckets     =         2048]", r"#\[Buckets ",
                r"= *\d+, SubBuckets += *\d+\]"),
)  # fmt: skip
_SPECTRUM_ROW = re.compile(
    rf" *(?P<ms>{_MS}) +(?P<share>[01]\.\d{{6}}) +(?P<count>\d{{1,20}}) +(?P<inverse>\d{{1,20}}\.\d\d|inf)"
)
RESERVED_OPTIONS = (
    *("-t", "--threads", "-c", "--connections", "-d", "--duration", "-T", "--timeout", "-v", "--version"),
    *("-R", "--rate", "-L", "--latency", "-U", "--u_latency"),
)
LEAST_PERCENT = 75.0  # of a merged spectrum, whose rows are 5 and 10 % of the requests apart below
BLOCK_METRICS = {"recorded": "latency_intended", "uncorrected": "service_time"}
INSTALL_HINT = "in no package registry: build github.com/giltene/wrk2, and put its binary on the PATH as wrk2"


class SpectrumRow(NamedTuple):
    """One row of a "Detailed Percentile spectrum": `requests` requests took at most `upper_s` seconds."""

    upper_s: float
    requests: int


def command_options(argv: Sequence[str]) -> dict[str, str]:
    """Return {option such as "-R": value}; of a repeated option the last. {} for a command that wrk2 would reject."""
    try:
        parsed, _ = getopt.gnu_getopt(list(argv[1:]), "t:c:d:s:H:T:R:LUBv", LONG_OPTIONS.split())
    except getopt.GetoptError:
        return {}
    short_names = {"--rate": "-R", "--latency": "-L", "--u_latency": "-U"}
    return {short_names.get(name, name): value for name, value in parsed}


def offered_rate(argv: Sequence[str]) -> tuple[float, str] | None:
    """Return (requested requests per second, its text) from option -R; None if the command is not known."""
    value = command_options(argv).get("-R", "")
    match = re.fullmatch(r"(\d{1,15})([kKmMgG]?)", value)
    return (float(match[1]) * {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[match[2].lower()], value) if match else None


def read_spectrum(report: TextReport, lines: Sequence[str], first: int) -> list[SpectrumRow]:
    """Return the rows of the spectrum in a latency block (percentiles and the spectrum under one heading).

    `report` is the parsed block, `lines` are its lines, and `first` is the number of its first line in the output.
    Raises ParseError for a row that is truncated or out of order, or a spectrum without its last row.
    """
    edges: list[SpectrumRow] = []
    last = (-1.0, -1, 0.0)
    for number in range(report.line_numbers["columns"] + 1, report.line_numbers["moments"]):
        line = lines[number - first]
        if not re.match(rf" *{_MS} ", line):
            continue
        row = _SPECTRUM_ROW.fullmatch(line)
        if row is None:
            raise ParseError("wrk2", "stdout", number, "row of the spectrum cut or changed")
        current = (float(row["ms"]), int(row["count"]), float(row["inverse"]))
        if current[0] < last[0] or current[1] < last[1] or current[2] <= last[2]:
            raise ParseError("wrk2", "stdout", number, "rows of the spectrum do not ascend")
        last = current
        edges.append(SpectrumRow(current[0] / 1e3, current[1]))
    if last[1:] != (report.count("count"), float("inf")):
        raise report.error_at("spectrum", "the spectrum does not end with all requests counted")
    return edges


def check_block(report: TextReport, edges: Sequence[SpectrumRow]) -> None:
    """Raise ParseError unless mean, maximum, percentiles and spectrum of one latency block are consistent.

    `edges` are the rows of its spectrum; a block without requests is not checked.
    """
    total = report.count("count")
    if total == 0:
        return
    if report.value("mean", TIME_UNITS_S, "ms") > report.value("max", TIME_UNITS_S, "ms"):
        raise report.error_at("moments", "the mean is above the maximum")
    for field, percent in PERCENT_FIELDS.items():
        rank = max(1, int(float(percent) / 100 * total + 0.5))  # hdr_value_at_percentile
        low = max((e.upper_s for e in edges if e.requests < rank), default=0.0)
        high = min(e.upper_s for e in edges if e.requests >= rank)
        slack = report.half_width(field, TIME_UNITS_S) * (1 + 1e-9) + 1e-9
        if not low - slack <= report.value(field, TIME_UNITS_S) <= high + slack:
            raise report.error_at(field, f"{report.text(field)} for {percent} % is not what the spectrum below it says")
    if report.value("max", TIME_UNITS_S, "ms") > edges[-1].upper_s + 1e-9:
        raise report.error_at("max", "the maximum is above the spectrum")


class Wrk2(base.Tool):
    """wrk2; the module docstring defines its metrics."""

    name = "wrk2"
    binary = "wrk2"
    report_begin, report_end = wrk.Wrk.report_begin, wrk.Wrk.report_end
    install_hint = INSTALL_HINT
    load_models = frozenset({"open"})
    known_versions = ("4.0.0",)
    version_argv: tuple[str, ...] = ("wrk2", "-v")  # prints version and usage, exit code 1

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version that wrk2 prints: ``4.0.0``, that of the wrk from which it was made."""
        output = stdout + stderr
        match = re.search(rb"^wrk (\d[\w.]*|\w+) \[", output, re.MULTILINE)
        if not match or b"--rate" not in output:
            problem = "it is wrk, another tool" if match else f"`wrk2 -v` printed {output[:80]!r}"
            raise ToolError(f"wrk2: no version found: {problem}", INSTALL_HINT)
        return match[1].decode()

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return wrk2's argument list; ToolError for closed loads, and for a rate or duration that is not whole."""
        base.check_workload(self, workload, RESERVED_OPTIONS)
        rate = workload.rate_per_s or 0
        if rate != int(rate):
            raise ToolError(f"wrk2 takes whole requests per second only, not {rate:g}", "round rate_per_s")
        if workload.connections % workload.threads:
            problem = f"wrk2 gives each of {workload.threads} threads the same whole number of connections"
            hint = "make connections a multiple of threads"
            raise ToolError(f"{problem}, which {workload.connections} is not a multiple of", hint)
        argv = ["wrk2", f"-t{workload.threads}", f"-c{workload.connections}", f"-R{int(rate)}"]
        argv += [f"-d{base.whole_seconds(self, 'duration', duration_s)}s"]
        argv += ["--timeout", f"{base.whole_seconds(self, 'timeout_s', workload.timeout_s)}s", "-L", "-U"]
        for name, value in base.request_headers(workload).items():
            argv += ["-H", f"{name}: {value}"]
        return [*argv, *workload.extra, base.target_url(target, workload.path)]

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report; its spectra become samples: number of requests that took at most x seconds."""
        patterns = (*LINE_PATTERNS, CALIBRATION, *BLOCK_PATTERNS)
        lines = line_patterns.restore_indentation(line_patterns.clean_lines(output.stdout), patterns)
        wrk.require_report(self.name, output, lines)
        if not wrk.is_wrk2(lines):
            reason = OtherProgram("no report of wrk2: no calibration, no HdrHistogram; wrk's own?")
            raise ParseError(self.name, "stdout", 0, reason)
        report = line_patterns.read_report(self.name, lines, LINE_PATTERNS)
        blocks = _read_blocks(report, lines)
        _check_report(report, blocks, output)
        doubts = _doubts(report, output, sum(CALIBRATION.start_regex.match(line) is not None for line in lines))
        rows, samples = tuple(_rows(report, blocks, output)), tuple(_samples(blocks))
        load = line_patterns.printed_load(report, "connections", "threads")
        return ParsedReport(rows, samples, tuple(doubts), bucketed=_bucketed(blocks), load=load)


TOOL = Wrk2()
LatencyBlocks = Mapping[str, tuple[TextReport, Sequence[SpectrumRow]]]


def _read_blocks(report: TextReport, lines: Sequence[str]) -> LatencyBlocks:
    """Return {heading in lower case: (latency block, rows of its spectrum)}."""
    names = [name for name in (*BLOCK_METRICS, "total") if name in report.line_numbers]
    blocks_by_name: dict[str, tuple[TextReport, Sequence[SpectrumRow]]] = {}
    for name, following in pairwise(names):
        start = report.line_numbers[name]
        inside = lines[start : report.line_numbers[following] - 1]
        block = line_patterns.read_report(report.tool, inside, BLOCK_PATTERNS, first=start + 1)
        blocks_by_name[name] = block, read_spectrum(block, inside, start + 1)
    return blocks_by_name


def _check_report(report: TextReport, blocks: LatencyBlocks, output: ToolOutput) -> None:
    """Raise ParseError if the report contradicts itself or lacks a latency block that the command requested."""
    if "no_unit" in report:
        raise report.error_at("latency", "the latency has no unit")
    wrk.check_totals(report)
    options, names = command_options(output.argv), set(blocks)
    missing = ("-U" in options and names != set(BLOCK_METRICS)) or ("-L" in options and not blocks)
    if missing or names == {"uncorrected"}:
        raise report.error_at("rates", "the latency distribution is not complete")
    for block, edges in blocks.values():
        check_block(block, edges)
    counts = {block.count("count") for block, _ in blocks.values()}
    if len(counts) > 1 or max(counts, default=0) > report.count("requests"):
        text = f"latencies of {sorted(counts)} requests do not go with {report.text('requests')}"
        raise report.error_at("total", text)
    if has_latency(report) and mean_latency_s(report) > report.value("max", TIME_UNITS_S):
        raise report.error_at("latency", "the mean is above the maximum")
    if has_latency(report) and mean_latency_s(report) > 1.1 * report.value("duration", TIME_UNITS_S) + 0.1:
        # giltene/wrk2 issue 138: wrk2 reports a duration of milliseconds, and so a rate of hundreds of millions
        text = f"impossible: a mean latency of {report.text('mean')} in {report.text('duration')}"
        raise report.error_at("total", text)
    if "recorded" in blocks:
        _check_summary(report, blocks["recorded"][0])


def _check_summary(report: TextReport, block: TextReport) -> None:
    """Raise ParseError unless the row "Latency" of the thread statistics equals the block "Recorded Latency"."""
    if has_latency(report) != (block.count("count") > 0):
        raise report.error_at("latency", "latency in one place, none in another")
    if not has_latency(report):
        return
    for field, value in (("mean", mean_latency_s(report)), ("max", report.value("max", TIME_UNITS_S))):
        printed = report.text(field).replace("1000.00m", "1000.00ms")
        slack = line_patterns.rounding_half_width(printed, TIME_UNITS_S) + 0.51e-6
        if abs(block.value(field, TIME_UNITS_S, "ms") - value) > slack * (1 + 1e-9):
            raise block.error_at(field, f"{block.text(field)} ms is not the {report.text(field)} of the text above")


def _rows(report: TextReport, blocks: LatencyBlocks, output: ToolOutput) -> Iterator[Measurement]:
    """Yield the measurements; mean, sd and maximum come from the lines below the spectrum if there is one."""
    yield from wrk.count_rows(report, offered=offered_rate(output.argv))
    if not blocks and has_latency(report):
        yield Measurement("latency_intended", "mean", mean_latency_s(report), "s", report.text("mean"))
        for field in ("sd", "max"):
            yield Measurement("latency_intended", field, report.value(field, TIME_UNITS_S), "s", report.text(field))
    for name, (block, _) in blocks.items():
        metric = BLOCK_METRICS[name]
        if block.count("count") == 0:
            continue
        for field in ("mean", "sd", "max"):
            yield Measurement(metric, field, block.value(field, TIME_UNITS_S, "ms"), "s", block.text(field))
        for field, percent in PERCENT_FIELDS.items():
            if field != "p100":  # p100 is the upper edge of a bin; the exact maximum was yielded above
                statistic = "p" + percent.rstrip("0").rstrip(".")
                yield Measurement(metric, statistic, block.value(field, TIME_UNITS_S), "s", block.text(field))


def _samples(blocks: LatencyBlocks) -> Iterator[Sample]:
    """Yield the number of requests that took at most x seconds: one sample per bin of the spectrum."""
    for name, (_, edges) in blocks.items():
        for edge, following in zip(edges, (*edges[1:], None), strict=True):
            if following is None or following.upper_s != edge.upper_s:
                yield Sample("spectrum", BLOCK_METRICS[name], edge.upper_s, "s", float(edge.requests), "1")


def _bucketed(blocks: LatencyBlocks) -> dict[str, BucketedTimes]:
    """Return the times between the rows of each spectrum; wrk2 states the upper edge as the time."""
    found = {}
    for name, (block, edges) in blocks.items():
        rows = pairwise((SpectrumRow(0.0, 0), *edges))
        buckets = [
            Bucket(low.upper_s, high.upper_s, high.requests - low.requests, high.upper_s)
            for low, high in rows
            if high.requests > low.requests
        ]
        if buckets:
            found[BLOCK_METRICS[name]] = BucketedTimes(block.count("count"), tuple(buckets), LEAST_PERCENT)
    return found


def _doubts(report: TextReport, output: ToolOutput, calibrated: int) -> Iterator[tuple[str, str]]:
    """Yield the doubts about the numbers, as (name, sentence)."""
    yield from wrk.connection_doubts(report)
    if calibrated < report.count("threads"):
        text = (
            f"{calibrated} of {report.text('threads')} threads finished their calibration of 10 s + 5 ms per connection"
        )
        yield "too_short", f"{text}: latencies hold the start of the run, and there are no rates per thread"
    offered, achieved = offered_rate(output.argv), report.value("rate", COUNT_UNITS)
    if offered and achieved < base.MIN_ACHIEVED_SHARE * offered[0]:  # wrk2 itself sends 1 % less in some seconds
        text = f"{achieved:g} requests a second were answered of {offered[0]:g} asked for: intended latency only grows"
        yield "offered_shortfall", text
    if report.count("timeout"):
        text = (
            f"time-outs are {report.text('timeout')}, but wrk2 counts every connection whose last request is older than"
        )
        yield "timeouts_weighted", f"{text} the time-out, again every 2 s: a sign of trouble, not a number of requests"
    yield from wrk.run_doubts(report, output.exit_code)
