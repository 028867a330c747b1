"""Blocks as HTML, as plain text and as Markdown; the stylesheet of all pages.

Every string that comes from a host, a tool or a study is hostile: it is escaped and loses its control characters here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from loadbook.core.text import clean as clean_text
from loadbook.report import palette
from loadbook.report.nodes import (
    Break,
    BulletList,
    Code,
    Column,
    Content,
    Definitions,
    Details,
    Division,
    Element,
    Group,
    Heading,
    HtmlOnly,
    Link,
    Paragraph,
    Picture,
    Preformatted,
    Span,
    Strong,
    Stylesheet,
    Table,
    TextOnly,
    VerdictCell,
)

if TYPE_CHECKING:
    from loadbook.report.figures.base import ReportFigure

TEMPLATES_DIR = Path(__file__).parent / "templates"
_TAGS: dict[type[Element], str] = {
    Strong: "b", Code: "code", Span: "span", Paragraph: "p", Preformatted: "pre", Division: "div",
}  # fmt: skip
_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~])")


def clean(value: Any) -> Any:
    """Return text without control characters (see `core.text`); other values, and markup of ours, as they are."""
    return clean_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def to_html(node: Content) -> Markup:
    """Return a node as HTML; every string in it is escaped, except markup."""
    match node:
        case None | TextOnly():
            return Markup("")
        case Table():
            return _table_html(node)
        case Group() | HtmlOnly():
            return _join(to_html, node.children)
        case Stylesheet():
            return Markup(notebook_style())  # noqa: S704 - a file of ours
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
            summary = _tag("summary", escape(clean(node.summary)))
            inside = Markup("{}\n{}\n").format(summary, _join(to_html, node.children))
            return _tag("details", inside, {"class": node.css})
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
    """Join nodes: words of a line as they are, everything else line by line, a heading below an empty line."""
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
    head = Markup("").join(
        _tag("th", escape(clean(c.header)), {"scope": "col", "class": "n" if c.numeric else ""}) for c in table.columns
    )
    rows = Markup("\n").join(
        _tag("tr", _row_html(table, row), {"class": "rule" if number in table.ruled_rows else ""})
        for number, row in enumerate(table.rows)
    )
    caption = _tag("caption", escape(clean(table.caption))) + "\n" if table.caption else ""
    body = Markup("\n{}<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>").format(caption, head, rows)
    region = {"class": f"scroll {table.css}".strip(), "tabindex": "0", "role": "region", "aria-label": table.name}
    return _tag("div", _tag("table", body), region)


def _row_html(table: Table, row: Iterable[Any]) -> Markup:
    first, *others = row
    cells = [_tag("th", to_html(first), {"scope": "row"})]
    for column, cell in zip(table.columns[1:], others, strict=True):
        css = "n" if column.numeric else "wrap" if column.wrap else ""
        cells.append(_tag("td", to_html(cell), {"class": css, "data-name": column.header if table.css else ""}))
    return Markup("").join(cells)


def _picture_html(figure: ReportFigure) -> Markup:
    from loadbook.report.svg import svg_data_uri  # imports matplotlib

    sheet = figure.draw_sheet()
    areas = (
        Markup(
            '<span aria-hidden="true" title="{}" style="left:{:.2f}%;top:{:.2f}%;width:{:.2f}%;height:{:.2f}%"></span>'
        ).format(clean(area.text), area.left, area.top, area.width, area.height)
        for area in sheet.hover_areas
    )
    return Markup(
        '<figure>\n<div class="scroll" tabindex="0" role="region" aria-label="Figure"><div class="picture">\n'
        '<img src="{}" alt="{}">\n{}\n</div></div>\n<figcaption><b>{}</b> {}</figcaption>\n</figure>'
    ).format(
        svg_data_uri(sheet.figure), clean(figure.alt_text), Markup("").join(areas), clean(figure.caption),
        clean(figure.help),
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
    lines = [[str(clean(c.header)) for c in table.columns], *cells]
    widths = [max(len(line[k]) for line in lines) for k in range(len(table.columns))]
    return "\n".join("  ".join(map(_align_cell, table.columns, widths, line)) for line in lines)


def _align_cell(column: Column, width: int, text: str) -> str:
    return text.rjust(width) if column.numeric else text.ljust(width)


def to_markdown(node: Content) -> str:
    """Return a node as Markdown (GitHub's, with tables); a picture is its caption and its words."""
    match node:
        case None | HtmlOnly() | Stylesheet() | Markup():
            return ""
        case Table():
            rows = [[_cell_markdown(cell) for cell in row] for row in table_rows(node)]
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
            numbers = figure.alt_text.removeprefix(figure.caption).strip()
            return "**{}** {}\n\n{}".format(*map(_escape_markdown, (figure.caption, figure.help, numbers)))
        case Element():
            return str(_join(to_markdown, node.children))
        case _:
            return _escape_markdown(str(node))


def table_rows(table: Table) -> list[list[Any]]:
    """Return the head and the rows of a table."""
    return [[column.header for column in table.columns], *map(list, table.rows)]


def _cell_markdown(cell: Any) -> str:
    return " ".join(to_markdown(cell).split())


def _escape_markdown(text: str) -> str:
    return _MARKDOWN_SPECIAL.sub(r"\\\1", str(clean(text)).replace("&", "&amp;").replace("<", "&lt;"))


@cache
def jinja_environment() -> Environment:
    """Return the jinja environment of whole pages: autoescape always, unknown names are errors."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES_DIR),
        autoescape=True,
        finalize=clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def fill_template(template: str, **values: Any) -> Markup:
    """Fill one of report/templates and return it as markup."""
    return Markup(jinja_environment().get_template(template).render(**values))  # noqa: S704 - autoescape made it safe


@cache
def stylesheet() -> str:
    """Return the style of all pages, the same in JupyterLab and in exported HTML; colours come from the palette."""
    names = {
        "paper": palette.BACKGROUND, "ink": palette.INK, "soft": palette.SOFT,
        "tint": palette.TINT, "grid": palette.GRID, "rule": palette.RULE,
        "link": palette.LINK, "doubt-box": palette.DOUBT_BOX, "doubt-text": palette.DOUBT_TEXT,
    }  # fmt: skip
    colours = "".join(f"--{name}: {colour}; " for name, colour in names.items())
    verdicts = "".join(
        f".lb .v-{kind} {{ color: {style.text}; }} .lb .bar-{kind} {{ --bar: {style.fill}; }}\n"
        for kind, style in palette.VERDICTS.items()
    )
    return f":root {{ {colours}}}\n" + (TEMPLATES_DIR / "report.css").read_text(encoding="utf-8") + verdicts


@cache
def page_stylesheet() -> str:
    """Return the style of exported pages: that of all pages, and dark colours where the reader prefers them.

    Figures keep their light ground: a picture does not know the reader's colours.
    """
    colours = "".join(f"--{name}: {colour}; " for name, colour in palette.DARK.items())
    verdicts = "".join(f".lb .v-{kind} {{ color: {style.dark_text}; }} " for kind, style in palette.VERDICTS.items())
    dark = f"html {{ color-scheme: dark; }} :root {{ {colours}}} {verdicts}.lb figure .picture {{ background: #fff; }}"
    return f"{stylesheet()}@media screen and (prefers-color-scheme: dark) {{ {dark} }}\n"


def notebook_style() -> str:
    """Return the style as an element for the first block of a notebook; exported pages have it in their head."""
    return f"<style data-notebook>\n{stylesheet()}</style>\n"
