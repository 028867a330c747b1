"""Page size against rate: from which size on the network is the limit, and for which series.

The trials, two-regime fits and the bandwidth ceiling; below them a letter for the bottleneck of each point.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes

from loadbook.analyses.page_size import text as words
from loadbook.analyses.page_size import tier_ratios
from loadbook.analyses.page_size.compute import PageSizeResult, PageSizeSeries
from loadbook.analyses.page_size.curve import TwoRegimeCurve
from loadbook.analyses.page_size.size_axis import (
    NOT_MONITORED,
    NOTHING_FULL,
    PADDING_IN,
    STRIP_IN,
    TICKS_IN,
    SeriesStyle,
    SizeAxis,
    bottleneck_letter,
    draw_bottlenecks,
    series_styles,
)
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP
from loadbook.report import palette
from loadbook.report.figures import axes as scales
from loadbook.report.figures.base import (
    LETTER_PT,
    SMALLEST_PT,
    WIDTH_IN,
    ReportFigure,
    Sheet,
    avoid_overlap,
    drawable,
    marker_props,
    max_text_width,
    pluralize,
    shorten,
    text_height,
    text_width,
)
from loadbook.stats.results import Interval
from loadbook.stats.saturation import BOTTLENECK_NAMES
from loadbook.stats.verdict import usable_mask

TOP_IN, PANEL_IN = 0.36, 2.75
KNEE_PT = 8.4
SPREAD = 0.3  # octaves over which the trials of one size are laid side by side, by block


class PageSizeFigure(ReportFigure):
    """Every trial, the fitted curves with their bands, knees and the ceiling; below, what limits each point.

    Parameters
    ----------
    result : the fits and bottlenecks.
    by : "rate" for answers per second, "bytes" for the page's bytes per second.
    """

    def __init__(self, result: PageSizeResult, by: Literal["rate", "bytes"] = "rate") -> None:
        self.result, self.by_bytes = result, by == "bytes"
        self.series, self.styles = result.curves.series, series_styles(result)
        self.names = {one.name: drawable(one.name, f"series {k}") for k, one in enumerate(self.series, 1)}
        self.usable = usable_mask(result.values)
        self.limits = self._limits()

    def _scaled(self, rate: Any, size_b: float) -> Any:
        """Return a rate of answers in the unit of the figure: answers or bytes per second."""
        return rate * size_b if self.by_bytes else rate

    def _limits(self) -> Interval:
        sizes = {arm: size for one in self.series for size, arm in one.arms.items()}
        own = self.result.values[self.result.values["treatment"].isin(list(sizes))]
        factors = own["treatment"].map(sizes).astype(float) if self.by_bytes else 1.0
        return scales.value_range(own["value"] * factors, 0.08)

    def _draw(self) -> Sheet:
        result, strip = self.result, STRIP_IN * len(self.names) + 0.24
        tiers = 0.0 if self.by_bytes else tier_ratios.height_in(result)
        sheet = Sheet(TOP_IN + PANEL_IN + 0.3 + strip + tiers + 0.2)
        axis = self._axis()
        panel = axis.panel(sheet, TOP_IN, TOP_IN + PANEL_IN)
        unit = scales.axis_unit(get_metric("bytes_per_s" if self.by_bytes else "ok_per_s"), self.limits[1])
        scales.set_value_y_axis(panel, self.limits, unit, PANEL_IN)
        axis.write_sizes(panel, result.curves.sizes_b, sheet.size)
        for one in self.series:
            self._draw_trials(panel, axis, one)
            curve = result.curves.fits[one.name]
            if isinstance(curve, TwoRegimeCurve):
                self._draw_curve(panel, axis, curve, self.styles[one.name])
        self._draw_ceiling(sheet, panel, axis)
        title = f"{'page bytes' if self.by_bytes else 'ok responses'} per second{f', {unit.name}' if unit.name else ''}"
        sheet.text(0.05, 0.16, f"{title} (log scale, does not start at 0)")
        self._write_names(sheet, axis)
        below = TOP_IN + PANEL_IN + 0.32
        draw_bottlenecks(sheet, axis, self.names, self.styles, result, below)
        if tiers:
            tier_ratios.draw_tier_ratios(sheet, axis, result, self.styles, below + strip)
        foot = f"page size (log scale; K = 1,024{NBSP}B)"
        size = sheet.size - 0.4
        sheet.text(sheet.width / 2, sheet.height - 0.12, foot, colour=palette.SOFT, align="center", size=size)
        return sheet

    def _axis(self) -> SizeAxis:
        """Return the axis of sizes, with room for the names at its left."""
        knees = [f"knee {words.knee_text(curve, tick=True)}" for curve in self.result.curves.curves.values()]
        names = max_text_width(list(self.names.values()), LETTER_PT, True)
        names_in = min(2.3, max(names, max_text_width(knees, KNEE_PT), 1.1)) + 0.45
        sizes = self.result.curves.sizes_b or [1, 2]
        return SizeAxis(sizes[0], sizes[-1], TICKS_IN, TICKS_IN + names_in, WIDTH_IN - PADDING_IN - 0.1)

    def _draw_trials(self, panel: Axes, axis: SizeAxis, series: PageSizeSeries) -> None:
        """Draw one hollow mark per trial, beside each other by block; a cross for those that do not count."""
        values = self.result.values
        last = max(1, int(values["block"].max()))
        for size, treatment in series.arms.items():
            own = values[(values["treatment"] == treatment) & (values["value"] > 0)]
            xs = axis.position(size) + SPREAD * ((own["block"].to_numpy(float) - 0.5) / last - 0.5)
            ys, usable = np.log(self._scaled(own["value"].to_numpy(float), size)), self.usable[own.index].to_numpy(bool)
            props = marker_props(self.styles[series.name].marker, 4.2) | {"markeredgewidth": 0.8}
            panel.plot(xs[usable], ys[usable], **props, zorder=3)
            panel.plot(xs[~usable], ys[~usable], "x", color=palette.OTHERS, markersize=4, markeredgewidth=0.9, zorder=3)

    def _draw_curve(self, panel: Axes, axis: SizeAxis, curve: TwoRegimeCurve, style: SeriesStyle) -> None:
        """Draw the fit, its band, and a tick at the knee with the knee's interval."""
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

    def _draw_ceiling(self, sheet: Sheet, panel: Axes, axis: SizeAxis) -> None:
        """Draw the bandwidth ceiling where it crosses the panel, with its name along the line."""
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
        angle, size = math.atan(slope), max(sheet.size - 1, SMALLEST_PT)
        length = text_width(name, size) * math.cos(angle)
        start, end = (axis.left + axis.octave_in * x for x in (xs[inside][0], xs[inside][-1]))
        x = max(start + 0.1, (start + end - length) / 2 if slope else end - length - 0.1)
        if x + length > end + PADDING_IN:
            return
        y = float(np.interp((x - axis.left) / axis.octave_in, xs, ys))
        y_in = TOP_IN + PANEL_IN * (high - y) / (high - low) - 0.05 / math.cos(angle)
        sheet.text(
            x, y_in, name, size=size, colour=palette.DOUBT_TEXT, va="baseline", rotation=math.degrees(angle)
        )  # fmt: skip

    def _write_names(self, sheet: Sheet, axis: SizeAxis) -> None:
        """Write each series at the left end of its curve, its knee below its name."""
        low, high = (math.log(limit) for limit in self.limits)
        ends = [TOP_IN + PANEL_IN * (high - self._left_end(one, low)) / (high - low) for one in self.series]
        places = avoid_overlap(ends, [text_height(sheet.size, 2) + 0.03] * len(ends), TOP_IN - 0.1, TOP_IN + PANEL_IN)
        left, room = axis.edge + 0.1, axis.left - axis.edge - 0.42
        for one, end, y in zip(self.series, ends, places, strict=True):
            fit = self.result.curves.fits[one.name]
            sheet.text(left, y - 0.08, shorten(self.names[one.name], room, sheet.size, True), bold=True)
            knee = f"knee {words.knee_text(fit, tick=True)}" if isinstance(fit, TwoRegimeCurve) else "no curve"
            sheet.text(left, y + 0.075, shorten(knee, room + 0.1, KNEE_PT), colour=palette.SOFT, size=KNEE_PT)
            x = axis.left - 0.14
            sheet.line([x - 0.2, x], [y - 0.04, end], self.styles[one.name].shade, 0.7)

    def _left_end(self, series: PageSizeSeries, fallback: float) -> float:
        """Return the log of a curve, or of its trials where it does not reach that far, at the axis's left end."""
        fit, size = self.result.curves.fits[series.name], min(series.arms)
        if isinstance(fit, TwoRegimeCurve) and fit.sizes_b[0] <= size:
            return math.log(self._scaled(fit.rate_at(size).value, size))
        own = self.result.values.loc[self.result.values["treatment"] == series.arms[size], "value"]
        median = float(own[own > 0].median())
        return math.log(self._scaled(median, size)) if median > 0 else fallback

    @property
    def caption(self) -> str:
        """The size from which on the network is the limit, or the other limit."""
        return words.bandwidth_headline(self.result) if self.by_bytes else words.headline(self.result)

    @property
    def help(self) -> str:
        """How the figure is read."""
        resources = "; ".join(f"{letter} {noun}" for letter, noun in BOTTLENECK_NAMES.items())
        text = (
            "One hollow mark per trial; line: the fit of 1 / rate = cost per request + bytes × cost per byte, with its "
            f"{self.result.curves.level * 100:g}{NBSP}% band; upright tick: the knee, where both costs are equal, with "
            "its interval. Amber: the bandwidth ceiling, bytes of pages alone. Letters: the resource that was "
            f"full by the traces: {resources}; {NOTHING_FULL} nothing watched was full"
        )
        letters = {bottleneck_letter(self.result, arm) for one in self.series for arm in one.arms.values()}
        text += f"; {NOT_MONITORED} not watched." if NOT_MONITORED in letters else "."
        if not self.usable.all():
            text += " ×: a trial that does not count."
        return text + (f" {tier_ratios.tier_help()}" if self.result.tiers and not self.by_bytes else "")

    @property
    def alt_text(self) -> str:
        """The caption and every curve's numbers in words."""
        curves = " ".join(f"{name}{words.curve_sentence(fit)}" for name, fit in self.result.curves.fits.items())
        trials = pluralize(int(self.usable.sum()), "trial")
        quantity = "bytes" if self.by_bytes else "responses"
        return f"Page size against {quantity} per second, {trials}. {self.caption} {curves}"


def bandwidth_ceiling(result: PageSizeResult) -> tuple[float, str] | None:
    """Return the ceiling in bytes per second and its name: the link's, else the highest that a curve approaches."""
    if result.link_bytes_per_s:
        return result.link_bytes_per_s, f"link, {words.bandwidth_text(result.link_bytes_per_s)}"
    fitted = [c.ceiling_bytes_per_s.value for c in result.curves.curves.values() if c.visible_regime != "request"]
    return (max(fitted), f"fitted ceiling, {words.bandwidth_text(max(fitted))}") if fitted else None
