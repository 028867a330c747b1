"""Pictures in a page: about half of matplotlib's bytes, and the same picture."""

import re
import xml.etree.ElementTree as ET

import pytest
from matplotlib.figure import Figure

from loadbook.report.figures.base import compact_svg, house_style, to_svg


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
    assert len(small) < 0.75 * len(svg)
    ET.fromstring(small)
    assert "\n<" not in small
    assert compact_svg(small) == small


def test_svg_minification_moves_no_point_visibly(svg):
    before, after = numbers_of_paths(svg), numbers_of_paths(compact_svg(svg))
    assert [len(p) for p in before] == [len(p) for p in after]
    assert max(abs(a - b) for p, q in zip(before, after, strict=True) for a, b in zip(p, q, strict=True)) <= 0.0051


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
    assert compact_svg(letter) == '<use href="#f-Bold-1c" x="71.58"/>'
