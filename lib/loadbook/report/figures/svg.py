"""Figures as compact SVG, with letters as paths, so that they look the same on every machine."""

from __future__ import annotations

import io
import re
from urllib.parse import quote

from matplotlib.figure import Figure

from loadbook.report.figures.base import house_style

COARSE_PT = 10  # coordinates from here on have one decimal


def to_svg(figure: Figure) -> bytes:
    """Return the figure as SVG with letters as paths; the same figure gives the same bytes on every machine."""
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
    """Return an SVG of matplotlib in about a third of its bytes without visible change, as pages have up to 30 figures.

    Removed are: prologue, comments, metadata, unused names and groups, white space, digits below 1/20 of a point (in
    the outlines of letters: below 1/200 of their size), and styles that many marks repeat.
    """
    svg = _GLYPH.sub(_round_glyph, _REMOVABLE.sub("", svg))
    svg = _LONG_NUMBER.sub(_round_number, svg)
    svg = _PATH_DATA.sub(lambda path: _BLANKS_IN_PATH.sub("", path[0].replace("\n", " ")), svg)
    svg = _LETTER.sub(r'\1 x="\2"/>', svg)
    for space in _EMPTY_GLYPH.findall(svg):
        svg = re.sub(f'<use xlink:href="#{space}"[^>]*/>', "", svg)
    svg = _SPACE_BETWEEN_TAGS.sub("><", _EMPTY_GLYPH.sub("", svg))
    names = {name: f"{name[0]}{number:x}" for number, name in enumerate(dict.fromkeys(_NAME.findall(svg)))}
    svg = _NAME.sub(lambda name: names[name[0]], svg)
    svg = _STYLE_ATTRIBUTE.sub(lambda style: _BLANK_IN_STYLE.sub(r"\1", style[0]), svg)
    svg = _LONELY.sub(r"\1", _LONELY.sub(r"\1", svg))
    svg = _SAME_STYLE_RUN.sub(lambda run: f'<g style="{run[2]}">{run[0].replace(run[1], "")}</g>', svg)
    for font, name in (("DejaVuSans-Bold-", "b"), ("DejaVuSans-Oblique-", "i"), ("DejaVuSans-", "f")):
        svg = svg.replace(font, name)
    return svg.replace("xlink:href", "href").strip()


_REMOVABLE = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>"
    r'| id="(?:text|line2d|patch|xtick|ytick|axes|figure|matplotlib\.axis|\w+Collection)_\d+"',
    re.DOTALL,
)
_GLYPH = re.compile(r'(<path id="DejaVuSans[^"]*" d=")([^"]*)(" transform="scale\()0\.015625')
_GLYPH_COMMAND, _GLYPH_STEP = re.compile(r"([MLQz])([-\d ]*)"), 32
_NAME = re.compile(r"(?<=[#\"])[mph][0-9a-f]{10}(?=[\")])")  # of a mark, a clipping path or a hatch
_LONELY = re.compile(r"<g>(<(?:path|use) [^>]*/>)</g>")  # a group of one element
_LONG_NUMBER = re.compile(r"(?<![\w.#])-?\d+\.\d{3,}")
_PATH_DATA = re.compile(r'(?<= d=")[^"]*')
_BLANKS_IN_PATH = re.compile(r"(?<=[A-Za-z]) +| +(?=[A-Za-z]|$)")
_LETTER = re.compile(r'(<use xlink:href="#DejaVuSans-[^"]*") transform="translate\((\d+)\S* 0\)"/>')
_EMPTY_GLYPH = re.compile(r'<path id="(DejaVuSans-[^"]*)" transform=[^>]*>')  # of spaces
_STYLE_ATTRIBUTE = re.compile(r' style="[^"]*"')
_BLANK_IN_STYLE = re.compile(r"([:;]) ")
_SAME_STYLE_RUN = re.compile(r'<use [^>]*( style="([^"]*)")/>(?:<use [^>]*\1/>)+')  # marks of equal style
_SPACE_BETWEEN_TAGS = re.compile(r">\s+<")


def _round_number(number: re.Match[str]) -> str:
    value = float(number[0])
    if abs(value) < 1:
        return f"{value:.4g}"
    return f"{value:.{1 if abs(value) >= COARSE_PT else 2}f}".rstrip("0").rstrip(".")


def _round_glyph(glyph: re.Match[str]) -> str:
    """Return the outline of a letter with rounded coordinates, relative to the end of the command before."""
    written, at, begin = "", (0, 0), (0, 0)
    for command, text in _GLYPH_COMMAND.findall(glyph[2]):
        numbers = [round(int(number) / _GLYPH_STEP) for number in text.split()]
        relative = " ".join(str(number - at[k % 2]) for k, number in enumerate(numbers))
        written += command.lower() + relative.replace(" -", "-")
        at = (numbers[-2], numbers[-1]) if numbers else begin
        begin = at if command == "M" else begin
    return f"{glyph[1]}{written}{glyph[3]}{_GLYPH_STEP / 64:g}"
