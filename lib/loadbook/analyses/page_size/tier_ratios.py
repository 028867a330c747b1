"""The lower panel of the page-size figure: the ratio of two web tiers at each page size, against the margin."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from loadbook.analyses.page_size import text as words
from loadbook.analyses.page_size.compute import PageSizeResult
from loadbook.analyses.page_size.size_axis import SeriesStyle, SizeAxis, front_of
from loadbook.core.units import NBSP
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import Sheet, marker_props
from loadbook.stats.results import Verdict
from loadbook.stats.text import margin_text

PANEL_IN, HEAD_IN, FOOT_IN = 1.25, 0.5, 0.22
SPREAD_IN = 0.11  # between the marks of two fronts at one size


def height_in(result: PageSizeResult) -> float:
    """Return the inches that the panel needs; 0 for a study of one tier."""
    return PANEL_IN + HEAD_IN + FOOT_IN if result.tiers else 0.0


def draw_tier_ratios(
    sheet: Sheet, axis: SizeAxis, result: PageSizeResult, styles: Mapping[str, SeriesStyle], top: float
) -> None:
    """Draw the panel below the others, over the axis of sizes that they share."""
    assert result.tiers is not None
    pairs, margin = result.tiers.pairs, result.margin
    comparisons = [v.comparison for pair in pairs for v in pair.verdicts.values()]
    compared = [c for c in comparisons if c.ci95]
    effects = [c.effect or 0.0 for c in compared]
    scale = axes.ratio_scale([c.ci95 for c in compared if c.ci95], effects, effects, margin)
    first, second = result.tiers.names
    sheet.text(0.05, top + 0.14, f"ratio of {second} to {first} (log scale; shaded: ±{margin_text(margin)})")
    panel = axis.panel(sheet, top + HEAD_IN - 0.15, top + HEAD_IN - 0.15 + PANEL_IN)
    low, high = panel.get_xlim()
    ticks = axes.set_ratio_axis(panel, scale, PANEL_IN, 4.0, margin, vertical=True)
    for tick in filter(None, ticks):
        panel.plot([low, high], [axes.log_ratio(tick)] * 2, color=palette.GRID, linewidth=0.8, zorder=-4)
    panel.axhspan(axes.log_ratio(-margin), axes.log_ratio(margin), color=palette.BAND, lw=0, zorder=-3)
    panel.plot([low, high], [0, 0], color=palette.INK, linewidth=1.0, zorder=-2)
    axis.write_sizes(panel, result.curves.sizes_b, sheet.size)
    fronts: dict[tuple[object, ...], str] = {}
    for series in result.curves.series:
        fronts.setdefault(front_of(result, series), styles[series.name].marker.marker)
    for k, (pair, marker) in enumerate(zip(pairs, fronts.values(), strict=False)):
        shift = SPREAD_IN * (k - (len(pairs) - 1) / 2) / axis.octave_in
        for size, verdict in pair.verdicts.items():
            _draw_verdict(panel, scale, axis.position(size) + shift, verdict, marker)


def _draw_verdict(panel: Axes, scale: axes.RatioScale, x: float, verdict: Verdict, marker: str) -> None:
    """Draw one comparison in its verdict's colour: 95 % line, ticks at the 90 % interval that decides equivalence."""
    comparison = verdict.comparison
    if verdict.kind == "invalid" or comparison.ci95 is None or comparison.ci90 is None:
        return
    style = palette.VERDICTS[verdict.kind]
    ends = [scale.clip(axes.log_ratio(bound)) for bound in comparison.ci95]
    panel.plot([x, x], ends, color=style.edge, linewidth=1.8, solid_capstyle="butt", zorder=2)
    for bound in comparison.ci90 if verdict.kind in ("equivalent", "small") else ():
        panel.plot([x], [axes.log_ratio(bound)], "_", color=style.edge, markersize=6, zorder=2)
    own = palette.VerdictStyle(style.fill, style.text, style.glyph, marker)
    panel.plot([x], [axes.log_ratio(comparison.effect or 0.0)], **marker_props(own, 5.6), zorder=3)


def tier_help() -> str:
    """Return how the panel is read."""
    return (
        f"Below: the two web tiers compared at each size, 95{NBSP}% intervals, colours by verdict, marks by balancer; "
        f"“{palette.VERDICT_WORDS['equivalent']}” where the 90{NBSP}% interval lies within the margin."
    )


def sentences(result: PageSizeResult) -> list[str]:
    """Return from which size on the tiers converge, a sentence per front."""
    pairs = result.tiers.pairs if result.tiers else ()
    return [f"{pair.name or 'both tiers'}{words.pair_sentence(result, pair)}" for pair in pairs]
