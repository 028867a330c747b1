"""A figure module of report.figures as a block: drawn wide and narrow, with its caption and its words for the blind."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from markupsafe import Markup

from loadbook.report.blocks import Block, clean, render


class FigureModule(Protocol):
    """What every module of report.figures offers."""

    draw: Callable[..., Any]
    answer: Callable[..., str]
    how: Callable[..., str]
    alt: Callable[..., str]


@dataclass(frozen=True)
class RenderedFigure:
    """A drawn figure: two data URIs and three sentences."""

    wide: str
    narrow: str
    answer: str
    how: str
    alt: str


def render_figure(module: FigureModule, *data: Any, **options: Any) -> RenderedFigure:
    """Draw a figure in both layouts; `data` and `options` are what the module documents."""
    wide, narrow = (_svg_data_uri(module.draw(*data, **options, narrow=narrow)) for narrow in (False, True))
    return RenderedFigure(wide, narrow, *(f(*data, **options) for f in (module.answer, module.how, module.alt)))


def figure_markup(figure: RenderedFigure) -> Markup:
    """Return a drawn figure as markup."""
    return render("figure.html.j2", figure=figure)


def figure_block(module: FigureModule, *data: Any, **options: Any) -> Block:
    """Return a figure as a block, the one helper behind every picture of a page."""
    figure = render_figure(module, *data, **options)
    return Block(str(figure_markup(figure)), str(clean(f"{figure.answer}\n{figure.alt}")))


def _svg_data_uri(figure: Any) -> str:
    from loadbook.report.figures.common import to_svg

    return "data:image/svg+xml;base64," + base64.b64encode(compact_svg(to_svg(figure).decode()).encode()).decode()


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
    svg = _SAME_STYLE_RUN.sub(lambda run: f'<g style="{run[1]}">{run[0].replace(_style_attribute(run[1]), "")}</g>', svg)
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
