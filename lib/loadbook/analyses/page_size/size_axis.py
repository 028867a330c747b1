"""The axis of page sizes that all panels of the figure share, the style of each series, and the bottleneck letters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from loadbook.analyses.page_size.compute import PageSizeResult, PageSizeSeries
from loadbook.analyses.page_size.text import tick_text
from loadbook.report import palette
from loadbook.report.figures import axes as scales
from loadbook.report.figures.base import Sheet, shorten
from loadbook.stats.saturation import BOTTLENECK_NAMES

SHADES = (palette.INK, palette.SOFT, palette.OTHERS, palette.RULE)
MARKERS = ("o", "s", "^", "D")
Dashes = str | tuple[int, tuple[float, ...]]
DASHES: tuple[Dashes, ...] = ("-", (0, (1.2, 1.4)), (0, (5, 1.5)), (0, (3, 1, 1, 1)))
STRIP_IN, TICKS_IN, PADDING_IN = 0.185, 0.62, 0.22
NOTHING_FULL, NOT_MONITORED = "–", "?"
DOUBTFUL_LETTERS = ("N", "D")  # the network, drawn in the ceiling's colour, and the driver


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

    def position(self, size_b: float) -> float:
        """Return the position of a size on the axis: octaves above the first size."""
        return math.log2(size_b / self.first)

    def to_inches(self, size_b: float) -> float:
        """Return the position of a size in inches of the sheet."""
        return self.left + self.octave_in * self.position(size_b)

    def panel(self, sheet: Sheet, top: float, bottom: float) -> Axes:
        """Return axes over this axis, from its edge to somewhat beyond the last size."""
        axes = sheet.panel(self.edge, top, self.right + PADDING_IN, bottom)
        end = self.position(self.last) + PADDING_IN / self.octave_in
        axes.set_xlim((self.edge - self.left) / self.octave_in, end)
        return axes

    def write_sizes(self, axes: Axes, sizes: Sequence[int], letter_pt: float) -> None:
        """Write the sizes below a panel: the ends first, then those that fit."""
        order = [*dict.fromkeys([sizes[0], sizes[-1], *sizes[::-1]])]
        labels = [(self.position(size), tick_text(size)) for size in order]
        width = self.right - self.edge + 0.3
        fitting = scales.fitting_labels(
            labels, lambda at: self.left - self.edge + at * self.octave_in, letter_pt, width
        )
        scales.set_ticks(axes.xaxis, [labels[k][0] for k in fitting], [labels[k][1] for k in fitting])


@dataclass(frozen=True)
class SeriesStyle:
    """How one series is drawn: its marker, its line, and its `order` among those that share its shade."""

    marker: palette.VerdictStyle
    dashes: Dashes
    order: int

    @property
    def shade(self) -> str:
        """The colour of markers and line: a shade of ink, as no verdict is drawn."""
        return self.marker.fill


def series_styles(result: PageSizeResult) -> dict[str, SeriesStyle]:
    """Return series -> style: shade and marker stand for the front (the last one is darkest), dashes for the tier."""
    fronts = list(dict.fromkeys(front_of(result, series) for series in result.curves.series))[::-1]
    styles: dict[str, SeriesStyle] = {}
    for series in result.curves.series:
        front = fronts.index(front_of(result, series)) % 4
        order = sum(style.shade == SHADES[front] for style in styles.values())
        marker = palette.VerdictStyle(SHADES[front], SHADES[front], "", MARKERS[front], hollow=True)
        styles[series.name] = SeriesStyle(marker, DASHES[order % 4], order)
    return styles


def front_of(result: PageSizeResult, series: PageSizeSeries) -> tuple[object, ...]:
    """Return the front of a series: its levels without that of its web tier."""
    tier = result.tiers.factor if result.tiers else None
    return tuple(level for name, level in series.levels.items() if name != tier)


def draw_bottlenecks(
    sheet: Sheet, axis: SizeAxis, names: dict[str, str], styles: dict[str, SeriesStyle], result: PageSizeResult,
    top: float,
) -> None:  # fmt: skip
    """Write one letter per size and series: the bottleneck by the host metrics."""
    sheet.text(0.05, top - 0.13, "full, by the traces:", size=8.2, colour=palette.SOFT)
    for k, series in enumerate(result.curves.series):
        y = top + 0.1 + k * STRIP_IN
        if k % 2 == 0:
            sheet.box(0.02, y - STRIP_IN / 2, sheet.width - 0.02, y + STRIP_IN / 2, palette.TINT)
        _draw_sample(sheet, 0.06, 0.32, y, styles[series.name])
        name = shorten(names[series.name], axis.left - 0.65, 8.4)
        sheet.text(0.4, y, name, size=8.4, colour=palette.SOFT)
        for size, treatment in series.arms.items():
            x, letter = axis.to_inches(size), bottleneck_letter(result, treatment)
            is_resource = letter in BOTTLENECK_NAMES
            colour = palette.INK if is_resource else palette.SOFT
            if letter in DOUBTFUL_LETTERS:
                colour, half = palette.DOUBT_TEXT, min(0.11, axis.octave_in / 2 - 0.01)
                sheet.box(x - half, y - 0.08, x + half, y + 0.08, palette.DOUBT_BOX)
            sheet.text(x, y, letter, bold=is_resource, colour=colour, align="center", size=8.6)


def _draw_sample(sheet: Sheet, left: float, right: float, y: float, style: SeriesStyle) -> None:
    """Draw a piece of a series' line with its marker."""
    for x in np.arange(left, right, 0.05) if style.order else [left]:
        sheet.line([x, x + 0.025 if style.order else right], [y, y], style.shade, 1.4)
    sheet.marker((left + right) / 2, y, style.marker, 4.8)


def bottleneck_letter(result: PageSizeResult, treatment: str) -> str:
    """Return the letter of a treatment's bottleneck; – where nothing monitored was full, ? without a monitor."""
    if treatment not in result.bottlenecks:
        return NOT_MONITORED
    return result.bottlenecks[treatment] or NOTHING_FULL
