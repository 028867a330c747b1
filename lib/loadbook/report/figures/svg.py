"""Figures as compact SVG; each text has the width that it was measured with, whatever font a machine has."""

from __future__ import annotations

import io
import re
from collections import Counter
from functools import lru_cache
from html import unescape
from urllib.parse import quote

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from loadbook.report.figures.base import FONT, house_style

COARSE_PT = 10  # coordinates from here on have one decimal
FONTS = f"{FONT},Verdana,sans-serif"  # Verdana, of Windows and macOS, has the widths of DejaVu Sans


def to_svg(figure: Figure) -> bytes:
    """Return the figure as SVG with letters as text; the same figure gives the same bytes on every machine."""
    out = io.BytesIO()
    with house_style():
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def svg_data_uri(figure: Figure) -> str:
    """Return the figure as a data URI that contains SVG, to be written within double quotes.

    Only signs that mean something in HTML or in a URI are encoded, as base64 would need more letters (RFC 2397).
    """
    svg = compact_svg(to_svg(figure).decode()).replace('"', "'").replace("\n", " ")
    return "data:image/svg+xml," + quote(svg, safe=" '()*+,/:;=")


def compact_svg(svg: str) -> str:
    """Return an SVG of matplotlib in fewer bytes without visible change, as pages have up to 30 figures.

    Removed are: prologue, comments, metadata, unused names and groups, white space, and digits below 1/20 of a point.
    Styles that marks repeat become classes. Texts get their measured width, and all of them one list of fonts.
    """
    svg = _TEXT.sub(_fit_text, _REMOVABLE.sub("", svg))
    svg = _LONG_NUMBER.sub(_round_number, svg)
    svg = _PATH_DATA.sub(lambda path: _BLANKS_IN_PATH.sub("", path[0].replace("\n", " ")), svg)
    svg = _SPACE_BETWEEN_TAGS.sub("><", svg)
    names = {name: f"{name[0]}{number:x}" for number, name in enumerate(dict.fromkeys(_NAME.findall(svg)))}
    svg = _NAME.sub(lambda name: names[name[0]], svg)
    svg = _STYLE_ATTRIBUTE.sub(lambda style: _BLANK_IN_STYLE.sub(r"\1", style[0]), svg)
    svg = _without_plain_groups(svg)
    svg = _SAME_STYLE_RUN.sub(lambda run: f'<g style="{run[2]}">{run[0].replace(run[1], "")}</g>', svg)
    svg = _with_classes(svg)
    svg = svg.replace("<svg xmlns:xlink", f'<svg style="font-family:{FONTS};white-space:pre" xmlns:xlink', 1)
    return svg.replace("xlink:href", "href").strip()


def _without_plain_groups(svg: str) -> str:
    """Return an SVG without the groups that have no attributes."""
    plain: list[bool] = []

    def keep(tag: re.Match[str]) -> str:
        if tag[0] == "</g>":
            return "" if plain.pop() else "</g>"
        if tag[0].endswith("/>"):
            return ""
        plain.append(tag[0] == "<g>")
        return "" if plain[-1] else tag[0]

    return _GROUP.sub(keep, svg)


def _with_classes(svg: str) -> str:
    """Return an SVG whose repeated style attributes are classes of its style sheet."""
    if "</style>" not in svg:
        return svg
    repeated = [style for style, number in Counter(_STYLE_ATTRIBUTE.findall(svg)).items() if number > 1]
    names = {style: f"s{number:x}" for number, style in enumerate(repeated)}
    rules = "".join(f".{name}{{{style[len(' style=') + 1 : -1]}}}" for style, name in names.items())
    svg = _STYLE_ATTRIBUTE.sub(lambda style: f' class="{names[style[0]]}"' if style[0] in names else style[0], svg)
    return svg.replace("</style>", f"{rules}</style>", 1)


_REMOVABLE = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>"
    r'| id="(?:text|line2d|patch|xtick|ytick|axes|figure|matplotlib\.axis|\w+Collection)_\d+"'
    r'| transform="rotate\(-?0 [^)]*\)"',
    re.DOTALL,
)
_TEXT = re.compile(r'<text style="([^"]*)"([^>]*)>([^<]*)</text>')
_TEXT_SIZE = re.compile(r"font-size: ([\d.]+)px")
_NAME = re.compile(r"(?<=[#\"])[mph][0-9a-f]{10}(?=[\")])")  # of a mark, a clipping path or a hatch
_GROUP = re.compile(r"</?g\b[^>]*>")
_LONG_NUMBER = re.compile(r"(?<![\w.#])-?\d+\.\d{3,}")
_PATH_DATA = re.compile(r'(?<= d=")[^"]*')
_BLANKS_IN_PATH = re.compile(r"(?<=[A-Za-z]) +| +(?=[A-Za-z]|$)")
_STYLE_ATTRIBUTE = re.compile(r' style="[^"]*"(?=[^<]*>)')  # of a tag, not of a text
_BLANK_IN_STYLE = re.compile(r"([:;]) ")
_SAME_STYLE_RUN = re.compile(r'<use [^>]*( style="([^"]*)")/>(?:<use [^>]*\1/>)+')  # marks of equal style
_SPACE_BETWEEN_TAGS = re.compile(r">\s+<(?!/text)")


def _round_number(number: re.Match[str]) -> str:
    value = float(number[0])
    if abs(value) < 1:
        return f"{value:.4g}"
    return f"{value:.{1 if abs(value) >= COARSE_PT else 2}f}".rstrip("0").rstrip(".")


def _fit_text(text: re.Match[str]) -> str:
    """Return a text with its width; the font's name is left to the whole picture."""
    style, place, written = text.groups()
    size = _TEXT_SIZE.search(style)
    if "textLength" in place or size is None:
        return text[0]
    width = _text_width_pt(unescape(written), float(size[1]), "font-weight" in style, "italic" in style)
    style = style.replace(f"font-family: '{FONT}'; ", "").replace("text-anchor: start; ", "")
    return f'<text style="{style}"{place} textLength="{width:.4g}">{written}</text>'


@lru_cache(maxsize=4096)
def _text_width_pt(text: str, size: float, bold: bool, italic: bool) -> float:
    properties = FontProperties(
        family=FONT, style="italic" if italic else "normal", weight=700 if bold else 400, size=size
    )
    return float(text_to_path.get_text_width_height_descent(text, properties, ismath=False)[0])
