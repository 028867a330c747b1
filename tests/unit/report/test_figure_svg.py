"""Pictures in a page: fewer bytes than matplotlib's, the same picture, and texts of the width that was measured."""

import re
import xml.etree.ElementTree as ET
from urllib.parse import unquote

import pytest
from matplotlib.figure import Figure

from loadbook.report.figures.base import LETTER_PT, house_style
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


def numbers_of_paths(svg):
    return [[float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", d)] for d in re.findall(r'\bd="([^"]*)"', svg)]


def test_svg_minification_keeps_well_formed_xml(svg):
    small = compact_svg(svg)
    assert len(small) < 0.8 * len(svg)
    ET.fromstring(small)
    assert "\n<" not in small
    assert compact_svg(small) == small


def test_svg_minification_moves_no_point_visibly(svg):
    before, after = numbers_of_paths(svg), numbers_of_paths(compact_svg(svg))
    assert [len(p) for p in before] == [len(p) for p in after]
    assert max(abs(a - b) for p, q in zip(before, after, strict=True) for a, b in zip(p, q, strict=True)) <= 0.051


def test_every_text_of_an_svg_has_its_measured_width(svg):
    texts = [e for e in ET.fromstring(compact_svg(svg)).iter() if e.tag.endswith("}text")]
    assert [e.text for e in texts if e.text.startswith("Text")] == ["Text <b> & more \N{MINUS SIGN} 5 %"]
    for element in texts:
        assert 0.4 * len(element.text) * LETTER_PT < float(element.get("textLength")) < len(element.text) * LETTER_PT
    with house_style():
        title = Figure().text(0, 0, "wide", weight="bold", size=20)
        assert title.get_window_extent().width == pytest.approx(_width(title) * title.figure.dpi / 72, rel=0.02)


def _width(artist):
    written = compact_svg(to_svg(artist.figure).decode())
    return float(re.search(r'textLength="([\d.]+)">wide<', written)[1])


def test_fonts_of_an_svg_are_named_once_with_one_of_the_same_widths(svg):
    assert compact_svg(svg).count("DejaVu Sans") == 1
    assert "DejaVu Sans,Verdana,sans-serif" in compact_svg(svg)


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


def test_svg_minification_removes_groups_without_attributes_and_keeps_the_others():
    assert compact_svg('<g><g clip-path="url(#p)"><g/><g><path d="M0 0"/></g></g></g>') == (
        '<g clip-path="url(#p)"><path d="M0 0"/></g>'
    )


def test_styles_that_elements_repeat_become_classes_and_texts_stay():
    text = '<text x="1"> style="fill:none"</text>'
    paths = '<path d="M0 0" style="fill: none"/>' * 2 + '<path d="M1 1" style="fill: #fff"/>'
    small = compact_svg(f'<svg><style type="text/css">*{{}}</style>{paths}{text}{text}</svg>')
    assert '<style type="text/css">*{}.s0{fill:none}</style>' in small
    assert small.count('<path d="M0 0" class="s0"/>') == 2 and 'd="M1 1" style="fill:#fff"' in small
    assert small.count(text) == 2
