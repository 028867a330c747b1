"""The pictures of docs/statistics.md, interleaving.md and capacity.md: drawn by the code, as the text says."""

from pathlib import Path

import pytest

import pictures
from loadbook.report.figures.svg import to_svg
from loadbook.stats.verdict import decide_verdict

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "statistics.md").read_text()
PAGES = {
    "one-search": (DOCS / "capacity.md").read_text(),
    "turns": (DOCS / "interleaving.md").read_text(),
}  # those of other pages


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_pictures_are_drawn_stored_and_shown(name: str) -> None:
    assert to_svg(pictures.PICTURES[name]()).startswith(b"<?xml")
    assert (pictures.FOLDER / f"{name}.svg").stat().st_size < 80_000
    assert f"](pictures/{name}.svg)" in PAGES.get(name, TEXT)


def test_why_blocks_picture_compares_the_same_host_in_two_orders() -> None:
    in_sequence, in_blocks = pictures.two_orders()
    assert sorted(in_sequence.order) == sorted(in_blocks.order)
    assert decide_verdict(in_sequence.comparison, pictures.MARGIN).kind == "worse"
    assert decide_verdict(in_blocks.comparison, pictures.MARGIN).kind == "equivalent"
    assert f"slower by {-100 * (in_sequence.comparison.effect or 0):.1f} %" in TEXT


def test_verdicts_picture_has_each_verdict_once() -> None:
    kinds = [row.verdict.kind for row in pictures.verdicts().rows if row.verdict]
    assert kinds == ["better", "worse", "small", "equivalent", "undecided", "invalid"]
