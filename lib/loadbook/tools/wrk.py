"""wrk 4: closed loop, any number of connections, whole seconds (wg/wrk `src/wrk.c`, formats.md section 2).

Latency as wrk prints it is closed and self-corrected: after a pause of the server wrk adds made-up samples
(`stats_correct`), so its percentiles must not be compared with another tool's. `ok` counts late answers too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources

from loadbook.core.errors import ParseError, ToolError
from loadbook.core.units import BYTE_UNITS, COUNT_UNITS, TIME_UNITS_S
from loadbook.design.workload import Workload
from loadbook.tools import plan, text, wrk_forms
from loadbook.tools.base import ToolOutput, Measurement, ParsedReport, Target
from loadbook.tools.text import TextReport
from loadbook.tools.wrk_forms import BLOCK_BEGIN, BLOCK_END, ERROR_FIELDS, EXACT_PATTERNS, LINE_PATTERNS, STATISTICS, has_latency, mean_latency_s

SCRIPT_NAME = "loadbook.lua"
DELAY_FUNCTION = b"\nfunction delay() return %d end -- think time: ms before each request, not part of its latency\n"
SCRIPT_ERROR = re.compile(r"(\S+): (?:cannot open \1|\1:\d+: )")  # wrk goes on without a script that Lua refuses
RESERVED_OPTIONS = ("-t", "--threads", "-c", "--connections", "-d", "--duration", "-T", "--timeout", "-v", "--version")


class Wrk:
    """The tool wrk; see the module's first lines for what its numbers mean."""

    name = "wrk"
    binary = "wrk"
    install_hint = "apt-get install wrk"
    load_models = frozenset({"closed"})
    known_versions = ("4",)
    version_argv: tuple[str, ...] = ("wrk", "-v")  # prints version and usage, exit code 1

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version, ``4.1.0``; wrk2, which is also called wrk, is refused by its option ``-R``."""
        output = stdout + stderr
        match = re.search(rb"^wrk (?:debian/)?(\d[\w.]*|\w+)", output, re.MULTILINE)
        if not match or b"--rate" in output:
            problem = "it is wrk2, another tool" if b"--rate" in output else f"`wrk -v` printed {output[:80]!r}"
            raise ToolError(f"wrk: no version found: {problem}", "install wrk 4 (apt install wrk)")
        return match[1].decode()

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return wrk's argument list; ToolError for open loads, fractions of seconds, and uneven connections."""
        plan.check_workload(self, workload, RESERVED_OPTIONS, supported_fields=("think_time_s",))
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
        argv += ["--latency"] if _has_user_script(workload) else ["--latency", "-s", SCRIPT_NAME]
        for name, value in plan.request_headers(workload).items():
            argv += ["-H", f"{name}: {value}"]
        return [*argv, *workload.extra, plan.target_url(target, workload.path)]

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return the Lua script that prints results exactly, once the run is over; none beside a script of the user."""
        if _has_user_script(workload):
            return {}
        script = (resources.files(__package__) / "wrk.lua").read_bytes()
        return {SCRIPT_NAME: script + (DELAY_FUNCTION % _think_ms(workload) if workload.think_time_s else b"")}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return nothing: wrk writes no files."""
        return ()

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report: from the Lua block where there is one, checked against the human text."""
        lines = text.clean_lines(output.stdout)
        text.require_report(self.name, output, lines, "Running ", "Transfer/sec:")
        if wrk_forms.is_wrk2(lines):
            raise ParseError(self.name, "stdout", 0, "no report of wrk but one of wrk2, another tool")
        report = text.read_report(self.name, lines, LINE_PATTERNS)
        exact = _read_exact_block(lines, SCRIPT_NAME in output.argv)
        _check_report(report, output.argv)
        if exact is not None:
            _check_exact_block(report, exact)
        return ParsedReport(tuple(_rows(report, exact)), doubts=tuple(_doubts(report, output)))


TOOL = Wrk()


def _has_user_script(workload: Workload) -> bool:
    """Tell whether `extra` names a script: wrk runs one only, so that ours, and what it prints, is left out."""
    return any(word.startswith(("-s", "--s")) for word in workload.extra)


def _check_think_time(workload: Workload) -> None:
    """Raise ToolError unless our script can make the think time."""
    if _has_user_script(workload):
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


def _read_exact_block(lines: Sequence[str], is_expected: bool) -> TextReport | None:
    """Return what our Lua script printed; None where it was not used."""
    if not is_expected and BLOCK_BEGIN not in lines and BLOCK_END not in lines:
        return None
    first = lines.index(BLOCK_BEGIN) if BLOCK_BEGIN in lines else len(lines)
    return text.read_report("wrk", lines[first:], EXACT_PATTERNS, first=first + 1)


def _check_report(report: TextReport, argv: Sequence[str]) -> None:
    """Raise ParseError where the report contradicts itself (formats.md 6.5)."""
    present = [line_name in report for line_name in ("percentiles", "p50", "p75", "p90", "p99")]
    if any(present) != all(present) or (not present[0] and "--latency" in argv):
        raise report.error_at("latency", "the latency distribution is not complete")
    wrk_forms.check_totals(report)
    if has_latency(report):
        order = [mean_latency_s(report), report.value("max", TIME_UNITS_S)]
        order_p = [report.value(f, TIME_UNITS_S) for f in ("p50", "p75", "p90", "p99", "max") if f in report]
        if order != sorted(order) or order_p != sorted(order_p):
            raise report.error_at("latency", "mean and percentiles do not ascend to the maximum")


def _check_exact_block(report: TextReport, exact: TextReport) -> None:
    """Raise ParseError unless the Lua block says what the human text says, within the text's rounding."""
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
        slack = text.rounding_half_width(report.text(field), table) + 0.51e-6
        if abs(exact.value(field, table) - printed) > slack * (1 + 1e-9):
            raise exact.error_at(field, f"{exact.text(field)} is not the {report.text(field)} of the text above")


def _rows(report: TextReport, exact: TextReport | None) -> Iterator[Measurement]:
    """Yield the measurements; texts are those of the source that the value was read from."""
    most_exact = exact or report
    requests, errors = report.count("requests"), {name: report.count(name) for name in ERROR_FIELDS}
    ok = requests - errors["status"]
    rate = wrk_forms.ok_per_s(report, ok) if exact is None else ok / exact.value("duration", TIME_UNITS_S)
    yield Measurement("requests", "count", requests, "1", report.text("requests"))
    yield Measurement("ok", "count", ok, "1", None)
    yield Measurement("requests_per_s", "value", report.value("rate", COUNT_UNITS), "1/s", report.text("rate"))
    yield Measurement("ok_per_s", "value", rate, "1/s", None)
    yield Measurement("duration", "value", most_exact.value("duration", TIME_UNITS_S), "s", most_exact.text("duration"))
    if not (errors["timeout"] and errors["status"]):  # a late error response is counted in both
        yield Measurement("errors", "count", sum(errors.values()), "1", None)
    for name, n in errors.items():
        yield Measurement(f"errors_{name}", "count", n, "1", report.text(name) if name in report else None)
    yield Measurement("bytes_read", "count", most_exact.value("bytes", BYTE_UNITS), "B", most_exact.text("bytes"))
    yield Measurement("bytes_per_s", "value", report.value("transfer", BYTE_UNITS), "B/s", report.text("transfer"))
    if has_latency(report):
        for field, statistic in STATISTICS.items():
            value = mean_latency_s(most_exact) if field == "mean" else most_exact.optional_value(field, TIME_UNITS_S) if field in most_exact else None
            if value is not None:
                yield Measurement("latency", statistic, value, "s", most_exact.text(field))


def _doubts(report: TextReport, output: ToolOutput) -> Iterator[tuple[str, str]]:
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
    all_lines = text.clean_lines(output.stderr[:10_000]) + text.clean_lines(output.stdout[:10_000])  # over a pty, both are one
    if script_error := next((line for line in all_lines if SCRIPT_ERROR.match(line)), None):
        yield "script", f"wrk ran without its script, or without a part of it: {script_error[:200]}"
    yield from wrk_forms.run_doubts(report, output.exit_code)
