"""Figure of one comparison block by block: whether the blocks agree, or a single block causes the effect."""

from __future__ import annotations

from typing import Self

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from loadbook.core.errors import unknown_name_error
from loadbook.core.metrics import get_metric
from loadbook.core.units import pluralize
from loadbook.report import palette
from loadbook.report.figures import axes, base
from loadbook.report.figures.base import ReportFigure, Sheet, cross_props, marker_props, wrap
from loadbook.report.ratios import log_ratio_text
from loadbook.stats.results import Analysis
from loadbook.stats.text import margin_text, predicate, row_texts
from loadbook.store.tables import RunData

TITLE_IN, FOOT_IN, HEIGHT_IN = 0.62, 0.62, 2.1
VALUES_EDGES, CHANGES_EDGES = (0.62, 3.55), (4.65, base.WIDTH_IN - 0.1)  # left and right of both panels in inches
BOTTOM_IN = TITLE_IN + HEIGHT_IN
NO_VERDICT = palette.VerdictStyle(palette.INK, palette.INK, "", "p", hollow=True)


def default_treatment(analysis: Analysis) -> str | None:
    """Return the first treatment (else harness check) that was compared; None if nothing was compared."""
    rows = [*analysis.of_kind("treatment"), *analysis.of_kind("control", "aa")]
    return next((r.treatment for r in rows if r.verdict and r.verdict.comparison.effect is not None), None)


class PairedBlocksFigure(ReportFigure):
    """Values of a treatment and its baseline, joined by block, and each block's change beside the interval.

    `values` are the `RunData.values` of the analysis' metric. `pairs` has one row per block: `base`, `own` (values of
    baseline and treatment, NaN if no valid trial has a value above 0) and `change` (their log ratio). `changes` has the
    complete blocks only; `agrees` tells which of them have the same direction as the estimate.
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
        """Return the figure of one treatment of a run; default: the first treatment that was compared."""
        compared = [r.treatment for r in analysis.rows if r.verdict and r.verdict.comparison.effect is not None]
        if treatment not in compared and (treatment or not compared):
            raise unknown_name_error("comparison with complete blocks", treatment, compared, plural="treatments")
        values = run.values(analysis.metric, analysis.statistic)
        return cls(analysis, treatment or default_treatment(analysis) or compared[0], values)

    def _draw(self) -> Sheet:
        sheet = Sheet(BOTTOM_IN + FOOT_IN)
        self._draw_values(sheet, sheet.panel(VALUES_EDGES[0], TITLE_IN, VALUES_EDGES[1], BOTTOM_IN))
        self._draw_changes(sheet, sheet.panel(CHANGES_EDGES[0], TITLE_IN, CHANGES_EDGES[1], BOTTOM_IN))
        title = f"{self._agreement} agree in direction" if len(self.agrees) else "no block is complete"
        sheet.text(0.05, 0.13, title, bold=True)
        return sheet

    @property
    def _agreement(self) -> str:
        return f"{int(self.agrees.sum())} of {pluralize(len(self.agrees), 'block')}"

    def _draw_values(self, sheet: Sheet, panel: Axes) -> None:
        """Draw two columns of values joined by block; beside them a cross for each excluded trial."""
        pairs, (left, right) = self.pairs, VALUES_EDGES
        excluded = self.values[~self.values["valid"] & (self.values["value"] > 0)]
        both = pd.concat([pairs["base"], pairs["own"]])
        limits = axes.value_range(both if both.notna().any() else excluded["value"])
        unit = axes.axis_unit(self.metric, limits[1])
        axes.set_value_y_axis(panel, limits, unit, HEIGHT_IN)
        panel.set_xlim(-0.45, 1.45)
        panel.set_xticks([])
        for block, agrees in self.agrees.items():
            ends = np.log(pairs.loc[[block], ["base", "own"]].to_numpy(float)[0])
            colour, width = (palette.OTHERS, 0.9) if agrees else (palette.INK, 1.8)
            panel.plot([0, 1], ends, color=colour, linewidth=width, zorder=1 if agrees else 2)
        styles = (palette.BASELINE, self.style)
        for x, column, style in zip((0, 1), ("base", "own"), styles, strict=True):
            panel.plot([x] * len(pairs), np.log(pairs[column]), **marker_props(style, 6.0), zorder=3)
        for x, treatment, style in zip((0, 1), (self.baseline, self.treatment), styles, strict=True):
            heights = np.log(excluded.loc[excluded["treatment"] == treatment, "value"].clip(*limits))
            panel.plot([x + 0.36 * x - 0.18] * len(heights), heights, **cross_props(5, 1.3))
            middle = left + (right - left) * (x + 0.45) / 1.9
            name = wrap(self.names.get(treatment, treatment), (right - left) / 2 - 0.02, sheet.size, True)
            sheet.text(middle, BOTTOM_IN + 0.08, name, bold=True, colour=style.text, align="center", va="top")
        size = sheet.size - 1.0
        title = axes.value_axis_title(self.metric, self.analysis.statistic, unit, short=True)
        sheet.text(0.05, 0.4, wrap(title, right + 0.3, size), size=size, colour=palette.SOFT)

    def _draw_changes(self, sheet: Sheet, panel: Axes) -> None:
        (left, right), row, pairs = CHANGES_EDGES, self.row, self.pairs
        verdict = row.verdict if row.kind != "treatment" or (row.verdict and row.verdict.kind != "invalid") else None
        interval = verdict.comparison.ci95 if verdict else None
        reach = [*self.changes, *(map(axes.log_ratio, interval) if interval else ())]
        margin = axes.log_ratio(self.analysis.margin)
        low, high = min([*reach, -1.4 * margin]), max([*reach, 1.4 * margin])
        scale = axes.RatioScale(low - 0.06 * (high - low), high + 0.06 * (high - low))
        panel.set_ylim(scale.low, scale.high)
        # labels need less room above each other than beside each other
        axes.set_effect_ticks(panel.yaxis, axes.effect_ticks(scale, HEIGHT_IN * 2.2, sheet.size))
        panel.axhspan(axes.log_ratio(-self.analysis.margin), margin, color=palette.BAND, linewidth=0, zorder=-3)
        panel.axhline(0, color=palette.INK, linewidth=1.1, zorder=-1)
        panel.set_xlim(0.3, len(pairs) + 0.7)
        if interval and verdict and verdict.comparison.effect is not None:
            panel.axhspan(*map(axes.log_ratio, interval), color=self.style.fill, alpha=0.2, linewidth=0, zorder=-2)
            panel.axhline(axes.log_ratio(verdict.comparison.effect), color=self.style.fill, linewidth=1.6, zorder=1)
        numbers = {block: n for n, block in enumerate(pairs.index, 1)}
        panel.plot([numbers[b] for b in self.changes.index], self.changes, **marker_props(self.style, 6.5), zorder=3)
        incomplete = [numbers[b] for b in pairs.index[pairs["change"].isna()]]
        lowest = scale.low + 0.05 * (scale.high - scale.low)
        panel.plot(incomplete, [lowest] * len(incomplete), **cross_props(5, 1.3))
        labels = [(float(n), str(block)) for block, n in numbers.items()]
        axes.set_fitting_ticks(panel.xaxis, labels, right - left, sheet.size)
        panel.tick_params(axis="x", length=0)
        size = sheet.size - 0.6
        word = f"{palette.row_glyph(row)} {palette.row_word(row, self.metric)}"
        change, beside = self._change_text or "no interval: not compared", base.text_width(word, sheet.size, True) + 0.1
        sheet.text(left, 0.13, word, bold=True, colour=palette.row_text_colour(row))
        sheet.text(left + beside, 0.13, change)
        title = f"change in each block; band: margin ±{margin_text(self.analysis.margin)}"
        sheet.text(left, 0.42, wrap(title, right - left + 0.3, size), size=size, colour=palette.SOFT)
        sheet.text((left + right) / 2, BOTTOM_IN + 0.36, "block", colour=palette.SOFT, align="center")

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
