"""Pictures in a page: about a third of matplotlib's bytes, and the same picture."""

import re
import xml.etree.ElementTree as ET
from urllib.parse import unquote

import pytest
from matplotlib.figure import Figure

from loadbook.report.figures.base import house_style
from loadbook.report.figures.svg import compact_svg, svg_data_uri, to_svg


@pytest.fixture(scope="module")
def svg():
    with house_style():
        figure = Figure(figsize=(4, 3))
        axes = figure.add_subplot()
        axes.plot([0, 1.2345678, 2], [0.001234567, -3, 1e5], marker="o")
        axes.fill_between([0, 1], [0, 1], [2, 3])
        axes.set_title("Text <b> & more − 5 %")
    return to_svg(figure).decode()


GLYPHS = re.compile(r'<path id="(?:DejaVuSans|[bif][0-9a-f]+")[^>]*>')


def numbers_of_paths(svg):
    paths = re.findall(r'\bd="([^"]*)"', GLYPHS.sub("", svg))
    return [[float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", d)] for d in paths]


def outlines(svg):
    """Return the absolute points of all letters, in hundredths of their size."""
    found = []
    for path in filter(re.compile(r" d=").search, (m[0] for m in GLYPHS.finditer(svg))):
        scale = float(re.search(r"scale\(([\d.]+)\)", path)[1])
        points, at, begin = [], (0.0, 0.0), (0.0, 0.0)
        for command, text in re.findall(r"([A-Za-z])([^A-Za-z]*)", re.search(r' d="([^"]*)"', path)[1]):
            numbers = [float(n) for n in re.findall(r"-?\d+", text)]
            zero = at if command.islower() else (0.0, 0.0)
            own = [(x + zero[0], y + zero[1]) for x, y in zip(numbers[::2], numbers[1::2], strict=True)]
            points += [(x * scale, y * scale) for x, y in own]
            at = own[-1] if own else begin
            begin = at if command in "Mm" else begin
        found.append(points)
    return found


def test_svg_minification_keeps_well_formed_xml(svg):
    small = compact_svg(svg)
    assert len(small) < 0.6 * len(svg)
    ET.fromstring(small)
    assert "\n<" not in small
    assert compact_svg(small) == small


def test_svg_minification_moves_no_point_visibly(svg):
    before, after = numbers_of_paths(svg), numbers_of_paths(compact_svg(svg))
    assert [len(p) for p in before] == [len(p) for p in after]
    assert max(abs(a - b) for p, q in zip(before, after, strict=True) for a, b in zip(p, q, strict=True)) <= 0.051


def test_svg_minification_moves_no_point_of_a_letter_by_more_than_a_quarter_of_a_hundredth_of_its_size(svg):
    before, after = outlines(svg), outlines(compact_svg(svg))
    assert len(before) > 10
    assert [len(p) for p in before] == [len(p) for p in after]
    pairs = [(one, other) for p, q in zip(before, after, strict=True) for one, other in zip(p, q, strict=True)]
    assert max(abs(one[k] - other[k]) for one, other in pairs for k in (0, 1)) <= 0.2501


def test_svg_in_a_data_uri_is_the_same_svg(svg):
    figure = Figure(figsize=(4, 3))
    figure.add_subplot().set_title("Text <b> & more \N{MINUS SIGN} 5 %", color="#123456")
    uri = svg_data_uri(figure)
    prefix = "data:image/svg+xml,"
    assert uri.startswith(prefix) and not re.search(r'"|#|\n', uri)
    assert unquote(uri[len(prefix) :]) == compact_svg(to_svg(figure).decode()).replace('"', "'")


def test_svg_minification_keeps_every_element_that_is_referred_to(svg):
    small = compact_svg(svg)
    ids = set(re.findall(r'\bid="([^"]+)"', small))
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', small))
    assert {a or b for a, b in used} <= ids
    assert used


def test_svg_minification_moves_repeated_styles_to_a_group():
    svg = "".join(f'<use xlink:href="#m1" x="{x}" y="2" style="fill: #fff; stroke: #000"/>' for x in range(3))
    marks = "".join(f'<use href="#m1" x="{x}" y="2"/>' for x in range(3))
    assert compact_svg(svg) == f'<g style="fill:#fff;stroke:#000">{marks}</g>'
    letter = '<use xlink:href="#DejaVuSans-Bold-1c" transform="translate(71.58 0)"/>'
    assert compact_svg(letter) == '<use href="#b1c" x="71"/>'
