"""Rows of one recorded trial (measurements, samples, traces, counters) and problems found in its files.

`READERS` lists what is read, in order. A file that no longer matches its sha256 is not read; an output that cannot be
parsed gives a problem and no number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from loadbook.core.errors import ParseError
from loadbook.core.validity_rules import rule_advice
from loadbook.host_metrics import read_traces, sampler
from loadbook.host_metrics.base import Problem, Traces
from loadbook.ingestion.captured import STDOUT, read_output
from loadbook.ingestion.driver_totals import cpu_measurements, driver_totals, merged_times, unmerged_times
from loadbook.ingestion.host_metrics import TIME_DIGITS, Row, trace_row
from loadbook.modes.plain.read import read_of
from loadbook.store.trial_record import (
    DriverRecord,
    MonitorRecord,
    PolledRecord,
    TrialRecord,
    changed_files,
    window_fields,
)
from loadbook.tools import base
from loadbook.tools.base import Measurement, ParsedReport
from loadbook.tools.line_patterns import clean_lines, find_port_exhaustion

SOURCE = "service"
ALL_DRIVERS = "*"
VALIDITY_SOURCES = ("sampler", SOURCE)  # of traces that validity rules use
READABLE = ("ok", "partial", "invalid")
# hosts whose `date` has no fractions of seconds record process times in whole seconds
SPAN_SLACK_S = 1.0
STDERR_TAIL_BYTES = 10_000


@dataclass
class TrialRows:
    """Rows of one trial for the tables, without the columns study, run and trial.

    `changed` names the files that were not read because they no longer match their sha256. With `with_times`,
    `times_us` maps metric -> time of a single request (us) -> count, over all drivers. `doubts` has (name, message)
    of what the tool's outputs show, `rejected` the numbers of unreadable rows of request logs by the name of the
    doubt.
    """

    record: TrialRecord
    measurements: list[Row] = field(default_factory=list)
    samples: list[Row] = field(default_factory=list)
    traces: list[Row] = field(default_factory=list)
    problems: list[Row] = field(default_factory=list)
    doubts: list[tuple[str, str]] = field(default_factory=list)
    changed: Sequence[str] = ()
    with_times: bool = False
    times_us: Mapping[str, Counter[int]] = field(default_factory=dict)
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
        """Add a row to the problems of this trial; `level` is "invalid", "doubt" or "note", `line` counts from 1."""
        row = {"host": host, "file": file, "line": line, "name": name, "level": level, "message": message}
        self.problems.append(row)


def read_load_rows(
    folder: Path, record: TrialRecord, changed: Sequence[str] = (), *, with_times: bool = False
) -> TrialRows:
    """Return the rows from the outputs of a trial's load generators; `changed` names files that are not read.

    If the output of any driver cannot be read, there are no measurements. `with_times` adds the times of single
    requests.
    """
    rows = TrialRows(record, changed=changed, with_times=with_times)
    _read_loads(rows, folder)
    return rows


def _read_loads(rows: TrialRows, folder: Path) -> None:
    """Add the measurements, samples and doubts of all load generators; nothing if one of them cannot be read."""
    record = rows.record
    parsed = {d.host: report for d in record.drivers if (report := _parse_driver_output(folder, d, rows)) is not None}
    parsed = read_of(record).own_reports(rows, folder, rows.changed, parsed)
    if len(parsed) == len(record.drivers):
        rows.record = _with_request_times(record, parsed)
        rows.times_us = merged_times(list(parsed.values())) if rows.with_times else {}
        _add_measurements(rows, parsed)


def _parse_driver_output(folder: Path, driver: DriverRecord, rows: TrialRows) -> ParsedReport | None:
    if {driver.stdout, driver.stderr, *driver.files.values()} & set(rows.changed):
        return None
    names = {STDOUT: driver.stdout, **dict(sorted(driver.files.items()))}
    files = {name: folder / local_name for name, local_name in names.items()}
    captured = read_output(files, folder / driver.stderr, driver.rc, driver.argv)
    try:
        parsed = base.parse_output(base.load_tool(rows.record.tool), captured)
    except ParseError as error:
        file = driver.files.get(error.file, driver.stdout)
        # ab then gives up without a report
        if line := find_port_exhaustion(clean_lines(captured.stderr[-STDERR_TAIL_BYTES:])):
            message = f"the driver ran out of local ports: {line}" + rule_advice("ports_exhausted")
            rows.add_problem("ports_exhausted", message, host=driver.host, file=driver.stderr)
        else:
            rows.add_problem("unreadable-output", error.message, host=driver.host, file=file, line=error.line or None)
        return None
    rows.rejected.update(parsed.rejected)
    prefix = f"host {driver.host}: " if len(rows.record.drivers) > 1 else ""
    expected = {"redirects"} if rows.record.workload.get("expect_status", 200) // 100 == 3 else set()
    rows.doubts += [(name, prefix + message) for name, message in parsed.doubts if name not in expected]
    return parsed


def _with_request_times(record: TrialRecord, parsed: dict[str, ParsedReport]) -> TrialRecord:
    """Return the record with start and end from the request log, if the tool writes one."""
    drivers = [_with_request_span(driver, parsed[driver.host].span) for driver in record.drivers]
    changed = {"drivers": drivers, **window_fields(drivers, record.clocks)}
    return record if drivers == record.drivers else record.model_copy(update=changed)


def _with_request_span(driver: DriverRecord, span: tuple[float, float] | None) -> DriverRecord:
    """Return a driver's record with the given span if it lies within the process's life; else its clock is another."""
    if span is None or driver.started_host is None or driver.ended_host is None:
        return driver
    if not driver.started_host - SPAN_SLACK_S <= span[0] < span[1] <= driver.ended_host + SPAN_SLACK_S:
        return driver
    return driver.model_copy(update={"started_host": span[0], "ended_host": span[1]})


def _add_measurements(rows: TrialRows, parsed: dict[str, ParsedReport]) -> None:
    per_driver = [(driver, m) for driver, p in parsed.items() for m in p.measurements]
    reports, skew_s = list(parsed.values()), rows.record.start_skew_s
    of_reports = driver_totals(reports)
    totals = [(ALL_DRIVERS, m) for m in of_reports]
    totals += [(ALL_DRIVERS, m) for m in cpu_measurements(rows.record, [m for _, m in totals])]
    if skew_s is not None:
        totals.append((ALL_DRIVERS, Measurement("start_skew", "value", skew_s, "s", None)))
    rows.measurements = [{"driver": driver, **m.as_row()} for driver, m in per_driver + totals]
    rows.samples = [{"driver": driver, **s._asdict()} for driver, p in parsed.items() for s in p.samples]
    if names := ", ".join(unmerged_times(reports, of_reports)):
        message = f"{names}: each driver's own; those of several cannot be put together"
        rows.add_problem("per-driver", message, level="note")


def _read_samplers(rows: TrialRows, folder: Path) -> None:
    """Add the samples of loadbook's own sampler on all hosts, with times by the controller's clock."""
    record, window = rows.record, rows.record.window
    for monitor in record.monitors:
        if window and monitor.file not in rows.changed:
            clock = record.clocks.get(monitor.host)
            opened = window[0] + (clock.offset_before_s if clock else 0.0)
            traces = sampler.parse_sampler((folder / monitor.file).read_bytes())
            # the load generator normally ends before its monitor
            ended = re.compile(rf"{re.escape(record.tool)}(\.\d+)?:")
            problems = [p for p in traces.problems if not (p.name == "process_gone" and ended.match(p.message))]
            _add_samples(rows, replace(traces, problems=problems), opened, monitor, "sampler")


def _read_polled(rows: TrialRows, folder: Path) -> None:
    """Add the samples of monitors that were polled during the trial (munin, node_exporter)."""
    window = rows.record.window
    for polled in rows.record.polled:
        if window and polled.file not in rows.changed:
            traces = read_traces(polled.source, {polled.file: (folder / polled.file).read_bytes()})
            early = [Problem("monitor_ended", polled.problem)] if polled.problem else []
            _add_samples(rows, replace(traces, problems=[*early, *traces.problems]), window[0], polled, polled.source)


def _add_samples(
    rows: TrialRows, traces: Traces, opened: float, monitor: MonitorRecord | PolledRecord, source: str
) -> None:
    """Add a source's samples and problems; `opened` is the window's start by the source's clock."""
    keys = {"host": monitor.host, "role": monitor.role, "source": source}
    for point in read_of(rows.record).own_samples(rows.record, traces.rows):
        rows.traces.append(trace_row(keys, point, float(point["t"]) - opened))
    for problem in traces.problems:
        rows.add_problem(problem.name, problem.message, level="note", host=monitor.host, file=monitor.file)


# counter of a service -> metric; other counters keep their names
METRICS = {"requests": "served_requests", "connections": "accepted_connections"}


def counter_rows(record: TrialRecord) -> tuple[list[Row], list[tuple[str, str]]]:
    """Return two rows of the traces table (before, after) per counter, and (host, message) per decreased counter.

    Only counters that were read before and after the load have rows. A counter decreases if its service restarts or
    another one answers. Times (s) are those of the load's start and end, including warm-up; 0 is the start of the
    measurement window.
    """
    began = [d.started_ours for d in record.drivers if d.started_ours is not None]
    ended = [d.ended_ours for d in record.drivers if d.ended_ours is not None]
    rows: list[Row] = []
    decreased: list[tuple[str, str]] = []
    if record.window is None or not began or not ended:
        return rows, decreased
    times = [round(t - record.window[0], TIME_DIGITS) for t in (min(began), max(ended))]
    for service in record.services:
        keys = {"host": service.host, "role": service.role, "item": service.service, "unit": "1", "source": SOURCE}
        for name in sorted(service.counters_before.keys() & service.counters_after.keys()):
            before, after = service.counters_before[name], service.counters_after[name]
            if after < before:
                text = f"role {service.role}: {service.service} counted {before:.0f} {name}, then {after:.0f}"
                decreased.append((service.host, text))
                continue
            for t_s, value in zip(times, (before, after), strict=True):
                rows.append(keys | {"t_s": t_s, "metric": METRICS.get(name, name), "value": float(value)})
    return rows, decreased


def _read_counters(rows: TrialRows, folder: Path) -> None:
    """Add what services counted during the load, from the record of the trial."""
    counters, decreased = counter_rows(rows.record)
    rows.traces += counters
    for host, message in decreased:
        rows.add_problem("served-less", message, level="doubt", host=host)


READERS = (_read_loads, _read_samplers, _read_polled, _read_counters)


def read_trial_rows(folder: Path, record: TrialRecord, *, with_times: bool = False) -> TrialRows:
    """Return the rows of one trial from its folder.

    Unless the trial's status is ok, partial or invalid, only files that changed are reported. `with_times` adds
    the times of single requests.
    """
    rows = TrialRows(record, changed=changed_files(folder, record), with_times=with_times)
    for read in READERS if record.status in READABLE else ():
        read(rows, folder)
    for name in rows.changed:
        message = f"{name} is missing or no longer matches its sha256; it was not used"
        rows.add_problem("changed-file", message, file=name)
    return rows
