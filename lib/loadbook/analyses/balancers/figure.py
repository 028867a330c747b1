"""Figures of balancer studies: the rate over the number of nodes, and connections per request."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from loadbook.analyses.balancers import compute
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, decimals_for_half_width, pluralize
from loadbook.report import palette
from loadbook.report.figures import axes, base
from loadbook.report.figures.base import ReportFigure, drawable
from loadbook.report.figures.rows import Cell, Row, write_above
from loadbook.report.figures.zero_lane import block_places, draw_lanes, draw_trials
from loadbook.stats.headline import neutral_caption
from loadbook.stats.results import Analysis, AnalysisRow, Interval
from loadbook.stats.text import margin_text
from loadbook.stats.verdict import is_within_margin

NAME_LETTERS, LABEL_LETTERS, TITLE_LETTERS, LEAST_IN, LABEL_LINE_IN = 34, 26, 52, 3.5, 0.18
LEAST_RATIO = 1e-4  # a smaller one is drawn here
LINES: tuple[Any, ...] = ("-", ":", "-.", (0, (1, 4)))  # of balancers
COARSE_TICKS = tuple(2.0**k for k in range(-6, 6))
FINE_TICKS = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 4)
DODGE = 0.055  # shift between balancers in doublings of nodes, so that their intervals do not overlap
ONE_PER_REQUEST = "1: a connection for every request"
CONNECTIONS_TITLE = "connections accepted by the application per request (log scale; none apart)"


@dataclass(frozen=True)
class ScalingPoint:
    """One treatment: its number of nodes, and the ratio of its rate to the baseline's (1 for the baseline).

    `interval` is that of `ratio`; `equivalence_interval` is of ratios minus 1. Both are None for the baseline.
    `is_at_least`: the offered load limited the rate.
    """

    row: AnalysisRow
    series: str
    nodes: int
    ratio: float
    interval: Interval | None
    equivalence_interval: Interval | None = None
    is_at_least: bool = False

    @property
    def text(self) -> str:
        """The ratio and its interval as text, with "at least" if the offered load limited the rate."""
        return f"{self.ratio_text} ({self.interval_text})" if self.interval else self.ratio_text

    @property
    def ratio_text(self) -> str:
        """The ratio as text, with "at least" if the offered load limited the rate."""
        at_least = "at least " if self.is_at_least else ""
        return f"{at_least}{self.ratio:.{self._digits}f}" if self.interval else f"{self.ratio:g}"

    @property
    def interval_text(self) -> str:
        """The interval of the ratio as text; "" without one."""
        low, high = self.interval or (0.0, 0.0)
        return f"{low:.{self._digits}f} to {high:.{self._digits}f}" if self.interval else ""

    @property
    def _digits(self) -> int:
        low, high = self.interval or (0.0, 0.0)
        return decimals_for_half_width((high - low) / 2)


class ScalingFigure(ReportFigure):
    """Rate relative to the baseline by number of nodes: a line per balancer, and the line of proportional scaling.

    `nodes` maps treatments to their number of nodes, `series` to the balancer in front; those in `limited` answered the
    whole offered load, so they could have answered more.
    """

    def __init__(
        self, analysis: Analysis, nodes: Mapping[str, int], series: Mapping[str, str], limited: Collection[str] = ()
    ) -> None:
        self.analysis = analysis
        points = []
        for row in analysis.of_kind("baseline", "treatment"):
            if not nodes.get(row.treatment) or row.treatment not in series:
                continue
            place = (row, series[row.treatment], nodes[row.treatment])
            if row.kind == "baseline":
                points.append(ScalingPoint(*place, 1.0, None))
            elif row.is_compared and row.verdict and row.verdict.comparison.ci95:
                own = row.verdict.comparison
                low, high = (1 + bound for bound in own.ci95 or (0.0, 0.0))
                is_limited = row.treatment in limited
                points.append(ScalingPoint(*place, 1 + (own.effect or 0.0), (low, high), own.ci90, is_limited))
        self.series = list(dict.fromkeys(p.series for p in points))
        self.points = sorted(points, key=lambda p: (self.series.index(p.series), p.nodes))
        self.compared = [p for p in self.points if p.interval is not None]

    @property
    def has_data(self) -> bool:
        """Whether treatments differ in their number of nodes."""
        return len({p.nodes for p in self.points}) > 1

    def _draw(self) -> base.Drawing:
        last = sorted({p.series: p for p in self.compared}.values(), key=lambda p: -p.ratio)
        labels = [
            f"{base.fold(drawable(p.series, '?'), LABEL_LETTERS)}, {pluralize(p.nodes, 'node')}\n{p.text}" for p in last
        ]
        drawing = base.Drawing(max(LEAST_IN, LABEL_LINE_IN * sum(map(base.line_count, labels)) + 1))
        panel = drawing.figure.subplots()
        numbers = sorted({p.nodes for p in self.points})
        self._set_axes(panel, numbers)
        panel.plot(panel.get_xlim(), panel.get_xlim(), color=palette.SOFT, linewidth=1.1, linestyle=(0, (5, 3)))
        at = numbers[0] * 2 ** (0.5 if numbers[-1] < 8 * numbers[0] else 1.5)
        panel.text(
            at, at * 1.05, "in proportion to the nodes", size=base.SMALL_PT, color=palette.SOFT, ha="center",
            va="bottom", rotation=45, rotation_mode="anchor", transform_rotates_text=True, clip_on=True,
        )  # fmt: skip
        points = {name: [p for p in self.points if p.series == name] for name in self.series}
        lines = dict(zip([name for name in self.series if len(points[name]) > 1], cycle(LINES), strict=False))
        for k, name in enumerate(self.series):
            shift = 2 ** (DODGE * (k - (len(self.series) - 1) / 2))
            _draw_line(panel, points[name], shift, lines.get(name, "none"))
        panel.legend(
            [Line2D([], [], **_line_props(lines.get(p.series, "none")), **_marker_props(p)) for p in last], labels,
            labelcolor=[palette.row_text_colour(p.row) for p in last], loc="center left", bbox_to_anchor=(1, 0.5),
            handlelength=3,
        )  # fmt: skip
        return drawing

    def _set_axes(self, panel: Axes, numbers: list[int]) -> None:
        """Make both axes logarithmic: these numbers of nodes on x, multiples of the baseline's rate on y."""
        panel.set(xscale="log", yscale="log", xlim=(numbers[0] / 1.23, numbers[-1] * 1.23))
        axes.set_ticks(panel.xaxis, numbers, [str(n) for n in numbers])
        ends = [max(bound, LEAST_RATIO) for p in self.points for bound in (p.interval or (p.ratio, p.ratio))]
        low, high = min([1.0, *ends]), max([numbers[-1], *ends])
        padding = max((high / low) ** 0.12, 1 + 2 * self.analysis.margin)
        low, high = low / padding, high * padding
        panel.set_ylim(low, high)
        coarse, fine = ([t for t in ticks if low <= t <= high] for ticks in (COARSE_TICKS, FINE_TICKS))
        ticks = coarse if len(coarse) > 2 else fine
        axes.set_ticks(panel.yaxis, ticks, [f"{t:g}{NBSP}×" for t in ticks])
        panel.grid(axis="y", color=palette.GRID, linewidth=0.8)
        panel.set_axisbelow(True)
        panel.axhline(1, color=palette.INK, linewidth=0.8, zorder=0.6)
        baseline = drawable(self.analysis.row(self.analysis.baseline).label, self.analysis.baseline)
        metric = base.metric_label(get_metric(self.analysis.metric))
        panel.set_ylabel(base.fold(f"{metric} as a multiple of {baseline}", NAME_LETTERS, 3))
        panel.set_xlabel(f"number of nodes (log scales), {base.blocks_text(self.analysis)}")

    @property
    def caption(self) -> str:
        """One sentence on the rate of the largest number of nodes, and whether it is proportional to that number."""
        if text := neutral_caption(self.analysis):
            return text
        if not self.compared:
            return "No treatment could be compared."
        best = max(self.compared, key=lambda p: (p.nodes, p.ratio))
        one_series = len({p.series for p in self.compared}) == 1
        behind = f" behind {best.series}" if one_series else f", best behind {best.series},"
        times = f"{best.ratio_text} times ({base.level_text(self.analysis)} interval {best.interval_text})"
        baseline = base.treatment_names(self.analysis).get(self.analysis.baseline, self.analysis.baseline)
        subject = f"{pluralize(best.nodes, 'node')}{behind}"
        return f"{subject} carry {times} what {baseline} carries{self._proportion_text(best)}."

    def _proportion_text(self, point: ScalingPoint) -> str:
        """Return whether the rate is proportional to the number of nodes, by the interval that decides equivalence."""
        if point.is_at_least or point.equivalence_interval is None or point.interval is None:
            return ""
        low, high = ((1 + bound) / point.nodes - 1 for bound in point.equivalence_interval)
        if is_within_margin((low, high), self.analysis.margin):
            return f", in proportion to within {margin_text(self.analysis.margin)}"
        return f"; in proportion would be {point.nodes}" if point.interval[1] < point.nodes else ""

    @property
    def help(self) -> str:
        """Instructions for reading the figure."""
        level = base.level_text(self.analysis)
        parts = [f"Thick line: {level} interval", "dashed: twice the nodes carry twice as much"]
        if any(p.is_at_least for p in self.points):
            parts.append("arrow: everything that was offered was answered, so that it is at least this")
        return "; ".join(parts) + "; colours are the verdicts of the figure above."

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: every point in words."""
        points = [f"{p.series}, {pluralize(p.nodes, 'node')}: {p.text} times" for p in self.compared]
        return "Rate over the number of nodes.", f"{'; '.join(points)}."


def _line_props(dashes: Any) -> dict[str, Any]:
    return {"color": palette.OTHERS, "linewidth": 1.0, "linestyle": dashes}


def _marker_props(point: ScalingPoint) -> dict[str, Any]:
    props = base.marker_props(palette.row_style(point.row), 7.4)
    return {name: value for name, value in props.items() if name != "linestyle"}


def _draw_line(panel: Axes, points: list[ScalingPoint], shift: float, dashes: Any) -> None:
    """Draw one balancer's points and intervals, with an arrow at points that the offered load limited."""
    places = [p.nodes * (shift if p.interval else 1) for p in points]
    panel.plot(places, [max(p.ratio, LEAST_RATIO) for p in points], **_line_props(dashes), zorder=1)
    for x, point in zip(places, points, strict=True):
        colour, y = palette.row_style(point.row).edge, max(point.ratio, LEAST_RATIO)
        ends = [max(bound, LEAST_RATIO) for bound in point.interval or ()]
        panel.plot([x] * len(ends), ends, color=colour, linewidth=2.6, zorder=2)
        if point.is_at_least:
            arrow = {"arrowstyle": "<|-", "color": colour, "linewidth": 1.4, "shrinkB": 4.0}
            panel.annotate("", (x, y), (0, 26), textcoords="offset points", arrowprops=arrow)
        panel.plot([x], [y], zorder=4, **_marker_props(point))


class ConnectionsFigure(ReportFigure):
    """Connections per request: one row per treatment whose requests reach the application, one dot per trial.

    `per_request` has one row per trial, as `compute.connections_per_request` returns them.
    """

    def __init__(self, analysis: Analysis, per_request: pd.DataFrame) -> None:
        self.per_request, self.names = per_request, base.treatment_names(analysis)
        self.trials = per_request.assign(place=block_places(per_request["block"]))
        measured = set(per_request["treatment"])
        self.treatments = [r.treatment for r in analysis.of_kind("baseline", "treatment") if r.treatment in measured]
        medians = per_request[per_request["valid"]].groupby("treatment")["value"].median()
        self.medians = {name: float(medians[name]) for name in self.treatments if name in medians}

    def _draw(self) -> base.Drawing:
        positive = self.trials.loc[self.trials["value"] > 0, "value"]
        limits = min([*positive, 0.1]) / 2, max([*positive, 1.0]) * 1.6
        rows = [self._row(treatment) for treatment in self.treatments]
        title = base.fold(CONNECTIONS_TITLE, TITLE_LETTERS)
        drawing = draw_lanes(rows, "median", title, limits, self.trials["block"].nunique())
        axis = drawing.panels[1]
        axis.axvline(1, color=palette.INK, linewidth=1.1, zorder=-2)
        write_above(axis, 1, ONE_PER_REQUEST, ha="right")
        return drawing

    def _row(self, treatment: str) -> Row:
        own = self.trials[self.trials["treatment"] == treatment]
        median = compute.per_request_text(self.medians[treatment]) if treatment in self.medians else "no trial counts"
        name = Cell(base.fold(self.names[treatment], NAME_LETTERS), bold=True)
        return Row(name, (Cell(median),), lambda panels, y: draw_trials(panels, y, own, palette.BASELINE))

    @property
    def caption(self) -> str:
        """One sentence on the treatments that reuse connections."""
        return compute.pooling_sentence(self.medians, self.names)

    @property
    def help(self) -> str:
        """How to read the figure, and the source of the counts."""
        drawn = self.per_request["treatment"].isin(self.treatments) & self.per_request["valid"]
        text = f"One dot is one trial ({pluralize(int(drawn.sum()), 'trial')}), at the right: the median. Counted by"
        text += " the application: connections accepted over requests answered, from before the warm-up to after the"
        return text + " load." + (" ✕: not counted." if not self.per_request["valid"].all() else "")

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: every treatment's connections per request in words."""
        rows = [f"{self.names[t]}: {compute.per_request_text(value)}" for t, value in self.medians.items()]
        return "Connections to the application for each request.", f"{'; '.join(rows)}."
