"""Log axes of ratios and of values, ticks with labels that fit, intervals with arrow heads, shaded blocks.

Ratio axes are those of `report.ratios`; a position on a value axis is log(value). For matplotlib these axes are linear
with our own ticks, because it gives a log axis shorter than a decade one tick or none (matplotlib #8768).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import matplotlib.colors
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, Locator, MaxNLocator, NullLocator

from loadbook.core.metrics import Metric
from loadbook.report import palette
from loadbook.report.figures.base import marker_props, metric_label
from loadbook.report.ratios import RatioScale, effect_label, log_ratio
from loadbook.stats.results import AnalysisRow, Comparison, Interval

_INCREASES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 9, 19, 49, 99, 999)
_DECREASES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)
EFFECTS = (*(-d for d in reversed(_DECREASES)), 0.0, *_INCREASES)
LABEL_ROOM = 1.15  # of a label on a ratio axis: in labels of three letters
SHORT_AXIS_RATIO = 4.0  # a log axis whose ends have a smaller ratio has evenly spaced tick values
DASHED: Any = (0, (4, 2))


def line_colours(treatments: Sequence[str], baseline: str) -> dict[str, str]:
    """Return treatment -> colour of its line: the colour of texts for the baseline, one of a palette for others.

    Treatments beyond the number of colours in the palette are grey. The same treatments have the same colours in
    every figure, whatever their order.
    """
    others = sorted(name for name in treatments if name != baseline)
    known = [matplotlib.colors.to_hex(rgb) for rgb in sns.color_palette("colorblind")]
    colours = dict(zip(others, known, strict=False))
    return {name: palette.INK if name == baseline else colours.get(name, palette.SOFT) for name in treatments}


def set_ticks(axis: Axis, positions: Sequence[float], labels: Sequence[str]) -> None:
    """Set exactly these ticks and labels, without minor ticks."""
    axis.set_major_locator(FixedLocator(list(positions)))
    axis.set_major_formatter(FixedFormatter(list(labels)))
    axis.set_minor_locator(NullLocator())


class SpacedLocator(Locator):
    """Ticks at those of the positions, most important first, at which labels have room.

    `room` is the length of a label relative to the usual labels of which `Axis.get_tick_space` fit on the axis.
    """

    def __init__(self, positions: Sequence[float], room: float) -> None:
        self.positions, self.room = positions, room

    def __call__(self) -> list[float]:
        """Return the ticks of the axis' present range."""
        return self.tick_values(*self.axis.get_view_interval())  # type: ignore[union-attr]

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        """Return the ticks between two positions."""
        axis: Any = self.axis
        low, high, *places = axis.get_transform().transform([vmin, vmax, *self.positions])
        apart = (high - low) * self.room / max(1, axis.get_tick_space())
        taken = dict[float, float]()
        for place, position in zip(places, self.positions, strict=True):
            if low <= place <= high and all(abs(place - other) >= apart for other in taken):
                taken[place] = position
        return sorted(taken.values())


class RatioLocator(SpacedLocator):
    """Ticks of a ratio axis at round effects: 0, the outermost two, the margin's, and others where there is room."""

    def __init__(self, margin: float = 0.0) -> None:
        super().__init__((), 1.0)
        self.margin = margin

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        """Return the ticks, as positions on the axis, between two positions."""
        inside = [e for e in EFFECTS if vmin <= log_ratio(e) <= vmax]
        by_size = sorted(filter(None, inside), key=lambda e: (-abs(log_ratio(e)), e))
        self.positions = [log_ratio(e) for e in (0.0, *by_size[:2], -self.margin, self.margin, *by_size)]
        self.room = LABEL_ROOM if isinstance(self.axis, XAxis) else 1.0
        return super().tick_values(vmin, vmax)


def set_ratio_scale(axis: Axis, scale: RatioScale, margin: float) -> None:
    """Make `axis` a ratio axis with grid lines, whose positions are log(1 + effect)."""
    (axis.axes.set_xlim if isinstance(axis, XAxis) else axis.axes.set_ylim)(scale.low, scale.high)
    axis.set_major_locator(RatioLocator(margin))
    axis.set_major_formatter(FuncFormatter(lambda at, _: effect_label(math.expm1(at))))
    axis.grid(visible=True, color=palette.GRID, linewidth=0.8)
    axis.axes.set_axisbelow(True)


def set_effect_ticks(axis: Axis, effects: Sequence[float]) -> None:
    """Set the ticks of a ratio axis at these effects."""
    set_ticks(axis, [log_ratio(e) for e in effects], [effect_label(e) for e in effects])


def draw_margin(panel: Axes, low: float, high: float) -> None:
    """Draw the margin band between two effects, and a line at zero, on a ratio axis."""
    panel.axvspan(log_ratio(low), log_ratio(high), facecolor=palette.BAND, linewidth=0, zorder=-3)
    panel.axvline(0, color=palette.INK, linewidth=1.1, zorder=0.7)


def value_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round tick values for a log axis: evenly spaced on a short axis, 1-2-5 on a long one.

    `low` and `high` are values above 0, `most` is about the largest number of ticks.
    """
    if high / low < SHORT_AXIS_RATIO:
        values = MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        return [float(t) for t in np.asarray(values) if low <= t <= high]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [d * 10.0**e for e in decades for d in digits if low <= d * 10.0**e <= high]
        if len(ticks) <= most:
            break
    return list(ticks[:: math.ceil(len(ticks) / most)]) or [low, high]


@dataclass(frozen=True)
class AxisUnit:
    """The unit of an axis: tick labels are values divided by `divisor`, and `name` is in the axis title."""

    divisor: float
    name: str


def axis_unit(metric: Metric, largest: float) -> AxisUnit:
    """Return the unit of an axis for values up to `largest` (in the metric's base unit)."""
    choices = {
        "s": ((1e-3, 1e-6, "µs"), (1.0, 1e-3, "ms"), (math.inf, 1.0, "s")),
        "B": ((1024.0, 1.0, "B"), (1024.0**2, 1024.0, "KiB"), (math.inf, 1024.0**2, "MiB")),
        "B/s": ((125e3, 125.0, "kbit/s"), (125e6, 125e3, "Mbit/s"), (math.inf, 125e6, "Gbit/s")),
    }.get(metric.unit, ((1e4, 1.0, ""), (1e7, 1e3, "thousands"), (math.inf, 1e6, "millions")))
    return next(AxisUnit(divisor, name) for below, divisor, name in choices if largest < below)


class ValueLocator(Locator):
    """Round ticks of a log axis of values, in multiples of a unit (as of `value_ticks`)."""

    def __init__(self, unit: AxisUnit) -> None:
        self.unit = unit

    def __call__(self) -> list[float]:
        """Return the ticks of the axis' present range."""
        return self.tick_values(*self.axis.get_view_interval())  # type: ignore[union-attr]

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        """Return as many ticks between two values as have room, which is estimated by the letters of their labels."""
        space = self.axis.get_tick_space() if self.axis else 9
        low, high = vmin / self.unit.divisor, vmax / self.unit.divisor
        for most in range(min(9, space + 2), 2, -1):
            ticks = value_ticks(low, high, most)
            nearest = min((math.log(right / left) for left, right in pairwise(ticks)), default=math.inf)
            letters = max(len(f"{tick:,.6g}") for tick in ticks)
            room = 0.2 * letters + 0.17 if isinstance(self.axis, XAxis) else 0.9
            if nearest * space >= room * math.log(high / low):
                break
        return [tick * self.unit.divisor for tick in ticks]


def set_value_scale(axis: Axis, limits: Interval, unit: AxisUnit) -> None:
    """Make `axis` a log axis of values (base units, > 0) written in `unit`."""
    is_x = isinstance(axis, XAxis)
    (axis.axes.set_xscale if is_x else axis.axes.set_yscale)("log")
    (axis.axes.set_xlim if is_x else axis.axes.set_ylim)(*limits)
    axis.set_major_locator(ValueLocator(unit))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit.divisor:,.6g}"))
    axis.set_minor_locator(NullLocator())


def value_axis_title(metric: Metric, statistic: str, unit: AxisUnit, short: bool = False) -> str:
    """Return the axis title: quantity, unit, and a note that the axis is logarithmic and does not start at zero."""
    name = f", {unit.name}" if unit.name else ""
    return f"{metric_label(metric, statistic)}{name} (log{'' if short else ' scale'}, does not start at 0)"


def value_range(values: pd.Series, pad: float = 0.06) -> Interval:
    """Return the range of a log axis for the positive, finite values, with padding; (1, 2) if there are none.

    `pad` is the padding at each end, as a share of the range of the logarithms.
    """
    usable = values[np.isfinite(values) & (values > 0)]
    if usable.empty:
        return 1.0, 2.0
    low, high = math.log(usable.min()), math.log(usable.max())
    padding = max(pad * (high - low), 0.01)
    return math.exp(low - padding), math.exp(high + padding)


def shade_blocks(axes: Axes, trials: pd.DataFrame) -> None:
    """Shade every second block behind a panel whose x axis is the slot (position in the order of execution)."""
    slots = trials.groupby("block")["slot"].agg(["min", "max"])[1::2]
    spans = list(zip(slots["min"] - 0.5, slots["max"] - slots["min"] + 1, strict=True))
    style: dict[str, Any] = {"facecolor": palette.BLOCK_TINT, "linewidth": 0, "zorder": -3}
    axes.broken_barh(spans, (0, 1), transform=axes.get_xaxis_transform(), **style)


def slot_limits(trials: pd.DataFrame) -> Interval:
    """Return the limits of an x axis of slots for these trials."""
    return float(trials["slot"].min() - 0.8), float(trials["slot"].max() + 0.8)


class BlockLocator(Locator):
    """Ticks in the middle of every block, or of every 2nd, 5th, 10th, ... one, on an axis of slots.

    `middles` are the slots in the middle of each block, `letters` is the length of the longest label.
    """

    def __init__(self, middles: Sequence[float], letters: int) -> None:
        self.middles, self.letters = middles, letters

    def __call__(self) -> Sequence[float]:
        """Return the ticks; a label's room is as many em as it has letters."""
        space = max(1, self.axis.get_tick_space() * 3 // self.letters) if self.axis else 9
        steps = (times * 10**power for power in range(9) for times in (1, 2, 5))
        step = next(step for step in steps if len(self.middles) <= space * step)
        return self.middles[step - 1 :: step]

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        """Return the ticks, which do not depend on the range."""
        return self()


def set_block_axis(axes: Axes, trials: pd.DataFrame) -> None:
    """Make x an axis of slots with the numbers of blocks; every second block is shaded."""
    slots = trials.groupby("block")["slot"].agg(["min", "max"])
    names = {(first + last) / 2: str(block) for block, first, last in slots.itertuples()}
    axes.set_xlim(*slot_limits(trials))
    axes.xaxis.set_major_locator(BlockLocator(list(names), max(map(len, names.values()))))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: names.get(at, "")))
    axes.tick_params(axis="x", bottom=False)
    shade_blocks(axes, trials)


def draw_interval(
    axes: Axes, scale: RatioScale, y: float, row: AnalysisRow, comparison: Comparison, tick: float,
    style: palette.VerdictStyle | None = None, thick: float = 4.6,
) -> None:  # fmt: skip
    """Draw one row: thick 95 % interval, thin multiplicity-adjusted interval, ticks at the ends of the 90 % interval.

    The 90 % interval is drawn for the verdicts "equivalent" and "small" only. `tick` is half the height of the ticks,
    `style` defaults to that of the row, `thick` is the line width in points.
    """
    style = style or palette.row_style(row)
    check = row.kind in ("aa", "control")
    if comparison.ci95 is not None:
        widest = comparison.ci_family or comparison.ci95
        for interval, width in ((widest, 1.3), (comparison.ci95, 2.0 if check else thick)):
            left = max(log_ratio(interval[0]), scale.low + scale.padding)
            right = min(log_ratio(interval[1]), scale.high - scale.padding)
            if left < right:
                axes.plot([left, right], [y, y], color=style.edge, linewidth=width, solid_capstyle="butt", zorder=3)
        draw_arrow_heads(axes, scale, y, widest, style.edge)
    if comparison.ci90 and row.verdict and row.verdict.kind in ("equivalent", "small") and not check:
        for bound in filter(scale.contains, map(log_ratio, comparison.ci90)):
            axes.plot([bound] * 2, [y - tick, y + tick], color=style.edge, linewidth=1.4, solid_capstyle="butt")
    if comparison.effect is not None and scale.contains(log_ratio(comparison.effect)):
        axes.plot([log_ratio(comparison.effect)], [y], zorder=4, **marker_props(style, 7.4))


def draw_arrow_heads(axes: Axes, scale: RatioScale, y: float, interval: Interval, colour: str) -> None:
    """Draw an arrow head at each end of the axis beyond which the interval extends."""
    head: dict[str, Any] = {"markersize": 6.5, "color": colour, "markeredgewidth": 0, "zorder": 3}
    if log_ratio(interval[0]) < scale.low:
        axes.plot([scale.low + scale.padding], [y], "<", **head)
    if log_ratio(interval[1]) > scale.high:
        axes.plot([scale.high - scale.padding], [y], ">", **head)
