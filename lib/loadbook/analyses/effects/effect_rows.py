"""Rows of effects on one axis of ratios, the base of the effect plot and the non-inferiority plot.

A row has the treatment's name, its interval over the margin band, its verdict and its change; the harness checks are
below the treatments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from matplotlib.axes import Axes

from loadbook.core.metrics import get_metric
from loadbook.core.units import format_p_value
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import (
    LETTER_PT,
    WIDTH_IN,
    ReportFigure,
    Sheet,
    drawable,
    level_text,
    max_text_width,
    metric_label,
    text_height,
    text_width,
    treatment_names,
    wrap,
)
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.text import direction_words, row_texts

HEAD_IN, FOOT_IN, CHECKS_IN, EDGE_IN = 0.4, 0.68, 0.28, 0.05
ROW_IN, NAME_IN, REASON_IN = 0.34, 2.35, 2.05
DIRECTION_WORDS_IN, GAP_IN = 0.9, 0.15  # of the direction words: how far from the margin's words they go, and how near
NOT_COMPARED = "no interval: not compared"
DECIDED = ("better", "worse", "small")


@dataclass(frozen=True)
class EffectLine:
    """One row of the figure: its texts, wrapped, and its height in inches."""

    row: AnalysisRow
    name: str
    verdict: str
    change: str
    height: float

    @property
    def is_check(self) -> bool:
        """Whether the row is a check of the laboratory."""
        return self.row.kind != "treatment"


class EffectRowsFigure(ReportFigure):
    """One row per comparison; a subclass provides the words and may draw its own background and intervals.

    `change_head` and `margin_label` stand above the changes and above the band, which lies at the effect `margin_at`.
    """

    change_head: str
    margin_label: str
    margin_at = 0.0

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.metric = get_metric(analysis.metric)
        self.names = treatment_names(analysis)
        self.rows = [*analysis.of_kind("treatment"), *analysis.of_kind("aa", "control")]

    def verdict_text(self, row: AnalysisRow) -> str:
        """Return a row's glyph and verdict."""
        return verdict_text(row, self.analysis)

    def change_text(self, row: AnalysisRow) -> str:
        """Return a row's change with its interval and blocks, or why there is none."""
        return change_text(row)

    def draw_background(self, panel: Axes, ticks: Sequence[float], top: float, bottom: float) -> None:
        """Draw the background of all rows: grid, margin band, and the line of no difference."""
        axes.draw_ratio_background(panel, self.analysis.margin, ticks, top, bottom)

    def draw_row(self, panel: Axes, scale: axes.RatioScale, y: float, row: AnalysisRow) -> None:
        """Draw the interval of one row."""
        if row.verdict:
            axes.draw_interval(panel, scale, y, row, row.verdict.comparison, tick=0.075)

    def note(self, row: AnalysisRow) -> str:
        """Return a second line below a row's change."""
        return ""

    @cached_property
    def scale(self) -> axes.RatioScale:
        """The axis that holds every compared row's interval, unless it is far wider than the decided effects."""
        compared = [(row, row.verdict) for row in self.rows if row.verdict and is_compared(row)]
        intervals = [bounds for _, v in compared if (bounds := v.comparison.ci_family or v.comparison.ci95)]
        certain = [v.comparison.effect or 0.0 for r, v in compared if r.kind != "treatment" or v.kind in DECIDED]
        expected = [row.expected_effect for row, _ in compared if row.expected_effect is not None]
        return axes.ratio_scale(intervals, expected, [*certain, *expected], self.analysis.margin)

    def _draw(self) -> Sheet:
        lines = [self._line(row) for row in self.rows]
        height = HEAD_IN + sum(line.height for line in lines) + CHECKS_IN * any(line.is_check for line in lines)
        sheet = Sheet(height + FOOT_IN)
        left, right = self._edges(lines)
        bottom = sheet.height - FOOT_IN
        panel = sheet.rows_panel(left, HEAD_IN, right, bottom)
        ticks = axes.set_ratio_axis(panel, self.scale, right - left, sheet.size, self.analysis.margin)
        self.draw_background(panel, ticks, HEAD_IN, bottom)
        zero = self.scale.to_inches(axes.log_ratio(self.margin_at), left, right)
        write_directions(sheet, self.analysis.metric, self.margin_label, zero, (left, right))
        write_heads(sheet, right, HEAD_IN - 0.1, "verdict", self.change_head)
        y = HEAD_IN
        for number, line in enumerate(lines):
            if line.is_check and not (number and lines[number - 1].is_check):
                y += CHECKS_IN
                begin_checks(sheet, y)
            self._draw_line(sheet, panel, line, y + line.height / 2, (left, right))
            if is_compared(line.row):
                sheet.hover(left, y, right, y + line.height, self.row_text(line.row))
            y += line.height
        against = reference_text(self.analysis)
        title = f"change in {metric_label(self.metric, self.analysis.statistic)} against {against} (ratio, log scale)"
        write_foot(sheet, title, (left, right))
        return sheet

    def _line(self, row: AnalysisRow) -> EffectLine:
        change = self.change_text(row)
        if not is_compared(row):
            change = wrap(change, REASON_IN, LETTER_PT - 0.8)
        change = "\n".join(filter(None, (change, self.note(row))))
        name = wrap(self.names[row.treatment], NAME_IN, LETTER_PT, row.kind == "treatment")
        height = ROW_IN + 0.07 * ("\n" in name or "\n" in change)
        return EffectLine(row, name, self.verdict_text(row), change, height)

    def _edges(self, lines: list[EffectLine]) -> tuple[float, float]:
        """Return where the plot begins and ends in inches: between the names and the verdicts."""
        names = max((max_text_width([line.name], LETTER_PT, not line.is_check) for line in lines), default=1.0)
        changes = [max_text_width([line.change], _change_pt(line.row)) for line in lines]
        verdicts = max([max_text_width([line.verdict], LETTER_PT, True) for line in lines] + [0.6])
        columns = verdicts + 0.2 + max([*changes, text_width(self.change_head, LETTER_PT - 0.6)])
        return max(names, 1.0) + 0.22, WIDTH_IN - EDGE_IN - columns - 0.12

    def _draw_line(
        self, sheet: Sheet, panel: Axes, line: EffectLine, middle: float, edges: tuple[float, float]
    ) -> None:
        row, (left, right) = line.row, edges
        if is_compared(row):
            self.draw_row(panel, self.scale, middle, row)
            if row.expected_effect is not None and self.scale.contains(axes.log_ratio(row.expected_effect)):
                expected = axes.log_ratio(row.expected_effect)
                panel.plot([expected] * 2, [middle - 0.11, middle + 0.11], color=palette.INK, linewidth=1.1)
        else:
            self._write_not_compared(sheet, middle, edges)
        sheet.text(left - 0.14, middle, line.name, bold=not line.is_check, align="right")
        sheet.text(right + 0.12, middle, line.verdict, bold=True, colour=palette.row_text_colour(row))
        sheet.text(WIDTH_IN - EDGE_IN, middle, line.change, size=_change_pt(row), align="right")

    def _write_not_compared(self, sheet: Sheet, y: float, edges: tuple[float, float]) -> None:
        """Write beside the band that a row has no interval, on the side that has room."""
        size, (left, right) = sheet.size - 0.6, edges
        need, margin = text_width(NOT_COMPARED, size) + 0.06, self.analysis.margin
        before, after = (self.scale.to_inches(axes.log_ratio(m), left, right) for m in (-margin, margin))
        if before - left > need:
            sheet.text(before - 0.06, y, NOT_COMPARED, size=size, italic=True, colour=palette.SOFT, align="right")
        elif right - after > need:
            sheet.text(after + 0.06, y, NOT_COMPARED, size=size, italic=True, colour=palette.SOFT)

    def row_text(self, row: AnalysisRow) -> str:
        """Return a row in words: name, verdict, change, interval, blocks and p-value."""
        comparison = row.verdict.comparison if row.verdict else None
        p = f", p {format_p_value(comparison.p)}" if comparison and comparison.p is not None else ""
        return f"{self.names[row.treatment]}: {palette.row_word(row, self.metric)}, {change_text(row)} blocks{p}"

    @property
    def is_clipped(self) -> bool:
        """Whether an interval extends beyond the axis."""
        comparisons = [row.verdict.comparison for row in self.rows if row.verdict and is_compared(row)]
        bounds = [bound for c in comparisons for bound in (c.ci_family or c.ci95 or ())]
        return not all(self.scale.contains(axes.log_ratio(bound)) for bound in bounds)

    @property
    def reference_note(self) -> str:
        """The reference of the rows, with the name of the arm that has no row; empty for a plain baseline."""
        name = self.names.get(self.analysis.baseline, self.analysis.baseline)
        if self.analysis.contrasts == "adjacent":
            return f"each treatment against the one above it, the first and the checks against {name}; "
        if not self.analysis.best_is_reference:
            return ""
        return f"each treatment against {name}, the one observed best, the checks against the study’s baseline; "


def _change_pt(row: AnalysisRow) -> float:
    return LETTER_PT if is_compared(row) else LETTER_PT - 0.8


def is_compared(row: AnalysisRow) -> bool:
    """Return whether the row has an effect that may be reported."""
    return row.verdict is not None and row.verdict.kind != "invalid" and row.verdict.comparison.effect is not None


def verdict_text(row: AnalysisRow, analysis: Analysis) -> str:
    """Return glyph and word."""
    return f"{palette.row_glyph(row)} {palette.row_word(row, get_metric(analysis.metric))}"


def change_text(row: AnalysisRow, blocks: bool = True) -> str:
    """Return change and interval, or why there is none."""
    if is_compared(row) and row.verdict:
        texts = row_texts(row)
        return f"{texts.change} ({texts.interval_number})" + (f", {texts.blocks}" if blocks else "")
    return drawable((row.verdict.reason if row.verdict else None) or "", "") or "not compared"


def reference_text(analysis: Analysis) -> str:
    """Return the reference of the rows' changes, in the few words that an axis has room for."""
    if analysis.contrasts == "adjacent":
        return "the treatment above it"
    return "the one observed best" if analysis.best_is_reference else "the baseline"


def interval_help(analysis: Analysis) -> str:
    """Return the meaning of the short ticks of an interval."""
    return f"short ticks: {level_text(analysis, one_sided=True)} interval, which decides equivalence"


def write_directions(
    sheet: Sheet, metric: str, margin: str, at: float, edges: tuple[float, float], lower: float = 0.0
) -> None:
    """Write the words of the margin `at` this place (inches), and on both sides which way the metric goes."""
    size, y, (left, right) = sheet.size - 0.6, HEAD_IN + lower - 0.1, edges
    half = text_width(margin, size) / 2
    middle = min(max(at, half + EDGE_IN), right - half)
    sheet.text(middle, y, margin, size=size, colour=palette.SOFT, align="center", va="baseline")
    above, below, _ = direction_words(metric)
    slower, faster = f"← {below}", f"{above} →"
    starts = max(left, middle - half - DIRECTION_WORDS_IN)
    ends = min(right, middle + half + DIRECTION_WORDS_IN)
    tight = starts + text_width(slower, size) > middle - half - GAP_IN
    tight |= ends - text_width(faster, size) < middle + half + GAP_IN
    line = y - text_height(size) if tight else y
    sheet.text(starts, line, slower, size=size, colour=palette.SOFT, va="baseline")
    sheet.text(ends, line, faster, size=size, colour=palette.SOFT, align="right", va="baseline")


def write_heads(sheet: Sheet, right: float, y: float, first: str, second: str) -> None:
    """Write the heads of the two columns beside a plot that ends at `right`."""
    size = sheet.size - 0.6
    sheet.text(right + 0.12, y, first, size=size, colour=palette.SOFT, va="baseline")
    sheet.text(WIDTH_IN - EDGE_IN, y, second, size=size, colour=palette.SOFT, align="right", va="baseline")


def begin_checks(sheet: Sheet, y: float) -> None:
    """Separate the checks of the laboratory, which begin at `y` (inches), from the treatments."""
    sheet.text(EDGE_IN, y - 0.12, "checks of the laboratory", size=sheet.size - 0.6, colour=palette.SOFT)
    sheet.rule(EDGE_IN, sheet.width - EDGE_IN, y - 0.01)


def write_foot(sheet: Sheet, title: str, edges: tuple[float, float]) -> None:
    """Write the axis title, in the middle between its edges (inches) where the sheet has room."""
    left, right = edges
    half = max((right - left) / 2, 1.4)
    middle = min((left + right) / 2, sheet.width - half)
    text = wrap(title, 2 * half, sheet.size)
    sheet.text(middle, sheet.height - FOOT_IN + 0.27, text, colour=palette.SOFT, align="center", va="top")
