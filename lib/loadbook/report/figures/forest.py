"""The forest plot: rows with an interval on one axis of ratios, over the band of the margin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from loadbook.report.figures import axes, base
from loadbook.report.figures.rows import Cell, Row, RowsDrawing, write_above
from loadbook.report.ratios import RatioScale, log_ratio, ratio_scale
from loadbook.stats.results import AnalysisRow, Interval
from loadbook.stats.text import direction_words

NAME_LETTERS, REASON_LETTERS, TITLE_LETTERS = 30, 34, 52
CHECKS_TITLE = Row(Cell("checks of the laboratory", colour=base.palette.SOFT, size=base.SMALL_PT), is_title=True)
DECIDED = ("better", "worse", "small")


def draw_forest(
    rows: Sequence[Row], heads: Sequence[str], scale: RatioScale, title: str, *, margin: float, band: Interval,
    margin_label: str = "", margin_at: float = 0.0, metric: str = "", head_lines: int = 2, **sizes: Any,
) -> RowsDrawing:  # fmt: skip
    """Return a figure of these rows on a ratio axis.

    Parameters
    ----------
    heads : heads of the columns at the right.
    title : title of the axis.
    margin : the margin (ratio minus 1); its ticks are preferred where there is little room.
    band : the two effects between which the band is drawn.
    margin_label, margin_at : text above the band, and the effect above which it is written.
    metric : its words for less and more are written above the ends of the axis; "": no words.
    head_lines, sizes : arguments of `RowsDrawing`.
    """
    drawing = RowsDrawing(rows, heads, head_lines=head_lines, **sizes)
    panel = drawing.panels[0]
    axes.set_ratio_scale(panel.xaxis, scale, margin)
    axes.draw_margin(panel, *band)
    panel.set_xlabel(base.fold(title, TITLE_LETTERS))
    if metric:
        above, below, *_ = direction_words(metric)
        write_above(panel, 0, f"← {below}")
        write_above(panel, 1, f"{above} →", ha="right")
    at = (log_ratio(margin_at) - scale.low) / (scale.high - scale.low)
    align = "left" if at < 0.3 else "right" if at > 0.7 else "center"
    write_above(panel, {"left": 0.0, "right": 1.0}.get(align, at), margin_label, line=head_lines, ha=align)
    return drawing


def interval_scale(rows: Iterable[AnalysisRow], margin: float, expected: Sequence[float] = ()) -> RatioScale:
    """Return an axis long enough for the rows' intervals; intervals much wider than the decided effects are cut.

    Decided effects are those of harness checks and of verdicts in `DECIDED`. `expected` are further effects (ratios
    minus 1) that the axis must show.
    """
    compared = [(row, row.verdict) for row in rows if row.verdict and row.is_compared]
    intervals = [bounds for _, v in compared if (bounds := v.comparison.ci_family or v.comparison.ci95)]
    decided = [v.comparison.effect or 0.0 for r, v in compared if r.kind != "treatment" or v.kind in DECIDED]
    return ratio_scale(intervals, expected, [*decided, *expected], margin)
