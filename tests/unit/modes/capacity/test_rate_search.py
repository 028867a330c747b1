"""The search for capacities: brackets, moves beyond them, and what swapped names of equal arms change."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.modes.capacity.spec_search import (
    MARGIN,
    MAX_MOVES,
    MAX_STEPS,
    RAISE,
    RESOLUTION,
    Bracket,
    Exploration,
    RateSearch,
    common_bracket,
    explore,
)


def searched(bracket: Bracket, capacity: float) -> RateSearch:
    """Return the finished search of an arm that passes up to exactly `capacity`."""
    search = RateSearch(bracket)
    while (rate := search.next_rate) is not None:
        search = search.after(rate <= capacity)
    return search


@given(st.floats(1, 1e6), st.floats(1.1, 8), st.floats(0.01, 0.99))
def test_capacity_inside_the_bracket_is_found_to_twice_the_resolution(low: float, ratio: float, place: float) -> None:
    bracket, capacity = Bracket(low, low * ratio), low * ratio**place
    search = searched(bracket, capacity)
    assert search.capacity_per_s is not None and search.bound is None
    assert (
        abs(math.log(search.capacity_per_s / capacity)) <= 2 * RESOLUTION
    )  # one that lies at the edge is searched beyond it
    assert len(search.probes) >= math.log2(bracket.width / RESOLUTION) - 1e-9


@pytest.mark.parametrize(("capacity", "moves"), [(130.0, 1), (160.0, 2), (60.0, 1), (45.0, 2)])
def test_capacity_beyond_the_bracket_is_found_in_the_next_ones(capacity: float, moves: int) -> None:
    search = searched(Bracket(80, 125), capacity)
    assert search.moves in (moves, moves + 1) and search.bound is None
    assert search.capacity_per_s == pytest.approx(capacity, rel=0.02)


@pytest.mark.parametrize(("capacity", "bound", "sign"), [(1e9, "at least", 1), (0.0, "at most", -1)])
def test_search_without_end_stops_with_a_bound(capacity: float, bound: str, sign: int) -> None:
    search = searched(Bracket(80, 125), capacity)
    assert (search.bound, search.moves) == (bound, MAX_MOVES)
    edge = 125 if sign > 0 else 80
    assert search.capacity_per_s == pytest.approx(edge * math.exp(sign * MAX_MOVES * MARGIN), rel=0.02)


def test_bracket_of_the_next_block_is_one_for_all_arms_whatever_their_names() -> None:
    found = {"a": [100.0, 110.0, 105.0], "b": [400.0, 390.0, 1000.0], "new": []}
    bracket = common_bracket(found.values())
    assert tuple(bracket) == pytest.approx((105 / 1.25, 400 * 1.25))
    assert common_bracket([found["b"], found["a"]]) == bracket


def explored(start: float, capacity: float) -> Exploration:
    """Return the finished exploration of an arm that passes up to exactly `capacity`."""
    arm = Exploration(start)
    while (rate := arm.next_rate) is not None:
        arm = arm.after(rate <= capacity)
    return arm


@given(st.floats(1, 1e6), st.floats(-4, 4))
def test_exploration_finds_a_bracket_of_one_step_above_or_below_its_start(capacity: float, away: float) -> None:
    arm = explored(capacity * math.exp(away), capacity)
    assert arm.bracket is not None
    assert arm.bracket.low <= capacity < arm.bracket.high
    assert arm.bracket.high / arm.bracket.low == pytest.approx(RAISE)


def test_exploration_without_end_has_no_bracket_and_says_how_far_it_went() -> None:
    high, low = explored(100.0, math.inf), explored(100.0, 0.0)
    assert high.steps == low.steps == MAX_STEPS
    assert (high.failed, low.passed) == (None, None)
    assert high.passed == pytest.approx(100 * RAISE ** (MAX_STEPS - 1))
    assert low.failed == pytest.approx(100 / RAISE ** (MAX_STEPS - 1))
    assert high.bracket is None and low.bracket is None


def test_bracket_of_a_block_holds_the_capacities_of_all_arms() -> None:
    brackets = [explored(100.0, capacity).bracket for capacity in (120.0, 700.0)]
    assert common_bracket((), filter(None, brackets)) == pytest.approx((100.0, 100 * RAISE**5))
    assert common_bracket([[2000.0], []], filter(None, brackets)) == pytest.approx((100.0, 2500.0))


def test_arms_that_no_rate_passed_are_explored_once_more() -> None:
    begun: list[list[str]] = []
    capacities = {"quiet": 120.0, "noisy at first": 120.0, "dead": 0.0, "without end": math.inf}

    def in_rounds(explorations: dict[str, Exploration]) -> dict[str, Exploration]:
        begun.append(sorted(explorations))
        held = dict.fromkeys(["noisy at first"], 0.0) if len(begun) == 1 else {}
        return {arm: explored(one.start, (capacities | held)[arm]) for arm, one in explorations.items()}

    found = explore(dict.fromkeys(capacities, 100.0), in_rounds)
    assert begun == [sorted(capacities), ["dead", "noisy at first"]]
    assert {arm: one.bracket and one.bracket.low for arm, one in found.items()} == {
        "quiet": 100.0, "noisy at first": 100.0, "dead": None, "without end": None,
    }  # fmt: skip
    assert explore({}, in_rounds) == {} and len(begun) == 2


def test_exploration_ends_where_lower_rates_no_longer_lower_the_times() -> None:
    arm = Exploration(100.0)
    for margin in (-1.2, -0.5, -0.48):
        arm = arm.after(False, margin)
    assert arm.is_flat and arm.is_finished and arm.next_rate is None
    assert arm.failed == pytest.approx(100 / RAISE**2)
    unknown = Exploration(100.0).after(False).after(False).after(False, -0.5)
    assert not unknown.is_finished
