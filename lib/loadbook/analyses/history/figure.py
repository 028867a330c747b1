"""Figure of a study's effects in all of its runs, with the recorded conditions that changed.

The time axis is linear, except that long pauses are shortened and simultaneous runs are drawn side by side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from loadbook.analyses.history import compute
from loadbook.analyses.history.compute import EffectPoint, EffectSeries, StudyHistory
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, join_words, pluralize, utc_text
from loadbook.report import palette
from loadbook.report.figures import axes, base
from loadbook.report.figures.rows import write_above
from loadbook.report.ratios import log_ratio_text
from loadbook.stats.text import margin_text

DAY_S = 86400.0
MIN_GAP, MAX_GAP = 0.3, 6.0  # smallest distance of two runs and length of shortened pauses, in units of the usual gap
PADDING = 0.02  # free space before the first and after the last run, as a share of the axis
MONTH_D, YEAR_D = 30.44, 365.25


@dataclass(frozen=True)
class DateAxis:
    """Position of each run, from 0 to 1 (one run: 0.5), and the shortened pauses with their real lengths.

    `times` are starts in epoch seconds; `pauses` are (position, length as text).
    """

    places: Mapping[str, float]
    times: Mapping[str, float]
    pauses: tuple[tuple[float, str], ...]

    def before(self, run: str) -> float:
        """Return the position in the middle between a run and the run before it; its own for the first run."""
        runs = list(self.places)
        previous = runs[max(runs.index(run) - 1, 0)]
        return (self.places[previous] + self.places[run]) / 2

    @property
    def ticks(self) -> dict[float, str]:
        """Position -> date, each date once: of the first run, the last run, then of runs in the largest gaps."""
        runs, form = list(self.places), "%H:%M" if self._is_one_day and len(self.times) > 1 else "%Y-%m-%d"
        dates: dict[str, float] = {}
        for k in _widest_spread(len(runs)):
            dates.setdefault(utc_text(self.times[runs[k]], form), self.places[runs[k]])
        return {place: label for label, place in dates.items()}

    @property
    def _is_one_day(self) -> bool:
        return len({datetime.fromtimestamp(at, UTC).date() for at in self.times.values()}) == 1

    @property
    def title(self) -> str:
        """The title of the axis."""
        if not self._is_one_day or len(self.times) == 1:
            return "date of the run (UTC)"
        first = datetime.fromtimestamp(next(iter(self.times.values())), UTC)
        return f"time of the run on {first:%Y-%m-%d} (UTC)"


def date_axis(times: Mapping[str, float]) -> DateAxis:
    """Return the time axis of runs, given run -> start (epoch seconds), oldest first."""
    runs, gaps = list(times), np.diff(np.array(list(times.values())))
    usual = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1.0
    places = np.concatenate([[0.0], np.cumsum(np.clip(gaps, MIN_GAP * usual, MAX_GAP * usual))])
    places = places / places[-1] if len(runs) > 1 else np.array([0.5])
    cut = np.flatnonzero(gaps > MAX_GAP * usual)
    pauses = tuple((float((places[k] + places[k + 1]) / 2), _pause_text(float(gaps[k]))) for k in cut)
    return DateAxis(dict(zip(runs, map(float, places), strict=True)), dict(times), pauses)


def _pause_text(gap_s: float) -> str:
    days = gap_s / DAY_S
    for length, word in ((YEAR_D, "year"), (MONTH_D, "month"), (1.0, "day")):
        if days >= 0.95 * length:
            return pluralize(round(days / length), word).replace(" ", NBSP)
    return pluralize(max(round(gap_s / 3600), 1), "hour").replace(" ", NBSP)


def _widest_spread(number: int) -> list[int]:
    """Return 0 to number - 1 in an order that spreads widely: both ends, then the middles of the largest gaps."""
    order = list(dict.fromkeys([0, number - 1]))
    step = number - 1
    while step > 1:
        step = (step + 1) // 2
        order += [k for k in range(0, number, step) if k not in order]
    return list(dict.fromkeys([*order, *range(number)]))


DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
CLIP_WIDTHS = 2.0  # an axis extends this many median interval widths beyond the effects of most runs


@dataclass(frozen=True)
class SeriesPanel:
    """The panel of one treatment: each run's interval, the levels between changes, the alarm."""

    series: EffectSeries
    margin: float

    @property
    def scale(self) -> axes.RatioScale:
        """The axis: it contains the levels and most runs with some space around them, and zero if that is near."""
        logs = [p.effect.log[0] for p in self.series.points if p.effect.log]
        edge = axes.log_ratio(self.margin)
        if not logs:
            return axes.RatioScale(-3 * edge, 3 * edge)
        intervals = [sorted(map(axes.log_ratio, p.effect.interval)) for p in self.series.points if p.effect.interval]
        reach = CLIP_WIDTHS * float(np.median([high - low for low, high in intervals]))
        usual = [*np.quantile(logs, [0.1, 0.9]), *(segment.level.mean for segment in self.series.segments)]
        limits = [axes.log_ratio(self.series.alarm.limit)] if self.series.alarm else []
        low = max(min(usual) - reach, min([*(low for low, _ in intervals), *limits]))
        high = min(max(usual) + reach, max([*(high for _, high in intervals), *limits]))
        if min(abs(low), abs(high)) < 1.5 * max(high - low, 2 * edge):
            low, high = min(low, 0.0), max(high, 0.0)
        padding = 0.09 * max(high - low, 2 * edge)
        return axes.RatioScale(low - padding, high + padding)

    @property
    def is_clipped(self) -> bool:
        """Whether an interval is cut at the panel's edge, where it ends in an arrow head."""
        effects = [p.effect for p in self.series.points if p.effect.verdict != "invalid"]
        ends = [axes.log_ratio(bound) for effect in effects for bound in effect.interval or ()]
        return not all(map(self.scale.contains, ends))

    def draw(self, panel: Axes, dates: DateAxis, room_pt: float) -> None:
        """Draw the treatment's history into a panel, with `room_pt` points more room below its title."""
        scale = self.scale
        panel.set_ylim(scale.low, scale.high)
        ends = [math.expm1(end) * 100 for end in (scale.low, scale.high)]
        percents = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(*ends)
        ticks = [round(float(t), 6) / 100 for t in percents if max(ends[0], -99) <= t <= ends[1]]
        axes.set_effect_ticks(panel.yaxis, ticks)
        panel.grid(axis="y", color=palette.GRID, linewidth=0.8)
        panel.set_axisbelow(True)
        low, high = (axes.log_ratio(sign * self.margin) for sign in (-1, 1))
        panel.axhspan(low, high, color=palette.BAND, linewidth=0, zorder=-3)
        panel.axhline(0.0, color=palette.INK, linewidth=1.0, zorder=1)
        self._draw_levels(panel, dates)
        size = float(np.clip(60 / max(len(dates.places), 1), 3.2, 6.4))
        for point in self.series.points:
            _draw_point(panel, scale, dates.places[point.run], point, size)
        if self.series.alarm:
            self._draw_alarm(panel, scale, dates, size)
        self._write_title(panel, 6 + room_pt)

    def _draw_levels(self, panel: Axes, dates: DateAxis) -> None:
        """Draw a line through the runs of each group (same hosts, same question), and over it the levels.

        If there are several sets of hosts, a key has their letters in the order of their last levels.
        """
        last: dict[str, tuple[float, Line2D]] = {}
        for segment in self.series.segments:
            points = [self.series.points[index] for index in segment.indices]
            xs = [dates.places[p.run] for p in points]
            dashes, level = DASHES[segment.hosts % len(DASHES)], segment.level.mean
            ys = [log[0] for p in points if (log := p.effect.log)]
            panel.plot(xs, ys, color=palette.RULE, linewidth=0.7, linestyle=dashes, zorder=0)
            look: Any = {"color": palette.INK, "linewidth": 1.5, "linestyle": dashes, "zorder": 5}
            if len(xs) > 1:
                panel.plot([xs[0], xs[-1]], [level] * 2, **look)
            last[compute.host_set_letter(segment.hosts)] = (level, Line2D([], [], **look))
        if len({point.hosts for point in self.series.points}) > 1:
            order = sorted(last, key=lambda letter: -last[letter][0])
            panel.legend([last[letter][1] for letter in order], order, loc="center left", bbox_to_anchor=(1, 0.5),
                         handlelength=2.2, borderaxespad=0.2, labelspacing=0.2)  # fmt: skip

    def _draw_alarm(self, panel: Axes, scale: axes.RatioScale, dates: DateAxis, size: float) -> None:
        """Draw the limit beyond which the newest run raises the alarm, and a ring around a run beyond it."""
        alarm, newest = self.series.alarm, self.series.points[-1]
        assert alarm is not None
        x, limit = dates.places[newest.run], axes.log_ratio(alarm.limit)
        if scale.contains(limit):
            panel.plot([x - 0.012, x + 0.02], [limit] * 2, color=palette.INK, linewidth=1.4, clip_on=False, zorder=5)
        if alarm.raised and newest.effect.log:
            panel.plot([x], [scale.clip(newest.effect.log[0])], "o", markersize=2.1 * max(size, 4.5),
                       markerfacecolor="none", markeredgecolor=palette.INK, markeredgewidth=1.3, zorder=7,
                       clip_on=False)  # fmt: skip

    def _write_title(self, panel: Axes, pad: float) -> None:
        """Write the treatment's name, and at the right its present level, or that the newest run is worse."""
        series, segment = self.series, compute.current_segment(self.series)
        panel.set_title(self.title, weight="bold" if series.kind == "treatment" else "normal", pad=pad)
        level = compute.level_text(segment) if segment else "no run counts"
        text = panel.set_title(level, loc="right", size=base.SMALL_PT, weight="normal", color=palette.SOFT, pad=pad)
        if series.alarm and series.alarm.raised:
            panel.annotate("▼ newest run worse  ", (0, 0), xycoords=text, ha="right", va="bottom", weight="bold",
                           color=palette.VERDICTS["worse"].text)  # fmt: skip

    @property
    def title(self) -> str:
        """The treatment's name in one or two lines."""
        return base.fold(base.drawable(self.series.label, self.series.treatment), TITLE_LETTERS)


def _draw_point(panel: Axes, scale: axes.RatioScale, x: float, point: EffectPoint, size: float) -> None:
    """Draw one run: mark and interval, or a cross at the foot of the panel if the run has no effect."""
    log, checks = point.effect.log, {"aa": palette.AA, "control": palette.CONTROL}
    style = checks.get(point.effect.kind) or palette.VERDICTS[point.effect.verdict]
    if not point.is_included:
        style = palette.VerdictStyle(palette.OTHERS, palette.SOFT, "○", "o", hollow=True)
    if log is None or point.effect.interval is None or point.effect.verdict == "invalid":
        foot = scale.low + 0.06 * (scale.high - scale.low)
        panel.plot([x], [foot], marker="x", color=palette.INK, markersize=5, markeredgewidth=1.2, zorder=6)
        return
    ends = [scale.clip(axes.log_ratio(bound)) for bound in point.effect.interval]
    panel.plot([x, x], ends, color=style.edge, linewidth=0.35 * size, zorder=2, solid_capstyle="butt")
    for end, marker, is_beyond in zip(ends, "v^", (ends[0] <= scale.low, ends[1] >= scale.high), strict=True):
        if is_beyond:
            panel.plot([x], [end], marker, color=style.edge, markersize=max(5.0, 0.8 * size), markeredgewidth=0,
                       clip_on=False)  # fmt: skip
    if scale.contains(log[0]):
        panel.plot([x], [log[0]], zorder=4, **base.marker_props(style, size))
        return
    y, va = (scale.low, "bottom") if log[0] < scale.low else (scale.high, "top")
    text = log_ratio_text(log[0])
    panel.text(x - 0.018, y, text, ha="right", va=va, fontsize=base.SMALLEST_PT, color=palette.SOFT)


ConditionChanges = Mapping[str, tuple[str, ...]]
PANEL_IN, TITLE_IN, LINE_IN, FOOT_IN = 1.15, 0.27, 0.16, 0.5  # heights: a panel, its title, a line, the date axis
MOST_PANELS, MOST_CHANGES = 12, 8
TITLE_LETTERS, KEY_LETTERS = 36, 105
NUMBERS_PT = 12.0  # height of the numbers of changes
PAUSE, NUMBER_APART = 0.0065, 0.024  # half the width of a pause, distance of two numbers: shares of the axis
DATE_ROOM, PAUSE_ROOM = 2.15, 2.0  # room of a date, of a pause's length, in usual labels


class HistoryFigure(base.ReportFigure):
    """One panel per treatment: its effect by date, levels between changes, and lines at changed conditions.

    `condition_changes`: run -> sentences on the recorded conditions that differ from the previous run on its hosts.
    """

    def __init__(self, history: StudyHistory, condition_changes: ConditionChanges) -> None:
        self.history, self.condition_changes = history, condition_changes
        # if there are too many treatments, those with an alarm or a change are drawn, then the first ones
        order = sorted(history.series, key=lambda s: not (s.changed_segments or (s.alarm and s.alarm.raised)))
        drawn = order[:MOST_PANELS]
        self.panels = [SeriesPanel(series, history.margin) for series in history.series if series in drawn]
        runs = {point.run for series in history.series for point in series.points}
        self.dates = date_axis({run.run: run.started for run in history.runs if run.run in runs})
        self.changed_runs = [run for run in self.dates.places if condition_changes.get(run)]

    def _draw(self) -> base.Drawing:
        key, count = self._key_lines(), len(self.panels)
        second_lines = sum(panel.title.count("\n") for panel in self.panels)
        lines = len(key) + second_lines + bool(self.dates.pauses) + bool(self.changed_runs)
        drawing = base.Drawing((PANEL_IN + TITLE_IN) * count + LINE_IN * lines + FOOT_IN)
        panels: list[Axes] = list(drawing.figure.subplots(count, sharex=True, squeeze=False)[:, 0])
        for panel, series_panel in zip(panels, self.panels, strict=True):
            series_panel.draw(panel, self.dates, NUMBERS_PT if self.changed_runs and panel is panels[0] else 0.0)
            panel.xaxis.set_visible(panel is panels[-1])
        self._set_date_axis(panels[-1])
        self._draw_changes_and_pauses(panels)
        if key:
            drawing.figure.supxlabel("\n".join(key), x=0.01, ha="left", size=base.SMALL_PT)
        return drawing

    def _set_date_axis(self, panel: Axes) -> None:
        """Write the dates for which there is room below a panel, and below them the lengths of shortened pauses."""
        ticks, pauses = self.dates.ticks, {place: f"// {length}" for place, length in self.dates.pauses}
        panel.set_xlim(-PADDING, 1 + PADDING)
        for labels, room, which in ((ticks, DATE_ROOM, "major"), (pauses, PAUSE_ROOM, "minor")):
            formatter = FuncFormatter(lambda at, _, labels=labels: labels.get(at, ""))
            locator = axes.SpacedLocator(list(labels), room)
            panel.xaxis.set(**{f"{which}_locator": locator, f"{which}_formatter": formatter})
        panel.tick_params(axis="x", which="minor", length=0, pad=18, labelsize=base.SMALL_PT)
        panel.set_xlabel(self.dates.title)

    def _draw_changes_and_pauses(self, panels: Sequence[Axes]) -> None:
        """Draw a hairline through all panels for each change of conditions, and a strip for each shortened pause."""
        changes = {self.dates.before(run): str(number) for number, run in enumerate(self.changed_runs, 1)}
        for panel in panels:
            for place in changes:
                panel.axvline(place, color=palette.SOFT, linewidth=0.7, zorder=1)
            for place, _ in self.dates.pauses:
                panel.axvspan(place - PAUSE, place + PAUSE, color=palette.BLOCK_TINT, linewidth=0, zorder=-2)
        last = -math.inf
        for place, number in changes.items():
            if place - last >= NUMBER_APART:
                write_above(panels[0], (place + PADDING) / (1 + 2 * PADDING), number, ha="center",
                            weight="bold", color=palette.INK)  # fmt: skip
                last = place

    def _key_lines(self) -> list[str]:
        """Return the key of the numbered hairlines as lines of text that fit the width."""
        lines = []
        for number, run in enumerate(self.changed_runs[:MOST_CHANGES], 1):
            date, changes = compute.date_text(self.dates.times[run]), "; ".join(self.condition_changes[run])
            lines += base.fold(base.drawable(f"{number}  {date}: {changes}", run), KEY_LETTERS).split("\n")
        more = len(self.changed_runs) - MOST_CHANGES
        if more > 0:
            lines.append(f"and {pluralize(more, 'other change')} of conditions: see the table of runs")
        return lines

    @property
    def caption(self) -> str:
        """Sentences on whether the newest run is worse than earlier runs, and whether effects changed."""
        return compute.headline(self.history)

    @property
    def help(self) -> str:
        """Instructions for reading the figure, limited to the marks that it contains."""
        history = self.history
        points = [point for series in history.series for point in series.points]
        label = base.metric_label(get_metric(history.metric))
        optional = {
            "short line at the newest run: beyond it, that run would raise an alarm": any(
                series.alarm for series in history.series
            ),
            "numbered lines: recorded conditions changed": bool(self.condition_changes),
            "letters: hosts, whose runs are never held together": len({point.hosts for point in points}) > 1,
            "hollow grey, or a cross at the foot: the run does not count, for the reason in the table": any(
                not point.is_included for point in points
            ),
            "grey strip: a longer pause, cut": bool(self.dates.pauses),
            "arrow head: it goes on beyond the panel": any(panel.is_clipped for panel in self.panels),
        }
        parts = [
            "One mark is one run, in the colour of its verdict, with the interval of its report: the change in "
            f"{label}, a ratio on a log scale, each panel with a range of its own",
            "ink line: the mean of the runs of one level (random effects)",
            *(text for text, applies in optional.items() if applies),
            f"shaded: differences below ±{margin_text(history.margin)}",
        ]
        left_out = len(history.series) - len(self.panels)
        note = f" {pluralize(left_out, 'other comparison')} are not drawn; the table has them." if left_out else ""
        return f"{'; '.join(parts)}. {compute.method_sentence(history)}{note}"

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: the level and the changes of every treatment."""
        series = [f"{one.label} {compute.series_sentence(one)}" for one in self.history.series]
        days = [compute.date_text(run.started) for run in self.history.runs if run.run in self.changed_runs]
        changes = [f"Conditions changed with the runs of {join_words(days)}."] if days else []
        head = f"Effects of {pluralize(len(self.dates.places), 'run')} by date."
        return head, " ".join([*series, *changes])
