"""The closing section of a notebook: the main number by hand, from the tables, is the page's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import nbformat
import pytest

from by_hand_pages import PAGES
from loadbook.report.ipynb import NOTEBOOK_ONLY_TAG

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"
# p-values are shares of 9,999 swaps of labels, drawn here and there by other seeds: ends of intervals move by a step
OF_SWAPS = ("p", "low", "high", "low_both", "high_both")
# of 200 pseudo-studies, on a grid; of 9,999 knees and weights that are tried
ABOUT = {("noise", "detectable_effect"): 0.0005, ("page_size_tps", "knee_b"): 20.0, ("history", "level"): 1e-4}
ABOUT |= {("history", "level_low"): 2e-3, ("history", "level_high"): 2e-3}


def closing_cells(name: str) -> list[str]:
    book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    return [c.source for c in book.cells if c.cell_type == "code" and NOTEBOOK_ONLY_TAG in c.metadata.get("tags", [])]


@pytest.mark.parametrize("name", PAGES)
def test_number_by_hand_is_that_of_the_page(name: str, tmp_path: Path) -> None:
    mpl.use("Agg")
    values: dict[str, Any] = {"page": PAGES[name](tmp_path)}
    for cell in closing_cells(name):
        exec(cell, values)
    by_hand, row = values["by_hand"], values["row"]
    assert by_hand and set(by_hand) <= set(row.index)
    for column, value in by_hand.items():
        step = ABOUT.get((name, column), 0.02 if column == "p" else 0.04 * (row.get("high", 0.0) - row.get("low", 0.0)))
        exact = {"rel": 1e-6} if column not in OF_SWAPS and (name, column) not in ABOUT else {"abs": step}
        assert value == pytest.approx(row[column], **exact), column


def test_every_question_has_its_number_by_hand() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb") if closing_cells(path.stem)} == set(PAGES)
