"""Figure 8, losses against what is accepted (non-inferiority).

In five seconds: is the loss certainly smaller than what we accept?
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from loadbook.analyses.effects import forest
from loadbook.analyses.effects.effect_rows import (
    Look,
    change_text,
    compared,
    compared_with,
    reference,
    rows_of,
    scale_of,
    verdict_text,
)
from loadbook.core.metrics import Direction, get_metric
from loadbook.report import palette
from loadbook.report.figures import axes as scales
from loadbook.report.figures.axes import draw_heads, draw_interval
from loadbook.report.figures.base import confidence, counted, in_house_style, mark_props, names, quantity
from loadbook.stats import headline
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.text import comparison_texts, direction, margin_text, verdict_phrase
from loadbook.stats.verdict import loss_at_margin


@in_house_style
def draw(analysis: Analysis, narrow: bool = False) -> Figure:
    """Draw one row per treatment: the bound that answers the question, against the largest loss that is accepted."""
    better, metric = direction(analysis.metric), get_metric(analysis.metric)
    accepted = f"largest loss accepted, {margin_text(analysis.margin)}"
    look = Look(
        verdict=partial(_verdict_text, analysis),
        change=_bound_text,
        change_head=f"one-sided {confidence(analysis)} bound, blocks",
        margin=lambda narrow: accepted if narrow else f"{accepted}, declared before",
        margin_at=loss_at_margin(analysis.margin, better),
        margin_size=analysis.margin,
        ground=partial(_ground, analysis.margin, better),
        interval=_interval,
        title=f"change in {quantity(metric, analysis.statistic)} against {compared_with(analysis)} (ratio, log scale)",
        names=names(analysis),
        note=_errors_text,
    )
    return forest.draw(analysis, look, narrow)


def _verdict_text(analysis: Analysis, row: AnalysisRow) -> str:
    if row.verdict is None or not row.verdict.one_sided_bounds:
        return verdict_text(row, analysis)
    margin = margin_text(row.verdict.margin)
    words = {"no-loss": f"no loss beyond {margin}", "worse": f"loses more than {margin}"}
    return f"{palette.row_glyph(row)} {words.get(row.verdict.kind, 'undecided')}"


def _bound_text(row: AnalysisRow, blocks: bool = True) -> str:
    """Return the bound that decides, or does not yet, and on how many blocks it rests."""
    if row.verdict is None or not row.verdict.one_sided_bounds:
        return change_text(row, blocks)
    texts = comparison_texts(row.verdict)
    said = f"at best {texts.best}" if row.verdict.kind == "worse" else f"at worst {texts.worst}"
    return said + (f", {texts.blocks}" if blocks else "")


def _errors_text(row: AnalysisRow) -> str:
    """Return the verdict on errors where there is one: it comes before that on the rate."""
    errors = row.errors
    if row.kind != "treatment" or (not errors.trials_with_errors and errors.kind != "fewer"):
        return ""
    word = f"{errors.kind} errors" if errors.kind in ("more", "fewer") else "errors undecided"
    return f"{word}: {errors.trials_with_errors} of {counted(errors.trials, 'trial')}"


def _ground(margin: float, better: Direction, axes: Axes, ticks: Sequence[float], top: float, bottom: float) -> None:
    """Draw the grid, no difference as a thin line, and the accepted side of a loss up to its solid edge."""
    for tick in filter(None, ticks):
        axes.plot([scales.position(tick)] * 2, [top, bottom], color=palette.GRID, linewidth=0.8, zorder=-4)
    edge = scales.position(loss_at_margin(margin, better))
    band = Rectangle((min(edge, 0), top), abs(edge), bottom - top, facecolor=palette.BAND, linewidth=0, zorder=-3)
    axes.add_patch(band)
    for place, width in ((0.0, 0.8), (edge, 1.8)):
        axes.plot([place] * 2, [top, bottom], color=palette.INK, linewidth=width, zorder=-2, solid_capstyle="butt")


def _interval(axes: Axes, scale: scales.RatioScale, y: float, row: AnalysisRow) -> None:
    """Draw the interval thin and its end that decides as a thick tick; checks as everywhere."""
    verdict = row.verdict
    if verdict is None or not verdict.one_sided_bounds:
        if verdict:
            draw_interval(axes, scale, y, row, verdict.comparison, tick=0.075)
        return
    style, places = palette.row_style(row), [scales.position(end) for end in verdict.one_sided_bounds]
    ends = [min(max(place, scale.low + scale.air), scale.high - scale.air) for place in places]
    axes.plot(ends, [y, y], color=style.edge, linewidth=1.3, solid_capstyle="butt", zorder=3)
    decides = verdict.kind == "worse"
    if scale.inside(places[decides]):
        axes.plot([ends[decides]] * 2, [y - 0.1, y + 0.1], color=style.edge, linewidth=3.4, zorder=3)
    draw_heads(axes, scale, y, (min(verdict.one_sided_bounds), max(verdict.one_sided_bounds)), style.edge)
    place = scales.position(verdict.comparison.effect or 0.0)
    if scale.inside(place):
        axes.plot([place], [y], zorder=4, **mark_props(style, 7.4))


def answer(analysis: Analysis) -> str:
    """Return whether any treatment loses more than is accepted, in one sentence."""
    rows = analysis.of_kind("treatment")
    if analysis.aa_failure:
        return analysis.aa_failure
    if not any(map(compared, rows)):
        return "No treatment could be compared."
    return headline.non_inferiority_headline(rows, analysis.margin)


def how(analysis: Analysis) -> str:
    """Return how the figure is read."""
    said = reference(analysis) + (
        f"thick tick: the one-sided {confidence(analysis)} bound that decides; thin line: from the bound at worst to "
        f"the bound at best; solid line: the largest loss accepted, {margin_text(analysis.margin)}, declared before "
        "the run; shaded: losses smaller than that"
    )
    if _beyond(analysis):
        said += "; arrow head: it goes on beyond the axis"
    truth = any(r.expected_effect is not None for r in rows_of(analysis) if compared(r))
    said += "; long tick: the true size of the known effect." if truth else "."
    return f"{said[0].upper()}{said[1:]}"


def _beyond(analysis: Analysis) -> bool:
    scale = scale_of(analysis)
    ends = [end for row in analysis.of_kind("treatment") if row.verdict for end in row.verdict.one_sided_bounds or ()]
    return not all(scale.inside(scales.position(end)) for end in ends)


def alt(analysis: Analysis) -> str:
    """Return the answer and every row's bound in words."""
    metric, shown = get_metric(analysis.metric), names(analysis)
    head = f"Loss of each treatment in {quantity(metric, analysis.statistic)} against {compared_with(analysis)}."
    treatments = [(row, row.verdict) for row in analysis.of_kind("treatment") if row.verdict]
    said = [
        f"{shown[row.treatment]}{verdict_phrase(verdict, against=row.reference_label)}" for row, verdict in treatments
    ]
    return " ".join([head, answer(analysis), *said])
