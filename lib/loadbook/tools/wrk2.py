"""wrk2: open loop at a constant rate over kept connections (giltene/wrk2 `src/wrk.c`, formats.md section 2).

`latency_intended` counts from when a request should have started, `service_time` (-U) from when it did: never mixed.
Both hold only what came after the calibration (10 s + 5 ms per connection of a thread), `requests` hold everything.
wrk2's time-out counter counts every overdue connection again every 2 s, so no total of errors is made with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from loadbook.core.errors import ParseError, ToolError
from loadbook.core.units import BYTES, COUNT, TIME_S
from loadbook.design.workload import Workload
from loadbook.tools import plan, text, wrk2_forms, wrk_forms
from loadbook.tools.base import Captured, Measurement, Parsed, Sample, Target
from loadbook.tools.text import Report
from loadbook.tools.wrk2_forms import BLOCK, FORMS, PERCENTS, Edge
from loadbook.tools.wrk_forms import ERRORS, has_latency, mean

OWNED = (
    *("-t", "--threads", "-c", "--connections", "-d", "--duration", "-T", "--timeout", "-v", "--version"),
    *("-R", "--rate", "-L", "--latency", "-U", "--u_latency"),
)
METRIC = {"recorded": "latency_intended", "uncorrected": "service_time"}
SHORTFALL = 0.97  # wrk2 itself stays about 1 % below on runs of a few seconds
NOT_PACKAGED = "in no package registry: build github.com/giltene/wrk2, and put its binary on the PATH as wrk2"


class Wrk2:
    """The tool wrk2; see the module's first lines for what its numbers mean."""

    name = "wrk2"
    binary = "wrk2"
    get = NOT_PACKAGED
    load_models = frozenset({"open"})
    known = ("4.0.0",)
    version_argv: tuple[str, ...] = ("wrk2", "-v")  # prints version and usage, exit code 1

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version that wrk2 prints, ``4.0.0``, which it has from the wrk that it was made of."""
        said = stdout + stderr
        match = re.search(rb"^wrk (\d[\w.]*|\w+) \[", said, re.MULTILINE)
        if not match or b"--rate" not in said:
            what = "it is wrk, another tool" if match else f"`wrk2 -v` printed {said[:80]!r}"
            raise ToolError(f"wrk2: no version found: {what}", NOT_PACKAGED)
        return match[1].decode()

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return wrk2's argument list; ToolError for closed loads, fractions of rate or seconds, uneven connections."""
        plan.check(self, workload, OWNED)
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
        for name, value in plan.headers(workload).items():
            argv += ["-H", f"{name}: {value}"]
        return [*argv, *workload.extra, plan.url(target, workload.path)]

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return nothing: wrk2 needs no files."""
        return {}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return nothing: wrk2 writes no files."""
        return ()

    def parse(self, captured: Captured) -> Parsed:
        """Return the rows of one report, and the spectra as samples: requests that took at most x seconds."""
        lines = text.lines(captured.stdout)
        text.require(self.name, captured, lines, "Running ", "Transfer/sec:")
        if not wrk_forms.is_wrk2(lines):
            raise ParseError(self.name, "stdout", 0, "no report of wrk2: no calibration, no HdrHistogram; wrk's own?")
        report = text.read(self.name, lines, FORMS)
        blocks = _blocks(report, lines)
        _check(report, blocks, captured)
        samples = (s for name, (_, edges) in blocks.items() for s in _samples(METRIC[name], edges))
        doubts = _doubts(report, captured, sum(line.startswith("  Thread calibration:") for line in lines))
        return Parsed(tuple(_rows(report, blocks, captured)), tuple(samples), tuple(doubts))


TOOL = Wrk2()
Blocks = Mapping[str, tuple[Report, Sequence[Edge]]]


def _blocks(report: Report, lines: Sequence[str]) -> Blocks:
    """Return what stands under each heading of latencies."""
    starts = [report.forms[name] for name in (*METRIC, "total") if name in report.forms]
    found: dict[str, tuple[Report, Sequence[Edge]]] = {}
    for name, start, end in zip([name for name in METRIC if name in report.forms], starts, starts[1:], strict=False):
        inside = lines[start : end - 1]
        block = text.read(report.tool, inside, BLOCK, first=start + 1)
        found[name] = block, wrk2_forms.spectrum(block, inside, start + 1)
    return found


def _check(report: Report, blocks: Blocks, captured: Captured) -> None:
    """Raise ParseError where the report contradicts itself (formats.md 6.5), or lacks what the command asked for."""
    wrk_forms.check_totals(report)
    asked = wrk2_forms.options(captured.argv)
    if (
        ("-U" in asked and set(blocks) != set(METRIC))
        or ("-L" in asked and not blocks)
        or set(blocks) == {"uncorrected"}
    ):
        raise report.wrong("rates", "the latency distribution is not complete")
    for block, edges in blocks.values():
        wrk2_forms.check_block(block, edges)
    counts = {block.count("count") for block, _ in blocks.values()}
    if len(counts) > 1 or max(counts, default=0) > report.count("requests"):
        raise report.wrong("total", f"latencies of {sorted(counts)} requests do not go with {report.text('requests')}")
    if has_latency(report) and mean(report) > report.value("max", TIME_S):
        raise report.wrong("latency", "the mean is above the maximum")
    if "recorded" in blocks:
        _check_summary(report, blocks["recorded"][0])


def _check_summary(report: Report, block: Report) -> None:
    """Raise ParseError unless the row of latency says what stands under the heading of recorded latency."""
    if has_latency(report) != (block.count("count") > 0):
        raise report.wrong("latency", "latency in one place, none in another")
    if not has_latency(report):
        return
    for field, value in (("mean", mean(report)), ("max", report.value("max", TIME_S))):
        slack = text.half_width(report.text(field).replace("1000.00m", "1000.00ms"), TIME_S) + 0.51e-6
        if abs(block.value(field, TIME_S, "ms") - value) > slack * (1 + 1e-9):
            raise block.wrong(field, f"{block.text(field)} ms is not the {report.text(field)} of the text above")


def _rows(report: Report, blocks: Blocks, captured: Captured) -> Iterator[Measurement]:
    """Yield the measurements; mean, sd and maximum from under the spectrum where it is there, in milliseconds."""
    requests, errors = report.count("requests"), {name: report.count(name) for name in ERRORS}
    ok = requests - errors["status"]
    yield Measurement("requests", "count", requests, "1", report.text("requests"))
    yield Measurement("ok", "count", ok, "1", None)
    yield Measurement("requests_per_s", "value", report.value("rate", COUNT), "1/s", report.text("rate"))
    yield Measurement("ok_per_s", "value", wrk_forms.ok_per_s(report, ok), "1/s", None)
    if offered := wrk2_forms.offered(captured.argv):
        yield Measurement("offered_per_s", "value", offered[0], "1/s", offered[1])
    yield Measurement("duration", "value", report.value("duration", TIME_S), "s", report.text("duration"))
    if not errors["timeout"]:
        yield Measurement("errors", "count", sum(errors.values()), "1", None)
    for name, n in errors.items():
        yield Measurement(f"errors_{name}", "count", n, "1", report.text(name) if name in report else None)
    yield Measurement("bytes_read", "count", report.value("bytes", BYTES), "B", report.text("bytes"))
    yield Measurement("bytes_per_s", "value", report.value("transfer", BYTES), "B/s", report.text("transfer"))
    if not blocks and has_latency(report):
        yield Measurement("latency_intended", "mean", mean(report), "s", report.text("mean"))
        for field in ("sd", "max"):
            yield Measurement("latency_intended", field, report.value(field, TIME_S), "s", report.text(field))
    for name, (block, _) in blocks.items():
        yield from _latency(METRIC[name], block)


def _latency(metric: str, block: Report) -> Iterator[Measurement]:
    """Yield the statistics of one block; of no request there are none."""
    if block.count("count") == 0:
        return
    for field in ("mean", "sd", "max"):
        yield Measurement(metric, field, block.value(field, TIME_S, "ms"), "s", block.text(field))
    for field, percent in PERCENTS.items():
        if field != "p100":  # the upper edge of the maximum's bin: the maximum itself is above
            statistic = "p" + percent.rstrip("0").rstrip(".")
            yield Measurement(metric, statistic, block.value(field, TIME_S), "s", block.text(field))


def _samples(metric: str, edges: Sequence[Edge]) -> Iterator[Sample]:
    """Yield how many requests took at most x seconds; of rows for the same bin, one."""
    for edge, after in zip(edges, (*edges[1:], None), strict=True):
        if after is None or after.upper_s != edge.upper_s:
            yield Sample("spectrum", metric, edge.upper_s, "s", float(edge.requests), "1")


def _doubts(report: Report, captured: Captured, calibrated: int) -> Iterator[tuple[str, str]]:
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
    offered, achieved = wrk2_forms.offered(captured.argv), report.value("rate", COUNT)
    if offered and achieved < SHORTFALL * offered[0]:
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
    yield from wrk_forms.run_doubts(report, captured.rc)
