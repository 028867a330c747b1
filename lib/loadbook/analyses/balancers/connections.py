"""Figure: connections that the application was sent for each request.

In five seconds: which way to the application uses its connections again?
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from loadbook.analyses.balancers import compute
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import (
    NARROW_IN,
    WIDE_IN,
    Sheet,
    counted,
    in_house_style,
    mark_props,
    names,
    shortened,
    text_width,
    widest,
    wrap,
)
from loadbook.stats.results import Analysis, AnalysisRow

HEAD_IN, FOOT_IN, ROW_IN, LANE_IN, GAP_IN, NAME_IN = 0.36, 0.62, 0.32, 0.24, 0.12, 2.6
ONE = "1: a connection for every request"
TITLE = "connections accepted by the application per request (log scale; none apart)"


@in_house_style
def draw(analysis: Analysis, opened: pd.DataFrame, narrow: bool = False) -> Figure:
    """Draw one row per treatment that reaches the application, one dot per trial; `opened` is stats.pooling's."""
    rows = _rows(analysis, opened)
    step = ROW_IN + (0.2 if narrow else 0.0)
    sheet = Sheet(narrow, HEAD_IN + step * len(rows) + FOOT_IN)
    bottom, size = sheet.height - FOOT_IN, sheet.size - 0.6
    said = {row.treatment: compute.per_request_text(value) for row, value in _usual(rows, opened)}
    left, right = _edges(sheet, analysis, rows, list(said.values()))
    zero_right = left + 0.7
    zero = sheet.panel(left, HEAD_IN, zero_right, bottom)
    axis = sheet.panel(zero_right + GAP_IN, HEAD_IN, right, bottom)
    low = _axes(zero, axis, opened, right - zero_right - GAP_IN, sheet.size, bottom)
    for number, row in enumerate(rows):
        top = HEAD_IN + step * number
        lane = (top + step - LANE_IN, top + step) if narrow else (top, top + step)
        _lane(zero, axis, *lane)
        _dots(zero, axis, opened[opened["treatment"] == row.treatment], sum(lane) / 2, low)
        name, at = names(analysis)[row.treatment], top + (0.13 if narrow else step / 2)
        words = said.get(row.treatment, "no trial counts")
        if narrow:
            room = NARROW_IN - 0.2 - text_width(words, size)
            sheet.text(0.06, at, shortened(name, room, sheet.size, True), bold=True)
            sheet.text(NARROW_IN - 0.06, at, words, size=size, at="right")
        else:
            sheet.text(left - 0.12, at, shortened(name, NAME_IN, sheet.size, True), bold=True, at="right")
            sheet.text(right + 0.15, at, words)
    _words(sheet, (left, right), bottom)
    return sheet.figure


def _rows(analysis: Analysis, opened: pd.DataFrame) -> list[AnalysisRow]:
    there = set(opened["treatment"])
    return [row for row in analysis.of_kind("baseline", "treatment") if row.treatment in there]


def _usual(rows: list[AnalysisRow], opened: pd.DataFrame) -> list[tuple[AnalysisRow, float]]:
    medians = compute.median_per_request(opened, [row.treatment for row in rows])
    return [(row, medians[row.treatment]) for row in rows if row.treatment in medians]


def _edges(sheet: Sheet, analysis: Analysis, rows: list[AnalysisRow], said: list[str]) -> tuple[float, float]:
    if sheet.narrow:
        return 0.08, NARROW_IN - 0.15
    shown = names(analysis)
    left = min(max(widest([shown[row.treatment] for row in rows], sheet.size, True), 0.9), NAME_IN) + 0.2
    return left, WIDE_IN - max(widest(said, sheet.size), 1.2) - 0.2


def _axes(zero: Axes, axis: Axes, opened: pd.DataFrame, width: float, size: float, bottom: float) -> float:
    """Set up both panels; return the lower end of the log axis."""
    some = opened.loc[opened["value"] > 0, "value"]
    low, high = min([*some, 0.1]) / 2, max([*some, 1.0]) * 1.6
    for panel in (zero, axis):
        panel.set_ylim(bottom, HEAD_IN)
        panel.set_yticks([])
    zero.set_xlim(-0.06, 1.06)
    axes.set_ticks(zero.xaxis, [0.5], ["0"])
    axes.values_on_x(axis, (low, high), axes.Unit(1.0, ""), width, size)
    return float(low)


def _lane(zero: Axes, axis: Axes, top: float, bottom: float) -> None:
    """Tint the lane of those that opened none, and draw the line of one connection per request."""
    zero.add_patch(Rectangle((-0.06, top), 1.12, bottom - top, facecolor=palette.BLOCK_TINT, linewidth=0, zorder=-3))
    axis.plot([0, 0], [top, bottom], color=palette.INK, linewidth=1.1, zorder=-2)
    axis.axhline(bottom, color=palette.GRID, linewidth=0.6, zorder=-4)


def _dots(zero: Axes, axis: Axes, own: pd.DataFrame, y: float, low: float) -> None:
    """Draw one dot per trial, at the height of its block; × for a trial that does not count."""
    place = own["block"].rank(method="dense") / (own["block"].nunique() + 1)
    for valid in (True, False):
        props: dict[str, Any] = mark_props(palette.BASELINE, 4.0) if valid else {
            "marker": "x", "color": palette.INK, "linestyle": "none", "markersize": 4.5, "markeredgewidth": 1.2
        }  # fmt: skip
        chosen = own["valid"] == valid
        none, some = chosen & (own["value"] <= 0), chosen & (own["value"] > 0)
        zero.plot(place[none], [y] * int(none.sum()), **props)
        axis.plot(np.log(own.loc[some, "value"].clip(lower=low)), y + 0.18 * (place[some] - 0.5), **props)


def _words(sheet: Sheet, places: tuple[float, float], bottom: float) -> None:
    left, right = places
    size = sheet.size - 0.6
    sheet.text(right, HEAD_IN - 0.08, ONE, size=size, colour=palette.SOFT, at="right", va="bottom")
    room = right - left + (0 if sheet.narrow else 1.0)
    title = wrap(TITLE, room, sheet.size)
    sheet.text((left + right) / 2, bottom + 0.28, title, colour=palette.SOFT, at="center", va="top")


def answer(analysis: Analysis, opened: pd.DataFrame) -> str:
    """Return which treatments use connections again."""
    return compute.pooling_sentence(
        {row.treatment: v for row, v in _usual(_rows(analysis, opened), opened)}, names(analysis)
    )


def how(analysis: Analysis, opened: pd.DataFrame) -> str:
    """Return how the figure is read, and who counted."""
    drawn = opened["treatment"].isin([row.treatment for row in _rows(analysis, opened)]) & opened["valid"]
    said = f"One dot is one trial ({counted(int(drawn.sum()), 'trial')}), at the right: the median. Counted by the"
    said += " application: connections accepted over requests answered, from before the warm-up to after the load."
    return said + (" ✕: not counted." if not opened["valid"].all() else "")


def alt(analysis: Analysis, opened: pd.DataFrame) -> str:
    """Return the answer and every treatment's number in words."""
    shown = names(analysis)
    said = [
        f"{shown[row.treatment]}: {compute.per_request_text(value)}"
        for row, value in _usual(_rows(analysis, opened), opened)
    ]
    return f"Connections to the application for each request. {answer(analysis, opened)} {'; '.join(said)}."
