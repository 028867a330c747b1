"""The axis of page sizes, the marks of each treatment, and the labels and letters along it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from loadbook.analyses.page_size import text as words
from loadbook.analyses.page_size.compute import PageSizeResult, PageSizeSeries, TwoRegimeCurve
from loadbook.analyses.page_size.text import tick_text
from loadbook.report import palette
from loadbook.report.figures import axes as scales
from loadbook.report.figures.base import (
    Sheet,
    line_in,
    pushed_apart,
    shortened,
    text_width,
)
from loadbook.stats.saturation import BOTTLENECK_NAMES

SHADES = (palette.INK, palette.SOFT, palette.OTHERS, palette.RULE)
MARKERS = ("o", "s", "^", "D")
DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = ("-", (0, (1.2, 1.4)), (0, (5, 1.5)), (0, (3, 1, 1, 1)))


@dataclass(frozen=True)
class SizeAxis:
    """A log axis: sizes `first` and `last` (bytes) lie at `left` and `right` inches of panels that begin at `edge`."""

    first: float
    last: float
    edge: float
    left: float
    right: float

    @property
    def octave_in(self) -> float:
        """Inches between a size and its double."""
        return (self.right - self.left) / max(1.0, math.log2(self.last / self.first))

    def at(self, size_b: float) -> float:
        """Return where a size lies on the axis: octaves above the first."""
        return math.log2(size_b / self.first)

    def inch(self, size_b: float) -> float:
        """Return where a size lies in inches of the sheet."""
        return self.left + self.octave_in * self.at(size_b)

    def panel(self, sheet: Sheet, top: float, bottom: float, air: float) -> Axes:
        """Return axes over this axis, from its edge to `air` inches beyond the last size."""
        axes = sheet.panel(self.edge, top, self.right + air, bottom)
        axes.set_xlim((self.edge - self.left) / self.octave_in, self.at(self.last) + air / self.octave_in)
        return axes

    def write(self, axes: Axes, sizes: Sequence[int], letters: float) -> None:
        """Write the sizes below a panel: the ends first, then those that fit."""
        order = [*dict.fromkeys([sizes[0], sizes[-1], *sizes[::-1]])]
        placed = [(self.at(size), tick_text(size)) for size in order]
        before = self.left - self.edge
        kept = scales.fit(placed, lambda at: before + at * self.octave_in, letters, self.right - self.edge + 0.3)
        scales.set_ticks(axes.xaxis, [placed[k][0] for k in kept], [placed[k][1] for k in kept])


@dataclass(frozen=True)
class Look:
    """How one series is drawn: `style` of its marks, `dash` of its line, `order` among those that share its shade."""

    style: palette.VerdictStyle
    dash: str | tuple[int, tuple[float, ...]]
    order: int

    @property
    def shade(self) -> str:
        """The colour of marks and line: a shade of ink, as no verdict is drawn."""
        return self.style.fill


def looks(found: PageSizeResult) -> dict[str, Look]:
    """Return series -> its look: shade and marker tell the front (the last one is darkest), dashes the tier."""
    fronts = list(dict.fromkeys(front_of(found, one) for one in found.curves.series))[::-1]
    given: dict[str, Look] = {}
    for one in found.curves.series:
        front = fronts.index(front_of(found, one))
        order = sum(look.style.fill == SHADES[front % 4] for look in given.values())
        style = palette.VerdictStyle(SHADES[front % 4], SHADES[front % 4], "", MARKERS[front % 4], hollow=True)
        given[one.name] = Look(style, DASHES[order % 4], order)
    return given


def front_of(found: PageSizeResult, series: PageSizeSeries) -> tuple[object, ...]:
    """Return the levels of a series without that of its tier: what stands in front of it."""
    tier = found.tiers.factor if found.tiers else None
    return tuple(level for name, level in series.levels.items() if name != tier)


STRIP_IN, KNEE_PT = 0.185, 8.4
NOTHING, UNWATCHED = "–", "?"
AMBER = ("N", "D")  # the ceiling's colour, and the tool's fault


def draw_labels(
    sheet: Sheet, axis: SizeAxis, names: dict[str, str], given: dict[str, Look], found: PageSizeResult,
    per: Callable[[float], float], limits: tuple[float, float], top: float, height: float,
) -> None:  # fmt: skip
    """Write each series at the left end of its curve, its knee below its name."""
    low, high = (math.log(limit) for limit in limits)
    wanted = [top + height * (high - _left_end(found, one, per, low)) / (high - low) for one in found.curves.series]
    boxes = [line_in(sheet.size, 2) + 0.03] * len(wanted)
    places = pushed_apart(wanted, boxes, top - 0.1, top + height)
    left, room = axis.edge + 0.1, axis.left - axis.edge - 0.42
    for one, at, y in zip(found.curves.series, wanted, places, strict=True):
        look, fit = given[one.name], found.curves.fits[one.name]
        name = shortened(names[one.name], room, sheet.size, True)
        sheet.text(left, y - 0.08, name, bold=True, colour=palette.INK)
        knee = f"knee {words.knee_text(fit, tick=True)}" if isinstance(fit, TwoRegimeCurve) else "no curve"
        sheet.text(left, y + 0.075, shortened(knee, room + 0.1, KNEE_PT), colour=palette.SOFT, size=KNEE_PT)
        end = axis.left - 0.14
        sheet.line([end - 0.2, end], [y - 0.04, at], look.shade, 0.7)


def _left_end(found: PageSizeResult, series: PageSizeSeries, per: Callable[[float], float], otherwise: float) -> float:
    """Return the log of a curve, or of its trials where it does not reach that far, at the axis's left end."""
    fit, size = found.curves.fits[series.name], min(series.arms)
    if isinstance(fit, TwoRegimeCurve) and fit.sizes_b[0] <= size:
        return math.log(fit.rate_at(size).value * per(size))
    own = found.values.loc[found.values["treatment"] == series.arms[size], "value"]
    middle = float(own[own > 0].median())
    return math.log(middle * per(size)) if middle > 0 else otherwise


def draw_key(sheet: Sheet, names: dict[str, str], given: dict[str, Look], found: PageSizeResult) -> None:
    """Write the series above the panel, one a line, where labels have no room beside the curves."""
    for k, one in enumerate(found.curves.series):
        y, fit, look = 0.37 + k * line_in(8.6), found.curves.fits[one.name], given[one.name]
        _sample(sheet, 0.05, 0.35, y, look)
        knee = f"  knee {words.knee_text(fit, tick=True)}" if isinstance(fit, TwoRegimeCurve) else "  no curve"
        name = shortened(names[one.name], sheet.width - 0.55 - text_width(knee, 7.6), 8.2, True)
        sheet.text(0.45, y, name, bold=True, size=8.2)
        sheet.text(0.45 + text_width(name, 8.2, True), y, knee, size=7.6, colour=palette.SOFT)


def draw_strip(
    sheet: Sheet, axis: SizeAxis, names: dict[str, str], given: dict[str, Look], found: PageSizeResult, top: float
) -> None:  # fmt: skip
    """Write one letter per size and series: what the traces name as the bottleneck."""
    sheet.text(0.05, top - 0.13, "full:" if sheet.narrow else "full, by the traces:", size=8.2, colour=palette.SOFT)
    for k, one in enumerate(found.curves.series):
        y = top + 0.1 + k * STRIP_IN
        if k % 2 == 0:
            sheet.box(0.02, y - STRIP_IN / 2, sheet.width - 0.02, y + STRIP_IN / 2, palette.TINT)
        _sample(sheet, 0.06, 0.32, y, given[one.name])
        if not sheet.narrow:
            name = shortened(names[one.name], axis.left - 0.65, 8.4)
            sheet.text(0.4, y, name, size=8.4, colour=palette.SOFT)
        for size, arm in one.arms.items():
            letter = letter_of(found, arm)
            colour = (
                palette.DOUBT_TEXT if letter in AMBER else palette.INK if letter in BOTTLENECK_NAMES else palette.SOFT
            )
            if letter in AMBER:
                at, half = axis.inch(size), min(0.11, axis.octave_in / 2 - 0.01)
                sheet.box(at - half, y - 0.08, at + half, y + 0.08, palette.DOUBT_BOX)
            sheet.text(
                axis.inch(size), y, letter, bold=letter in BOTTLENECK_NAMES, colour=colour, at="center", size=8.6
            )


def _sample(sheet: Sheet, left: float, right: float, y: float, look: Look) -> None:
    """Draw a piece of a series' line with its mark."""
    dotted = np.arange(left, right, 0.05) if look.order else [left]
    for x in dotted:
        sheet.line([x, x + 0.025 if look.order else right], [y, y], look.shade, 1.4)
    sheet.mark((left + right) / 2, y, look.style, 4.8)


def letter_of(found: PageSizeResult, treatment: str) -> str:
    """Return the letter of what limited a treatment; a dash where nothing watched was full, ? where nobody watched."""
    return (found.bottlenecks[treatment] or NOTHING) if treatment in found.bottlenecks else UNWATCHED


TICKS_IN, AIR_IN, PANEL_IN = 0.62, 0.22, 2.75
