"""Runs that end by the rule that their study declared, and blocks that are added to a finished one; played back."""

from __future__ import annotations

from functools import partial

import pytest

from command_line import exit_code
from loadbook.core.errors import UsageError
from loadbook.ingestion.ingest import ingest
from loadbook.store.ledger import is_run_complete, read_plan
from loadbook.store.tables import load_run
from loadbook.store.verify import verify_run
from recorded_run import run_of
from stopped_replays import HUGE, SMALL, TWO, answer, events, project_of_replays, replay


@pytest.fixture
def layout(tmp_path):
    return project_of_replays(tmp_path)


@pytest.fixture
def go(layout):
    return partial(replay, layout)


def test_undecided_run_continues_to_its_last_planned_analysis(layout, go):
    paths, notes = go("looks", SMALL, **TWO, until=7)
    assert f"look 1 of 2 (5 blocks): undecided: {SMALL}" in notes
    assert not is_run_complete(paths)
    found = answer(layout, paths)
    reason = found.row(SMALL).verdict.reason
    assert found.row(SMALL).verdict.kind == "invalid"
    assert reason == "not yet a planned look: 6 blocks are complete, the next look is after 10"
    paths, notes = go("looks", SMALL, **TWO)
    assert [e["blocks"] for e in events(paths, "looked")] == [5, 10]
    assert "look 2 of 2 (10 blocks): every comparison is decided" in notes
    assert is_run_complete(paths) and "blocks" not in events(paths, "run-ended")[0]
    assert answer(layout, paths).level == pytest.approx(1 - 0.0294)


def test_blocks_added_to_a_fixed_plan_make_the_run_exploratory(layout, go, monkeypatch, capsys):
    paths, _ = go("fixed", HUGE, lines="blocks = 5")
    before = {p: p.read_bytes() for p in (paths.plan_json, *paths.trials.glob("*/*")) if p.is_file()}
    assert answer(layout, paths).stopping_state.added_blocks == 0
    again, notes = go("fixed", HUGE, lines="blocks = 5", more=2, until=6)
    assert again.raw == paths.raw and not is_run_complete(paths)
    assert "adding 2 blocks" in notes[0]
    assert "which makes it exploratory: its study declared a fixed number of blocks" in notes[0]
    with pytest.raises(UsageError, match="unfinished: blocks are added when it is done"):
        go("fixed", HUGE, lines="blocks = 5", more=3)
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    hosts = str(run_of(layout) / "hosts.toml")
    assert exit_code(monkeypatch, "run", "fixed", "--more", "2", "--hosts", hosts) == 0
    printed = capsys.readouterr()
    assert "resuming run" in printed.err
    assert printed.out.splitlines()[1:3] == ["exploratory: 2 blocks were added after looking", f"run {paths.raw.name}"]
    assert {p: p.read_bytes() for p in before} == before
    found = answer(layout, paths)
    assert (found.stopping_state.added_blocks, found.planned_blocks) == (2, 7)
    assert found.row(HUGE).verdict.kind == "worse"
    assert found.row(HUGE).verdict.comparison.blocks == 7
    assert ingest(paths).planned == 14
    assert verify_run(paths).findings == []
    assert [planned.block for planned in load_run(layout, "fixed").plan.trials][-2:] == [7, 7]
    data = load_run(layout, "fixed")
    assert data.plan.trials[:10] == read_plan(paths).trials
    assert list(data.trials["trial"]) == [planned.trial for planned in data.plan.trials]
