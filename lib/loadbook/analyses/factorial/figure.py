"""Where two factors meet: one small panel per pair that acts, both levels of both, with intervals.

Figure 9, the effects of a factorial.

In five seconds: which switches matter alone, and does any pair act together?
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.analyses.effects.effect_rows import DECIDED, LANE_IN, NOT_COMPARED, change_text, compared
from loadbook.analyses.factorial.compute import FactorialAnalysis, FactorialEffect, InteractionPlot, effect_row
from loadbook.analyses.factorial.text import (
    INTERACTION_TEXTS,
    factorial_effect_sentence,
    factorial_headline,
    interaction_sentences,
)
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.axes import draw_interval
from loadbook.report.figures.base import (
    NARROW_IN,
    WIDE_IN,
    Sheet,
    confidence,
    drawable,
    in_house_style,
    line_in,
    mark_props,
    pushed_apart,
    quantity,
    shortened,
    size_pt,
    text_width,
    widest,
    wrap,
)
from loadbook.stats.results import Interval
from loadbook.stats.text import direction_words, margin_text

PANEL_IN, WIDTH_IN, LEFT_IN, LABEL_IN = 2.25, 2.4, 0.52, 0.85
LOOKS = {False: palette.AA, True: palette.BASELINE}


def draw_meeting(sheet: Sheet, found: FactorialAnalysis, meeting: InteractionPlot, corner: tuple[float, float]) -> None:
    """Draw one panel of `PANEL_IN` height with its upper left corner there; all panels share their y axis."""
    left, top = corner
    width = NARROW_IN - 0.16 if sheet.narrow else WIDTH_IN
    one, other = (found.factor_labels[name] for name in meeting.effect.names)
    size = sheet.size - 0.6
    title = wrap(drawable(meeting.effect.label, "?"), width, size, True)
    sheet.text(left, top + 0.06, title, size=size, bold=True, va="top")
    top += 0.1 + line_in(size, title.count("\n") + 1)
    metric, limits = get_metric(found.analysis.metric), _limits(found)
    unit = axes.unit_for(metric, limits[1])
    said = axes.value_title(metric, found.analysis.statistic, unit, True)
    said = wrap(said, width, sheet.size - 1.4)
    sheet.text(left, top + 0.02, said, size=sheet.size - 1.4, colour=palette.SOFT, va="top")
    top += 0.12 + line_in(sheet.size - 1.4, said.count("\n") + 1)
    bottom, right = corner[1] + PANEL_IN - 0.56, left + width - LABEL_IN
    panel = sheet.panel(left + LEFT_IN, top, right, bottom)
    axes.values_on_y(panel, limits, unit, bottom - top)
    panel.set_xlim(-0.25, 1.35)
    axes.set_ticks(panel.xaxis, [0, 1], [drawable(level, "?") for level in (one.low, one.high)])
    ends = [_line(panel, meeting, high) for high in (False, True)]
    places = [top + (bottom - top) * (1 - _share(end, limits)) for end in ends]
    places = pushed_apart(places, [line_in(size) + 0.02] * 2, top + 0.1, bottom + 0.05)
    second = shortened(drawable(meeting.effect.names[1], "?"), LABEL_IN + 0.05, size)
    sheet.text(right - 0.06, min(places) - line_in(size) - 0.03, second, size=size, colour=palette.SOFT)
    for place, level, look in zip(places, (other.low, other.high), LOOKS.values(), strict=True):
        label = f"{look.glyph} {shortened(drawable(level, '?'), LABEL_IN - 0.1, size)}"
        sheet.text(right - 0.06, place, label, size=size)
    middle = (left + LEFT_IN + right) / 2
    first = shortened(drawable(meeting.effect.names[0], "?"), 2 * min(middle - left, left + width - middle), size)
    sheet.text(middle, bottom + 0.32, first, size=size, at="center")


def _limits(found: FactorialAnalysis) -> Interval:
    import pandas as pd

    ends = [bound for m in found.interaction_plots for _, interval in m.cell_means.values() for bound in interval]
    return axes.value_range(pd.Series(ends), pad=0.12)


def _share(value: float, limits: Interval) -> float:
    low, high = map(math.log, limits)
    return (math.log(value) - low) / (high - low)


def _line(panel: Axes, meeting: InteractionPlot, high: bool) -> float:
    """Draw the first factor's line at one level of the second; return the value at its right end."""
    points = [meeting.cell_means[(level, high)] for level in (False, True)]
    shift = 0.03 if high else -0.03  # intervals of the two lines do not cover each other
    places = [x + shift for x in (0, 1)]
    panel.plot(places, [math.log(v) for v, _ in points], color=palette.INK, linewidth=1.3, zorder=1)
    for x, (_, interval) in zip(places, points, strict=True):
        panel.plot([x, x], [math.log(b) for b in interval], color=palette.INK, linewidth=2.2, zorder=2)
    panel.plot(places, [math.log(v) for v, _ in points], **mark_props(LOOKS[high], 6.5), zorder=3)
    return points[1][0]


HEAD_IN, FOOT_IN, TITLE_IN, ROW_IN, EDGE_IN = 0.4, 0.72, 0.3, 0.42, 0.05
NAME_IN, SIDE_IN, GAP_IN = 2.2, 2.45, 0.3
MAIN_TITLE, PAIR_TITLE = "each alone, all else averaged", "pairs: change of the first’s effect"


@dataclass(frozen=True)
class Line:
    """One effect: its texts, wrapped, and its height in inches."""

    effect: FactorialEffect
    name: str
    aliases: str
    verdict: str
    change: str
    height: float


@in_house_style
def draw(found: FactorialAnalysis, narrow: bool = False) -> Figure:
    """Draw a row per main effect and per pair; beside them, where a pair acts, both factors' levels and the metric."""
    groups = [[_factorial_line(found, e, narrow) for e in group] for group in (found.main_effects, found.interactions)]
    rows = sum(line.height for group in groups for line in group) + TITLE_IN * sum(map(bool, groups))
    panels = len(found.interaction_plots) * PANEL_IN
    bottom = HEAD_IN + rows
    height = bottom + FOOT_IN + panels if narrow else max(bottom + FOOT_IN, HEAD_IN + panels)
    sheet = Sheet(narrow, height)
    edges = _edges(found, [line for group in groups for line in group], narrow)
    panel, scale = sheet.panel(edges[0], HEAD_IN, edges[1], bottom), _scale(found)
    panel.set_ylim(bottom, HEAD_IN)
    panel.set_yticks([])
    margin = found.analysis.margin
    ticks = axes.ratio_axis(panel, scale, edges[1] - edges[0], sheet.size, margin)
    if not narrow:
        axes.ratio_ground(panel, margin, ticks, HEAD_IN, bottom)
    _head(sheet, found, scale, edges)
    _draw_groups(sheet, panel, scale, margin, ticks, groups, edges)
    title = f"change in {quantity(get_metric(found.analysis.metric), found.analysis.statistic)} (ratio, log scale)"
    title = wrap(f"{title}, {found.blocks}{NBSP}blocks", max(edges[1] - edges[0], 3.0), sheet.size)
    middle = sheet.width / 2 if narrow else max((edges[0] + edges[1]) / 2, 1.6)
    sheet.text(middle, bottom + 0.28, title, colour=palette.SOFT, at="center", va="top")
    left = 0.08 if narrow else WIDE_IN - SIDE_IN
    for number, meeting in enumerate(found.interaction_plots):
        top = (bottom + FOOT_IN if narrow else 0.1) + number * PANEL_IN
        draw_meeting(sheet, found, meeting, (left, top))
    return sheet.figure


def _factorial_line(found: FactorialAnalysis, effect: FactorialEffect, narrow: bool) -> Line:
    size, row = size_pt(narrow), effect_row(effect)
    room = NARROW_IN - 0.16 if narrow else NAME_IN
    name = wrap(drawable(effect.label, "?"), room, size, True)
    aliases = wrap("or " + ", or ".join(effect.aliases), room, size - 1.2, lines=3) if effect.aliases else ""
    tall = line_in(size, name.count("\n") + 1)
    tall += line_in(size - 1.2, aliases.count("\n") + 1) if aliases else 0.0
    said = change_text(row, blocks=False)
    if narrow:
        said = said if compared(row) else wrap(said, room, size - 0.6, lines=3)
        under = line_in(size, said.count("\n") + 1)
        return Line(effect, name, aliases, verdict_text(found, effect), said, tall + under + LANE_IN + 0.14)
    said = said if compared(row) else wrap(said, NAME_IN - 0.1, size - 0.8, lines=3)
    under = line_in(size, said.count("\n") + 2)
    return Line(effect, name, aliases, verdict_text(found, effect), said, max(ROW_IN, tall + 0.1, under + 0.08))


def verdict_text(found: FactorialAnalysis, effect: FactorialEffect) -> str:
    """Return glyph and word; a pair is better or worse together, not faster or slower."""
    row, kind = effect_row(effect), effect.verdict.kind
    plain = palette.row_word(row, get_metric(found.analysis.metric))
    return f"{palette.row_glyph(row)} {INTERACTION_TEXTS.get(kind, plain) if len(effect.names) == 2 else plain}"


def _edges(found: FactorialAnalysis, lines: Sequence[Line], narrow: bool) -> tuple[float, float]:
    """Return where the plot begins and ends: between names and verdicts, before the panels of the pairs."""
    if narrow:
        return 0.08, NARROW_IN - 0.08
    size = size_pt(False)
    names = max(widest([line.name for line in lines], size, True), widest([ln.aliases for ln in lines], size - 1.2))
    said = max(
        widest([line.verdict for line in lines], size, True),
        widest([line.change for line in lines], size),
        text_width(_change_head(found), size - 0.6),
    )
    side = SIDE_IN + GAP_IN if found.interaction_plots else EDGE_IN
    return max(names, 1.95) + 0.22, WIDE_IN - side - said - 0.14


def _scale(found: FactorialAnalysis) -> axes.RatioScale:
    shown = [e.verdict for e in found.effects if compared(effect_row(e))]
    intervals = [bounds for v in shown if (bounds := v.comparison.ci_family or v.comparison.ci95)]
    decided = [v.comparison.effect or 0.0 for v in shown if v.kind in DECIDED]
    return axes.ratio_scale(intervals, [], decided, found.analysis.margin)


def _head(sheet: Sheet, found: FactorialAnalysis, scale: axes.RatioScale, edges: tuple[float, float]) -> None:
    """Write what left and right mean and, at zero, the margin."""
    size, (left, right) = sheet.size - 0.6, edges
    above, below, _ = direction_words(found.analysis.metric)
    margin = f"margin ±{margin_text(found.analysis.margin)}"
    half = text_width(margin, size) / 2
    middle = min(max(scale.inch(0, left, right), left + half), right - half)
    sheet.text(middle, HEAD_IN - 0.08, margin, size=size, colour=palette.SOFT, at="center", va="baseline")
    y = HEAD_IN - 0.08 - line_in(size)
    sheet.text(left, y, f"← {below}", size=size, colour=palette.SOFT, va="baseline")
    sheet.text(right, y, f"{above} →", size=size, colour=palette.SOFT, at="right", va="baseline")
    if not sheet.narrow:
        sheet.text(right + 0.12, HEAD_IN - 0.08, _change_head(found), size=size, colour=palette.SOFT, va="baseline")


def _change_head(found: FactorialAnalysis) -> str:
    return f"change ({confidence(found.analysis)} interval)"


def _draw_groups(
    sheet: Sheet, panel: Axes, scale: axes.RatioScale, margin: float, ticks: list[float],
    groups: Sequence[Sequence[Line]], edges: tuple[float, float],
) -> None:  # fmt: skip
    y = HEAD_IN
    for title, group in zip((MAIN_TITLE, PAIR_TITLE), groups, strict=True):
        if group:
            sheet.text(EDGE_IN, y + 0.17, title, size=sheet.size - 0.6, colour=palette.SOFT)
            sheet.rule(EDGE_IN, edges[0] - 0.1 if not sheet.narrow else sheet.width - EDGE_IN, y + TITLE_IN - 0.02)
            y += TITLE_IN
        for line in group:
            lane = y + line.height - LANE_IN / 2 - 0.06 if sheet.narrow else y + line.height / 2
            row = effect_row(line.effect)
            if sheet.narrow and compared(row):
                axes.ratio_ground(panel, margin, ticks, lane - LANE_IN / 2, lane + LANE_IN / 2)
            if compared(row):
                draw_interval(panel, scale, lane, row, line.effect.verdict.comparison, tick=0.075)
            (_narrow_texts if sheet.narrow else _wide_texts)(sheet, line, y, edges)
            y += line.height


def _wide_texts(sheet: Sheet, line: Line, y: float, edges: tuple[float, float]) -> None:
    middle, row, left = y + line.height / 2, effect_row(line.effect), edges[0] - 0.14
    if line.aliases:
        tall = line_in(sheet.size, line.name.count("\n") + 1) + line_in(sheet.size - 1.2, line.aliases.count("\n") + 1)
        sheet.text(left, middle - tall / 2, line.name, bold=True, at="right", va="top")
        small = sheet.size - 1.2
        sheet.text(left, middle + tall / 2, line.aliases, size=small, colour=palette.SOFT, at="right", va="bottom")
    else:
        sheet.text(left, middle, line.name, bold=True, at="right")
    size = sheet.size if compared(row) else sheet.size - 0.8
    half = (line_in(sheet.size) + line_in(size, line.change.count("\n") + 1)) / 2
    right = edges[1] + 0.12
    sheet.text(right, middle - half, line.verdict, bold=True, colour=palette.row_text_colour(row), va="top")
    sheet.text(right, middle + half, line.change, size=size, va="bottom")


def _narrow_texts(sheet: Sheet, line: Line, y: float, edges: tuple[float, float]) -> None:
    row, at = effect_row(line.effect), y + 0.04
    sheet.text(edges[0], at, line.name, bold=True, va="top")
    at += line_in(sheet.size, line.name.count("\n") + 1)
    if line.aliases:
        sheet.text(edges[0], at, line.aliases, size=sheet.size - 1.2, colour=palette.SOFT, va="top")
        at += line_in(sheet.size - 1.2, line.aliases.count("\n") + 1)
    if not compared(row):
        said = line.change or NOT_COMPARED
        sheet.text(edges[0], at, said, size=sheet.size - 0.6, italic=True, colour=palette.SOFT, va="top")
        return
    sheet.text(edges[0], at, line.verdict, colour=palette.row_text_colour(row), va="top")
    sheet.text(edges[1], at, line.change, at="right", va="top")


def answer(found: FactorialAnalysis) -> str:
    """Return what single factors do, and whether a pair acts together."""
    first = factorial_headline(found)
    return " ".join([first, *(interaction_sentences(found) if not found.interaction_plots else [])])


def how(found: FactorialAnalysis) -> str:
    """Return how the figure is read, naming only the marks that it has."""
    margin = margin_text(found.analysis.margin)
    said = [f"Thick line: {confidence(found.analysis)} interval"]
    if any(e.verdict.comparison.ci_family for e in found.effects):
        said.append(f"thin line: widened for {len(found.effects)} effects")
    if any(e.verdict.kind in ("equivalent", "small") for e in found.effects):
        said.append(f"short ticks: {confidence(found.analysis, one_sided=True)} interval, which decides equivalence")
    said.append(f"shaded: differences below ±{margin}, declared as too small to matter")
    text = "; ".join(said) + "."
    if any(e.aliases for e in found.effects):
        text += " “or”: this fraction cannot tell these effects apart."
    if found.interaction_plots:
        text += " Panels: pairs whose interval excludes 0; parallel lines would mean that neither changes the other."
    return text


def alt(found: FactorialAnalysis) -> str:
    """Return the answer and every effect's sentence."""
    said = " ".join(factorial_effect_sentence(e, found.factor_labels) for e in found.effects)
    return f"Effects of {len(found.design.names)} factors and their pairs. {answer(found)} {said}"
