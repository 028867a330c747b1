"""The log axis of ratios: positions, an axis for given intervals, labels.

An effect is a ratio minus 1; its position on the axis is log(1 + effect).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from loadbook.core.units import MINUS, NBSP, format_percent
from loadbook.stats.results import Interval


@dataclass(frozen=True)
class RatioScale:
    """A log axis of ratios from `low` to `high` (positions); intervals that extend beyond it end in arrow heads."""

    low: float
    high: float

    @property
    def padding(self) -> float:
        """The distance from the ends of the axis at which clipped lines end."""
        return 0.02 * (self.high - self.low)

    def contains(self, position: float) -> bool:
        """Return whether a position lies on the axis."""
        return self.low <= position <= self.high

    def clip(self, position: float) -> float:
        """Return the position, or the nearer end of the axis if it lies beyond."""
        return min(max(position, self.low), self.high)


def ratio_scale(
    intervals: Sequence[Interval], points: Sequence[float], decided: Sequence[float], margin: float
) -> RatioScale:
    """Return the axis for these intervals and points (ratios minus 1), not stretched by a single wide interval.

    It is clipped at the largest of: 1.5 times the largest effect in `decided`, 5 margins, 1.5 times the median distance
    of intervals' ends from zero. There is room beside zero for the direction words ("slower", "faster").
    """
    reaches = sorted(max(abs(log_ratio(v)) for v in pair) for pair in intervals) or [0.0]
    limit = max(
        [1.5 * abs(log_ratio(e)) for e in decided] + [log_ratio(5 * margin), 1.5 * reaches[(len(reaches) - 1) // 2]]
    )
    bounds = [log_ratio(v) for pair in intervals for v in pair] + [log_ratio(p) for p in points]
    low = max(-limit, min([*bounds, -1.6 * log_ratio(margin)]))
    high = min(limit, max([*bounds, 1.6 * log_ratio(margin)]))
    span = high - low
    low, high = low - 0.06 * span, high + 0.06 * span
    return RatioScale(min(low, -0.45 * high), max(high, -0.45 * low))


def log_ratio(effect: float) -> float:
    """Return the position of an effect (ratio minus 1) on a ratio axis; far to the left for a ratio of 0 or less."""
    return math.log1p(max(effect, -0.9999))


def log_ratio_text(position: float) -> str:
    """Return a position on a ratio axis as signed percent with one decimal."""
    return format_percent(math.expm1(position))


def effect_label(effect: float) -> str:
    """Return the label of a tick at an effect: +5 %, -10 %, 0."""
    number = f"{abs(effect) * 100:,.6g}{NBSP}%"
    return "0" if effect == 0 else (MINUS if effect < 0 else "+") + number
