"""Lines over time, one per trial: broken where samples are missing, and of many trials no more than can be seen."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from loadbook.report.figures.tracks import Block

GAPS = 2.5  # a hole longer than this many sampling intervals is a gap in the line
THICK_PT = 1.0  # of a line of many: what is smaller is left out


def draw_lines(
    panel: Axes, data: pd.DataFrame, block: Block, colour: str, width: float, slices: int | None = None
) -> None:
    """Draw one line per trial, broken where samples are missing.

    With `slices` the lines are of many trials: each has only the extremes of so many slices of the time, and no detail
    smaller than a line is thick.
    """
    opens = {t.name: t.opens for t in block.trials}
    xs: list[float] = []
    ys: list[float] = []
    slice_s = block.end / slices if slices else 0.0
    for trial, samples in data.sort_values("t_s", kind="stable").groupby("trial", sort=False):
        times, values = samples["t_s"].to_numpy(float), samples["value"].to_numpy(float)
        steps = np.diff(times)
        usual = float(np.median(steps)) if len(steps) else 0.0
        holes = np.flatnonzero(steps > GAPS * usual) + 1
        for piece in np.split(np.arange(len(times)), holes):
            shown = piece[extremes(times[piece], values[piece], slice_s)] if slices else piece
            xs += [*times[shown] + opens[str(trial)], np.nan]
            ys += [*values[shown], np.nan]
    (line,) = panel.plot(xs, ys, color=colour, linewidth=width, solid_joinstyle="round", zorder=2)
    if slices:
        line.get_path().simplify_threshold = THICK_PT


def extremes(times: np.ndarray, values: np.ndarray, slice_s: float) -> np.ndarray:
    """Return the places of the lowest and the highest value in every slice of the rising `times`, in their order."""
    number = times // slice_s
    starts = np.flatnonzero(np.diff(number, prepend=-np.inf))
    ends = np.append(starts[1:], len(times))[: len(starts)] - 1
    # what is not a number is neither, unless a slice has nothing else
    low, high = (np.lexsort((np.where(np.isnan(values), none, values), number)) for none in (np.inf, -np.inf))
    return np.unique(np.concatenate([low[starts], high[ends]]))
