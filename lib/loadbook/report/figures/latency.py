"""Figure 5, latency percentiles per trial.

In five seconds: does the tail move, and is it more than the scatter between trials?
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.core.metrics import get_metric
from loadbook.core.units import format_duration, join_words
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import (
    Sheet,
    blocks_text,
    counted,
    in_house_style,
    mark_props,
    names,
    rows_in_reading_order,
    shortened,
    size_pt,
    widest,
    wrap,
)
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.text import direction_word, margin_text, row_texts

Panels = Mapping[str, tuple[pd.DataFrame, Analysis]]
MOST_IN_A_ROW, NAME_WIDE_IN, NAME_NARROW_IN = 6, 1.6, 1.4
HEAD_IN, FOOT_IN, ROW_WIDE_IN, ROW_NARROW_IN, GAP_IN = 0.28, 0.54, 0.31, 0.21, 0.18
PLAIN = palette.VerdictStyle(palette.INK, palette.INK, "", "o", hollow=True)


@in_house_style
def draw(analysis: Analysis, panels: Panels, quantity: str = "", narrow: bool = False) -> Figure:
    """Draw one panel per percentile, one row per treatment, one mark per trial, coloured by that panel's verdict.

    `panels` maps each percentile to RunData.values of it and to its own analysis; `analysis` gives the rows' order.
    """
    rows, across = rows_in_reading_order(analysis), 1 if narrow else min(MOST_IN_A_ROW, max(1, len(panels)))
    texts = _names(analysis, rows, narrow)
    step = ROW_NARROW_IN if narrow else ROW_WIDE_IN + 0.07 * any("\n" in text for text in texts)
    tall = len(rows) * step
    each = HEAD_IN + tall + FOOT_IN
    sheet = Sheet(narrow, each * max(1, math.ceil(len(panels) / across)))
    left = widest(texts, _name_size(narrow)) + 0.16
    width = (sheet.width - left - 0.12 - GAP_IN * (across - 1)) / across
    for number, (name, (values, own)) in enumerate(panels.items()):
        line, column = divmod(number, across)
        x, y = left + column * (width + GAP_IN), line * each + HEAD_IN
        panel = sheet.panel(x, y, x + width, y + tall)
        sheet.text(x, y - 0.13, name, bold=True)
        looks = {} if analysis.aa_failure else {r.treatment: _look(r) for r in own.rows}
        _draw_panel(sheet, panel, rows, values, own, width, looks)
        unit = axes.unit_for(get_metric(own.metric), _limits(values)[1])
        title = f"{unit.words} (log)"
        sheet.text(x + width / 2, y + tall + 0.35, title, size=sheet.size - 0.4, colour=palette.SOFT, at="center")
        if column == 0:
            for k, text in enumerate(texts):
                sheet.text(left - 0.1, y + (k + 0.5) * step, text, size=_name_size(narrow), at="right")
    return sheet.figure


def _name_size(narrow: bool) -> float:
    return size_pt(narrow) - (0.8 if narrow else 0.4)


def _names(analysis: Analysis, rows: list[AnalysisRow], narrow: bool) -> list[str]:
    shown, size = names(analysis), _name_size(narrow)
    if narrow:
        return [shortened(shown[r.treatment], NAME_NARROW_IN, size) for r in rows]
    return [wrap(shown[r.treatment], NAME_WIDE_IN, size) for r in rows]


def _limits(values: pd.DataFrame) -> tuple[float, float]:
    return axes.value_range(values.loc[values["valid"], "value"])


def _draw_panel(
    sheet: Sheet, panel: Axes, rows: list[AnalysisRow], values: pd.DataFrame, own: Analysis, width: float,
    looks: Mapping[str, palette.VerdictStyle],
) -> None:  # fmt: skip
    good = values[values["valid"] & (values["value"] > 0)]
    limits = _limits(values)
    axes.values_on_x(panel, limits, axes.unit_for(get_metric(own.metric), limits[1]), width, sheet.size - 0.4)
    panel.set_ylim(len(rows), 0)
    panel.set_yticks([])
    rank = good["block"].rank(method="dense") - 0.5
    heights = 0.56 * (rank / max(1.0, rank.max() + 0.5) - 0.5) if len(good) else rank
    for k, row in enumerate(rows):
        mine = good[good["treatment"] == row.treatment]
        if mine.empty:
            panel.text(0.5, k + 0.5, "not measured", transform=panel.get_yaxis_transform(), ha="center", va="center",
                       fontsize=7.5, color=palette.SOFT)  # fmt: skip
            continue
        look = looks.get(row.treatment, PLAIN)
        props = mark_props(look, 3.8) | {"markeredgewidth": 0.8 if look.hollow else 0.2}
        panel.plot(np.log(mine["value"]), k + 0.5 + heights[mine.index], **props)
        median = math.log(mine["value"].median())
        panel.plot([median] * 2, [k + 0.1, k + 0.9], color=look.edge, linewidth=2.4, solid_capstyle="butt", zorder=3)
    base = good.loc[good["treatment"] == own.baseline, "value"]
    if len(base):
        panel.axvline(math.log(base.median()), color=palette.INK, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)


def _look(row: AnalysisRow) -> palette.VerdictStyle:
    style = palette.row_style(row)
    return style if style.marker else PLAIN


def _moved(panels: Panels) -> dict[str, list[tuple[str, AnalysisRow]]]:
    """Return treatment -> the percentiles at which it is better or worse, with that panel's row."""
    found: dict[str, list[tuple[str, AnalysisRow]]] = {}
    for name, (_, own) in panels.items():
        for row in own.of_kind("treatment"):
            if row.verdict and row.verdict.kind in ("better", "worse"):
                found.setdefault(row.treatment, []).append((name, row))
    return found


def answer(analysis: Analysis, panels: Panels, quantity: str = "") -> str:
    """Return which treatments move which percentiles, and which percentile most."""
    moved = _moved(panels)
    if not panels:
        return "This tool prints no percentiles."
    if analysis.aa_failure:
        return "No verdict on any percentile: the laboratory contradicts itself."
    margin = margin_text(next(iter(panels.values()))[1].margin)
    if not moved:
        return f"No treatment is shown to change any percentile by {margin} or more."
    order = [r.treatment for r in analysis.of_kind("treatment") if r.treatment in moved]
    said = [_moves(names(analysis)[t], moved[t], list(panels)) for t in order[:3]]
    more = len(order) - len(said)
    return "; ".join(said) + (f"; {counted(more, 'more treatment')} with a shift." if more else ".")


def _moves(name: str, found: list[tuple[str, AnalysisRow]], panels: Sequence[str]) -> str:
    """Return "X: p50 longer (+72 %, +60 to +80 %), p75 to p99 shorter, p90 most (...)": each direction by itself."""
    directions = {p: direction_word(r.verdict.comparison.metric, _effect(r)) for p, r in found if r.verdict}
    said = []
    for direction in dict.fromkeys(directions.values()):
        group = [(p, r) for p, r in found if directions.get(p) == direction]
        largest, row = max(group, key=lambda item: abs(math.log1p(_effect(item[1]))))
        how_much = f"({row_texts(row).change}, {row_texts(row).interval})"
        where = _where([p for p, _ in group], panels)
        most = f", {largest} most {how_much}" if len(group) > 1 else f" {how_much}"
        said.append(f"{where} {direction}{most}")
    return f"{name}: {', '.join(said)}"


def _where(found: list[str], panels: Sequence[str]) -> str:
    """Return "every percentile", "p75 to p99" for neighbours of which there are more than two, else all of them."""
    if len(found) == len(panels) > 1:
        return "every percentile"
    first = panels.index(found[0])
    if len(found) > 2 and list(panels[first : first + len(found)]) == found:
        return f"{found[0]} to {found[-1]}"
    return join_words(found)


def _effect(row: AnalysisRow) -> float:
    return (row.verdict.comparison.effect if row.verdict else None) or 0.0


def how(analysis: Analysis, panels: Panels, quantity: str = "") -> str:
    """Return how the figure is read; `quantity` says what the tool's percentile is."""
    own = next(iter(panels.values()))[1] if panels else analysis
    said = [
        f"One mark is one trial’s percentile{', ' + quantity if quantity else ''};",
        f"bar: median of the trials ({blocks_text(own)}); dashed: baseline.",
        "Each panel has a range of its own, which does not start at zero.",
        f"Colour and shape: this percentile’s own verdict, margin {margin_text(own.margin)}; grey is undecided.",
    ]
    return " ".join(said[:-1] if analysis.aa_failure else said)


def alt(analysis: Analysis, panels: Panels, quantity: str = "") -> str:
    """Return the answer and the median of each treatment at each percentile."""
    said = []
    for name, (values, own) in panels.items():
        medians = values[values["valid"]].groupby("treatment")["value"].median()
        shown = names(own)
        by_name = {shown.get(str(t), str(t)): float(v) for t, v in medians.items()}
        said.append(f"{name}: " + ", ".join(f"{t} {format_duration(v)}" for t, v in by_name.items() if v > 0))
    return f"Latency percentiles per trial. {answer(analysis, panels)} Medians: {'; '.join(said)}."
