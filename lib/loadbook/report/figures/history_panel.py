"""One panel of a history: the runs of one comparison with their intervals, the levels between changes, the alarm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from loadbook.analyses.history import text as words
from loadbook.analyses.history.compute import EffectPoint, EffectSeries
from loadbook.report import palette
from loadbook.report.figures import scales
from loadbook.report.figures.common import SMALLEST_PT, Sheet, mark_props
from loadbook.report.figures.history_axis import AIR, Axis
from loadbook.report.figures.text import line_in, pushed_apart

DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
CLIP = 2.0  # usual widths of an interval, beyond what most runs gave


def draw_panel(panel: Axes, course: EffectSeries, known: Axis, margin: float, tall: float) -> None:
    """Draw one comparison into axes of this height (inches)."""
    scale = _scale(course, margin)
    panel.set_xlim(-AIR, 1 + AIR)
    panel.set_ylim(scale.low, scale.high)
    ticks = _ticks(scale, tall)
    scales.set_ticks(panel.yaxis, [scales.position(t) for t in ticks], [scales.effect_label(t) for t in ticks])
    for tick in filter(None, ticks):
        panel.axhline(scales.position(tick), color=palette.GRID, linewidth=0.8, zorder=-4)
    low, high = max(scales.position(-margin), scale.low), min(scales.position(margin), scale.high)
    if low < high:
        panel.axhspan(low, high, color=palette.BAND, linewidth=0, zorder=-3)
    if scale.inside(0.0):
        panel.axhline(0.0, color=palette.INK, linewidth=1.0, zorder=-2)
    _levels(panel, course, known)
    size = float(np.clip(60 / max(len(known.places), 1), 3.2, 6.4))
    for point in course.points:
        _point(panel, scale, known.places[point.run], point, size)
    if course.alarm:
        _alarm(panel, scale, known, course, size)


def _scale(course: EffectSeries, margin: float) -> scales.RatioScale:
    """Return the range of the levels and of most runs, with some intervals' width; zero is in it where it is near."""
    logs = [p.effect.log[0] for p in course.points if p.effect.log]
    edge = scales.position(margin)
    if not logs:
        return scales.RatioScale(-3 * edge, 3 * edge)
    ends = [sorted(map(scales.position, p.effect.interval)) for p in course.points if p.effect.interval]
    reach = CLIP * float(np.median([high - low for low, high in ends]))
    usual = [*np.quantile(logs, [0.1, 0.9]), *(stretch.level.mean for stretch in course.segments)]
    limits = [scales.position(course.alarm.limit)] if course.alarm else []
    low = max(min(usual) - reach, min(low for low, _ in [*ends, *zip(limits, limits, strict=True)]))
    high = min(max(usual) + reach, max(high for _, high in [*ends, *zip(limits, limits, strict=True)]))
    if min(abs(low), abs(high)) < 1.5 * max(high - low, 2 * edge):
        low, high = min(low, 0.0), max(high, 0.0)
    air = 0.09 * max(high - low, 2 * edge)
    return scales.RatioScale(low - air, high + air)


def goes_beyond(course: EffectSeries, margin: float) -> bool:
    """Tell whether an interval ends in an arrow head at the panel's edge."""
    scale = _scale(course, margin)
    ends = [scales.position(v) for p in course.points for v in p.effect.interval or () if p.effect.verdict != "invalid"]
    return not all(map(scale.inside, ends))


def _ticks(scale: scales.RatioScale, tall: float) -> list[float]:
    ends = [math.expm1(end) * 100 for end in (scale.low, scale.high)]
    found = np.asarray(MaxNLocator(max(3, round(tall / 0.3)), steps=[1, 2, 5, 10]).tick_values(*ends))
    return [round(float(t), 6) / 100 for t in found if ends[0] <= t <= ends[1] and t > -100]


def _levels(panel: Axes, course: EffectSeries, known: Axis) -> None:
    """Draw a line through the runs of each hosts and question, and over it the levels between changes."""
    for stretch in course.segments:
        points = [course.points[place] for place in stretch.indices]
        xs = [known.places[p.run] for p in points]
        dashes = DASHES[stretch.hosts % len(DASHES)]
        ys = [log[0] for p in points if (log := p.effect.log)]
        panel.plot(xs, ys, color=palette.RULE, linewidth=0.7, linestyle=dashes, zorder=0)
        if len(xs) > 1:
            panel.plot([xs[0], xs[-1]], [stretch.level.mean] * 2, color=palette.INK, linewidth=1.5,
                       linestyle=dashes, zorder=5, solid_capstyle="butt")  # fmt: skip


def _look(point: EffectPoint) -> palette.VerdictStyle:
    if not point.is_included:
        return palette.VerdictStyle(palette.OTHERS, palette.SOFT, "○", "o", hollow=True)
    kinds = {"aa": palette.AA, "control": palette.CONTROL}
    return kinds.get(point.effect.kind) or palette.VERDICTS[point.effect.verdict]


def _point(panel: Axes, scale: scales.RatioScale, x: float, point: EffectPoint, size: float) -> None:
    """Draw one run: mark and interval, or a cross at the foot of the panel where there is no effect."""
    log, look = point.effect.log, _look(point)
    if log is None or point.effect.interval is None or point.effect.verdict == "invalid":
        at = scale.low + 0.06 * (scale.high - scale.low)
        panel.plot([x], [at], marker="x", color=palette.INK, markersize=5, markeredgewidth=1.2, zorder=6)
        return
    ends = [min(max(scales.position(v), scale.low), scale.high) for v in point.effect.interval]
    panel.plot([x, x], ends, color=look.edge, linewidth=0.35 * size, zorder=2, solid_capstyle="butt")
    for end, marker, beyond in zip(ends, "v^", (ends[0] <= scale.low, ends[1] >= scale.high), strict=True):
        if beyond:
            panel.plot([x], [end], marker, color=look.edge, markersize=max(5.0, 0.8 * size), markeredgewidth=0,
                       clip_on=False)  # fmt: skip
    if scale.inside(log[0]):
        panel.plot([x], [log[0]], zorder=4, **mark_props(look, size))
        return
    at, said = (scale.low, "bottom") if log[0] < scale.low else (scale.high, "top")
    panel.text(x - 0.018, at, scales.percent_of(log[0]), ha="right", va=said, fontsize=SMALLEST_PT, color=palette.SOFT)


def _alarm(panel: Axes, scale: scales.RatioScale, known: Axis, course: EffectSeries, size: float) -> None:
    """Draw how far the newest run may go without an alarm, and a ring around it if it went further."""
    assert course.alarm is not None
    x, limit = known.places[course.points[-1].run], scales.position(course.alarm.limit)
    if scale.inside(limit):
        panel.plot([x - 0.012, x + 0.02], [limit] * 2, color=palette.INK, linewidth=1.4, clip_on=False, zorder=5)
    log = course.points[-1].effect.log
    if course.alarm.raised and log:
        at = min(max(log[0], scale.low), scale.high)
        panel.plot([x], [at], "o", markersize=2.1 * max(size, 4.5), markerfacecolor="none",
                   markeredgecolor=palette.INK, markeredgewidth=1.3, zorder=7, clip_on=False)  # fmt: skip


def draw_letters(sheet: Sheet, panel: Axes, course: EffectSeries, place: tuple[float, float, float]) -> None:
    """Write the letter of each set of hosts at the right, at the height of its last level, where there are several."""
    if len({point.hosts for point in course.points}) < 2:
        return
    last = {stretch.hosts: stretch.level.mean for stretch in course.segments}
    (right, top, tall), (low, high) = place, panel.get_ylim()
    wanted = [top + tall * (high - level) / (high - low) for level in last.values()]
    places = pushed_apart(wanted, [line_in(sheet.size)] * len(wanted), top, top + tall)
    for hosts, y in zip(last, places, strict=True):
        sheet.text(right + 0.08, y, words.host_set_letter(hosts), bold=True, size=sheet.size - 0.6)
