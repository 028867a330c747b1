"""Figure 1, the effect plot.

In five seconds: which treatments matter, which way, and did the checks of the laboratory pass?
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.analyses.effects import forest
from loadbook.analyses.effects.effect_rows import (
    Look,
    change_text,
    clipped,
    compared,
    compared_with,
    reference,
    rows_of,
    verdict_text,
)
from loadbook.core.metrics import get_metric
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.axes import draw_interval
from loadbook.report.figures.base import confidence, in_house_style, listed, names, quantity
from loadbook.stats.headline import headline, no_change_sentence
from loadbook.stats.results import Analysis, AnalysisRow, VerdictKind
from loadbook.stats.text import margin_text, predicate, row_texts

_SIDES: tuple[VerdictKind, ...] = ("better", "worse")


@in_house_style
def draw(analysis: Analysis, narrow: bool = False) -> Figure:
    """Draw one row per comparison: name, interval on a log axis of ratios, verdict, change and blocks."""
    metric = get_metric(analysis.metric)
    look = Look(
        verdict=lambda row: verdict_text(row, analysis),
        change=change_text,
        change_head=f"change ({confidence(analysis)} interval), blocks",
        margin=lambda narrow: f"margin ±{margin_text(analysis.margin)}",
        margin_at=0.0,
        margin_size=analysis.margin,
        ground=partial(_ground, analysis.margin),
        interval=_interval,
        title=f"change in {quantity(metric, analysis.statistic)} against {compared_with(analysis)} (ratio, log scale)",
        names=names(analysis),
    )
    return forest.draw(analysis, look, narrow)


def _ground(margin: float, panel: Axes, ticks: Sequence[float], top: float, bottom: float) -> None:
    axes.ratio_ground(panel, margin, ticks, top, bottom)


def _interval(panel: Axes, scale: axes.RatioScale, y: float, row: AnalysisRow) -> None:
    if row.verdict:
        draw_interval(panel, scale, y, row, row.verdict.comparison, tick=0.075)


def answer(analysis: Analysis) -> str:
    """Return which treatments are better or worse, in one sentence."""
    if analysis.aa_failure:
        return analysis.aa_failure
    if analysis.contrasts != "baseline":
        return headline(analysis, names(analysis))
    treatments = analysis.of_kind("treatment")
    if treatments and not any(map(compared, treatments)):
        return "No treatment could be compared."
    won = [said for kind in _SIDES if (said := _side(analysis, kind))]
    if not won:
        return no_change_sentence(analysis)
    decided = [r for r in treatments if r.verdict and r.verdict.kind in _SIDES]
    rest = (
        no_change_sentence(analysis).replace("No treatment", "; no other treatment")
        if len(decided) < len(treatments)
        else "."
    )
    return "; ".join(won) + rest


def _side(analysis: Analysis, kind: VerdictKind) -> str:
    rows = [r for r in analysis.of_kind("treatment") if r.verdict and r.verdict.kind == kind]
    if not rows or not rows[0].verdict:
        return ""
    shown = names(analysis)
    does = predicate(analysis.metric, rows[0].verdict.comparison.effect or 0.0, len(rows))
    if len(rows) == 1:
        texts = row_texts(rows[0])
        return f"{shown[rows[0].treatment]} {does} by {texts.size} ({texts.bounds})"
    return f"{listed([shown[r.treatment] for r in rows], 3, 'treatments')} {does}"


def how(analysis: Analysis) -> str:
    """Return how the figure is read, naming only the marks that it has."""
    shown = [(row, row.verdict) for row in rows_of(analysis) if row.verdict and compared(row)]
    family = sum(1 for _, verdict in shown if verdict.comparison.ci_family)
    said = [f"thick line: {confidence(analysis)} interval"] if shown else []
    if family > 1:
        said.append(f"thin line: widened for {family} comparisons")
    if any(v.kind in ("equivalent", "small") and r.kind == "treatment" for r, v in shown):
        said.append(f"short ticks: {confidence(analysis, one_sided=True)} interval, which decides equivalence")
    if any(r.expected_effect is not None for r, _ in shown):
        said.append("long tick: the true size of the known effect")
    if clipped(analysis):
        said.append("arrow head: the interval goes on beyond the axis")
    said.append(f"shaded: differences below ±{margin_text(analysis.margin)}, declared as too small to matter")
    text = reference(analysis) + "; ".join(said)
    return f"{text[0].upper()}{text[1:]}."


def alt(analysis: Analysis) -> str:
    """Return the answer and every row's numbers in words."""
    metric, shown = get_metric(analysis.metric), names(analysis)
    bases = {row.verdict.comparison.baseline for row in analysis.rows if row.verdict}
    named = analysis.contrasts == "baseline" and len(bases) < 2  # conditions that are judged apart have one each
    against = shown.get(analysis.baseline, analysis.baseline) if named else compared_with(analysis)
    head = f"Effect of each treatment on {quantity(metric, analysis.statistic)} against {against}."
    rows = [
        f"{shown[r.treatment]}: {palette.row_word(r, metric)}, {change_text(r)}{' blocks' if compared(r) else ''}"
        for r in rows_of(analysis)
    ]
    return " ".join([head, answer(analysis), "; ".join(rows) + "."])
