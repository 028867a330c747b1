"""Arms without blocks: exact p-values, intervals that agree with them, and what too few runs give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from effort import examples
from loadbook.stats import unpaired
from loadbook.stats.results import Comparison
from loadbook.stats.verdict import decide_verdict

NAMES = ("before", "after")


def compare(base: list[float], other: list[float]) -> Comparison:
    return unpaired.compare_runs(base, other, NAMES, "ok_per_s")


def spread(values: int, factor: float = 1.0, scatter: float = 0.01, seed: int = 1) -> list[float]:
    return list(1000 * factor * np.exp(np.random.default_rng(seed).normal(0, scatter, values)))


@pytest.mark.parametrize(
    ("runs", "scatter", "method"),
    [
        ((4, 20), 0.01, None),
        ((5, 5), 0.01, "welch-t"),
        ((8, 8), 0.01, "rank-sum"),
        ((10, 10), 0.2, "welch-t"),
        ((5, 20), 0.01, "rank-sum-and-t"),
    ],
)
def test_test_follows_from_the_numbers_of_runs_and_their_scatter(
    runs: tuple[int, int], scatter: float, method: str | None
) -> None:
    found = compare(spread(runs[0], scatter=scatter), spread(runs[1], 1.5, seed=2))
    assert found.method == method and found.runs == runs and found.blocks == min(runs)
    assert (found.p is None) == (method is None) and found.effect == pytest.approx(0.5, abs=0.2)


def test_rank_sum_is_that_of_mann_whitney_and_its_interval_inverts_it() -> None:
    base, other = spread(9), spread(9, 1.02, seed=5)
    found = compare(base, other)
    assert found.p == pytest.approx(stats.mannwhitneyu(other, base, method="exact").pvalue)
    assert found.ci95 is not None
    for end, outwards in zip(found.ci95, (-1, 1), strict=True):
        just_in, just_out = (end - outwards * 1e-9, end + outwards * 1e-9)
        p_in, p_out = (stats.mannwhitneyu(np.array(other) / (1 + e), base).pvalue for e in (just_in, just_out))
        assert p_in > 0.05 >= p_out


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=12), st.lists(st.floats(1, 1e6), min_size=5, max_size=12))
def test_interval_excludes_zero_only_if_p_is_small_and_sides_are_exchangeable(
    base: list[float], other: list[float]
) -> None:
    found, swapped = compare(base, other), compare(other, base)
    assert found.method == swapped.method
    assert found.p == pytest.approx(swapped.p, abs=1e-9)
    if found.ci95 and swapped.ci95 and found.p and not 0.049 < found.p < 0.051:
        low, high = found.ci95
        assert not (low > 1e-9 or high < -1e-9) or found.p <= 0.05
        assert low == pytest.approx(1 / (1 + swapped.ci95[1]) - 1, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("other", [5.0, 6.0])
def test_sides_without_any_scatter_have_no_verdict(other: float) -> None:
    found = compare([5.0] * 8, [other] * 8)
    assert (found.effect, found.p, found.ci95) == (pytest.approx(other / 5 - 1), None, None)
    assert unpaired.no_verdict_reason(found) == unpaired.NO_SCATTER
    assert compare([5.0] * 8, spread(8)).p is not None


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        ((1, 1), "one run of each decides nothing"),
        ((4, 20), "only 4 runs of before; a verdict needs 5 of each"),
        ((3, 1), "only 3 runs of before and 1 run of after"),
    ],
)
def test_too_few_runs_give_the_difference_and_the_reason(runs: tuple[int, int], reason: str) -> None:
    found = compare([100.0] * runs[0], [110.0] * runs[1])
    assert found.effect == pytest.approx(0.1) and found.ci95 is None
    assert reason in (unpaired.no_verdict_reason(found) or "")
    assert decide_verdict(found, 0.02, reason=unpaired.no_verdict_reason(found)).kind == "invalid"


def test_p_values_of_a_family_are_adjusted() -> None:
    family = unpaired.adjust_family([compare(spread(8), spread(8, f, seed=3)) for f in (1.0, 1.05)])
    assert all(one.p_adjusted is not None and one.p is not None and one.p_adjusted >= one.p for one in family)
