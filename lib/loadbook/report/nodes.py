"""The nodes of which a block of a report is made; `render` writes them as HTML, plain text and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadbook.report.figures.base import ReportFigure

DASH = "–"


class Node:
    """A part of a block."""


Content = Node | str | None  # what a node may hold; None is left out


class Element(Node):
    """A node that holds others; `css` is its class in the stylesheet."""

    def __init__(self, *children: Content, css: str = "") -> None:
        self.children, self.css = children, css


class Strong(Element):
    """Emphasised text."""


class Code(Element):
    """Text as it is typed."""


class Span(Element):
    """A part of a line with a style."""


class Paragraph(Element):
    """A paragraph."""


class Preformatted(Element):
    """Lines as they are in a file."""


class Group(Element):
    """Nodes in order, without a box."""


class Division(Element):
    """Nodes in a box; `anchor` is the target of links to it."""

    def __init__(self, *children: Content, css: str = "", anchor: str = "") -> None:
        super().__init__(*children, css=css)
        self.anchor = anchor


class HtmlOnly(Element):
    """Nodes that plain text and Markdown leave out."""


class TextOnly(Element):
    """Nodes that HTML leaves out."""


class Heading(Element):
    """A heading; the page's question has level 1."""

    def __init__(self, text: str, level: int = 3) -> None:
        super().__init__(text)
        self.level = level


class Link(Element):
    """A link to a place in the page or to a file beside it."""

    def __init__(self, text: str, href: str, css: str = "") -> None:
        super().__init__(text, css=css)
        self.href = href


class Break(Node):
    """The end of a line within a paragraph or a cell."""


class BulletList(Element):
    """A list of items; `bullet` begins each of them in plain text."""

    def __init__(self, items: Iterable[Content], css: str = "", bullet: str = "- ") -> None:
        super().__init__(*items, css=css)
        self.bullet = bullet


class Details(Element):
    """Nodes that HTML shows when their summary is clicked."""

    def __init__(self, summary: str, *children: Content, css: str = "") -> None:
        super().__init__(*children, css=css)
        self.summary = summary


@dataclass(frozen=True)
class Definitions(Node):
    """Pairs of a name and its value."""

    pairs: Sequence[tuple[str, Content]]


@dataclass(frozen=True)
class VerdictCell(Node):
    """A verdict: its glyph before its word, both in the verdict's colour."""

    css_class: str
    glyph: str
    word: str

    def __str__(self) -> str:
        return f"{self.glyph} {self.word}"


@dataclass(frozen=True)
class Column:
    """A column's head (with its unit) and how its cells are set; `wrap` is for sentences."""

    header: str
    numeric: bool = False
    wrap: bool = False


@dataclass(frozen=True)
class Table(Node):
    """Rows of cells under columns; `ruled_rows` are the positions of rows with a line above them."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    ruled_rows: frozenset[int] = field(default_factory=frozenset)
    caption: str = ""
    css: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.name!r}: a row of {len(row)} cells under {len(self.columns)} columns")


@dataclass(frozen=True)
class Picture(Node):
    """A figure with its caption and its words; it is drawn when the block is written as HTML."""

    figure: ReportFigure


class Stylesheet(Node):
    """The stylesheet for notebooks, in the first block of each; exported pages have it in their head."""
