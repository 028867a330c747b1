"""The points of the scaling figure: each treatment's number of nodes and its ratio to the baseline.

Figure 8, scaling: the rate over the number of nodes.

In five seconds: do two nodes carry twice what one carries?
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.analyses.effects.effect_rows import compared
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, decimals_for_half_width
from loadbook.report import palette
from loadbook.report.figures.axes import set_ticks
from loadbook.report.figures.base import (
    NARROW_IN,
    WIDE_IN,
    Sheet,
    blocks_text,
    confidence,
    counted,
    drawable,
    in_house_style,
    line_in,
    mark_props,
    names,
    pushed_apart,
    quantity,
    shortened,
    text_width,
    widest,
    wrap,
)
from loadbook.stats.results import Analysis, AnalysisRow, Interval
from loadbook.stats.text import margin_text
from loadbook.stats.verdict import is_within_margin


@dataclass(frozen=True)
class Point:
    """One treatment: its number of nodes and its ratio to the baseline (1 for that itself) with its interval."""

    row: AnalysisRow
    series: str
    nodes: int
    ratio: float
    interval: Interval | None
    decides: Interval | None = None
    at_least: bool = False

    @property
    def text(self) -> str:
        """The ratio and its interval, "at least" where the load that was offered was the limit."""
        if self.interval is None:
            return f"{self.ratio:g}"
        digits = decimals_for_half_width((self.interval[1] - self.interval[0]) / 2)
        low, high = (f"{bound:.{digits}f}" for bound in self.interval)
        return ("at least " if self.at_least else "") + f"{self.ratio:.{digits}f} ({low} to {high})"


def points(
    analysis: Analysis, nodes: Mapping[str, int], series: Mapping[str, str], limited: Collection[str] = ()
) -> list[Point]:
    """Return the points of the figure, by series and number of nodes.

    Parameters
    ----------
    nodes, series : treatment -> how many nodes it has, what stands before them.
    limited : treatments that answered all of what was offered: they could have answered more.
    """
    found = []
    for row in analysis.of_kind("baseline", "treatment"):
        if not nodes.get(row.treatment) or row.treatment not in series:
            continue
        place = (row, series[row.treatment], nodes[row.treatment])
        if row.kind == "baseline":
            found.append(Point(*place, 1.0, None))
        elif compared(row) and row.verdict and row.verdict.comparison.ci95:
            own = row.verdict.comparison
            low, high = (1 + bound for bound in own.ci95 or (0.0, 0.0))
            limit = row.treatment in limited
            found.append(Point(*place, 1 + (own.effect or 0.0), (low, high), own.ci90, limit))
    order = list(dict.fromkeys(p.series for p in found))
    return sorted(found, key=lambda p: (order.index(p.series), p.nodes))


HEAD_IN, FOOT_IN, HIGH_IN, LEFT_IN, KEY_IN, NAME_IN = 0.2, 0.66, 2.75, 0.62, 0.21, 1.6
COARSE = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32)
FINE = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 4)
DODGE = 0.055  # of a doubling: intervals of several balancers do not cover each other


def needed(
    analysis: Analysis, nodes: Mapping[str, int], series: Mapping[str, str], limited: Collection[str] = ()
) -> bool:
    """Tell whether there is anything to see: a number of nodes that varies."""
    return len({p.nodes for p in points(analysis, nodes, series, limited)}) > 1


@in_house_style
def draw(
    analysis: Analysis,
    nodes: Mapping[str, int],
    series: Mapping[str, str],
    limited: Collection[str] = (),
    narrow: bool = False,
) -> Figure:
    """Draw the ratio to one node over the number of nodes, a line per balancer, beside the line of proportion."""
    found = points(analysis, nodes, series, limited)
    labelled = _ends(found)
    key = (len(labelled) * KEY_IN + 0.08) if narrow else 0.0
    sheet = Sheet(narrow, HEAD_IN + key + HIGH_IN + FOOT_IN)
    right = NARROW_IN - 0.1 if narrow else WIDE_IN - _labels_in(labelled, sheet.size) - 0.2
    box = Box(LEFT_IN, right, HEAD_IN + key, HEAD_IN + key + HIGH_IN)
    panel = sheet.panel(box.left, box.top, box.right, box.bottom)
    _axes(panel, found, analysis.margin)
    _proportion(sheet, panel, box, max(p.nodes for p in found))
    shifts = _shifts(found)
    for name, shift in shifts.items():
        _line(panel, [p for p in found if p.series == name], shift)
    (_key if narrow else _labels)(sheet, panel, box, labelled)
    base = drawable(analysis.row(analysis.baseline).label, analysis.baseline)
    said = f"number of nodes; {quantity(get_metric(analysis.metric))} as a multiple of {base} (log scales)"
    said = wrap(f"{said}, {blocks_text(analysis)}", NARROW_IN - 0.2 if narrow else right - 0.1, sheet.size)
    middle = sheet.width / 2 if narrow else max(box.left + box.right, 0.3 + right) / 2
    sheet.text(middle, box.bottom + 0.28, said, colour=palette.SOFT, at="center", va="top")
    return sheet.figure


@dataclass(frozen=True)
class Box:
    """Where the panel lies, in inches."""

    left: float
    right: float
    top: float
    bottom: float


def _ends(found: list[Point]) -> list[Point]:
    """Return the last point of every line, those with the most nodes and the highest rate first."""
    last = {p.series: p for p in found if p.interval is not None}
    return sorted(last.values(), key=lambda p: (-p.nodes, -p.ratio))


def _labels_in(labelled: list[Point], size: float) -> float:
    names = min(NAME_IN, widest([drawable(p.series, "?") for p in labelled], size, True))
    return names + widest([f"  {p.text}" for p in labelled], size)


def _shifts(found: list[Point]) -> dict[str, float]:
    order = list(dict.fromkeys(p.series for p in found))
    return {name: DODGE * (k - (len(order) - 1) / 2) for k, name in enumerate(order)}


def _axes(panel: Axes, found: list[Point], margin: float) -> None:
    """Make both axes logarithmic: doublings of nodes beside multiples of the rate."""
    numbers = sorted({p.nodes for p in found})
    panel.set_xlim(math.log2(numbers[0]) - 0.3, math.log2(numbers[-1]) + 0.3)
    set_ticks(panel.xaxis, [math.log2(n) for n in numbers], [str(n) for n in numbers])
    ends = [_log(bound) for p in found for bound in (p.interval or (p.ratio, p.ratio))]
    low, high = min([0.0, *ends]), max([math.log(numbers[-1]), *ends])
    air = max(0.12 * (high - low), math.log1p(2 * margin))
    panel.set_ylim(low - air, high + air)
    choices = [[t for t in some if low - air <= math.log(t) <= high + air] for some in (COARSE, FINE)]
    ticks = choices[0] if len(choices[0]) > 2 else choices[1]
    set_ticks(panel.yaxis, [math.log(t) for t in ticks], [f"{t:g}{NBSP}×" for t in ticks])
    for tick in ticks:
        colour = palette.INK if tick == 1 else palette.GRID
        panel.axhline(math.log(tick), color=colour, linewidth=0.8, zorder=-3)


def _log(ratio: float) -> float:
    return math.log(max(ratio, 1e-4))


def _proportion(sheet: Sheet, panel: Axes, box: Box, most: int) -> None:
    """Draw the line on which twice the nodes carry twice as much, with its words between two numbers of nodes."""
    (low, high), (floor, ceiling) = panel.get_xlim(), panel.get_ylim()
    ends = [x * math.log(2) for x in (low, high)]
    panel.plot([low, high], ends, color=palette.SOFT, linewidth=1.1, linestyle=(0, (5, 3)), zorder=-2)
    across, up = (box.right - box.left) / (high - low), (box.bottom - box.top) / (ceiling - floor)
    angle = math.atan2(up * math.log(2), across)
    at, lift = 0.5 if most < 8 else 1.5, line_in(sheet.size) * 0.65
    x, y = box.left + (at - low) * across, box.bottom - (at * math.log(2) - floor) * up
    x, y = x - lift * math.sin(angle), y - lift * math.cos(angle)
    size = sheet.size - 0.6
    said = "in proportion to the nodes"
    sheet.text(x, y, said, size=size, colour=palette.SOFT, at="center", rotation=math.degrees(angle))


def _line(panel: Axes, own: list[Point], shift: float) -> None:
    """Draw one balancer's points, their intervals, and an arrow where the load that was offered was the limit."""
    places = [math.log2(p.nodes) + (shift if p.interval else 0.0) for p in own]
    panel.plot(places, [_log(p.ratio) for p in own], color=palette.OTHERS, linewidth=1.0, zorder=1)
    for x, point in zip(places, own, strict=True):
        style, y = palette.row_style(point.row), _log(point.ratio)
        ends = [_log(bound) for bound in point.interval or ()]
        panel.plot([x] * len(ends), ends, color=style.edge, linewidth=2.6, zorder=2, solid_capstyle="butt")
        if point.at_least:
            look = {"arrowstyle": "<|-", "color": style.edge, "linewidth": 1.4, "shrinkB": 4.0}
            panel.annotate("", (x, y), (0, 26), textcoords="offset points", arrowprops=look)
        panel.plot([x], [y], zorder=4, **mark_props(style, 7.4))


def _labels(sheet: Sheet, panel: Axes, box: Box, labelled: list[Point]) -> None:
    """Write the ratio of every line's last point beside it, at the right edge where the line ends there."""
    (low, high), (floor, ceiling) = panel.get_xlim(), panel.get_ylim()
    most, tall = max((p.nodes for p in labelled), default=1), line_in(sheet.size) + 0.02
    wanted = [box.bottom - (_log(p.ratio) - floor) / (ceiling - floor) * (box.bottom - box.top) for p in labelled]
    at_end = [k for k, p in enumerate(labelled) if p.nodes == most]
    apart = pushed_apart([wanted[k] for k in at_end], [tall] * len(at_end), box.top - 0.1, box.bottom + 0.1)
    for k, point in enumerate(labelled):
        x, y = box.right + 0.08, wanted[k]
        if k in at_end:
            y = apart[at_end.index(k)]
        else:
            x = box.left + (math.log2(point.nodes) + 0.12 - low) / (high - low) * (box.right - box.left)
            y += 0.8 * tall
        _label(sheet, x, y, point)


def _key(sheet: Sheet, panel: Axes, box: Box, labelled: list[Point]) -> None:
    """Write the ratios above the panel, which takes the whole width."""
    for k, point in enumerate(labelled):
        y = HEAD_IN + (k + 0.2) * KEY_IN
        sheet.mark(0.14, y, palette.row_style(point.row), 6.5)
        _label(sheet, 0.28, y, point)


def _label(sheet: Sheet, x: float, y: float, point: Point) -> None:
    """Write a line's name and its ratio; a name that is too long for the sheet is cut in its middle."""
    text = f"  {point.text}"
    nodes = f", {counted(point.nodes, 'node')}" if sheet.narrow else ""
    room = sheet.width - x - 0.08 - text_width(nodes, sheet.size, True) - text_width(text, sheet.size)
    name = shortened(drawable(point.series, "?"), min(room, NAME_IN), sheet.size, True) + nodes
    sheet.text(x, y, name, bold=True)
    x += text_width(name, sheet.size, True)
    sheet.text(x, y, text, colour=palette.row_text_colour(point.row))


def answer(
    analysis: Analysis, nodes: Mapping[str, int], series: Mapping[str, str], limited: Collection[str] = ()
) -> str:
    """Return how much the most nodes carry, and whether that is in proportion to their number."""
    if analysis.aa_failure:
        return analysis.aa_failure
    found = [p for p in points(analysis, nodes, series, limited) if p.interval is not None]
    if not found:
        return "No treatment could be compared."
    best = max(found, key=lambda p: (p.nodes, p.ratio))
    before = f" behind {best.series}" if len({p.series for p in found}) == 1 else f", best behind {best.series},"
    rate = f"{counted(best.nodes, 'node')}{before} carry {_times(analysis, best)} what {_base(analysis)} carries"
    return f"{rate}{_in_proportion(analysis, best)}."


def _base(analysis: Analysis) -> str:
    return names(analysis).get(analysis.baseline, analysis.baseline)


def _times(analysis: Analysis, point: Point) -> str:
    ratio, _, interval = point.text.partition(" (")
    return f"{ratio} times ({confidence(analysis)} interval {interval.removesuffix(')')})"


def _in_proportion(analysis: Analysis, point: Point) -> str:
    """Return how the ratio stands to the number of nodes, by the interval that decides equivalence."""
    if point.at_least or point.decides is None or point.interval is None:
        return ""
    relative = tuple((1 + bound) / point.nodes - 1 for bound in point.decides)
    if is_within_margin((relative[0], relative[1]), analysis.margin):
        return f", in proportion to within {margin_text(analysis.margin)}"
    return f"; in proportion would be {point.nodes}" if point.interval[1] < point.nodes else ""


def how(analysis: Analysis, nodes: Mapping[str, int], series: Mapping[str, str], limited: Collection[str] = ()) -> str:
    """Return how the figure is read."""
    found = points(analysis, nodes, series, limited)
    said = [f"Thick line: {confidence(analysis)} interval", "dashed: twice the nodes carry twice as much"]
    if any(p.at_least for p in found):
        said.append("arrow: everything that was offered was answered, so that it is at least this")
    return "; ".join(said) + "; colours are the verdicts of the figure above."


def alt(analysis: Analysis, nodes: Mapping[str, int], series: Mapping[str, str], limited: Collection[str] = ()) -> str:
    """Return the answer and every point in words."""
    found = [p for p in points(analysis, nodes, series, limited) if p.interval is not None]
    told = [f"{p.series}, {counted(p.nodes, 'node')}: {p.text} times" for p in found]
    return f"Rate over the number of nodes. {answer(analysis, nodes, series, limited)} {'; '.join(told)}."
