"""Which run a command means; the recorded run serves as the last one."""

from __future__ import annotations

import pytest

from loadbook.core.errors import DataError, UsageError
from loadbook.execution.select import RunRequest, select_run
from loadbook.execution.session import run_study
from loadbook.store.ledger import is_run_complete
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
    chosen = select_run(layout, study, RunRequest(blocks=2))
    assert (chosen.resumed, len(chosen.plan.trials)) == (False, 8)
    assert chosen.run > run
    assert chosen.message.startswith(f"new run {chosen.run}: 8 trials in 2 blocks of 4")
    with pytest.raises(UsageError, match="is complete"):
        select_run(layout, study, RunRequest(resume=run))


def test_unfinished_run_is_resumed_with_its_own_plan(layout, study, unfinished):
    chosen = select_run(layout, study, RunRequest())
    assert (chosen.run, chosen.resumed) == (unfinished, True)
    assert chosen.message == f"resuming run {unfinished}: 12 of 32 trials to do"
    assert select_run(layout, study, RunRequest(resume=unfinished)).run == unfinished
    assert select_run(layout, study, RunRequest(new=True)).run > unfinished


@pytest.mark.parametrize("wish", [RunRequest(subset="all"), RunRequest(blocks=3)])
def test_unfinished_run_is_not_resumed_with_another_subset_or_number_of_blocks(layout, study, unfinished, wish):
    with pytest.raises(
        UsageError, match=f"run {unfinished} of {STUDY} is unfinished, but it was planned with"
    ) as refused:
        select_run(layout, study, wish)
    assert refused.value.hint.endswith("--new")


def test_unfinished_run_is_not_resumed_with_a_changed_study(layout, unfinished):
    path = layout.studies / f"{STUDY}.toml"
    path.write_text("# a comment changes nothing\n" + path.read_text())
    assert select_run(layout, find_study(layout.studies, STUDY), RunRequest()).resumed
    path.write_text("margin = 0.05\n" + path.read_text())
    with pytest.raises(UsageError, match="the study has changed since"):
        select_run(layout, find_study(layout.studies, STUDY), RunRequest())


@pytest.mark.parametrize(("name", "content"), [("plan.json", "{"), ("run.json", "{"), ("run.json", None)])
def test_resume_with_a_missing_or_broken_file_names_the_next_step(tmp_path, name, content):
    layout = copy_recorded_run(tmp_path)
    ledger, damaged = run_of(layout) / "ledger.jsonl", run_of(layout) / name
    ledger.write_text("".join(ledger.read_text().splitlines(keepends=True)[:-1]))  # unfinished again
    damaged.unlink() if content is None else damaged.write_text(content)
    with pytest.raises(DataError) as error:
        run_study(layout, STUDY, FIXTURE / run_of(layout).name / "hosts.toml")
    assert name in error.value.message and "loadbook verify" in error.value.hint
