"""Figure of times against offered rates: a row per treatment with every probe, the limit, and capacities of blocks."""

from __future__ import annotations

from dataclasses import replace

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

ROW_IN, TITLES_IN, NAME_LETTERS = 1.12, 0.8, 24
MAX_TIME_RATIO = 12.0  # of times to the limit: above it, marks lie on the upper edge
TICK_SHARE = 0.12  # of a row's height: the ticks of the blocks' capacities
MAX_ROWS = 8


class ThroughputLatencyFigure(base.ReportFigure):
    """Time within which the objective's share is answered against offered rate, for every probe of every treatment.

    `probes` and `capacities` are results of `compute`; `values` has each trial's capacity (`RunData.values`), 1/s.
    """

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

    def _draw(self) -> base.Drawing:
        drawing = base.Drawing(len(self.rows) * ROW_IN + TITLES_IN)
        panels = drawing.figure.subplots(len(self.rows), sharex=True, sharey=True, squeeze=False)[:, 0]
        time_unit = scales.axis_unit(get_metric("latency"), self.objective.within_s)
        unit = scales.axis_unit(get_metric("offered_per_s"), self.rates[1])
        scales.set_value_scale(panels[0].xaxis, self.rates, unit)
        scales.set_value_scale(panels[0].yaxis, self.times, time_unit)
        title = f"time within which {self.objective.share_text} are answered, {time_unit.name} (log scale)"
        drawing.figure.suptitle(title, x=0.01, ha="left", size=base.LETTER_PT, weight="normal")
        panels[-1].set_xlabel(f"offered requests per second{f', {unit.name}' if unit.name else ''} (log scale)")
        for panel, name in zip(panels, self.rows, strict=True):
            panel.set_ylabel(base.fold(self.names[name], NAME_LETTERS), rotation=0, ha="right", va="center",
                             color=palette.INK, weight="bold")  # fmt: skip
            self._draw_row(panel, name)
        return drawing

    def _draw_row(self, panel: Axes, name: str) -> None:
        """Draw the limit, the probes and the capacities of one treatment."""
        panel.axhline(self.objective.within_s, color=palette.INK, linewidth=1.0, zorder=1)
        own, style = self.probes[self.probes["treatment"] == name], self.styles[name]
        inside = own[own["rate_per_s"].between(*self.rates)]
        for met in (True, False):
            marked = inside[inside["met"] == met]
            props = base.marker_props(replace(style, hollow=not met, marker="o"), 4.6)
            times = marked["time_s"].clip(upper=self.times[1])
            panel.plot(marked["rate_per_s"], times, **props, zorder=3, clip_on=False)
        blocks = self.values[(self.values["treatment"] == name) & self.values["valid"]]["value"].dropna()
        upwards, colour, typical = panel.get_xaxis_transform(), style.fill, self.capacities[name].typical_per_s
        panel.vlines(blocks, 0, TICK_SHARE, transform=upwards, color=colour, linewidth=1.2, zorder=2)
        panel.axvline(typical, color=colour, linewidth=0.8, linestyle=scales.DASHED, zorder=1)
        panel.annotate(f"{typical:,.0f}/s", (typical, 1), (0, 2), xycoords=upwards, textcoords="offset points",
                       ha="center", color=style.text)  # fmt: skip

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
