"""The order plot: whether the host's speed drifted or jumped, and whether treatments were spread over the run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from loadbook.core.errors import UsageError
from loadbook.core.metrics import get_metric
from loadbook.core.units import format_percent, format_quantity, pluralize
from loadbook.modes.plain.page import page_of
from loadbook.report import palette
from loadbook.report.figures import axes, base
from loadbook.report.ratios import log_ratio_text
from loadbook.stats.diagnostics import find_outliers
from loadbook.stats.results import Analysis, Interval
from loadbook.store.tables import RunData

MOST_REASONS = 3  # largest number of excluded trials with a written reason; the others are counted in one line
MOST_ARMS = 8
NAME_LETTERS, REASON_LETTERS, LANE_LETTERS, PANEL_LETTERS = 28, 56, 34, 88
RING_PT = 5.0
UNSTEADY = 0.10  # range of the block medians from which on the caption warns of a disturbed host
HEIGHT_IN, HEIGHTS = 3.95, (2.05, 0.75)
LINE_SHARE = 0.085  # height of a line of text, as a share of the upper panel
HOVER_IN = 0.06  # largest distance of a mark from the edges of its hover area; across, also half a slot
OTHERS = palette.VerdictStyle(palette.OTHERS, palette.SOFT, "", "o")


class OrderDrawing(base.Drawing):
    """Two panels with the slots (places in the order of execution) as their x axis.

    `points` are rows (slot, value) of the upper panel, each with a hover text in `texts`.
    """

    def __init__(self, points: np.ndarray, texts: Sequence[str]) -> None:
        super().__init__(HEIGHT_IN)
        self.points, self.texts = points, texts
        self.upper, self.lower = self.figure.subplots(2, 1, sharex=True, height_ratios=HEIGHTS)

    def finish(self) -> None:
        """Compute the layout, and add the hover areas."""
        super().finish()
        inches = self.figure.dpi_scale_trans.inverted()
        first, last = self.upper.get_xlim()
        slot_in = self.upper.bbox.width / self.figure.dpi / (last - first)
        half, (width, height) = max(HOVER_IN / 2, min(HOVER_IN, slot_in / 2)), self.figure.get_size_inches()
        places = inches.transform(self.upper.transData.transform(self.points))
        for (x, y), text in zip(places, self.texts, strict=True):
            left, top = 100 * (x - half) / width, 100 * (1 - (y + HOVER_IN) / height)
            area = base.HoverArea(left, top, 200 * half / width, 200 * HOVER_IN / height, text)
            self.hover_areas.append(area)


class OrderFigure(base.ReportFigure):
    """Every trial's value in order of execution, and below it the drift of the host.

    Parameters
    ----------
    analysis : the analysis of the metric to draw.
    values : `RunData.values` of that metric.
    exclusion_reasons : excluded trial -> reason in a few words.
    is_confounded : whether the order of imported trials is not random (rule order_not_random).
    order : order of the trials in a block.
    """

    def __init__(
        self, analysis: Analysis, values: pd.DataFrame, exclusion_reasons: Mapping[str, str] | None = None,
        is_confounded: bool = False, order: str = "in random order",
    ) -> None:  # fmt: skip
        self.is_confounded, self.order = is_confounded, order
        self.analysis, self.values, self.exclusion_reasons = analysis, values, exclusion_reasons or {}
        self.metric, self.names = get_metric(analysis.metric), base.treatment_names(analysis)
        self.outliers = find_outliers(values)
        self.excluded = values[~values["valid"]]

    @classmethod
    def from_run(cls, run: RunData, analysis: Analysis, exclusion_reasons: Mapping[str, str] | None = None) -> Self:
        """Return the figure of a run; UsageError if no trial has a positive value of the metric."""
        values = run.values(analysis.metric, analysis.statistic)
        if not (values["value"] > 0).any():
            raise UsageError(f"no trial has a positive {analysis.metric}", "another metric: run.metrics")
        is_confounded = bool((run.problems["name"] == "order_not_random").any())
        return cls(analysis, values, exclusion_reasons, is_confounded, page_of(run.study).order_in_block(run.study))

    @cached_property
    def styles(self) -> dict[str, palette.VerdictStyle]:
        """Treatment -> style; with more than eight, only baseline, A/A arm and two largest effects have their own."""
        styles = base.treatment_styles(self.analysis)
        if len(self.analysis.rows) - 1 <= MOST_ARMS:
            return styles
        effects = {
            r.treatment: abs(axes.log_ratio(r.verdict.comparison.effect))
            for r in self.analysis.of_kind("treatment")
            if r.verdict and r.verdict.kind != "invalid" and r.verdict.comparison.effect is not None
        }
        largest = sorted(effects, key=lambda t: -effects[t])[:2]
        distinct = {*largest, *(r.treatment for r in self.analysis.of_kind("baseline", "aa"))}
        return {t: style if t in distinct else OTHERS for t, style in styles.items()}

    @property
    def key(self) -> list[tuple[str, palette.VerdictStyle]]:
        """The names beside the plot with their styles, highest median first.

        Treatments without their own style are one entry, the last.
        """
        medians = self.values[self.values["value"] > 0].groupby("treatment")["value"].median()
        own = [treatment for treatment, style in self.styles.items() if style is not OTHERS]
        own.sort(key=lambda treatment: -medians.get(treatment, 0.0))
        others = len(self.styles) - len(own)
        key = [(self.names[treatment], self.styles[treatment]) for treatment in own]
        return [*key, (f"{others} others", OTHERS)] if others else key

    @cached_property
    def drift(self) -> tuple[pd.DataFrame, pd.Series]:
        """The valid trials with `off` (log ratio to their treatment's median), and the median of `off` by block."""
        usable = self.values[self.values["valid"] & (self.values["value"] > 0)]
        usual = usable.groupby("treatment")["value"].transform("median")
        usable = usable.assign(off=np.log(usable["value"] / usual))
        return usable, usable.groupby("block")["off"].median()

    def _draw(self) -> base.Drawing:
        usable, _ = self.drift
        columns = (usable[name] for name in ("trial", "treatment", "value", "off"))
        hover_texts = [
            f"{trial}: {self.names.get(treatment, treatment)}, {format_quantity(value, self.metric.unit)} "
            f"({log_ratio_text(off)})"
            for trial, treatment, value, off in zip(*columns, strict=True)
        ]
        drawing = OrderDrawing(usable[["slot", "value"]].to_numpy(float), hover_texts)
        upper, lower = drawing.upper, drawing.lower
        self._draw_values(upper)
        self._draw_drift(lower)
        for panel in (upper, lower):
            axes.set_block_axis(panel, self.values)
        marks = [
            Line2D([], [], **base.marker_props(style, _marker_pt(style)), label=base.fold(name, NAME_LETTERS))
            for name, style in self.key
        ]
        drawing.figure.legend(
            handles=marks, labelcolor=[style.text for _, style in self.key], loc="outside right upper", handlelength=1
        )
        unit = axes.axis_unit(self.metric, float(self.values["value"].max()))
        quiet: dict[str, Any] = {"color": palette.SOFT, "weight": "normal"}
        upper.set_title(axes.value_axis_title(self.metric, self.analysis.statistic, unit), **quiet)
        lower.set_title("drift: each trial against its own treatment’s median; line = block median", **quiet)
        most = self.values.groupby("block").size().max()
        order = "" if self.is_confounded else f" {self.order}"
        lower.set_xlabel(f"block (order of execution; {most} trials{order} in each)")
        return drawing

    def _draw_values(self, panel: Axes) -> None:
        """Draw the trials, and rings around outliers."""
        usable, _ = self.drift
        low, high = axes.value_range((self.values if usable.empty else usable)["value"], 0.07)
        limits = self._draw_excluded(panel, low, high)
        axes.set_value_scale(panel.yaxis, limits, axes.axis_unit(self.metric, high))
        for treatment, style in sorted(self.styles.items(), key=lambda item: item[1] is not OTHERS):
            own = usable[usable["treatment"] == treatment]
            props = base.marker_props(style, _marker_pt(style))
            panel.plot(own["slot"], own["value"], **props, zorder=2 if style is OTHERS else 3)
        far = usable[usable["trial"].isin(list(self.outliers))]
        panel.plot(
            far["slot"], far["value"], linestyle="none", marker="o", markersize=6.0 + RING_PT,
            markerfacecolor="none", markeredgecolor=palette.INK, markeredgewidth=0.9, zorder=4,
        )  # fmt: skip

    def _draw_excluded(self, panel: Axes, low: float, high: float) -> Interval:
        """Draw a cross for each excluded trial, and write the reasons; return the limits of the y axis.

        Below the values from `low` to `high` is a lane for trials without a value, above them are lines for reasons.
        """
        excluded, statuses = self.excluded, self.excluded["status"].str.replace("_", " ")
        if excluded.empty:
            return low, high
        reasons = [
            base.drawable(self.exclusion_reasons.get(trial) or status, status)
            for trial, status in zip(excluded["trial"], statuses, strict=True)
        ]
        is_below = ~(excluded["value"] > low)
        below, above = int(is_below.sum()), int((~is_below).sum())
        are_few = len(reasons) <= MOST_REASONS and below < 2
        below, above = min(2, 2 * below), above if are_few else 1  # lines of text
        line = math.log(high / low) / (1 / LINE_SHARE - above - below)
        heights = excluded["value"].clip(upper=high).where(~is_below, low * math.exp(-line * below / 2))
        panel.plot(excluded["slot"], heights, **base.cross_props(6, 1.4))
        if are_few:
            self._write_reasons(panel, list(zip(excluded["slot"], heights, reasons, is_below, strict=True)))
        else:
            why = f": {reasons[0]}" if len(set(reasons)) == 1 else ""
            text = f"✕ {len(excluded)} of {pluralize(len(self.values), 'trial')} not counted{why}"
            text = base.fold(text, PANEL_LETTERS, 1)
            panel.text(0.01, 0.98, text, size=base.SMALL_PT, va="top", transform=panel.transAxes)
        return low * math.exp(-line * below), high * math.exp(line * above)

    def _write_reasons(self, panel: Axes, crosses: Sequence[tuple[float, float, str, bool]]) -> None:
        """Write a reason for each cross (slot, value, reason, whether in the lane): beside it in the lane, else above.

        The outer ones are higher, so that a line to a cross seldom meets another text; the text covers it if it does.
        """
        first, last = axes.slot_limits(self.values)
        style: dict[str, Any] = {"size": base.SMALL_PT, "color": palette.SOFT}
        ground = {"facecolor": palette.BACKGROUND, "edgecolor": "none", "pad": 0.5}
        middle, line = (first + last) / 2, 0
        for slot, height, reason, in_lane in sorted(crosses, key=lambda cross: -abs(cross[0] - middle)):
            text, share = f"{reason}: not counted", (slot - first) / (last - first)
            if in_lane:
                align, offset = ("left", 6) if share < 0.5 else ("right", -6)
                text = base.fold(text, LANE_LETTERS)
                panel.annotate(
                    text, (slot, height), (offset, 0), textcoords="offset points", va="center", ha=align, **style
                )
                continue
            align, start = ("left", 0.0) if share < 0.33 else ("center", 0.5) if share < 0.67 else ("right", 1.0)
            arrow: dict[str, Any] = {"arrowstyle": "-", "color": palette.SOFT, "linewidth": 0.6, "shrinkA": 0}
            arrow |= {"shrinkB": 5, "relpos": (start, 0)}
            panel.annotate(
                base.fold(text, REASON_LETTERS, 1), (slot, height), (slot, 0.99 - LINE_SHARE * line), va="top",
                textcoords=panel.get_xaxis_transform(), ha=align, bbox=ground, arrowprops=arrow, **style,
            )  # fmt: skip
            line += 1

    def _draw_drift(self, panel: Axes) -> None:
        usable, by_block = self.drift
        limit = 0.055
        if len(usable):
            limit = float(max(limit, 1.2 * by_block.abs().max(), 1.1 * usable["off"].abs().quantile(0.95)))
        tick = max(e for e in axes.EFFECTS if axes.log_ratio(e) <= limit and -axes.log_ratio(-e) <= limit)
        panel.set_ylim(-limit, limit)
        axes.set_effect_ticks(panel.yaxis, (-tick, 0.0, tick))
        panel.axhline(0, color=palette.RULE, linewidth=0.8, zorder=-1)
        off = usable["off"]
        for marker, chosen in (("o", off.abs() <= limit), ("^", off > limit), ("v", off < -limit)):
            panel.plot(
                usable.loc[chosen, "slot"], off[chosen].clip(-0.97 * limit, 0.97 * limit), linestyle="none",
                marker=marker, markersize=2.6 if marker == "o" else 3.6, color=palette.OTHERS, markeredgewidth=0,
            )  # fmt: skip
        middles = usable.groupby("block")["slot"].mean()
        panel.plot(middles, by_block, color=palette.INK, linewidth=1.8, solid_joinstyle="round")

    @property
    def caption(self) -> str:
        """Sentences on whether the order of trials could explain the effects, and on how far block medians differ."""
        if not self.values["valid"].any():
            return f"None of the {pluralize(len(self.values), 'trial')} counts, so the order shows nothing."
        per_block = self.values.groupby("block")["treatment"].nunique()
        if len(per_block) < 2:
            return "It could: with one block, order and treatment are confounded."
        by_block = self.drift[1]
        spread = math.expm1(by_block.max() - by_block.min()) if len(by_block) > 1 else 0.0
        drift = f"block medians lie up to {format_percent(spread, 1 if spread < UNSTEADY else 0, signed=False)} apart"
        if self.is_confounded:
            return f"It could: the order is not random (see the doubts), and {drift}."
        incomplete = int((per_block < self.values["treatment"].nunique()).sum())
        if incomplete:
            lacking = f"{incomplete} of {len(per_block)} blocks lack a treatment"
            return f"Hardly: {drift}, and {lacking}; each comparison uses only blocks that hold both of its sides."
        if spread >= UNSTEADY:
            return f"No, as every block holds every treatment; but the host was not steady: {drift}."
        return f"No: {drift}, but every block holds every treatment, so the drift cancels."

    @property
    def help(self) -> str:
        """Instructions for reading the figure."""
        text = "One mark is one trial; the vertical axis is logarithmic and does not start at zero."
        if len(self.excluded):
            text += f" ✕: {pluralize(len(self.excluded), 'trial')} not counted."
        if self.outliers:
            text += f" Ring: {pluralize(len(self.outliers), 'trial')} far from the others of its treatment, counted."
        return text

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and the numbers of trials, blocks and excluded trials in words."""
        label = base.metric_label(self.metric, self.analysis.statistic)
        counts = (
            f"{label} of {len(self.values)} trials in order of execution, "
            f"{pluralize(self.values['block'].nunique(), 'block')}, {len(self.excluded)} not counted, "
            f"{len(self.outliers)} ringed as far from the others of its treatment."
        )
        return counts, ""


def _marker_pt(style: palette.VerdictStyle) -> float:
    return 3.2 if style is OTHERS else 6.0
