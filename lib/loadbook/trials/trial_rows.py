"""One recorded trial -> rows of measurements, samples and traces, and what was wrong. Pure but for reading its files.

A file that no longer matches its sha256 is not read; an output that cannot be parsed gives a problem and no number.
`load_rows` reads what the load generator left, `rows_of` also what was seen of the hosts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadbook.core.errors import ParseError
from loadbook.core.gates import ending
from loadbook.records.manifest import DriverRecord, MonitorRecord, PolledRecord, TrialRecord, changed_files
from loadbook.records.spans import measured
from loadbook.tools import registry
from loadbook.tools.base import Captured, Measurement, Parsed
from loadbook.tools.text import lines, no_ports
from loadbook.traces import kinds, sampler
from loadbook.traces.base import Problem, Traces
from loadbook.trials.counted import counted
from loadbook.trials.outputs import STDOUT, held, read_bytes
from loadbook.trials.totals import apart, total

Row = dict[str, Any]
TOTAL = "*"
READABLE = ("ok", "partial", "invalid")
POINT = ("metric", "item", "value", "unit")
TIME_DIGITS = 4
# hosts without fractions in date tell a process's times to the second
SPAN_SLACK_S = 1.0
SAID_BYTES = 10_000


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

    def problem(
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
        found = {"host": host, "file": file, "line": line, "name": name, "level": level, "message": message}
        self.problems.append(found)


def rows_of(folder: Path, record: TrialRecord) -> TrialRows:
    """Read one trial's folder; see TrialRows."""
    changed = changed_files(folder, record)
    if record.status in READABLE:
        rows = load_rows(folder, record, changed)
        _add_traces(rows, folder, changed)
        _add_counted(rows)
    else:
        rows = TrialRows(record)
    for name in changed:
        rows.problem("changed-file", f"{name} is missing or no longer matches its sha256; it was not used", file=name)
    return rows


def load_rows(folder: Path, record: TrialRecord, changed: Sequence[str] = ()) -> TrialRows:
    """Read what the load generators of a trial left in its folder, but for `changed` files."""
    rows = TrialRows(record)
    parsed = {d.host: p for d in record.drivers if (p := _parse(folder, d, changed, rows)) is not None}
    if len(parsed) == len(record.drivers):
        rows.record = _by_samples(record, parsed)
        _add_measurements(rows, parsed)
    return rows


def _parse(folder: Path, driver: DriverRecord, changed: Sequence[str], rows: TrialRows) -> Parsed | None:
    if {driver.stdout, driver.stderr, *driver.files.values()} & set(changed):
        return None
    names = {STDOUT: driver.stdout, **dict(sorted(driver.files.items()))}
    files, big = held({name: folder / kept for name, kept in names.items()})
    captured = Captured(
        stdout=files.pop(STDOUT, b""),
        stderr=read_bytes(folder / driver.stderr),
        rc=driver.rc,
        argv=tuple(driver.argv),
        files=files,
        paths=big,
    )
    try:
        parsed = registry.parse(registry.load(rows.record.tool), captured)
    except ParseError as error:
        file = driver.files.get(error.file, driver.stdout)
        if line := no_ports(lines(captured.stderr[-SAID_BYTES:])):  # ab then gives up without a report
            said = f"the driver ran out of local ports: {line}" + ending("ports_exhausted")
            rows.problem("ports_exhausted", said, host=driver.host, file=driver.stderr)
        else:
            rows.problem("unreadable-output", error.message, host=driver.host, file=file, line=error.line or None)
        return None
    rows.rejected.update(parsed.rejected)
    whose = f"host {driver.host}: " if len(rows.record.drivers) > 1 else ""
    rows.doubts += [(name, whose + said) for name, said in parsed.doubts]
    return parsed


def _by_samples(record: TrialRecord, parsed: dict[str, Parsed]) -> TrialRecord:
    """Return the record with the times of the requests where a tool tells them, for those of its process."""
    drivers = [_spanned(driver, parsed[driver.host].span) for driver in record.drivers]
    changed = {"drivers": drivers, **measured(drivers, record.clocks)}
    return record if drivers == record.drivers else record.model_copy(update=changed)


def _spanned(driver: DriverRecord, span: tuple[float, float] | None) -> DriverRecord:
    """Return the driver's record with a span that lies within its process's life; others are of another clock."""
    if span is None or driver.started_host is None or driver.ended_host is None:
        return driver
    if not driver.started_host - SPAN_SLACK_S <= span[0] < span[1] <= driver.ended_host + SPAN_SLACK_S:
        return driver
    return driver.model_copy(update={"started_host": span[0], "ended_host": span[1]})


def _add_measurements(rows: TrialRows, parsed: dict[str, Parsed]) -> None:
    per_driver = [(driver, m) for driver, p in parsed.items() for m in p.rows]
    reports, skew_s = list(parsed.values()), rows.record.start_skew_s
    totals = [(TOTAL, m) for m in total(reports)]
    if skew_s is not None:
        totals.append((TOTAL, Measurement("start_skew", "value", skew_s, "s", None)))
    rows.measurements = [{"driver": driver, **m._asdict()} for driver, m in per_driver + totals]
    rows.samples = [{"driver": driver, **s._asdict()} for driver, p in parsed.items() for s in p.samples]
    if names := ", ".join(apart(reports)):
        rows.problem("per-driver", f"{names}: each driver's own; those of several cannot be put together", level="note")


def _add_traces(rows: TrialRows, folder: Path, changed: Iterable[str]) -> None:
    """Place every host's samples by our clock, 0 being the start of the measurement."""
    record = rows.record
    if record.window is None:
        return
    for monitor in record.monitors:
        if monitor.file not in changed:
            clock = record.clocks.get(monitor.host)
            opened = record.window[0] + (clock.offset_before_s if clock else 0.0)
            parsed = sampler.parse((folder / monitor.file).read_bytes())
            # the load generator is meant to end before its monitor does
            said = [
                p for p in parsed.problems if not (p.name == "process_gone" and p.message.startswith(f"{record.tool}:"))
            ]
            _place(rows, parsed, opened, monitor, "sampler", said)
    for polled in record.polled:
        if polled.file not in changed:
            parsed = kinds.read(polled.source, {polled.file: (folder / polled.file).read_bytes()})
            early = [Problem("monitor_ended", polled.problem)] if polled.problem else []
            _place(rows, parsed, record.window[0], polled, polled.source, [*early, *parsed.problems])


def _place(
    rows: TrialRows, parsed: Traces, opened: float, monitor: MonitorRecord | PolledRecord, source: str,
    said: Iterable[Problem],
) -> None:  # fmt: skip
    """Add a source's samples and what was wrong; `opened` is the window's start by the clock of its times."""
    keys = {"host": monitor.host, "role": monitor.role, "source": source}
    for point in parsed.rows:
        t_s = round(float(point["t"]) - opened, TIME_DIGITS)
        rows.traces.append(keys | {"t_s": t_s} | {name: point[name] for name in POINT})
    for problem in said:
        rows.problem(problem.name, problem.message, level="note", host=monitor.host, file=monitor.file)


def _add_counted(rows: TrialRows) -> None:
    """Put what services counted beside the samples."""
    found, back = counted(rows.record)
    rows.traces += found
    for one in back:
        rows.problem("served-less", one.message, level="doubt", host=one.host)
