"""A piece of a report: HTML for readers, plain text for terminals and diffs. The one door from values to markup.

Every string that comes from a host, a tool or a study is hostile: it passes a template with autoescape, and loses
its control characters on the way.

Tables of a page: cells as text, escaped in one place, numbers right, the verdict in the second column.

What a page's summary says of the checks, as every list of pages shows it beside the verdict.

A figure as a block: the picture with its caption and the words for readers who cannot see it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from loadbook.core.metrics import get_metric
from loadbook.core.text import clean as cleaned
from loadbook.report import palette
from loadbook.report.palette import DOUBT_GLYPH, FAILED_GLYPH
from loadbook.stats.results import AnalysisRow

if TYPE_CHECKING:
    from loadbook.report.figures.base import HoverArea, ReportFigure

# marks in an output's data, read when the notebook is exported: put this section first; leave this section out
URGENT_MIME = "application/vnd.loadbook.urgent+json"
EMPTY_MIME = "application/vnd.loadbook.empty+json"
TEMPLATES_DIR = Path(__file__).parent / "templates"


@dataclass(frozen=True, repr=False)
class Block:
    """What a notebook cell shows; `data` adds further MIME types to the output (read by `report.notebooks`)."""

    html: str
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """Return the output for Jupyter: HTML, its plain text, and what `data` adds."""
        return {"text/html": f'<div class="lb cell">{self.html}</div>', "text/plain": self.text, **self.data}


def clean(value: Any) -> Any:
    """Return text without control characters (see `core.text`); other values, and markup of ours, as they are."""
    return cleaned(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def jinja_environment() -> Environment:
    """Return the jinja environment of all pages: autoescape always, unknown names are errors."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES_DIR),
        autoescape=True,
        finalize=clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **values: Any) -> Markup:
    """Fill one of report/templates and return it as markup that other templates may embed."""
    return Markup(jinja_environment().get_template(template).render(**values))  # noqa: S704 - autoescape made it safe


def render_block(template: str, text: str, **values: Any) -> Block:
    """Fill a template as a block; `text` is what a terminal shows instead."""
    return Block(str(render(template, **values)), str(clean(text)))


@cache
def stylesheet() -> str:
    """Return the style of all pages, the same in JupyterLab and in exported HTML; colours come from the palette."""
    names = {
        "ink": palette.INK, "soft": palette.SOFT, "tint": palette.TINT, "grid": palette.GRID, "rule": palette.RULE,
        "link": palette.LINK, "doubt-box": palette.DOUBT_BOX, "doubt-text": palette.DOUBT_TEXT,
    }  # fmt: skip
    colours = "".join(f"--{name}: {colour}; " for name, colour in names.items())
    verdicts = "".join(
        f".lb .v-{kind} {{ color: {style.text}; }} .lb .bar-{kind} {{ --bar: {style.fill}; }}\n"
        for kind, style in palette.VERDICTS.items()
    )
    return f":root {{ {colours}}}\n" + (TEMPLATES_DIR / "report.css").read_text(encoding="utf-8") + verdicts


def notebook_style() -> str:
    """Return the style as an element for the first block of a notebook; exported pages have it in their head."""
    return f"<style data-notebook>\n{stylesheet()}</style>\n"


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


CHECK_NAMES = {"aa": "A/A", "control": "known effect"}
CHECK_GLYPHS = {True: "✓", False: FAILED_GLYPH, None: "–"}
CI_GLYPHS = {"passed": "✓", "failed": FAILED_GLYPH, "invalid": DOUBT_GLYPH}


def check_texts(summary: Mapping[str, Any]) -> list[str]:
    """Return the A/A arm, the positive control and the build gate, each with its glyph; nothing without a report."""
    found = [f"{CHECK_GLYPHS[summary[key]]} {words}" for key, words in CHECK_NAMES.items() if key in summary]
    gate = summary.get("gate")
    return [*found, f"{CI_GLYPHS[gate['outcome']]} build gate"] if gate else found


@dataclass(frozen=True)
class RenderedFigure:
    """A drawn figure: its picture as a data URI, its texts, and the areas that have a text on hover."""

    picture: str
    caption: str
    help: str
    alt_text: str
    hover_areas: Sequence[HoverArea] = ()


def render_figure(figure: ReportFigure) -> RenderedFigure:
    """Draw a figure."""
    from loadbook.report.figures.base import to_svg

    sheet = figure.draw_sheet()
    svg = compact_svg(to_svg(sheet.figure).decode()).encode()
    picture = "data:image/svg+xml;base64," + base64.b64encode(svg).decode()
    return RenderedFigure(picture, figure.caption, figure.help, figure.alt_text, sheet.hover_areas)


def figure_markup(figure: RenderedFigure) -> Markup:
    """Return a drawn figure as markup."""
    return render("figure.html.j2", figure=figure)


def figure_block(figure: ReportFigure) -> Block:
    """Return a figure as a block."""
    rendered = render_figure(figure)
    return Block(str(figure_markup(rendered)), str(clean(f"{rendered.caption}\n{rendered.alt_text}")))


def compact_svg(svg: str) -> str:
    """Return a picture of matplotlib's in about half of its bytes, the same to the eye: a page holds up to thirty.

    What goes: prologue, comments, metadata, names that nothing refers to, blanks, digits below 1/100 of a point, and
    the style that each of many marks repeats.
    """
    svg = _REMOVABLE.sub("", svg)
    svg = _LONG_NUMBER.sub(_round_number, svg)
    svg = _PATH_DATA.sub(lambda path: _BLANKS_IN_PATH.sub("", path[0].replace("\n", " ")), svg)
    svg = _SPACE_BETWEEN_TAGS.sub("><", _TRANSLATED_GLYPH.sub(r'\1 x="\2"/>', svg))
    svg = _STYLE_ATTRIBUTE.sub(lambda style: _BLANK_IN_STYLE.sub(r"\1", style[0]), svg)
    svg = _SAME_STYLE_RUN.sub(
        lambda run: f'<g style="{run[1]}">{run[0].replace(_style_attribute(run[1]), "")}</g>', svg
    )
    return svg.replace("DejaVuSans", "f").replace("xlink:href", "href").strip()


_REMOVABLE = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>"
    r'| id="(?:text|line2d|patch|xtick|ytick|axes|figure|matplotlib\.axis|\w+Collection)_\d+"',
    re.DOTALL,
)
_LONG_NUMBER = re.compile(r"(?<![\w.#])-?\d+\.\d{3,}")
_PATH_DATA = re.compile(r'(?<= d=")[^"]*')
_BLANKS_IN_PATH = re.compile(r"(?<=[A-Za-z]) +| +(?=[A-Za-z]|$)")
_TRANSLATED_GLYPH = re.compile(r'(?<="#DejaVuSans)(-[^"]*") transform="translate\((\S+) 0\)"/>')
_STYLE_ATTRIBUTE = re.compile(r' style="[^"]*"')
_BLANK_IN_STYLE = re.compile(r"([:;]) ")
_SAME_STYLE_RUN = re.compile(r'<use [^>]* style="([^"]*)"/>(?:<use [^>]* style="\1"/>)+')  # marks of one kind
_SPACE_BETWEEN_TAGS = re.compile(r">\s+<")


def _style_attribute(text: str) -> str:
    return f' style="{text}"'


def _round_number(number: re.Match[str]) -> str:
    value = float(number[0])
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) >= 1 else f"{value:.4g}"
