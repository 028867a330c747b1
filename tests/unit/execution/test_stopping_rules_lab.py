"""Runs that end by the rule that their study declared, and blocks that are added to a finished one; played back."""

from __future__ import annotations

from functools import partial

import pytest

from command_line import exit_code
from loadbook.core.errors import UsageError
from loadbook.ingestion.ingest import ingest
from loadbook.store.ledger import Ledger
from loadbook.store.trial_record import read_json
from loadbook.store.verify import verify_run
from recorded_run import run_of
from stopped_replays import HUGE, SMALL, THREE, TWO, answer, events, lengthen, project_of_replays, replay

ALWAYS = '[stopping]\nrule = "always-valid"'


@pytest.fixture
def layout(tmp_path):
    return project_of_replays(tmp_path)


@pytest.fixture
def go(layout):
    return partial(replay, layout)


def test_large_effect_stops_the_run_at_the_first_interim_analysis(layout, go):
    paths, notes = go("looks", HUGE, **THREE)
    assert "look 1 of 3 (5 blocks): every comparison is decided" in notes
    assert [(e["blocks"], e["decided"]) for e in events(paths, "looked")] == [(5, True)]
    assert events(paths, "run-ended")[0]["blocks"] == 5
    assert len(list(paths.trials.iterdir())) == 10
    assert len(read_json(paths.plan_json)["trials"]) == 30
    found = answer(layout, paths)
    assert (found.stopping_state.interim_analysis, found.planned_blocks, found.level) == (
        (1, 3),
        5,
        pytest.approx(0.9779),
    )
    row = found.row(HUGE)
    assert (row.verdict.kind, row.verdict.comparison.excluded) == ("worse", 0)
    assert ingest(paths).planned == 10
    assert verify_run(paths).findings == []
    with pytest.raises(UsageError, match="8 blocks are no planned look") as refused:
        go("looks", HUGE, **THREE, more=3)
    assert refused.value.hint == "go on to its next look: --more 5"
    go("looks", HUGE, **THREE, more=5)
    found = answer(layout, paths)
    assert (found.stopping_state.interim_analysis, found.stopping_state.added_blocks, found.planned_blocks) == (
        (2, 3),
        0,
        10,
    )
    assert [e["blocks"] for e in events(paths, "looked")] == [5, 10]


@pytest.mark.parametrize(("arm", "looked"), [(HUGE, [(5, [])]), (SMALL, [(5, [SMALL]), (10, [SMALL])])])
def test_run_goes_on_while_a_wide_aa_arm_leaves_a_difference_untold(layout, go, arm, looked):
    again = '", "baseline-again'  # beside the treatment, in the subset
    lengthen(run_of(layout), 8, arms=("baseline-again",))
    paths, _ = go("looks", arm + again, TWO["stopping"], f"margin = 0.001\n{TWO['lines']}")
    assert answer(layout, paths).row("baseline-again").check_state == "inconclusive"
    assert [(e["blocks"], [name for name in e["undecided"] if name == arm]) for e in events(paths, "looked")] == looked


def test_always_valid_rule_tests_after_every_block_and_allows_added_blocks(layout, go):
    paths, notes = go("always", HUGE, ALWAYS, lines="blocks = 6")
    looked = events(paths, "looked")
    assert looked[0]["blocks"] == 5
    found = answer(layout, paths)
    assert found.row(HUGE).verdict.comparison.method == "always-valid-t"
    assert found.row(HUGE).verdict.kind == "worse"
    assert looked[-1]["decided"] and f"{looked[-1]['blocks']} blocks: every comparison is decided" in notes
    go("always", HUGE, ALWAYS, lines="blocks = 6", more=2)
    after = answer(layout, paths)
    assert (after.stopping_state.added_blocks, after.planned_blocks) == (0, found.planned_blocks + 2)


def test_run_killed_after_its_stopping_decision_stays_stopped(layout, go):
    paths, _ = go("looks", HUGE, **THREE, until=4)
    with Ledger(paths.ledger) as ledger:
        ledger.append("looked", blocks=4, decided=True, undecided=[])
    paths, _ = go("looks", HUGE, **THREE)
    assert events(paths, "run-ended")[-1]["blocks"] == 4
    assert len(events(paths, "looked")) == 1


def test_blocks_that_cannot_be_added_are_refused(layout, go, monkeypatch, capsys):
    with pytest.raises(UsageError, match="has no run"):
        go("fixed", HUGE, more=2)
    go("fixed", HUGE, lines="blocks = 1")
    for wish in ({"new": True}, {"blocks": 3}, {"subset": "all"}):
        with pytest.raises(UsageError, match="as it was planned"):
            go("fixed", HUGE, lines="blocks = 1", more=2, **wish)
    with pytest.raises(UsageError, match="the study has changed since"):
        go("fixed", HUGE, lines="blocks = 2", more=2)
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    assert exit_code(monkeypatch, "run", "fixed", "--more", "0") == 2
    assert "--more" in capsys.readouterr().err


def test_plan_prints_its_interim_analyses_and_refuses_other_block_counts(layout, go, monkeypatch, capsys):
    with pytest.raises(UsageError, match="its plan has 15, not 6"):
        go("looks", HUGE, **THREE, blocks=6)
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    assert exit_code(monkeypatch, "plan", "looks") == 0
    assert "\nstops       looks after 5, 10 and 15 blocks, each at p < 0.0221\n" in capsys.readouterr().out
