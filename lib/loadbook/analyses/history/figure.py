"""The axis of dates: true to time, but for pauses that would squeeze all else and runs that would touch.

One panel of a history: the runs of one comparison with their intervals, the levels between changes, the alarm.

Figure 12, a study through its runs.

In five seconds: did the conclusion change, and what else changed with it?
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from loadbook.analyses.history import text as words
from loadbook.analyses.history.compute import EffectPoint, EffectSeries, StudyHistory
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, join_words
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import (
    NARROW_IN,
    SMALLEST_PT,
    WIDE_IN,
    Sheet,
    counted,
    drawable,
    in_house_style,
    line_in,
    mark_props,
    pushed_apart,
    quantity,
    shortened,
    size_pt,
    text_width,
    wrap,
)
from loadbook.stats.text import margin_text

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
        kept = axes.fit(found, lambda at: at * width_in + OVER_IN, size, width_in + 2 * OVER_IN)
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


DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
CLIP = 2.0  # usual widths of an interval, beyond what most runs gave


def draw_panel(panel: Axes, course: EffectSeries, known: Axis, margin: float, tall: float) -> None:
    """Draw one comparison into axes of this height (inches)."""
    scale = _scale(course, margin)
    panel.set_xlim(-AIR, 1 + AIR)
    panel.set_ylim(scale.low, scale.high)
    ticks = _ticks(scale, tall)
    axes.set_ticks(panel.yaxis, [axes.position(t) for t in ticks], [axes.effect_label(t) for t in ticks])
    for tick in filter(None, ticks):
        panel.axhline(axes.position(tick), color=palette.GRID, linewidth=0.8, zorder=-4)
    low, high = max(axes.position(-margin), scale.low), min(axes.position(margin), scale.high)
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


def _scale(course: EffectSeries, margin: float) -> axes.RatioScale:
    """Return the range of the levels and of most runs, with some intervals' width; zero is in it where it is near."""
    logs = [p.effect.log[0] for p in course.points if p.effect.log]
    edge = axes.position(margin)
    if not logs:
        return axes.RatioScale(-3 * edge, 3 * edge)
    ends = [sorted(map(axes.position, p.effect.interval)) for p in course.points if p.effect.interval]
    reach = CLIP * float(np.median([high - low for low, high in ends]))
    usual = [*np.quantile(logs, [0.1, 0.9]), *(stretch.level.mean for stretch in course.segments)]
    limits = [axes.position(course.alarm.limit)] if course.alarm else []
    low = max(min(usual) - reach, min(low for low, _ in [*ends, *zip(limits, limits, strict=True)]))
    high = min(max(usual) + reach, max(high for _, high in [*ends, *zip(limits, limits, strict=True)]))
    if min(abs(low), abs(high)) < 1.5 * max(high - low, 2 * edge):
        low, high = min(low, 0.0), max(high, 0.0)
    air = 0.09 * max(high - low, 2 * edge)
    return axes.RatioScale(low - air, high + air)


def goes_beyond(course: EffectSeries, margin: float) -> bool:
    """Tell whether an interval ends in an arrow head at the panel's edge."""
    scale = _scale(course, margin)
    ends = [axes.position(v) for p in course.points for v in p.effect.interval or () if p.effect.verdict != "invalid"]
    return not all(map(scale.inside, ends))


def _ticks(scale: axes.RatioScale, tall: float) -> list[float]:
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


def _point(panel: Axes, scale: axes.RatioScale, x: float, point: EffectPoint, size: float) -> None:
    """Draw one run: mark and interval, or a cross at the foot of the panel where there is no effect."""
    log, look = point.effect.log, _look(point)
    if log is None or point.effect.interval is None or point.effect.verdict == "invalid":
        at = scale.low + 0.06 * (scale.high - scale.low)
        panel.plot([x], [at], marker="x", color=palette.INK, markersize=5, markeredgewidth=1.2, zorder=6)
        return
    ends = [min(max(axes.position(v), scale.low), scale.high) for v in point.effect.interval]
    panel.plot([x, x], ends, color=look.edge, linewidth=0.35 * size, zorder=2, solid_capstyle="butt")
    for end, marker, beyond in zip(ends, "v^", (ends[0] <= scale.low, ends[1] >= scale.high), strict=True):
        if beyond:
            panel.plot([x], [end], marker, color=look.edge, markersize=max(5.0, 0.8 * size), markeredgewidth=0,
                       clip_on=False)  # fmt: skip
    if scale.inside(log[0]):
        panel.plot([x], [log[0]], zorder=4, **mark_props(look, size))
        return
    at, said = (scale.low, "bottom") if log[0] < scale.low else (scale.high, "top")
    panel.text(x - 0.018, at, axes.percent_of(log[0]), ha="right", va=said, fontsize=SMALLEST_PT, color=palette.SOFT)


def _alarm(panel: Axes, scale: axes.RatioScale, known: Axis, course: EffectSeries, size: float) -> None:
    """Draw how far the newest run may go without an alarm, and a ring around it if it went further."""
    assert course.alarm is not None
    x, limit = known.places[course.points[-1].run], axes.position(course.alarm.limit)
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


Marks = Mapping[str, tuple[str, ...]]
LEFT_IN, RIGHT_IN, TALL_IN, NARROW_TALL_IN, GAP_IN, FOOT_IN = 0.72, 0.3, 1.15, 1.05, 0.12, 0.52
PAUSE_IN = 0.18
HEAD_IN = 0.3  # the numbers of the marks
MOST_PANELS, MOST_MARKS = 12, 8


@in_house_style
def draw(history: StudyHistory, marks: Marks, narrow: bool = False) -> Figure:
    """Draw each comparison's effect by date, with the levels between changes, and lines where conditions changed.

    `marks` has run -> what is recorded otherwise than in the run before it on the same hosts, in words.
    """
    shown, known = panels(history), _axis(history)
    key = _key_lines(history, marks, known, narrow)
    title, tall = line_in(size_pt(narrow), 2 if narrow else 1) + 0.09, NARROW_TALL_IN if narrow else TALL_IN
    each = title + tall + GAP_IN
    foot = FOOT_IN + (PAUSE_IN if known.pauses else 0.0)
    sheet = Sheet(narrow, HEAD_IN + each * len(shown) + foot + line_in(size_pt(narrow), len(key)) + 0.04)
    left, right = LEFT_IN, (NARROW_IN if narrow else WIDE_IN) - RIGHT_IN
    tops = [HEAD_IN + number * each + title for number in range(len(shown))]
    for course, top in zip(shown, tops, strict=True):
        panel = sheet.panel(left, top, right, top + tall)
        _title(sheet, course, top - title, (left, right))
        draw_panel(panel, course, known, history.margin, tall)
        draw_letters(sheet, panel, course, (right, top, tall))
        panel.set_xticks([])
    _lines(
        sheet, _marked(marks, known), known, (left, right), [(HEAD_IN - 0.06, HEAD_IN), *((t, t + tall) for t in tops)]
    )
    _dates(sheet, known, (left, right, tops[-1] + tall))
    for number, line in enumerate(key):
        at = sheet.height - line_in(sheet.size, len(key) - number) - 0.04
        sheet.text(0.08, at, line, size=sheet.size - 0.6, va="top")
    return sheet.figure


def panels(history: StudyHistory) -> list[EffectSeries]:
    """Return the comparisons that are drawn: all, or of very many those that alarm or changed, then the first ones."""
    order = sorted(history.series, key=lambda c: not (c.changed_segments or (c.alarm and c.alarm.raised)))
    kept = order[:MOST_PANELS]
    return [course for course in history.series if course in kept]


def _axis(history: StudyHistory) -> Axis:
    there = {point.run for course in history.series for point in course.points}
    return axis({seen.run: seen.started for seen in history.runs if seen.run in there})


def _title(sheet: Sheet, course: EffectSeries, y: float, edges: tuple[float, float]) -> None:
    """Write the comparison's name, and at the right the level at which it stands, or that the newest run is worse."""
    now = words.current_segment(course)
    said = words.level_text(now) if now else "no run counts"
    alarm = bool(course.alarm and course.alarm.raised)
    size, line = sheet.size, line_in(sheet.size)
    width = text_width(said, size - 0.6) if not sheet.narrow else 0.0
    flag = "▼ newest run worse  " if alarm else ""
    room = edges[1] - 0.08 - width - text_width(flag, size, bold=True)
    name = shortened(drawable(course.label, course.treatment), room - 0.2, size, bold=True)
    sheet.text(0.08, y + line / 2, name, bold=course.kind == "treatment")
    at = edges[1] - width
    if flag:
        sheet.text(at, y + line / 2, flag, bold=True, colour=palette.VERDICTS["worse"].text, at="right")
    where = (0.08, y + 1.5 * line, "left") if sheet.narrow else (edges[1], y + line / 2, "right")
    sheet.text(where[0], where[1], said, size=size - 0.6, colour=palette.SOFT, at=where[2])  # type: ignore[arg-type]


def _lines(
    sheet: Sheet, marked: list[str], known: Axis, edges: tuple[float, float], spans: list[tuple[float, float]]
) -> None:
    """Draw a hairline through all panels for each mark and each cut pause, with its number or length on top."""
    left, right = edges
    places = [_inch(known.between(run), left, right) for run in marked]
    for at in places:
        for span in spans:
            sheet.line([at, at], span, palette.SOFT, 0.7)
    for at, number in _numbers(places, sheet.size - 0.6, (left, right)):
        sheet.text(at, HEAD_IN - 0.14, number, size=sheet.size - 0.6, at="center", bold=True)
    for place, said in known.pauses:
        at = _inch(place, left, right)
        for top, bottom in spans[1:]:
            sheet.box(at - 0.05, top, at + 0.05, bottom, palette.BLOCK_TINT)
        sheet.text(at, spans[-1][1] + 0.1, f"// {said}", size=sheet.size - 1.2, at="center", colour=palette.SOFT)


def _numbers(places: list[float], size: float, edges: tuple[float, float]) -> list[tuple[float, str]]:
    """Return where the numbers of these lines stand: pushed apart, or of very many those that do not touch."""
    texts = [(at, str(number)) for number, at in enumerate(places, 1)]
    widths = [text_width(text, size, bold=True) + 0.05 for _, text in texts]
    if sum(widths) <= edges[1] - edges[0]:
        apart = pushed_apart(places, widths, edges[0] - 0.1, edges[1] + 0.1)
        return [(at, text) for at, (_, text) in zip(apart, texts, strict=True)]
    return [texts[k] for k in axes.fit(texts, lambda at: at - edges[0], size, edges[1] - edges[0])]


def _inch(at: float, left: float, right: float) -> float:
    """Return where a place of the axis of dates lies on the sheet."""
    return left + (right - left) * (at + AIR) / (1 + 2 * AIR)


def _marked(marks: Marks, known: Axis) -> list[str]:
    return [run for run in known.places if marks.get(run)]


def _dates(sheet: Sheet, known: Axis, place: tuple[float, float, float]) -> None:
    left, right, bottom = place
    down = PAUSE_IN if known.pauses else 0.04
    for at, label in known.ticks((right - left) / (1 + 2 * AIR), sheet.size):
        x = _inch(at, left, right)
        sheet.line([x, x], [bottom, bottom + 0.05], palette.RULE, 0.8)
        sheet.text(x, bottom + down + 0.1, label, colour=palette.SOFT, at="center")
    sheet.text((left + right) / 2, bottom + down + 0.3, known.title, colour=palette.SOFT, at="center")


def _key_lines(history: StudyHistory, marks: Marks, known: Axis, narrow: bool) -> list[str]:
    """Return what each numbered line stands for, in lines that fit."""
    width, size = (NARROW_IN if narrow else WIDE_IN) - 0.16, size_pt(narrow) - 0.6
    found = _marked(marks, known)
    lines = []
    for number, run in enumerate(found[:MOST_MARKS], 1):
        said = drawable(f"{number}  {words.date_text(known.times[run])}: {'; '.join(marks[run])}", run)
        lines += wrap(said, width, size, lines=3 if narrow else 2).split("\n")
    if len(found) > MOST_MARKS:
        lines.append(f"and {counted(len(found) - MOST_MARKS, 'other change')} of conditions: see the table of runs")
    return lines


def answer(history: StudyHistory, marks: Marks) -> str:
    """Return whether the newest run is worse than its past, and whether effects changed."""
    return words.headline(history)


def how(history: StudyHistory, marks: Marks) -> str:
    """Return how the figure is read, naming only what it has."""
    points = [point for course in history.series for point in course.points]
    said = [
        f"One mark is one run, in the colour of its verdict, with the interval of its report: the change in "
        f"{quantity(get_metric(history.metric))}, a ratio on a log scale, each panel with a range of its own",
        "ink line: the mean of the runs of one level (random effects)",
    ]
    if any(course.alarm for course in history.series):
        said.append("short line at the newest run: beyond it, that run would raise an alarm")
    if marks:
        said.append("numbered lines: recorded conditions changed")
    if len({point.hosts for point in points}) > 1:
        said.append("letters: hosts, whose runs are never held together")
    if any(not point.is_included for point in points):
        said.append("hollow grey, or a cross at the foot: the run does not count, for the reason in the table")
    if _axis(history).pauses:
        said.append("grey strip: a longer pause, cut")
    if any(goes_beyond(course, history.margin) for course in panels(history)):
        said.append("arrow head: it goes on beyond the panel")
    said.append(f"shaded: differences below ±{margin_text(history.margin)}")
    left = len(history.series) - len(panels(history))
    drawn = f" {counted(left, 'other comparison')} are not drawn; the table has them." if left else ""
    return f"{'; '.join(said)}. {words.method_sentence(history)}{drawn}"


def alt(history: StudyHistory, marks: Marks) -> str:
    """Return the answer, and of every comparison where it stands and what changed."""
    found = _marked(marks, _axis(history))
    told = [f"{course.label} {words.series_sentence(course)}" for course in history.series]
    days = [words.date_text(seen.started) for seen in history.runs if seen.run in found]
    changed = [f"Conditions changed with the runs of {join_words(days)}."] if found else []
    head = f"Effects of {words.run_count_text(len(_axis(history).places))} by date."
    return " ".join([head, answer(history, marks), *told, *changed])
