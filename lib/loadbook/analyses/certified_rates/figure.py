"""Figure of the starts of each treatment: within which time the objective's share of the requests was answered."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from loadbook.analyses.certified_rates.compute import JudgedRate
from loadbook.core.metrics import OBJECTIVE_TIME, get_metric
from loadbook.core.units import NBSP
from loadbook.modes.capacity.spec import CapacityObjective
from loadbook.modes.capacity.stats_certified import TOLERANCE
from loadbook.report import palette
from loadbook.report.figures import axes as scales
from loadbook.report.figures import base
from loadbook.stats.results import Analysis

TOP_IN, ROW_IN, GAP_IN, FOOT_IN = 0.12, 0.55, 0.14, 0.5
MAX_TIME_RATIO = 12.0  # of times to the limit: above it, marks lie on the right edge
MAX_ROWS = 8


class StartsFigure(base.ReportFigure):
    """Time of every start against the limit, a row per treatment; later blocks are lower in the row."""

    def __init__(
        self, analysis: Analysis, objective: CapacityObjective, rates: dict[str, JudgedRate],
        values: pd.DataFrame,
    ) -> None:  # fmt: skip
        self.objective, self.rates = objective, rates
        self.values = values[values["valid"]].dropna(subset=["value"])
        self.names, self.styles = base.treatment_names(analysis), base.treatment_styles(analysis)
        self.rows = list(rates)[:MAX_ROWS]
        times_s = self.values["value"].astype(float)
        highest_s = min(max(float(times_s.max()), objective.within_s), MAX_TIME_RATIO * objective.within_s)
        self.times = min(float(times_s.min()), objective.within_s) / 1.15, 1.15 * highest_s

    def _draw(self) -> base.Sheet:
        sheet = base.Sheet(TOP_IN + len(self.rows) * (ROW_IN + GAP_IN) + FOOT_IN)
        names_in = min(2.2, base.max_text_width([self.names[name] for name in self.rows], base.LETTER_PT, True)) + 0.2
        left, right = max(names_in, 1.3) + 0.15, base.WIDTH_IN - 0.15
        for number, name in enumerate(self.rows):
            top = TOP_IN + number * (ROW_IN + GAP_IN)
            panel = sheet.panel(left, top, right, top + ROW_IN)
            panel.set_ylim(1.05, -0.05)
            panel.set_yticks([])
            panel.set_xlim(math.log(self.times[0]), math.log(self.times[1]))
            panel.axvline(math.log(self.objective.within_s), color=palette.INK, linewidth=1.0, zorder=1)
            own = self.values[self.values["treatment"] == name].sort_values("block")
            times_s = own["value"].to_numpy(float)
            met, heights = times_s <= self.objective.within_s * (1 + TOLERANCE), np.linspace(0.1, 0.9, len(own))
            xs = np.log(np.clip(times_s, *self.times))
            for chosen, hollow in ((met, False), (~met, True)):
                style = base.marker_props(replace(self.styles[name], hollow=hollow, marker="o"), 4.2)
                panel.plot(xs[chosen], heights[chosen], **style, zorder=3, clip_on=False)
            sheet.text(0.05, top + 0.2, base.shorten(self.names[name], names_in - 0.1, sheet.size, True), bold=True)
            starts = self.rates[name].starts
            sheet.text(0.05, top + 0.42, f"{starts.met} of {starts.made} starts", colour=self.styles[name].text)
            if name != self.rows[-1]:
                panel.set_xticks([])
            else:
                unit = scales.axis_unit(get_metric(OBJECTIVE_TIME), self.objective.within_s)
                scales.set_value_x_axis(panel, self.times, unit, right - left, sheet.size)
                title = f"time within which {self.objective.share_text} are answered, {unit.name} (log scale)"
                middle, bottom = (left + right) / 2, sheet.height - 0.12
                sheet.text(middle, bottom, title, colour=palette.SOFT, align="center", size=9.2)
        return sheet

    @property
    def caption(self) -> str:
        """The number of starts of each treatment that met the objective."""
        parts = [f"{one.starts.met} of {one.starts.made} with {one.text(self.names)}" for one in self.rates.values()]
        return f"Starts that met the objective: {', '.join(parts)}."

    @property
    def help(self) -> str:
        """Instructions for reading the figure."""
        limit = f"{1000 * self.objective.within_s:g}{NBSP}ms"
        return (
            f"Each mark is one start of the service under its load: filled if it met the objective ({limit}, the "
            f"vertical line), hollow if it missed it; at the right edge beyond {MAX_TIME_RATIO:g} limits. Later "
            "blocks are lower."
        )

    @property
    def description(self) -> tuple[str, str]:
        """Nothing beside the caption."""
        return "", ""
