"""CPU time that other programs take while a test measures: what makes a measurement of time worthless.

Own is what this process and everything that it started used, also what has ended or went into the background: within
`adopted_orphans`, orphans become children of this process (`prctl`, PR_SET_CHILD_SUBREAPER).
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import psutil

PR_SET_CHILD_SUBREAPER = 36
# CPUs that others may use on average; a measurement of time beside more is no measurement
TOLERATED_CPUS = 0.3
LOOK_S = 0.3


class Reading(NamedTuple):
    """CPU seconds since the start of the machine: of all programs with what a hypervisor took, and of our own."""

    at_s: float
    all_s: float
    own_s: float


@contextmanager
def adopted_orphans() -> Iterator[None]:
    """Be the parent of whatever our processes leave behind; other tests await that init removes them."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def read() -> Reading:
    """Read the CPU time of the machine and of our own processes."""
    times = psutil.cpu_times()
    busy_s = times.user + times.nice + times.system + times.irq + times.softirq + times.steal
    return Reading(time.monotonic(), busy_s, _own_s())


def _own_s() -> float:
    me, total = psutil.Process(), 0.0
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])  # its own, and that of its children that have ended
    return total


def others_cpus(since: Reading) -> float:
    """Return the CPUs that other programs used since a reading, on average."""
    now = read()
    return max(0.0, (now.all_s - since.all_s) - (now.own_s - since.own_s)) / max(now.at_s - since.at_s, 0.001)


def why_not_to_measure() -> str:
    """Return the reason why nothing can be measured now; "" if the machine is calm."""
    load, cpus = os.getloadavg()[0], len(os.sched_getaffinity(0))
    before = read()
    time.sleep(LOOK_S)
    if (used := others_cpus(before)) > TOLERATED_CPUS:
        return f"other programs use {used:.1f} CPUs (load average {load:.1f} on {cpus} CPUs)"
    return ""
