"""Oracles of the comparison and its hard cases."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from effort import examples
from loadbook.core.errors import DataError
from loadbook.stats.compare import IDENTICAL_VALUES, UNEQUAL_VARIANCES, compare
from loadbook.stats.paired_tests import blocked_rank, paired_t, signed_rank
from trial_frames import frame, noisy

RNG = np.random.default_rng(7)


def arms(blocks: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    base, other = RNG.normal(10, 0.02, blocks), RNG.normal(10.01, 0.02, blocks)
    if kind == "shared":
        common = RNG.normal(0, 0.05, blocks)
        return base + common, other + common
    return (np.round(base, 2), np.round(other, 2)) if kind == "ties" else (base, other)


def rank_statistic(other, base, axis=-1):
    ranks = stats.rankdata(np.concatenate([other, base], axis=axis), axis=axis)
    first, second = np.split(ranks, 2, axis=axis)
    return (first - second).sum(axis=axis)


@pytest.mark.parametrize("blocks", [8, 9, 12])
@pytest.mark.parametrize("kind", ["iid", "shared", "ties"])
def test_blocked_rank_p_equals_scipy_permutation_test(blocks: int, kind: str) -> None:
    base, other = arms(blocks, kind)
    expected = stats.permutation_test(
        (other, base), rank_statistic, permutation_type="samples", n_resamples=np.inf, vectorized=True
    )
    assert blocked_rank(base, other, [0.05]).p == pytest.approx(expected.pvalue, abs=1e-12)


@pytest.mark.parametrize("blocks", [8, 10, 12])
@pytest.mark.parametrize("kind", ["iid", "shared", "ties"])
def test_interval_ends_where_p_crosses_alpha(blocks: int, kind: str) -> None:
    base, other = arms(blocks, kind)
    for alpha in (0.05, 0.10):
        found = blocked_rank(base, other, [alpha])
        differences = np.unique(np.round(np.subtract.outer(other, base).ravel(), 12))
        step = np.diff(differences).min() / 3
        (low, high), p = found.intervals[0], lambda shift: blocked_rank(base, other - shift, []).p
        assert p(low - step) <= alpha < p(low + step)
        assert p(high + step) <= alpha < p(high - step)
        assert np.abs(differences - low).min() < 1e-9
        assert np.abs(differences - high).min() < 1e-9


@pytest.mark.parametrize("test", [blocked_rank, signed_rank])
def test_interval_from_sampled_permutations_ends_where_p_crosses_alpha(test) -> None:
    base, other = arms(25, "shared")
    for alpha in (0.05, 0.10, 0.01):
        (low, high), p = test(base, other, [alpha]).intervals[0], lambda shift: test(base, other - shift, []).p
        assert p(low - 1e-9) <= alpha < p(low + 1e-9)
        assert p(high + 1e-9) <= alpha < p(high - 1e-9)


def test_estimate_is_the_hodges_lehmann_median() -> None:
    base, other = arms(9, "iid")
    every = [o - b for o, b in itertools.product(other, base)]
    assert blocked_rank(base, other, []).estimate == pytest.approx(np.median(every))


@pytest.mark.parametrize("blocks", [10, 12])
def test_signed_rank_p_equals_scipy_wilcoxon_without_ties(blocks: int) -> None:
    base, other = arms(blocks, "iid")
    expected = stats.wilcoxon(other, base, mode="exact").pvalue
    found = signed_rank(base, other, [0.05])
    assert found.p == pytest.approx(expected, abs=1e-12)
    low, high = found.intervals[0]
    assert low < found.estimate < high


def test_paired_t_equals_scipy_ttest_rel() -> None:
    base, other = arms(6, "shared")
    expected = stats.ttest_rel(other, base)
    interval = expected.confidence_interval(0.95)
    found = paired_t(base, other, [0.05])
    assert (found.p, *found.intervals[0]) == pytest.approx((expected.pvalue, interval.low, interval.high))


def test_sampled_p_is_close_to_exact_p_and_never_zero() -> None:
    base, other = arms(13, "shared")
    exact = stats.permutation_test(
        (other, base), rank_statistic, permutation_type="samples", n_resamples=np.inf, vectorized=True
    ).pvalue
    assert blocked_rank(base, other, []).p == pytest.approx(exact, abs=0.015)
    many = np.arange(40) / 100
    assert blocked_rank(many, many + 1, []).p == 1 / 10_000


@pytest.mark.parametrize(
    ("blocks", "method"),
    [(1, None), (4, None), (5, "paired-t"), (7, "paired-t"), (8, "blocked-rank"), (30, "blocked-rank")],
)
def test_method_depends_on_the_number_of_blocks(blocks: int, method: str | None) -> None:
    found = compare(noisy(blocks, {"a": 0, "b": 0.02}), "b", "a")
    assert (found.method, found.blocks) == (method, blocks)
    assert (found.p is None) == (found.ci95 is None) == (found.ci90 is None) == (method is None)
    assert found.effect is not None


@pytest.mark.parametrize(("blocks", "method"), [(9, "paired-t"), (10, "signed-rank"), (20, "signed-rank")])
def test_arms_with_unequal_scatter_are_compared_by_a_paired_test(blocks: int, method: str) -> None:
    steady = np.full(blocks, 100.0) + np.linspace(0, 0.01, blocks)
    wild = 100 * np.exp(np.linspace(-0.4, 0.4, blocks))
    found = compare(frame({"a": steady, "b": wild}), "b", "a")
    assert found.method == method
    assert UNEQUAL_VARIANCES in found.flags


def test_values_without_logarithm_exclude_their_block_with_a_flag() -> None:
    values = [100.0, 101, 102, 103, 104, 105, 106, 107, 108, 109]
    found = compare(frame({"a": values, "b": [0, -1, None, float("inf"), *values[4:]]}), "b", "a")
    assert (found.blocks, found.excluded, found.method) == (6, 4, "paired-t")
    assert found.flags[0].startswith("in 4 blocks a trial of the treatment or of the baseline does not count")
    one_block = frame({"a": [0, *values[1:]], "b": [0, *values[1:]]})
    assert compare(one_block, "b", "a").flags[0].startswith("in 1 block ")
    assert compare(one_block, "b", "a").flags[0].endswith("; that block is left out")


def test_incomplete_blocks_and_invalid_trials_are_excluded() -> None:
    values = noisy(10, {"a": 0, "b": 0.02, "c": 0})
    values["valid"] = ~((values["treatment"] == "a") & (values["block"] == 3))
    values = values[~((values["treatment"] == "b") & (values["block"] == 7))]
    assert (compare(values, "b", "a").blocks, compare(values, "b", "a").excluded) == (8, 2)
    assert (compare(values, "c", "a").blocks, compare(values, "c", "a").excluded) == (9, 1)


def test_equal_values_give_p_1_and_a_flag() -> None:
    for blocks in (6, 10, 15):
        found = compare(frame({"a": [5.0] * blocks, "b": [5.0] * blocks}), "b", "a")
        assert (found.p, found.effect, found.ci95) == (1.0, 0.0, (0.0, 0.0))
        assert IDENTICAL_VALUES in found.flags


def test_estimate_lies_inside_the_interval_for_values_with_many_ties() -> None:
    found = compare(frame({"a": [3, 3, 3, 4, 3, 3, 4, 3, 3, 3], "b": [3, 4, 3, 4, 3, 3, 4, 4, 3, 3]}), "b", "a")
    assert found.p == pytest.approx(0.5)
    assert found.ci95[0] <= found.effect <= found.ci95[1]


def test_extreme_ratios_stay_finite() -> None:
    found = compare(frame({"a": [1e-300] * 8, "b": [1e300] * 8}), "b", "a")
    assert np.isfinite([found.effect, *found.ci95, *found.ci90]).all()


def test_duplicate_rows_of_a_treatment_in_a_block_are_refused() -> None:
    values = noisy(8, {"a": 0, "b": 0})
    values.loc[0, "block"] = 2
    with pytest.raises(DataError, match="more than one row in block 2"):
        compare(values, "b", "a")


positive = st.floats(1.0, 1.3).map(lambda x: round(x, 3))
pairs = st.integers(5, 15).flatmap(
    lambda n: st.tuples(st.lists(positive, min_size=n, max_size=n), st.lists(positive, min_size=n, max_size=n))
)


def numbers(found) -> list[float]:
    logs = np.log1p([found.effect, *found.ci95, *found.ci90])
    return [found.p, *logs]


@settings(max_examples=examples(60), deadline=None)
@given(pairs)
def test_swapping_treatments_negates_effect_and_interval(values) -> None:
    a, b = values
    one = compare(frame({"a": a, "b": b}), "b", "a")
    other = compare(frame({"a": a, "b": b}), "a", "b")
    p, estimate, low, high, low90, high90 = numbers(one)
    assert numbers(other) == pytest.approx([p, -estimate, -high, -low, -high90, -low90], abs=1e-9)


@settings(max_examples=examples(60), deadline=None)
@given(pairs, st.sampled_from([0.001, 0.3, 7.0, 12345.678]))
def test_comparison_is_independent_of_the_unit(values, factor: float) -> None:
    a, b = (np.array(arm) for arm in values)
    one, other = (
        compare(frame({"a": a, "b": b}), "b", "a"),
        compare(frame({"a": a * factor, "b": b * factor}), "b", "a"),
    )
    assert numbers(other) == pytest.approx(numbers(one), abs=1e-9)
    assert other.method == one.method


@settings(max_examples=examples(60), deadline=None)
@given(pairs, st.randoms(use_true_random=False))
def test_comparison_is_independent_of_block_order(values, random) -> None:
    a, b = values
    order = list(range(len(a)))
    random.shuffle(order)
    one = compare(frame({"a": a, "b": b}), "b", "a")
    other = compare(frame({"a": [a[k] for k in order], "b": [b[k] for k in order]}), "b", "a")
    assert numbers(other) == pytest.approx(numbers(one), abs=1e-9)


@settings(max_examples=examples(80), deadline=None)
@given(pairs)
def test_p_value_and_interval_agree(values) -> None:
    a, b = values
    found = compare(frame({"a": a, "b": b}), "b", "a")
    low, high = found.ci95
    assert low <= found.effect + 1e-12
    assert found.effect <= high + 1e-12
    assert low - 1e-12 <= found.ci90[0] <= found.ci90[1] <= high + 1e-12
    if abs(low) > 1e-9 and abs(high) > 1e-9:  # at a tie with 0 the boundary itself belongs to the interval
        assert (low > 0 or high < 0) == (found.p <= 0.05)
