"""The second panel of figure 6: the ratio of two web tiers at each page size, against the margin declared before."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from loadbook.analyses.page_size import text as words
from loadbook.analyses.page_size.compute import PageSizeResult, PageSizeSeries
from loadbook.analyses.page_size.size_axis import Look, SizeAxis, front_of
from loadbook.core.units import NBSP
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import Sheet, mark_props
from loadbook.stats.results import Verdict
from loadbook.stats.text import margin_text

PANEL_IN, HEAD_IN, FOOT_IN = 1.25, 0.5, 0.22
SPREAD_IN = 0.11  # between the marks of two fronts at one size


def height_in(found: PageSizeResult) -> float:
    """Return the inches that the panel needs; 0 for a study of one tier."""
    return PANEL_IN + HEAD_IN + FOOT_IN if found.tiers else 0.0


def draw_below(sheet: Sheet, axis: SizeAxis, found: PageSizeResult, looks: Mapping[str, Look], top: float) -> None:
    """Draw the panel below the others, over the axis of sizes that they share."""
    assert found.tiers is not None
    verdicts = [v for pair in found.tiers.pairs for v in pair.verdicts.values() if v.comparison.ci95]
    intervals = [v.comparison.ci95 for v in verdicts if v.comparison.ci95]
    effects = [v.comparison.effect or 0.0 for v in verdicts]
    scale = axes.ratio_scale(intervals, effects, effects, found.margin)
    first, second = found.tiers.names
    more = "" if sheet.narrow else "log scale; "
    title = f"ratio of {second} to {first} ({more}shaded: ±{margin_text(found.margin)})"
    sheet.text(0.05, top + 0.14, title)
    panel = axis.panel(sheet, top + HEAD_IN - 0.15, top + HEAD_IN - 0.15 + PANEL_IN, 0.22)
    low, high = panel.get_xlim()
    ticks = axes.ratio_axis(panel, scale, PANEL_IN, 4.0, found.margin, vertical=True)
    for tick in filter(None, ticks):
        panel.plot([low, high], [axes.position(tick)] * 2, color=palette.GRID, linewidth=0.8, zorder=-4)
    panel.axhspan(axes.position(-found.margin), axes.position(found.margin), color=palette.BAND, lw=0, zorder=-3)
    panel.plot([low, high], [0, 0], color=palette.INK, linewidth=1.0, zorder=-2)
    axis.write(panel, found.curves.sizes_b, sheet.size)
    for k, pair in enumerate(found.tiers.pairs):
        shift = SPREAD_IN * (k - (len(found.tiers.pairs) - 1) / 2) / axis.octave_in
        marker = next(looks[s.name].style.marker for s in found.curves.series if _is_front(found, s, k))
        for size, verdict in pair.verdicts.items():
            _draw_verdict(panel, scale, axis.at(size) + shift, verdict, marker)


def _is_front(found: PageSizeResult, series: PageSizeSeries, number: int) -> bool:
    fronts = list(dict.fromkeys(front_of(found, one) for one in found.curves.series))
    return front_of(found, series) == fronts[number]


def _draw_verdict(panel: Axes, scale: axes.RatioScale, x: float, verdict: Verdict, marker: str) -> None:
    """Draw one comparison in its verdict's colour: 95 % line, ticks at the 90 % interval that decides equivalence."""
    found = verdict.comparison
    if verdict.kind == "invalid" or found.ci95 is None or found.ci90 is None:
        return
    style = palette.VERDICTS[verdict.kind]
    ends = [min(max(axes.position(bound), scale.low), scale.high) for bound in found.ci95]
    panel.plot([x, x], ends, color=style.edge, linewidth=1.8, solid_capstyle="butt", zorder=2)
    for bound in found.ci90 if verdict.kind in ("equivalent", "small") else ():
        panel.plot([x], [axes.position(bound)], "_", color=style.edge, markersize=6, zorder=2)
    own = palette.VerdictStyle(style.fill, style.text, style.glyph, marker)
    panel.plot([x], [axes.position(found.effect or 0.0)], **mark_props(own, 5.6), zorder=3)


def how(found: PageSizeResult) -> str:
    """Return how the panel is read."""
    return (
        f"Below: the two web tiers compared at each size, 95{NBSP}% intervals, colours by verdict, marks by balancer; "
        f"“{palette.VERDICT_WORDS['equivalent']}” where the 90{NBSP}% interval lies within the margin."
    )


def sentences(found: PageSizeResult) -> list[str]:
    """Return from which size on the tiers converge, a sentence per front."""
    pairs = found.tiers.pairs if found.tiers else ()
    return [f"{pair.name or 'both tiers'}{words.pair_sentence(found, pair)}" for pair in pairs]
