"""Samples of a kernel's counters -> rows: rates of what is counted, levels as they are.

The counters and their meaning are those of proc(5). Rates belong to the interval that ends at their time; over gaps,
and counters that went back there is no row, but a problem: nothing is interpolated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from loadbook.traces.base import GAP, Problem, Row, Traces, row

# CPU time as in /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal
CPU_PARTS = 8


class Process(NamedTuple):
    """CPU time used (ticks and parts of them), resident pages, and the start time that tells a reused id."""

    ticks: float
    pages: int
    born: int


@dataclass
class Sample:
    """One whole sample: counters by item. `t` is epoch seconds by the host's clock; memory in bytes.

    `memory` has MemTotal and MemAvailable where they are known, `levels` the metrics that are taken as they are.
    """

    t: float
    cpus: dict[str, Sequence[float]] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    net: dict[str, tuple[float, float]] = field(default_factory=dict)
    levels: dict[str, float] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)


class Scale(NamedTuple):
    """Seconds between samples as asked for, ticks per second, bytes per page."""

    interval_s: float
    hz: float = 100.0
    page: float = 4096.0


def traces_of(samples: Sequence[Sample], scale: Scale, problems: list[Problem]) -> Traces:
    """Turn samples, in order of time, into rows."""
    rows: list[Row] = []
    for before, now in zip([None, *samples], samples, strict=False):
        rows += _levels(now, scale)
        if before is not None:
            rows += _rates(before, now, scale, problems)
    if len(samples) < 2:
        problems.append(Problem("too_few_samples", f"{len(samples)} whole samples"))
    return Traces(rows, [s.t for s in samples], scale.interval_s, problems)


def _levels(now: Sample, scale: Scale) -> Iterator[Row]:
    for metric, value in now.levels.items():
        yield row(now.t, metric, "all", value)
    total, free = now.memory.get("MemTotal"), now.memory.get("MemAvailable")
    if total is not None and free is not None:
        yield row(now.t, "memory_used", "all", total - free)
        yield row(now.t, "memory_total", "all", total)
    for item, process in now.processes.items():
        yield row(now.t, "process_rss", item, process.pages * scale.page)


def _rates(before: Sample, now: Sample, scale: Scale, problems: list[Problem]) -> list[Row]:
    passed = now.t - before.t
    if passed > GAP * scale.interval_s:
        asked = f"{scale.interval_s:g} s were asked for"
        problems.append(Problem("gap", f"{passed:.2f} s without a sample, {asked}", now.t))
        return []
    rows = []
    for item, counters in now.cpus.items():
        rows += _cpu_rows(now.t, item, before.cpus.get(item), counters, problems)
    for item, (rx, tx) in now.net.items():
        old = before.net.get(item, (rx, tx))
        if rx < old[0] or tx < old[1]:
            problems.append(Problem("counter_went_back", f"bytes of interface {item}", now.t))
        elif item in before.net and rx + tx > 0:  # an interface that never carried a byte is no trace
            rows.append(row(now.t, "net_rx", item, (rx - old[0]) / passed))
            rows.append(row(now.t, "net_tx", item, (tx - old[1]) / passed))
    return rows + _process_rows(before, now, scale, problems)


def _cpu_rows(
    t: float, item: str, before: Sequence[float] | None, now: Sequence[float], problems: list[Problem]
) -> list[Row]:
    if before is None or len(now) != CPU_PARTS or len(before) != CPU_PARTS:
        return []
    user, nice, system, idle, iowait, irq, softirq, steal = (b - a for a, b in zip(before, now, strict=True))
    idle, iowait = max(0, idle), max(0, iowait)  # proc(5): these two may decrease
    if min(user, nice, system, irq, softirq, steal) < 0:
        problems.append(Problem("counter_went_back", f"time of {item}", t))
        return []
    return cpu_shares(t, item, user + nice, system + irq + softirq, idle, iowait, steal)


def cpu_shares(t: float, item: str, user: float, system: float, idle: float, iowait: float, steal: float) -> list[Row]:
    """Return the rows of one CPU from the time that it spent in an interval, in any one unit."""
    busy = user + system + steal
    parts = {"cpu_user": user, "cpu_system": system, "cpu_iowait": iowait, "cpu_steal": steal, "cpu_busy": busy}
    total = busy + idle + iowait
    return [row(t, metric, item, part / total) for metric, part in parts.items()] if total else []


def _process_rows(before: Sample, now: Sample, scale: Scale, problems: list[Problem]) -> list[Row]:
    rows = []
    for item, old in before.processes.items():
        new = now.processes.get(item)
        if new is None or new.born != old.born:
            problems.append(Problem("process_gone", f"{item} has ended", before.t))
        elif new.ticks < old.ticks:
            problems.append(Problem("counter_went_back", f"CPU time of {item}", now.t))
        else:
            used = (new.ticks - old.ticks) / scale.hz / (now.t - before.t)
            rows.append(row(now.t, "process_cpu", item, used))
    return rows
