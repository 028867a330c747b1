"""Connections per request that the application accepted: reused connections against one per request."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from loadbook.analyses.balancers import compute
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import (
    LETTER_PT,
    WIDTH_IN,
    ReportFigure,
    Sheet,
    cross_props,
    marker_props,
    max_text_width,
    pluralize,
    shorten,
    treatment_names,
    wrap,
)
from loadbook.stats.results import Analysis

HEAD_IN, FOOT_IN, ROW_IN, GAP_IN, NAME_IN = 0.36, 0.62, 0.32, 0.12, 2.6
ONE_PER_REQUEST = "1: a connection for every request"
AXIS_TITLE = "connections accepted by the application per request (log scale; none apart)"


class ConnectionsFigure(ReportFigure):
    """One row per treatment that reaches the application, one dot per trial.

    `per_request` has connections per request, a row per trial (`compute.connections_per_request`).
    """

    def __init__(self, analysis: Analysis, per_request: pd.DataFrame) -> None:
        self.per_request, self.names = per_request, treatment_names(analysis)
        measured = set(per_request["treatment"])
        self.treatments = [r.treatment for r in analysis.of_kind("baseline", "treatment") if r.treatment in measured]
        self.medians = compute.median_per_request(per_request, self.treatments)

    def _draw(self) -> Sheet:
        sheet = Sheet(HEAD_IN + ROW_IN * len(self.treatments) + FOOT_IN)
        texts = {treatment: compute.per_request_text(value) for treatment, value in self.medians.items()}
        names = max_text_width([self.names[t] for t in self.treatments], LETTER_PT, True)
        left = min(max(names, 0.9), NAME_IN) + 0.2
        right = WIDTH_IN - max(max_text_width(list(texts.values()), LETTER_PT), 1.2) - 0.2
        bottom, zero_right = sheet.height - FOOT_IN, left + 0.7
        zero = sheet.rows_panel(left, HEAD_IN, zero_right, bottom)
        axis = sheet.rows_panel(zero_right + GAP_IN, HEAD_IN, right, bottom)
        low = self._set_axes(zero, axis, right - zero_right - GAP_IN, sheet.size)
        for number, treatment in enumerate(self.treatments):
            top = HEAD_IN + ROW_IN * number
            _draw_background(zero, axis, top, top + ROW_IN)
            middle = top + ROW_IN / 2
            self._draw_trials(zero, axis, treatment, middle, low)
            name = shorten(self.names[treatment], NAME_IN, sheet.size, True)
            sheet.text(left - 0.12, middle, name, bold=True, align="right")
            sheet.text(right + 0.15, middle, texts.get(treatment, "no trial counts"))
        size = sheet.size - 0.6
        sheet.text(right, HEAD_IN - 0.08, ONE_PER_REQUEST, size=size, colour=palette.SOFT, align="right", va="bottom")
        title = wrap(AXIS_TITLE, right - left + 1.0, sheet.size)
        sheet.text((left + right) / 2, bottom + 0.28, title, colour=palette.SOFT, align="center", va="top")
        return sheet

    def _set_axes(self, zero: Axes, axis: Axes, width: float, size: float) -> float:
        """Set up both panels; return the lower end of the log axis."""
        positive = self.per_request.loc[self.per_request["value"] > 0, "value"]
        low, high = min([*positive, 0.1]) / 2, max([*positive, 1.0]) * 1.6
        zero.set_xlim(-0.06, 1.06)
        axes.set_ticks(zero.xaxis, [0.5], ["0"])
        axes.set_value_x_axis(axis, (low, high), axes.AxisUnit(1.0, ""), width, size)
        return float(low)

    def _draw_trials(self, zero: Axes, axis: Axes, treatment: str, y: float, low: float) -> None:
        """Draw one dot per trial, at the height of its block; × for a trial that does not count."""
        own = self.per_request[self.per_request["treatment"] == treatment]
        rank = own["block"].rank(method="dense") / (own["block"].nunique() + 1)
        for valid in (True, False):
            props = marker_props(palette.BASELINE, 4.0) if valid else cross_props(4.5, 1.2)
            chosen = own["valid"] == valid
            none, some = chosen & (own["value"] <= 0), chosen & (own["value"] > 0)
            zero.plot(rank[none], [y] * int(none.sum()), **props)
            axis.plot(np.log(own.loc[some, "value"].clip(lower=low)), y + 0.18 * (rank[some] - 0.5), **props)

    @property
    def caption(self) -> str:
        """Which treatments use connections again."""
        return compute.pooling_sentence(self.medians, self.names)

    @property
    def help(self) -> str:
        """How to read the figure, and the source of the counts."""
        drawn = self.per_request["treatment"].isin(self.treatments) & self.per_request["valid"]
        text = f"One dot is one trial ({pluralize(int(drawn.sum()), 'trial')}), at the right: the median. Counted by"
        text += " the application: connections accepted over requests answered, from before the warm-up to after the"
        return text + " load." + (" ✕: not counted." if not self.per_request["valid"].all() else "")

    @property
    def alt_text(self) -> str:
        """The caption and every treatment's number in words."""
        rows = [f"{self.names[t]}: {compute.per_request_text(value)}" for t, value in self.medians.items()]
        return f"Connections to the application for each request. {self.caption} {'; '.join(rows)}."


def _draw_background(zero: Axes, axis: Axes, top: float, bottom: float) -> None:
    """Shade the lane of trials without a connection, and draw the line of one connection per request."""
    zero.add_patch(Rectangle((-0.06, top), 1.12, bottom - top, facecolor=palette.BLOCK_TINT, linewidth=0, zorder=-3))
    axis.plot([0, 0], [top, bottom], color=palette.INK, linewidth=1.1, zorder=-2)
    axis.axhline(bottom, color=palette.GRID, linewidth=0.6, zorder=-4)
