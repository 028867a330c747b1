"""Which run a command means; the recorded run serves as the last one."""

from __future__ import annotations

import pytest

from loadbook.core.errors import DataError, UsageError
from loadbook.execution.select import RunRequest, add_blocks, new_run_id, select_run, stopping_points
from loadbook.execution.session import run_study
from loadbook.store.ledger import Ledger, is_run_complete
from loadbook.study.limits import StoppingRule
from loadbook.study.plan import make_plan, parse_plan
from loadbook.study.reader import find_study
from recorded_run import FIXTURE, STUDY, copy_recorded_run, run_of


@pytest.fixture
def layout(tmp_path):
    return copy_recorded_run(tmp_path)


@pytest.fixture
def study(layout):
    return find_study(layout.studies, STUDY)


@pytest.fixture
def unfinished(layout):
    """The recorded run, its ledger cut after the 20th trial."""
    paths = layout.run(STUDY, layout.resolve_run(STUDY))
    lines = paths.ledger.read_bytes().splitlines(keepends=True)
    paths.ledger.write_bytes(b"".join(lines[: 1 + 2 * 20]) + lines[41][:17])
    return paths.raw.name


def test_new_run_is_started_after_a_complete_one(layout, study):
    run = layout.resolve_run(STUDY)
    assert is_run_complete(layout.run(STUDY, run))
    chosen = select_run(layout, study, RunRequest(STUDY, blocks=2))
    assert (chosen.resumed, len(chosen.plan.trials)) == (False, 8)
    assert chosen.run > run
    assert chosen.message.startswith(f"new run {chosen.run}: 8 trials in 2 blocks of 4")
    with pytest.raises(UsageError, match="is complete"):
        select_run(layout, study, RunRequest(STUDY, resume=run))


def test_smoke_variant_names_the_treatments_that_it_leaves_out(layout):
    whole = find_study(layout.studies, "nginx-directives")
    chosen = select_run(layout, find_study(layout.studies, "nginx-directives-smoke"), RunRequest(STUDY))
    left_out = [name for name in whole.treatments_in() if name not in chosen.plan.treatments]
    assert left_out and f"; smoke: without {left_out[0]}, " in chosen.message
    assert parse_plan(chosen.plan.to_json(), "plan.json") == chosen.plan
    assert "left_out" not in select_run(layout, whole, RunRequest(STUDY)).plan.to_json()


def test_unfinished_run_is_resumed_with_its_own_plan(layout, study, unfinished):
    chosen = select_run(layout, study, RunRequest(STUDY))
    assert (chosen.run, chosen.resumed) == (unfinished, True)
    assert chosen.message == f"resuming run {unfinished}: 12 of 32 trials to do"
    assert select_run(layout, study, RunRequest(STUDY, resume=unfinished)).run == unfinished
    assert select_run(layout, study, RunRequest(STUDY, new=True)).run > unfinished


@pytest.mark.parametrize("wish", [RunRequest(STUDY, subset="all"), RunRequest(STUDY, blocks=3)])
def test_unfinished_run_is_not_resumed_with_another_subset_or_number_of_blocks(layout, study, unfinished, wish):
    with pytest.raises(
        UsageError, match=f"run {unfinished} of {STUDY} is unfinished, but it was planned with"
    ) as refused:
        select_run(layout, study, wish)
    assert refused.value.hint.endswith("--new")


def test_unfinished_run_is_not_resumed_with_a_changed_study(layout, unfinished):
    path = layout.studies / f"{STUDY}.toml"
    path.write_text("# a comment changes nothing\n" + path.read_text())
    assert select_run(layout, find_study(layout.studies, STUDY), RunRequest(STUDY)).resumed
    path.write_text("margin = 0.05\n" + path.read_text())
    with pytest.raises(UsageError, match="the study has changed since"):
        select_run(layout, find_study(layout.studies, STUDY), RunRequest(STUDY))


@pytest.mark.parametrize(("name", "content"), [("plan.json", "{"), ("run.json", "{"), ("run.json", None)])
def test_resume_with_a_missing_or_broken_file_names_the_next_step(tmp_path, name, content):
    layout = copy_recorded_run(tmp_path)
    ledger, damaged = run_of(layout) / "ledger.jsonl", run_of(layout) / name
    ledger.write_text("".join(ledger.read_text().splitlines(keepends=True)[:-1]))  # unfinished again
    damaged.unlink() if content is None else damaged.write_text(content)
    with pytest.raises(DataError) as error:
        run_study(layout, RunRequest(STUDY, FIXTURE / run_of(layout).name / "hosts.toml"))
    assert name in error.value.message and "loadbook verify" in error.value.hint


LOOKED = {"event": "looked", "decided": False}
ADDED = {"event": "blocks-added", "blocks": 12}


@pytest.mark.parametrize(
    ("rule", "entries", "points"),
    [
        (StoppingRule(), [], [12]),
        (StoppingRule(rule="looks", looks=(6, 12)), [], [6, 12]),
        (StoppingRule(rule="looks", looks=(6, 12)), [LOOKED | {"blocks": 6}], [12]),
        (StoppingRule(rule="always-valid"), [LOOKED | {"blocks": 9}], [10, 11, 12]),
        (StoppingRule(rule="always-valid"), [LOOKED | {"blocks": 9, "decided": True}], [9]),
        (StoppingRule(rule="always-valid"), [LOOKED | {"blocks": 9, "decided": True}, ADDED], [12]),
        (StoppingRule(rule="always-valid"), [ADDED, LOOKED | {"blocks": 9, "decided": True}], [9]),
        (StoppingRule(rule="looks", looks=(6, 12)), [{"event": "started"}, ADDED], [6, 12]),
    ],
)
def test_run_may_end_after_the_looks_to_come(study, rule, entries, points):
    planned = make_plan(study.model_copy(update={"stopping": rule}), blocks=12)
    assert stopping_points(planned, entries) == points


def test_unfinished_run_to_which_blocks_were_added_goes_on_with_the_same_number_only(layout, study):
    paths = layout.run(STUDY, layout.resolve_run(STUDY))
    added = select_run(layout, study, RunRequest(STUDY, more=2))
    assert (added.resumed, added.plan.blocks, len(added.added_blocks["trials"])) == (True, 10, 8)
    assert added.message.startswith(f"adding 2 blocks to run {paths.raw.name}: 10 in all, which makes it exploratory")
    with Ledger(paths.ledger) as ledger:
        ledger.append("blocks-added", **added.added_blocks)
    again = select_run(layout, study, RunRequest(STUDY, more=2))
    assert again.message == f"resuming run {paths.raw.name}: 8 of 40 trials to do" and again.added_blocks is None
    with pytest.raises(UsageError, match="is unfinished: blocks are added when it is done") as refused:
        select_run(layout, study, RunRequest(STUDY, more=1))
    assert refused.value.hint == f"finish it first: loadbook run {STUDY}"
    with pytest.raises(UsageError, match="0 blocks cannot be added"):
        add_blocks(paths, 0)


def test_run_that_begins_within_a_second_of_others_gets_a_number(layout, monkeypatch):
    monkeypatch.setattr("time.strftime", lambda *_: "20261128-120000")
    found = []
    for _ in range(3):
        found.append(new_run_id(layout, STUDY))
        layout.run(STUDY, found[-1]).raw.mkdir()
    assert found == ["20261128-120000", "20261128-120000-2", "20261128-120000-3"]
