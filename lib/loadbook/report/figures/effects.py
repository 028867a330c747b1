"""Figure 1, the effect plot.

In five seconds: which treatments matter, which way, and did the checks of the laboratory pass?
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.core.metrics import metric as metric_of
from loadbook.report import palette
from loadbook.report.figures import scales
from loadbook.report.figures.common import (
    NARROW_IN,
    WIDE_IN,
    Sheet,
    blocks_text,
    confidence,
    in_house_style,
    names,
    quantity,
)
from loadbook.report.figures.effect_rows import (
    LANE_IN,
    NOT_COMPARED,
    Line,
    change_text,
    clipped,
    compared,
    compared_with,
    narrow_line,
    reason_lines,
    rows_of,
    scale_of,
    wide_line,
)
from loadbook.report.figures.intervals import draw_interval
from loadbook.report.figures.text import line_in, listed, text_width, widest, wrap
from loadbook.stats.headline import nothing_won
from loadbook.stats.result import Analysis, Row, VerdictKind
from loadbook.stats.sentences import margin_text
from loadbook.stats.shown import numbers
from loadbook.stats.words import predicate, words

HEAD_IN, FOOT_IN, CHECKS_IN, EDGE_IN = 0.4, 0.68, 0.28, 0.05
REACH_IN, APART_IN = 0.9, 0.15  # of the direction words: how far from the margin's words they go, how near they come
_SIDES: tuple[VerdictKind, ...] = ("better", "worse")


@in_house_style
def draw(analysis: Analysis, narrow: bool = False) -> Figure:
    """Draw one row per comparison: name, interval on a log axis of ratios, verdict, change and blocks."""
    lines = [(narrow_line if narrow else wide_line)(row, analysis) for row in rows_of(analysis)]
    checks = any(line.check for line in lines)
    height = HEAD_IN + sum(line.height for line in lines) + CHECKS_IN * checks + FOOT_IN
    sheet = Sheet(narrow, height)
    left, right = _plot_edges(analysis, lines, sheet)
    scale = scale_of(analysis)
    panel = sheet.panel(left, HEAD_IN, right, height - FOOT_IN)
    panel.set_ylim(height - FOOT_IN, HEAD_IN)
    panel.set_yticks([])
    ticks = scales.ratio_axis(panel, scale, right - left, sheet.size, analysis.margin)
    if not narrow:
        scales.ratio_ground(panel, analysis.margin, ticks, HEAD_IN, height - FOOT_IN)
    _head(sheet, analysis, scale, left, right)
    _draw_lines(sheet, panel, scale, analysis.margin, ticks, lines, (left, right))
    _foot(sheet, analysis, left, right)
    return sheet.figure


def _plot_edges(analysis: Analysis, lines: list[Line], sheet: Sheet) -> tuple[float, float]:
    if sheet.narrow:
        return 0.08, NARROW_IN - 0.08
    name = max((widest([line.name], sheet.size, not line.check) for line in lines), default=1.0)
    return max(name, 1.0) + 0.22, WIDE_IN - EDGE_IN - _right_columns(analysis, lines, sheet.size) - 0.12


def _right_columns(analysis: Analysis, lines: list[Line], size: float) -> float:
    """Return the width of the verdicts and the changes."""
    said = [widest([line.change], size if compared(line.row) else size - 0.8) for line in lines]
    changes = max([*said, text_width(_change_head(analysis), size - 0.6)])
    return max([widest([line.verdict], size, True) for line in lines] + [0.6]) + 0.2 + changes


def _change_head(analysis: Analysis) -> str:
    return f"change ({confidence(analysis)} interval), blocks"


def _head(sheet: Sheet, analysis: Analysis, scale: scales.RatioScale, left: float, right: float) -> None:
    size, y = sheet.size - 0.6, HEAD_IN - 0.1
    margin = f"margin ±{margin_text(analysis.margin)}"
    half = text_width(margin, size) / 2
    zero = scale.inch(0, left, right)
    zero = min(max(zero, half + EDGE_IN), right - half)
    sheet.text(zero, y, margin, size=size, colour=palette.SOFT, at="center", va="baseline")
    above, below, _ = words(analysis.metric)
    slower, faster = f"← {below}", f"{above} →"
    starts = max(left, zero - half - REACH_IN)
    ends = min(right, zero + half + REACH_IN)
    tight = starts + text_width(slower, size) > zero - half - APART_IN
    tight |= ends - text_width(faster, size) < zero + half + APART_IN
    line = y - line_in(size) if tight else y
    sheet.text(starts, line, slower, size=size, colour=palette.SOFT, va="baseline")
    sheet.text(ends, line, faster, size=size, colour=palette.SOFT, at="right", va="baseline")
    if not sheet.narrow:
        sheet.text(right + 0.12, y, "verdict", size=size, colour=palette.SOFT, va="baseline")
        head = _change_head(analysis)
        sheet.text(WIDE_IN - EDGE_IN, y, head, size=size, colour=palette.SOFT, at="right", va="baseline")


def _draw_lines(
    sheet: Sheet, panel: Axes, scale: scales.RatioScale, margin: float, ticks: list[float],
    lines: list[Line], edges: tuple[float, float],
) -> None:  # fmt: skip
    y, checks_begun = HEAD_IN, False
    for line in lines:
        if line.check and not checks_begun:
            checks_begun = True
            y += CHECKS_IN
            sheet.text(EDGE_IN, y - 0.12, "checks of the laboratory", size=sheet.size - 0.6, colour=palette.SOFT)
            sheet.rule(EDGE_IN, sheet.width - EDGE_IN, y - 0.01)
        lane = y + line.height - LANE_IN / 2 - 0.08 if sheet.narrow else y + line.height / 2
        if sheet.narrow and compared(line.row):
            scales.ratio_ground(panel, margin, ticks, lane - LANE_IN / 2, lane + LANE_IN / 2)
        if compared(line.row):
            _interval(panel, scale, line.row, lane)
        else:
            _no_interval(sheet, scale, margin, line.row, lane, edges)
        (_narrow_texts if sheet.narrow else _wide_texts)(sheet, line, y, edges)
        y += line.height


def _interval(panel: Axes, scale: scales.RatioScale, row: Row, y: float) -> None:
    if row.verdict:
        draw_interval(panel, scale, y, row, row.verdict.comparison, tick=0.075)
    if row.expected_effect is not None and scale.inside(scales.position(row.expected_effect)):
        truth = scales.position(row.expected_effect)
        panel.plot([truth] * 2, [y - 0.11, y + 0.11], color=palette.INK, linewidth=1.1)


def _no_interval(
    sheet: Sheet, scale: scales.RatioScale, margin: float, row: Row, y: float, edges: tuple[float, float]
) -> None:
    """Say beside the band that there is nothing to draw; on a narrow sheet the reason stands here."""
    size, (left, right) = sheet.size - 0.6, edges
    if sheet.narrow:
        said = reason_lines(row)
        y += 0.1 - line_in(size, said.count("\n") + 1)
        sheet.text(left, y, said, size=size, italic=True, colour=palette.SOFT, va="top")
        return
    need = text_width(NOT_COMPARED, size) + 0.06
    before, after = (scale.inch(scales.position(m), left, right) for m in (-margin, margin))
    place, at = (before - 0.06, "right") if before - left > need else (after + 0.06, "left")
    if max(before - left, right - after) > need:
        sheet.text(place, y, NOT_COMPARED, size=size, italic=True, colour=palette.SOFT, at=at)  # type: ignore[arg-type]


def _wide_texts(sheet: Sheet, line: Line, y: float, edges: tuple[float, float]) -> None:
    middle = y + line.height / 2
    sheet.text(edges[0] - 0.14, middle, line.name, bold=not line.check, at="right")
    sheet.text(edges[1] + 0.12, middle, line.verdict, bold=True, colour=palette.text_colour(line.row))
    size = sheet.size if compared(line.row) else sheet.size - 0.8
    sheet.text(WIDE_IN - EDGE_IN, middle, line.change, size=size, at="right")


def _narrow_texts(sheet: Sheet, line: Line, y: float, edges: tuple[float, float]) -> None:
    step = line_in(sheet.size)
    name_lines = line.name.count("\n") + 1
    sheet.text(edges[0], y + 0.04, line.name, bold=not line.check, va="top")
    at = y + 0.04 + step * (name_lines if line.own_line else 0)
    said = sheet.text(edges[1], at, line.change, at="right", va="top") if line.change else None
    right = edges[1] - (text_width(line.change, sheet.size) + 0.08 if said else 0)
    sheet.text(right, at, line.verdict, colour=palette.text_colour(line.row), at="right", va="top", bold=False)


def _foot(sheet: Sheet, analysis: Analysis, left: float, right: float) -> None:
    metric = metric_of(analysis.metric)
    title = f"change in {quantity(metric, analysis.statistic)} against {compared_with(analysis)} (ratio, log scale)"
    if sheet.narrow:
        title += f", {blocks_text(analysis)}"
    half = max((right - left) / 2, 1.4)
    middle = min((left + right) / 2, sheet.width - half)
    lines = wrap(title, 2 * half, sheet.size)
    sheet.text(middle, sheet.height - FOOT_IN + 0.27, lines, colour=palette.SOFT, at="center", va="top")


def answer(analysis: Analysis) -> str:
    """Return which treatments are better or worse, in one sentence."""
    if analysis.laboratory:
        return analysis.laboratory
    treatments = analysis.of_kind("treatment")
    if treatments and not any(map(compared, treatments)):
        return "No treatment could be compared."
    won = [said for kind in _SIDES if (said := _side(analysis, kind))]
    if not won:
        return nothing_won(analysis)
    decided = [r for r in treatments if r.verdict and r.verdict.kind in _SIDES]
    rest = (
        nothing_won(analysis).replace("No treatment", "; no other treatment") if len(decided) < len(treatments) else "."
    )
    return "; ".join(won) + rest


def _side(analysis: Analysis, kind: VerdictKind) -> str:
    rows = [r for r in analysis.of_kind("treatment") if r.verdict and r.verdict.kind == kind]
    if not rows or not rows[0].verdict:
        return ""
    shown = names(analysis)
    does = predicate(analysis.metric, rows[0].verdict.comparison.effect or 0.0, len(rows))
    if len(rows) == 1:
        texts = numbers(rows[0])
        return f"{shown[rows[0].treatment]} {does} by {texts.size} ({texts.bounds})"
    return f"{listed([shown[r.treatment] for r in rows], 3, 'treatments')} {does}"


def how(analysis: Analysis) -> str:
    """Return how the figure is read, naming only the marks that it has."""
    shown = [(row, row.verdict) for row in rows_of(analysis) if row.verdict and compared(row)]
    family = sum(1 for _, verdict in shown if verdict.comparison.ci_family)
    said = [f"Thick line: {confidence(analysis)} interval"] if shown else []
    if family > 1:
        said.append(f"thin line: widened for {family} comparisons")
    if any(v.kind in ("equivalent", "small") and r.kind == "treatment" for r, v in shown):
        said.append(f"short ticks: {confidence(analysis, one_sided=True)} interval, which decides equivalence")
    if any(r.expected_effect is not None for r, _ in shown):
        said.append("long tick: the true size of the known effect")
    if clipped(analysis):
        said.append("arrow head: the interval goes on beyond the axis")
    said.append(f"shaded: differences below ±{margin_text(analysis.margin)}, declared as too small to matter")
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}."


def alt(analysis: Analysis) -> str:
    """Return the answer and every row's numbers in words."""
    metric, shown = metric_of(analysis.metric), names(analysis)
    named = analysis.contrasts != "baseline"
    against = compared_with(analysis) if named else shown.get(analysis.baseline, analysis.baseline)
    head = f"Effect of each treatment on {quantity(metric, analysis.statistic)} against {against}."
    rows = [
        f"{shown[r.treatment]}: {palette.word_of(r, metric)}, {change_text(r)}{' blocks' if compared(r) else ''}"
        for r in rows_of(analysis)
    ]
    return " ".join([head, answer(analysis), "; ".join(rows) + "."])
