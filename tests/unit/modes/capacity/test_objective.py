"""Objectives: which loads meet them, by how much, and what counts as a miss."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.modes.capacity.stats_objective import JUST_MISSED, Objective

GOAL = Objective(within_s=0.020, share=0.99, errors=0.001)


def test_margin_is_the_limit_over_the_percentile() -> None:
    outcome = GOAL.outcome(1000, 0, [5_000, 10_000, 50_000], [900, 90, 10])
    assert outcome.share_within == 0.99
    assert outcome.margin == pytest.approx(math.log(2))
    assert outcome.missed is None


def test_one_request_more_beyond_the_limit_misses_the_objective() -> None:
    outcome = GOAL.outcome(1000, 0, [5_000, 40_000], [989, 11])
    assert outcome.missed == "latency"
    assert outcome.margin == pytest.approx(math.log(0.5))


@pytest.mark.parametrize(
    ("errors", "answered", "missed"),
    [(1, 999, None), (2, 998, "errors"), (0, 985, "latency"), (0, 979, "rate"), (1000, 0, "errors"), (0, 0, "rate")],
)
def test_errors_and_requests_that_were_not_sent_count_as_slow(errors: int, answered: int, missed: str | None) -> None:
    outcome = GOAL.outcome(1000, errors, [5_000], [answered])
    assert outcome.missed == missed
    assert outcome.share_within == answered / 1000
    assert (outcome.margin > 0) == (missed is None)
    if missed == "errors" and answered:
        assert outcome.margin == JUST_MISSED


def test_objective_of_all_requests_asks_for_the_slowest() -> None:
    goal = Objective(within_s=0.020, share=1.0, errors=0)
    assert goal.outcome(1000, 0, [5_000, 20_000], [999, 1]).missed is None
    assert goal.outcome(1000, 0, [5_000, 20_001], [999, 1]).missed == "latency"
    assert goal.outcome(1000, 0, [5_000], [999]).missed == "latency"


@given(
    st.lists(st.tuples(st.integers(1, 100_000), st.integers(1, 50)), min_size=1, max_size=30),
    st.floats(0.5, 1),
    st.integers(1, 100_000),
)
def test_objective_is_met_if_and_only_if_its_share_is_within_the_limit(
    cells: list[tuple[int, int]], share: float, limit_us: int
) -> None:
    times = dict(sorted(cells))
    offered = sum(times.values())
    within = sum(count for time, count in times.items() if time <= limit_us)
    outcome = Objective(limit_us / 1e6, share).outcome(offered, 0, [*times], [*times.values()])
    assert (outcome.missed is None) == (within >= math.ceil(share * offered - 1e-9))
    assert outcome.share_within == within / offered
