"""The figure of a comparison of files: the value of every run, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import pandas as pd

from loadbook.analyses.compare_files.compute import FilesComparison, values_of
from loadbook.analyses.compare_files.sides import Run, Side
from loadbook.core.metrics import get_metric
from loadbook.core.units import format_quantity, pluralize
from loadbook.report import palette
from loadbook.report.figures import axes, base

HEAD_IN, SIDE_IN = 0.75, 0.62  # height of the axis, and of each side
SPREAD = 0.66  # of a side's height, over which its runs are spread in their order
MARK_PT, CROSS_PT = 6.0, 5.0
NAME_LETTERS = 26


class RunsFigure(base.ReportFigure):
    """The deciding metric of every run of each side, in the order of the runs, with the median of each side."""

    def __init__(self, result: FilesComparison) -> None:
        self.result = result
        self.key = result.question.key
        self.metric = get_metric(self.key[0])
        self.sides = [side for side in result.sides if self._values(side.runs)]

    def _values(self, runs: Sequence[Run]) -> list[float]:
        return [run.values[self.key] for run in runs if run.values.get(self.key, 0.0) > 0]

    def _counted(self, side: Side) -> list[float]:
        return values_of(side, self.key)

    def _style(self, side: Side) -> palette.VerdictStyle:
        if side is self.result.baseline:
            return palette.BASELINE
        verdict = next(v for v in self.result.verdicts if v.comparison.treatment == side.name)
        return palette.VERDICTS[verdict.kind] if verdict.kind != "invalid" else palette.CONTROL

    def _draw(self) -> base.Drawing:
        drawing = base.Drawing(HEAD_IN + SIDE_IN * len(self.sides))
        panel = drawing.figure.subplots()
        values = pd.Series([value for side in self.sides for value in self._values(side.runs)])
        unit = axes.axis_unit(self.metric, float(values.max()))
        axes.set_value_scale(panel.xaxis, axes.value_range(values), unit)
        panel.set_xlabel(axes.value_axis_title(self.metric, self.key[1], unit))
        panel.set_ylim(len(self.sides) - 0.5, -0.5)
        names = [base.drawable(side.name, f"side {place + 1}") for place, side in enumerate(self.sides)]
        axes.set_ticks(panel.yaxis, range(len(names)), [base.fold(name, NAME_LETTERS) for name in names])
        panel.tick_params(axis="y", length=0)
        panel.grid(axis="x", color=palette.GRID, linewidth=0.8)
        for place, side in enumerate(self.sides):
            style, step = self._style(side), SPREAD / max(1, len(side.runs) - 1)
            for number, run in enumerate(side.runs):
                value = run.values.get(self.key, 0.0)
                if value > 0:
                    height = place + (number * step - SPREAD / 2 if len(side.runs) > 1 else 0.0)
                    props = base.marker_props(style, MARK_PT) if run.counts else base.cross_props(CROSS_PT, 1.2)
                    panel.plot(value, height, **props)
            if counted := self._counted(side):
                panel.vlines(median(counted), place - 0.42, place + 0.42, color=style.edge, linewidth=1.6)
        return drawing

    @property
    def caption(self) -> str:
        """Whether the ranges of the sides overlap."""
        base_values = self._counted(self.result.baseline)
        names = [
            side.name
            for side in self.result.sides[1:]
            if (own := self._counted(side)) and base_values and max(min(own), min(base_values)) <= min(
                max(own), max(base_values)
            )
        ]  # fmt: skip
        others = len(self.result.sides) - 1
        if others == 1:
            return f"The ranges of the two sides {'overlap' if names else 'do not overlap'}."
        if not names:
            return "No side's range overlaps that of the baseline."
        noun = "range" if len(names) == 1 else "ranges"
        verb = "overlaps" if len(names) == 1 else "overlap"
        return f"The {noun} of {base.join_first(names, 4, 'sides')} {verb} that of the baseline."

    @property
    def help(self) -> str:
        """How to read the figure."""
        crosses = any(not run.counts for side in self.sides for run in side.runs)
        counted = " A cross is a run that does not count." if crosses else ""
        return f"A mark is a run, the first one of a side on top; the line is the median of the side.{counted}"

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and the range of each side in words."""
        texts = [
            f"{side.name}: {pluralize(len(counted), 'run')} from {format_quantity(min(counted), self.metric.unit)} "
            f"to {format_quantity(max(counted), self.metric.unit)}"
            for side in self.sides
            if (counted := self._counted(side))
        ]
        return f"The {base.metric_label(self.metric, self.key[1])} of every run by side.", "; ".join(texts) + "."
