"""CPU time of an arm's services outside of its slices, from readings on the services' own machine."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

# with less time between readings outside of the arm's slices, their CPU time is not known
MIN_COUNTED_S = 0.2


class CpuSample(NamedTuple):
    """A reading: time (s, by the clock of its host) and CPU time (s) that a service has used so far."""

    t_s: float
    cpu_s: float


def read_cpu_samples(text: str, services: int) -> list[list[CpuSample]]:
    """Return the readings of each service from the output of `hosts/cpu_samples.pl`, without a last line that was cut.

    `services` is their number on the host. Raises ValueError for any other text.
    """
    samples: list[list[CpuSample]] = [[] for _ in range(services)]
    for line in text[: text.rfind("\n") + 1].splitlines():
        t_s, *used_ns = line.split()
        for own, ns in zip(samples, used_ns, strict=True):
            if ns != "-":
                own.append(CpuSample(float(t_s), float(ns) / 1e9))
    return samples


def cpu_outside(samples: Sequence[CpuSample], own: Sequence[tuple[float, float]], margin_s: float) -> float | None:
    """Return the CPU seconds used per second outside of an arm's slices; None if too few readings lie there.

    Parameters
    ----------
    samples : readings, times by the same clock as `own`.
    own : begin and end (s) of the arm's slices, with the gaps after them, in order; what is before and after them does
        not count.
    margin_s : error of the clocks (s).
    """
    used_s = counted_s = 0.0
    following = 0
    for before, after in pairwise(samples):
        while following < len(own) and own[following][1] + margin_s <= before.t_s:
            following += 1
        if 0 < following < len(own) and after.t_s <= own[following][0] - margin_s:
            used_s += after.cpu_s - before.cpu_s
            counted_s += after.t_s - before.t_s
    return used_s / counted_s if counted_s >= MIN_COUNTED_S else None
