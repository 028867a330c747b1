"""The layout of figures that consist of rows: names at the left, panels in the middle, columns of text at the right.

All panels share one y axis, which counts downwards, about one unit for each inch. matplotlib's constrained layout finds
the widths of the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import NullLocator

from loadbook.report import palette
from loadbook.report.figures import base

ROW_IN, LINE_IN, TITLE_IN = 0.34, 0.165, 0.3
HEAD_IN, FOOT_IN = 0.3, 0.62
TEXT_COLUMN = 0.001  # relative width of a column whose texts find their room by the layout
HEAD_GAP_PT, GAP_PT = 5.0, 9.0


@dataclass(frozen=True)
class Cell:
    """A text, in lines that are broken already, and a smaller note below it."""

    text: str
    note: str = ""
    bold: bool = False
    colour: str = palette.INK
    note_colour: str = palette.SOFT
    size: float = base.LETTER_PT

    @property
    def lines(self) -> int:
        """The number of lines of text and note."""
        return base.line_count(self.text) + base.line_count(self.note)


@dataclass(frozen=True)
class Row:
    """The cells of one row, what draws its marks, its hover text, and its smallest height in inches.

    `draw` is called with the panels and the y value of the row's middle. A title has only a name.
    """

    name: Cell
    cells: tuple[Cell, ...] = ()
    draw: Callable[[Sequence[Axes], float], None] | None = None
    hover: str = ""
    least_in: float = ROW_IN
    is_title: bool = False

    @property
    def height(self) -> float:
        """The height in inches."""
        if self.is_title:
            return TITLE_IN
        return max(self.least_in, LINE_IN * max(cell.lines for cell in (self.name, *self.cells)) + 0.09)


class RowsDrawing(base.Drawing):
    """A figure with these rows; `panels` are its axes, `middles` the y value of the middle of each row.

    Parameters
    ----------
    heads : the heads of the columns of text, one for each cell of a row.
    side_in : inches at the right that are left to the sub-figure `side`.
    least_in : the smallest height of the figure, in inches.
    key_in : height in inches that is left to a key outside of the panels.
    widths : the relative widths of the panels.
    head_lines : the number of lines above the panels.
    """

    def __init__(
        self, rows: Sequence[Row], heads: Sequence[str], widths: Sequence[float] = (1.0,), head_lines: int = 1,
        side_in: float = 0.0, least_in: float = 0.0, key_in: float = 0.0,
    ) -> None:  # fmt: skip
        self.rows, edge = rows, 0.0
        self.middles, self.tops = list[float](), list[float]()
        for row in rows:
            self.tops.append(edge)
            self.middles.append(edge + row.height / 2)
            edge += row.height
        self.bottom = edge
        super().__init__(max(least_in, edge + FOOT_IN + LINE_IN * head_lines + HEAD_IN - LINE_IN + key_in))
        figure: Figure | SubFigure = self.figure
        if side_in:
            parts: Any = self.figure.subfigures(1, 2, width_ratios=(base.WIDTH_IN - side_in, side_in))
            figure, self.side = parts
        ratios = [*widths, *[TEXT_COLUMN] * len(heads)]
        grid: Any = figure.subplots(1, len(ratios), sharey=True, squeeze=False, width_ratios=ratios)[0]
        self.panels: list[Axes] = list(grid[: len(widths)])
        columns: list[Axes] = list(grid[len(widths) :])
        self.panels[0].set_ylim(max(edge, 0.1), 0)
        self.panels[0].yaxis.set_major_locator(NullLocator())
        for axes, head in zip(columns, heads, strict=True):
            axes.set_axis_off()
            write_above(axes, 0, head, offset=GAP_PT)
        for row, middle in zip(rows, self.middles, strict=True):
            self._write(self.panels[0], row.name, middle, -GAP_PT)
            for axes, cell in zip(columns, row.cells, strict=False):
                self._write(axes, cell, middle, GAP_PT)
        for number, row in enumerate(rows):
            if row.draw:
                row.draw(self.panels, self.middles[number])
            if row.is_title:
                self.panels[0].axhline(self.tops[number] + row.height, color=palette.RULE, linewidth=0.8)

    def _write(self, axes: Axes, cell: Cell, y: float, offset: float) -> None:
        """Write a cell at the left (`offset` below 0) or right of a panel's left edge, `offset` points from it."""
        upper, lower = base.line_count(cell.text), base.line_count(cell.note)
        shift = 36 * LINE_IN * (lower - upper) if lower else 0.0  # text and note together have their middle at y
        first = ("bottom", shift + 0.5) if lower else ("center", 0.0)
        parts = (
            (cell.text, cell.size, cell.colour, cell.bold, *first),
            (cell.note, base.SMALL_PT, cell.note_colour, False, "top", shift - 1.0),
        )
        for text, size, colour, bold, align, up in filter(itemgetter(0), parts):
            axes.annotate(
                text, (0, y), (offset, up), xycoords=("axes fraction", "data"), textcoords="offset points", size=size,
                va=align, ha="right" if offset < 0 else "left", color=colour, weight="bold" if bold else "normal",
            )  # fmt: skip

    def finish(self) -> None:
        """Compute the layout, and add a hover area to each row that has a hover text."""
        super().finish()
        for number, row in enumerate(self.rows):
            if row.hover:
                self.hover(self.panels[-1], (0, 1), (self.tops[number], self.tops[number] + row.height), row.hover)


def write_above(axes: Axes, x: float, text: str, *, line: int = 1, offset: float = 0.0, **style: Any) -> None:
    """Write a text above a panel at a fraction `x` of its width, in a line counted upwards from the panel.

    The lowest `line` is 1. `offset` shifts the text to the right, in points; `style` is passed to `Axes.annotate`.
    """
    at = (offset, HEAD_GAP_PT + (line - 1) * LINE_IN * 72)
    props: dict[str, Any] = {"size": base.SMALL_PT, "color": palette.SOFT, "va": "bottom", "ha": "left"} | style
    axes.annotate(text, (x, 1), at, xycoords="axes fraction", textcoords="offset points", **props)
