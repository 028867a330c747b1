"""Axes by hand: log axes of ratios and of values, ticks that fit, intervals with arrow heads, block tints.

Positions on a ratio axis are log(1 + effect), on a value axis log(value): the axis itself is linear, so matplotlib
chooses no tick (it shows one or none on a log axis shorter than a decade: matplotlib #8768).

An estimate and its interval on a ratio axis: thick, thin, ticks, mark, arrow heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from loadbook.core.metrics import Metric
from loadbook.core.units import MINUS, NBSP, format_percent
from loadbook.report import palette
from loadbook.report.figures.base import mark_props, quantity, text_width
from loadbook.stats.results import AnalysisRow, Comparison, Interval

_UP = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 9, 19, 49, 99, 999)
_DOWN = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)
SHORT = 4.0  # a log axis whose ends have a smaller ratio has even steps
EFFECTS = (*(-d for d in reversed(_DOWN)), 0.0, *_UP)


@dataclass(frozen=True)
class RatioScale:
    """A log axis of ratios from `low` to `high` (positions); intervals beyond it end in arrow heads."""

    low: float
    high: float

    @property
    def air(self) -> float:
        """How far from its ends the axis keeps lines that go on beyond it."""
        return 0.02 * (self.high - self.low)

    def inside(self, position: float) -> bool:
        """Say whether a position lies on the axis."""
        return self.low <= position <= self.high

    def inch(self, position: float, left: float, right: float) -> float:
        """Return where a position lies on an axis that runs from `left` to `right` inches."""
        return left + (right - left) * (position - self.low) / (self.high - self.low)


def ratio_scale(
    intervals: Sequence[Interval], points: Sequence[float], decided: Sequence[float], margin: float
) -> RatioScale:
    """Return the axis for these intervals and points (ratios minus 1), which one wide interval cannot stretch.

    It is clipped at 1.5 times the largest of the effects `decided`, at 5 margins (report.md section 5) or at 1.5 times
    the median reach of the intervals, whichever is largest, and leaves room for the direction words beside zero.
    """
    reaches = sorted(max(abs(position(v)) for v in pair) for pair in intervals) or [0.0]
    limit = max(
        [1.5 * abs(position(e)) for e in decided] + [position(5 * margin), 1.5 * reaches[(len(reaches) - 1) // 2]]
    )
    bounds = [position(v) for pair in intervals for v in pair] + [position(p) for p in points]
    low = max(-limit, min([*bounds, -1.6 * position(margin)]))
    high = min(limit, max([*bounds, 1.6 * position(margin)]))
    span = high - low
    low, high = low - 0.06 * span, high + 0.06 * span
    return RatioScale(min(low, -0.45 * high), max(high, -0.45 * low))


def position(effect: float) -> float:
    """Return where an effect (ratio minus 1) lies on a ratio axis; a ratio of zero or less lies far to the left."""
    return math.log1p(max(effect, -0.9999))


def effect_label(effect: float) -> str:
    """Return a tick's label: +5 %, -10 %, 0."""
    number = f"{abs(effect) * 100:,.6g}{NBSP}%"
    return "0" if effect == 0 else (MINUS if effect < 0 else "+") + number


def fit(
    candidates: Sequence[tuple[float, str]], place: Callable[[float], float], size: float, width: float
) -> list[int]:
    """Return which candidates (position, label), most important first, fit on `width` inches without touching."""
    taken: list[tuple[float, float]] = []
    kept: list[int] = []
    for index, (at, label) in enumerate(candidates):
        half, middle = text_width(label, size) / 2 + 0.035, place(at)
        free = all(middle + half <= left or middle - half >= right for left, right in taken)
        if free and middle - half >= -0.09 and middle + half <= width + 0.09:
            taken.append((middle - half, middle + half))
            kept.append(index)
    return sorted(kept)


def effect_ticks(scale: RatioScale, width_in: float, size: float, first: Sequence[float] = ()) -> list[float]:
    """Return the effects at which a ratio axis of `width_in` has ticks: 0, `first`, then the widest spread ones."""
    inside = [e for e in EFFECTS if scale.inside(position(e))]
    by_size = sorted((e for e in inside if e), key=lambda e: (-abs(position(e)), e))
    order = list(dict.fromkeys([0.0, *by_size[:2], *(e for e in first if scale.inside(position(e))), *by_size]))
    inch = width_in / (scale.high - scale.low)
    kept = fit([(position(e), effect_label(e)) for e in order], lambda at: (at - scale.low) * inch, size, width_in)
    return sorted(order[i] for i in kept)


def ratio_axis(
    axes: Axes, scale: RatioScale, width_in: float, size: float, margin: float, vertical: bool = False
) -> list[float]:
    """Make one axis of `axes` a ratio axis and return the effects of its ticks (the y axis where `vertical`)."""
    ticks = effect_ticks(scale, width_in, size, (-margin, margin))
    axis, limits = (axes.yaxis, axes.set_ylim) if vertical else (axes.xaxis, axes.set_xlim)
    limits(scale.low, scale.high)
    set_ticks(axis, [position(t) for t in ticks], [effect_label(t) for t in ticks])
    return ticks


def ratio_ground(axes: Axes, margin: float, ticks: Sequence[float], top: float, bottom: float) -> None:
    """Draw grid, margin band and zero line of a ratio axis between two heights."""
    for tick in filter(None, ticks):
        axes.plot([position(tick)] * 2, [top, bottom], color=palette.GRID, linewidth=0.8, zorder=-4)
    low, high = position(-margin), position(margin)
    axes.add_patch(Rectangle((low, top), high - low, bottom - top, facecolor=palette.BAND, linewidth=0, zorder=-3))
    axes.plot([0, 0], [top, bottom], color=palette.INK, linewidth=1.1, zorder=-2, solid_capstyle="butt")


def set_ticks(axis: Axis, places: Sequence[float], labels: Sequence[str]) -> None:
    """Set exactly these ticks and labels and no minor ones."""
    axis.set_major_locator(FixedLocator(list(places)))
    axis.set_major_formatter(FixedFormatter(list(labels)))
    axis.set_minor_locator(NullLocator())


def value_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round values for a log axis from low to high: even steps on a short axis, 1-2-5 on a long one."""
    if high / low < SHORT:
        ticks = MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        return [float(t) for t in np.asarray(ticks) if low <= t <= high]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [d * 10.0**e for e in decades for d in digits if low <= d * 10.0**e <= high]
        if len(ticks) <= most:
            break
    return list(ticks[:: math.ceil(len(ticks) / most)]) or [low, high]


@dataclass(frozen=True)
class Unit:
    """How an axis writes values of a metric: divided by `divisor`, with `words` in its title."""

    divisor: float
    words: str


def unit_for(metric: Metric, largest: float) -> Unit:
    """Return the unit of an axis that goes up to `largest` (base units)."""
    choices = {
        "s": ((1e-3, 1e-6, "µs"), (1.0, 1e-3, "ms"), (math.inf, 1.0, "s")),
        "B": ((1024.0, 1.0, "B"), (1024.0**2, 1024.0, "KiB"), (math.inf, 1024.0**2, "MiB")),
        "B/s": ((125e3, 125.0, "kbit/s"), (125e6, 125e3, "Mbit/s"), (math.inf, 125e6, "Gbit/s")),
    }.get(metric.unit, ((1e4, 1.0, ""), (1e7, 1e3, "thousands"), (math.inf, 1e6, "millions")))
    divisor, words = next((d, w) for below, d, w in choices if largest < below)
    return Unit(divisor, words)


def values_on_x(axes: Axes, limits: Interval, unit: Unit, width_in: float, size: float) -> None:
    """Make x a log axis of values (base units, > 0) written in `unit`, with labels that do not touch."""
    low, high = math.log(limits[0]), math.log(limits[1])
    axes.set_xlim(low, high)
    inch = width_in / (high - low)
    for most in range(9, 1, -1):
        ticks = value_ticks(limits[0] / unit.divisor, limits[1] / unit.divisor, most)
        placed = [(math.log(t * unit.divisor), f"{t:,.6g}") for t in ticks]
        kept = fit(placed, lambda at: (at - low) * inch, size, width_in)
        if len(kept) > 1 and kept[-1] - kept[0] == len(kept) - 1:
            break  # no tick between two others had to be left out
    set_ticks(axes.xaxis, [placed[i][0] for i in kept], [placed[i][1] for i in kept])


def values_on_y(axes: Axes, limits: Interval, unit: Unit, height_in: float) -> None:
    """Make y a log axis of values (base units, > 0) written in `unit`."""
    axes.set_ylim(math.log(limits[0]), math.log(limits[1]))
    ticks = value_ticks(limits[0] / unit.divisor, limits[1] / unit.divisor, max(3, round(height_in / 0.3)))
    set_ticks(axes.yaxis, [math.log(t * unit.divisor) for t in ticks], [f"{t:,.6g}" for t in ticks])


def value_range(values: pd.Series, pad: float = 0.06) -> Interval:
    """Return the range of a log axis for these values: positive and finite ones, with some air; 1..2 for none."""
    good = values[np.isfinite(values) & (values > 0)]
    if good.empty:
        return 1.0, 2.0
    low, high = math.log(good.min()), math.log(good.max())
    air = max(pad * (high - low), 0.01)
    return math.exp(low - air), math.exp(high + air)


def tint_blocks(axes: Axes, values: pd.DataFrame) -> None:
    """Shade every second block behind a panel whose x axis counts slots."""
    for number, (_, slots) in enumerate(values.groupby("block")["slot"]):
        if number % 2:
            axes.axvspan(slots.min() - 0.5, slots.max() + 0.5, color=palette.BLOCK_TINT, linewidth=0, zorder=-3)


def blocks_on_x(axes: Axes, values: pd.DataFrame, width_in: float, size: float) -> None:
    """Write the blocks' numbers below a panel whose x axis counts slots."""
    low, high = values["slot"].min() - 0.8, values["slot"].max() + 0.8
    axes.set_xlim(low, high)
    middles = values.groupby("block")["slot"].agg(lambda s: (s.min() + s.max()) / 2)
    blocks = [(float(at), str(block)) for block, at in middles.items()]
    for step in (times * 10**power for power in range(9) for times in (1, 2, 5)):
        placed = blocks[step - 1 :: step]
        kept = fit(placed, lambda at: (at - low) * width_in / (high - low), size, width_in)
        if kept and len(kept) > kept[-1] - kept[0]:  # none is left out between two others
            break
    set_ticks(axes.xaxis, [placed[i][0] for i in kept], [placed[i][1] for i in kept])
    axes.tick_params(axis="x", length=0)


def value_title(metric: Metric, statistic: str, unit: Unit, narrow: bool) -> str:
    """Return an axis title: what is measured, in which unit, that the axis is log and does not start at zero."""
    words = f", {unit.words}" if unit.words else ""
    return f"{quantity(metric, statistic)}{words} (log{'' if narrow else ' scale'}, does not start at 0)"


def percent_of(position_on_axis: float) -> str:
    """Return a position of a ratio axis as signed percent with one decimal."""
    return format_percent(math.expm1(position_on_axis))


def draw_interval(
    axes: Axes, scale: RatioScale, y: float, row: AnalysisRow, comparison: Comparison, tick: float,
    style: palette.VerdictStyle | None = None, thick: float = 4.6,
) -> None:  # fmt: skip
    """Draw one row's estimate: thick 95 % line, thin family line, ticks of half height `tick` at the 90 % interval.

    `style` is the row's own unless another one is given, `thick` the width of the thick line in points.
    """
    style = style or palette.row_style(row)
    check = row.kind in ("aa", "control")
    if comparison.ci95 is not None:
        widest = comparison.ci_family or comparison.ci95
        _line(axes, scale, y, widest, style.edge, 1.3)
        _line(axes, scale, y, comparison.ci95, style.edge, 2.0 if check else thick)
        draw_heads(axes, scale, y, widest, style.edge)
    if comparison.ci90 and row.verdict and row.verdict.kind in ("equivalent", "small") and not check:
        for bound in filter(scale.inside, map(position, comparison.ci90)):
            axes.plot([bound] * 2, [y - tick, y + tick], color=style.edge, linewidth=1.4, solid_capstyle="butt")
    if comparison.effect is not None and scale.inside(position(comparison.effect)):
        axes.plot([position(comparison.effect)], [y], zorder=4, **mark_props(style, 7.4))


def _line(axes: Axes, scale: RatioScale, y: float, interval: Interval, colour: str, width_pt: float) -> None:
    left = max(position(interval[0]), scale.low + scale.air)
    right = min(position(interval[1]), scale.high - scale.air)
    if left < right:
        axes.plot([left, right], [y, y], color=colour, linewidth=width_pt, solid_capstyle="butt", zorder=3)


def draw_heads(axes: Axes, scale: RatioScale, y: float, interval: Interval, colour: str) -> None:
    """Draw an arrow head at each end of the axis that the interval crosses."""
    head: dict[str, Any] = {"markersize": 6.5, "color": colour, "markeredgewidth": 0, "zorder": 3}
    if position(interval[0]) < scale.low:
        axes.plot([scale.low + scale.air], [y], "<", **head)
    if position(interval[1]) > scale.high:
        axes.plot([scale.high - scale.air], [y], ">", **head)
