"""A piece of a report: a tree of nodes, which `render` writes as HTML, as plain text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from loadbook.core.metrics import get_metric
from loadbook.report import palette
from loadbook.report.palette import DOUBT_GLYPH, FAILED_GLYPH
from loadbook.stats.results import AnalysisRow, CheckState, RowKind

if TYPE_CHECKING:
    from loadbook.report.figures.base import ReportFigure

# marks in an output's data, read when the notebook is exported: put this section first; leave this section out
URGENT_MIME = "application/vnd.loadbook.urgent+json"
EMPTY_MIME = "application/vnd.loadbook.empty+json"
DASH = "–"


class Node:
    """A part of a block."""

    def __html__(self) -> str:
        from loadbook.report.render import to_html

        return str(to_html(self))


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
    """A part of a line with a style of its own."""


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


class Block(Node):
    """What a notebook cell shows; `data` adds further MIME types to the output (read by `report.notebooks`)."""

    def __init__(self, *content: Any, data: Mapping[str, Any] | None = None) -> None:
        if len(content) > 1 and type(content[0]) is str:  # the old form: HTML, text, data
            html, text, *more = content
            content, data = (HtmlOnly(Markup(html)), TextOnly(text)), more[0] if more else data  # noqa: S704
        self.content, self.data = content, data or {}

    @cached_property
    def html(self) -> str:
        """The block as HTML."""
        from loadbook.report.render import to_html

        return str(to_html(self))

    @cached_property
    def text(self) -> str:
        """The block as plain text, for terminals and diffs."""
        from loadbook.report.render import to_text

        return to_text(self)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """Return the output for Jupyter: HTML, plain text, Markdown, and what `data` adds."""
        from loadbook.report.render import to_markdown

        html = f'<div class="lb cell">{self.html}</div>'
        return {"text/html": html, "text/plain": self.text, "text/markdown": to_markdown(self), **self.data}


def note(text: str) -> Paragraph:
    """Return a sentence beside the main text."""
    return Paragraph(text, css="soft")


def note_block(text: str) -> Block:
    """Return one sentence as a block."""
    return Block(note(text))


def empty_section(text: str) -> Block:
    """Return the block of a section without content; exported pages leave the section out."""
    return Block(note(text), data={EMPTY_MIME: True})


def lines_list(lines: Iterable[Content]) -> BulletList:
    """Return sentences as a list."""
    return BulletList(lines, css="doubts")


def answer_box(
    headline: str, *lines: Content, kind: str = "", counts: Sequence[tuple[int, str]] = (), first: Content = None
) -> Division:
    """Return the box with a page's answer; `kind` is the verdict that gives the bar beside it its colour.

    `first` stands before the headline; `counts` are numbers with their words below it, in HTML only.
    """
    tally = BulletList([Group(Strong(str(number)), f" {word}") for number, word in counts], css="counts")
    paragraphs = [Paragraph(line) if isinstance(line, str) else line for line in lines if line]
    return Division(
        first, Paragraph(headline, css="headline"), *paragraphs, HtmlOnly(tally) if counts else None,
        css=f"answer bar-{kind}" if kind else "answer",
    )  # fmt: skip


def scope_nodes(question: str, line: str) -> Group:
    """Return a page's question as its title, and below it what was done to answer it."""
    return Group(Stylesheet(), Heading(question, level=1), Paragraph(line, css="scope"))


class Stylesheet(Node):
    """The stylesheet for notebooks, in the first block of each; exported pages have it in their head."""


def provenance_line(pairs: Sequence[tuple[str, str]]) -> Group:
    """Return where a page comes from, as one line of HTML."""
    return Group(
        HtmlOnly(Paragraph(" · ".join(f"{name} {value}" for name, value in pairs), css="provenance")),
        TextOnly(*(Paragraph(f"{name}: {value}") for name, value in pairs)),
    )


def verdict_cell(row: AnalysisRow, metric: str) -> VerdictCell | str:
    """Return the verdict cell of a row; the baseline has none."""
    if row.kind == "baseline":
        return "(reference)"
    kind = row.verdict.kind if row.verdict and row.kind == "treatment" else "check"
    return VerdictCell(f"v-{kind}", palette.row_glyph(row), palette.row_word(row, get_metric(metric)))


CHECK_NAMES: dict[RowKind, str] = {"aa": "A/A", "control": "known effect"}
CHECK_STATES: tuple[CheckState, ...] = ("failed", "inconclusive", "unchecked", "passed")  # the worst first
CHECK_GLYPHS = {"failed": FAILED_GLYPH, "inconclusive": DOUBT_GLYPH, "unchecked": "–", "passed": "✓"}
_OLD_STATES = {True: "passed", False: "failed", None: "unchecked"}  # of summaries without `check_states`
CI_GLYPHS = {"passed": "✓", "failed": FAILED_GLYPH, "invalid": DOUBT_GLYPH}


def check_texts(summary: Mapping[str, Any]) -> list[str]:
    """Return the A/A arm, the positive control and the build gate, each with its glyph; nothing without a report."""
    states = {kind: _OLD_STATES[summary[kind]] for kind in CHECK_NAMES if kind in summary}
    states |= summary.get("check_states", {})
    found = [f"{CHECK_GLYPHS[states[kind]]} {words}" for kind, words in CHECK_NAMES.items() if kind in states]
    gate = summary.get("gate")
    return [*found, f"{CI_GLYPHS[gate['outcome']]} build gate"] if gate else found


# ---- the old form of blocks, until every page is written as nodes ----


@dataclass(frozen=True)
class RenderedFigure:
    """A drawn figure: its picture as a data URI, its texts, and the areas that have a text on hover."""

    figure: ReportFigure

    @property
    def caption(self) -> str:
        """The caption."""
        return self.figure.caption

    @property
    def alt_text(self) -> str:
        """The words."""
        return self.figure.alt_text


def render_figure(figure: ReportFigure) -> RenderedFigure:
    """Return the figure."""
    return RenderedFigure(figure)


def figure_markup(figure: RenderedFigure) -> Markup:
    """Return a drawn figure as markup."""
    from loadbook.report.render import to_html

    return to_html(Picture(figure.figure))


def figure_block(figure: ReportFigure) -> Block:
    """Return a figure as a block."""
    return Block(Picture(figure))


def table_markup(table: Table) -> Markup:
    """Return a table as markup."""
    from loadbook.report.render import to_html

    return to_html(table)


def table_text(table: Table) -> str:
    """Return a table as text."""
    from loadbook.report.render import to_text

    return to_text(table)


def clean(value: Any) -> Any:
    """Return text without control characters."""
    from loadbook.report.render import clean as cleaned

    return cleaned(value)


def render(template: str, **values: Any) -> Markup:
    """Fill a template."""
    from loadbook.report.render import fill_template

    return fill_template(template, **values)


def render_block(template: str, text: str, **values: Any) -> Block:
    """Fill a template as a block."""
    return Block(str(render(template, **values)), text)


def notebook_style() -> str:
    """Return the style."""
    from loadbook.report.render import notebook_style as style

    return style()
