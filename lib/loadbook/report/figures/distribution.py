"""The latency of all requests of each treatment together: a picture of the distribution, which is never tested.

In five seconds: where does a treatment's latency part from the baseline's, in the middle or in the tail?
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, format_duration
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import Sheet, counted, in_house_style, names, shortened
from loadbook.request_logs.summary import ExceedanceCurve
from loadbook.stats.results import Analysis

LEFT_IN, HEAD_IN, TALL_IN, FOOT_IN, GAP_IN = 0.62, 0.3, 1.15, 0.46, 0.24
SHOWN = (0.5, 0.1, 0.01, 0.001)  # shares of slower requests that the words for the blind give


@in_house_style
def draw(analysis: Analysis, curves: Mapping[str, ExceedanceCurve], narrow: bool = False) -> Figure:
    """Draw one panel per treatment: time (log) against the share of requests that took longer (log).

    `curves` maps treatments to the distribution of the requests of all their counting trials together.
    """
    shown = names(analysis)
    order = [row.treatment for row in analysis.rows if row.treatment in curves]
    across = min(2 if narrow else 4, max(1, len(order)))
    down = max(1, math.ceil(len(order) / across))
    each = HEAD_IN + TALL_IN + FOOT_IN
    sheet = Sheet(narrow, down * each)
    width = (sheet.width - LEFT_IN - 0.1 - GAP_IN * (across - 1)) / across
    limits, lowest = _limits(curves), min(min(curve.shares_slower) for curve in curves.values())
    for number, treatment in enumerate(order):
        line, column = divmod(number, across)
        left, top = LEFT_IN + column * (width + GAP_IN), line * each + HEAD_IN
        panel = sheet.panel(left, top, left + width, top + TALL_IN)
        sheet.text(left, top - 0.13, shortened(shown[treatment], width, sheet.size, bold=True), bold=True)
        _axes(panel, limits, lowest, width, sheet.size, first=column == 0)
        if treatment != analysis.baseline and analysis.baseline in curves:
            _line(panel, curves[analysis.baseline], palette.SOFT, 1.1, (0, (3, 2)))
        _line(panel, curves[treatment], palette.INK, 1.7, "-")
    unit = axes.unit_for(get_metric("latency"), limits[1])
    title = f"latency, {unit.words} (log); vertical: share of requests that took longer (log)"
    if narrow:
        title = f"latency, {unit.words}; vertical: share slower (both log)"
    sheet.text(LEFT_IN, sheet.height - 0.1, title, size=sheet.size - 0.6, colour=palette.SOFT)
    return sheet.figure


def _limits(curves: Mapping[str, ExceedanceCurve]) -> tuple[float, float]:
    times = [t for curve in curves.values() for t in curve.times_s if t > 0]
    low, high = (min(times), max(times)) if times else (1e-3, 1e-2)
    return low / 1.05, max(high, 1.1 * low) * 1.05


def _axes(
    panel: Axes, limits: tuple[float, float], lowest: float, width: float, size: float, *, first: bool
) -> None:  # fmt: skip
    axes.values_on_x(panel, limits, axes.unit_for(get_metric("latency"), limits[1]), width, size - 0.4)
    panel.set_ylim(math.log10(lowest) - 0.1, 0.05)
    decades = list(range(math.ceil(math.log10(lowest)), 1))
    axes.set_ticks(panel.yaxis, decades, [f"{100 * 10.0**d:g}{NBSP}%" if first else "" for d in decades])
    for decade in decades:
        panel.axhline(decade, color=palette.GRID, linewidth=0.8, zorder=-2)


def _line(
    panel: Axes, curve: ExceedanceCurve, colour: str, width_pt: float, dashes: str | tuple[int, tuple[int, int]]
) -> None:
    known = [(math.log(t), math.log10(s)) for t, s in zip(curve.times_s, curve.shares_slower, strict=True) if t > 0]
    if known:
        xs, ys = np.array(known).T
        panel.plot(xs, ys, color=colour, linewidth=width_pt, linestyle=dashes, drawstyle="steps-post")


def answer(analysis: Analysis, curves: Mapping[str, ExceedanceCurve]) -> str:
    """Return what is drawn, and that it decides nothing."""
    requests, trials = sum(c.requests for c in curves.values()), sum(c.trials for c in curves.values())
    return (
        f"{requests:,} requests of {counted(trials, 'trial')}, put together for the picture: it describes, and "
        "nothing is tested on it."
    )


def how(analysis: Analysis, curves: Mapping[str, ExceedanceCurve]) -> str:
    """Return how the figure is read."""
    return (
        "Solid: all requests of the treatment’s counting trials together; dashed: the baseline’s. At 1 % stands p99. "
        "Each line ends where 20 requests are left. The requests of a trial share its moment, so verdicts come only "
        "from the percentiles of single trials above."
    )


def alt(analysis: Analysis, curves: Mapping[str, ExceedanceCurve]) -> str:
    """Return the percentiles that the curves pass."""
    shown, said = names(analysis), []
    for treatment, curve in curves.items():
        at = [share for share in SHOWN if share >= min(curve.shares_slower)]
        values = [f"p{100 - 100 * share:g} {format_duration(_time_at(curve, share))}" for share in at]
        said.append(f"{shown.get(treatment, treatment)}: {', '.join(values)}")
    return f"Distribution of the latency of all requests together. {answer(analysis, curves)} {'; '.join(said)}."


def _time_at(curve: ExceedanceCurve, share: float) -> float:
    return next(t for s, t in zip(curve.shares_slower, curve.times_s, strict=True) if s <= share * (1 + 1e-9))
