"""Rows of trials on two panels: those with the value zero in a lane of their own, the others on a log axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from loadbook.report import palette
from loadbook.report.figures import axes, base
from loadbook.report.figures.rows import Row, RowsDrawing
from loadbook.stats.results import Interval

BLOCK_WIDTH, LANE_WIDTHS = 0.021, (0.16, 0.34)  # relative to the log axis
SPREAD = 0.2  # height on which the dots of a row lie, by block


def block_places(blocks: pd.Series) -> pd.Series:
    """Return a place between 0 and 1 for each of these block numbers, in their order; equal numbers share one."""
    rank = blocks.rank(method="dense")
    return (rank - 0.5) / max(1.0, rank.max())


def draw_lanes(rows: Sequence[Row], head: str, title: str, limits: Interval, blocks: int) -> RowsDrawing:
    """Return a figure whose rows have a grey lane of zeros, a log axis of values, and one column of text.

    Parameters
    ----------
    head : head of the column.
    title : title of the log axis.
    limits : its limits.
    blocks : the number of dots for which the lane has room.
    """
    least, most = LANE_WIDTHS
    drawing = RowsDrawing(rows, (head,), widths=(min(max(least, BLOCK_WIDTH * blocks), most), 1))
    zero, axis = drawing.panels
    zero.set_facecolor(palette.BLOCK_TINT)
    zero.set_xlim(-0.06, 1.06)
    axes.set_ticks(zero.xaxis, [0.5], ["0"])
    axes.set_value_scale(axis.xaxis, limits, axes.AxisUnit(1.0, ""))
    axis.set_xlabel(title)
    for panel in drawing.panels:
        across = panel.get_yaxis_transform()
        panel.hlines(drawing.tops[1:], 0, 1, color=palette.GRID, linewidth=0.6, zorder=-4, transform=across)
    return drawing


def draw_trials(panels: Sequence[Axes], y: float, trials: pd.DataFrame, style: palette.VerdictStyle) -> None:
    """Draw one dot per trial: zeros side by side, other values higher or lower by block; ✕ for a trial not counted.

    `panels` are the lane of zeros and the log axis, `y` is the middle of the row. `trials` has the columns value,
    place (of `block_places`) and valid.
    """
    value, place, valid = (trials[name].to_numpy() for name in ("value", "place", "valid"))
    zero, axis = panels
    for panel, here, xs, ys in (
        (zero, value <= 0, place, np.full(len(place), y)),
        (axis, value > 0, value, y + SPREAD * (place - 0.5)),
    ):
        for counts, props in ((True, base.marker_props(style, 4.0)), (False, base.cross_props(4.5, 1.2))):
            chosen = here & (valid == counts)
            if chosen.any():
                panel.plot(xs[chosen], ys[chosen], **props)
