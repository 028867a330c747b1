"""What a page says of the rule by which its run ended: the look, the level, and what makes it exploratory."""

from __future__ import annotations

from dataclasses import replace

from loadbook.analyses.effects.page import EffectsPage
from loadbook.core.units import NBSP
from loadbook.store.paths import Layout
from loadbook.store.tables import load_run
from mock_project import make_project, usual_arms


def run(folder, **more):
    make_project(folder, usual_arms(), name="mock", **more)
    return load_run(Layout(folder), "mock")


def test_page_with_always_valid_intervals_says_so(tmp_path):
    data = run(tmp_path, stopping={"rule": "always-valid"})
    page = EffectsPage(replace(data, trials=data.trials[data.trials["block"] <= 9]))
    assert "always-valid: a look after every block from 5 on" in page.scope().text
    assert f"(95{NBSP}% always-valid interval " in page.effects().text
    assert page.analysis.planned_blocks == 9
