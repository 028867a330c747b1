"""wrk 4: closed loop, any number of connections, whole seconds (wg/wrk `src/wrk.c`, formats.md section 2).

Latency as wrk prints it is closed and self-corrected: after a pause of the server wrk adds made-up samples
(`stats_correct`), so its percentiles must not be compared with another tool's. `ok` counts late answers too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources

from loadbook.core.errors import ParseError, ToolError
from loadbook.core.units import BYTES, COUNT, TIME_S
from loadbook.design.workload import Workload
from loadbook.tools import plan, text, wrk_forms
from loadbook.tools.base import Captured, Measurement, Parsed, Target
from loadbook.tools.text import Report
from loadbook.tools.wrk_forms import BEGIN, END, ERRORS, EXACT, FORMS, STATISTICS, has_latency, mean

SCRIPT = "loadbook.lua"
DELAY = b"\nfunction delay() return %d end -- think time: ms before each request, not part of its latency\n"
SCRIPT_ERROR = re.compile(r"(\S+): (?:cannot open \1|\1:\d+: )")  # wrk goes on without a script that Lua refuses
OWNED = ("-t", "--threads", "-c", "--connections", "-d", "--duration", "-T", "--timeout", "-v", "--version")


class Wrk:
    """The tool wrk; see the module's first lines for what its numbers mean."""

    name = "wrk"
    binary = "wrk"
    get = "apt-get install wrk"
    load_models = frozenset({"closed"})
    known = ("4",)
    version_argv: tuple[str, ...] = ("wrk", "-v")  # prints version and usage, exit code 1

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version, ``4.1.0``; wrk2, which is also called wrk, is refused by its option ``-R``."""
        said = stdout + stderr
        match = re.search(rb"^wrk (?:debian/)?(\d[\w.]*|\w+)", said, re.MULTILINE)
        if not match or b"--rate" in said:
            what = "it is wrk2, another tool" if b"--rate" in said else f"`wrk -v` printed {said[:80]!r}"
            raise ToolError(f"wrk: no version found: {what}", "install wrk 4 (apt install wrk)")
        return match[1].decode()

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return wrk's argument list; ToolError for open loads, fractions of seconds, and uneven connections."""
        plan.check(self, workload, OWNED, able=("think_time_s",))
        if workload.connections % workload.threads:
            raise ToolError(
                f"wrk would open {workload.connections // workload.threads * workload.threads} of "
                f"{workload.connections} connections: each of {workload.threads} threads gets the same whole number",
                "make connections a multiple of threads",
            )
        if workload.think_time_s:
            _check_think_time(workload)
        argv = ["wrk", f"-t{workload.threads}", f"-c{workload.connections}"]
        argv += [f"-d{plan.whole_seconds(self, 'duration', duration_s)}s"]
        argv += ["--timeout", f"{plan.whole_seconds(self, 'timeout_s', workload.timeout_s)}s"]
        argv += ["--latency"] if _own_script(workload) else ["--latency", "-s", SCRIPT]
        for name, value in plan.headers(workload).items():
            argv += ["-H", f"{name}: {value}"]
        return [*argv, *workload.extra, plan.url(target, workload.path)]

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return the Lua script that prints results exactly, once the run is over; none beside a script of the user."""
        if _own_script(workload):
            return {}
        script = (resources.files(__package__) / "wrk.lua").read_bytes()
        return {SCRIPT: script + (DELAY % _think_ms(workload) if workload.think_time_s else b"")}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return nothing: wrk writes no files."""
        return ()

    def parse(self, captured: Captured) -> Parsed:
        """Return the rows of one report: from the Lua block where there is one, checked against the human text."""
        lines = text.lines(captured.stdout)
        text.require(self.name, captured, lines, "Running ", "Transfer/sec:")
        if wrk_forms.is_wrk2(lines):
            raise ParseError(self.name, "stdout", 0, "no report of wrk but one of wrk2, another tool")
        report = text.read(self.name, lines, FORMS)
        exact = _exact(lines, SCRIPT in captured.argv)
        _check(report, captured.argv)
        if exact is not None:
            _check_against(report, exact)
        return Parsed(tuple(_rows(report, exact)), doubts=tuple(_doubts(report, captured)))


TOOL = Wrk()


def _own_script(workload: Workload) -> bool:
    """Tell whether `extra` names a script: wrk runs one only, so that ours, and what it prints, is left out."""
    return any(word.startswith(("-s", "--s")) for word in workload.extra)


def _check_think_time(workload: Workload) -> None:
    """Raise ToolError unless our script can make the think time."""
    if _own_script(workload):
        raise ToolError(
            "think_time_s is made by loadbook's own script, and wrk runs one only", "define delay() in yours"
        )
    _think_ms(workload)


def _think_ms(workload: Workload) -> int:
    """Return the think time as wrk's delay() must: whole milliseconds."""
    ms = round(workload.think_time_s * 1000)
    if ms < 1 or abs(ms - workload.think_time_s * 1000) > 1e-6:
        raise ToolError(f"wrk waits whole milliseconds only: {workload.think_time_s:g} s cannot be done", "round it")
    return ms


def _exact(lines: Sequence[str], wanted: bool) -> Report | None:
    """Return what our Lua script printed; None where it was not used."""
    if not wanted and BEGIN not in lines and END not in lines:
        return None
    first = lines.index(BEGIN) if BEGIN in lines else len(lines)
    return text.read("wrk", lines[first:], EXACT, first=first + 1)


def _check(report: Report, argv: Sequence[str]) -> None:
    """Raise ParseError where the report contradicts itself (formats.md 6.5)."""
    shown = [form in report for form in ("percentiles", "p50", "p75", "p90", "p99")]
    if any(shown) != all(shown) or (not shown[0] and "--latency" in argv):
        raise report.wrong("latency", "the latency distribution is not complete")
    wrk_forms.check_totals(report)
    if has_latency(report):
        order = [mean(report), report.value("max", TIME_S)]
        order_p = [report.value(f, TIME_S) for f in ("p50", "p75", "p90", "p99", "max") if f in report]
        if order != sorted(order) or order_p != sorted(order_p):
            raise report.wrong("latency", "mean and percentiles do not ascend to the maximum")


def _check_against(report: Report, exact: Report) -> None:
    """Raise ParseError unless the Lua block says what the human text says, within the text's rounding."""
    for field in ("requests", *ERRORS):
        if report.count(field) != exact.count(field):
            raise exact.wrong(field, f"{exact.text(field)} is not the {report.count(field)} of the text above")
    if has_latency(report) != all(field in exact for field in STATISTICS):
        raise exact.wrong("end", "latency statistics are not complete")
    shared = [f for f in ("duration", "bytes", *STATISTICS) if f in report and f in exact]
    for field in shared:
        table = BYTES if field == "bytes" else TIME_S
        printed = mean(report) if field == "mean" else report.real(field, table)
        if printed is None:
            continue
        slack = text.half_width(report.text(field), table) + 0.51e-6
        if abs(exact.value(field, table) - printed) > slack * (1 + 1e-9):
            raise exact.wrong(field, f"{exact.text(field)} is not the {report.text(field)} of the text above")


def _rows(report: Report, exact: Report | None) -> Iterator[Measurement]:
    """Yield the measurements; texts are those of the source that the value was read from."""
    best = exact or report
    requests, errors = report.count("requests"), {name: report.count(name) for name in ERRORS}
    ok = requests - errors["status"]
    rate = wrk_forms.ok_per_s(report, ok) if exact is None else ok / exact.value("duration", TIME_S)
    yield Measurement("requests", "count", requests, "1", report.text("requests"))
    yield Measurement("ok", "count", ok, "1", None)
    yield Measurement("requests_per_s", "value", report.value("rate", COUNT), "1/s", report.text("rate"))
    yield Measurement("ok_per_s", "value", rate, "1/s", None)
    yield Measurement("duration", "value", best.value("duration", TIME_S), "s", best.text("duration"))
    if not (errors["timeout"] and errors["status"]):  # a late error response is counted in both
        yield Measurement("errors", "count", sum(errors.values()), "1", None)
    for name, n in errors.items():
        yield Measurement(f"errors_{name}", "count", n, "1", report.text(name) if name in report else None)
    yield Measurement("bytes_read", "count", best.value("bytes", BYTES), "B", best.text("bytes"))
    yield Measurement("bytes_per_s", "value", report.value("transfer", BYTES), "B/s", report.text("transfer"))
    if has_latency(report):
        for field, statistic in STATISTICS.items():
            value = mean(best) if field == "mean" else best.real(field, TIME_S) if field in best else None
            if value is not None:
                yield Measurement("latency", statistic, value, "s", best.text(field))


def _doubts(report: Report, captured: Captured) -> Iterator[tuple[str, str]]:
    """Yield what makes the numbers mean less than they seem to."""
    yield from wrk_forms.connection_doubts(report)
    if report.count("timeout"):
        yield (
            "latency_censored",
            (
                f"{report.text('timeout')} answers came after the time-out: wrk counts them as requests and drops them "
                "from its latencies; requests never answered are in neither"
            ),
        )
    said = text.lines(captured.stderr[:10_000]) + text.lines(captured.stdout[:10_000])  # over a pty, both are one
    if wrong := next((line for line in said if SCRIPT_ERROR.match(line)), None):
        yield "script", f"wrk ran without its script, or without a part of it: {wrong[:200]}"
    yield from wrk_forms.run_doubts(report, captured.rc)
