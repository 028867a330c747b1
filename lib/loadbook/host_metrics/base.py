"""Common result of all readers of host metrics: rows, sample times and problems of the file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

# states of a CPU, in the order of /proc/stat
CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
GAP_FACTOR = 3.0  # an interval longer than GAP_FACTOR times the usual one is a gap
MAX_REPEATED_PROBLEMS = 20

# metrics of the traces table and their units (docs/import.md)
UNITS = {
    "cpu_busy": "1", "cpu_user": "1", "cpu_system": "1", "cpu_iowait": "1", "cpu_steal": "1",
    "memory_used": "B", "memory_total": "B", "net_rx": "B/s", "net_tx": "B/s",
    "load1": "1", "sockets_tcp_inuse": "1", "sockets_tcp_tw": "1", "process_cpu": "1", "process_rss": "B",
    "accept_queue": "1", "unaccepted": "1", "accept_wait": "s", "cpu_quota": "1", "throttled_periods": "1",
    "throttled_time": "1",
}  # fmt: skip

TraceRow = dict[str, str | float]


class Problem(NamedTuple):
    """An unreadable or inconsistent part of the input; `t` is its time (epoch s, host clock), None if unknown."""

    name: str
    message: str
    t: float | None = None


@dataclass(frozen=True)
class Traces:
    """Rows of the traces table without its key columns, with `t` (epoch seconds, host clock) in place of `t_s`.

    Keys of a row: t, metric, item, value, unit (see `trace_row`). `times` are the times of all complete samples in
    epoch seconds, and `interval_s` is the requested or usual time (s) between them, 0 if not known.
    """

    rows: list[TraceRow]
    times: list[float]
    interval_s: float
    problems: list[Problem]


def trace_row(t: float, metric: str, item: str, value: float) -> TraceRow:
    """Return one row, with the unit that UNITS has for the metric; KeyError for a metric that is not in UNITS.

    `t` is in epoch seconds, `item` is the CPU, interface or process, "all" for the whole host.
    """
    return {"t": t, "metric": metric, "item": item, "value": float(value), "unit": UNITS[metric]}


def unreadable_traces(name: str, message: str) -> Traces:
    """Return a result without rows for a file that cannot be read, with the problem."""
    return Traces([], [], 0.0, [Problem(name, message)])


def finite_number(value: Any, end: float = 1e18) -> float | None:
    """Return a number, also one given as text, as a float; None unless 0 <= number < `end`."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and 0 <= number < end else None


def median_interval_s(times: Iterable[float]) -> float:
    """Return the median time between samples in seconds; 0 for fewer than two samples."""
    distinct = sorted(set(times))
    return median(b - a for a, b in pairwise(distinct)) if len(distinct) > 1 else 0.0


def limit_repeats(problems: Iterable[Problem]) -> list[Problem]:
    """Return at most 20 problems of each name; the last states the number of others ("and 7 more")."""
    all_problems = list(problems)
    counts = Counter(problem.name for problem in all_problems)
    seen: Counter[str] = Counter()
    limited = []
    for problem in all_problems:
        seen[problem.name] += 1
        if seen[problem.name] < MAX_REPEATED_PROBLEMS or counts[problem.name] == MAX_REPEATED_PROBLEMS:
            limited.append(problem)
        elif seen[problem.name] == MAX_REPEATED_PROBLEMS:
            more = f"{problem.message}; and {counts[problem.name] - MAX_REPEATED_PROBLEMS} more"
            limited.append(problem._replace(message=more))
    return limited
