"""Rows of one arm of an interleaved block, corrected for the time in which its load generator was stopped.

A generator divides by its wall-clock time and counts a request during which it was stopped as slow. Therefore rates are
divided by active seconds, and statistics of times that stops would change are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from loadbook.core.errors import DataError
from loadbook.host_metrics.base import TraceRow
from loadbook.ingestion.captured import read_bytes
from loadbook.ingestion.trial_rows import TrialRows
from loadbook.modes.interleaved.spec import PAUSABLE_TOOLS
from loadbook.modes.plain.read import PlainRead
from loadbook.store.trial_record import PIECE_SERIES, SLICE_SERIES, DriverRecord, TrialRecord
from loadbook.tools.base import Measurement, ParsedReport, Sample

RATE_UNITS = ("1/s", "B/s")
# load generators whose percentiles contain every request once, as it was measured. wrk adds samples for each pause
# (`stats_correct`), which moves even its median (benchmarks/paused_latency.py)
TOOLS_WITH_INTACT_PERCENTILES = PAUSABLE_TOOLS - {"wrk"}
# multiplied by the share of interrupted requests: percentiles closer to the top are left out
CUT_FACTOR = 3
OTHER_ARMS = "other treatments:0"
LATE_FACTOR = 1.5  # times the planned length; a longer slice is late


@dataclass
class Slice:
    """One slice, seconds by the driver's monotonic clock; None: not known, as in runs of earlier versions.

    `received_bytes` are those of the driver in the slice and the gap after it. CPU seconds: of the generator in the
    slice; of the arm's services in the slice and the gap; of the arm's services since the gap of its previous slice.
    `waited_s` is the time for which threads of generator and services could run and got no CPU, summed over threads.
    `pieces` are the parts of a long slice, without `outside_cpu_s` and `waited_s`; empty for a shorter one.
    """

    arm: int
    start_s: float
    end_s: float
    received_bytes: float | None = None
    generator_cpu_s: float | None = None
    service_cpu_s: float | None = None
    outside_cpu_s: float | None = None
    waited_s: float | None = None
    pieces: list[Slice] = field(default_factory=list)

    @property
    def length_s(self) -> float:
        """Return the length of the slice in seconds."""
        return self.end_s - self.start_s


@dataclass
class SliceLog:
    """Output of `interleave.pl`: slices in order, exit codes by arm, and arms whose generator did not end (`hung`).

    `clock_offset_s` is wall-clock minus monotonic time (s).
    `rest_cpu_s`: arm -> CPU seconds of its services after its last slice; arms whose services' times are not known are
    not in it.
    """

    slices: list[Slice] = field(default_factory=list)
    exit_codes: dict[int, int] = field(default_factory=dict)
    hung: set[int] = field(default_factory=set)
    clock_offset_s: float = 0.0
    rest_cpu_s: dict[int, float] = field(default_factory=dict)

    def slices_of(self, arm: int) -> list[Slice]:
        """Return the slices of an arm, in order."""
        return [turn for turn in self.slices if turn.arm == arm]

    def active_s(self, arm: int) -> float:
        """Return the seconds in which an arm's generator ran."""
        return sum(turn.length_s for turn in self.slices_of(arm))

    def outside_cpu_s(self, arm: int) -> float | None:
        """Return the CPU seconds of an arm's services outside its slices and gaps; None if not known."""
        times = [turn.outside_cpu_s for turn in self.slices_of(arm)] + [self.rest_cpu_s.get(arm)]
        known = [cpu_s for cpu_s in times if cpu_s is not None]
        return round(sum(known), 6) if len(known) == len(times) else None

    def late_share(self, arm: int, slice_s: float) -> float | None:
        """Return the share of an arm's slices, except first and last, that were longer than 1.5 x `slice_s`.

        `slice_s` is the planned length of a slice. None if there are only the first and the last.
        """
        regular = self.slices_of(arm)[1:-1]
        late = sum(turn.length_s > LATE_FACTOR * slice_s for turn in regular)
        return round(late / len(regular), 4) if regular else None


def read_slices(text: str) -> SliceLog:
    """Return the parsed output of `interleave.pl`; ValueError or LookupError for any other text."""
    slice_log, pieces, last_of_arm = SliceLog(), list[Slice](), dict[int, Slice]()
    for line in text.splitlines():
        kind, *words = line.split()
        if kind == "clock":
            slice_log.clock_offset_s = float(words[1]) - float(words[0])
        elif kind == "slice":
            turn = _with_pieces(_read_slice(words), pieces)
            last_of_arm[turn.arm], pieces = turn, []
            slice_log.slices.append(turn)
        elif kind == "piece":
            pieces.append(_read_slice([*words, "-"]))
        elif kind == "waited":
            last_of_arm[int(words[0])].waited_s = max(0.0, float(words[1]) / 1e9)
        elif kind == "rest":
            if words[1] != "-":
                slice_log.rest_cpu_s[int(words[0])] = float(words[1]) / 1e9
        elif kind == "exit":
            slice_log.exit_codes[int(words[0])] = int(words[1])
        elif kind == "hung":
            slice_log.hung.add(int(words[0]))
        elif kind != "arm":
            raise ValueError(f"unexpected line {line[:60]!r}")
    return slice_log


def _read_slice(words: Sequence[str]) -> Slice:
    """Return a slice from its numbers, of which earlier versions recorded only arm, start and end."""
    arm, start_s, end_s = words[:3]
    if len(words) == 3:
        return Slice(int(arm), float(start_s), float(end_s))
    received, *cpu_ns = (None if word == "-" else float(word) for word in words[3:])
    generator_s, service_s, outside_s = (None if ns is None else ns / 1e9 for ns in cpu_ns)
    return Slice(int(arm), float(start_s), float(end_s), received, generator_s, service_s, outside_s)


def _with_pieces(turn: Slice, pieces: list[Slice]) -> Slice:
    """Return a slice with its pieces, the last one added: the rest of the slice."""
    if pieces:
        rest = Slice(
            turn.arm,
            pieces[-1].end_s,
            turn.end_s,
            _remainder(turn.received_bytes, [piece.received_bytes for piece in pieces]),
            _remainder(turn.generator_cpu_s, [piece.generator_cpu_s for piece in pieces]),
            _remainder(turn.service_cpu_s, [piece.service_cpu_s for piece in pieces]),
        )
        turn.pieces = [*pieces, rest]
    return turn


def _remainder(total: float | None, parts: Sequence[float | None]) -> float | None:
    """Return a total without its parts, at least 0; None if one of them is not known."""
    known = [part for part in parts if part is not None]
    return None if total is None or len(known) < len(parts) else max(0.0, total - sum(known))


def apart_share(spans_of_drivers: Sequence[Sequence[tuple[float, float]]]) -> float | None:
    """Return the share of the time in which some but not all drivers had a slice; None if there are no slices.

    Each driver's slices are (start, end) by one clock, in seconds.
    """
    steps = [(at, step) for spans in spans_of_drivers for span in spans for at, step in zip(span, (1, -1), strict=True)]
    some_s = all_s = before = 0.0
    at_work = 0
    for at, step in sorted(steps):
        some_s += at - before if at_work else 0.0
        all_s += at - before if at_work == len(spans_of_drivers) else 0.0
        at_work, before = at_work + step, at
    return round(1 - all_s / some_s, 6) if some_s else None


def slice_samples(slice_log: SliceLog, arm: int) -> list[Sample]:
    """Return what is known of each slice of an arm: length (s), bytes received per second, CPUs in use and awaited.

    x is the start of the slice in seconds since the first slice of the block, so that it tells what ran before. Pieces
    of long slices are a series of their own.
    """
    samples: list[Sample] = []
    for turn in slice_log.slices_of(arm):
        for series, part in [(SLICE_SERIES, turn), *((PIECE_SERIES, piece) for piece in turn.pieces)]:
            start_s = round(part.start_s - slice_log.slices[0].start_s, 6)
            values = {
                ("slice", "s"): part.length_s,
                ("received_per_s", "B/s"): _per_second(part.received_bytes, part.length_s),
                ("generator_cpu", "1"): _per_second(part.generator_cpu_s, part.length_s),
                ("service_cpu", "1"): _per_second(part.service_cpu_s, part.length_s),
                ("waiting", "1"): _per_second(turn.waited_s, turn.length_s),
            }
            samples += [
                Sample(series, metric, start_s, "s", value, unit)
                for (metric, unit), value in values.items()
                if value is not None
            ]
    return samples


def _per_second(value: float | None, length_s: float) -> float | None:
    return None if value is None or length_s <= 0 else value / length_s


def active_report(
    report: ParsedReport, record: TrialRecord, slice_log: SliceLog, driver: DriverRecord | None = None
) -> ParsedReport:
    """Return a driver's report with rates per active second, without the statistics that interruptions change.

    Each slice interrupts at most one request per connection. The samples are those of the arm's slices; of several
    drivers, which alternate by one schedule, those of the first. Without a `driver`, the trial has only one. If the
    trial is not interleaved, or its time or number of requests is not known, the report is returned unchanged.
    """
    interleaved = record.interleaved
    values = {(m.metric, m.statistic): m.value for m in report.measurements}
    tool_s, requests = values.get(("duration", "value")), values.get(("requests", "count"))
    active_s = (driver and driver.active_s) or (interleaved and interleaved.active_s)
    if interleaved is None or not active_s or not tool_s or not requests:
        return report
    own_slices, connections = len(slice_log.slices_of(interleaved.arm)), int(record.workload.get("connections") or 1)
    cut_share = own_slices * math.ceil(connections / max(1, len(record.drivers))) / requests
    highest = 1 - CUT_FACTOR * cut_share if record.tool in TOOLS_WITH_INTACT_PERCENTILES else 0.0
    kept = (_active_measurement(m, tool_s, active_s, highest) for m in report.measurements)
    samples = tuple(slice_samples(slice_log, interleaved.arm)) if driver in (None, *record.drivers[:1]) else ()
    measurements = tuple(m for m in kept if m)
    return replace(report, measurements=measurements, samples=samples, times_us={}, bucketed={}, span=None)


def _active_measurement(m: Measurement, tool_s: float, active_s: float, highest: float) -> Measurement | None:
    if m.metric == "duration":
        return m._replace(value=active_s, text=None, step=None)
    if m.unit in RATE_UNITS and m.metric != "offered_per_s":
        return m._replace(value=m.value * tool_s / active_s, text=None, step=None)
    if m.unit != "s":
        return m
    is_intact = m.statistic.startswith("p") and float(m.statistic[1:]) / 100 <= highest
    return m if is_intact else None


def own_processes(points: Sequence[TraceRow], of_arm: int) -> list[dict[str, Any]]:
    """Return trace rows of one arm from a block's sampler: its own processes, and those of other arms as one item.

    `points` have the keys t, metric, item, value, unit. The items of processes are ``<label>.<arm>:<pid>`` in them,
    and ``<label>:<pid>`` in the result.
    """
    rows: list[dict[str, Any]] = []
    others: dict[tuple[float, str], float] = {}
    for point in points:
        label, _, pid = str(point["item"]).rpartition(":")
        name, _, arm = label.rpartition(".")
        if not str(point["metric"]).startswith("process_") or not arm.isdigit():
            rows.append(dict(point))
        elif int(arm) == of_arm:
            rows.append(dict(point) | {"item": f"{name}:{pid}"})
        else:
            key = float(point["t"]), str(point["metric"])
            others[key] = others.get(key, 0.0) + float(point["value"])
    units = {str(point["metric"]): point["unit"] for point in points}
    rows += [
        {"t": t, "metric": metric, "item": OTHER_ARMS, "value": value, "unit": units[metric]}
        for (t, metric), value in others.items()
    ]
    return rows


class InterleavedRead(PlainRead):
    """What is read of a trial of an interleaved block."""

    def own_reports(
        self, rows: TrialRows, folder: Path, changed: Sequence[str], parsed: Mapping[str, ParsedReport]
    ) -> dict[str, ParsedReport]:
        """Return the reports with rates per active second, and the samples of the arm's slices."""
        record, reports = rows.record, dict(parsed)
        assert record.interleaved is not None
        for driver in [one for one in record.drivers if one.host in parsed]:
            slice_log = _read_slice_file(folder, driver.slices or record.interleaved.slices, changed, rows)
            reports[driver.host] = active_report(parsed[driver.host], record, slice_log, driver)
        return reports

    def own_samples(self, record: TrialRecord, points: Sequence[TraceRow]) -> Sequence[Mapping[str, Any]]:
        """Return the arm's own processes, and those of other arms as one item."""
        assert record.interleaved is not None
        return own_processes(points, record.interleaved.arm)


def _read_slice_file(folder: Path, name: str, changed: Sequence[str], rows: TrialRows) -> SliceLog:
    """Return the slices of an interleaved block in a file; empty for a damaged one."""
    if name in changed:
        return SliceLog()
    try:
        return read_slices(read_bytes(folder / name).decode(errors="replace"))
    except (ValueError, LookupError, DataError) as error:
        rows.add_problem("unreadable-output", f"slices: {error}", file=name)
        return SliceLog()


FACET = InterleavedRead()
