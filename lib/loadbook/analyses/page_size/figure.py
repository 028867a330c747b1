"""The axis of page sizes that the panels of figure 6 share, and how its series look: shade and marker by the front.

The words of figure 6: a name at each curve or above them all, and the strip of letters that say what limits.

Figure 6, page size against rate: two regimes, the bandwidth ceiling, and what limits each point.

In five seconds: from which size on is the network the limit, and for whom?
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.analyses.page_size import text as words
from loadbook.analyses.page_size import tier_ratios
from loadbook.analyses.page_size.compute import PageSizeResult, PageSizeSeries, TwoRegimeCurve
from loadbook.analyses.page_size.text import tick_text
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP
from loadbook.report import palette
from loadbook.report.figures import axes as scales
from loadbook.report.figures.base import (
    SMALLEST_PT,
    Sheet,
    counted,
    drawable,
    in_house_style,
    line_in,
    mark_props,
    pushed_apart,
    shortened,
    text_width,
    widest,
)
from loadbook.stats.saturation import BOTTLENECK_NAMES
from loadbook.stats.verdict import usable_mask

SHADES = (palette.INK, palette.SOFT, palette.OTHERS, palette.RULE)
MARKERS = ("o", "s", "^", "D")
DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = ("-", (0, (1.2, 1.4)), (0, (5, 1.5)), (0, (3, 1, 1, 1)))


@dataclass(frozen=True)
class SizeAxis:
    """A log axis: sizes `first` and `last` (bytes) lie at `left` and `right` inches of panels that begin at `edge`."""

    first: float
    last: float
    edge: float
    left: float
    right: float

    @property
    def octave_in(self) -> float:
        """Inches between a size and its double."""
        return (self.right - self.left) / max(1.0, math.log2(self.last / self.first))

    def at(self, size_b: float) -> float:
        """Return where a size lies on the axis: octaves above the first."""
        return math.log2(size_b / self.first)

    def inch(self, size_b: float) -> float:
        """Return where a size lies in inches of the sheet."""
        return self.left + self.octave_in * self.at(size_b)

    def panel(self, sheet: Sheet, top: float, bottom: float, air: float) -> Axes:
        """Return axes over this axis, from its edge to `air` inches beyond the last size."""
        axes = sheet.panel(self.edge, top, self.right + air, bottom)
        axes.set_xlim((self.edge - self.left) / self.octave_in, self.at(self.last) + air / self.octave_in)
        return axes

    def write(self, axes: Axes, sizes: Sequence[int], letters: float) -> None:
        """Write the sizes below a panel: the ends first, then those that fit."""
        order = [*dict.fromkeys([sizes[0], sizes[-1], *sizes[::-1]])]
        placed = [(self.at(size), tick_text(size)) for size in order]
        before = self.left - self.edge
        kept = scales.fit(placed, lambda at: before + at * self.octave_in, letters, self.right - self.edge + 0.3)
        scales.set_ticks(axes.xaxis, [placed[k][0] for k in kept], [placed[k][1] for k in kept])


@dataclass(frozen=True)
class Look:
    """How one series is drawn: `style` of its marks, `dash` of its line, `order` among those that share its shade."""

    style: palette.VerdictStyle
    dash: str | tuple[int, tuple[float, ...]]
    order: int

    @property
    def shade(self) -> str:
        """The colour of marks and line: a shade of ink, as no verdict is drawn."""
        return self.style.fill


def looks(found: PageSizeResult) -> dict[str, Look]:
    """Return series -> its look: shade and marker tell the front (the last one is darkest), dashes the tier."""
    fronts = list(dict.fromkeys(front_of(found, one) for one in found.curves.series))[::-1]
    given: dict[str, Look] = {}
    for one in found.curves.series:
        front = fronts.index(front_of(found, one))
        order = sum(look.style.fill == SHADES[front % 4] for look in given.values())
        style = palette.VerdictStyle(SHADES[front % 4], SHADES[front % 4], "", MARKERS[front % 4], hollow=True)
        given[one.name] = Look(style, DASHES[order % 4], order)
    return given


def front_of(found: PageSizeResult, series: PageSizeSeries) -> tuple[object, ...]:
    """Return the levels of a series without that of its tier: what stands in front of it."""
    tier = found.tiers.factor if found.tiers else None
    return tuple(level for name, level in series.levels.items() if name != tier)


STRIP_IN, KNEE_PT = 0.185, 8.4
NOTHING, UNWATCHED = "–", "?"
AMBER = ("N", "D")  # the ceiling's colour, and the tool's fault


def draw_labels(
    sheet: Sheet, axis: SizeAxis, names: dict[str, str], given: dict[str, Look], found: PageSizeResult,
    per: Callable[[float], float], limits: tuple[float, float], top: float, height: float,
) -> None:  # fmt: skip
    """Write each series at the left end of its curve, its knee below its name."""
    low, high = (math.log(limit) for limit in limits)
    wanted = [top + height * (high - _left_end(found, one, per, low)) / (high - low) for one in found.curves.series]
    boxes = [line_in(sheet.size, 2) + 0.03] * len(wanted)
    places = pushed_apart(wanted, boxes, top - 0.1, top + height)
    left, room = axis.edge + 0.1, axis.left - axis.edge - 0.42
    for one, at, y in zip(found.curves.series, wanted, places, strict=True):
        look, fit = given[one.name], found.curves.fits[one.name]
        name = shortened(names[one.name], room, sheet.size, True)
        sheet.text(left, y - 0.08, name, bold=True, colour=palette.INK)
        knee = f"knee {words.knee_text(fit, tick=True)}" if isinstance(fit, TwoRegimeCurve) else "no curve"
        sheet.text(left, y + 0.075, shortened(knee, room + 0.1, KNEE_PT), colour=palette.SOFT, size=KNEE_PT)
        end = axis.left - 0.14
        sheet.line([end - 0.2, end], [y - 0.04, at], look.shade, 0.7)


def _left_end(found: PageSizeResult, series: PageSizeSeries, per: Callable[[float], float], otherwise: float) -> float:
    """Return the log of a curve, or of its trials where it does not reach that far, at the axis's left end."""
    fit, size = found.curves.fits[series.name], min(series.arms)
    if isinstance(fit, TwoRegimeCurve) and fit.sizes_b[0] <= size:
        return math.log(fit.rate_at(size).value * per(size))
    own = found.values.loc[found.values["treatment"] == series.arms[size], "value"]
    middle = float(own[own > 0].median())
    return math.log(middle * per(size)) if middle > 0 else otherwise


def draw_key(sheet: Sheet, names: dict[str, str], given: dict[str, Look], found: PageSizeResult) -> None:
    """Write the series above the panel, one a line, where labels have no room beside the curves."""
    for k, one in enumerate(found.curves.series):
        y, fit, look = 0.37 + k * line_in(8.6), found.curves.fits[one.name], given[one.name]
        _sample(sheet, 0.05, 0.35, y, look)
        knee = f"  knee {words.knee_text(fit, tick=True)}" if isinstance(fit, TwoRegimeCurve) else "  no curve"
        name = shortened(names[one.name], sheet.width - 0.55 - text_width(knee, 7.6), 8.2, True)
        sheet.text(0.45, y, name, bold=True, size=8.2)
        sheet.text(0.45 + text_width(name, 8.2, True), y, knee, size=7.6, colour=palette.SOFT)


def draw_strip(
    sheet: Sheet, axis: SizeAxis, names: dict[str, str], given: dict[str, Look], found: PageSizeResult, top: float
) -> None:  # fmt: skip
    """Write one letter per size and series: what the traces name as the bottleneck."""
    sheet.text(0.05, top - 0.13, "full:" if sheet.narrow else "full, by the traces:", size=8.2, colour=palette.SOFT)
    for k, one in enumerate(found.curves.series):
        y = top + 0.1 + k * STRIP_IN
        if k % 2 == 0:
            sheet.box(0.02, y - STRIP_IN / 2, sheet.width - 0.02, y + STRIP_IN / 2, palette.TINT)
        _sample(sheet, 0.06, 0.32, y, given[one.name])
        if not sheet.narrow:
            name = shortened(names[one.name], axis.left - 0.65, 8.4)
            sheet.text(0.4, y, name, size=8.4, colour=palette.SOFT)
        for size, arm in one.arms.items():
            letter = letter_of(found, arm)
            colour = (
                palette.DOUBT_TEXT if letter in AMBER else palette.INK if letter in BOTTLENECK_NAMES else palette.SOFT
            )
            if letter in AMBER:
                at, half = axis.inch(size), min(0.11, axis.octave_in / 2 - 0.01)
                sheet.box(at - half, y - 0.08, at + half, y + 0.08, palette.DOUBT_BOX)
            sheet.text(
                axis.inch(size), y, letter, bold=letter in BOTTLENECK_NAMES, colour=colour, at="center", size=8.6
            )


def _sample(sheet: Sheet, left: float, right: float, y: float, look: Look) -> None:
    """Draw a piece of a series' line with its mark."""
    dotted = np.arange(left, right, 0.05) if look.order else [left]
    for x in dotted:
        sheet.line([x, x + 0.025 if look.order else right], [y, y], look.shade, 1.4)
    sheet.mark((left + right) / 2, y, look.style, 4.8)


def letter_of(found: PageSizeResult, treatment: str) -> str:
    """Return the letter of what limited a treatment; a dash where nothing watched was full, ? where nobody watched."""
    return (found.bottlenecks[treatment] or NOTHING) if treatment in found.bottlenecks else UNWATCHED


TICKS_IN, AIR_IN, PANEL_IN = 0.62, 0.22, 2.75
SPREAD = 0.3  # octaves over which the trials of one size are laid side by side, by block


@in_house_style
def draw(found: PageSizeResult, by: str = "rate", narrow: bool = False) -> Figure:
    """Draw every trial, the fitted curves with their bands, knees and the ceiling; below, what limits each point.

    Parameters
    ----------
    by : "rate" for answers per second, "bytes" for the page's bytes per second.
    """
    names = {one.name: drawable(one.name, f"series {k}") for k, one in enumerate(found.curves.series, 1)}
    given, per = looks(found), (lambda size: size) if by == "bytes" else (lambda size: 1.0)
    head = 0.36 + (len(names) * line_in(8.6) + 0.08 if narrow else 0.0)
    strip = STRIP_IN * len(names) + 0.24
    tiers = tier_ratios.height_in(found) if by == "rate" else 0.0
    sheet = Sheet(narrow, head + PANEL_IN + 0.3 + strip + tiers + 0.2)
    axis = _axis(found, sheet, list(names.values()))
    axes = axis.panel(sheet, head, head + PANEL_IN, AIR_IN)
    limits = _limits(found, per)
    unit = scales.unit_for(get_metric("bytes_per_s" if by == "bytes" else "ok_per_s"), limits[1])
    scales.values_on_y(axes, limits, unit, PANEL_IN)
    axis.write(axes, found.curves.sizes_b, sheet.size)
    for one in found.curves.series:
        _draw_trials(axes, axis, found, one, given[one.name], per)
        curve = found.curves.fits[one.name]
        if isinstance(curve, TwoRegimeCurve):
            _draw_curve(axes, axis, curve, given[one.name], per)
    _draw_ceiling(sheet, axes, axis, found, per, limits, head)
    title = ("page bytes" if by == "bytes" else "ok responses") + ("/s" if narrow else " per second")
    words_of_axis = "(log, does not start at 0)" if narrow else "(log scale, does not start at 0)"
    sheet.text(0.05, 0.16, f"{title}{f', {unit.words}' if unit.words else ''} {words_of_axis}")
    if narrow:
        draw_key(sheet, names, given, found)
    else:
        draw_labels(sheet, axis, names, given, found, per, limits, head, PANEL_IN)
    below = head + PANEL_IN + 0.32
    draw_strip(sheet, axis, names, given, found, below)
    if found.tiers and tiers:
        tier_ratios.draw_below(sheet, axis, found, given, below + strip)
    foot = f"page size (log scale; K = 1,024{NBSP}B)"
    sheet.text(sheet.width / 2, sheet.height - 0.12, foot, colour=palette.SOFT, at="center", size=sheet.size - 0.4)
    return sheet.figure


def _axis(found: PageSizeResult, sheet: Sheet, names: list[str]) -> SizeAxis:
    """Return the axis of sizes, with room for the names at its left where the sheet is wide."""
    knees = [words.knee_text(curve, tick=True) for curve in found.curves.curves.values()]
    needed = max(widest(names, sheet.size, True), widest([f"knee {knee}" for knee in knees], KNEE_PT))
    zone = 0.25 if sheet.narrow else min(2.3, max(needed, 1.1)) + 0.45
    sizes = found.curves.sizes_b or [1, 2]
    return SizeAxis(sizes[0], sizes[-1], TICKS_IN, TICKS_IN + zone, sheet.width - AIR_IN - 0.1)


def _limits(found: PageSizeResult, per: Callable[[float], float]) -> tuple[float, float]:
    arms = {arm: size for one in found.curves.series for size, arm in one.arms.items()}
    own = found.values[found.values["treatment"].isin(list(arms))]
    return scales.value_range(own["value"] * own["treatment"].map(arms).map(per).astype(float), 0.08)


def _draw_trials(
    axes: Axes, axis: SizeAxis, found: PageSizeResult, series: PageSizeSeries, look: Look, per: Callable[[float], float]
) -> None:
    """Draw one hollow mark per trial, beside each other by block; a cross for those that do not count."""
    valid, last = usable_mask(found.values), max(1, int(found.values["block"].max()))
    for size, arm in series.arms.items():
        own = found.values[(found.values["treatment"] == arm) & (found.values["value"] > 0)]
        xs = axis.at(size) + SPREAD * ((own["block"].to_numpy(float) - 0.5) / last - 0.5)
        ys, good = np.log(own["value"].to_numpy(float) * per(size)), valid[own.index].to_numpy(bool)
        axes.plot(xs[good], ys[good], **mark_props(look.style, 4.2) | {"markeredgewidth": 0.8}, zorder=3)
        axes.plot(xs[~good], ys[~good], "x", color=palette.OTHERS, markersize=4, markeredgewidth=0.9, zorder=3)


def _draw_curve(axes: Axes, axis: SizeAxis, curve: TwoRegimeCurve, look: Look, per: Callable[[float], float]) -> None:
    """Draw the fit, its band, and a tick at the knee with the knee's interval."""
    sizes = np.geomspace(curve.sizes_b[0], curve.sizes_b[-1], 60)
    rates = [curve.rate_at(size) for size in sizes]
    xs, scale = [axis.at(size) for size in sizes], [per(size) for size in sizes]
    low, high = ([math.log(r.interval[k] * s) for r, s in zip(rates, scale, strict=True)] for k in (0, 1))
    axes.fill_between(xs, low, high, color=look.shade, alpha=0.16, linewidth=0, zorder=1)
    middle = [math.log(r.value * s) for r, s in zip(rates, scale, strict=True)]
    axes.plot(xs, middle, color=look.shade, linewidth=1.4, linestyle=look.dash, zorder=2)
    if curve.visible_regime != "both":
        return
    knee = curve.knee_b
    y = math.log(curve.rate_at(knee.value).value * per(knee.value))
    ends = [axis.at(min(max(bound, curve.sizes_b[0]), curve.sizes_b[-1])) for bound in knee.interval]
    axes.plot(ends, [y, y], color=look.shade, linewidth=3.4, solid_capstyle="butt", zorder=4)
    axes.plot([axis.at(knee.value)], [y], "|", color=look.shade, markersize=22, markeredgewidth=2.2, zorder=5)


def ceiling_of(found: PageSizeResult) -> tuple[float, str] | None:
    """Return the ceiling in bytes per second and what it is: the link's, else the highest that a curve approaches."""
    if found.link_bytes_per_s:
        return found.link_bytes_per_s, f"link, {words.bandwidth_text(found.link_bytes_per_s)}"
    fitted = [c.ceiling_bytes_per_s.value for c in found.curves.curves.values() if c.visible_regime != "request"]
    return (max(fitted), f"fitted ceiling, {words.bandwidth_text(max(fitted))}") if fitted else None


def _draw_ceiling(
    sheet: Sheet, axes: Axes, axis: SizeAxis, found: PageSizeResult, per: Callable[[float], float],
    limits: tuple[float, float], top: float,
) -> None:  # fmt: skip
    """Draw the bandwidth ceiling where it crosses the panel, with its name along the line."""
    known = ceiling_of(found)
    if known is None:
        return
    ceiling, name = known
    low, high = (math.log(limit) for limit in limits)
    sizes = np.geomspace(axis.first / 4, axis.last * 1.12, 400)
    ys = np.log([ceiling / size * per(size) for size in sizes])
    inside = (ys >= low) & (ys <= high) & (sizes >= axis.first)
    if not inside.any():
        return
    xs = np.log2(sizes / axis.first)
    axes.plot(xs[inside], ys[inside], color=palette.DOUBT, linewidth=1.3, linestyle=(0, (5, 2.5)), zorder=2)
    fall = (ys[-1] - ys[0]) / (high - low) * PANEL_IN / ((xs[-1] - xs[0]) * axis.octave_in)
    letters = max(sheet.size - 1, SMALLEST_PT)
    length = text_width(name, letters) * math.cos(math.atan(fall))
    ends = [axis.left + axis.octave_in * x for x in (xs[inside][0], xs[inside][-1])]
    x = max(ends[0] + 0.1, (ends[0] + ends[1] - length) / 2 if fall else ends[1] - length - 0.1)
    if x + length > ends[1] + AIR_IN:
        return
    y = float(np.interp((x - axis.left) / axis.octave_in, xs, ys))
    inch = top + PANEL_IN * (high - y) / (high - low)
    turned = math.degrees(math.atan(fall))
    lift = 0.05 / math.cos(math.atan(fall))
    sheet.text(x, inch - lift, name, size=letters, colour=palette.DOUBT_TEXT, va="baseline", rotation=turned)


def answer(found: PageSizeResult, by: str = "rate") -> str:
    """Return from which size on the network is the limit, or what is instead."""
    return words.headline(found) if by == "rate" else words.bandwidth_headline(found)


def how(found: PageSizeResult, by: str = "rate") -> str:
    """Return how the figure is read."""
    said = (
        "One hollow mark per trial; line: the fit of 1 / rate = cost per request + bytes × cost per byte, with its "
        f"{found.curves.level * 100:g}{NBSP}% band; upright tick: the knee, where both costs are equal, with its "
        "interval. Amber: the bandwidth ceiling, bytes of pages alone. Letters: what the traces name as full: "
    )
    said += (
        "; ".join(f"{letter} {noun}" for letter, noun in BOTTLENECK_NAMES.items())
        + f"; {NOTHING} nothing watched was full"
    )
    said += f"; {UNWATCHED} not watched." if UNWATCHED in _all_letters(found) else "."
    if (~usable_mask(found.values)).any():
        said += " ×: a trial that does not count."
    return said + (f" {tier_ratios.how(found)}" if found.tiers and by == "rate" else "")


def alt(found: PageSizeResult, by: str = "rate") -> str:
    """Return the answer and every curve's numbers in words."""
    curves = " ".join(f"{name}{words.curve_sentence(fit)}" for name, fit in found.curves.fits.items())
    trials = counted(int(usable_mask(found.values).sum()), "trial")
    what = "bytes" if by == "bytes" else "responses"
    return f"Page size against {what} per second, {trials}. {answer(found, by)} {curves}"


def _all_letters(found: PageSizeResult) -> set[str]:
    return {letter_of(found, arm) for one in found.curves.series for arm in one.arms.values()}
