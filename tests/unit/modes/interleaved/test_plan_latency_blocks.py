"""Plain blocks for latencies beside interleaved ones: planned, recorded, extended, and dropped from a plain plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from loadbook.store.ledger import all_planned_trials, current_plan
from loadbook.study.model import Study
from loadbook.study.plan import Plan, additional_trials, make_plan, parse_plan, study_sha256
from loadbook.study.reader import read_study

STUDIES = Path(__file__).parents[4] / "studies"
AA = read_study(STUDIES / "aa.toml")


def study(**keys: object) -> Study:
    return AA.model_copy(update={"blocks": 4, "latency_blocks": 2} | keys)


def reread(plan: Plan) -> Plan:
    return parse_plan(json.loads(json.dumps(plan.to_json())), "plan.json")


def test_blocks_for_latencies_are_plain_and_come_first() -> None:
    plan = make_plan(study())
    assert (plan.blocks, plan.latency_blocks, plan.blocks_text) == (4, 2, "4 interleaved and 2 plain blocks")
    assert [plan.execution_of(block) for block in range(1, 7)] == ["plain"] * 2 + ["interleaved"] * 4
    assert {trial.block for trial in plan.trials} == {1, 2, 3, 4, 5, 6}
    assert reread(plan) == plan


def test_blocks_for_latencies_are_at_most_the_interleaved_ones() -> None:
    assert make_plan(study(), blocks=1).latency_blocks == 1
    with pytest.raises(ValidationError, match="latency_blocks"):
        Study.model_validate(study().model_dump(by_alias=True) | {"latency_blocks": -1})


def test_plain_plan_needs_no_blocks_for_latencies() -> None:
    plans = [make_plan(study(execution="plain")), make_plan(study(metric="latency"))]
    plans.append(make_plan(study()).with_plain_trials("several drivers"))
    for plan in plans:
        assert (plan.latency_blocks, plan.blocks_text, len(plan.trials)) == (0, "4 blocks", 4 * len(plan.treatments))
        assert plan.execution_of(1) == plan.execution_of(4) == "plain"


def test_study_without_blocks_for_latencies_has_the_sha256_of_earlier_versions() -> None:
    recorded = make_plan(study(latency_blocks=0)).to_json()
    assert "latency_blocks" not in recorded and "latency_blocks" not in recorded["study_spec"]
    assert study_sha256(study(latency_blocks=0)) != study_sha256(study())


def test_added_blocks_are_interleaved_and_follow_the_others() -> None:
    plan = make_plan(study())
    added = additional_trials(plan, 6)
    assert [trial.block for trial in added] == [7, 7, 8, 8]
    assert [trial.slot for trial in added] == [13, 14, 15, 16]
    entry = {"event": "blocks-added", "blocks": 6, "exploratory": True, "trials": [vars(trial) for trial in added]}
    longer = current_plan(plan, [entry])
    assert (longer.blocks, longer.latency_blocks, longer.added) == (6, 2, 2)
    assert {trial.block for trial in longer.trials} == set(range(1, 9))


def test_run_that_ended_early_has_its_blocks_for_latencies_and_the_interleaved_ones_until_then() -> None:
    ended = current_plan(make_plan(study()), [{"event": "run-ended", "blocks": 3}])
    assert {trial.block for trial in ended.trials} == {1, 2, 3, 4, 5}


def test_run_that_became_plain_has_as_many_blocks_as_it_would_have_had_interleaved_ones() -> None:
    plan, entries = make_plan(study()), [{"event": "made-plain", "reason": "too slow"}]
    plain = current_plan(plan, entries)
    assert plain == plan.with_plain_trials("too slow")
    assert {trial.block for trial in all_planned_trials(plan, entries)} == {1, 2, 3, 4}
    assert [trial.block for trial in additional_trials(plain, 5)] == [5, 5]
