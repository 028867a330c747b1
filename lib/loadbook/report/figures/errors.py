"""Figure 4, errors per trial.

In five seconds: which treatments fail, in how many trials, and whose fault is it?
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import (
    NARROW_IN,
    WIDE_IN,
    Sheet,
    counted,
    in_house_style,
    line_in,
    listed,
    mark_props,
    names,
    rows_in_reading_order,
    shortened,
    size_pt,
    text_width,
    widest,
    wrap,
)
from loadbook.stats.results import Analysis, AnalysisRow, ErrorSummary
from loadbook.stats.text import ERROR_CLASS_NOUNS

PER, LIMIT_PER = 100_000.0, 100.0  # errors per 100,000 requests; the line beyond which a rate counts ok responses only
DRIVER = "errors_driver"
HEAD_IN, FOOT_IN, ROW_IN, LANE_IN, NAME_IN, SAID_IN = 0.4, 0.62, 0.32, 0.26, 2.0, 2.6
_KINDS = {
    "more": palette.VERDICTS["worse"],
    "fewer": palette.VERDICTS["better"],
    "undecided": palette.VERDICTS["undecided"],
}


@dataclass(frozen=True)
class _Place:
    """Where the lane of zeros and the axis lie, in inches."""

    left: float
    zero_right: float
    axis_left: float
    right: float


def needed(analysis: Analysis) -> bool:
    """Say whether any trial had an error; without one, a sentence tells more than the figure."""
    return any(row.errors.errors or row.errors.trials_with_errors for row in analysis.rows)


@in_house_style
def draw(analysis: Analysis, errors: pd.DataFrame, requests: pd.DataFrame, narrow: bool = False) -> Figure:
    """Draw one strip per treatment: trials without errors in a lane of their own, the others on a log axis.

    `errors` and `requests` are RunData.values of these metrics.
    """
    rows, trials = rows_in_reading_order(analysis), _rates(errors, requests)
    heights = [_height(analysis, row, narrow) for row in rows]
    sheet = Sheet(narrow, HEAD_IN + sum(heights) + FOOT_IN)
    bottom = sheet.height - FOOT_IN
    place = _place(analysis, rows, sheet, trials["block"].nunique())
    zero = sheet.panel(place.left, HEAD_IN, place.zero_right, bottom)
    axis = sheet.panel(place.axis_left, HEAD_IN, place.right, bottom)
    limits = _axes(sheet, zero, axis, trials, place, bottom)
    top = HEAD_IN
    for row, height in zip(rows, heights, strict=True):
        middle = top + height / 2 if not narrow else top + height - LANE_IN / 2 - 0.04
        half = LANE_IN / 2 if narrow else height / 2
        _ground(zero, axis, middle - half, middle + half)
        _draw_trials(zero, axis, row, trials[trials["treatment"] == row.treatment], middle, limits)
        _texts(sheet, analysis, row, top, middle, place)
        if row is not rows[-1]:
            sheet.rule(0.05, sheet.width - 0.05, top + height, palette.GRID, 0.6)
        top += height
    return sheet.figure


def _rates(errors: pd.DataFrame, requests: pd.DataFrame) -> pd.DataFrame:
    """Return the trials that counted errors, with `rate` (errors per 100,000 requests) and `place` (block's rank)."""
    both = errors.merge(requests[["trial", "value"]], on="trial", how="left", suffixes=("", "_requests"))
    both = both[both["value"].notna()]
    rate = PER * both["value"] / both["value_requests"].clip(lower=1).fillna(1)
    rank = both["block"].rank(method="dense") - 0.5
    return both.assign(rate=rate.clip(upper=PER), place=rank / max(1.0, rank.max() + 0.5))


def _height(analysis: Analysis, row: AnalysisRow, narrow: bool) -> float:
    if not narrow:
        two = "\n" in _said(row.errors, narrow) or "\n" in wrap(
            names(analysis)[row.treatment], NAME_IN, size_pt(False), True
        )
        return ROW_IN + 0.09 * two
    return (
        line_in(size_pt(True), 1 + (0 if _beside(analysis, row) else _said(row.errors, True).count("\n") + 1))
        + LANE_IN
        + 0.12
    )


def _beside(analysis: Analysis, row: AnalysisRow) -> bool:
    """Say whether a narrow row's words fit beside its name."""
    size, name = size_pt(True), names(analysis)[row.treatment]
    return text_width(name, size, True) + 0.15 + widest([_said(row.errors, True)], size - 0.6) < NARROW_IN - 0.12


def _said(summary: ErrorSummary, narrow: bool) -> str:
    """Return the words of a row: its verdict, trials with errors, and their classes by number."""
    verdict = _verdict(summary)
    text = (f"{verdict}: " if verdict else "") + f"{summary.trials_with_errors} of {summary.trials}"
    classes = _classes(summary)
    text += f"; {', '.join(classes)}" if classes else ""
    return wrap(text, NARROW_IN - 0.1 if narrow else SAID_IN, size_pt(narrow) - 0.6)


def _classes(summary: ErrorSummary) -> list[str]:
    ordered = sorted(summary.by_class.items(), key=lambda item: -item[1])
    return [f"{n:,} {ERROR_CLASS_NOUNS.get(c, (c, c))[n != 1]}" for c, n in ordered if n]


def _place(analysis: Analysis, rows: list[AnalysisRow], sheet: Sheet, blocks: int) -> _Place:
    lane = min(max(0.075 * blocks, 0.7), 1.3)
    if sheet.narrow:
        return _Place(0.08, 0.08 + lane, 0.08 + lane + 0.12, NARROW_IN - 0.15)
    shown = names(analysis)
    left = max(widest([wrap(shown[r.treatment], NAME_IN, sheet.size, True) for r in rows], sheet.size, True), 0.9) + 0.2
    said = max(widest([_said(r.errors, False) for r in rows], sheet.size - 0.6), 1.75)
    return _Place(left, left + lane, left + lane + 0.12, WIDE_IN - said - 0.25)


def _axes(
    sheet: Sheet, zero: Axes, axis: Axes, trials: pd.DataFrame, place: _Place, bottom: float
) -> tuple[float, float]:
    """Set up both panels and return the limits of the log axis (errors per 100,000 requests)."""
    some = trials.loc[trials["rate"] > 0, "rate"]
    low, high = min([*some, LIMIT_PER]) / 2, max([*some, LIMIT_PER]) * 2
    for panel in (zero, axis):
        panel.set_ylim(bottom, HEAD_IN)
        panel.set_yticks([])
    zero.set_xlim(-0.06, 1.06)
    axes.set_ticks(zero.xaxis, [0.5], ["0"])
    width = place.right - place.axis_left
    axes.values_on_x(axis, (low, high), axes.Unit(1.0, ""), width, sheet.size)
    size = sheet.size - 0.8
    at = place.axis_left + width * np.log(LIMIT_PER / low) / np.log(high / low)
    words = wrap("beyond 0.1\u00a0%: the rate counts ok responses only", width + 0.6, size)
    half = widest([words], size) / 2
    words_end = sheet.width if sheet.narrow else place.right + 0.15
    at = min(max(at, place.left + half), words_end - half - 0.1)
    sheet.text(at, HEAD_IN - 0.06, words, size=size, colour=palette.DOUBT_TEXT, at="center", va="bottom")
    title = wrap("errors per 100,000 requests (log scale; zero apart)", place.right - place.left + 0.5, sheet.size)
    if not sheet.narrow:
        head = "trials with errors; classes"
        sheet.text(place.right + 0.15, HEAD_IN - 0.06, head, size=size, colour=palette.SOFT, va="bottom")
    middle = (place.left + place.right) / 2
    sheet.text(middle, bottom + 0.28, title, colour=palette.SOFT, at="center", va="top")
    return low, high


def _ground(zero: Axes, axis: Axes, top: float, bottom: float) -> None:
    """Tint the lane of zeros and draw the 0.1 % line between two heights."""
    zero.add_patch(Rectangle((-0.06, top), 1.12, bottom - top, facecolor=palette.BLOCK_TINT, linewidth=0, zorder=-3))
    dashed: dict[str, Any] = {"color": palette.DOUBT, "linewidth": 1.2, "linestyle": (0, (4, 2)), "zorder": -1}
    axis.plot([np.log(LIMIT_PER)] * 2, [top, bottom], **dashed)


def _draw_trials(
    zero: Axes, axis: Axes, row: AnalysisRow, trials: pd.DataFrame, y: float, limits: tuple[float, float]
) -> None:
    """Draw one dot per trial: side by side by block in the lane of zeros, else at the height of its block."""
    look = _KINDS.get(row.errors.kind, palette.BASELINE)
    clean, failed = trials[trials["rate"] == 0], trials[trials["rate"] > 0]
    for valid in (True, False):
        props: dict[str, Any] = mark_props(look, 4.0) if valid else {
            "marker": "x", "color": palette.INK, "linestyle": "none", "markersize": 4.5, "markeredgewidth": 1.2
        }  # fmt: skip
        dots, spread = clean[clean["valid"] == valid], failed[failed["valid"] == valid]
        zero.plot(dots["place"], [y] * len(dots), **props)
        axis.plot(np.log(spread["rate"].clip(*limits)), y + 0.2 * (spread["place"] - 0.5), **props)


def _texts(sheet: Sheet, analysis: Analysis, row: AnalysisRow, top: float, middle: float, place: _Place) -> None:
    name, said = names(analysis)[row.treatment], _said(row.errors, sheet.narrow)
    bold, size = row.kind == "treatment", sheet.size - 0.6
    look = _KINDS.get(row.errors.kind)
    colour = palette.DOUBT_TEXT if row.errors.by_class.get(DRIVER) else look.text if look else palette.INK
    if not sheet.narrow:
        sheet.text(place.left - 0.12, middle, wrap(name, NAME_IN, sheet.size, bold), bold=bold, at="right")
        sheet.text(place.right + 0.15, middle, said, size=size, colour=colour)
        return
    sheet.text(0.06, top + 0.06, shortened(name, NARROW_IN - 0.12, sheet.size, bold), bold=bold, va="top")
    if _beside(analysis, row):
        sheet.text(NARROW_IN - 0.06, top + 0.06, said, size=size, colour=colour, at="right", va="top")
    else:
        sheet.text(0.06, top + 0.06 + line_in(sheet.size), said, size=size, colour=colour, va="top")


def _verdict(summary: ErrorSummary) -> str:
    if summary.kind not in _KINDS:
        return ""
    return f"{_KINDS[summary.kind].glyph} {summary.kind if summary.kind == 'undecided' else summary.kind + ' errors'}"


def answer(analysis: Analysis, errors: pd.DataFrame, requests: pd.DataFrame) -> str:
    """Return which treatments have more errors than the baseline, and in how many trials."""
    shown = names(analysis)
    more = [
        f"{shown[r.treatment]} ({r.errors.trials_with_errors} of {r.errors.trials} trials)"
        for r in analysis.rows
        if r.errors.kind == "more"
    ]
    if more:
        return f"{listed(more, 3, 'treatments')} {'has' if len(more) == 1 else 'have'} more errors than the baseline."
    with_errors = [r for r in analysis.rows if r.errors.trials_with_errors]
    if not with_errors:
        return f"No errors in any of {counted(sum(r.errors.trials for r in analysis.rows), 'trial')}."
    said = [f"{shown[r.treatment]} in {r.errors.trials_with_errors} of {r.errors.trials} trials" for r in with_errors]
    return f"Errors occurred: {listed(said, 3, 'treatments')}; none is shown to have more than the baseline."


def how(analysis: Analysis, errors: pd.DataFrame, requests: pd.DataFrame) -> str:
    """Return how the figure is read."""
    text = "One dot is one trial: in the grey lane without errors, elsewhere at its share of errors."
    text += " Colour: the verdict on errors, compared by trials and not by requests."
    if any(r.errors.by_class.get(DRIVER) for r in analysis.rows):
        text += " Amber words: failures at the driver’s own limits, no fault of the server."
    return text + (" ✕: not counted." if not errors["valid"].all() else "")


def alt(analysis: Analysis, errors: pd.DataFrame, requests: pd.DataFrame) -> str:
    """Return the answer and each treatment's errors in words."""
    rows = [f"{names(analysis)[r.treatment]}: {_line(r.errors)}" for r in rows_in_reading_order(analysis)]
    return f"Errors per trial. {answer(analysis, errors, requests)} {'. '.join(rows)}."


def _line(summary: ErrorSummary) -> str:
    classes = _classes(summary)
    trials = f"{summary.trials_with_errors} of {summary.trials} trials with errors"
    return trials + (f" ({', '.join(classes)})" if classes else "")
