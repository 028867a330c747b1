"""Figure of a factorial study: main effects of factors, interactions of pairs, and interaction plots."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from loadbook.analyses.effects.figure import change_text, interval_help
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
from loadbook.report.figures import axes, base, forest
from loadbook.report.figures.rows import Cell, Row
from loadbook.report.ratios import RatioScale
from loadbook.stats.text import margin_text

NAME_LETTERS, REASON_LETTERS, LEVEL_LETTERS = 30, 32, 14
MAIN_TITLE, PAIR_TITLE = "each alone, all else averaged", "pairs: change of the first’s effect"
SIDE_IN, PANEL_IN = 2.6, 2.25  # width and height of the interaction plots
LEVEL_STYLES = {False: palette.AA, True: palette.BASELINE}  # lines for the second factor at its low and high level


class FactorialFigure(base.ReportFigure):
    """One row per main effect and per pair; beside them an interaction plot for each pair that acts together."""

    def __init__(self, result: FactorialAnalysis) -> None:
        self.result, self.analysis = result, result.analysis
        self.metric = get_metric(self.analysis.metric)
        self.change_head = f"change ({base.level_text(self.analysis)} interval)"

    def _draw(self) -> base.Drawing:
        rows, plots = list[Row](), self.result.interaction_plots
        for title, effects in ((MAIN_TITLE, self.result.main_effects), (PAIR_TITLE, self.result.interactions)):
            if effects:
                rows.append(Row(Cell(title, colour=palette.SOFT, size=base.SMALL_PT), is_title=True))
            rows += [self._row(effect) for effect in effects]
        margin = self.analysis.margin
        title = f"change in {base.metric_label(self.metric, self.analysis.statistic)} (ratio, log scale)"
        drawing = forest.draw_forest(
            rows, (self.change_head,), self.scale, f"{title}, {self.result.blocks}{NBSP}blocks", margin=margin,
            band=(-margin, margin), margin_label=f"margin ±{margin_text(margin)}", metric=self.analysis.metric,
            side_in=SIDE_IN if plots else 0.0, least_in=PANEL_IN * len(plots),
        )  # fmt: skip
        if plots:
            panels = drawing.side.subplots(len(plots), squeeze=False, sharey=True)[:, 0]
            for panel, plot in zip(panels, plots, strict=True):
                self._draw_interaction(panel, plot)
        return drawing

    @property
    def scale(self) -> RatioScale:
        """The axis of the effects."""
        return forest.interval_scale([effect_row(e) for e in self.result.effects], self.analysis.margin)

    def _row(self, effect: FactorialEffect) -> Row:
        row = effect_row(effect)
        aliases = base.fold("or " + ", or ".join(effect.aliases), NAME_LETTERS + 4, 3) if effect.aliases else ""
        name = Cell(base.fold(base.drawable(effect.label, "?"), NAME_LETTERS), aliases, bold=True)
        change = base.fold(change_text(row, blocks=False), REASON_LETTERS, 3)
        word = palette.row_word(row, self.metric)
        if len(effect.names) == 2:  # a pair is better or worse together, not faster or slower
            word = INTERACTION_TEXTS.get(effect.verdict.kind, word)
        verdict = f"{palette.row_glyph(row)} {word}"
        cell = Cell(verdict, change, bold=True, colour=palette.row_text_colour(row), note_colour=palette.INK)

        def draw(panels: Sequence[Axes], y: float) -> None:
            if row.is_compared and row.verdict:
                axes.draw_interval(panels[0], self.scale, y, row, row.verdict.comparison, tick=0.075)

        return Row(name, (cell,), draw)

    def _draw_interaction(self, panel: Axes, plot: InteractionPlot) -> None:
        """Draw one interaction plot: a line per level of the second factor over both levels of the first."""
        first, second = (self.result.factor_labels[name] for name in plot.effect.names)
        first_name, second_name = (base.drawable(name, "?") for name in plot.effect.names)
        bounds = [bound for p in self.result.interaction_plots for _, ci in p.cell_means.values() for bound in ci]
        limits = axes.value_range(pd.Series(bounds), pad=0.12)  # all panels share their y axis
        unit = axes.axis_unit(self.metric, limits[1])
        panel.set_title(base.fold(base.drawable(plot.effect.label, "?"), 20), size=base.SMALL_PT)
        title = axes.value_axis_title(self.metric, self.analysis.statistic, unit, short=True)
        panel.set_ylabel(base.fold(title, 26, 4), size=base.SMALLEST_PT)
        axes.set_value_scale(panel.yaxis, limits, unit)
        panel.set_xlim(-0.25, 1.35)
        levels = [base.fold(base.drawable(level, "?"), LEVEL_LETTERS) for level in (first.low, first.high)]
        axes.set_ticks(panel.xaxis, [0, 1], levels)
        lines = [_draw_level(panel, plot, high) for high in (False, True)]
        names = [base.fold(base.drawable(level, "?"), LEVEL_LETTERS) for level in (second.low, second.high)]
        order = sorted((0, 1), key=lambda high: -plot.cell_means[(True, bool(high))][0])
        panel.legend([lines[k] for k in order], [names[k] for k in order], loc="center left", bbox_to_anchor=(1, 0.5),
                     title=base.fold(second_name, LEVEL_LETTERS), title_fontsize=base.SMALL_PT, handlelength=1,
                     borderaxespad=0.3)  # fmt: skip
        panel.set_xlabel(base.fold(first_name, NAME_LETTERS), size=base.SMALL_PT)

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


def _draw_level(panel: Axes, plot: InteractionPlot, high: bool) -> Line2D:
    """Draw the first factor's line at one level of the second; return its marks, for the key."""
    points = [plot.cell_means[(level, high)] for level in (False, True)]
    shift = 0.03 if high else -0.03  # so that the intervals of the two lines do not overlap
    places = [x + shift for x in (0, 1)]
    panel.plot(places, [value for value, _ in points], color=palette.INK, linewidth=1.3, zorder=1)
    for x, (_, interval) in zip(places, points, strict=True):
        panel.plot([x, x], interval, color=palette.INK, linewidth=2.2, zorder=2)
    marks = base.marker_props(LEVEL_STYLES[high], 6.5)
    return panel.plot(places, [value for value, _ in points], **marks, zorder=3)[0]
