"""Nodes, the parts of a report's blocks, and functions that write them as HTML, as plain text and as Markdown.

Strings from hosts, tools and studies are treated as hostile: they are escaped and stripped of control characters here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from loadbook.core.text import clean as clean_text
from loadbook.report.palette import notebook_style

if TYPE_CHECKING:
    from loadbook.report.figures.base import ReportFigure

DASH = "–"


class Node:
    """Base class of the parts of a block."""


Content = Node | str | None  # content of a node; None is left out


class Element(Node):
    """A node that contains other nodes; `css` is its class in the stylesheet."""

    def __init__(self, *children: Content, css: str = "") -> None:
        self.children, self.css = children, css


class Strong(Element):
    """Emphasised text."""


class Code(Element):
    """Text to type or a name in code, in a fixed-width font."""


class Span(Element):
    """A part of a line with its own style."""


class Paragraph(Element):
    """A paragraph."""


class Preformatted(Element):
    """Lines of a file, in a fixed-width font with their line breaks."""


class Group(Element):
    """A sequence of nodes without a box."""


class Division(Element):
    """A box with nodes; `anchor` is its name as the target of links."""

    def __init__(self, *children: Content, css: str = "", anchor: str = "") -> None:
        super().__init__(*children, css=css)
        self.anchor = anchor


class HtmlOnly(Element):
    """Nodes that are written in HTML only."""


class TextOnly(Element):
    """Nodes that are written in plain text and Markdown only."""


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
    """A list; in plain text each item begins with `bullet`."""

    def __init__(self, items: Iterable[Content], css: str = "", bullet: str = "- ") -> None:
        super().__init__(*items, css=css)
        self.bullet = bullet


class Details(Element):
    """Nodes that HTML shows after a click on their summary, or that a click hides if they are open."""

    def __init__(self, summary: str, *children: Content, is_open: bool = False) -> None:
        super().__init__(*children)
        self.summary, self.is_open = summary, is_open


@dataclass(frozen=True)
class Definitions(Node):
    """A list of (name, value) pairs."""

    pairs: Sequence[tuple[str, Content]]


@dataclass(frozen=True)
class VerdictCell(Node):
    """A verdict in a table cell: glyph and word in the verdict's colour."""

    css_class: str
    glyph: str
    word: str

    def __str__(self) -> str:
        return f"{self.glyph} {self.word}"


@dataclass(frozen=True)
class Column:
    """A table column: head (with unit), alignment of its cells, and `wrap` for cells with sentences."""

    header: str
    numeric: bool = False
    wrap: bool = False


@dataclass(frozen=True)
class Table(Node):
    """A table of texts and nodes; `ruled_rows` are the positions (from 0) of rows with a line above them.

    `name` is for screen readers, `caption` is visible, `css` is a class in the stylesheet. Raises ValueError if a row
    has not one cell for each column.
    """

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
    """A figure with its caption, help and alternative text; it is drawn when the block is written as HTML."""

    figure: ReportFigure


class Stylesheet(Node):
    """The stylesheet, in the first block of each notebook; exported pages have it in their head instead."""


_TAGS: dict[type[Element], str] = {
    Strong: "b", Code: "code", Span: "span", Paragraph: "p", Preformatted: "pre", Division: "div",
}  # fmt: skip
_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~])")


def clean(value: Any) -> Any:
    """Return a text without control characters; other values, and HTML that loadbook wrote, are returned unchanged."""
    return clean_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def to_html(node: Content) -> Markup:
    """Return a node as HTML; all strings are escaped except HTML that loadbook wrote (`Markup`)."""
    match node:
        case None | TextOnly():
            return Markup("")
        case Table():
            return _table_html(node)
        case Group() | HtmlOnly():
            return _join(to_html, node.children)
        case Stylesheet():
            return Markup(notebook_style())  # noqa: S704 - a file of loadbook
        case Break():
            return Markup("<br>")
        case VerdictCell():
            return _tag("span", escape(clean(str(node))), {"class": f"v {node.css_class}"})
        case Heading():
            return _tag(f"h{node.level}", _join(to_html, node.children))
        case Link():
            return _tag("a", _join(to_html, node.children), {"class": node.css, "href": node.href})
        case BulletList():
            items = Markup("\n").join(_tag("li", to_html(item)) for item in node.children)
            return _tag("ul", Markup("\n{}\n").format(items), {"class": node.css})
        case Details():
            summary = _tag("summary", to_html(node.summary))
            inside = Markup("{}\n{}\n").format(summary, _join(to_html, node.children))
            return _tag("details", inside, {"open": "open" if node.is_open else ""})
        case Definitions():
            rows = (_tag("dt", to_html(name)) + _tag("dd", to_html(value)) for name, value in node.pairs)
            return _tag("dl", Markup("\n").join(rows), {"class": "facts"})
        case Picture():
            return _picture_html(node.figure)
        case Element():
            anchor = node.anchor if isinstance(node, Division) else ""
            return _tag(_TAGS[type(node)], _join(to_html, node.children), {"id": anchor, "class": node.css})
        case _:
            return escape(clean(node))


def _tag(name: str, inside: Markup, attributes: dict[str, str] | None = None) -> Markup:
    given = Markup("").join(
        Markup(' {}="{}"').format(key, clean(value)) for key, value in (attributes or {}).items() if value
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, given, inside)


def _join(write: Callable[[Content], Any], children: Iterable[Content]) -> Any:
    """Join written nodes: parts of a line directly, other nodes line by line, headings after an empty line."""
    joined, above = write(None), None
    for child in (one for one in children if one is not None):
        part = write(child)
        if not part:
            continue
        if above is not None and not (_is_inline(child) and _is_inline(above)):
            joined += "\n\n" if isinstance(child, Heading) or write is to_markdown else "\n"
        joined += part
        above = child
    return joined


def _is_inline(node: Content) -> bool:
    if isinstance(node, Group | HtmlOnly | TextOnly):
        return all(map(_is_inline, node.children))
    return node is None or isinstance(node, Strong | Code | Span | Link | Break | VerdictCell | str)


def _table_html(table: Table) -> Markup:
    heads = (_tag("th", to_html(c.header), {"scope": "col", "class": "n" if c.numeric else ""}) for c in table.columns)
    rows = []
    for number, (first, *others) in enumerate(table.rows):
        cells = [_tag("th", to_html(first), {"scope": "row"})]
        for column, cell in zip(table.columns[1:], others, strict=True):
            css = "n" if column.numeric else "wrap" if column.wrap else ""
            cells.append(_tag("td", to_html(cell), {"class": css, "data-name": column.header if table.css else ""}))
        rows.append(_tag("tr", Markup("").join(cells), {"class": "rule" if number in table.ruled_rows else ""}))
    caption = _tag("caption", to_html(table.caption)) + "\n" if table.caption else ""
    body = Markup("\n{}<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>").format(
        caption, Markup("").join(heads), Markup("\n").join(rows)
    )
    region = {"class": f"scroll {table.css}".strip(), "tabindex": "0", "role": "region", "aria-label": table.name}
    return _tag("div", _tag("table", body), region)


def _picture_html(figure: ReportFigure) -> Markup:
    from loadbook.report.figures.svg import svg_data_uri  # imports matplotlib

    sheet = figure.drawing()
    source = Markup(svg_data_uri(sheet.figure))  # noqa: S704 - percent-encoded
    areas = (
        Markup(
            '<span aria-hidden="true" title="{}" style="left:{:.2f}%;top:{:.2f}%;width:{:.2f}%;height:{:.2f}%"></span>'
        ).format(clean(area.text), area.left, area.top, area.width, area.height)
        for area in sheet.hover_areas
    )
    return Markup(
        '<figure>\n{}<div class="scroll" tabindex="0" role="region" aria-label="Figure"><div class="picture">\n'
        '<img src="{}" alt="{}">\n{}\n</div></div>\n<figcaption><b>{}</b> {}</figcaption>\n</figure>'
    ).format(
        figure.rows_html(), source, clean(figure.alt_text), Markup("").join(areas),
        clean(figure.caption), clean(figure.help),
    )  # fmt: skip


def to_text(node: Content) -> str:
    """Return a node as plain text, tables with aligned columns."""
    match node:
        case None | HtmlOnly() | Stylesheet() | Markup():
            return ""
        case Table():
            return _table_text(node)
        case BulletList():
            return "\n".join(node.bullet + to_text(item) for item in node.children if item is not None)
        case Definitions():
            return "\n".join(f"{name}: {to_text(value)}" for name, value in node.pairs)
        case Break():
            return "\n"
        case Picture():
            return str(clean(f"{node.figure.caption}\n{node.figure.alt_text}"))
        case Element():
            return str(_join(to_text, node.children))
        case _:
            return str(clean(str(node)))


def _table_text(table: Table) -> str:
    cells = [[to_text(cell).replace("\n", " ") for cell in row] for row in table.rows]
    lines = [[str(clean(column.header)) for column in table.columns], *cells]
    for k, column in enumerate(table.columns):
        width = max(len(line[k]) for line in lines)
        for line in lines:
            line[k] = line[k].rjust(width) if column.numeric else line[k].ljust(width)
    return "\n".join(map("  ".join, lines))


def to_markdown(node: Content) -> str:
    """Return a node as GitHub Markdown; a picture becomes its caption and alternative text."""
    match node:
        case None | HtmlOnly() | Stylesheet() | Markup():
            return ""
        case Table():
            rows = [[_cell_markdown(cell) for cell in row] for row in ([c.header for c in node.columns], *node.rows)]
            rule = ["---:" if column.numeric else "---" for column in node.columns]
            return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))
        case Strong():
            return f"**{_join(to_markdown, node.children)}**"
        case Code():
            return f"`{to_text(node).replace('`', '')}`"
        case Preformatted():
            return "\n".join(f"    {line}" for line in to_text(node).splitlines())
        case Heading():
            return f"{'#' * node.level} {_join(to_markdown, node.children)}"
        case Link():
            return f"[{_join(to_markdown, node.children)}]({node.href})"
        case BulletList():
            return "\n".join(f"- {_cell_markdown(item)}" for item in node.children if item is not None)
        case Details():
            return f"**{_escape_markdown(node.summary)}**\n\n{_join(to_markdown, node.children)}"
        case Definitions():
            return "\n".join(f"- {_escape_markdown(name)}: {_cell_markdown(value)}" for name, value in node.pairs)
        case Break():
            return "  \n"
        case Picture():
            figure = node.figure
            about = " ".join(filter(None, figure.description))
            return "**{}** {}\n\n{}".format(*map(_escape_markdown, (figure.caption, figure.help, about)))
        case Element():
            return str(_join(to_markdown, node.children))
        case _:
            return _escape_markdown(str(node))


def _cell_markdown(cell: Any) -> str:
    return " ".join(to_markdown(cell).split())


def _escape_markdown(text: str) -> str:
    return _MARKDOWN_SPECIAL.sub(r"\\\1", str(clean(text)).replace("&", "&amp;").replace("<", "&lt;"))
