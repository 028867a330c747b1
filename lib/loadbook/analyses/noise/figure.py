"""Figure 11, the record of one configuration.

In five seconds: how small a difference can this laboratory see tonight?
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from loadbook.analyses.noise.compute import NoiseRecord, noise_headline, relabelling_sentence
from loadbook.core.metrics import get_metric
from loadbook.core.units import MINUS, format_percent
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import Sheet, counted, in_house_style, quantity
from loadbook.stats.power import MAX_RESAMPLED_BLOCKS, POWER
from loadbook.stats.scatter import normal_quantiles, normal_scores
from loadbook.stats.text import margin_text

TITLE_IN, FOOT_IN, TALL_IN = 0.5, 0.62, 1.75
WIDE_EDGES = ((0.62, 4.15), (5.1, 8.65))
NARROW_EDGES = ((0.62, 3.6),)
SHARES = (0.01, 0.1, 0.5, 0.9, 0.99)
BLOCK_TICKS = (5, 10, 20, 40, 100, 200, 400, 1000, 2000, 4000, 10_000)
DRIFT_P = 0.05


@in_house_style
def draw(record: NoiseRecord, narrow: bool = False) -> Figure:
    """Draw four panels: values by slot, neighbours, sorted residuals, and the difference that so many blocks find."""
    rows = 4 if narrow else 2
    sheet = Sheet(narrow, rows * (TITLE_IN + TALL_IN + FOOT_IN))
    panels = (_draw_values, _draw_neighbours, _draw_sorted, _draw_detectable)
    for number, panel in enumerate(panels):
        row, column = (number, 0) if narrow else divmod(number, 2)
        left, right = (NARROW_EDGES if narrow else WIDE_EDGES)[column]
        top = row * (TITLE_IN + TALL_IN + FOOT_IN) + TITLE_IN
        panel(sheet, sheet.panel(left, top, right, top + TALL_IN), record, (left, right, top))
    return sheet.figure


def _titles(sheet: Sheet, place: tuple[float, float, float], title: str, above: str, below: str) -> None:
    """Write a panel's title, what its y axis is, and what its x axis is."""
    left, right, top = place
    sheet.text(left - 0.57, top - TITLE_IN + 0.12, title, bold=True)
    sheet.text(left - 0.57, top - 0.17, above, colour=palette.SOFT)
    sheet.text((left + right) / 2, top + TALL_IN + 0.37, below, colour=palette.SOFT, at="center")


def _dots(panel: Axes, xs: np.ndarray, ys: np.ndarray) -> None:
    panel.plot(xs, ys, linestyle="none", marker="o", markersize=3, color=palette.OTHERS, markeredgewidth=0)


def _reach(residuals: np.ndarray) -> axes.RatioScale:
    """Return an axis of residuals that holds them all."""
    limit = 1.08 * float(np.abs(residuals).max())
    return axes.RatioScale(-limit, limit)


def _residuals_on_y(panel: Axes, scale: axes.RatioScale, size: float) -> None:
    """Make y a ratio axis with as many ticks as lines of text fit above each other."""
    panel.set_ylim(scale.low, scale.high)
    inside = sorted((e for e in axes.EFFECTS if scale.inside(axes.position(e))), key=lambda e: (e != 0, -abs(e)))
    inch = TALL_IN / (scale.high - scale.low)
    places = [(axes.position(e), "00") for e in inside]  # two digits are about as wide as a line is high
    kept = [inside[k] for k in axes.fit(places, lambda at: (at - scale.low) * inch, size, TALL_IN)]
    axes.set_ticks(panel.yaxis, [axes.position(e) for e in kept], [axes.effect_label(e) for e in kept])


def _draw_values(sheet: Sheet, panel: Axes, record: NoiseRecord, place: tuple[float, float, float]) -> None:
    found, metric = record.noise, get_metric(record.metric)
    values = record.values["value"]
    limits = axes.value_range(values)
    unit = axes.unit_for(metric, limits[1])
    axes.values_on_y(panel, limits, unit, TALL_IN)
    _dots(panel, found.slots, np.log(values.to_numpy(float)))
    first, last = int(found.slots[0]), int(found.slots[-1])
    panel.set_xlim(first - 1, last + 1)
    middle, half = float(np.log(values).median()), math.log1p(found.drift or 0.0) / 2
    panel.plot([first, last], [middle - half, middle + half], color=palette.INK, linewidth=1.8)
    ticks = [t for t in MaxNLocator(6, integer=True).tick_values(first, last) if first <= t <= last]
    axes.set_ticks(panel.xaxis, ticks, [f"{t:.0f}" for t in ticks])
    words = f", {unit.words}" if unit.words else ""
    name = quantity(metric, None)
    above = f"{name}{words} (log)" if sheet.narrow else f"{name}{words} (log, does not start at 0)"
    _titles(sheet, place, _drift_words(record), above, "trial, in order of execution")


def _drift_words(record: NoiseRecord) -> str:
    found = record.noise
    if found.drift is None or found.drift_p is None or found.drift_p >= DRIFT_P:
        return "no steady drift is visible"
    return f"drift of {format_percent(found.drift)} over the record"


def _draw_neighbours(sheet: Sheet, panel: Axes, record: NoiseRecord, place: tuple[float, float, float]) -> None:
    residuals = record.noise.residuals
    scale = _reach(residuals)
    axes.ratio_axis(panel, scale, place[1] - place[0], sheet.size, 0.0)
    _residuals_on_y(panel, scale, sheet.size)
    panel.axhline(0, color=palette.RULE, linewidth=0.8, zorder=-1)
    panel.axvline(0, color=palette.RULE, linewidth=0.8, zorder=-1)
    _dots(panel, residuals[:-1], residuals[1:])
    found = record.noise
    number = f"{found.lag1:.2f}".replace("-", MINUS)
    title = f"neighbours correlate by {number} (standard error {found.lag1_error:.2f})"
    title = f"neighbours: {number} ± {found.lag1_error:.2f} (correlation)" if sheet.narrow else title
    _titles(sheet, place, title, "the next trial against the median", "one trial against the median")


def _draw_sorted(sheet: Sheet, panel: Axes, record: NoiseRecord, place: tuple[float, float, float]) -> None:
    ordered = np.sort(record.noise.residuals)
    scores = normal_scores(len(ordered))
    _residuals_on_y(panel, _reach(ordered), sheet.size)
    edge = 1.06 * max(float(scores[-1]), 2.4)
    panel.set_xlim(-edge, edge)
    panel.plot([-edge, edge], [ordered.std() * x for x in (-edge, edge)], color=palette.INK, linewidth=0.9, zorder=-1)
    _dots(panel, scores, ordered)
    groups = record.noise.gap_test
    if groups.is_bimodal:
        at = float(np.mean(scores[[groups.below - 1, groups.below]]))
        panel.plot([at, at], ordered[[groups.below - 1, groups.below]], color=palette.INK, linewidth=1.8)
    axes.set_ticks(
        panel.xaxis, list(normal_quantiles(SHARES)), [format_percent(share, 0, signed=False) for share in SHARES]
    )
    _titles(sheet, place, groups_words(record), "trial against the median", "share of trials below (normal scale)")


def groups_words(record: NoiseRecord) -> str:
    """Return whether the trials lie in two groups."""
    groups = record.noise.gap_test
    if not groups.is_bimodal:
        return "one group: no gap is visible"
    return f"two groups: {groups.below} and {groups.above} trials, {format_percent(groups.gap, 1, signed=False)} apart"


def _draw_detectable(sheet: Sheet, panel: Axes, record: NoiseRecord, place: tuple[float, float, float]) -> None:
    """Draw the curve with its range (log, log), the margin as a band from below, and where they meet."""
    drawn = [(a.blocks, a.detectable_effect) for a in record.precisions if math.isfinite(a.detectable_effect)]
    most = max(
        MAX_RESAMPLED_BLOCKS, 1.6 * (record.blocks_needed.high if record.blocks_needed else MAX_RESAMPLED_BLOCKS)
    )
    beyond = [(n, record.pool.detectable_by_formula(round(n))) for n in np.geomspace(MAX_RESAMPLED_BLOCKS, most, 12)]
    low, high = record.pool.sd_factors
    line = np.array(drawn + (beyond[1:] if most > MAX_RESAMPLED_BLOCKS else []))
    xs, ys = np.log(line[:, 0]), line[:, 1]
    effects = [np.log(np.expm1(np.log1p(ys) * factor)) for factor in (1.0, low, high)]
    bottom = min(effects[1].min(), math.log(record.margin)) - 0.25
    panel.set_xlim(math.log(5) - 0.05, math.log(most) + 0.05)
    panel.set_ylim(bottom, effects[2].max() + 0.1)
    panel.axhspan(bottom, math.log(record.margin), color=palette.BAND, linewidth=0, zorder=-3)
    panel.fill_between(xs, effects[1], effects[2], color=palette.WINDOW_TINT, linewidth=0, zorder=-2)
    for edge in effects[1:]:
        panel.plot(xs, edge, color=palette.RULE, linewidth=0.8, zorder=-1)
    kept = xs <= math.log(MAX_RESAMPLED_BLOCKS)
    panel.plot(xs[kept], effects[0][kept], color=palette.INK, linewidth=1.8)
    if most > MAX_RESAMPLED_BLOCKS:
        after = xs >= math.log(MAX_RESAMPLED_BLOCKS)
        panel.plot(xs[after], effects[0][after], color=palette.INK, linewidth=1.4, linestyle=(0, (4, 2)))
    if record.blocks_needed:
        panel.plot(
            [math.log(record.blocks_needed.blocks)],
            [math.log(record.margin)],
            marker="o",
            markersize=6,
            color=palette.INK,
        )
    _detectable_ticks(sheet, panel, place, most)
    title = (
        "out of reach"
        if record.blocks_needed is None
        else (
            f"{margin_text(record.margin)}: {record.blocks_needed.blocks:,} blocks ({record.blocks_needed.low:,} "
            f"to {record.blocks_needed.high:,})"
        )
    )
    _titles(
        sheet,
        place,
        title,
        f"difference found with {format_percent(POWER, 0, signed=False)} probability",
        "blocks (log)",
    )
    inside = (math.log(record.margin) - bottom) / (panel.get_ylim()[1] - bottom)
    sheet.text(
        place[0] + 0.07,
        place[2] + TALL_IN * (1 - inside) + 0.1,
        f"margin {margin_text(record.margin)}",
        colour=palette.SOFT,
    )


def _detectable_ticks(sheet: Sheet, panel: Axes, place: tuple[float, float, float], most: float) -> None:
    width = place[1] - place[0]
    left, right = panel.get_xlim()
    inch = width / (right - left)
    numbers = [(math.log(n), f"{n:,}") for n in BLOCK_TICKS if n <= most]
    kept = axes.fit(numbers, lambda at: (at - left) * inch, sheet.size, width)
    axes.set_ticks(panel.xaxis, [numbers[k][0] for k in kept], [numbers[k][1] for k in kept])
    low, high = panel.get_ylim()
    effects = [e for e in axes.EFFECTS if e > 0 and low <= math.log(e) <= high]
    axes.set_ticks(panel.yaxis, [math.log(e) for e in effects], [axes.effect_label(e)[1:] for e in effects])


def answer(record: NoiseRecord) -> str:
    """Return how many blocks the margin needs here."""
    return noise_headline(record, record.margin)


def how(record: NoiseRecord) -> str:
    """Return how the figure is read."""
    trials, pairs = counted(record.noise.trials, "trial"), counted(len(record.pool.pairs), "pair")
    dots = f"One dot is one of {trials} of one configuration."
    curve = f"Thin lines: where the curve may lie, as {pairs} tell no better; dashed: by the formula from 40 blocks on."
    return f"{relabelling_sentence(record.relabelling)} {dots} {curve}"


def alt(record: NoiseRecord) -> str:
    """Return the answer and the numbers of all four panels."""
    found = record.noise
    low, high = (format_percent(bound, 1, signed=False) for bound in found.cv_interval)
    lag1 = f"{found.lag1:.2f}".replace("-", MINUS)
    return (
        f"{answer(record)} {counted(found.trials, 'trial')} of one configuration scatter by "
        f"{format_percent(found.cv, 1, signed=False)} (95 % interval {low} to {high}); {_drift_words(record)}; "
        f"correlation of neighbours {lag1}; {groups_words(record)}."
    )
