"""The crosses of figure 2: trials that are not counted, each with its reason where there is room."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from loadbook.report import palette
from loadbook.report.figures.common import Sheet
from loadbook.report.figures.text import counted, drawable, pushed_apart, text_width, wrap
from loadbook.stats.results import Interval

MOST_REASONS = 3
NO_VALUE = 0.045  # height of the line of trials without a value, as a share of the panel


@dataclass(frozen=True)
class Frame:
    """Where the upper panel lies, in inches."""

    left: float
    right: float
    top: float
    bottom: float


def draw_excluded(
    sheet: Sheet, panel: Axes, values: pd.DataFrame, reasons: Mapping[str, str], limits: Interval,
    frame: Frame,
) -> None:  # fmt: skip
    """Draw a cross for each trial that is not counted (on the lowest line where it has no value), and say why."""
    out = values[~values["valid"]]
    if out.empty:
        return
    low, span = math.log(limits[0]), math.log(limits[1] / limits[0])
    heights = np.log(out["value"].where(out["value"] > 0)).clip(low + NO_VALUE * span, low + 0.84 * span)
    heights = heights.fillna(low + NO_VALUE * span)
    panel.plot(out["slot"], heights, linestyle="none", marker="x", markersize=6, color=palette.INK, markeredgewidth=1.4)
    size, width = sheet.size - 0.8, frame.right - frame.left
    said = [
        drawable(reasons.get(t) or s, s) for t, s in zip(out["trial"], out["status"].str.replace("_", " "), strict=True)
    ]
    texts = [wrap(f"{words}: not counted", 0.55 * width, size, lines=1) for words in said]
    sizes = [text_width(text, size) + 0.14 for text in texts]
    ys = [frame.bottom - (frame.bottom - frame.top) * (y - low) / span for y in heights]
    if len(texts) > MOST_REASONS or sum(sizes) > width or sum(_is_lowest(y, frame) for y in ys) > 1:
        why = f": {said[0]}" if len(set(said)) == 1 else ""
        text = wrap(f"✕ {len(out)} of {counted(len(values), 'trial')} not counted{why}", width, size, lines=1)
        sheet.text(frame.left + 0.08, frame.top + 0.1, text, size=size)
        return
    first, last = values["slot"].min() - 0.8, values["slot"].max() + 0.8
    xs = [frame.left + width * (slot - first) / (last - first) for slot in out["slot"]]
    places = pushed_apart(xs, sizes, frame.left, frame.right)
    for text, need, at, x, y in zip(texts, sizes, places, xs, ys, strict=True):
        _draw_reason(sheet, text, need, at, (x, y), frame)


def _is_lowest(y: float, frame: Frame) -> bool:
    return y > frame.bottom - (NO_VALUE + 0.02) * (frame.bottom - frame.top)


def _draw_reason(sheet: Sheet, text: str, need: float, at: float, cross: tuple[float, float], frame: Frame) -> None:
    """Write a reason beside a cross on the lowest line, else at the top with a line to its cross."""
    (x, y), size = cross, sheet.size - 0.8
    if _is_lowest(y, frame):
        right = x + need < frame.right
        sheet.text(
            x + (0.08 if right else -0.08), y, text, size=size, colour=palette.SOFT, at="left" if right else "right"
        )
        return
    sheet.text(at, frame.top + 0.1, text, size=size, colour=palette.SOFT, at="center")
    if y - frame.top > 0.35:
        sheet.line([at, x], [frame.top + 0.19, y - 0.08], palette.SOFT, 0.6)
