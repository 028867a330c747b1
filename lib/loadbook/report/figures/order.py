"""The order plot: whether the host's speed drifted or jumped, and whether treatments were spread over the run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Self

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

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
NO_VALUE_SHARE = 0.045  # height of the lane of trials without a value, as a share of the panel
MOST_ARMS, NAME_IN = 8, 1.85
UNSTEADY = 0.10  # range of the block medians from which on the caption warns of a disturbed host
RING_PT = 5.0
LEFT_IN, TITLE_IN, GAP_IN, FOOT_IN, VALUES_IN, DRIFT_IN = 0.62, 0.3, 0.34, 0.46, 2.05, 0.75
BOTTOM_IN = TITLE_IN + VALUES_IN  # bottom of the upper panel
OTHERS = palette.VerdictStyle(palette.OTHERS, palette.SOFT, "", "o")


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

    @cached_property
    def key(self) -> list[tuple[str, str, palette.VerdictStyle]]:
        """The labels beside the plot: (treatment, name, style); treatments without their own style are one entry."""
        key = [(t, name, self.styles[t]) for t, name in self.names.items() if self.styles[t] is not OTHERS]
        others = len(self.styles) - len(key)
        return [*key, ("", f"{others} others", OTHERS)] if others else key

    @cached_property
    def drift(self) -> tuple[pd.DataFrame, pd.Series]:
        """The valid trials with `off` (log ratio to their treatment's median), and the median of `off` by block."""
        usable = self.values[self.values["valid"] & (self.values["value"] > 0)]
        usual = usable.groupby("treatment")["value"].transform("median")
        usable = usable.assign(off=np.log(usable["value"] / usual))
        return usable, usable.groupby("block")["off"].median()

    def _draw(self) -> base.Sheet:
        size = base.LETTER_PT - 0.4
        names = [base.wrap(name, NAME_IN, size) for _, name, _ in self.key]
        drift_top = BOTTOM_IN + GAP_IN
        sheet = base.Sheet(drift_top + DRIFT_IN + FOOT_IN)
        right = base.WIDTH_IN - base.max_text_width(names, size) - 0.3
        upper = sheet.panel(LEFT_IN, TITLE_IN, right, BOTTOM_IN)
        lower = sheet.panel(LEFT_IN, drift_top, right, drift_top + DRIFT_IN)
        limits = self._draw_values(upper)
        self._draw_excluded(sheet, upper, limits, right)
        self._draw_drift(lower)
        for panel in (upper, lower):
            axes.shade_blocks(panel, self.values)
            axes.set_block_axis(panel, self.values, right - LEFT_IN, sheet.size)
        upper.set_xticks([])
        self._write_names(sheet, names, limits, right)
        unit = axes.axis_unit(self.metric, float(self.values["value"].max()))
        title = axes.value_axis_title(self.metric, self.analysis.statistic, unit)
        sheet.text(LEFT_IN, 0.13, title, colour=palette.SOFT)
        title = "drift: each trial against its own treatment’s median; line = block median"
        sheet.text(LEFT_IN, drift_top - 0.12, title, colour=palette.SOFT)
        most = self.values.groupby("block").size().max()
        title = f"block (order of execution; {most} trials{'' if self.is_confounded else f' {self.order}'} in each)"
        sheet.text((LEFT_IN + right) / 2, sheet.height - 0.14, title, colour=palette.SOFT, align="center")
        self._add_hover_areas(sheet, limits, right)
        return sheet

    def _draw_values(self, panel: Axes) -> Interval:
        """Draw the valid trials and rings around outliers; return the limits of the y axis."""
        usable, _ = self.drift
        low, high = axes.value_range((self.values if usable.empty else usable)["value"], 0.07)
        if not self.excluded.empty:  # room above for the reasons, below for trials without a value
            below = 0.12 if (~(self.excluded["value"] > 0)).any() else 0.0
            low, high = low * (high / low) ** -below, high * (high / low) ** 0.14
        axes.set_value_y_axis(panel, (low, high), axes.axis_unit(self.metric, high), VALUES_IN)
        for treatment, style in sorted(self.styles.items(), key=lambda item: item[1] is not OTHERS):
            own = usable[usable["treatment"] == treatment]
            props = base.marker_props(style, _marker_pt(style))
            panel.plot(own["slot"], np.log(own["value"]), **props, zorder=2 if style is OTHERS else 3)
        far = usable[usable["trial"].isin(list(self.outliers))]
        panel.plot(
            far["slot"], np.log(far["value"]), linestyle="none", marker="o", markersize=6.0 + RING_PT,
            markerfacecolor="none", markeredgecolor=palette.INK, markeredgewidth=0.9, zorder=4,
        )  # fmt: skip
        return low, high

    def _draw_excluded(self, sheet: base.Sheet, panel: Axes, limits: Interval, right: float) -> None:
        """Draw a cross for each excluded trial (in the lowest lane if it has no value), and write the reason."""
        excluded = self.excluded
        if excluded.empty:
            return
        low, span = math.log(limits[0]), math.log(limits[1] / limits[0])
        lowest = low + NO_VALUE_SHARE * span
        heights = np.log(excluded["value"].where(excluded["value"] > 0)).clip(lowest, low + 0.84 * span)
        heights = heights.fillna(lowest)
        panel.plot(excluded["slot"], heights, **base.cross_props(6, 1.4))
        size, width = sheet.size - 0.8, right - LEFT_IN
        statuses = excluded["status"].str.replace("_", " ")
        reasons = [
            base.drawable(self.exclusion_reasons.get(trial) or status, status)
            for trial, status in zip(excluded["trial"], statuses, strict=True)
        ]
        texts = [base.wrap(f"{reason}: not counted", 0.55 * width, size, lines=1) for reason in reasons]
        widths = [base.text_width(text, size) + 0.14 for text in texts]
        first, last = axes.slot_limits(self.values)
        xs = [LEFT_IN + width * (slot - first) / (last - first) for slot in excluded["slot"]]
        ys = [BOTTOM_IN - VALUES_IN * (height - low) / span for height in heights]
        without_value = [y > BOTTOM_IN - (NO_VALUE_SHARE + 0.02) * VALUES_IN for y in ys]
        if len(texts) > MOST_REASONS or sum(widths) > width or sum(without_value) > 1:
            why = f": {reasons[0]}" if len(set(reasons)) == 1 else ""
            text = f"✕ {len(excluded)} of {pluralize(len(self.values), 'trial')} not counted{why}"
            sheet.text(LEFT_IN + 0.08, TITLE_IN + 0.1, base.wrap(text, width, size, lines=1), size=size)
            return
        middles = base.avoid_overlap(xs, widths, LEFT_IN, right)
        for text, x, y, need, middle, is_lowest in zip(texts, xs, ys, widths, middles, without_value, strict=True):
            if is_lowest and x + need < right:
                sheet.text(x + 0.08, y, text, size=size, colour=palette.SOFT)
            elif is_lowest:
                sheet.text(x - 0.08, y, text, size=size, colour=palette.SOFT, align="right")
            else:  # at the top, with a line to the trial's cross
                sheet.text(middle, TITLE_IN + 0.1, text, size=size, colour=palette.SOFT, align="center")
                if y - TITLE_IN > 0.35:
                    sheet.line([middle, x], [TITLE_IN + 0.19, y - 0.08], palette.SOFT, 0.6)

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

    def _write_names(self, sheet: base.Sheet, names: list[str], limits: Interval, right: float) -> None:
        """Write each treatment's name at the right, near its median but without overlap."""
        size, low, high = sheet.size - 0.4, math.log(limits[0]), math.log(limits[1])
        medians = self.values[self.values["value"] > 0].groupby("treatment")["value"].median()
        wanted = []
        for treatment, _, _ in self.key:
            median = medians.get(treatment, math.nan)
            y = BOTTOM_IN if not median > 0 else BOTTOM_IN - VALUES_IN * (math.log(median) - low) / (high - low)
            wanted.append(min(max(y, TITLE_IN), BOTTOM_IN))
        heights = [base.text_height(size, base.line_count(name)) + 0.015 for name in names]
        lacking = max(0.0, sum(heights) - VALUES_IN)
        places = base.avoid_overlap(wanted, heights, TITLE_IN - lacking / 2, BOTTOM_IN + lacking / 2)
        for name, (_, _, style), y in zip(names, self.key, places, strict=True):
            sheet.marker(right + 0.14, y, style, _marker_pt(style))
            sheet.text(right + 0.26, y, name, size=size, colour=style.text)

    def _add_hover_areas(self, sheet: base.Sheet, limits: Interval, right: float) -> None:
        """Add a hover text to each valid trial: number, treatment and value."""
        usable, (first, last) = self.drift[0], axes.slot_limits(self.values)
        across = (right - LEFT_IN) / (last - first)
        up = VALUES_IN / math.log(limits[1] / limits[0])
        columns = (usable[c] for c in ("trial", "treatment", "slot", "value", "off"))
        for trial, treatment, slot, value, off in zip(*columns, strict=True):
            x, y = LEFT_IN + across * (slot - first), BOTTOM_IN - up * math.log(value / limits[0])
            half = max(0.03, min(0.06, across / 2))
            text = f"{trial}: {self.names.get(treatment, treatment)}, {format_quantity(value, self.metric.unit)}"
            sheet.hover(x - half, y - 0.06, x + half, y + 0.06, f"{text} ({log_ratio_text(off)})")

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
        """The subject, and in words: the numbers of trials, blocks and excluded trials."""
        label = base.metric_label(self.metric, self.analysis.statistic)
        counts = (
            f"{label} of {len(self.values)} trials in order of execution, "
            f"{pluralize(self.values['block'].nunique(), 'block')}, {len(self.excluded)} not counted, "
            f"{len(self.outliers)} ringed as far from the others of its treatment."
        )
        return counts, ""


def _marker_pt(style: palette.VerdictStyle) -> float:
    return 3.2 if style is OTHERS else 6.0
