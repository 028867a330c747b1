"""The axis of page sizes that the panels of figure 6 share, and how its series look: shade and marker by the front.

The words of figure 6: a name at each curve or above them all, and the strip of letters that say what limits.

Figure 6, page size against rate: two regimes, the bandwidth ceiling, and what limits each point.

In five seconds: from which size on is the network the limit, and for whom?
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.analyses.page_size import text as words
from loadbook.analyses.page_size import tier_ratios
from loadbook.analyses.page_size.compute import PageSizeResult, PageSizeSeries, TwoRegimeCurve
from loadbook.analyses.page_size.size_axis import (
    AIR_IN,
    KNEE_PT,
    NOTHING,
    PANEL_IN,
    STRIP_IN,
    TICKS_IN,
    UNWATCHED,
    Look,
    SizeAxis,
    draw_key,
    draw_labels,
    draw_strip,
    letter_of,
    looks,
)
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
    text_width,
    widest,
)
from loadbook.stats.saturation import BOTTLENECK_NAMES
from loadbook.stats.verdict import usable_mask

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
