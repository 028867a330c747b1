"""The rows of figure 1: their texts and heights, the axis that holds them."""

from __future__ import annotations

from dataclasses import dataclass

from loadbook.core.metrics import metric as metric_of
from loadbook.report import palette
from loadbook.report.figures import scales
from loadbook.report.figures.common import NARROW_IN, names, size_pt
from loadbook.report.figures.text import drawable, line_in, text_width, wrap
from loadbook.stats.result import Analysis, Row
from loadbook.stats.shown import numbers

ROW_IN, LANE_IN, NAME_IN, REASON_IN = 0.34, 0.25, 2.35, 2.05
NOT_COMPARED = "no interval: not compared"
DECIDED = ("better", "worse", "small")


@dataclass(frozen=True)
class Line:
    """One row of the figure: its texts, wrapped, and its height in inches."""

    row: Row
    name: str
    verdict: str
    change: str
    height: float
    own_line: bool = False

    @property
    def check(self) -> bool:
        """Whether the row is a check of the laboratory."""
        return self.row.kind != "treatment"


def rows_of(analysis: Analysis) -> list[Row]:
    """Return the rows of the figure: treatments in the analysis' order, then the checks."""
    return [*analysis.of_kind("treatment"), *analysis.of_kind("aa", "control")]


def scale_of(analysis: Analysis) -> scales.RatioScale:
    """Return the axis that holds every compared row's interval, unless it is far wider than what was decided."""
    shown = [(row, row.verdict) for row in rows_of(analysis) if row.verdict and compared(row)]
    intervals = [bounds for _, v in shown if (bounds := v.comparison.ci_family or v.comparison.ci95)]
    certain = [v.comparison.effect or 0.0 for r, v in shown if r.kind != "treatment" or v.kind in DECIDED]
    truths = [row.expected_effect for row, _ in shown if row.expected_effect is not None]
    return scales.ratio_scale(intervals, truths, [*certain, *truths], analysis.margin)


def wide_line(row: Row, analysis: Analysis) -> Line:
    """Return a row of the wide layout."""
    size = size_pt(False)
    bold = row.kind == "treatment"
    said = change_text(row)
    if not compared(row):
        said = wrap(said, REASON_IN, size - 0.8)
    name = wrap(names(analysis)[row.treatment], NAME_IN, size, bold)
    height = ROW_IN + 0.07 * ("\n" in name or "\n" in said)
    return Line(row, name, verdict_text(row, analysis), said, height)


def narrow_line(row: Row, analysis: Analysis) -> Line:
    """Return a row of the narrow layout: its words stand above its lane."""
    size, bold, room = size_pt(True), row.kind == "treatment", NARROW_IN - 0.12
    verdict, said, name = verdict_text(row, analysis), change_text(row, blocks=False), names(analysis)[row.treatment]
    said = said if compared(row) else ""
    needs = text_width(name, size, bold) + 0.14 + text_width(f"{verdict} {said}", size)
    name = wrap(name, room, size, bold)
    own_line = needs > room
    lane = LANE_IN if compared(row) else line_in(size - 0.6, reason_lines(row).count("\n") + 1) + 0.06
    return Line(row, name, verdict, said, lane + 0.12 + line_in(size, name.count("\n") + 1 + own_line), own_line)


def reason_lines(row: Row) -> str:
    """Return why a row was not compared, wrapped for the narrow layout."""
    return wrap(_reason(row) or NOT_COMPARED, NARROW_IN - 0.16, size_pt(True) - 0.6)


def compared(row: Row) -> bool:
    """Say whether the row has an effect that may be shown."""
    return row.verdict is not None and row.verdict.kind != "invalid" and row.verdict.comparison.effect is not None


def verdict_text(row: Row, analysis: Analysis) -> str:
    """Return glyph and word."""
    return f"{palette.glyph_of(row)} {palette.word_of(row, metric_of(analysis.metric))}"


def change_text(row: Row, blocks: bool = True) -> str:
    """Return change and interval, or why there is none."""
    if compared(row) and row.verdict:
        texts = numbers(row)
        return f"{texts.change} ({texts.interval_number})" + (f", {texts.blocks}" if blocks else "")
    return _reason(row) or "not compared"


def compared_with(analysis: Analysis) -> str:
    """Return what the rows' changes are changes against."""
    reference = names(analysis).get(analysis.baseline, analysis.baseline)
    if analysis.contrasts == "adjacent":
        return f"the treatment above it, the first against {reference}"
    if analysis.contrasts == "best" and (analysis.best or analysis.tied_with_best):
        return f"{reference}, the one observed best"
    return "the baseline"


def _reason(row: Row) -> str:
    return drawable((row.verdict.reason if row.verdict else None) or "", "")


def clipped(analysis: Analysis) -> bool:
    """Say whether an interval goes on beyond the axis."""
    scale = scale_of(analysis)
    shown = [r.verdict.comparison for r in rows_of(analysis) if r.verdict and compared(r)]
    bounds = [bound for c in shown for bound in (c.ci_family or c.ci95 or ())]
    return not all(scale.inside(scales.position(bound)) for bound in bounds)
