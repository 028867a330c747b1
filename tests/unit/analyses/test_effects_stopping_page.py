"""What a page says of the rule by which its run ended: the look, the level, and what makes it exploratory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadbook.analyses.effects.page import EffectsPage
from loadbook.batch.index import write_index
from loadbook.core.units import NBSP
from loadbook.report.html import write_summary
from loadbook.store.paths import Layout
from loadbook.store.tables import load_run
from mock_project import make_project, usual_arms


def run(folder, **more):
    make_project(folder, usual_arms(), name="mock", **more)
    return load_run(Layout(folder), "mock")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return run(tmp_path_factory.mktemp("mock"))


@pytest.fixture(scope="module")
def exploratory(data):
    return EffectsPage(replace(data, plan=replace(data.plan, added=4)))


def test_added_blocks_mark_every_verdict_as_exploratory(data, exploratory, tmp_path):
    assert exploratory.answer().text.startswith("Exploratory: tcp_nopush on is faster by ")
    assert "EXPLORATORY: 4 blocks were added after looking" in exploratory.scope().text
    printed = [line for line in exploratory.summary()["sentences"] if line[0] in "▲▼◆■●"]
    assert len(printed) >= 4
    assert all("blocks (exploratory: 4 blocks were added after looking)" in line for line in printed)
    assert " doubts: Exploratory; " in exploratory.trust().text
    assert "4 of 12 blocks were added when the results could be seen" in exploratory.doubts().text
    write_summary(tmp_path, exploratory.summary())
    index = write_index(tmp_path).read_text()
    for words in ("exploratory: faster", "Exploratory: tcp_nopush", "EXPLORATORY: 4 blocks were added"):
        assert words in index
    assert exploratory.summary()["sentences"][0].startswith("Exploratory: ")
    plain = EffectsPage(data)
    texts = (plain.answer().text, plain.scope().text, plain.trust().text, plain.doubts().text, plain.effects().text)
    assert "xploratory" not in " ".join(texts)


def test_page_at_a_planned_look_states_its_adjusted_levels(tmp_path):
    page = EffectsPage(run(tmp_path, blocks=10, stopping={"rule": "looks", "looks": [5, 10]}))
    assert "looks after 5 and 10 blocks, each at p < 0.0294" in page.scope().text
    printed = page.effects().text
    assert f"(97.06{NBSP}% interval " in printed and ", look 2 of 2 (" in printed
    assert "97.06 % interval, %" in printed
    assert f"(94.12{NBSP}% interval " in printed


def test_page_between_planned_looks_has_no_verdict(tmp_path):
    data = run(tmp_path, blocks=10, stopping={"rule": "looks", "looks": [5, 10]})
    page = EffectsPage(replace(data, trials=data.trials[data.trials["block"] <= 8]))
    assert page.answer().text.startswith("No verdict yet: this is no planned look.")
    assert "not yet a planned look: 8 blocks are complete, the next look is after 10" in page.answer().text
    assert "is faster" not in page.effects().text
