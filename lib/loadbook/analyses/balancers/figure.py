"""Figures of balancer studies: the rate over the number of nodes, and connections per request."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from loadbook.analyses.balancers import compute
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, decimals_for_half_width, pluralize
from loadbook.report import palette
from loadbook.report.figures import axes, base
from loadbook.report.figures.base import LETTER_PT, ReportFigure, Sheet, drawable, max_text_width, wrap
from loadbook.stats.headline import neutral_caption
from loadbook.stats.results import Analysis, AnalysisRow, Interval
from loadbook.stats.text import margin_text
from loadbook.stats.verdict import is_within_margin

TOP_IN, FOOT_IN, HEIGHT_IN, LEFT_IN, NAME_IN = 0.2, 0.66, 2.75, 0.62, 1.6
BOTTOM_IN = TOP_IN + HEIGHT_IN
COARSE_TICKS = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32)
FINE_TICKS = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 4)
DODGE = 0.055  # shift between balancers in doublings of nodes, so that their intervals do not overlap
HEAD_IN, ROWS_FOOT_IN, ROW_IN, GAP_IN, ROW_NAME_IN = 0.36, 0.62, 0.32, 0.12, 2.6  # of the connections figure
ONE_PER_REQUEST = "1: a connection for every request"
CONNECTIONS_TITLE = "connections accepted by the application per request (log scale; none apart)"


@dataclass(frozen=True)
class ScalingPoint:
    """One treatment: its number of nodes, and the ratio of its rate to the baseline's (1 for the baseline)."""

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

    def _draw(self) -> Sheet:
        last = {p.series: p for p in self.compared}
        labelled = sorted(last.values(), key=lambda p: (-p.nodes, -p.ratio))
        sheet = Sheet(BOTTOM_IN + FOOT_IN)
        names = min(NAME_IN, max_text_width([drawable(p.series, "?") for p in labelled], LETTER_PT, True))
        right = base.WIDTH_IN - names - max_text_width([f"  {p.text}" for p in labelled], LETTER_PT) - 0.2
        panel = sheet.panel(LEFT_IN, TOP_IN, right, BOTTOM_IN)
        self._set_axes(panel)
        self._draw_proportion(sheet, panel, right)
        for k, name in enumerate(self.series):
            shift = DODGE * (k - (len(self.series) - 1) / 2)
            _draw_line(panel, [p for p in self.points if p.series == name], shift)
        _write_labels(sheet, panel, right, labelled)
        baseline = drawable(self.analysis.row(self.analysis.baseline).label, self.analysis.baseline)
        metric = base.metric_label(get_metric(self.analysis.metric))
        title = f"number of nodes; {metric} as a multiple of {baseline} (log scales), {base.blocks_text(self.analysis)}"
        middle = max(LEFT_IN + right, 0.3 + right) / 2
        title = wrap(title, right - 0.1, sheet.size)
        sheet.text(middle, BOTTOM_IN + 0.28, title, colour=palette.SOFT, align="center", va="top")
        return sheet

    def _set_axes(self, panel: Axes) -> None:
        """Make both axes logarithmic: number of nodes on x, multiples of the baseline's rate on y."""
        numbers = sorted({p.nodes for p in self.points})
        panel.set_xlim(math.log2(numbers[0]) - 0.3, math.log2(numbers[-1]) + 0.3)
        axes.set_ticks(panel.xaxis, [math.log2(n) for n in numbers], [str(n) for n in numbers])
        ends = [_log(bound) for p in self.points for bound in (p.interval or (p.ratio, p.ratio))]
        low, high = min([0.0, *ends]), max([math.log(numbers[-1]), *ends])
        padding = max(0.12 * (high - low), math.log1p(2 * self.analysis.margin))
        low, high = low - padding, high + padding
        panel.set_ylim(low, high)
        coarse, fine = ([t for t in ticks if low <= math.log(t) <= high] for ticks in (COARSE_TICKS, FINE_TICKS))
        ticks = coarse if len(coarse) > 2 else fine
        axes.set_ticks(panel.yaxis, [math.log(t) for t in ticks], [f"{t:g}{NBSP}×" for t in ticks])
        for tick in ticks:
            colour = palette.INK if tick == 1 else palette.GRID
            panel.axhline(math.log(tick), color=colour, linewidth=0.8, zorder=-3)

    def _draw_proportion(self, sheet: Sheet, panel: Axes, right: float) -> None:
        """Draw and label the line on which twice the nodes serve twice the rate."""
        (low, high), (floor, ceiling) = panel.get_xlim(), panel.get_ylim()
        ends = [x * math.log(2) for x in (low, high)]
        panel.plot([low, high], ends, color=palette.SOFT, linewidth=1.1, linestyle=(0, (5, 3)), zorder=-2)
        across, up = (right - LEFT_IN) / (high - low), HEIGHT_IN / (ceiling - floor)
        angle = math.atan2(up * math.log(2), across)
        at, lift = 0.5 if max(p.nodes for p in self.points) < 8 else 1.5, base.text_height(sheet.size) * 0.65
        x, y = LEFT_IN + (at - low) * across, BOTTOM_IN - (at * math.log(2) - floor) * up
        x, y = x - lift * math.sin(angle), y - lift * math.cos(angle)
        sheet.text(
            x, y, "in proportion to the nodes", size=sheet.size - 0.6, colour=palette.SOFT, align="center",
            rotation=math.degrees(angle),
        )  # fmt: skip

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


def _log(ratio: float) -> float:
    return math.log(max(ratio, 1e-4))


def _draw_line(panel: Axes, points: list[ScalingPoint], shift: float) -> None:
    """Draw one balancer's points and intervals, with an arrow at points that the offered load limited."""
    places = [math.log2(p.nodes) + (shift if p.interval else 0.0) for p in points]
    panel.plot(places, [_log(p.ratio) for p in points], color=palette.OTHERS, linewidth=1.0, zorder=1)
    for x, point in zip(places, points, strict=True):
        style, y = palette.row_style(point.row), _log(point.ratio)
        ends = [_log(bound) for bound in point.interval or ()]
        panel.plot([x] * len(ends), ends, color=style.edge, linewidth=2.6, zorder=2, solid_capstyle="butt")
        if point.is_at_least:
            arrow = {"arrowstyle": "<|-", "color": style.edge, "linewidth": 1.4, "shrinkB": 4.0}
            panel.annotate("", (x, y), (0, 26), textcoords="offset points", arrowprops=arrow)
        panel.plot([x], [y], zorder=4, **base.marker_props(style, 7.4))


def _write_labels(sheet: Sheet, panel: Axes, right: float, labelled: list[ScalingPoint]) -> None:
    """Write the ratio of each line's last point beside the point, or at the right edge if the line ends there."""
    (low, high), (floor, ceiling) = panel.get_xlim(), panel.get_ylim()
    most, line = max((p.nodes for p in labelled), default=1), base.text_height(sheet.size) + 0.02
    wanted = [BOTTOM_IN - (_log(p.ratio) - floor) / (ceiling - floor) * HEIGHT_IN for p in labelled]
    at_edge = [k for k, p in enumerate(labelled) if p.nodes == most]
    spread = base.avoid_overlap([wanted[k] for k in at_edge], [line] * len(at_edge), TOP_IN - 0.1, BOTTOM_IN + 0.1)
    for k, point in enumerate(labelled):
        if k in at_edge:
            x, y = right + 0.08, spread[at_edge.index(k)]
        else:
            x = LEFT_IN + (math.log2(point.nodes) + 0.12 - low) / (high - low) * (right - LEFT_IN)
            y = wanted[k] + 0.8 * line
        text = f"  {point.text}"
        room = sheet.width - x - 0.08 - base.text_width(text, sheet.size)
        name = base.shorten(drawable(point.series, "?"), min(room, NAME_IN), sheet.size, True)
        sheet.text(x, y, name, bold=True)
        x += base.text_width(name, sheet.size, True)
        sheet.text(x, y, text, colour=palette.row_text_colour(point.row))


class ConnectionsFigure(ReportFigure):
    """Connections per request: one row per treatment whose requests reach the application, one dot per trial.

    `per_request` has one row per trial, as `compute.connections_per_request` returns them.
    """

    def __init__(self, analysis: Analysis, per_request: pd.DataFrame) -> None:
        self.per_request, self.names = per_request, base.treatment_names(analysis)
        measured = set(per_request["treatment"])
        self.treatments = [r.treatment for r in analysis.of_kind("baseline", "treatment") if r.treatment in measured]
        medians = per_request[per_request["valid"]].groupby("treatment")["value"].median()
        self.medians = {name: float(medians[name]) for name in self.treatments if name in medians}

    def _draw(self) -> Sheet:
        sheet = Sheet(HEAD_IN + ROW_IN * len(self.treatments) + ROWS_FOOT_IN)
        texts = {treatment: compute.per_request_text(value) for treatment, value in self.medians.items()}
        names = max_text_width([self.names[t] for t in self.treatments], LETTER_PT, True)
        left = min(max(names, 0.9), ROW_NAME_IN) + 0.2
        right = base.WIDTH_IN - max(max_text_width(list(texts.values()), LETTER_PT), 1.2) - 0.2
        bottom, zero_right = sheet.height - ROWS_FOOT_IN, left + 0.7
        zero = sheet.rows_panel(left, HEAD_IN, zero_right, bottom)
        axis = sheet.rows_panel(zero_right + GAP_IN, HEAD_IN, right, bottom)
        positive = self.per_request.loc[self.per_request["value"] > 0, "value"]
        low, high = min([*positive, 0.1]) / 2, max([*positive, 1.0]) * 1.6
        zero.set_xlim(-0.06, 1.06)
        axes.set_ticks(zero.xaxis, [0.5], ["0"])
        axes.set_value_x_axis(axis, (low, high), axes.AxisUnit(1.0, ""), right - zero_right - GAP_IN, sheet.size)
        for number, treatment in enumerate(self.treatments):
            top = HEAD_IN + ROW_IN * number
            lane = Rectangle((-0.06, top), 1.12, ROW_IN, facecolor=palette.BLOCK_TINT, linewidth=0, zorder=-3)
            zero.add_patch(lane)
            axis.plot([0, 0], [top, top + ROW_IN], color=palette.INK, linewidth=1.1, zorder=-2)
            axis.axhline(top + ROW_IN, color=palette.GRID, linewidth=0.6, zorder=-4)
            middle = top + ROW_IN / 2
            self._draw_trials(zero, axis, treatment, middle, low)
            name = base.shorten(self.names[treatment], ROW_NAME_IN, sheet.size, True)
            sheet.text(left - 0.12, middle, name, bold=True, align="right")
            sheet.text(right + 0.15, middle, texts.get(treatment, "no trial counts"))
        size = sheet.size - 0.6
        sheet.text(right, HEAD_IN - 0.08, ONE_PER_REQUEST, size=size, colour=palette.SOFT, align="right", va="bottom")
        title = wrap(CONNECTIONS_TITLE, right - left + 1.0, sheet.size)
        sheet.text((left + right) / 2, bottom + 0.28, title, colour=palette.SOFT, align="center", va="top")
        return sheet

    def _draw_trials(self, zero: Axes, axis: Axes, treatment: str, y: float, low: float) -> None:
        """Draw one dot per trial, higher or lower by its block; × for a trial that is excluded."""
        own = self.per_request[self.per_request["treatment"] == treatment]
        rank = own["block"].rank(method="dense") / (own["block"].nunique() + 1)
        for valid in (True, False):
            props = base.marker_props(palette.BASELINE, 4.0) if valid else base.cross_props(4.5, 1.2)
            chosen = own["valid"] == valid
            none, some = chosen & (own["value"] <= 0), chosen & (own["value"] > 0)
            zero.plot(rank[none], [y] * int(none.sum()), **props)
            axis.plot(np.log(own.loc[some, "value"].clip(lower=low)), y + 0.18 * (rank[some] - 0.5), **props)

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
