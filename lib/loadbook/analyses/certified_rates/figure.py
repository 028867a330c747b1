"""Figure of the starts of each treatment: within which time the objective's share of the requests was answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from loadbook.analyses.certified_rates.compute import JudgedRate
from loadbook.core.metrics import OBJECTIVE_TIME, get_metric
from loadbook.core.units import NBSP
from loadbook.modes.capacity.spec import CapacityObjective
from loadbook.modes.capacity.stats_certified import TOLERANCE
from loadbook.report import palette
from loadbook.report.figures import axes as scales
from loadbook.report.figures import base
from loadbook.report.figures.rows import Cell, Row, RowsDrawing
from loadbook.stats.results import Analysis

ROW_IN, MARKS_IN, NAME_LETTERS = 0.62, 0.42, 30
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

    def _draw(self) -> base.Drawing:
        drawing = RowsDrawing([self._row(name) for name in self.rows], ())
        panel = drawing.panels[0]
        unit = scales.axis_unit(get_metric(OBJECTIVE_TIME), self.objective.within_s)
        scales.set_value_scale(panel.xaxis, self.times, unit)
        panel.set_xlabel(f"time within which {self.objective.share_text} are answered, {unit.name} (log scale)")
        panel.axvline(self.objective.within_s, color=palette.INK, linewidth=1.0, zorder=1)
        for top in drawing.tops[1:]:
            panel.axhline(top, color=palette.RULE, linewidth=0.8)
        return drawing

    def _row(self, name: str) -> Row:
        """Return the texts and marks of one treatment."""
        times_s = self.values[self.values["treatment"] == name].sort_values("block")["value"].to_numpy(float)
        met = times_s <= self.objective.within_s * (1 + TOLERANCE)
        shifts = np.linspace(-MARKS_IN / 2, MARKS_IN / 2, len(times_s))

        def draw(panels: Sequence[Axes], y: float) -> None:
            for chosen, hollow in ((met, False), (~met, True)):
                style = base.marker_props(replace(self.styles[name], hollow=hollow, marker="o"), 4.2)
                times = np.clip(times_s[chosen], *self.times)
                panels[0].plot(times, y + shifts[chosen], **style, zorder=3, clip_on=False)

        starts, colour = self.rates[name].starts, self.styles[name].text
        note = f"{starts.met} of {starts.made} starts"
        label = Cell(base.fold(self.names[name], NAME_LETTERS), note, bold=True, note_colour=colour)
        return Row(label, draw=draw, least_in=ROW_IN)

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
