"""The execution of a plan: chosen by loadbook or asked for, recorded with its reason, and plain in earlier versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadbook.core.errors import UsageError
from loadbook.study.model import Study
from loadbook.study.plan import Plan, as_planned, make_plan, parse_plan, study_sha256
from loadbook.study.reader import read_study

STUDIES = Path(__file__).parents[3] / "studies"


def study(name: str, **keys: object) -> Study:
    return read_study(STUDIES / f"{name}.toml").model_copy(update=keys)


def reread(plan: Plan) -> Plan:
    return parse_plan(json.loads(json.dumps(plan.to_json())), "plan.json")


def test_study_that_asks_for_nothing_is_interleaved_where_nothing_speaks_against_it() -> None:
    plan = make_plan(study("aa"))
    assert plan.mode.name == "interleaved" and plan.execution_chosen and plan.plain_because is None
    assert reread(plan) == plan
    assert plan.execution_text == "interleaved, as nothing speaks against it"


def test_study_that_asks_for_nothing_is_plain_with_every_reason_against_interleaving() -> None:
    plan = make_plan(study("known-cost", metric="latency"))
    assert plan.mode.name == "plain" and plan.execution_chosen
    assert plan.plain_because is not None and plan.plain_because.startswith("the metric is latency: ")
    assert "; the load ends after a number of requests" in plan.plain_because
    assert reread(plan) == plan


def test_only_a_study_that_asks_for_interleaved_blocks_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be run in interleaved blocks: the load ends"):
        make_plan(study("known-cost", execution="interleaved"))
    assert make_plan(study("known-cost", execution="plain")).execution_text == "plain, as the study asks"
    assert make_plan(study("aa", execution="interleaved")).execution_text == "interleaved, as the study asks"


def test_plan_of_an_earlier_version_is_plain_and_its_study_unchanged() -> None:
    recorded = make_plan(study("aa", execution="plain")).to_json()
    assert not {"execution_chosen", "plain_because"} & set(recorded)
    assert "execution" not in recorded["study_spec"]  # as earlier versions recorded it
    plan = parse_plan(json.loads(json.dumps(recorded)), "plan.json")
    assert plan.mode.name == "plain"
    assert study_sha256(as_planned(study("aa"), plan)) == recorded["study_sha256"]
    asks = study("aa", execution="interleaved")
    assert study_sha256(as_planned(asks, plan)) != recorded["study_sha256"]


def test_hosts_can_still_make_a_chosen_execution_plain() -> None:
    plain = make_plan(study("aa")).with_plain_trials("several drivers")
    assert plain.mode.name == "plain" and plain.execution_text.endswith("instead of interleaved: several drivers")
    assert reread(plain) == plain
    assert study_sha256(as_planned(study("aa"), plain)) == study_sha256(plain.study)
