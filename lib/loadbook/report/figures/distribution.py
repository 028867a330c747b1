"""The latency of all requests of each treatment together, beside the baseline's.

The figure describes the distribution; nothing is tested on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, format_duration
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import ReportFigure, Sheet, pluralize, shorten, treatment_names
from loadbook.request_logs.summary import ExceedanceCurve
from loadbook.stats.results import Analysis

LEFT_IN, HEAD_IN, HEIGHT_IN, FOOT_IN, GAP_IN = 0.62, 0.3, 1.15, 0.46, 0.24
MOST_IN_A_ROW = 4
ALT_SHARES = (0.5, 0.1, 0.01, 0.001)  # shares of slower requests that the alternative text gives


class LatencyDistributionFigure(ReportFigure):
    """One panel per treatment: time (log) against the share of requests that took longer (log).

    `curves` maps treatments to the distribution of the requests of all their counting trials together.
    """

    def __init__(self, analysis: Analysis, curves: Mapping[str, ExceedanceCurve]) -> None:
        self.analysis, self.curves, self.names = analysis, curves, treatment_names(analysis)
        times = [t for curve in curves.values() for t in curve.times_s if t > 0]
        low, high = (min(times), max(times)) if times else (1e-3, 1e-2)
        self.limits = (low / 1.05, max(high, 1.1 * low) * 1.05)
        self.unit = axes.axis_unit(get_metric("latency"), self.limits[1])

    def _draw(self) -> Sheet:
        order = [row.treatment for row in self.analysis.rows if row.treatment in self.curves]
        across = min(MOST_IN_A_ROW, max(1, len(order)))
        each = HEAD_IN + HEIGHT_IN + FOOT_IN
        sheet = Sheet(max(1, math.ceil(len(order) / across)) * each)
        width = (sheet.width - LEFT_IN - 0.1 - GAP_IN * (across - 1)) / across
        baseline = self.analysis.baseline
        for number, treatment in enumerate(order):
            row, column = divmod(number, across)
            left, top = LEFT_IN + column * (width + GAP_IN), row * each + HEAD_IN
            panel = sheet.panel(left, top, left + width, top + HEIGHT_IN)
            sheet.text(left, top - 0.13, shorten(self.names[treatment], width, sheet.size, bold=True), bold=True)
            self._set_axes(panel, width, sheet.size, first=column == 0)
            if treatment != baseline and baseline in self.curves:
                _draw_curve(panel, self.curves[baseline], palette.SOFT, 1.1, (0, (3, 2)))
            _draw_curve(panel, self.curves[treatment], palette.INK, 1.7, "-")
        title = f"latency, {self.unit.name} (log); vertical: share of requests that took longer (log)"
        sheet.text(LEFT_IN, sheet.height - 0.1, title, size=sheet.size - 0.6, colour=palette.SOFT)
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
        """Describes the figure, and states that it decides nothing."""
        requests = sum(c.requests for c in self.curves.values())
        trials = pluralize(sum(c.trials for c in self.curves.values()), "trial")
        return (
            f"{requests:,} requests of {trials}, put together for the picture: it describes, and nothing is tested "
            "on it."
        )

    @property
    def help(self) -> str:
        """How the figure is read."""
        return (
            "Solid: all requests of the treatment’s counting trials together; dashed: the baseline’s. At 1 % stands "
            "p99. Each line ends where 20 requests are left. The requests of a trial share its moment, so verdicts "
            "come only from the percentiles of single trials above."
        )

    @property
    def alt_text(self) -> str:
        """The caption and the percentiles that the curves pass."""
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
