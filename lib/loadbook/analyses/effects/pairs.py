"""Figure 3, the raw blocks of one comparison.

In five seconds: do the single blocks agree, or does one block make the effect?
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.core.metrics import get_metric
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import (
    NARROW_IN,
    WIDE_IN,
    Sheet,
    confidence,
    counted,
    in_house_style,
    mark_props,
    names,
    widest,
    wrap,
)
from loadbook.stats.results import Analysis
from loadbook.stats.text import margin_text, predicate, row_texts

TITLE_IN, FOOT_IN, LEFT_IN, TALL_IN = 0.62, 0.62, 0.62, 2.1
CROSS: dict[str, Any] = {"color": palette.INK, "markersize": 5, "markeredgewidth": 1.3}
PLAIN = palette.VerdictStyle(palette.INK, palette.INK, "", "p", hollow=True)  # a treatment that has no verdict


def choose(analysis: Analysis) -> str | None:
    """Return the treatment whose blocks say most about the study's question: the first that was compared."""
    rows = [*analysis.of_kind("treatment"), *analysis.of_kind("control", "aa")]
    return next((r.treatment for r in rows if r.verdict and r.verdict.comparison.effect is not None), None)


@in_house_style
def draw(analysis: Analysis, treatment: str, values: pd.DataFrame, narrow: bool = False) -> Figure:
    """Draw the pairs of one comparison: values joined by block, and each block's change with the interval.

    `values` is RunData.values of the analysis' metric.
    """
    pairs = _pairs(analysis, treatment, values)
    sheet = Sheet(narrow, TITLE_IN + TALL_IN + FOOT_IN + (0.42 + 1.6 + 0.5 if narrow else 0))
    right = NARROW_IN - 0.2 if narrow else 3.55
    values_panel = sheet.panel(LEFT_IN, TITLE_IN, right, TITLE_IN + TALL_IN)
    out = values[~values["valid"] & (values["value"] > 0)]
    _draw_values(sheet, values_panel, analysis, treatment, pairs, out, (LEFT_IN, right))
    top = TITLE_IN + TALL_IN + FOOT_IN + 0.42 if narrow else TITLE_IN
    bottom = top + 1.6 if narrow else TITLE_IN + TALL_IN
    left, right = (LEFT_IN, NARROW_IN - 0.06) if narrow else (4.65, WIDE_IN - 0.1)
    changes_panel = sheet.panel(left, top, right, bottom)
    _draw_changes(sheet, changes_panel, analysis, treatment, pairs, (left, right, top, bottom))
    sheet.text(0.05, 0.13, _agreement(analysis, treatment, pairs), bold=True)
    return sheet.figure


def _pairs(analysis: Analysis, treatment: str, values: pd.DataFrame) -> pd.DataFrame:
    """Return blocks x (base, own, change): counted values > 0, NaN where a side is missing; change is log ratio."""
    good = values[values["valid"] & (values["value"] > 0)]
    wide = good.pivot_table(index="block", columns="treatment", values="value")
    blocks = sorted(values["block"].unique())
    wide = wide.reindex(index=blocks, columns=[_base(analysis, treatment), treatment])
    wide.columns = pd.Index(["base", "own"])
    return wide.assign(change=np.log(wide["own"] / wide["base"]))


def _base(analysis: Analysis, treatment: str) -> str:
    """Return what a treatment is compared with."""
    verdict = analysis.row(treatment).verdict
    return verdict.comparison.baseline if verdict else analysis.baseline


def _split(analysis: Analysis, treatment: str, pairs: pd.DataFrame) -> tuple[pd.Series, bool]:
    """Return which complete blocks go the way of the estimate (or of most blocks), and whether that way is up."""
    verdict = analysis.row(treatment).verdict
    whole = pairs["change"].dropna()
    effect = verdict.comparison.effect if verdict and verdict.comparison.effect else whole.median()
    up = bool(effect > 0)
    return (whole > 0) if up else (whole < 0), up


def _agreement(analysis: Analysis, treatment: str, pairs: pd.DataFrame) -> str:
    agree, _ = _split(analysis, treatment, pairs)
    if agree.empty:
        return "no block is complete"
    return f"{int(agree.sum())} of {counted(len(agree), 'block')} agree in direction"


def _look(analysis: Analysis, treatment: str) -> palette.VerdictStyle:
    style = palette.row_style(analysis.row(treatment))
    return style if style.marker else PLAIN


def _draw_values(
    sheet: Sheet, panel: Axes, analysis: Analysis, treatment: str, pairs: pd.DataFrame, out: pd.DataFrame,
    edges: tuple[float, float],
) -> None:  # fmt: skip
    """Draw the two columns of values joined by block; beside them a cross for each trial that is not counted."""
    both = pd.concat([pairs["base"], pairs["own"]])
    limits = axes.value_range(both if both.notna().any() else out["value"])
    metric = get_metric(analysis.metric)
    unit = axes.unit_for(metric, limits[1])
    axes.values_on_y(panel, limits, unit, TALL_IN)
    panel.set_xlim(-0.45, 1.45)
    panel.set_xticks([])
    agree, _ = _split(analysis, treatment, pairs)
    for block, agrees in agree.items():
        ends = np.log(pairs.loc[[block], ["base", "own"]].to_numpy(float)[0])
        colour, width = (palette.OTHERS, 0.9) if agrees else (palette.INK, 1.8)
        panel.plot([0, 1], ends, color=colour, linewidth=width, zorder=1 if agrees else 2)
    looks = (palette.BASELINE, _look(analysis, treatment))
    for x, column, look in zip((0, 1), ("base", "own"), looks, strict=True):
        panel.plot([x] * len(pairs), np.log(pairs[column]), **mark_props(look, 6.0), zorder=3)
    shown = names(analysis)
    for x, name, look in zip((0, 1), (_base(analysis, treatment), treatment), looks, strict=True):
        heights = np.log(out.loc[out["treatment"] == name, "value"].clip(*limits))
        panel.plot([x + 0.36 * x - 0.18] * len(heights), heights, "x", **CROSS)
        at = edges[0] + (edges[1] - edges[0]) * (x + 0.45) / 1.9
        text = wrap(shown.get(name, name), (edges[1] - edges[0]) / 2 - 0.02, sheet.size, True)
        sheet.text(at, TITLE_IN + TALL_IN + 0.08, text, bold=True, colour=look.text, at="center", va="top")
    size = sheet.size - 1.0
    title = wrap(axes.value_title(metric, analysis.statistic, unit, True), edges[1] + 0.3, size)
    sheet.text(0.05, 0.4, title, size=size, colour=palette.SOFT)


def _draw_changes(
    sheet: Sheet, panel: Axes, analysis: Analysis, treatment: str, pairs: pd.DataFrame,
    frame: tuple[float, float, float, float],
) -> None:  # fmt: skip
    left, right, top, bottom = frame
    row, look, whole = analysis.row(treatment), _look(analysis, treatment), pairs["change"].dropna()
    verdict = row.verdict if row.kind != "treatment" or (row.verdict and row.verdict.kind != "invalid") else None
    interval = verdict.comparison.ci95 if verdict else None
    reach = [*whole, *(map(axes.position, interval) if interval else ())]
    margin = axes.position(analysis.margin)
    low, high = min([*reach, -1.4 * margin]), max([*reach, 1.4 * margin])
    scale = axes.RatioScale(low - 0.06 * (high - low), high + 0.06 * (high - low))
    ticks = axes.effect_ticks(scale, (bottom - top) * 2.2, sheet.size)  # labels above each other need less room
    panel.set_ylim(scale.low, scale.high)
    axes.set_ticks(panel.yaxis, [axes.position(t) for t in ticks], [axes.effect_label(t) for t in ticks])
    panel.axhspan(axes.position(-analysis.margin), margin, color=palette.BAND, linewidth=0, zorder=-3)
    panel.axhline(0, color=palette.INK, linewidth=1.1, zorder=-1)
    panel.set_xlim(0.3, len(pairs) + 0.7)
    if interval and verdict and verdict.comparison.effect is not None:
        panel.axhspan(*map(axes.position, interval), color=look.fill, alpha=0.2, linewidth=0, zorder=-2)
        panel.axhline(axes.position(verdict.comparison.effect), color=look.fill, linewidth=1.6, zorder=1)
    numbers = {block: n for n, block in enumerate(pairs.index, 1)}
    panel.plot([numbers[b] for b in whole.index], whole, **mark_props(look, 6.5), zorder=3)
    lacking = [numbers[b] for b in pairs.index[pairs["change"].isna()]]
    panel.plot(lacking, [scale.low + 0.05 * (scale.high - scale.low)] * len(lacking), "x", **CROSS)
    placed = [(float(n), str(block)) for block, n in numbers.items()]
    inch = (right - left) / (len(pairs) + 0.4)
    kept = axes.fit(placed, lambda at: (at - 0.3) * inch, sheet.size, right - left)
    axes.set_ticks(panel.xaxis, [placed[i][0] for i in kept], [placed[i][1] for i in kept])
    panel.tick_params(axis="x", length=0)
    size = sheet.size - (1.0 if sheet.narrow else 0.6)
    said = _change(analysis, treatment) or "no interval: not compared"
    word = f"{palette.row_glyph(row)} {palette.row_word(row, get_metric(analysis.metric))}"
    title = wrap(f"change in each block; band: margin ±{margin_text(analysis.margin)}", right - left + 0.3, size)
    at = left if not sheet.narrow else 0.05
    sheet.text(at, top - 0.36 - (0.06 if sheet.narrow else 0.13), word, bold=True, colour=palette.row_text_colour(row))
    sheet.text(at + widest([word], sheet.size, True) + 0.1, top - (0.42 if sheet.narrow else 0.49), said)
    sheet.text(at, top - 0.2, title, size=size, colour=palette.SOFT)
    sheet.text((left + right) / 2, bottom + 0.36, "block", colour=palette.SOFT, at="center")


def _change(analysis: Analysis, treatment: str) -> str:
    texts, row = row_texts(analysis.row(treatment)), analysis.row(treatment)
    compared = row.verdict and row.verdict.kind != "invalid" and row.verdict.comparison.effect is not None
    return f"{texts.change} ({texts.interval_number})" if compared else ""


def answer(analysis: Analysis, treatment: str, values: pd.DataFrame) -> str:
    """Return how many blocks go the same way as the estimate."""
    pairs = _pairs(analysis, treatment, values)
    agree, up = _split(analysis, treatment, pairs)
    name = names(analysis)[treatment]
    if agree.empty:
        return f"No block holds both {name} and the baseline."
    does = predicate(analysis.metric, 1.0 if up else -1.0)
    if int(agree.sum()) == len(agree):
        return f"All {counted(len(agree), 'block')} agree: {name} {does} in each."
    return f"{int(agree.sum())} of {counted(len(agree), 'block')} agree in direction: {name} {does} in them."


def how(analysis: Analysis, treatment: str, values: pd.DataFrame) -> str:
    """Return how the figure is read."""
    pairs = _pairs(analysis, treatment, values)
    text = "Each line joins the two trials of one block; ink: a block that goes the other way."
    text += f" Coloured line and tint: estimate and {confidence(analysis)} interval."
    text += " The axes are logarithmic and do not start at zero."
    lacking = int(pairs["change"].isna().sum())
    return text + (f" ✕: {counted(lacking, 'block')} not complete, left out of the comparison." if lacking else "")


def alt(analysis: Analysis, treatment: str, values: pd.DataFrame) -> str:
    """Return the answer and the change of every block."""
    whole = _pairs(analysis, treatment, values)["change"].dropna()
    changes = ", ".join(axes.percent_of(v) for v in whole)
    change = _change(analysis, treatment)
    said = f" Estimate {change}." if change else ""
    return f"{answer(analysis, treatment, values)}{said} Change by block: {changes or 'none'}."
