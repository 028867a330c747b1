"""The rows of figure 1: their texts and heights, the axis that holds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from loadbook.core.metrics import get_metric
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import NARROW_IN, drawable, line_in, names, size_pt, text_width, wrap
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.text import row_texts

ROW_IN, LANE_IN, NAME_IN, REASON_IN = 0.34, 0.25, 2.35, 2.05
NOT_COMPARED = "no interval: not compared"
DECIDED = ("better", "worse", "small")


@dataclass(frozen=True)
class Line:
    """One row of the figure: its texts, wrapped, and its height in inches."""

    row: AnalysisRow
    name: str
    verdict: str
    change: str
    height: float
    own_line: bool = False
    note: str = ""

    @property
    def check(self) -> bool:
        """Whether the row is a check of the laboratory."""
        return self.row.kind != "treatment"


@dataclass(frozen=True)
class Look:
    """What a plot of rows says and draws in its own way.

    Parameters
    ----------
    verdict, change, note : the words of a row; `change` is told whether to give the number of blocks, `note` is what
        stands below (wide) or above it (narrow).
    change_head, margin, title : the words above the changes, above the band (told whether the sheet is narrow), below
        the axis.
    margin_at, margin_size : the effect at which the band's words stand, and how far the band reaches.
    ground : draws the ground of a lane (axes, ticks, top, bottom).
    interval : draws one row's interval (axes, scale, y, row).
    names : treatment -> the name that is drawn.
    """

    verdict: Callable[[AnalysisRow], str]
    change: Callable[[AnalysisRow, bool], str]
    change_head: str
    margin: Callable[[bool], str]
    margin_at: float
    margin_size: float
    ground: Callable[[Axes, Sequence[float], float, float], None]
    interval: Callable[[Axes, axes.RatioScale, float, AnalysisRow], None]
    title: str
    names: Mapping[str, str]
    note: Callable[[AnalysisRow], str] = lambda row: ""


def rows_of(analysis: Analysis) -> list[AnalysisRow]:
    """Return the rows of the figure: treatments in the analysis' order, then the checks."""
    return [*analysis.of_kind("treatment"), *analysis.of_kind("aa", "control")]


def scale_of(analysis: Analysis) -> axes.RatioScale:
    """Return the axis that holds every compared row's interval, unless it is far wider than what was decided."""
    shown = [(row, row.verdict) for row in rows_of(analysis) if row.verdict and compared(row)]
    intervals = [bounds for _, v in shown if (bounds := v.comparison.ci_family or v.comparison.ci95)]
    certain = [v.comparison.effect or 0.0 for r, v in shown if r.kind != "treatment" or v.kind in DECIDED]
    truths = [row.expected_effect for row, _ in shown if row.expected_effect is not None]
    return axes.ratio_scale(intervals, truths, [*certain, *truths], analysis.margin)


def wide_line(row: AnalysisRow, look: Look) -> Line:
    """Return a row of the wide layout."""
    size = size_pt(False)
    bold = row.kind == "treatment"
    said = look.change(row, True)
    if not compared(row):
        said = wrap(said, REASON_IN, size - 0.8)
    said = "\n".join(filter(None, (said, look.note(row))))
    name = wrap(look.names[row.treatment], NAME_IN, size, bold)
    height = ROW_IN + 0.07 * ("\n" in name or "\n" in said)
    return Line(row, name, look.verdict(row), said, height)


def narrow_line(row: AnalysisRow, look: Look) -> Line:
    """Return a row of the narrow layout: its words stand above its lane."""
    size, bold, room = size_pt(True), row.kind == "treatment", NARROW_IN - 0.12
    verdict, note, name = look.verdict(row), look.note(row), look.names[row.treatment]
    said = look.change(row, False) if compared(row) else ""
    needs = text_width(name, size, bold) + 0.14 + text_width(f"{verdict} {said}", size)
    name = wrap(name, room - (text_width(note, size) + 0.14 if note else 0), size, bold)
    own_line = bool(note) or needs > room
    lane = LANE_IN if compared(row) else line_in(size - 0.6, reason_lines(row).count("\n") + 1) + 0.06
    return Line(row, name, verdict, said, lane + 0.12 + line_in(size, name.count("\n") + 1 + own_line), own_line, note)


def reason_lines(row: AnalysisRow) -> str:
    """Return why a row was not compared, wrapped for the narrow layout."""
    return wrap(_reason(row) or NOT_COMPARED, NARROW_IN - 0.16, size_pt(True) - 0.6)


def compared(row: AnalysisRow) -> bool:
    """Say whether the row has an effect that may be shown."""
    return row.verdict is not None and row.verdict.kind != "invalid" and row.verdict.comparison.effect is not None


def verdict_text(row: AnalysisRow, analysis: Analysis) -> str:
    """Return glyph and word."""
    return f"{palette.row_glyph(row)} {palette.row_word(row, get_metric(analysis.metric))}"


def change_text(row: AnalysisRow, blocks: bool = True) -> str:
    """Return change and interval, or why there is none."""
    if compared(row) and row.verdict:
        texts = row_texts(row)
        return f"{texts.change} ({texts.interval_number})" + (f", {texts.blocks}" if blocks else "")
    return _reason(row) or "not compared"


def compared_with(analysis: Analysis) -> str:
    """Return what the rows' changes are changes against, in the few words that an axis has room for."""
    if analysis.contrasts == "adjacent":
        return "the treatment above it"
    return "the one observed best" if analysis.best_is_reference else "the baseline"


def reference(analysis: Analysis) -> str:
    """Return the same for a caption, with the name of the arm that no row has; nothing for a plain baseline."""
    name = names(analysis).get(analysis.baseline, analysis.baseline)
    if analysis.contrasts == "adjacent":
        return f"each treatment against the one above it, the first and the checks against {name}; "
    if not analysis.best_is_reference:
        return ""
    return f"each treatment against {name}, the one observed best, the checks against the study’s baseline; "


def _reason(row: AnalysisRow) -> str:
    return drawable((row.verdict.reason if row.verdict else None) or "", "")


def clipped(analysis: Analysis) -> bool:
    """Say whether an interval goes on beyond the axis."""
    scale = scale_of(analysis)
    shown = [r.verdict.comparison for r in rows_of(analysis) if r.verdict and compared(r)]
    bounds = [bound for c in shown for bound in (c.ci_family or c.ci95 or ())]
    return not all(scale.inside(axes.position(bound)) for bound in bounds)
