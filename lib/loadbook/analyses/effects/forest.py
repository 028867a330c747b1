"""Rows of effects on one axis of ratios: what the effect plot and the plot of losses share.

A `Look` says what differs: the ground, how an interval is drawn, and the words beside it.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.analyses.effects.effect_rows import (
    LANE_IN,
    NOT_COMPARED,
    Line,
    Look,
    compared,
    narrow_line,
    reason_lines,
    rows_of,
    scale_of,
    wide_line,
)
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import NARROW_IN, WIDE_IN, Sheet, blocks_text, line_in, text_width, widest, wrap
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.text import direction_words

HEAD_IN, FOOT_IN, CHECKS_IN, EDGE_IN = 0.4, 0.68, 0.28, 0.05
REACH_IN, APART_IN = 0.9, 0.15  # of the direction words: how far from the margin's words they go, how near they come


def draw(analysis: Analysis, look: Look, narrow: bool) -> Figure:
    """Draw one row per comparison: name, interval on a log axis of ratios, verdict and what the look says of it."""
    lines = [(narrow_line if narrow else wide_line)(row, look) for row in rows_of(analysis)]
    checks = any(line.check for line in lines)
    height = HEAD_IN + sum(line.height for line in lines) + CHECKS_IN * checks + FOOT_IN
    sheet = Sheet(narrow, height)
    left, right = _plot_edges(look, lines, sheet)
    scale = scale_of(analysis)
    panel = sheet.panel(left, HEAD_IN, right, height - FOOT_IN)
    panel.set_ylim(height - FOOT_IN, HEAD_IN)
    panel.set_yticks([])
    ticks = axes.ratio_axis(panel, scale, right - left, sheet.size, analysis.margin)
    if not narrow:
        look.ground(panel, ticks, HEAD_IN, height - FOOT_IN)
    _head(sheet, analysis, look, scale, left, right)
    _draw_lines(sheet, panel, scale, look, ticks, lines, (left, right))
    foot(sheet, look.title + (f", {blocks_text(analysis)}" if narrow else ""), (left, right))
    return sheet.figure


def _plot_edges(look: Look, lines: list[Line], sheet: Sheet) -> tuple[float, float]:
    if sheet.narrow:
        return 0.08, NARROW_IN - 0.08
    name = max((widest([line.name], sheet.size, not line.check) for line in lines), default=1.0)
    return max(name, 1.0) + 0.22, WIDE_IN - EDGE_IN - _right_columns(look, lines, sheet.size) - 0.12


def _right_columns(look: Look, lines: list[Line], size: float) -> float:
    """Return the width of the verdicts and the changes."""
    said = [widest([line.change], size if compared(line.row) else size - 0.8) for line in lines]
    changes = max([*said, text_width(look.change_head, size - 0.6)])
    return max([widest([line.verdict], size, True) for line in lines] + [0.6]) + 0.2 + changes


def _head(sheet: Sheet, analysis: Analysis, look: Look, scale: axes.RatioScale, left: float, right: float) -> None:
    zero = scale.inch(axes.position(look.margin_at), left, right)
    above_axis(sheet, analysis.metric, look.margin(sheet.narrow), zero, (left, right))
    size, y = sheet.size - 0.6, HEAD_IN - 0.1
    if not sheet.narrow:
        sheet.text(right + 0.12, y, "verdict", size=size, colour=palette.SOFT, va="baseline")
        sheet.text(WIDE_IN - EDGE_IN, y, look.change_head, size=size, colour=palette.SOFT, at="right", va="baseline")


def above_axis(
    sheet: Sheet, metric: str, margin: str, at: float, edges: tuple[float, float], lower: float = 0.0
) -> None:
    """Write the words of the margin `at` this place (inches), and on both sides which way the metric goes."""
    size, y, (left, right) = sheet.size - 0.6, HEAD_IN + lower - 0.1, edges
    half = text_width(margin, size) / 2
    zero = min(max(at, half + EDGE_IN), right - half)
    sheet.text(zero, y, margin, size=size, colour=palette.SOFT, at="center", va="baseline")
    above, below, _ = direction_words(metric)
    slower, faster = f"← {below}", f"{above} →"
    starts = max(left, zero - half - REACH_IN)
    ends = min(right, zero + half + REACH_IN)
    tight = starts + text_width(slower, size) > zero - half - APART_IN
    tight |= ends - text_width(faster, size) < zero + half + APART_IN
    line = y - line_in(size) if tight else y
    sheet.text(starts, line, slower, size=size, colour=palette.SOFT, va="baseline")
    sheet.text(ends, line, faster, size=size, colour=palette.SOFT, at="right", va="baseline")


def _draw_lines(
    sheet: Sheet, panel: Axes, scale: axes.RatioScale, look: Look, ticks: list[float],
    lines: list[Line], edges: tuple[float, float],
) -> None:  # fmt: skip
    y, checks_begun = HEAD_IN, False
    for line in lines:
        if line.check and not checks_begun:
            checks_begun = True
            y += CHECKS_IN
            begin_checks(sheet, y)
        lane = y + line.height - LANE_IN / 2 - 0.08 if sheet.narrow else y + line.height / 2
        if sheet.narrow and compared(line.row):
            look.ground(panel, ticks, lane - LANE_IN / 2, lane + LANE_IN / 2)
        if compared(line.row):
            look.interval(panel, scale, lane, line.row)
            _truth(panel, scale, line.row, lane)
        else:
            _no_interval(sheet, scale, look.margin_size, line.row, lane, edges)
        (_narrow_texts if sheet.narrow else _wide_texts)(sheet, line, y, edges)
        y += line.height


def begin_checks(sheet: Sheet, y: float) -> None:
    """Part the checks of the laboratory, which begin at `y` (inches), from what was asked."""
    sheet.text(EDGE_IN, y - 0.12, "checks of the laboratory", size=sheet.size - 0.6, colour=palette.SOFT)
    sheet.rule(EDGE_IN, sheet.width - EDGE_IN, y - 0.01)


def _truth(panel: Axes, scale: axes.RatioScale, row: AnalysisRow, y: float) -> None:
    """Draw a tick at the effect that is known, where one is."""
    if row.expected_effect is not None and scale.inside(axes.position(row.expected_effect)):
        truth = axes.position(row.expected_effect)
        panel.plot([truth] * 2, [y - 0.11, y + 0.11], color=palette.INK, linewidth=1.1)


def _no_interval(
    sheet: Sheet, scale: axes.RatioScale, margin: float, row: AnalysisRow, y: float, edges: tuple[float, float]
) -> None:
    """Say beside the band that there is nothing to draw; on a narrow sheet the reason stands here."""
    size, (left, right) = sheet.size - 0.6, edges
    if sheet.narrow:
        said = reason_lines(row)
        y += 0.1 - line_in(size, said.count("\n") + 1)
        sheet.text(left, y, said, size=size, italic=True, colour=palette.SOFT, va="top")
        return
    need = text_width(NOT_COMPARED, size) + 0.06
    before, after = (scale.inch(axes.position(m), left, right) for m in (-margin, margin))
    place, at = (before - 0.06, "right") if before - left > need else (after + 0.06, "left")
    if max(before - left, right - after) > need:
        sheet.text(place, y, NOT_COMPARED, size=size, italic=True, colour=palette.SOFT, at=at)  # type: ignore[arg-type]


def _wide_texts(sheet: Sheet, line: Line, y: float, edges: tuple[float, float]) -> None:
    middle = y + line.height / 2
    sheet.text(edges[0] - 0.14, middle, line.name, bold=not line.check, at="right")
    sheet.text(edges[1] + 0.12, middle, line.verdict, bold=True, colour=palette.row_text_colour(line.row))
    size = sheet.size if compared(line.row) else sheet.size - 0.8
    sheet.text(WIDE_IN - EDGE_IN, middle, line.change, size=size, at="right")


def _narrow_texts(sheet: Sheet, line: Line, y: float, edges: tuple[float, float]) -> None:
    step = line_in(sheet.size)
    name_lines = line.name.count("\n") + 1
    sheet.text(edges[0], y + 0.04, line.name, bold=not line.check, va="top")
    at = y + 0.04 + step * (name_lines if line.own_line else 0)
    said = sheet.text(edges[1], at, line.change, at="right", va="top") if line.change else None
    right = edges[1] - (text_width(line.change, sheet.size) + 0.08 if said else 0)
    sheet.text(right, at, line.verdict, colour=palette.row_text_colour(line.row), at="right", va="top", bold=False)
    if line.note:
        sheet.text(edges[1], y + 0.04, line.note, size=sheet.size - 0.6, at="right", va="top")


def foot(sheet: Sheet, title: str, edges: tuple[float, float]) -> None:
    """Write below an axis what it shows, in the middle between its edges (inches) where the sheet lets it."""
    left, right = edges
    half = max((right - left) / 2, 1.4)
    middle = min((left + right) / 2, sheet.width - half)
    lines = wrap(title, 2 * half, sheet.size)
    sheet.text(middle, sheet.height - FOOT_IN + 0.27, lines, colour=palette.SOFT, at="center", va="top")
