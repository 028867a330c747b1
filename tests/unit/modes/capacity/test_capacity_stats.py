"""Capacity of a block by the margins of its probes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.modes.capacity.stats import capacity_from_margins


@given(st.floats(10, 1e5), st.permutations([0.7, 0.85, 0.95, 1.04, 1.2]))
def test_capacity_is_where_falling_margins_cross_zero(capacity: float, shares: list[float]) -> None:
    rates = [capacity * share for share in shares]
    assert capacity_from_margins(rates, [-2 * np.log(share) for share in shares]) == pytest.approx(capacity)


def test_capacity_of_probes_that_all_passed_or_failed_is_the_edge() -> None:
    assert capacity_from_margins([100, 120, 110], [1, 0.1, 0.5]) == pytest.approx(120)
    assert capacity_from_margins([100, 120, 110], [-0.1, -9, -0.5]) == pytest.approx(100)


def test_margins_out_of_order_are_averaged_and_infinite_ones_cut() -> None:
    assert capacity_from_margins([100, 110, 121], [np.inf, 0.0, -np.inf]) == pytest.approx(110)
    mixed = capacity_from_margins([90, 100, 110, 120], [0.5, -0.2, 0.1, -0.5])
    assert 90 < mixed < 100  # the two in the middle are 0.05 below the limit on average
