"""The axis of page sizes that the panels of figure 6 share, and how its series look: shade and marker by the front."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from loadbook.analyses.page_size.compute import PageSizeResult, PageSizeSeries
from loadbook.analyses.page_size.text import tick_text
from loadbook.report import palette
from loadbook.report.figures import scales
from loadbook.report.figures.common import Sheet

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
