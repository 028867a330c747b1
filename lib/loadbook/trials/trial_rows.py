"""One recorded trial -> rows of measurements, samples and traces, and what was wrong. Pure but for reading its files.

A file that no longer matches its sha256 is not read; an output that cannot be parsed gives a problem and no number.
`read_load_rows` reads what the load generator left, `read_trial_rows` also what was seen of the hosts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadbook.core.errors import ParseError
from loadbook.core.gates import rule_advice
from loadbook.records.manifest import DriverRecord, MonitorRecord, PolledRecord, TrialRecord, changed_files
from loadbook.records.spans import window_fields
from loadbook.tools import registry
from loadbook.tools.base import ToolOutput, Measurement, ParsedReport
from loadbook.tools.text import clean_lines, find_port_exhaustion
from loadbook.traces import kinds, sampler
from loadbook.traces.base import Problem, Traces
from loadbook.trials.counted import counter_rows
from loadbook.trials.outputs import STDOUT, read_small_files, read_bytes
from loadbook.trials.totals import unmerged_times, driver_totals

Row = dict[str, Any]
ALL_DRIVERS = "*"
READABLE = ("ok", "partial", "invalid")
POINT = ("metric", "item", "value", "unit")
TIME_DIGITS = 4
# hosts without fractions in date tell a process's times to the second
SPAN_SLACK_S = 1.0
STDERR_TAIL_BYTES = 10_000


@dataclass
class TrialRows:
    """What one trial contributes to the tables, without the columns study, run and trial."""

    record: TrialRecord
    measurements: list[Row] = field(default_factory=list)
    samples: list[Row] = field(default_factory=list)
    traces: list[Row] = field(default_factory=list)
    problems: list[Row] = field(default_factory=list)
    doubts: list[tuple[str, str]] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)

    def add_problem(
        self,
        name: str,
        message: str,
        *,
        level: str = "invalid",
        host: str | None = None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        """Note one problem of this trial."""
        row = {"host": host, "file": file, "line": line, "name": name, "level": level, "message": message}
        self.problems.append(row)


def read_trial_rows(folder: Path, record: TrialRecord) -> TrialRows:
    """Read one trial's folder; see TrialRows."""
    changed = changed_files(folder, record)
    if record.status in READABLE:
        rows = read_load_rows(folder, record, changed)
        _add_host_metrics(rows, folder, changed)
        _add_service_counters(rows)
    else:
        rows = TrialRows(record)
    for name in changed:
        rows.add_problem("changed-file", f"{name} is missing or no longer matches its sha256; it was not used", file=name)
    return rows


def read_load_rows(folder: Path, record: TrialRecord, changed: Sequence[str] = ()) -> TrialRows:
    """Read what the load generators of a trial left in its folder, but for `changed` files."""
    rows = TrialRows(record)
    parsed = {d.host: p for d in record.drivers if (p := _parse_driver_output(folder, d, changed, rows)) is not None}
    if len(parsed) == len(record.drivers):
        rows.record = _with_request_times(record, parsed)
        _add_measurements(rows, parsed)
    return rows


def _parse_driver_output(folder: Path, driver: DriverRecord, changed: Sequence[str], rows: TrialRows) -> ParsedReport | None:
    if {driver.stdout, driver.stderr, *driver.files.values()} & set(changed):
        return None
    names = {STDOUT: driver.stdout, **dict(sorted(driver.files.items()))}
    files, big = read_small_files({name: folder / kept_name for name, kept_name in names.items()})
    captured = ToolOutput(
        stdout=files.pop(STDOUT, b""),
        stderr=read_bytes(folder / driver.stderr),
        exit_code=driver.rc,
        argv=tuple(driver.argv),
        files=files,
        paths=big,
    )
    try:
        parsed = registry.parse_output(registry.load_tool(rows.record.tool), captured)
    except ParseError as error:
        file = driver.files.get(error.file, driver.stdout)
        if line := find_port_exhaustion(clean_lines(captured.stderr[-STDERR_TAIL_BYTES:])):  # ab then gives up without a report
            message = f"the driver ran out of local ports: {line}" + rule_advice("ports_exhausted")
            rows.add_problem("ports_exhausted", message, host=driver.host, file=driver.stderr)
        else:
            rows.add_problem("unreadable-output", error.message, host=driver.host, file=file, line=error.line or None)
        return None
    rows.rejected.update(parsed.rejected)
    prefix = f"host {driver.host}: " if len(rows.record.drivers) > 1 else ""
    rows.doubts += [(name, prefix + message) for name, message in parsed.doubts]
    return parsed


def _with_request_times(record: TrialRecord, parsed: dict[str, ParsedReport]) -> TrialRecord:
    """Return the record with the times of the requests where a tool tells them, for those of its process."""
    drivers = [_with_request_span(driver, parsed[driver.host].span) for driver in record.drivers]
    changed = {"drivers": drivers, **window_fields(drivers, record.clocks)}
    return record if drivers == record.drivers else record.model_copy(update=changed)


def _with_request_span(driver: DriverRecord, span: tuple[float, float] | None) -> DriverRecord:
    """Return the driver's record with a span that lies within its process's life; others are of another clock."""
    if span is None or driver.started_host is None or driver.ended_host is None:
        return driver
    if not driver.started_host - SPAN_SLACK_S <= span[0] < span[1] <= driver.ended_host + SPAN_SLACK_S:
        return driver
    return driver.model_copy(update={"started_host": span[0], "ended_host": span[1]})


def _add_measurements(rows: TrialRows, parsed: dict[str, ParsedReport]) -> None:
    per_driver = [(driver, m) for driver, p in parsed.items() for m in p.measurements]
    reports, skew_s = list(parsed.values()), rows.record.start_skew_s
    totals = [(ALL_DRIVERS, m) for m in driver_totals(reports)]
    if skew_s is not None:
        totals.append((ALL_DRIVERS, Measurement("start_skew", "value", skew_s, "s", None)))
    rows.measurements = [{"driver": driver, **m._asdict()} for driver, m in per_driver + totals]
    rows.samples = [{"driver": driver, **s._asdict()} for driver, p in parsed.items() for s in p.samples]
    if names := ", ".join(unmerged_times(reports)):
        rows.add_problem("per-driver", f"{names}: each driver's own; those of several cannot be put together", level="note")


def _add_host_metrics(rows: TrialRows, folder: Path, changed: Iterable[str]) -> None:
    """Place every host's samples by our clock, 0 being the start of the measurement."""
    record = rows.record
    if record.window is None:
        return
    for monitor in record.monitors:
        if monitor.file not in changed:
            clock = record.clocks.get(monitor.host)
            opened = record.window[0] + (clock.offset_before_s if clock else 0.0)
            parsed = sampler.parse_sampler((folder / monitor.file).read_bytes())
            # the load generator is meant to end before its monitor does
            problems = [
                p for p in parsed.problems if not (p.name == "process_gone" and p.message.startswith(f"{record.tool}:"))
            ]
            _add_host_metric_source(rows, parsed, opened, monitor, "sampler", problems)
    for polled in record.polled:
        if polled.file not in changed:
            parsed = kinds.read_traces(polled.source, {polled.file: (folder / polled.file).read_bytes()})
            early = [Problem("monitor_ended", polled.problem)] if polled.problem else []
            _add_host_metric_source(rows, parsed, record.window[0], polled, polled.source, [*early, *parsed.problems])


def _add_host_metric_source(
    rows: TrialRows, parsed: Traces, opened: float, monitor: MonitorRecord | PolledRecord, source: str,
    problems: Iterable[Problem],
) -> None:  # fmt: skip
    """Add a source's samples and what was wrong; `opened` is the window's start by the clock of its times."""
    keys = {"host": monitor.host, "role": monitor.role, "source": source}
    for point in parsed.rows:
        t_s = round(float(point["t"]) - opened, TIME_DIGITS)
        rows.traces.append(keys | {"t_s": t_s} | {name: point[name] for name in POINT})
    for problem in problems:
        rows.add_problem(problem.name, problem.message, level="note", host=monitor.host, file=monitor.file)


def _add_service_counters(rows: TrialRows) -> None:
    """Put what services counted beside the samples."""
    counters, resets = counter_rows(rows.record)
    rows.traces += counters
    for counter_reset in resets:
        rows.add_problem("served-less", counter_reset.message, level="doubt", host=counter_reset.host)
