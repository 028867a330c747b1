"""Turns of the requests of a shared block, the rate of an arm, and reasons against shared blocks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.core.errors import UsageError
from loadbook.modes.shared.spec import (
    SHARING_TOOLS,
    TurnLengths,
    draw_turns,
    plain_reasons,
    rate_text,
    turns_of_block,
)
from loadbook.study.model import Study
from loadbook.study.plan import make_plan
from loadbook.tools.base import run_tools
from run_records import STUDY

OPEN = {"tool": "vegeta", "model": "open", "rate_per_s": 1000.0, "duration_s": 2.0, "connections": 20}


def study(load: dict[str, Any] | None = None, **changes: Any) -> Study:
    workload = STUDY.workload.model_copy(update=OPEN | (load or {}))
    return STUDY.model_copy(update={"workload": workload, "execution": "shared"} | changes)


def reasons(own: Study) -> list[str]:
    return plain_reasons(own, own.treatments_in())


def test_tools_that_share_a_load_are_those_that_say_so() -> None:
    assert {name for name, tool in run_tools().items() if tool.shares_load} == set(SHARING_TOOLS)


@given(
    arms=st.integers(2, 6), slice_ms=st.integers(10, 500), rate=st.integers(1, 5000), duration_ms=st.integers(100, 4000)
)
def test_each_arm_has_the_same_number_of_requests_in_every_round_and_the_whole_rate_in_all(
    arms: int, slice_ms: int, rate: int, duration_ms: int
) -> None:
    load = STUDY.workload.model_copy(update=OPEN | {"rate_per_s": float(rate), "duration_s": duration_ms / 1000})
    lengths = turns_of_block(study(slices=(slice_ms / 1000,)), 1, load)
    assert lengths.slice_s is not None and lengths.slice_s <= slice_ms / 1000 + 1e-9
    assert lengths.rounds * lengths.slice_s == pytest.approx(load.duration_s)
    turns = draw_turns(range(arms), lengths, rate * load.duration_s, "seed")
    rounds = [turns[k : k + arms] for k in range(0, len(turns), arms)]
    assert all(sorted(arm for arm, _ in own) == list(range(arms)) for own in rounds)
    assert all(len({count for _, count in own}) == 1 for own in rounds)
    for arm in range(arms):
        assert 0 <= sum(n for own, n in turns if own == arm) - rate * load.duration_s < 1
    assert all(abs(n - rate * lengths.slice_s) < 2 for _, n in turns)


@given(arms=st.integers(2, 6), rates=st.lists(st.integers(100, 3000), min_size=2, max_size=3))
def test_several_drivers_have_the_same_arms_in_the_same_order_whatever_their_rates(arms: int, rates: list[int]) -> None:
    lengths = TurnLengths(0.05, 20)
    drawn = [draw_turns(range(arms), lengths, float(rate), "seed") for rate in rates]
    assert len({tuple(arm for arm, _ in turns) for turns in drawn}) == 1
    for rate, turns in zip(rates, drawn, strict=True):
        due = 0
        for number, (_, requests) in enumerate(turns):
            assert abs(due / rate - number * 0.05) < arms / rate + 1e-9
            due += requests


@given(arms=st.integers(2, 6), requests=st.integers(1, 500))
def test_by_request_each_arm_has_its_share_of_the_rate_all_the_time(arms: int, requests: int) -> None:
    own = study({"rate_per_s": float(requests), "duration_s": 1.0}, turns="request")
    turns = draw_turns(range(arms), turns_of_block(own, 1, own.workload), requests, "seed")
    assert {n for _, n in turns} == {1}
    assert Counter(arm for arm, _ in turns) == dict.fromkeys(range(arms), requests)


def test_turns_are_drawn_anew_for_every_seed_and_alike_for_the_same() -> None:
    first, again, other = (draw_turns(range(4), TurnLengths(0.05, 20), 100, seed) for seed in ("a", "a", "b"))
    assert first == again != other


def test_blocks_have_the_lengths_of_the_study_in_turn() -> None:
    own = study(slices=(0.02, 0.1))
    assert [turns_of_block(own, block, own.workload).slice_s for block in (1, 2, 3)] == [0.02, 0.1, 0.02]


def test_rate_of_an_arm_is_named() -> None:
    assert rate_text(study(), 4, 1000.0) == "the whole 1,000/s in its slices"
    assert rate_text(study(turns="request"), 4, 1000.0) == "its share of 1,000/s all the time, 250/s"


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        ({"tool": "wrk2"}, "wrk2 cannot send the requests of several treatments by turns (k6, vegeta can)"),
        ({"model": "closed", "rate_per_s": None}, "the load is closed"),
        ({"arrivals": "poisson"}, "arrivals are not even"),
        ({"plan": "targets.txt"}, "the load is that of a file, targets.txt"),
        ({"requests": 100}, "the load ends after a number of requests"),
        ({"rate_per_s": 20.0}, "a slice of 50 ms has fewer than 2 requests at 20/s (longer slices, or turns = "),
    ],
)
def test_reasons_in_the_load_are_named(load: dict[str, Any], reason: str) -> None:
    assert [text for text in reasons(study(load)) if text.startswith(reason)]


def test_open_load_that_can_be_shared_has_no_reason_against_it() -> None:
    assert reasons(study()) == []
    plan = make_plan(study(execution="auto"))
    assert (plan.mode.name, plan.execution_chosen) == ("shared", True)
    assert plan.execution_text.startswith("shared, as the load is open")


def test_treatments_may_differ_in_their_page_and_in_nothing_else_of_the_load() -> None:
    first, second = STUDY.treatments_in()[:2]
    own = study()
    for change, count in (({"path": "/other", "expect_status": 404}, 0), ({"timeout_s": 3.0}, 1)):
        changed = own.treatments[second].model_copy(update={"workload": change})
        treatments = dict(own.treatments) | {second: changed}
        found = plain_reasons(own.model_copy(update={"treatments": treatments}), [first, second])
        assert len(found) == count


def test_asking_for_shared_blocks_of_a_closed_load_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match="cannot be run in shared blocks: the load is closed"):
        make_plan(study({"model": "closed", "rate_per_s": None}))
