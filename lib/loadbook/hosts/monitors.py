"""What a host did during a trial: a sampler job that needs nothing installed, and its output as rows of `traces`.

The counters and their units are those of proc(5). Rates belong to the interval that ends at their time; over gaps,
counters that went back and torn samples there is no row, but a problem: nothing is interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from loadbook.hosts.host import Job
from loadbook.hosts.samples import Header, Problem, Sample, read_header, read_samples
from loadbook.records.layout import check_name

GAP = 3.0  # an interval longer than GAP times the one asked for is a gap

Row = dict[str, str | float]


@dataclass(frozen=True)
class Traces:
    """Rows of the traces table without its keys, with `t` (epoch seconds, host clock) in place of `t_s`.

    `times` are those of all whole samples.
    """

    rows: list[Row]
    times: list[float]
    interval_s: float
    problems: list[Problem]


def sampler_job(name: str, *, interval_s: float, limit_s: float, watch: Mapping[str, str] | None = None) -> Job:
    """Return the job that samples for at most `limit_s` seconds; its ``stdout.1`` is what `parse` reads.

    `watch` maps a label to a file (absolute, or relative to the job's folder) that holds a process id, such as
    ``../<job>/step``, which names the process that a job's current step runs; its children are watched as well.
    """
    text = files("loadbook.hosts").joinpath("sampler.sh").read_text(encoding="utf-8")
    count = math.ceil(limit_s / interval_s) + 1
    watched = [f"{check_name('process', label)}={path}" for label, path in (watch or {}).items()]
    step = ("/bin/sh", "-c", text, "sampler", f"{interval_s:g}", str(count), *watched)
    return Job(name, (step,), lease_s=limit_s * 1.5 + 5)


def coverage(traces: Traces, start: float, end: float) -> float:
    """Return the share (0 to 1) of the window [start, end] (epoch s, host clock) that lies between close samples."""
    if end <= start:
        return 0.0
    spans = [(a, b) for a, b in zip(traces.times, traces.times[1:], strict=False) if b - a <= GAP * traces.interval_s]
    return sum(max(0.0, min(b, end) - max(a, start)) for a, b in spans) / (end - start)


def parse(data: bytes) -> Traces:
    """Turn a sampler's output into rows; whatever is wrong with it becomes a problem, never an exception.

    Metrics: cpu_busy, cpu_user, cpu_system, cpu_iowait, cpu_steal (share of one CPU; item "all": of all of them),
    memory_used, memory_total (B), net_rx, net_tx (B/s), load1, sockets_tcp_inuse, sockets_tcp_tw (1),
    process_cpu (1 is one CPU busy; item "<label>:<pid>"), process_rss (B).
    """
    lines = data.decode("utf-8", "replace").split("\n")
    header = read_header(lines[0])
    if header is None:
        return Traces([], [], 0.0, [Problem("no_sampler_output", f"starts with {lines[0][:60]!r}")])
    problems: list[Problem] = []
    samples = list(read_samples(lines[1:], header, problems))
    rows: list[Row] = []
    for before, now in zip([None, *samples], samples, strict=False):
        rows += _levels(now, header)
        if before is not None:
            rows += _rates(before, now, header, problems)
    if len(samples) < 2:
        problems.append(Problem("too_few_samples", f"{len(samples)} whole samples"))
    return Traces(rows, [s.t for s in samples], header.interval_s, problems)


def _levels(now: Sample, header: Header) -> Iterator[Row]:
    for metric, value in now.levels.items():
        yield _row(now.t, metric, "all", value, "1")
    total, free = now.memory.get("MemTotal"), now.memory.get("MemAvailable")
    if total is not None and free is not None:
        yield _row(now.t, "memory_used", "all", total - free, "B")
        yield _row(now.t, "memory_total", "all", total, "B")
    for item, process in now.processes.items():
        yield _row(now.t, "process_rss", item, process.pages * header.page, "B")


def _rates(before: Sample, now: Sample, header: Header, problems: list[Problem]) -> list[Row]:
    passed = now.t - before.t
    if passed > GAP * header.interval_s:
        problems.append(
            Problem("gap", f"{passed:.2f} s without a sample, {header.interval_s:g} s were asked for", now.t)
        )
        return []
    rows = []
    for item, counters in now.cpus.items():
        rows += _cpu_rows(now.t, item, before.cpus.get(item), counters, problems)
    for item, (rx, tx) in now.net.items():
        old = before.net.get(item, (rx, tx))
        if rx < old[0] or tx < old[1]:
            problems.append(Problem("counter_went_back", f"bytes of interface {item}", now.t))
        elif item in before.net and rx + tx > 0:  # an interface that never carried a byte is no trace
            rows.append(_row(now.t, "net_rx", item, (rx - old[0]) / passed, "B/s"))
            rows.append(_row(now.t, "net_tx", item, (tx - old[1]) / passed, "B/s"))
    return rows + _process_rows(before, now, header, problems)


def _cpu_rows(t: float, item: str, before: list[int] | None, now: list[int], problems: list[Problem]) -> list[Row]:
    if before is None or len(now) != 8 or len(before) != 8:
        return []
    user, nice, system, idle, iowait, irq, softirq, steal = (b - a for a, b in zip(before, now, strict=True))
    idle, iowait = max(0, idle), max(0, iowait)  # proc(5): these two may decrease
    parts = {
        "cpu_user": user + nice,
        "cpu_system": system + irq + softirq,
        "cpu_iowait": iowait,
        "cpu_steal": steal,
        "cpu_busy": user + nice + system + irq + softirq + steal,
    }
    if min(user, nice, system, irq, softirq, steal) < 0:
        problems.append(Problem("counter_went_back", f"time of {item}", t))
        return []
    total = parts["cpu_busy"] + idle + iowait
    return [_row(t, metric, item, ticks / total, "1") for metric, ticks in parts.items()] if total else []


def _process_rows(before: Sample, now: Sample, header: Header, problems: list[Problem]) -> list[Row]:
    rows = []
    for item, old in before.processes.items():
        new = now.processes.get(item)
        if new is None or new.born != old.born:
            problems.append(Problem("process_gone", f"{item} has ended", before.t))
        elif new.ticks < old.ticks:
            problems.append(Problem("counter_went_back", f"CPU time of {item}", now.t))
        else:
            used = (new.ticks - old.ticks) / header.hz / (now.t - before.t)
            rows.append(_row(now.t, "process_cpu", item, used, "1"))
    return rows


def _row(t: float, metric: str, item: str, value: float, unit: str) -> Row:
    return {"t": t, "metric": metric, "item": item, "value": float(value), "unit": unit}
