"""Figure of latency percentiles per trial, which shows whether the tail changes more than trials scatter.

A second figure shows the latency distribution of each treatment's requests; no test is based on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, format_duration, join_words, pluralize
from loadbook.report import palette
from loadbook.report.figures import axes, base
from loadbook.request_logs.summary import ExceedanceCurve
from loadbook.stats.headline import neutral_headline, open_claim_sentence
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.text import direction_word, margin_text, row_texts

CURVES_LEFT_IN, CURVE_IN, MOST_CURVES_IN_A_ROW = 0.62, 1.15, 4
ALT_SHARES = (0.5, 0.1, 0.01, 0.001)  # shares of slower requests for which the alternative text gives the latency
Percentiles = Mapping[str, tuple[pd.DataFrame, Analysis]]
MOST_IN_A_ROW, NAME_IN, ROW_IN = 6, 1.6, 0.31
PLAIN_STYLE = palette.VerdictStyle(palette.INK, palette.INK, "", "o", hollow=True)


def _small_multiples(
    number: int, most_in_a_row: int, each: tuple[float, float, float], sides: tuple[float, float], gap: float
) -> tuple[base.Sheet, float, list[tuple[float, float]]]:
    """Return a sheet for panels side by side, the width of the panels, and (left, top) of each panel in inches.

    Parameters
    ----------
    each : height above each panel, of each panel, and below each panel, in inches.
    sides : inches left of the first and right of the last panel of a row.
    gap : inches between two panels.
    """
    (head, height, foot), (left, right), across = each, sides, min(most_in_a_row, max(1, number))
    step = head + height + foot
    sheet = base.Sheet(step * max(1, math.ceil(number / across)))
    width = (sheet.width - left - right - gap * (across - 1)) / across
    places = [divmod(n, across) for n in range(number)]
    return sheet, width, [(left + column * (width + gap), row * step + head) for row, column in places]


class LatencyFigure(base.ReportFigure):
    """One panel per percentile, one row per treatment, one mark per trial in the colour of the percentile's verdict.

    Parameters
    ----------
    analysis : analysis of the study's metric, which determines the order of the rows.
    percentiles : percentile, like "p99" -> (`RunData.values` of it, its own analysis).
    definition : the load tool's definition of a percentile.
    """

    def __init__(self, analysis: Analysis, percentiles: Percentiles, definition: str = "") -> None:
        self.analysis, self.percentiles, self.definition = analysis, percentiles, definition
        self.names, self.rows = base.treatment_names(analysis), base.rows_in_reading_order(analysis)

    def _draw(self) -> base.Sheet:
        size = base.LETTER_PT - 0.4
        names = [base.wrap(self.names[r.treatment], NAME_IN, size) for r in self.rows]
        step = ROW_IN + 0.07 * any("\n" in name for name in names)
        height, left = len(self.rows) * step, base.max_text_width(names, size) + 0.16
        each = (0.28, height, 0.54)
        sheet, width, places = _small_multiples(len(self.percentiles), MOST_IN_A_ROW, each, (left, 0.12), 0.18)
        for (percentile, (values, own)), (x, y) in zip(self.percentiles.items(), places, strict=True):
            panel = sheet.panel(x, y, x + width, y + height)
            sheet.text(x, y - 0.13, percentile, bold=True)
            limits = axes.value_range(values.loc[values["valid"], "value"])
            unit = axes.axis_unit(get_metric(own.metric), limits[1])
            axes.set_value_x_axis(panel, limits, unit, width, size)
            self._draw_percentile(panel, values, own)
            middle = x + width / 2
            sheet.text(middle, y + height + 0.35, f"{unit.name} (log)", size=size, colour=palette.SOFT, align="center")
            for k, name in enumerate(names if x == left else ()):
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
            props = base.marker_props(style, 3.8) | {"markeredgewidth": 0.8 if style.hollow else 0.2}
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
        """Sentences on the treatments that change latency, with the percentiles and the largest change."""
        if not self.percentiles:
            return "This tool prints no percentiles."
        if text := neutral_headline(self.analysis):
            return text.replace("No verdict", "No verdict on any percentile", 1)
        changes: dict[str, list[tuple[str, AnalysisRow]]] = {}  # treatment -> (percentile, its row)
        for percentile, (_, own) in self.percentiles.items():
            for row in own.of_kind("treatment"):
                if row.verdict and row.verdict.kind in ("better", "worse"):
                    changes.setdefault(row.treatment, []).append((percentile, row))
        if not changes:
            return self._no_change_caption()
        order = [r.treatment for r in self.analysis.of_kind("treatment") if r.treatment in changes]
        phrases = [f"{self.names[t]}: {_changes_phrase(changes[t], list(self.percentiles))}" for t in order[:3]]
        more = len(order) - len(phrases)
        return "; ".join(phrases) + (f"; {pluralize(more, 'more treatment')} with a shift." if more else ".")

    def _no_change_caption(self) -> str:
        """Return the caption if no percentile is shown to change: how many treatments are undecided or not compared."""
        rows = [row for _, own in self.percentiles.values() for row in own.of_kind("treatment")]
        states: dict[str, set[str]] = {}  # treatment -> kinds of its verdicts
        for row in rows:
            states.setdefault(row.treatment, set()).add(row.verdict.kind if row.verdict else "invalid")
        not_compared = [name for name, kinds in states.items() if kinds == {"invalid"}]
        undecided = [name for name, kinds in states.items() if "undecided" in kinds]
        if len(not_compared) == len(states):
            reasons = [row.verdict.reason for row in rows if row.verdict and row.verdict.reason]
            return f"Not compared: {reasons[0]}." if reasons else "Not compared."
        margin = margin_text(next(iter(self.percentiles.values()))[1].margin)
        claim = f"no treatment is shown to change any percentile by {margin} or more"
        return open_claim_sentence(claim, len(undecided), len(not_compared), of=len(states))

    @property
    def help(self) -> str:
        """Instructions for reading the figure, with the load tool's definition of a percentile."""
        own = next(iter(self.percentiles.values()))[1] if self.percentiles else self.analysis
        parts = [
            f"One mark is one trial’s percentile{', ' + self.definition if self.definition else ''};",
            f"bar: median of the trials ({base.blocks_text(own)}); dashed: baseline.",
            "Each panel has a range of its own, which does not start at zero.",
            f"Colour and shape: this percentile’s own verdict, margin {margin_text(own.margin)}; grey is undecided.",
        ]
        return " ".join(parts[:-1] if self.analysis.is_void else parts)

    @property
    def alt_text(self) -> str:
        """The caption, then the median of each treatment at each percentile."""
        lines = []
        for percentile, (values, own) in self.percentiles.items():
            medians = values[values["valid"]].groupby("treatment")["value"].median()
            names = base.treatment_names(own)
            texts = [f"{names.get(str(t), str(t))} {format_duration(float(v))}" for t, v in medians.items() if v > 0]
            lines.append(f"{percentile}: " + ", ".join(texts))
        return f"Latency percentiles per trial. {self.caption} Medians: {'; '.join(lines)}."


def _changes_phrase(changes: list[tuple[str, AnalysisRow]], percentiles: Sequence[str]) -> str:
    """Return "p50 longer (+72 %, +60 to +80 %), p75 to p99 shorter, p90 most (...)", grouped by direction."""
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
    """Return "every percentile"; "p75 to p99" for three or more adjacent percentiles; else all of them joined."""
    if len(chosen) == len(percentiles) > 1:
        return "every percentile"
    first = percentiles.index(chosen[0])
    if len(chosen) > 2 and list(percentiles[first : first + len(chosen)]) == chosen:
        return f"{chosen[0]} to {chosen[-1]}"
    return join_words(chosen)


def _effect(row: AnalysisRow) -> float:
    return (row.verdict.comparison.effect if row.verdict else None) or 0.0


class LatencyDistributionFigure(base.ReportFigure):
    """One panel per treatment: share of requests (log) that took longer than a time (log).

    `curves` maps treatments to the latency distribution of the requests of all their valid trials.
    """

    def __init__(self, analysis: Analysis, curves: Mapping[str, ExceedanceCurve]) -> None:
        self.analysis, self.curves, self.names = analysis, curves, base.treatment_names(analysis)
        times = [t for curve in curves.values() for t in curve.times_s if t > 0]
        low, high = (min(times), max(times)) if times else (1e-3, 1e-2)
        self.limits = (low / 1.05, max(high, 1.1 * low) * 1.05)
        self.unit = axes.axis_unit(get_metric("latency"), self.limits[1])

    def _draw(self) -> base.Sheet:
        order = [row.treatment for row in self.analysis.rows if row.treatment in self.curves]
        each = (0.3, CURVE_IN, 0.46)
        sheet, width, places = _small_multiples(len(order), MOST_CURVES_IN_A_ROW, each, (CURVES_LEFT_IN, 0.1), 0.24)
        baseline = self.analysis.baseline
        for treatment, (left, top) in zip(order, places, strict=True):
            panel = sheet.panel(left, top, left + width, top + CURVE_IN)
            sheet.text(left, top - 0.13, base.shorten(self.names[treatment], width, sheet.size, bold=True), bold=True)
            self._set_axes(panel, width, sheet.size, first=left == CURVES_LEFT_IN)
            if treatment != baseline and baseline in self.curves:
                _draw_curve(panel, self.curves[baseline], palette.SOFT, 1.1, (0, (3, 2)))
            _draw_curve(panel, self.curves[treatment], palette.INK, 1.7, "-")
        title = f"latency, {self.unit.name} (log); vertical: share of requests that took longer (log)"
        sheet.text(CURVES_LEFT_IN, sheet.height - 0.1, title, size=sheet.size - 0.6, colour=palette.SOFT)
        return sheet

    def _set_axes(self, panel: Axes, width: float, size: float, *, first: bool) -> None:
        axes.set_value_x_axis(panel, self.limits, self.unit, width, size - 0.4)
        lowest = min(min(curve.shares_slower) for curve in self.curves.values())
        panel.set_ylim(math.log10(lowest) - 0.1, 0.05)
        decades = list(range(math.ceil(math.log10(lowest)), 1))
        axes.set_ticks(panel.yaxis, decades, [f"{100 * 10.0**d:g}{NBSP}%" if first else "" for d in decades])
        for decade in decades:
            panel.axhline(decade, color=palette.GRID, linewidth=0.8, zorder=-2)

    @property
    def caption(self) -> str:
        """A description of the figure, and the remark that no verdict is based on it."""
        requests = sum(c.requests for c in self.curves.values())
        trials = pluralize(sum(c.trials for c in self.curves.values()), "trial")
        together = f"{requests:,} requests of {trials}, put together for the picture"
        return f"{together}: it describes, and nothing is tested on it."

    @property
    def help(self) -> str:
        """Instructions for reading the figure."""
        return (
            "Solid: all requests of the treatment’s counting trials together; dashed: the baseline’s. At 1 % stands "
            "p99. Each line ends where 20 requests are left. The requests of a trial share its moment, so verdicts "
            "come only from the percentiles of single trials above."
        )

    @property
    def alt_text(self) -> str:
        """The caption, then percentiles read from the curves."""
        lines = []
        for treatment, curve in self.curves.items():
            shares = [share for share in ALT_SHARES if share >= min(curve.shares_slower)]
            values = [f"p{100 - 100 * share:g} {format_duration(_time_at(curve, share))}" for share in shares]
            lines.append(f"{self.names.get(treatment, treatment)}: {', '.join(values)}")
        return f"Distribution of the latency of all requests together. {self.caption} {'; '.join(lines)}."


def _draw_curve(
    panel: Axes, curve: ExceedanceCurve, colour: str, width_pt: float, dashes: str | tuple[int, tuple[int, int]]
) -> None:
    points = [(math.log(t), math.log10(s)) for t, s in zip(curve.times_s, curve.shares_slower, strict=True) if t > 0]
    if points:
        xs, ys = np.array(points).T
        panel.plot(xs, ys, color=colour, linewidth=width_pt, linestyle=dashes, drawstyle="steps-post")


def _time_at(curve: ExceedanceCurve, share: float) -> float:
    return next(t for s, t in zip(curve.shares_slower, curve.times_s, strict=True) if s <= share * (1 + 1e-9))
