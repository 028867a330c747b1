"""The axis of dates: true to time, but for pauses that would squeeze all else and runs that would touch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from loadbook.core.units import NBSP
from loadbook.report.figures import scales
from loadbook.report.figures.text import counted

DAY_S = 86400.0
CLOSEST, LONGEST = 0.3, 6.0  # of the usual gap: runs stand no nearer, pauses are cut to this
AIR = 0.02  # beside the first and the last run, as a share of the axis
OVER_IN = 0.4  # a date may reach beyond the ends of the axis
MONTH_D, YEAR_D = 30.44, 365.25


@dataclass(frozen=True)
class Axis:
    """Where each run stands, from 0 to 1 (one run: 0.5), and the pauses that are cut: place and length in words."""

    places: Mapping[str, float]
    times: Mapping[str, float]
    pauses: tuple[tuple[float, str], ...]

    def between(self, run: str) -> float:
        """Return the middle between a run and the one before it."""
        known = list(self.places)
        before = known[max(known.index(run) - 1, 0)]
        return (self.places[before] + self.places[run]) / 2

    def ticks(self, width_in: float, size: float) -> list[tuple[float, str]]:
        """Return place and date of the runs whose dates fit: the first, the last, then the widest spread."""
        known = list(self.places)
        order = _spread(len(known))
        labels = self._labels()
        found = [(self.places[known[k]], labels[known[k]]) for k in order]
        kept = scales.fit(found, lambda at: at * width_in + OVER_IN, size, width_in + 2 * OVER_IN)
        shown: dict[str, float] = {}
        for k in kept:  # of several runs of one day, the first one that fits
            shown.setdefault(found[k][1], found[k][0])
        return [(at, label) for label, at in shown.items()]

    def _labels(self) -> dict[str, str]:
        form = "%H:%M" if self._one_day and len(self.times) > 1 else "%Y-%m-%d"
        return {run: datetime.fromtimestamp(at, UTC).strftime(form) for run, at in self.times.items()}

    @property
    def _one_day(self) -> bool:
        return len({datetime.fromtimestamp(at, UTC).date() for at in self.times.values()}) == 1

    @property
    def title(self) -> str:
        """What the axis shows."""
        if not self._one_day or len(self.times) == 1:
            return "date of the run (UTC)"
        first = datetime.fromtimestamp(next(iter(self.times.values())), UTC)
        return f"time of the run on {first:%Y-%m-%d} (UTC)"


def axis(times: Mapping[str, float]) -> Axis:
    """Return the axis of runs, oldest first, that began at these times (epoch seconds)."""
    runs, at = list(times), np.array(list(times.values()))
    gaps = np.diff(at)
    usual = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1.0
    shown = np.concatenate([[0.0], np.cumsum(np.clip(gaps, CLOSEST * usual, LONGEST * usual))])
    shown = shown / shown[-1] if len(runs) > 1 else np.array([0.5])
    cut = np.flatnonzero(gaps > LONGEST * usual)
    pauses = tuple((float((shown[k] + shown[k + 1]) / 2), _words(float(gaps[k]))) for k in cut)
    return Axis(dict(zip(runs, map(float, shown), strict=True)), dict(times), pauses)


def _words(gap_s: float) -> str:
    days = gap_s / DAY_S
    for length, word in ((YEAR_D, "year"), (MONTH_D, "month"), (1.0, "day")):
        if days >= 0.95 * length:
            return counted(round(days / length), word).replace(" ", NBSP)
    return counted(max(round(gap_s / 3600), 1), "hour").replace(" ", NBSP)


def _spread(number: int) -> list[int]:
    """Return 0 to number - 1: the ends, then the middles between those that are taken."""
    order = list(dict.fromkeys([0, number - 1]))
    step = number - 1
    while step > 1:
        step = (step + 1) // 2
        order += [k for k in range(0, number, step) if k not in order]
    return list(dict.fromkeys([*order, *range(number)]))
