"""Figure of times against offered rates: a row per treatment with every probe, the limit, and capacities of blocks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from loadbook.analyses.capacity.compute import Capacity
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP
from loadbook.modes.capacity.spec import CapacityObjective
from loadbook.report import palette
from loadbook.report.figures import axes as scales
from loadbook.report.figures import base
from loadbook.stats.results import Analysis
from loadbook.store.trial_record import PROBE_SERIES

TOP_IN, ROW_IN, GAP_IN, FOOT_IN = 0.42, 0.95, 0.16, 0.42
MAX_TIME_RATIO = 12.0  # of times to the limit: above it, marks lie on the upper edge
TICK_SHARE = 0.12  # of a row's height: the ticks of the blocks' capacities
MAX_ROWS = 8


class ThroughputLatencyFigure(base.ReportFigure):
    """Time of the objective's share against offered rate, for every probe of every treatment."""

    def __init__(
        self, analysis: Analysis, objective: CapacityObjective, probes: pd.DataFrame, capacities: dict[str, Capacity],
        values: pd.DataFrame,
    ) -> None:  # fmt: skip
        self.objective, self.probes, self.capacities, self.values = objective, probes, capacities, values
        self.names, self.styles = base.treatment_names(analysis), base.treatment_styles(analysis)
        drawn = [row.treatment for row in base.rows_in_reading_order(analysis) if row.treatment in capacities]
        self.rows, self.left_out = drawn[:MAX_ROWS], len(drawn[MAX_ROWS:])
        searched = probes[probes["series"] == PROBE_SERIES["search"]]
        self.rates = scales.value_range(searched["rate_per_s"].astype(float), 0.05)
        limit_s, highest = objective.within_s, MAX_TIME_RATIO * objective.within_s
        self.times = min(float(probes["time_s"].min()), limit_s) / 1.3, highest

    def _draw(self) -> base.Sheet:
        sheet = base.Sheet(TOP_IN + len(self.rows) * (ROW_IN + GAP_IN) + FOOT_IN)
        names_in = min(2.0, base.max_text_width([self.names[name] for name in self.rows], base.LETTER_PT, True)) + 0.2
        left, right = names_in + 0.55, base.WIDTH_IN - 0.15
        time_unit = scales.axis_unit(get_metric("latency"), self.objective.within_s)
        share = self.objective.share_text
        sheet.text(0.05, 0.16, f"time within which {share} are answered, {time_unit.name} (log scale)")
        for number, name in enumerate(self.rows):
            top = TOP_IN + number * (ROW_IN + GAP_IN)
            panel = sheet.panel(left, top, right, top + ROW_IN)
            panel.set_xlim(math.log(self.rates[0]), math.log(self.rates[1]))
            scales.set_value_y_axis(panel, self.times, time_unit, ROW_IN)
            self._draw_row(panel, name)
            label = base.shorten(self.names[name], names_in - 0.1, sheet.size, True)
            sheet.text(0.05, top + 0.25, label, bold=True)
            typical = f"{self.capacities[name].typical_per_s:,.0f}/s"
            sheet.text(0.05, top + 0.48, typical, colour=self.styles[name].text)
            if name != self.rows[-1]:
                panel.set_xticks([])
            else:
                unit = scales.axis_unit(get_metric("offered_per_s"), self.rates[1])
                scales.set_value_x_axis(panel, self.rates, unit, right - left, sheet.size)
                title = f"offered requests per second{f', {unit.name}' if unit.name else ''} (log scale)"
                sheet.text(
                    (left + right) / 2, sheet.height - 0.12, title, colour=palette.SOFT, align="center", size=9.2
                )
        return sheet

    def _draw_row(self, panel: Axes, name: str) -> None:
        """Draw the limit, the probes and the capacities of one treatment."""
        panel.axhline(math.log(self.objective.within_s), color=palette.INK, linewidth=1.0, zorder=1)
        own, style = self.probes[self.probes["treatment"] == name], self.styles[name]
        inside = own[own["rate_per_s"].between(*self.rates)]
        top = math.log(self.times[1])
        for met, hollow in ((True, False), (False, True)):
            marked = inside[inside["met"] == met]
            xs = np.log(marked["rate_per_s"].to_numpy(float))
            ys = np.minimum(np.log(marked["time_s"].to_numpy(float)), top)
            panel.plot(
                xs, ys, **base.marker_props(replace(style, hollow=hollow, marker="o"), 4.6), zorder=3, clip_on=False
            )
        blocks = self.values[(self.values["treatment"] == name) & self.values["valid"]]["value"].dropna()
        low, high = panel.get_ylim()
        for capacity in blocks:
            at = math.log(float(capacity))
            panel.plot([at, at], [low, low + TICK_SHARE * (high - low)], color=style.fill, linewidth=1.2, zorder=2)
        at = math.log(self.capacities[name].typical_per_s)
        panel.plot([at, at], [low, high], color=style.fill, linewidth=0.8, linestyle=scales.DASHED, zorder=1)

    @property
    def caption(self) -> str:
        """The rates that the treatments sustain within the objective."""
        names = [f"{self.capacities[name].typical_per_s:,.0f}/s with {self.names[name]}" for name in self.rows]
        rest = f" {self.left_out} more are in the table." if self.left_out else ""
        return f"{self.objective.share_text} are answered in time up to: {', '.join(names)}.{rest}"

    @property
    def help(self) -> str:
        """Instructions for reading the figure."""
        limit = f"{1000 * self.objective.within_s:g}{NBSP}ms"
        return (
            "Each mark is a probe, a load at one rate from a fresh service: filled if it met the objective "
            f"({limit}, the horizontal line), hollow if it missed it. Short ticks: the capacity that the search of "
            "each block found; dashed line: their median."
        )

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: the number of probes."""
        return "", f"{len(self.probes)} probes."
