"""The crosses of figure 2: trials that are not counted, each with its reason where there is room.

Figure 2, the order plot.

In five seconds: did the host drift or jump, and was every treatment spread over it?
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.core.metrics import get_metric
from loadbook.core.units import format_percent
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import (
    NARROW_IN,
    WIDE_IN,
    Sheet,
    counted,
    drawable,
    in_house_style,
    line_in,
    mark_props,
    marks,
    names,
    pushed_apart,
    quantity,
    shortened,
    size_pt,
    text_width,
    widest,
    wrap,
)
from loadbook.stats.diagnostics import find_outliers
from loadbook.stats.results import Analysis, Interval

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


MOST_ARMS, LABEL_IN = 8, 1.85
UNSTEADY = 0.10  # range of the block medians from which on a reader should ask what disturbed the host
RING_PT = 5.0
LEFT_IN, TITLE_IN, GAP_IN, FOOT_IN = 0.62, 0.3, 0.34, 0.46
OTHERS = palette.VerdictStyle(palette.OTHERS, palette.SOFT, "", "o")


@in_house_style
def draw(
    analysis: Analysis, values: pd.DataFrame, reasons: Mapping[str, str] | None = None, narrow: bool = False
) -> Figure:
    """Draw every trial's value in order of execution, and below it the drift of the host.

    `values` is RunData.values of the analysis' metric, `reasons` maps excluded trials to a few words.
    """
    looks = _looks(analysis)
    key = _key_rows(analysis, looks) if narrow else []
    tall, low = (1.85, 0.9) if narrow else (2.05, 0.75)
    top = TITLE_IN + line_in(size_pt(narrow), len(key)) + (0.06 if key else 0)
    sheet = Sheet(narrow, top + tall + GAP_IN + low + FOOT_IN)
    right = sheet.width - 0.06 if narrow else WIDE_IN - _label_width(analysis, looks) - 0.3
    upper = sheet.panel(LEFT_IN, top, right, top + tall)
    lower = sheet.panel(LEFT_IN, top + tall + GAP_IN, right, top + tall + GAP_IN + low)
    limits = _draw_values(sheet, upper, analysis, values, looks, tall)
    draw_excluded(sheet, upper, values, reasons or {}, limits, Frame(LEFT_IN, right, top, top + tall))
    _draw_drift(lower, values)
    for panel in (upper, lower):
        axes.tint_blocks(panel, values)
    axes.blocks_on_x(lower, values, right - LEFT_IN, sheet.size)
    axes.blocks_on_x(upper, values, right - LEFT_IN, sheet.size)
    upper.set_xticks([])
    if narrow:
        _draw_key(sheet, key)
    else:
        _draw_labels(sheet, analysis, values, looks, limits, (right, top, top + tall))
    _titles(sheet, analysis, values, (LEFT_IN, right), (top + tall + GAP_IN, sheet.height))
    return sheet.figure


def _looks(analysis: Analysis) -> dict[str, palette.VerdictStyle]:
    """Return each treatment's look; beyond eight arms only baseline, A/A and the two largest effects keep theirs."""
    looks = marks(analysis)
    if len(analysis.rows) - 1 <= MOST_ARMS:
        return looks
    effects = {
        r.treatment: abs(axes.position(r.verdict.comparison.effect))
        for r in analysis.of_kind("treatment")
        if r.verdict and r.verdict.kind != "invalid" and r.verdict.comparison.effect is not None
    }
    kept = {*sorted(effects, key=lambda t: -effects[t])[:2], *(r.treatment for r in analysis.of_kind("baseline", "aa"))}
    return {t: look if t in kept else OTHERS for t, look in looks.items()}


def _shown(analysis: Analysis, looks: dict[str, palette.VerdictStyle]) -> list[tuple[str, palette.VerdictStyle]]:
    """Return (name, look) of what the key lists; the others once, as a count."""
    shown = [(name, looks[t]) for t, name in names(analysis).items() if looks[t] is not OTHERS]
    others = len(looks) - len(shown)
    return [*shown, (f"{others} others", OTHERS)] if others else shown


def _label_width(analysis: Analysis, looks: dict[str, palette.VerdictStyle]) -> float:
    size = size_pt(False) - 0.4
    return widest([wrap(name, LABEL_IN, size) for name, _ in _shown(analysis, looks)], size)


def _draw_values(
    sheet: Sheet,
    panel: Axes,
    analysis: Analysis,
    values: pd.DataFrame,
    looks: dict[str, palette.VerdictStyle],
    height: float,
) -> tuple[float, float]:
    counted_ones = values[values["valid"] & (values["value"] > 0)]
    low, high = axes.value_range((values if counted_ones.empty else counted_ones)["value"], 0.07)
    out = values[~values["valid"]]
    if not out.empty:  # room for the reasons above, for trials without a value below
        below = 0.12 if (~(out["value"] > 0)).any() else 0.0
        low, high = low * (high / low) ** -below, high * (high / low) ** 0.14
    unit = axes.unit_for(get_metric(analysis.metric), high)
    axes.values_on_y(panel, (low, high), unit, height)
    size = 5.0 if sheet.narrow else 6.0
    others_first = sorted(looks.items(), key=lambda item: item[1] is not OTHERS)
    for treatment, look in others_first:
        own = counted_ones[counted_ones["treatment"] == treatment]
        props = mark_props(look, 3.2 if look is OTHERS else size)
        panel.plot(own["slot"], np.log(own["value"]), **props, zorder=2 if look is OTHERS else 3)
    far = counted_ones[counted_ones["trial"].isin(list(find_outliers(values)))]
    panel.plot(
        far["slot"], np.log(far["value"]), linestyle="none", marker="o", markersize=size + RING_PT,
        markerfacecolor="none", markeredgecolor=palette.INK, markeredgewidth=0.9, zorder=4,
    )  # fmt: skip
    return low, high


def _drift(values: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Return the counted trials with `off` (log ratio to their own treatment's median) and each block's median."""
    good = values[values["valid"] & (values["value"] > 0)]
    own = good.groupby("treatment")["value"].transform("median")
    good = good.assign(off=np.log(good["value"] / own))
    return good, good.groupby("block")["off"].median()


def _draw_drift(panel: Axes, values: pd.DataFrame) -> None:
    good, by_block = _drift(values)
    reach = [0.055, 1.2 * by_block.abs().max(), 1.1 * good["off"].abs().quantile(0.95)] if len(good) else [0.055]
    limit = float(max(reach))
    tick = max(e for e in axes.EFFECTS if axes.position(e) <= limit and -axes.position(-e) <= limit)
    panel.set_ylim(-limit, limit)
    places = [axes.position(t) for t in (-tick, 0.0, tick)]
    axes.set_ticks(panel.yaxis, places, [axes.effect_label(t) for t in (-tick, 0.0, tick)])
    panel.axhline(0, color=palette.RULE, linewidth=0.8, zorder=-1)
    for marker, some in (("o", good["off"].abs() <= limit), ("^", good["off"] > limit), ("v", good["off"] < -limit)):
        dots = good[some]
        panel.plot(
            dots["slot"], dots["off"].clip(-0.97 * limit, 0.97 * limit), linestyle="none", marker=marker,
            markersize=2.6 if marker == "o" else 3.6, color=palette.OTHERS, markeredgewidth=0,
        )  # fmt: skip
    middles = good.groupby("block")["slot"].mean()
    panel.plot(middles, by_block, color=palette.INK, linewidth=1.8, solid_joinstyle="round")


def _draw_labels(
    sheet: Sheet, analysis: Analysis, values: pd.DataFrame, looks: dict[str, palette.VerdictStyle],
    limits: tuple[float, float], frame: tuple[float, float, float],
) -> None:  # fmt: skip
    """Write each treatment's name at the right, as near to its median as the other names allow."""
    right, top, bottom = frame
    size, low, high = sheet.size - 0.4, math.log(limits[0]), math.log(limits[1])
    medians = values[values["value"] > 0].groupby("treatment")["value"].median()
    by_name = {name: t for t, name in names(analysis).items()}
    shown = _shown(analysis, looks)
    texts = [wrap(name, LABEL_IN, size) for name, _ in shown]
    wanted = []
    for name, _ in shown:
        median = medians.get(by_name.get(name, ""), math.nan)
        at = bottom if not median > 0 else bottom - (bottom - top) * (math.log(median) - low) / (high - low)
        wanted.append(min(max(at, top), bottom))
    sizes = [line_in(size, text.count("\n") + 1) + 0.015 for text in texts]
    room = max(0.0, sum(sizes) - (bottom - top))
    places = pushed_apart(wanted, sizes, top - room / 2, bottom + room / 2)
    for text, (_, look), y in zip(texts, shown, places, strict=True):
        sheet.mark(right + 0.14, y, look, 3.2 if look is OTHERS else 6.0)
        sheet.text(right + 0.26, y, text, size=size, colour=look.text)


def _key_rows(
    analysis: Analysis, looks: dict[str, palette.VerdictStyle]
) -> list[list[tuple[float, str, palette.VerdictStyle]]]:
    """Return the narrow sheet's key: rows of (x in inches, name, look)."""
    size, rows, x = size_pt(True) - 0.4, [[]], 0.1  # type: ignore[var-annotated]
    for name, look in _shown(analysis, looks):
        text = shortened(name, 2.3, size)
        needs = text_width(text, size) + 0.34
        if x + needs > NARROW_IN and rows[-1]:
            rows.append([])
            x = 0.1
        rows[-1].append((x, text, look))
        x += needs
    return rows


def _draw_key(sheet: Sheet, rows: list[list[tuple[float, str, palette.VerdictStyle]]]) -> None:
    for number, row in enumerate(rows):
        y = TITLE_IN + line_in(sheet.size) * (number + 0.3)
        for x, text, look in row:
            sheet.mark(x, y, look, 3.2 if look is OTHERS else 5.0)
            sheet.text(x + 0.1, y, text, size=sheet.size - 0.4, colour=look.text)


def _titles(
    sheet: Sheet, analysis: Analysis, values: pd.DataFrame, edges: tuple[float, float], drift: tuple[float, float]
) -> None:
    left, right = edges
    metric = get_metric(analysis.metric)
    unit = axes.unit_for(metric, float(values["value"].max()))
    size = sheet.size - (0.6 if sheet.narrow else 0)
    title = axes.value_title(metric, analysis.statistic, unit, sheet.narrow)
    sheet.text(0.05 if sheet.narrow else left, 0.13, title, size=size, colour=palette.SOFT)
    below = "drift: against own treatment’s median" if sheet.narrow else (
        "drift: each trial against its own treatment’s median; line = block median"
    )  # fmt: skip
    sheet.text(left, drift[0] - 0.12, below, size=size, colour=palette.SOFT)
    each = values.groupby("block").size().max()
    order = f"block ({each} trials each, random order)" if sheet.narrow else (
        f"block (order of execution; {each} trials in random order in each)"
    )  # fmt: skip
    sheet.text((left + right) / 2, sheet.height - 0.14, order, colour=palette.SOFT, at="center")


def _spread(values: pd.DataFrame) -> float:
    """Return the range of the block medians as a ratio minus 1."""
    _, by_block = _drift(values)
    return math.expm1(by_block.max() - by_block.min()) if len(by_block) > 1 else 0.0


def answer(analysis: Analysis, values: pd.DataFrame, reasons: Mapping[str, str] | None = None) -> str:
    """Return whether the order of the trials could explain the effects, and how far the blocks lie apart."""
    if not values["valid"].any():
        return f"None of the {counted(len(values), 'trial')} counts, so the order shows nothing."
    per_block = values.groupby("block")["treatment"].nunique()
    if len(per_block) < 2:
        return "It could: with one block, order and treatment cannot be told apart."
    spread = _spread(values)
    drift = f"block medians lie up to {format_percent(spread, 1 if spread < UNSTEADY else 0, signed=False)} apart"
    lacking = int((per_block < values["treatment"].nunique()).sum())
    if lacking:
        return (
            f"Hardly: {drift}, and {lacking} of {len(per_block)} blocks lack a treatment; "
            "each comparison uses only blocks that hold both of its sides."
        )
    if spread >= UNSTEADY:
        return f"No, as every block holds every treatment; but the host was not steady: {drift}."
    return f"No: {drift}, but every block holds every treatment, so the drift cancels."


def how(analysis: Analysis, values: pd.DataFrame, reasons: Mapping[str, str] | None = None) -> str:
    """Return how the figure is read."""
    text = "One mark is one trial; the vertical axis is logarithmic and does not start at zero."
    out, far = int((~values["valid"]).sum()), len(find_outliers(values))
    text += f" ✕: {counted(out, 'trial')} not counted." if out else ""
    return text + (f" Ring: {counted(far, 'trial')} far from the others of its treatment, counted." if far else "")


def alt(analysis: Analysis, values: pd.DataFrame, reasons: Mapping[str, str] | None = None) -> str:
    """Return the answer with the number of trials, blocks and excluded trials."""
    out = int((~values["valid"]).sum())
    return (
        f"{quantity(get_metric(analysis.metric), analysis.statistic)} of {len(values)} trials in order of execution, "
        f"{counted(values['block'].nunique(), 'block')}, {out} not counted, "
        f"{len(find_outliers(values))} ringed as far from the others of its treatment. {answer(analysis, values)}"
    )
