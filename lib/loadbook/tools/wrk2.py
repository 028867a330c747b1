"""wrk2: open loop at a constant rate over kept connections (giltene/wrk2 `src/wrk.c`, formats.md section 2).

`latency_intended` counts from when a request should have started, `service_time` (-U) from when it did: never mixed.
Both hold only what came after the calibration (10 s + 5 ms per connection of a thread), `requests` hold everything.
wrk2's time-out counter counts every overdue connection again every 2 s, so no total of errors is made with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from loadbook.core.errors import ParseError, ToolError
from loadbook.core.units import BYTE_UNITS, COUNT_UNITS, TIME_UNITS_S
from loadbook.design.workload import Workload
from loadbook.tools import plan, text, wrk2_forms, wrk_forms
from loadbook.tools.base import ToolOutput, Measurement, ParsedReport, Sample, Target
from loadbook.tools.text import TextReport
from loadbook.tools.wrk2_forms import BLOCK_PATTERNS, LINE_PATTERNS, PERCENT_FIELDS, SpectrumRow
from loadbook.tools.wrk_forms import ERROR_FIELDS, has_latency, mean_latency_s

RESERVED_OPTIONS = (
    *("-t", "--threads", "-c", "--connections", "-d", "--duration", "-T", "--timeout", "-v", "--version"),
    *("-R", "--rate", "-L", "--latency", "-U", "--u_latency"),
)
BLOCK_METRICS = {"recorded": "latency_intended", "uncorrected": "service_time"}
MIN_ACHIEVED_SHARE = 0.97  # wrk2 itself stays about 1 % below on runs of a few seconds
INSTALL_HINT = "in no package registry: build github.com/giltene/wrk2, and put its binary on the PATH as wrk2"


class Wrk2:
    """The tool wrk2; see the module's first lines for what its numbers mean."""

    name = "wrk2"
    binary = "wrk2"
    install_hint = INSTALL_HINT
    load_models = frozenset({"open"})
    known_versions = ("4.0.0",)
    version_argv: tuple[str, ...] = ("wrk2", "-v")  # prints version and usage, exit code 1

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version that wrk2 prints, ``4.0.0``, which it has from the wrk that it was made of."""
        output = stdout + stderr
        match = re.search(rb"^wrk (\d[\w.]*|\w+) \[", output, re.MULTILINE)
        if not match or b"--rate" not in output:
            problem = "it is wrk, another tool" if match else f"`wrk2 -v` printed {output[:80]!r}"
            raise ToolError(f"wrk2: no version found: {problem}", INSTALL_HINT)
        return match[1].decode()

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return wrk2's argument list; ToolError for closed loads, fractions of rate or seconds, uneven connections."""
        plan.check_workload(self, workload, RESERVED_OPTIONS)
        rate = workload.rate_per_s or 0
        if rate != int(rate):
            raise ToolError(f"wrk2 takes whole requests per second only, not {rate:g}", "round rate_per_s")
        if workload.connections % workload.threads:
            raise ToolError(
                f"wrk2 gives each of {workload.threads} threads the same whole number of connections, "
                f"which {workload.connections} is not a multiple of",
                "make connections a multiple of threads",
            )
        argv = ["wrk2", f"-t{workload.threads}", f"-c{workload.connections}", f"-R{int(rate)}"]
        argv += [f"-d{plan.whole_seconds(self, 'duration', duration_s)}s"]
        argv += ["--timeout", f"{plan.whole_seconds(self, 'timeout_s', workload.timeout_s)}s", "-L", "-U"]
        for name, value in plan.request_headers(workload).items():
            argv += ["-H", f"{name}: {value}"]
        return [*argv, *workload.extra, plan.target_url(target, workload.path)]

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return nothing: wrk2 needs no files."""
        return {}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return nothing: wrk2 writes no files."""
        return ()

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report, and the spectra as samples: requests that took at most x seconds."""
        lines = text.clean_lines(output.stdout)
        text.require_report(self.name, output, lines, "Running ", "Transfer/sec:")
        if not wrk_forms.is_wrk2(lines):
            raise ParseError(self.name, "stdout", 0, "no report of wrk2: no calibration, no HdrHistogram; wrk's own?")
        report = text.read_report(self.name, lines, LINE_PATTERNS)
        blocks = _read_blocks(report, lines)
        _check_report(report, blocks, output)
        samples = (s for name, (_, edges) in blocks.items() for s in _spectrum_samples(BLOCK_METRICS[name], edges))
        doubts = _doubts(report, output, sum(line.startswith("  Thread calibration:") for line in lines))
        return ParsedReport(tuple(_rows(report, blocks, output)), tuple(samples), tuple(doubts))


TOOL = Wrk2()
LatencyBlocks = Mapping[str, tuple[TextReport, Sequence[SpectrumRow]]]


def _read_blocks(report: TextReport, lines: Sequence[str]) -> LatencyBlocks:
    """Return what stands under each heading of latencies."""
    starts = [report.line_numbers[name] for name in (*BLOCK_METRICS, "total") if name in report.line_numbers]
    blocks_by_name: dict[str, tuple[TextReport, Sequence[SpectrumRow]]] = {}
    for name, start, end in zip([name for name in BLOCK_METRICS if name in report.line_numbers], starts, starts[1:], strict=False):
        inside = lines[start : end - 1]
        block = text.read_report(report.tool, inside, BLOCK_PATTERNS, first=start + 1)
        blocks_by_name[name] = block, wrk2_forms.read_spectrum(block, inside, start + 1)
    return blocks_by_name


def _check_report(report: TextReport, blocks: LatencyBlocks, output: ToolOutput) -> None:
    """Raise ParseError where the report contradicts itself (formats.md 6.5), or lacks what the command asked for."""
    wrk_forms.check_totals(report)
    options = wrk2_forms.command_options(output.argv)
    if (
        ("-U" in options and set(blocks) != set(BLOCK_METRICS))
        or ("-L" in options and not blocks)
        or set(blocks) == {"uncorrected"}
    ):
        raise report.error_at("rates", "the latency distribution is not complete")
    for block, edges in blocks.values():
        wrk2_forms.check_block(block, edges)
    counts = {block.count("count") for block, _ in blocks.values()}
    if len(counts) > 1 or max(counts, default=0) > report.count("requests"):
        raise report.error_at("total", f"latencies of {sorted(counts)} requests do not go with {report.text('requests')}")
    if has_latency(report) and mean_latency_s(report) > report.value("max", TIME_UNITS_S):
        raise report.error_at("latency", "the mean is above the maximum")
    if "recorded" in blocks:
        _check_summary(report, blocks["recorded"][0])


def _check_summary(report: TextReport, block: TextReport) -> None:
    """Raise ParseError unless the row of latency says what stands under the heading of recorded latency."""
    if has_latency(report) != (block.count("count") > 0):
        raise report.error_at("latency", "latency in one place, none in another")
    if not has_latency(report):
        return
    for field, value in (("mean", mean_latency_s(report)), ("max", report.value("max", TIME_UNITS_S))):
        slack = text.rounding_half_width(report.text(field).replace("1000.00m", "1000.00ms"), TIME_UNITS_S) + 0.51e-6
        if abs(block.value(field, TIME_UNITS_S, "ms") - value) > slack * (1 + 1e-9):
            raise block.error_at(field, f"{block.text(field)} ms is not the {report.text(field)} of the text above")


def _rows(report: TextReport, blocks: LatencyBlocks, output: ToolOutput) -> Iterator[Measurement]:
    """Yield the measurements; mean, sd and maximum from under the spectrum where it is there, in milliseconds."""
    requests, errors = report.count("requests"), {name: report.count(name) for name in ERROR_FIELDS}
    ok = requests - errors["status"]
    yield Measurement("requests", "count", requests, "1", report.text("requests"))
    yield Measurement("ok", "count", ok, "1", None)
    yield Measurement("requests_per_s", "value", report.value("rate", COUNT_UNITS), "1/s", report.text("rate"))
    yield Measurement("ok_per_s", "value", wrk_forms.ok_per_s(report, ok), "1/s", None)
    if offered := wrk2_forms.offered_rate(output.argv):
        yield Measurement("offered_per_s", "value", offered[0], "1/s", offered[1])
    yield Measurement("duration", "value", report.value("duration", TIME_UNITS_S), "s", report.text("duration"))
    if not errors["timeout"]:
        yield Measurement("errors", "count", sum(errors.values()), "1", None)
    for name, n in errors.items():
        yield Measurement(f"errors_{name}", "count", n, "1", report.text(name) if name in report else None)
    yield Measurement("bytes_read", "count", report.value("bytes", BYTE_UNITS), "B", report.text("bytes"))
    yield Measurement("bytes_per_s", "value", report.value("transfer", BYTE_UNITS), "B/s", report.text("transfer"))
    if not blocks and has_latency(report):
        yield Measurement("latency_intended", "mean", mean_latency_s(report), "s", report.text("mean"))
        for field in ("sd", "max"):
            yield Measurement("latency_intended", field, report.value(field, TIME_UNITS_S), "s", report.text(field))
    for name, (block, _) in blocks.items():
        yield from _latency_rows(BLOCK_METRICS[name], block)


def _latency_rows(metric: str, block: TextReport) -> Iterator[Measurement]:
    """Yield the statistics of one block; of no request there are none."""
    if block.count("count") == 0:
        return
    for field in ("mean", "sd", "max"):
        yield Measurement(metric, field, block.value(field, TIME_UNITS_S, "ms"), "s", block.text(field))
    for field, percent in PERCENT_FIELDS.items():
        if field != "p100":  # the upper edge of the maximum's bin: the maximum itself is above
            statistic = "p" + percent.rstrip("0").rstrip(".")
            yield Measurement(metric, statistic, block.value(field, TIME_UNITS_S), "s", block.text(field))


def _spectrum_samples(metric: str, edges: Sequence[SpectrumRow]) -> Iterator[Sample]:
    """Yield how many requests took at most x seconds; of rows for the same bin, one."""
    for edge, following in zip(edges, (*edges[1:], None), strict=True):
        if following is None or following.upper_s != edge.upper_s:
            yield Sample("spectrum", metric, edge.upper_s, "s", float(edge.requests), "1")


def _doubts(report: TextReport, output: ToolOutput, calibrated: int) -> Iterator[tuple[str, str]]:
    """Yield what makes the numbers mean less than they seem to."""
    yield from wrk_forms.connection_doubts(report)
    if calibrated < report.count("threads"):
        yield (
            "too_short",
            (
                f"{calibrated} of {report.text('threads')} threads finished their calibration of 10 s + 5 ms per "
                "connection: latencies hold the start of the run, and there are no rates per thread"
            ),
        )
    offered, achieved = wrk2_forms.offered_rate(output.argv), report.value("rate", COUNT_UNITS)
    if offered and achieved < MIN_ACHIEVED_SHARE * offered[0]:
        yield (
            "offered_shortfall",
            f"{achieved:g} requests a second were answered of {offered[0]:g} asked for: intended latency only grows",
        )
    if report.count("timeout"):
        yield (
            "timeouts_weighted",
            (
                f"time-outs are {report.text('timeout')}, but wrk2 counts every connection whose last request is "
                "older than the time-out, again every 2 s: a sign of trouble, not a number of requests"
            ),
        )
    yield from wrk_forms.run_doubts(report, output.exit_code)
