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
STRIP_IN, TICKS_IN, PADDING_IN = 0.185, 0.62, 0.22
NOTHING_FULL, NOT_MONITORED = "–", "?"
DOUBTFUL_LETTERS = ("N", "D")  # network and driver
TOP_IN, PANEL_IN = 0.36, 2.75
TIERS_IN, TIERS_HEAD_IN, TIERS_FOOT_IN = 1.25, 0.5, 0.22  # panel of ratios, texts above it, texts below it
KNEE_PT = 8.4
SPREAD = 0.3  # width in octaves over which the trials of one size are spread, ordered by block
TIERS_SPREAD_IN = 0.11  # distance between the marks of two front ends at one size


@dataclass(frozen=True)
class SizeAxis:
    """A log axis of page sizes: `first` and `last` (bytes) are at `left` and `right` inches; panels begin at `edge`."""

    first: float
    last: float
    edge: float
    left: float
    right: float

    @property
    def octave_in(self) -> float:
        """Distance in inches between a size and twice that size."""
        return (self.right - self.left) / max(1.0, math.log2(self.last / self.first))

    def position(self, size_b: float) -> float:
        """Return the position of a size on the axis, in octaves above the first size."""
        return math.log2(size_b / self.first)

    def to_inches(self, size_b: float) -> float:
        """Return the position of a size in inches from the left of the sheet."""
        return self.left + self.octave_in * self.position(size_b)

    def panel(self, sheet: base.Sheet, top: float, bottom: float) -> Axes:
        """Return a panel with this axis, from `edge` to somewhat beyond the last size."""
        panel = sheet.panel(self.edge, top, self.right + PADDING_IN, bottom)
        end = self.position(self.last) + PADDING_IN / self.octave_in
        panel.set_xlim((self.edge - self.left) / self.octave_in, end)
        return panel

    def write_sizes(self, panel: Axes, sizes: list[int], letter_pt: float) -> None:
        """Write the sizes below a panel: first and last size, and the others that fit."""
        order = [*dict.fromkeys([sizes[0], sizes[-1], *sizes[::-1]])]
        labels = [(self.position(size), words.tick_text(size)) for size in order]
        margin_in, width_in = self.left - self.edge, self.right - self.edge + 0.3
        fitting = scales.fitting_labels(labels, lambda at: margin_in + at * self.octave_in, letter_pt, width_in)
        scales.set_ticks(panel.xaxis, [labels[k][0] for k in fitting], [labels[k][1] for k in fitting])


@dataclass(frozen=True)
class SeriesStyle:
    """Marker and line style of one series; `order` counts the series that share its shade."""

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
        self.series, self.styles = result.series, series_styles(result)
        self.names = {one.name: base.drawable(one.name, f"series {k}") for k, one in enumerate(self.series, 1)}
        self.usable = usable_mask(result.values)
        own = result.values[result.values["treatment"].isin(list(result.size_by_arm))]
        factors = own["treatment"].map(result.size_by_arm).astype(float) if self.by_bytes else 1.0
        self.limits = scales.value_range(own["value"] * factors, 0.08)

    def _scaled(self, rate: Any, size_b: float) -> Any:
        """Convert a rate (responses per second) to the unit of the figure: responses or bytes per second."""
        return rate * size_b if self.by_bytes else rate

    def _draw(self) -> base.Sheet:
        result, strip = self.result, STRIP_IN * len(self.names) + 0.24
        has_tiers = bool(result.tiers) and not self.by_bytes
        tiers = TIERS_IN + TIERS_HEAD_IN + TIERS_FOOT_IN if has_tiers else 0.0
        sheet = base.Sheet(TOP_IN + PANEL_IN + 0.3 + strip + tiers + 0.2)
        axis = self._axis()
        panel = axis.panel(sheet, TOP_IN, TOP_IN + PANEL_IN)
        unit = scales.axis_unit(get_metric("bytes_per_s" if self.by_bytes else "ok_per_s"), self.limits[1])
        scales.set_value_y_axis(panel, self.limits, unit, PANEL_IN)
        axis.write_sizes(panel, result.sizes_b, sheet.size)
        for one in self.series:
            self._draw_trials(panel, axis, one)
            curve = result.fits[one.name]
            if isinstance(curve, TwoRegimeCurve):
                self._draw_curve(panel, axis, curve, self.styles[one.name])
        self._draw_ceiling(sheet, panel, axis)
        title = f"{'page bytes' if self.by_bytes else 'ok responses'} per second{f', {unit.name}' if unit.name else ''}"
        sheet.text(0.05, 0.16, f"{title} (log scale, does not start at 0)")
        self._write_names(sheet, axis)
        below = TOP_IN + PANEL_IN + 0.32
        self._draw_bottlenecks(sheet, axis, below)
        if has_tiers:
            self._draw_tier_ratios(sheet, axis, below + strip)
        foot = f"page size (log scale; K = 1,024{NBSP}B)"
        size = sheet.size - 0.4
        sheet.text(sheet.width / 2, sheet.height - 0.12, foot, colour=palette.SOFT, align="center", size=size)
        return sheet

    def _axis(self) -> SizeAxis:
        """Return the axis of sizes, with room for the series' names at its left."""
        knees = [f"knee {words.knee_text(curve, tick=True)}" for curve in self.result.curves.values()]
        names = base.max_text_width(list(self.names.values()), base.LETTER_PT, True)
        names_in = min(2.3, max(names, base.max_text_width(knees, KNEE_PT), 1.1)) + 0.45
        sizes = self.result.sizes_b or [1, 2]
        return SizeAxis(sizes[0], sizes[-1], TICKS_IN, TICKS_IN + names_in, base.WIDTH_IN - PADDING_IN - 0.1)

    def _draw_trials(self, panel: Axes, axis: SizeAxis, series: PageSizeSeries) -> None:
        """Draw one hollow mark per trial, side by side in block order; a cross for excluded trials."""
        values = self.result.values
        last = max(1, int(values["block"].max()))
        for size, treatment in series.arms.items():
            own = values[(values["treatment"] == treatment) & (values["value"] > 0)]
            xs = axis.position(size) + SPREAD * ((own["block"].to_numpy(float) - 0.5) / last - 0.5)
            ys, usable = np.log(self._scaled(own["value"].to_numpy(float), size)), self.usable[own.index].to_numpy(bool)
            props = base.marker_props(self.styles[series.name].marker, 4.2) | {"markeredgewidth": 0.8}
            panel.plot(xs[usable], ys[usable], **props, zorder=3)
            panel.plot(xs[~usable], ys[~usable], "x", color=palette.OTHERS, markersize=4, markeredgewidth=0.9, zorder=3)

    def _draw_curve(self, panel: Axes, axis: SizeAxis, curve: TwoRegimeCurve, style: SeriesStyle) -> None:
        """Draw the fitted curve, its band, and a tick at the knee with the knee's interval."""
        sizes = np.geomspace(curve.sizes_b[0], curve.sizes_b[-1], 60)
        rates, xs = [curve.rate_at(size) for size in sizes], [axis.position(size) for size in sizes]
        points = list(zip(rates, sizes, strict=True))
        low, high = ([math.log(self._scaled(r.interval[k], size)) for r, size in points] for k in (0, 1))
        panel.fill_between(xs, low, high, color=style.shade, alpha=0.16, linewidth=0, zorder=1)
        middle = [math.log(self._scaled(r.value, size)) for r, size in points]
        panel.plot(xs, middle, color=style.shade, linewidth=1.4, linestyle=style.dashes, zorder=2)
        if curve.visible_regime != "both":
            return
        knee = curve.knee_b
        y = math.log(self._scaled(curve.rate_at(knee.value).value, knee.value))
        ends = [axis.position(min(max(bound, curve.sizes_b[0]), curve.sizes_b[-1])) for bound in knee.interval]
        panel.plot(ends, [y, y], color=style.shade, linewidth=3.4, solid_capstyle="butt", zorder=4)
        panel.plot([axis.position(knee.value)], [y], "|", color=style.shade, markersize=22, markeredgewidth=2.2,
                   zorder=5)  # fmt: skip

    def _draw_ceiling(self, sheet: base.Sheet, panel: Axes, axis: SizeAxis) -> None:
        """Draw the bandwidth ceiling if it crosses the panel, with its name along the line."""
        named_ceiling = bandwidth_ceiling(self.result)
        if named_ceiling is None:
            return
        ceiling, name = named_ceiling
        low, high = (math.log(limit) for limit in self.limits)
        sizes = np.geomspace(axis.first / 4, axis.last * 1.12, 400)
        ys = np.log([self._scaled(ceiling / size, size) for size in sizes])
        inside = (ys >= low) & (ys <= high) & (sizes >= axis.first)
        if not inside.any():
            return
        xs = np.log2(sizes / axis.first)
        panel.plot(xs[inside], ys[inside], color=palette.DOUBT, linewidth=1.3, linestyle=(0, (5, 2.5)), zorder=2)
        slope = (ys[-1] - ys[0]) / (high - low) * PANEL_IN / ((xs[-1] - xs[0]) * axis.octave_in)
        angle, size = math.atan(slope), max(sheet.size - 1, base.SMALLEST_PT)
        length = base.text_width(name, size) * math.cos(angle)
        start, end = (axis.left + axis.octave_in * x for x in (xs[inside][0], xs[inside][-1]))
        x = max(start + 0.1, (start + end - length) / 2 if slope else end - length - 0.1)
        if x + length > end + PADDING_IN:
            return
        y = float(np.interp((x - axis.left) / axis.octave_in, xs, ys))
        y_in = TOP_IN + PANEL_IN * (high - y) / (high - low) - 0.05 / math.cos(angle)
        sheet.text(
            x, y_in, name, size=size, colour=palette.DOUBT_TEXT, va="baseline", rotation=math.degrees(angle)
        )  # fmt: skip

    def _write_names(self, sheet: base.Sheet, axis: SizeAxis) -> None:
        """Write each series' name and knee at the left end of its curve."""
        low, high = (math.log(limit) for limit in self.limits)
        ends = [TOP_IN + PANEL_IN * (high - self._left_end(one, low)) / (high - low) for one in self.series]
        places = base.avoid_overlap(
            ends, [base.text_height(sheet.size, 2) + 0.03] * len(ends), TOP_IN - 0.1, TOP_IN + PANEL_IN
        )
        left, room = axis.edge + 0.1, axis.left - axis.edge - 0.42
        for one, end, y in zip(self.series, ends, places, strict=True):
            fit = self.result.fits[one.name]
            sheet.text(left, y - 0.08, base.shorten(self.names[one.name], room, sheet.size, True), bold=True)
            knee = f"knee {words.knee_text(fit, tick=True)}" if isinstance(fit, TwoRegimeCurve) else "no curve"
            sheet.text(left, y + 0.075, base.shorten(knee, room + 0.1, KNEE_PT), colour=palette.SOFT, size=KNEE_PT)
            x = axis.left - 0.14
            sheet.line([x - 0.2, x], [y - 0.04, end], self.styles[one.name].shade, 0.7)

    def _left_end(self, series: PageSizeSeries, fallback: float) -> float:
        """Return the log of a curve's rate (without a curve, of its trials' rate) at the left end of the axis."""
        fit, size = self.result.fits[series.name], min(series.arms)
        if isinstance(fit, TwoRegimeCurve) and fit.sizes_b[0] <= size:
            return math.log(self._scaled(fit.rate_at(size).value, size))
        own = self.result.values.loc[self.result.values["treatment"] == series.arms[size], "value"]
        median = float(own[own > 0].median())
        return math.log(self._scaled(median, size)) if median > 0 else fallback

    def _draw_bottlenecks(self, sheet: base.Sheet, axis: SizeAxis, top: float) -> None:
        """Write one letter per size and series, which names the bottleneck found in the host metrics."""
        sheet.text(0.05, top - 0.13, "full, by the traces:", size=8.2, colour=palette.SOFT)
        for k, series in enumerate(self.series):
            y = top + 0.1 + k * STRIP_IN
            if k % 2 == 0:
                sheet.box(0.02, y - STRIP_IN / 2, sheet.width - 0.02, y + STRIP_IN / 2, palette.TINT)
            style = self.styles[series.name]
            for x in np.arange(0.06, 0.32, 0.05) if style.order else [0.06]:  # a short piece of the series' line as key
                sheet.line([x, x + 0.025 if style.order else 0.32], [y, y], style.shade, 1.4)
            sheet.marker(0.19, y, style.marker, 4.8)
            name = base.shorten(self.names[series.name], axis.left - 0.65, 8.4)
            sheet.text(0.4, y, name, size=8.4, colour=palette.SOFT)
            for size, treatment in series.arms.items():
                x, letter = axis.to_inches(size), bottleneck_letter(self.result, treatment)
                is_resource = letter in BOTTLENECK_NAMES
                colour = palette.INK if is_resource else palette.SOFT
                if letter in DOUBTFUL_LETTERS:
                    colour, half = palette.DOUBT_TEXT, min(0.11, axis.octave_in / 2 - 0.01)
                    sheet.box(x - half, y - 0.08, x + half, y + 0.08, palette.DOUBT_BOX)
                sheet.text(x, y, letter, bold=is_resource, colour=colour, align="center", size=8.6)

    def _draw_tier_ratios(self, sheet: base.Sheet, axis: SizeAxis, top: float) -> None:
        """Draw the ratio of the two tiers at each size, on the same axis as the panel above."""
        assert self.result.tiers is not None
        pairs, margin = self.result.tiers.pairs, self.result.margin
        comparisons = [v.comparison for pair in pairs for v in pair.verdicts.values()]
        effects = [c.effect or 0.0 for c in comparisons if c.ci95]
        scale = ratio_scale([c.ci95 for c in comparisons if c.ci95], effects, effects, margin)
        first, second = self.result.tiers.names
        sheet.text(0.05, top + 0.14, f"ratio of {second} to {first} (log scale; shaded: ±{margin_text(margin)})")
        panel = axis.panel(sheet, top + TIERS_HEAD_IN - 0.15, top + TIERS_HEAD_IN - 0.15 + TIERS_IN)
        low, high = panel.get_xlim()
        ticks = scales.set_ratio_axis(panel, scale, TIERS_IN, 4.0, margin, vertical=True)
        for tick in filter(None, ticks):
            panel.plot([low, high], [scales.log_ratio(tick)] * 2, color=palette.GRID, linewidth=0.8, zorder=-4)
        panel.axhspan(scales.log_ratio(-margin), scales.log_ratio(margin), color=palette.BAND, lw=0, zorder=-3)
        panel.plot([low, high], [0, 0], color=palette.INK, linewidth=1.0, zorder=-2)
        axis.write_sizes(panel, self.result.sizes_b, sheet.size)
        fronts: dict[tuple[object, ...], str] = {}
        for series in self.series:
            fronts.setdefault(front_of(self.result, series), self.styles[series.name].marker.marker)
        for k, (pair, marker) in enumerate(zip(pairs, fronts.values(), strict=False)):
            shift = TIERS_SPREAD_IN * (k - (len(pairs) - 1) / 2) / axis.octave_in
            for size, verdict in pair.verdicts.items():
                _draw_verdict(panel, scale, axis.position(size) + shift, verdict, marker)

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
    panel.plot([x, x], ends, color=style.edge, linewidth=1.8, solid_capstyle="butt", zorder=2)
    for bound in comparison.ci90 if verdict.kind in ("equivalent", "small") else ():
        panel.plot([x], [scales.log_ratio(bound)], "_", color=style.edge, markersize=6, zorder=2)
    own = palette.VerdictStyle(style.fill, style.text, style.glyph, marker)
    panel.plot([x], [scales.log_ratio(comparison.effect or 0.0)], **base.marker_props(own, 5.6), zorder=3)
