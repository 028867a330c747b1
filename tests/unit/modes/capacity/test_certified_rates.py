"""Certified rates: exact numbers of starts, rates in order, and starts that depend on one another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.modes.capacity.spec import CapacityObjective, least_starts
from loadbook.modes.capacity.stats_certified import Starts, independent_number, rate_states


def starts(made: int, met: int) -> Starts:
    return Starts(made, met, made)


@pytest.mark.parametrize(
    ("share", "misses", "least"), [(0.9, 0, 29), (0.9, 1, 46), (0.8, 0, 14), (0.5, 0, 5), (0.95, 0, 59), (0.99, 0, 299)]
)
def test_least_number_of_starts_is_that_of_the_exact_bound(share: float, misses: int, least: int) -> None:
    assert least_starts(share, misses) == least
    assert rate_states({1.0: starts(least, least - misses)}, share, 0.95) == {1.0: "certified"}
    assert rate_states({1.0: starts(least - 1, least - 1 - misses)}, share, 0.95) == {1.0: "open"}
    assert rate_states({1.0: starts(least, least - misses - 1)}, share, 0.95) == {1.0: "open"}


def test_rates_above_one_that_is_not_certified_are_not_certified_either() -> None:
    found = rate_states({3.0: starts(29, 29), 1.0: starts(29, 29), 2.0: starts(29, 28)}, 0.9, 0.95)
    assert found == {1.0: "certified", 2.0: "open", 3.0: "lower-rate-open"}


def test_rate_that_too_few_starts_sustain_is_refuted() -> None:
    found = rate_states({1.0: starts(29, 29), 2.0: starts(29, 20), 3.0: starts(29, 0)}, 0.9, 0.95)
    assert found == {1.0: "certified", 2.0: "refuted", 3.0: "refuted"}


def test_no_starts_show_nothing() -> None:
    nothing = Starts.of_times([], 1.0)
    assert (nothing.made, nothing.met, nothing.share_low(0.95), nothing.share_high(0.95)) == (0, 0, 0.0, 1.0)
    assert rate_states({1.0: nothing}, 0.5, 0.95) == {1.0: "open"}


def test_time_at_the_limit_meets_the_objective_in_spite_of_rounding() -> None:
    objective = CapacityObjective(within_s=0.02)
    assert Starts.of_times([objective.time_s(0.0), 0.02 * (1 + 1e-12), 0.0201], 0.02).met == 2


def test_starts_that_wander_count_as_fewer_and_certify_nothing() -> None:
    """All 46 met the objective, yet their times rise and fall slowly: few states of the host were seen."""
    slow = list(np.exp(np.sin(np.arange(46) / 7)) / 200)
    found = Starts.of_times(slow, 0.02)
    assert (found.made, found.met) == (46, 46) and found.independent < 10
    assert rate_states({1.0: found}, 0.9, 0.95) == {1.0: "open"}
    mixed = list(np.random.default_rng(1).permutation(slow))
    assert rate_states({1.0: Starts.of_times(mixed, 0.02)}, 0.9, 0.95) == {1.0: "certified"}


@given(st.lists(st.floats(1e-4, 10), max_size=60))
def test_number_of_independent_starts_lies_between_none_and_all(times_s: list[float]) -> None:
    assert 0 <= independent_number(times_s) <= len(times_s)


@given(st.integers(0, 60), st.integers(0, 60))
def test_bounds_contain_the_share_that_was_seen(met: int, missed: int) -> None:
    found = starts(met + missed, met)
    if found.made:
        assert found.share_low(0.95) <= met / found.made <= found.share_high(0.95)
