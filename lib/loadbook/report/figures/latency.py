"""Latency percentiles per trial: whether the tail moves by more than the scatter between trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from loadbook.core.metrics import get_metric
from loadbook.core.units import format_duration, join_words
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import (
    LETTER_PT,
    ReportFigure,
    Sheet,
    blocks_text,
    marker_props,
    max_text_width,
    pluralize,
    rows_in_reading_order,
    treatment_names,
    wrap,
)
from loadbook.stats.headline import neutral_headline
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.text import direction_word, margin_text, row_texts

Percentiles = Mapping[str, tuple[pd.DataFrame, Analysis]]
MOST_IN_A_ROW, NAME_IN = 6, 1.6
HEAD_IN, FOOT_IN, ROW_IN, GAP_IN = 0.28, 0.54, 0.31, 0.18
PLAIN_STYLE = palette.VerdictStyle(palette.INK, palette.INK, "", "o", hollow=True)


class LatencyFigure(ReportFigure):
    """One panel per percentile, one row per treatment, one mark per trial, coloured by that percentile's verdict.

    Parameters
    ----------
    analysis : gives the order of the rows.
    percentiles : "p99" -> `RunData.values` of it and its own analysis.
    definition : definition of the tool's percentile.
    """

    def __init__(self, analysis: Analysis, percentiles: Percentiles, definition: str = "") -> None:
        self.analysis, self.percentiles, self.definition = analysis, percentiles, definition
        self.names, self.rows = treatment_names(analysis), rows_in_reading_order(analysis)

    def _draw(self) -> Sheet:
        size = LETTER_PT - 0.4
        names = [wrap(self.names[r.treatment], NAME_IN, size) for r in self.rows]
        across = min(MOST_IN_A_ROW, max(1, len(self.percentiles)))
        step = ROW_IN + 0.07 * any("\n" in name for name in names)
        height = len(self.rows) * step
        each = HEAD_IN + height + FOOT_IN
        sheet = Sheet(each * max(1, math.ceil(len(self.percentiles) / across)))
        left = max_text_width(names, size) + 0.16
        width = (sheet.width - left - 0.12 - GAP_IN * (across - 1)) / across
        for number, (percentile, (values, own)) in enumerate(self.percentiles.items()):
            row, column = divmod(number, across)
            x, y = left + column * (width + GAP_IN), row * each + HEAD_IN
            panel = sheet.panel(x, y, x + width, y + height)
            sheet.text(x, y - 0.13, percentile, bold=True)
            limits = axes.value_range(values.loc[values["valid"], "value"])
            unit = axes.axis_unit(get_metric(own.metric), limits[1])
            axes.set_value_x_axis(panel, limits, unit, width, size)
            self._draw_percentile(panel, values, own)
            middle = x + width / 2
            sheet.text(middle, y + height + 0.35, f"{unit.name} (log)", size=size, colour=palette.SOFT, align="center")
            for k, name in enumerate(names if column == 0 else ()):
                sheet.text(left - 0.1, y + (k + 0.5) * step, name, size=size, align="right")
        return sheet

    def _draw_percentile(self, panel: Axes, values: pd.DataFrame, own: Analysis) -> None:
        usable = values[values["valid"] & (values["value"] > 0)]
        panel.set_ylim(len(self.rows), 0)
        panel.set_yticks([])
        rank = usable["block"].rank(method="dense") - 0.5
        heights = 0.56 * (rank / max(1.0, rank.max() + 0.5) - 0.5) if len(usable) else rank
        styles = {} if self.analysis.is_void else {row.treatment: palette.row_style(row) for row in own.rows}
        for k, row in enumerate(self.rows):
            trials = usable[usable["treatment"] == row.treatment]
            if trials.empty:
                panel.text(0.5, k + 0.5, "not measured", transform=panel.get_yaxis_transform(), ha="center",
                           va="center", fontsize=7.5, color=palette.SOFT)  # fmt: skip
                continue
            style = styles.get(row.treatment, PLAIN_STYLE)
            style = style if style.marker else PLAIN_STYLE
            props = marker_props(style, 3.8) | {"markeredgewidth": 0.8 if style.hollow else 0.2}
            panel.plot(np.log(trials["value"]), k + 0.5 + heights[trials.index], **props)
            median = math.log(trials["value"].median())
            panel.plot([median] * 2, [k + 0.1, k + 0.9], color=style.edge, linewidth=2.4, solid_capstyle="butt",
                       zorder=3)  # fmt: skip
        baseline = usable.loc[usable["treatment"] == own.baseline, "value"]
        if len(baseline):
            median = math.log(baseline.median())
            panel.axvline(median, color=palette.INK, linewidth=0.9, linestyle=axes.DASHED, zorder=1)

    @property
    def caption(self) -> str:
        """Which treatments move which percentiles, and which percentile most."""
        if not self.percentiles:
            return "This tool prints no percentiles."
        if text := neutral_headline(self.analysis):
            return text.replace("No verdict", "No verdict on any percentile", 1)
        changes = self._changes()
        if not changes:
            margin = margin_text(next(iter(self.percentiles.values()))[1].margin)
            return f"No treatment is shown to change any percentile by {margin} or more."
        order = [r.treatment for r in self.analysis.of_kind("treatment") if r.treatment in changes]
        phrases = [f"{self.names[t]}: {_changes_phrase(changes[t], list(self.percentiles))}" for t in order[:3]]
        more = len(order) - len(phrases)
        return "; ".join(phrases) + (f"; {pluralize(more, 'more treatment')} with a shift." if more else ".")

    def _changes(self) -> dict[str, list[tuple[str, AnalysisRow]]]:
        """Return treatment -> the percentiles at which it is better or worse, with the rows of their analyses."""
        changes: dict[str, list[tuple[str, AnalysisRow]]] = {}
        for percentile, (_, own) in self.percentiles.items():
            for row in own.of_kind("treatment"):
                if row.verdict and row.verdict.kind in ("better", "worse"):
                    changes.setdefault(row.treatment, []).append((percentile, row))
        return changes

    @property
    def help(self) -> str:
        """How the figure is read, with the definition of the tool's percentile."""
        own = next(iter(self.percentiles.values()))[1] if self.percentiles else self.analysis
        parts = [
            f"One mark is one trial’s percentile{', ' + self.definition if self.definition else ''};",
            f"bar: median of the trials ({blocks_text(own)}); dashed: baseline.",
            "Each panel has a range of its own, which does not start at zero.",
            f"Colour and shape: this percentile’s own verdict, margin {margin_text(own.margin)}; grey is undecided.",
        ]
        return " ".join(parts[:-1] if self.analysis.is_void else parts)

    @property
    def alt_text(self) -> str:
        """The caption and the median of each treatment at each percentile."""
        lines = []
        for percentile, (values, own) in self.percentiles.items():
            medians = values[values["valid"]].groupby("treatment")["value"].median()
            names = treatment_names(own)
            texts = [f"{names.get(str(t), str(t))} {format_duration(float(v))}" for t, v in medians.items() if v > 0]
            lines.append(f"{percentile}: " + ", ".join(texts))
        return f"Latency percentiles per trial. {self.caption} Medians: {'; '.join(lines)}."


def _changes_phrase(changes: list[tuple[str, AnalysisRow]], percentiles: Sequence[str]) -> str:
    """Return "p50 longer (+72 %, +60 to +80 %), p75 to p99 shorter, p90 most (...)": each direction by itself."""
    by_direction: dict[str, list[tuple[str, AnalysisRow]]] = {}
    for percentile, row in changes:
        if row.verdict:
            direction = direction_word(row.verdict.comparison.metric, _effect(row))
            by_direction.setdefault(direction, []).append((percentile, row))
    phrases = []
    for direction, group in by_direction.items():
        largest, row = max(group, key=lambda item: abs(math.log1p(_effect(item[1]))))
        size = f"({row_texts(row).change}, {row_texts(row).interval})"
        most = f", {largest} most {size}" if len(group) > 1 else f" {size}"
        phrases.append(f"{_percentile_range([p for p, _ in group], percentiles)} {direction}{most}")
    return ", ".join(phrases)


def _percentile_range(chosen: list[str], percentiles: Sequence[str]) -> str:
    """Return "every percentile", "p75 to p99" for more than two neighbours, else all of them."""
    if len(chosen) == len(percentiles) > 1:
        return "every percentile"
    first = percentiles.index(chosen[0])
    if len(chosen) > 2 and list(percentiles[first : first + len(chosen)]) == chosen:
        return f"{chosen[0]} to {chosen[-1]}"
    return join_words(chosen)


def _effect(row: AnalysisRow) -> float:
    return (row.verdict.comparison.effect if row.verdict else None) or 0.0
