"""Strips: intervals over the margin in lists for phones, in the index, and in terminals; data is mock data."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from bs4 import BeautifulSoup

from loadbook.analyses.effects.figure import EffectsFigure
from loadbook.analyses.effects.page import EffectsPage
from loadbook.core.metrics import get_metric
from loadbook.report import nodes, palette, strips
from loadbook.report.html import forbidden_content
from loadbook.report.ratios import RatioScale
from loadbook.report.strips import EffectInterval, effect_interval, read_intervals, strip_html, strip_lines
from loadbook.stats.verdict import decide_verdict
from loadbook.store.tables import load_run
from mock_analysis import mock
from mock_project import Arm, make_project

RATE = get_metric("ok_per_s")
ARMS = {"baseline": Arm(), "aa": Arm(check="aa"), "one": Arm(0.06, {"a": True}, label="a on")}


def interval(low: float, high: float, kind: str = "better", **more: Any) -> EffectInterval:
    text = f"{kind} {low} to {high}"
    parts: dict[str, Any] = {"glyph": "▲", "change": (low + high) / 2, "margin": (-0.02, 0.02), "text": text}
    return EffectInterval(**(parts | {"kind": kind, "low": low, "high": high} | more))


def summary(*intervals: EffectInterval, **more: Any) -> dict[str, Any]:
    records = strips.interval_records((f"sentence {number}", one) for number, one in enumerate(intervals))
    return json.loads(json.dumps({"effects": records})) | more


def place(box: Any) -> dict[str, float]:
    """Return the numbers of an element's style, in percent."""
    pairs = (part.split(":") for part in box["style"].split(";"))
    return {name: float(value.removesuffix("%")) for name, value in pairs}


def test_interval_of_a_row_has_its_numbers_and_its_verdict() -> None:
    for row in mock("plain").analysis.rows:
        displayed = effect_interval(row, RATE)
        assert (displayed is not None) == row.is_compared
        if displayed:
            comparison = row.verdict.comparison
            assert (displayed.change, (displayed.low, displayed.high)) == (comparison.effect, comparison.ci95)
            assert (displayed.kind, displayed.margin) == (palette.row_kind(row), (-0.02, 0.02))
            assert displayed.text.startswith(f"{row.label}: {palette.row_word(row, RATE)}, ")


def test_interval_of_a_one_sided_question_has_the_losses_as_its_band() -> None:
    row = mock("plain").analysis.row("tcp_nopush-on")
    found = decide_verdict(row.verdict.comparison, 0.02, "higher", hypothesis="non-inferiority")
    displayed = effect_interval(replace(row, verdict=found), RATE)
    assert displayed.margin == (pytest.approx(-0.0196, abs=1e-4), 0.0)
    assert [displayed.low, displayed.high] == sorted(found.one_sided_bounds)
    assert "at worst" in displayed.text


def test_strip_has_its_boxes_where_the_numbers_are() -> None:
    html = strip_html(interval(0.02, 0.10), RatioScale(-0.1, 0.1))
    assert forbidden_content(html) == []
    box = BeautifulSoup(html, "html.parser").span
    at = {part["class"][0]: place(part) for part in box.find_all("i")}
    assert box["class"] == ["strip", "bar-better"]
    assert box["title"] == box["aria-label"] == "better 0.02 to 0.1"
    assert at["zero"]["left"] == pytest.approx(50)
    assert at["band"]["left"] + at["band"]["width"] == pytest.approx(at["bar"]["left"], abs=0.02)
    assert at["bar"]["left"] < at["dot"]["left"] < at["bar"]["left"] + at["bar"]["width"] < 100
    assert "beyond" not in at


def test_strip_marks_the_end_that_lies_beyond_its_axis() -> None:
    html = strip_html(interval(-0.5, 0.05), RatioScale(-0.1, 0.1))
    assert [part["class"] for part in BeautifulSoup(html, "html.parser").find_all("i", class_="beyond")] == [
        ["beyond", "low"]
    ]
    assert "dot" not in html


def test_strip_escapes_texts() -> None:
    html = strip_html(interval(0.01, 0.02, text='"><script>alert(1)</script>\x1b'), RatioScale(-0.1, 0.1))
    assert forbidden_content(html) == []
    assert "\x1b" not in html


def test_summary_without_numbers_or_verdict_has_no_strip() -> None:
    old = {"verdict": {"kind": "better"}, "sentences": ["a is faster."]}
    assert strips.summary_strip(old) == ""
    assert strip_lines(old, 80) == {}
    assert strips.summary_strip(summary(interval(0.02, 0.1), verdict={"kind": "invalid"})) == ""
    assert strips.summary_strip(summary(interval(0.02, 0.1, strips.CHECK))) == ""
    assert "bar-worse" in strips.summary_strip(
        summary(interval(-0.1, -0.05, "worse"), interval(0.02, 0.1), verdict={"kind": "worse"})
    )


def test_page_writes_the_numbers_of_its_sentences_into_the_summary(tmp_path) -> None:
    page = EffectsPage(load_run(make_project(tmp_path, ARMS, name="s", blocks=6, traces=False), "s"))
    written = json.loads(json.dumps(page.summary()))
    displayed = read_intervals(written)
    assert list(displayed) == [line for line in written["sentences"] if line in displayed]
    assert [one.kind for one in displayed.values()] == ["better", strips.CHECK]
    row = page.analysis.row("one")
    assert next(iter(displayed.values())).change == row.verdict.comparison.effect


@pytest.mark.parametrize("case", ["plain", "all_invalid", "huge_effects", "dollar", "japanese"])
def test_list_for_phones_has_the_rows_of_the_alternative_text(case) -> None:
    figure = EffectsFigure(mock(case).analysis)
    html = str(nodes.to_html(nodes.Picture(figure)))
    assert forbidden_content(html) == []
    found = BeautifulSoup(html, "html.parser")
    rows = found.select("figure ul.rows li")
    assert len(rows) == len(figure.rows)
    for item, row in zip(rows, figure.rows, strict=True):
        assert item.b.text == figure.names[row.treatment]
        word, change = item.find_all("span", recursive=False)[:2]
        assert word.text == f"{palette.row_glyph(row)} {palette.row_word(row, RATE)}"
        assert f"{item.b.text}: {palette.row_word(row, RATE)}, {change.text}" in found.img["alt"]
        assert bool(item.select(".strip")) == row.is_compared
        assert all(strip["aria-hidden"] == "true" for strip in item.select(".strip"))


def test_rows_of_one_list_have_one_axis() -> None:
    html = EffectsFigure(mock("plain").analysis).rows_html()
    bands = {band["style"] for band in BeautifulSoup(html, "html.parser").select(".strip .band")}
    assert len(bands) == 1


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_strips_in_a_terminal_fit_and_have_one_axis(columns) -> None:
    lines = strip_lines(summary(interval(0.05, 0.10), interval(-0.03, 0.01, "undecided", glyph="●")), columns)
    better, undecided = lines["sentence 0"], lines["sentence 1"]
    assert len(better) == len(undecided) <= min(columns, 80)
    assert better.index("│") == undecided.index("┼")  # no change
    assert better.index("│") < better.rindex("░") < better.index("├") < better.index("▲") < better.index("┤")
    assert undecided.index("├") < undecided.index("●") < undecided.index("┼") < undecided.index("┤")
    assert better.strip().startswith("−") and better.endswith("%")


def test_strip_in_a_terminal_marks_an_end_beyond_the_axis() -> None:
    few = [interval(0.01, 0.03, glyph="▲"), interval(0.01, 0.03), interval(-0.9, 4.0, "undecided", glyph="●")]
    wide = strip_lines(summary(*few), 80)["sentence 2"]
    assert "◄" in wide and "►" in wide


def test_strips_need_sixty_columns() -> None:
    assert strip_lines(summary(interval(0.05, 0.10)), 59) == {}
    assert strip_lines(summary(interval(0.0, 0.0, margin=(0.0, 0.0))), 60)


@pytest.mark.parametrize("part", ["band", "zero", "bar", "dot", "beyond"])
def test_stylesheet_has_every_part_of_a_strip(part) -> None:
    style = palette.page_stylesheet()
    assert f".lb .strip .{part} {{" in style
    assert f"--band: {palette.BAND};" in style
    assert "print-color-adjust: exact" in style
