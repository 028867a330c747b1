"""The closing section of a notebook: the main number by hand, from the tables, is the page's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import nbformat
import pytest

import backends_runs
from capacity_projects import NAME, capacity_project
from loadbook.analyses.balancers.page import BalancersPage
from loadbook.analyses.capacity.page import CapacityPage
from loadbook.analyses.effects.page import EffectsPage
from loadbook.report.ipynb import NOTEBOOK_ONLY_TAG
from loadbook.store.tables import load_run
from mock_project import Arm, make_project
from recorded_run import STUDY, ingested_run

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"


def effects(root: Path) -> Any:
    return EffectsPage(load_run(ingested_run(root), STUDY))


def capacities(root: Path) -> Any:
    return CapacityPage(load_run(capacity_project(root), NAME))


def balancers(root: Path) -> Any:
    arms = {"one": Arm(), "aa": Arm(check="aa"), "nginx": Arm(-0.02), "haproxy": Arm(-0.01), "lost": Arm(-0.2)}
    layout = make_project(root, arms, hypothesis="non-inferiority", blocks=14)
    return BalancersPage(load_run(layout, "nginx-directives"))


PAGES = {
    "backend_modes": backends_runs.project,
    "capacity": capacities,
    "config_effects": effects,
    "lb_vs_single": balancers,
}


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
    assert {"change", "p"} <= set(by_hand)
    for column, value in by_hand.items():
        # p-values are shares of 9,999 swaps of labels, drawn here and there by other seeds: ends move by a step
        step = {"change": 1e-9, "p": 0.02}.get(column, 0.04 * (row["high"] - row["low"]))
        assert value == pytest.approx(row[column], abs=step), column


def test_every_question_has_its_number_by_hand() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb") if closing_cells(path.stem)} == set(PAGES)
