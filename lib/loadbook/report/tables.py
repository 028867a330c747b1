"""Tables of a page: cells as text, escaped in one place, numbers right, the verdict in the second column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from loadbook.core.metrics import get_metric
from loadbook.report import palette
from loadbook.report.blocks import render
from loadbook.stats.result import AnalysisRow

DASH = "–"


@dataclass(frozen=True)
class Column:
    """A column's head (with its unit) and how its cells are set; `wrap` is for sentences."""

    header: str
    numeric: bool = False
    wrap: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns; `ruled_rows` are the positions of rows with a line above them."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    ruled_rows: frozenset[int] = field(default_factory=frozenset)
    caption: str = ""


@dataclass(frozen=True)
class VerdictCell:
    """A verdict as readers meet it: glyph before the word, both in the verdict's colour."""

    css_class: str
    glyph: str
    word: str

    def __html__(self) -> str:
        return str(render("said.html.j2", verdict=self))

    def __str__(self) -> str:
        return f"{self.glyph} {self.word}"


def verdict_cell(row: AnalysisRow, metric: str) -> VerdictCell | str:
    """Return the verdict cell of a row; the baseline has none."""
    if row.kind == "baseline":
        return "(reference)"
    kind = row.verdict.kind if row.verdict and row.kind == "treatment" else "check"
    return VerdictCell(f"v-{kind}", palette.row_glyph(row), palette.row_word(row, get_metric(metric)))


def table_markup(table: Table) -> Markup:
    """Return a table as markup; every cell is escaped unless it is markup of ours."""
    for row in table.rows:
        if len(row) != len(table.columns):
            raise ValueError(f"table {table.name!r}: a row of {len(row)} cells under {len(table.columns)} columns")
    return render("table.html.j2", table=table)


def table_text(table: Table) -> str:
    """Return a table as text, columns aligned, for terminals and diffs."""
    lines = [[c.header for c in table.columns], *[[str(cell) for cell in row] for row in table.rows]]
    widths = [max(len(line[k]) for line in lines) for k in range(len(table.columns))]
    return "\n".join("  ".join(map(_align_cell, table.columns, widths, line)) for line in lines)


def _align_cell(column: Column, width: int, text: str) -> str:
    return text.rjust(width) if column.numeric else text.ljust(width)
