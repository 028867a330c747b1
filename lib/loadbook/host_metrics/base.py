"""Result of every reader of host metrics (rows, sample times, problems), and the file of polled answers.

The file of polled answers holds the answers of a host's own monitor during a trial, in order. Its first line is
``loadbook-poll 1 SOURCE INTERVAL_S``. An answer stands between ``@ BEGUN ENDED`` (epoch seconds, controller's clock)
and ``@end``; without ``@end`` it is incomplete.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

# of a CPU's time, in the order of /proc/stat
CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
GAP_FACTOR = 3.0  # an interval longer than GAP times the usual one is a gap
MAX_REPEATED_PROBLEMS = 20

# metrics of the traces table and their units (docs/traces.md)
UNITS = {
    "cpu_busy": "1", "cpu_user": "1", "cpu_system": "1", "cpu_iowait": "1", "cpu_steal": "1",
    "memory_used": "B", "memory_total": "B", "net_rx": "B/s", "net_tx": "B/s",
    "load1": "1", "sockets_tcp_inuse": "1", "sockets_tcp_tw": "1", "process_cpu": "1", "process_rss": "B",
}  # fmt: skip

TraceRow = dict[str, str | float]


class Problem(NamedTuple):
    """A part of the input that is unreadable or inconsistent; `t` is its time (epoch s, host clock), if known."""

    name: str
    message: str
    t: float | None = None


@dataclass(frozen=True)
class Traces:
    """Rows of the traces table without its keys, with `t` (epoch seconds, host clock) in place of `t_s`.

    `times` are those of all whole samples.
    """

    rows: list[TraceRow]
    times: list[float]
    interval_s: float
    problems: list[Problem]


def trace_row(t: float, metric: str, item: str, value: float) -> TraceRow:
    """Return one row; the unit is the metric's."""
    return {"t": t, "metric": metric, "item": item, "value": float(value), "unit": UNITS[metric]}


def unreadable_traces(name: str, message: str) -> Traces:
    """Return the empty result of a file that cannot be read, with the problem."""
    return Traces([], [], 0.0, [Problem(name, message)])


def finite_number(value: Any, end: float = 1e18) -> float | None:
    """Return a number or its text as a float; None unless it is finite and from 0 to below `end`."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and 0 <= number < end else None


def median_interval_s(times: Iterable[float]) -> float:
    """Return the usual time between samples, seconds: the median; 0 for less than two samples."""
    distinct = sorted(set(times))
    return median(b - a for a, b in pairwise(distinct)) if len(distinct) > 1 else 0.0


def limit_repeats(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems with repeated ones merged, so that a broken file does not hide other problems."""
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


_HEAD = re.compile(r"loadbook-poll 1 ([a-z-]{1,30}) (\d{1,5}(?:\.\d{1,6})?)", re.ASCII)
_BEGIN = re.compile(r"@ (\d{1,12}\.\d{1,9}) (\d{1,12}\.\d{1,9})", re.ASCII)


class Poll(NamedTuple):
    """One answer; `t` lies halfway between question and answer."""

    t: float
    lines: list[str]


class Polls(NamedTuple):
    """The whole answers of one source, in order of time."""

    source: str
    interval_s: float
    polls: list[Poll]


def header_line(source: str, interval_s: float) -> str:
    """Return the first line of such a file."""
    return f"loadbook-poll 1 {source} {interval_s:g}\n"


def format_poll(begun: float, ended: float, answer: str) -> str:
    """Return one answer of a polled monitor as it is stored; lines that look like the file's own marks are escaped."""
    return f"@ {begun:.6f} {ended:.6f}\n{answer}{'' if answer.endswith(chr(10)) else chr(10)}@end\n"


def is_polled(data: bytes) -> bool:
    """Tell whether a file is one of these."""
    return data.startswith(b"loadbook-poll 1 ")


def read_polls(data: bytes, problems: list[Problem]) -> Polls | None:
    """Read such a file; None if it is none, torn answers become problems."""
    lines = data.decode("utf-8", "replace").split("\n")
    head = _HEAD.fullmatch(lines[0])
    if head is None or float(head[2]) <= 0:
        return None
    return Polls(head[1], float(head[2]), list(_polls(lines[1:], problems)))


def _polls(lines: Iterable[str], problems: list[Problem]) -> Iterable[Poll]:
    opened: Poll | None = None
    last = 0.0
    for number, line in enumerate([*lines, "@ 0.0 0.0"], 2):
        if line == "@end" and opened is not None:
            if opened.t <= last:
                problems.append(Problem("unreadable_sample", f"the answer that ends in line {number} is out of order"))
            else:
                last = opened.t
                yield opened
            opened = None
        elif begun := _BEGIN.fullmatch(line):
            if opened is not None:
                problems.append(Problem("torn_sample", f"the answer before line {number} has no end"))
            opened = Poll((float(begun[1]) + float(begun[2])) / 2, [])
        elif opened is not None:
            opened.lines.append(line)
