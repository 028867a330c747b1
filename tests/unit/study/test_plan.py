from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.core.errors import DataError, UsageError
from loadbook.study.model import Study
from loadbook.study.plan import make_plan, parse_plan, study_sha256


def make_study(treatments: int = 5, blocks: int = 4, **changes) -> Study:
    names = [f"x{i}" for i in range(treatments)]
    spec = {
        "schema": 1,
        "name": "demo",
        "question": "Does it matter?",
        "baseline": names[0],
        "blocks": blocks,
        "roles": {"web": {"service": "nginx"}, "driver": {}},
        "workload": {"tool": "wrk"},
        "treatments": {n: {} for n in names},
        "subsets": {"few": names[:2]},
    }
    return Study.model_validate_json(json.dumps(spec | changes))


@given(st.integers(1, 12), st.integers(1, 15), st.integers(0, 2**40))
def test_plan_blocks_contain_every_treatment_once(treatments, blocks, seed):
    plan = make_plan(make_study(treatments), blocks=blocks, seed=seed)
    for block in range(1, blocks + 1):
        assert sorted(t.treatment for t in plan.trials if t.block == block) == sorted(plan.treatments)
    assert [t.slot for t in plan.trials] == list(range(1, treatments * blocks + 1))
    assert len({t.trial for t in plan.trials}) == len(plan.trials)
    longer = make_plan(make_study(treatments), blocks=blocks + 3, seed=seed)
    assert longer.trials[: len(plan.trials)] == plan.trials
    assert make_plan(make_study(treatments), blocks=blocks, seed=seed) == plan


def test_plan_order_depends_on_seed_and_block():
    orders = {tuple(t.treatment for t in make_plan(make_study(8), blocks=3, seed=s).trials) for s in range(30)}
    assert len(orders) == 30
    first = make_plan(make_study(8), blocks=10).trials
    assert len({tuple(t.treatment for t in first if t.block == b) for b in range(1, 11)}) > 5


def test_treatments_have_each_position_in_a_block_about_equally_often():
    plan = make_plan(make_study(4), blocks=800)
    leads = [t.treatment for t in plan.trials if t.slot % 4 == 1]
    assert all(150 < leads.count(name) < 250 for name in plan.treatments)


def test_plan_written_as_json_and_read_back_is_equal():
    plan = make_plan(make_study(), subset="few", seed=9)
    raw = json.loads(json.dumps(plan.to_json()))
    assert parse_plan(raw, "plan.json") == plan
    assert raw["study_sha256"] == study_sha256(plan.study)
    del raw["trials"]
    with pytest.raises(DataError, match=r"plan\.json is not a plan"):
        parse_plan(raw, "plan.json")


def test_study_hash_does_not_depend_on_comments_or_formatting():
    assert study_sha256(make_study()) == study_sha256(make_study())
    assert study_sha256(make_study()) != study_sha256(make_study(margin=0.03))


def test_plan_refuses_unknown_subset_and_bad_blocks():
    with pytest.raises(UsageError, match="no subset 'nope'"):
        make_plan(make_study(), subset="nope")
    with pytest.raises(UsageError, match="at least one block"):
        make_plan(make_study(), blocks=0)


def test_estimated_hours_and_disk_space_grow_with_the_plan():
    short, long = make_plan(make_study(), blocks=2), make_plan(make_study(), blocks=4)
    assert long.hours == pytest.approx(2 * short.hours)
    assert short.hours == pytest.approx(10 * (0.1 + 2 + 10 + 0.5) / 3600)
    assert long.disk_bytes > short.disk_bytes > 0
