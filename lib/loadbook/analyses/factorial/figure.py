"""Figure of a factorial study: main effects of factors, interactions of pairs, and interaction plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from loadbook.analyses.effects.figure import EDGE_IN, change_text, interval_help, interval_scale
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
from loadbook.report.figures import axes, base
from loadbook.stats.results import AnalysisRow
from loadbook.stats.text import direction_words, margin_text

HEAD_IN, FOOT_IN, TITLE_IN, ROW_IN = 0.4, 0.72, 0.3, 0.42
NAME_IN, SIDE_IN, GAP_IN = 2.2, 2.45, 0.3
MAIN_TITLE, PAIR_TITLE = "each alone, all else averaged", "pairs: change of the first’s effect"
PANEL_IN, PANEL_WIDTH_IN, PANEL_LEFT_IN, LABEL_IN = 2.25, 2.4, 0.52, 0.85  # sizes of the interaction plots
LEVEL_STYLES = {False: palette.AA, True: palette.BASELINE}  # lines for the second factor at its low and high level
SMALL_PT, ALIAS_PT = base.LETTER_PT - 0.6, base.LETTER_PT - 1.2


@dataclass(frozen=True)
class FactorialLine:
    """One row of the figure: an effect with its wrapped texts, and the row's height in inches."""

    row: AnalysisRow
    name: str
    aliases: str
    verdict: str
    change: str
    height: float

    @property
    def change_pt(self) -> float:
        """The font size of the change, or of the reason why there is none."""
        return base.LETTER_PT if self.row.is_compared else base.LETTER_PT - 0.8


class FactorialFigure(base.ReportFigure):
    """One row per main effect and per pair; beside them an interaction plot for each pair that acts together."""

    def __init__(self, result: FactorialAnalysis) -> None:
        self.result, self.analysis = result, result.analysis
        self.metric = get_metric(self.analysis.metric)
        self.change_head = f"change ({base.level_text(self.analysis)} interval)"

    def _draw(self) -> base.Sheet:
        groups = [[self._line(e) for e in group] for group in (self.result.main_effects, self.result.interactions)]
        lines, plots = [line for group in groups for line in group], self.result.interaction_plots
        bottom = HEAD_IN + sum(line.height for line in lines) + TITLE_IN * sum(map(bool, groups))
        sheet = base.Sheet(max(bottom + FOOT_IN, HEAD_IN + len(plots) * PANEL_IN))
        left, right = self._edges(lines)
        rows = [line.row for line in lines]
        panel, scale = sheet.rows_panel(left, HEAD_IN, right, bottom), interval_scale(rows, self.analysis.margin)
        ticks = axes.set_ratio_axis(panel, scale, right - left, sheet.size, self.analysis.margin)
        axes.draw_ratio_background(panel, self.analysis.margin, ticks, HEAD_IN, bottom)
        self._write_head(sheet, scale, (left, right))
        y = HEAD_IN
        for title, group in zip((MAIN_TITLE, PAIR_TITLE), groups, strict=True):
            if group:
                sheet.text(EDGE_IN, y + 0.17, title, size=SMALL_PT, colour=palette.SOFT)
                sheet.rule(EDGE_IN, left - 0.1, y + TITLE_IN - 0.02)
                y += TITLE_IN
            for line in group:
                middle = y + line.height / 2
                if line.row.is_compared and line.row.verdict:
                    axes.draw_interval(panel, scale, middle, line.row, line.row.verdict.comparison, tick=0.075)
                _write_line(sheet, line, middle, (left, right))
                y += line.height
        title = f"change in {base.metric_label(self.metric, self.analysis.statistic)} (ratio, log scale)"
        title = base.wrap(f"{title}, {self.result.blocks}{NBSP}blocks", max(right - left, 3.0), sheet.size)
        middle = max((left + right) / 2, 1.6)
        sheet.text(middle, bottom + 0.28, title, colour=palette.SOFT, align="center", va="top")
        for number, plot in enumerate(plots):
            self._draw_interaction(sheet, plot, base.WIDTH_IN - SIDE_IN, 0.1 + number * PANEL_IN)
        return sheet

    def _line(self, effect: FactorialEffect) -> FactorialLine:
        row = effect_row(effect)
        name = base.wrap(base.drawable(effect.label, "?"), NAME_IN, base.LETTER_PT, True)
        aliases = base.wrap("or " + ", or ".join(effect.aliases), NAME_IN, ALIAS_PT, lines=3) if effect.aliases else ""
        change = change_text(row, blocks=False)
        change = change if row.is_compared else base.wrap(change, NAME_IN - 0.1, base.LETTER_PT - 0.8, lines=3)
        changes_height = base.text_height(base.LETTER_PT, change.count("\n") + 2)
        height = max(ROW_IN, _names_height(name, aliases) + 0.1, changes_height + 0.08)
        word = palette.row_word(row, self.metric)
        if len(effect.names) == 2:  # a pair is better or worse together, not faster or slower
            word = INTERACTION_TEXTS.get(effect.verdict.kind, word)
        return FactorialLine(row, name, aliases, f"{palette.row_glyph(row)} {word}", change, height)

    def _edges(self, lines: Sequence[FactorialLine]) -> tuple[float, float]:
        """Return left and right edge of the effect plot in inches: between names and verdicts."""
        names = max(
            base.max_text_width([line.name for line in lines], base.LETTER_PT, True),
            base.max_text_width([line.aliases for line in lines], ALIAS_PT),
        )
        results = max(
            base.max_text_width([line.verdict for line in lines], base.LETTER_PT, True),
            base.max_text_width([line.change for line in lines], base.LETTER_PT),
            base.text_width(self.change_head, SMALL_PT),
        )
        side = SIDE_IN + GAP_IN if self.result.interaction_plots else EDGE_IN
        return max(names, 1.95) + 0.22, base.WIDTH_IN - side - results - 0.14

    def _write_head(self, sheet: base.Sheet, scale: axes.RatioScale, edges: tuple[float, float]) -> None:
        """Write above the plot which direction is better or worse and, at zero, the margin."""
        left, right = edges
        above, below, *_ = direction_words(self.analysis.metric)
        margin, y = f"margin ±{margin_text(self.analysis.margin)}", HEAD_IN - 0.08
        half = base.text_width(margin, SMALL_PT) / 2
        middle = min(max(scale.to_inches(0, left, right), left + half), right - half)
        for x, line, text, align in (
            (middle, y, margin, "center"),
            (left, y - base.text_height(SMALL_PT), f"← {below}", "left"),
            (right, y - base.text_height(SMALL_PT), f"{above} →", "right"),
            (right + 0.12, y, self.change_head, "left"),
        ):
            sheet.text(x, line, text, size=SMALL_PT, colour=palette.SOFT, align=align, va="baseline")  # type: ignore[arg-type]

    def _draw_interaction(self, sheet: base.Sheet, plot: InteractionPlot, left: float, top: float) -> None:
        """Draw one interaction plot: a line per level of the second factor over both levels of the first."""
        bottom, right, size = top + PANEL_IN - 0.56, left + PANEL_WIDTH_IN - LABEL_IN, SMALL_PT
        first, second = (self.result.factor_labels[name] for name in plot.effect.names)
        first_name, second_name = (base.drawable(name, "?") for name in plot.effect.names)
        bounds = [bound for p in self.result.interaction_plots for _, ci in p.cell_means.values() for bound in ci]
        limits = axes.value_range(pd.Series(bounds), pad=0.12)  # all panels share their y axis
        unit, title_pt = axes.axis_unit(self.metric, limits[1]), base.LETTER_PT - 1.4
        title = base.wrap(base.drawable(plot.effect.label, "?"), PANEL_WIDTH_IN, size, True)
        sheet.text(left, top + 0.06, title, size=size, bold=True, va="top")
        top += 0.1 + base.text_height(size, base.line_count(title))
        title = axes.value_axis_title(self.metric, self.analysis.statistic, unit, short=True)
        title = base.wrap(title, PANEL_WIDTH_IN, title_pt)
        sheet.text(left, top + 0.02, title, size=title_pt, colour=palette.SOFT, va="top")
        top += 0.12 + base.text_height(title_pt, base.line_count(title))
        panel = sheet.panel(left + PANEL_LEFT_IN, top, right, bottom)
        axes.set_value_y_axis(panel, limits, unit, bottom - top)
        panel.set_xlim(-0.25, 1.35)
        axes.set_ticks(panel.xaxis, [0, 1], [base.drawable(level, "?") for level in (first.low, first.high)])
        ends = [math.log(_draw_level(panel, plot, high)) for high in (False, True)]
        wanted = [float(np.interp(end, np.log(limits), (bottom, top))) for end in ends]
        places = base.avoid_overlap(wanted, [base.text_height(size) + 0.02] * 2, top + 0.1, bottom + 0.05)
        head = base.shorten(second_name, LABEL_IN + 0.05, size)
        sheet.text(right - 0.06, min(places) - base.text_height(size) - 0.03, head, size=size, colour=palette.SOFT)
        for place, level, style in zip(places, (second.low, second.high), LEVEL_STYLES.values(), strict=True):
            label = f"{style.glyph} {base.shorten(base.drawable(level, '?'), LABEL_IN - 0.1, size)}"
            sheet.text(right - 0.06, place, label, size=size)
        middle = (left + PANEL_LEFT_IN + right) / 2
        foot = base.shorten(first_name, 2 * min(middle - left, left + PANEL_WIDTH_IN - middle), size)
        sheet.text(middle, bottom + 0.32, foot, size=size, align="center")

    @property
    def caption(self) -> str:
        """Sentences on the effects of single factors, and on whether two factors interact."""
        pairs = [] if self.result.interaction_plots else interaction_sentences(self.result)
        return " ".join([factorial_headline(self.result), *pairs])

    @property
    def help(self) -> str:
        """Instructions for reading the figure, limited to the marks that it contains."""
        effects = self.result.effects
        parts = [f"Thick line: {base.level_text(self.analysis)} interval"]
        if any(e.verdict.comparison.ci_family for e in effects):
            parts.append(f"thin line: widened for {len(effects)} effects")
        if any(e.verdict.kind in ("equivalent", "small") for e in effects):
            parts.append(interval_help(self.analysis))
        margin = margin_text(self.analysis.margin)
        parts.append(f"shaded: differences below ±{margin}, declared as too small to matter")
        text = "; ".join(parts) + "."
        if any(e.aliases for e in effects):
            text += " “or”: this fraction cannot tell these effects apart."
        if self.result.interaction_plots:
            text += (
                " Panels: pairs whose interval excludes 0; parallel lines would mean that neither changes the other."
            )
        return text

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: one sentence per effect."""
        effects = " ".join(factorial_effect_sentence(e, self.result.factor_labels) for e in self.result.effects)
        return f"Effects of {len(self.result.design.names)} factors and their pairs.", f"{effects}"


def _names_height(name: str, aliases: str) -> float:
    """Return the height of an effect's name and the aliases below it, in inches."""
    texts = ((base.LETTER_PT, name), (ALIAS_PT, aliases))
    return sum(base.text_height(size, base.line_count(text)) for size, text in texts)


def _write_line(sheet: base.Sheet, line: FactorialLine, middle: float, edges: tuple[float, float]) -> None:
    left, right = edges[0] - 0.14, edges[1] + 0.12
    if line.aliases:
        half = (
            base.text_height(base.LETTER_PT, base.line_count(line.name))
            + base.text_height(ALIAS_PT, base.line_count(line.aliases))
        ) / 2
        sheet.text(left, middle - half, line.name, bold=True, align="right", va="top")
        sheet.text(left, middle + half, line.aliases, size=ALIAS_PT, colour=palette.SOFT, align="right", va="bottom")
    else:
        sheet.text(left, middle, line.name, bold=True, align="right")
    half = (base.text_height(base.LETTER_PT) + base.text_height(line.change_pt, line.change.count("\n") + 1)) / 2
    colour = palette.row_text_colour(line.row)
    sheet.text(right, middle - half, line.verdict, bold=True, colour=colour, va="top")
    sheet.text(right, middle + half, line.change, size=line.change_pt, va="bottom")


def _draw_level(panel: Axes, plot: InteractionPlot, high: bool) -> float:
    """Draw the first factor's line at one level of the second; return the value at its right end."""
    points = [plot.cell_means[(level, high)] for level in (False, True)]
    shift = 0.03 if high else -0.03  # so that the intervals of the two lines do not overlap
    places = [x + shift for x in (0, 1)]
    panel.plot(places, [math.log(v) for v, _ in points], color=palette.INK, linewidth=1.3, zorder=1)
    for x, (_, interval) in zip(places, points, strict=True):
        panel.plot([x, x], [math.log(b) for b in interval], color=palette.INK, linewidth=2.2, zorder=2)
    panel.plot(places, [math.log(v) for v, _ in points], **base.marker_props(LEVEL_STYLES[high], 6.5), zorder=3)
    return points[1][0]
