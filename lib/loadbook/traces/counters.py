"""Samples of a kernel's counters -> rows: rates of what is counted, levels as they are.

The counters and their meaning are those of proc(5). Rates belong to the interval that ends at their time; over gaps,
and counters that went back there is no row, but a problem: nothing is interpolated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from loadbook.traces.base import GAP_FACTOR, Problem, TraceRow, Traces, trace_row

# CPU time as in /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal
CPU_PARTS = 8


class ProcessCounters(NamedTuple):
    """CPU time used (ticks and parts of them), resident pages, and the start time that tells a reused id."""

    ticks: float
    pages: int
    start_ticks: int


@dataclass
class CounterSample:
    """One whole sample: counters by item. `t` is epoch seconds by the host's clock; memory in bytes.

    `memory` has MemTotal and MemAvailable where they are known, `gauges` the metrics that are taken as they are.
    """

    t: float
    cpus: dict[str, Sequence[float]] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    net: dict[str, tuple[float, float]] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    processes: dict[str, ProcessCounters] = field(default_factory=dict)


class SamplingScale(NamedTuple):
    """Seconds between samples as asked for, ticks per second, bytes per page."""

    interval_s: float
    hz: float = 100.0
    page_bytes: float = 4096.0


def counters_to_traces(samples: Sequence[CounterSample], scale: SamplingScale, problems: list[Problem]) -> Traces:
    """Turn samples, in order of time, into rows."""
    rows: list[TraceRow] = []
    for before, now in zip([None, *samples], samples, strict=False):
        rows += _gauge_rows(now, scale)
        if before is not None:
            rows += _rate_rows(before, now, scale, problems)
    if len(samples) < 2:
        problems.append(Problem("too_few_samples", f"{len(samples)} whole samples"))
    return Traces(rows, [s.t for s in samples], scale.interval_s, problems)


def _gauge_rows(now: CounterSample, scale: SamplingScale) -> Iterator[TraceRow]:
    for metric, value in now.gauges.items():
        yield trace_row(now.t, metric, "all", value)
    total, free = now.memory.get("MemTotal"), now.memory.get("MemAvailable")
    if total is not None and free is not None:
        yield trace_row(now.t, "memory_used", "all", total - free)
        yield trace_row(now.t, "memory_total", "all", total)
    for item, process in now.processes.items():
        yield trace_row(now.t, "process_rss", item, process.pages * scale.page_bytes)


def _rate_rows(before: CounterSample, now: CounterSample, scale: SamplingScale, problems: list[Problem]) -> list[TraceRow]:
    passed = now.t - before.t
    if passed > GAP_FACTOR * scale.interval_s:
        interval_text = f"{scale.interval_s:g} s were asked for"
        problems.append(Problem("gap", f"{passed:.2f} s without a sample, {interval_text}", now.t))
        return []
    rows = []
    for item, counters in now.cpus.items():
        rows += _cpu_rows(now.t, item, before.cpus.get(item), counters, problems)
    for item, (rx, tx) in now.net.items():
        old = before.net.get(item, (rx, tx))
        if rx < old[0] or tx < old[1]:
            problems.append(Problem("counter_went_back", f"bytes of interface {item}", now.t))
        elif item in before.net and rx + tx > 0:  # an interface that never carried a byte is no trace
            rows.append(trace_row(now.t, "net_rx", item, (rx - old[0]) / passed))
            rows.append(trace_row(now.t, "net_tx", item, (tx - old[1]) / passed))
    return rows + _process_rows(before, now, scale, problems)


def _cpu_rows(
    t: float, item: str, before: Sequence[float] | None, now: Sequence[float], problems: list[Problem]
) -> list[TraceRow]:
    if before is None or len(now) != CPU_PARTS or len(before) != CPU_PARTS:
        return []
    user, nice, system, idle, iowait, irq, softirq, steal = (b - a for a, b in zip(before, now, strict=True))
    idle, iowait = max(0, idle), max(0, iowait)  # proc(5): these two may decrease
    if min(user, nice, system, irq, softirq, steal) < 0:
        problems.append(Problem("counter_went_back", f"time of {item}", t))
        return []
    return cpu_shares(t, item, user + nice, system + irq + softirq, idle, iowait, steal)


def cpu_shares(t: float, item: str, user: float, system: float, idle: float, iowait: float, steal: float) -> list[TraceRow]:
    """Return the rows of one CPU from the time that it spent in an interval, in any one unit."""
    busy = user + system + steal
    parts = {"cpu_user": user, "cpu_system": system, "cpu_iowait": iowait, "cpu_steal": steal, "cpu_busy": busy}
    total = busy + idle + iowait
    return [trace_row(t, metric, item, part / total) for metric, part in parts.items()] if total else []


def _process_rows(before: CounterSample, now: CounterSample, scale: SamplingScale, problems: list[Problem]) -> list[TraceRow]:
    rows = []
    for item, old in before.processes.items():
        new = now.processes.get(item)
        if new is None or new.start_ticks != old.start_ticks:
            problems.append(Problem("process_gone", f"{item} has ended", before.t))
        elif new.ticks < old.ticks:
            problems.append(Problem("counter_went_back", f"CPU time of {item}", now.t))
        else:
            used = (new.ticks - old.ticks) / scale.hz / (now.t - before.t)
            rows.append(trace_row(now.t, "process_cpu", item, used))
    return rows
