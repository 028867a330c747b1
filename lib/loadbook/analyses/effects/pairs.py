"""Figure of one comparison block by block: whether the blocks agree, or a single block causes the effect."""

from __future__ import annotations

from typing import Self

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from loadbook.core.errors import unknown_name_error
from loadbook.core.metrics import get_metric
from loadbook.core.units import pluralize
from loadbook.report import palette
from loadbook.report.figures import axes, base
from loadbook.report.figures.base import Drawing, ReportFigure, cross_props, fold, marker_props
from loadbook.report.ratios import log_ratio_text
from loadbook.stats.results import Analysis
from loadbook.stats.text import margin_text, predicate, row_texts
from loadbook.store.tables import RunData

HEIGHT_IN, NAME_LETTERS, TITLE_LETTERS, MOST_BLOCK_TICKS = 3.2, 18, 34, 13
NO_VERDICT = palette.VerdictStyle(palette.INK, palette.INK, "", "p", hollow=True)


def default_treatment(analysis: Analysis) -> str | None:
    """Return the first treatment (else harness check) that was compared; None if nothing was compared."""
    rows = [*analysis.of_kind("treatment"), *analysis.of_kind("control", "aa")]
    return next((r.treatment for r in rows if r.verdict and r.verdict.comparison.effect is not None), None)


class PairedBlocksFigure(ReportFigure):
    """Values of a treatment and its baseline, joined by block, and each block's change beside the interval.

    `values` are the `RunData.values` of the analysis' metric. `pairs` has one row per block: `base`, `own` (values of
    baseline and treatment, NaN if no valid trial has a value above 0) and `change`, log(own / base). `changes` has
    the changes of the complete blocks only; `agrees`: whether each has the same direction as the estimate.
    """

    def __init__(self, analysis: Analysis, treatment: str, values: pd.DataFrame) -> None:
        self.analysis, self.treatment, self.values = analysis, treatment, values
        self.metric, self.names = get_metric(analysis.metric), base.treatment_names(analysis)
        self.row = analysis.row(treatment)
        self.baseline = self.row.verdict.comparison.baseline if self.row.verdict else analysis.baseline
        style = palette.row_style(self.row)
        self.style = style if style.marker else NO_VERDICT
        usable = values[values["valid"] & (values["value"] > 0)]
        pivoted = usable.pivot_table(index="block", columns="treatment", values="value")
        pairs = pivoted.reindex(index=sorted(values["block"].unique()), columns=[self.baseline, treatment])
        pairs.columns = pd.Index(["base", "own"])
        self.pairs = pairs.assign(change=np.log(pairs["own"] / pairs["base"]))
        self.changes = self.pairs["change"].dropna()
        comparison = self.row.verdict.comparison if self.row.verdict else None
        # the direction of the estimate, or of the median block if there is no estimate
        self.goes_up = bool((comparison.effect if comparison and comparison.effect else self.changes.median()) > 0)
        self.agrees = (self.changes > 0) if self.goes_up else (self.changes < 0)

    @classmethod
    def from_run(cls, run: RunData, analysis: Analysis, treatment: str = "") -> Self:
        """Return the figure of one treatment of a run; default: the first treatment that was compared.

        Raises UsageError if the treatment, or without one any treatment, was not compared.
        """
        compared = [r.treatment for r in analysis.rows if r.verdict and r.verdict.comparison.effect is not None]
        if treatment not in compared and (treatment or not compared):
            raise unknown_name_error("comparison with complete blocks", treatment, compared, plural="treatments")
        values = run.values(analysis.metric, analysis.statistic)
        return cls(analysis, treatment or default_treatment(analysis) or compared[0], values)

    def _draw(self) -> Drawing:
        drawing = Drawing(HEIGHT_IN)
        left, right = drawing.figure.subplots(1, 2, width_ratios=(3, 4))
        self._draw_values(left)
        self._draw_changes(right)
        return drawing

    @property
    def _agreement(self) -> str:
        return f"{int(self.agrees.sum())} of {pluralize(len(self.agrees), 'block')}"

    def _draw_values(self, panel: Axes) -> None:
        """Draw two columns of values joined by block; beside them a cross for each excluded trial."""
        excluded = self.values[~self.values["valid"] & (self.values["value"] > 0)]
        both = pd.concat([self.pairs["base"], self.pairs["own"]])
        limits = axes.value_range(both if both.notna().any() else excluded["value"])
        unit = axes.axis_unit(self.metric, limits[1])
        axes.set_value_scale(panel.yaxis, limits, unit)
        panel.set_title(f"{self._agreement} agree in direction" if len(self.agrees) else "no block is complete")
        title = axes.value_axis_title(self.metric, self.analysis.statistic, unit, short=True)
        panel.set_ylabel(fold(title, TITLE_LETTERS, 3))
        panel.set_xlim(-0.45, 1.45)
        treatments, styles = (self.baseline, self.treatment), (palette.BASELINE, self.style)
        axes.set_ticks(panel.xaxis, (0, 1), [fold(self.names.get(name, name), NAME_LETTERS) for name in treatments])
        panel.tick_params(axis="x", length=0)
        for chosen, colour, width in ((self.agrees, palette.OTHERS, 0.9), (~self.agrees, palette.INK, 1.8)):
            ends = self.pairs.loc[chosen.index[chosen], ["base", "own"]].to_numpy(float).T
            panel.plot([0, 1], ends, color=colour, linewidth=width, zorder=width)
        for x, column in enumerate(("base", "own")):
            panel.plot([x] * len(self.pairs), self.pairs[column], **marker_props(styles[x], 6.0), zorder=3)
            crosses = excluded.loc[excluded["treatment"] == treatments[x], "value"].clip(*limits)
            panel.plot([1.36 * x - 0.18] * len(crosses), crosses, **cross_props(5, 1.3))
            panel.get_xticklabels()[x].set(color=styles[x].text, weight="bold")

    def _draw_changes(self, panel: Axes) -> None:
        """Draw each block's change over the margin band and the interval; a cross for each incomplete block."""
        row, blocks = self.row, self.pairs.index
        verdict = row.verdict if row.kind != "treatment" or (row.verdict and row.verdict.kind != "invalid") else None
        interval = verdict.comparison.ci95 if verdict else None
        reach = [*self.changes, *(map(axes.log_ratio, interval) if interval else ())]
        margin = axes.log_ratio(self.analysis.margin)
        low, high = min([*reach, -1.4 * margin]), max([*reach, 1.4 * margin])
        scale = axes.RatioScale(low - 0.06 * (high - low), high + 0.06 * (high - low))
        axes.set_ratio_scale(panel.yaxis, scale, self.analysis.margin)
        panel.axhspan(axes.log_ratio(-self.analysis.margin), margin, color=palette.BAND, linewidth=0, zorder=-3)
        panel.axhline(0, color=palette.INK, linewidth=1.1, zorder=0.9)
        if interval and verdict and verdict.comparison.effect is not None:
            panel.axhspan(*map(axes.log_ratio, interval), color=self.style.fill, alpha=0.2, linewidth=0, zorder=-2)
            panel.axhline(axes.log_ratio(verdict.comparison.effect), color=self.style.fill, linewidth=1.6, zorder=1)
        panel.plot(self.changes.index, self.changes, **marker_props(self.style, 6.5), zorder=3)
        incomplete = blocks[self.pairs["change"].isna()]
        panel.plot(incomplete, [0.05] * len(incomplete), transform=panel.get_xaxis_transform(), **cross_props(5, 1.3))
        panel.set_xlim(blocks.min() - 0.7, blocks.max() + 0.7)
        panel.xaxis.set_major_locator(FixedLocator(list(blocks), nbins=MOST_BLOCK_TICKS))
        panel.tick_params(axis="x", length=0)
        word = f"{palette.row_glyph(row)} {palette.row_word(row, self.metric)}"
        panel.set_title(word, color=palette.row_text_colour(row))
        panel.set_title(self._change_text or "no interval: not compared", loc="right", weight="normal")
        panel.set_ylabel(fold(f"change in each block; band: margin ±{margin_text(self.analysis.margin)}", 24))
        panel.set_xlabel("block")

    @property
    def _change_text(self) -> str:
        texts = row_texts(self.row)
        return f"{texts.change} ({texts.interval_number})" if self.row.is_compared else ""

    @property
    def caption(self) -> str:
        """One sentence on how many blocks have the same direction as the estimate."""
        name = self.names[self.treatment]
        if self.agrees.empty:
            return f"No block holds both {name} and the baseline."
        verb_phrase = predicate(self.analysis.metric, 1.0 if self.goes_up else -1.0)
        if self.agrees.all():
            return f"All {pluralize(len(self.agrees), 'block')} agree: {name} {verb_phrase} in each."
        return f"{self._agreement} agree in direction: {name} {verb_phrase} in them."

    @property
    def help(self) -> str:
        """Instructions for reading the figure."""
        text = "Each line joins the two trials of one block; ink: a block that goes the other way."
        text += f" Coloured line and tint: estimate and {base.level_text(self.analysis)} interval."
        text += " The axes are logarithmic and do not start at zero."
        incomplete = int(self.pairs["change"].isna().sum())
        if incomplete:
            text += f" ✕: {pluralize(incomplete, 'block')} not complete, left out of the comparison."
        return text

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: the change of every block."""
        changes = ", ".join(log_ratio_text(v) for v in self.changes)
        estimate = f"Estimate {self._change_text}. " if self._change_text else ""
        return "", f"{estimate}Change by block: {changes or 'none'}."
