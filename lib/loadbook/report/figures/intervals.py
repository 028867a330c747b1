"""An estimate and its interval on a ratio axis: thick, thin, ticks, mark, arrow heads."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from loadbook.report import palette
from loadbook.report.figures.common import mark_props
from loadbook.report.figures.scales import RatioScale, position
from loadbook.stats.results import AnalysisRow, Comparison, Interval


def draw_interval(
    axes: Axes, scale: RatioScale, y: float, row: AnalysisRow, comparison: Comparison, tick: float,
    style: palette.VerdictStyle | None = None, thick: float = 4.6,
) -> None:  # fmt: skip
    """Draw one row's estimate: thick 95 % line, thin family line, ticks of half height `tick` at the 90 % interval.

    `style` is the row's own unless another one is given, `thick` the width of the thick line in points.
    """
    style = style or palette.row_style(row)
    check = row.kind in ("aa", "control")
    if comparison.ci95 is not None:
        widest = comparison.ci_family or comparison.ci95
        _line(axes, scale, y, widest, style.edge, 1.3)
        _line(axes, scale, y, comparison.ci95, style.edge, 2.0 if check else thick)
        draw_heads(axes, scale, y, widest, style.edge)
    if comparison.ci90 and row.verdict and row.verdict.kind in ("equivalent", "small") and not check:
        for bound in filter(scale.inside, map(position, comparison.ci90)):
            axes.plot([bound] * 2, [y - tick, y + tick], color=style.edge, linewidth=1.4, solid_capstyle="butt")
    if comparison.effect is not None and scale.inside(position(comparison.effect)):
        axes.plot([position(comparison.effect)], [y], zorder=4, **mark_props(style, 7.4))


def _line(axes: Axes, scale: RatioScale, y: float, interval: Interval, colour: str, width_pt: float) -> None:
    left = max(position(interval[0]), scale.low + scale.air)
    right = min(position(interval[1]), scale.high - scale.air)
    if left < right:
        axes.plot([left, right], [y, y], color=colour, linewidth=width_pt, solid_capstyle="butt", zorder=3)


def draw_heads(axes: Axes, scale: RatioScale, y: float, interval: Interval, colour: str) -> None:
    """Draw an arrow head at each end of the axis that the interval crosses."""
    head: dict[str, Any] = {"markersize": 6.5, "color": colour, "markeredgewidth": 0, "zorder": 3}
    if position(interval[0]) < scale.low:
        axes.plot([scale.low + scale.air], [y], "<", **head)
    if position(interval[1]) > scale.high:
        axes.plot([scale.high - scale.air], [y], ">", **head)
