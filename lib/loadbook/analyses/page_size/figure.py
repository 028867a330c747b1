"""Figure of rate against page size, which shows from which size on the network limits each series.

It has the trials, the two-regime curves and the bandwidth ceiling; below them a letter for the bottleneck of each point
and, on the same axis of sizes, the ratio of two web tiers beside the margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from loadbook.analyses.page_size import text as words
from loadbook.analyses.page_size.compute import PageSizeResult, PageSizeSeries, TwoRegimeCurve
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, pluralize
from loadbook.report import palette
from loadbook.report.figures import axes as scales
from loadbook.report.figures import base
from loadbook.report.ratios import ratio_scale
from loadbook.stats.comparability import usable_mask
from loadbook.stats.results import Verdict
from loadbook.stats.saturation import BOTTLENECK_NAMES
from loadbook.stats.text import margin_text

SHADES = (palette.INK, palette.SOFT, palette.OTHERS, palette.RULE)
MARKERS = ("o", "s", "^", "D")
Dashes = str | tuple[int, tuple[float, ...]]
DASHES: tuple[Dashes, ...] = ("-", (0, (1.2, 1.4)), (0, (5, 1.5)), (0, (3, 1, 1, 1)))
NOTHING_FULL, NOT_MONITORED = "–", "?"
DOUBTFUL_LETTERS = ("N", "D")  # network and driver
NAME_LETTERS, TITLE_LETTERS = 26, 90
RATES_IN, TIERS_IN, LINE_IN = 2.75, 1.25, 0.185  # heights: panels, a line of texts
TEXTS_IN, TIERS_TEXTS_IN = 1.35, 0.55  # height of titles and ticks: of the first two panels, of the third
SPREAD = 0.3  # width in octaves over which the trials of one size are spread, ordered by block
# shares of the axis: free space at its ends, distance of two front ends, room for the ceiling's name
PADDING, APART, NAME_SHARE = 0.045, 0.018, 0.2


@dataclass(frozen=True)
class SeriesStyle:
    """Marker and line style of one series; `order` is its number, from 0, among the series of the same shade."""

    marker: palette.VerdictStyle
    dashes: Dashes
    order: int

    @property
    def shade(self) -> str:
        """The colour of markers and line: a shade of grey, as colours are reserved for verdicts."""
        return self.marker.fill


def series_styles(result: PageSizeResult) -> dict[str, SeriesStyle]:
    """Return series -> style: shade and marker by front end (the last one is darkest), dashes by tier."""
    fronts = list(dict.fromkeys(front_of(result, series) for series in result.series))[::-1]
    styles: dict[str, SeriesStyle] = {}
    for series in result.series:
        front = fronts.index(front_of(result, series)) % 4
        order = sum(style.shade == SHADES[front] for style in styles.values())
        marker = palette.VerdictStyle(SHADES[front], SHADES[front], "", MARKERS[front], hollow=True)
        styles[series.name] = SeriesStyle(marker, DASHES[order % 4], order)
    return styles


def front_of(result: PageSizeResult, series: PageSizeSeries) -> tuple[object, ...]:
    """Return the front end of a series: its factor levels except that of the web tier."""
    tier = result.tiers.factor if result.tiers else None
    return tuple(level for name, level in series.levels.items() if name != tier)


class PageSizeFigure(base.ReportFigure):
    """Rate by page size: trials, curves with bands, knees, and the bandwidth ceiling; below, bottleneck letters.

    `by` is "rate" for responses per second, "bytes" for the page's bytes per second.
    """

    def __init__(self, result: PageSizeResult, by: Literal["rate", "bytes"] = "rate") -> None:
        self.result, self.by_bytes = result, by == "bytes"
        self.series, self.styles = sorted(result.series, key=self._level, reverse=True), series_styles(result)
        names = {one.name: base.drawable(one.name, f"series {k}") for k, one in enumerate(result.series, 1)}
        self.names = {key: base.fold(name, NAME_LETTERS) for key, name in names.items()}
        self.usable = usable_mask(result.values)
        own = result.values[result.values["treatment"].isin(list(result.size_by_arm))]
        factors = own["treatment"].map(result.size_by_arm).astype(float) if self.by_bytes else 1.0
        self.limits = scales.value_range(own["value"] * factors, 0.08)

    def _level(self, series: PageSizeSeries) -> float:
        """Return the median rate of a series' trials, by which the series are ordered."""
        values = self.result.values
        return float(np.nan_to_num(values.loc[values["treatment"].isin(list(series.arms.values())), "value"].median()))

    def _scaled(self, rate: Any, size_b: Any) -> Any:
        """Convert a rate (responses per second) to the unit of the figure: responses or bytes per second."""
        return rate * size_b if self.by_bytes else rate

    def _draw(self) -> base.Drawing:
        count, lines = len(self.names), max((base.line_count(name) for name in self.names.values()), default=1)
        heights = [max(RATES_IN, LINE_IN * count * (lines + 1)), LINE_IN * max(count, 1) * lines]
        has_tiers = bool(self.result.tiers) and not self.by_bytes
        if has_tiers:
            heights.append(TIERS_IN)
        drawing = base.Drawing(sum(heights) + TEXTS_IN + TIERS_TEXTS_IN * has_tiers)
        panels: Any = drawing.figure.subplots(len(heights), sharex=True, height_ratios=heights)
        self._set_size_axis(panels[0])
        self._draw_rates(panels[0])
        self._draw_bottlenecks(panels[1])
        if has_tiers:
            self._draw_tier_ratios(panels[2])
        panels[-1].set_xlabel(f"page size (log scale; K = 1,024{NBSP}B)")
        return drawing

    def _set_size_axis(self, panel: Axes) -> None:
        """Make x a log axis of page sizes; first and last size have ticks, and the others for which there is room."""
        sizes = self.result.sizes_b or [1, 2]
        self.span = max(2.0, sizes[-1] / sizes[0])
        padding = self.span**PADDING
        panel.set_xscale("log", base=2)
        panel.set_xlim(sizes[0] / padding, sizes[-1] * padding)
        panel.xaxis.set_major_locator(scales.SpacedLocator([*dict.fromkeys([sizes[0], *sizes[::-1]])], room=1.3))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda size, _: words.tick_text(size)))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.tick_params(axis="x", labelbottom=True)

    def _draw_rates(self, panel: Axes) -> None:
        """Draw trials, curves, and the ceiling; the key has the series' names and knees."""
        unit = scales.axis_unit(get_metric("bytes_per_s" if self.by_bytes else "ok_per_s"), self.limits[1])
        scales.set_value_scale(panel.yaxis, self.limits, unit)
        title = f"{'page bytes' if self.by_bytes else 'ok responses'} per second{f', {unit.name}' if unit.name else ''}"
        panel.set_title(f"{title} (log scale, does not start at 0)", weight="normal")
        key = []
        for one in self.series:
            self._draw_trials(panel, one)
            fit, style, knee = self.result.fits[one.name], self.styles[one.name], "no curve"
            if isinstance(fit, TwoRegimeCurve):
                self._draw_curve(panel, fit, style)
                knee = f"knee {words.knee_text(fit, tick=True)}"
            look = base.marker_props(style.marker, 4.8) | {"color": style.shade, "linestyle": style.dashes}
            key.append(Line2D([], [], **look, linewidth=1.4, label=f"{self.names[one.name]}\n{knee}"))
        self._draw_ceiling(panel)
        panel.legend(handles=key, loc="center left", bbox_to_anchor=(1, 0.5), handlelength=2.6, borderaxespad=0.3)

    def _draw_trials(self, panel: Axes, series: PageSizeSeries) -> None:
        """Draw one hollow mark per trial, side by side in block order; a cross for excluded trials."""
        values, sizes_b = self.result.values, {arm: float(size) for size, arm in series.arms.items()}
        own = values[values["treatment"].isin(list(sizes_b)) & (values["value"] > 0)]
        sizes = own["treatment"].map(sizes_b).to_numpy(float)
        xs = sizes * 2 ** (SPREAD * ((own["block"].to_numpy(float) - 0.5) / max(1, values["block"].max()) - 0.5))
        ys, usable = self._scaled(own["value"].to_numpy(float), sizes), self.usable[own.index].to_numpy(bool)
        props = base.marker_props(self.styles[series.name].marker, 4.2) | {"markeredgewidth": 0.8}
        panel.plot(xs[usable], ys[usable], **props, zorder=3)
        panel.plot(xs[~usable], ys[~usable], "x", color=palette.OTHERS, markersize=4, markeredgewidth=0.9, zorder=3)

    def _draw_curve(self, panel: Axes, curve: TwoRegimeCurve, style: SeriesStyle) -> None:
        """Draw the fitted curve, its band, and a tick at the knee with the knee's interval."""
        sizes = np.geomspace(curve.sizes_b[0], curve.sizes_b[-1], 60)
        rates = [(rate.value, *rate.interval) for rate in map(curve.rate_at, sizes)]
        middle, low, high = (self._scaled(np.array(y), sizes) for y in zip(*rates, strict=True))
        panel.fill_between(sizes, low, high, color=style.shade, alpha=0.16, linewidth=0, zorder=1)
        panel.plot(sizes, middle, color=style.shade, linewidth=1.4, linestyle=style.dashes, zorder=2)
        if curve.visible_regime != "both":
            return
        knee = curve.knee_b
        y = self._scaled(curve.rate_at(knee.value).value, knee.value)
        ends = np.clip(knee.interval, curve.sizes_b[0], curve.sizes_b[-1])
        panel.plot(ends, [y, y], color=style.shade, linewidth=3.4, zorder=4)
        panel.plot([knee.value], [y], "|", color=style.shade, markersize=22, markeredgewidth=2.2, zorder=5)

    def _draw_ceiling(self, panel: Axes) -> None:
        """Draw the bandwidth ceiling, with its name along the upper part of the line if it has room."""
        named_ceiling = bandwidth_ceiling(self.result)
        if named_ceiling is None:
            return
        ceiling, name = named_ceiling
        first, last = self.result.sizes_b[0], panel.get_xlim()[1]
        ends = [self._scaled(ceiling / size, size) for size in (first, last)]
        panel.plot([first, last], ends, color=palette.DOUBT, linewidth=1.3, linestyle=(0, (5, 2.5)), zorder=2)
        start = max(first, 1.0 if self.by_bytes else ceiling / self.limits[1]) * self.span**0.01
        y = self._scaled(ceiling / start, start)
        if self.limits[0] <= y <= self.limits[1] and start * self.span**NAME_SHARE <= last:
            above = y * (self.limits[1] / self.limits[0]) ** 0.01
            slope = 0.0 if self.by_bytes else -above / start
            panel.text(start, above, name, rotation=math.degrees(math.atan(slope)), transform_rotates_text=True,
                       rotation_mode="anchor", va="bottom", size=base.SMALL_PT, color=palette.DOUBT_TEXT,
                       in_layout=False)  # fmt: skip

    def _draw_bottlenecks(self, panel: Axes) -> None:
        """Write one letter per size and series, which names the bottleneck found in the host metrics."""
        panel.set_title("full, by the traces:", size=base.SMALL_PT, weight="normal", color=palette.SOFT)
        panel.set_ylim(max(len(self.series), 1) - 0.5, -0.5)
        panel.yaxis.tick_right()
        panel.set_yticks(range(len(self.series)), [self.names[one.name] for one in self.series], size=base.SMALL_PT)
        panel.tick_params(bottom=False, labelbottom=False, right=False)
        panel.spines["bottom"].set_visible(False)
        for k, series in enumerate(self.series):
            if k % 2 == 0:
                panel.axhspan(k - 0.5, k + 0.5, color=palette.TINT, linewidth=0, zorder=-3)
            for size, treatment in series.arms.items():
                letter = bottleneck_letter(self.result, treatment)
                is_resource, box = letter in BOTTLENECK_NAMES, None
                colour = palette.INK if is_resource else palette.SOFT
                if letter in DOUBTFUL_LETTERS:
                    colour, box = palette.DOUBT_TEXT, {"facecolor": palette.DOUBT_BOX, "linewidth": 0, "pad": 1.5}
                panel.text(size, k, letter, weight="bold" if is_resource else "normal", color=colour, ha="center",
                           va="center_baseline", size=base.SMALL_PT, bbox=box, in_layout=False)  # fmt: skip

    def _draw_tier_ratios(self, panel: Axes) -> None:
        """Draw the ratio of the two tiers at each size."""
        assert self.result.tiers is not None
        pairs, margin = self.result.tiers.pairs, self.result.margin
        comparisons = [v.comparison for pair in pairs for v in pair.verdicts.values()]
        effects = [c.effect or 0.0 for c in comparisons if c.ci95]
        scale = ratio_scale([c.ci95 for c in comparisons if c.ci95], effects, effects, margin)
        first, second = self.result.tiers.names
        title = f"ratio of {second} to {first} (log scale; shaded: ±{margin_text(margin)})"
        panel.set_title(base.fold(title, TITLE_LETTERS), weight="normal")
        scales.set_ratio_scale(panel.yaxis, scale, margin)
        panel.tick_params(axis="y", labelsize=base.SMALLEST_PT)
        panel.axhspan(scales.log_ratio(-margin), scales.log_ratio(margin), color=palette.BAND, linewidth=0, zorder=-3)
        panel.axhline(0, color=palette.INK, linewidth=1.0, zorder=1)
        fronts: dict[tuple[object, ...], str] = {}
        for series in self.result.series:
            fronts.setdefault(front_of(self.result, series), self.styles[series.name].marker.marker)
        for k, (pair, marker) in enumerate(zip(pairs, fronts.values(), strict=False)):
            shift = self.span ** (min(APART, 2 * PADDING / len(pairs)) * (k - (len(pairs) - 1) / 2))
            for size, verdict in pair.verdicts.items():
                _draw_verdict(panel, scale, size * shift, verdict, marker)

    @property
    def caption(self) -> str:
        """One sentence on the size from which on the network is the limit, or on another limiting resource."""
        return words.bandwidth_headline(self.result) if self.by_bytes else words.headline(self.result)

    @property
    def help(self) -> str:
        """Instructions for reading the figure."""
        resources = "; ".join(f"{letter} {noun}" for letter, noun in BOTTLENECK_NAMES.items())
        text = (
            "One hollow mark per trial; line: the fit of 1 / rate = cost per request + bytes × cost per byte, with its "
            f"{self.result.level * 100:g}{NBSP}% band; upright tick: the knee, where both costs are equal, with "
            "its interval. Amber: the bandwidth ceiling, bytes of pages alone. Letters: the resource that was "
            f"full by the traces: {resources}; {NOTHING_FULL} nothing watched was full"
        )
        letters = {bottleneck_letter(self.result, arm) for arm in self.result.size_by_arm}
        text += f"; {NOT_MONITORED} not watched." if NOT_MONITORED in letters else "."
        if not self.usable.all():
            text += " ×: a trial that does not count."
        if self.result.tiers and not self.by_bytes:
            text += (
                f" Below: the two web tiers compared at each size, 95{NBSP}% intervals, colours by verdict, marks by"
                f" balancer; “{palette.VERDICT_WORDS['equivalent']}” where the 90{NBSP}% interval lies within the"
                " margin."
            )
        return text

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: every curve's numbers in words."""
        trials = pluralize(int(self.usable.sum()), "trial")
        head = f"Page size against {'bytes' if self.by_bytes else 'responses'} per second, {trials}."
        return head, " ".join(words.curve_sentences(self.result))


def bandwidth_ceiling(result: PageSizeResult) -> tuple[float, str] | None:
    """Return (ceiling in bytes/s, its name): the link's capacity, else the highest ceiling of a curve; else None."""
    if result.link_bytes_per_s:
        return result.link_bytes_per_s, f"link, {words.bandwidth_text(result.link_bytes_per_s)}"
    fitted = [c.ceiling_bytes_per_s.value for c in result.curves.values() if c.visible_regime != "request"]
    return (max(fitted), f"fitted ceiling, {words.bandwidth_text(max(fitted))}") if fitted else None


def bottleneck_letter(result: PageSizeResult, treatment: str) -> str:
    """Return the letter of a treatment's bottleneck; "–" if no monitored resource was saturated, "?" if unmonitored."""
    if treatment not in result.bottlenecks:
        return NOT_MONITORED
    return result.bottlenecks[treatment] or NOTHING_FULL


def _draw_verdict(panel: Axes, scale: scales.RatioScale, x: float, verdict: Verdict, marker: str) -> None:
    """Draw one comparison in its verdict's colour: a line for the 95 % interval, ticks at the ends of the 90 % one."""
    comparison = verdict.comparison
    if verdict.kind == "invalid" or comparison.ci95 is None or comparison.ci90 is None:
        return
    style = palette.VERDICTS[verdict.kind]
    ends = [scale.clip(scales.log_ratio(bound)) for bound in comparison.ci95]
    panel.plot([x, x], ends, color=style.edge, linewidth=1.8, zorder=2)
    if verdict.kind in ("equivalent", "small"):
        panel.plot([x, x], list(map(scales.log_ratio, comparison.ci90)), "_", color=style.edge, markersize=6, zorder=2)
    own = palette.VerdictStyle(style.fill, style.text, style.glyph, marker)
    panel.plot([x], [scales.log_ratio(comparison.effect or 0.0)], **base.marker_props(own, 5.6), zorder=3)
