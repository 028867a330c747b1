"""The page that compares two runs, its figure 12 and how it is asked in a terminal; data is mock data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell, new_notebook

from loadbook.report import html
from loadbook.store.paths import Layout
from mock_project import REPO, Arm, make_project
from report_maker import make_report

OLDER, NEWER, STUDY = "20261120-101500", "20261201-101500", "nginx-directives"
Arms = dict[str, Arm]


def pair(root: Path, older: Arms, newer: Arms, **more: Any) -> Layout:
    """A project with two runs of one study."""
    layout = make_project(root, older, run=OLDER, traces=False, **more)
    make_project(root, newer, run=NEWER, traces=False, dice=7, **more)
    return layout


@pytest.fixture(scope="module")
def reported(tmp_path_factory: Any) -> Layout:
    """A project of two runs and the page of the newer one, as a report leaves them."""
    before, after = ({"baseline": Arm(), "x": Arm(effect, {"x": True}, "<b>x</b> on")} for effect in (0.06, 0.0))
    layout = pair(tmp_path_factory.mktemp("reported"), before, after, blocks=7)
    executed = layout.run(STUDY, NEWER).processed / "notebooks" / "config_effects.ipynb"
    executed.parent.mkdir()
    nbformat.write(new_notebook(cells=[new_markdown_cell("## How large is each effect?")]), executed)
    layout.reports.mkdir()
    (layout.reports / f"{STUDY}.html").write_text("as it was")
    html.write_summary(layout.reports, {"study": STUDY, "run": NEWER, "question": "Q?", "started": 1.0, "ended": 2.0})
    return layout


DOCUMENTED = re.findall(r"^loadbook report (.*?) *(?:#.*)?$", (REPO / "docs/history.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", DOCUMENTED)
def test_documented_compare_runs_commands_make_the_page(reported: Layout, command: str) -> None:
    name = f"{STUDY}-{NEWER}-against-{OLDER}.html"
    (reported.reports / name).unlink(missing_ok=True)
    made = make_report(reported, *command.split())
    assert made.exit_code == 0, made.output
    assert made.output.startswith("The effect of <b>x</b> on changed.")
    assert f"report: {reported.reports / name}" in made.output
    assert "Does the newer run agree with the older one?" in made.page(name)
    assert f'href="{name}"' in made.page("index.html") and f'href="{name}"' in made.page(f"{STUDY}.html")
    assert f"compared with run {OLDER}" in made.page(f"{STUDY}.html")
    assert "How large is each effect?" in made.page(f"{STUDY}.html")
    assert f'href="{STUDY}.html"' in made.page(name)
