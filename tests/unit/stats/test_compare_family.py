import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from effort import examples
from loadbook.stats.compare import compare, compare_declared, find_best_arm
from loadbook.stats.paired_tests import pair_arms, rank_differences
from trial_frames import frame, noisy

EFFECTS = {"base": 0.0, "x": 0.03, "y": 0.004, "z": -0.01}
OTHERS = ["x", "y", "z"]


def step_down_by_hand(values, names, baseline) -> list[float]:
    """Every sign vector one by one, as 3.4 writes it down."""
    z = []
    for name in names:
        found = pair_arms(values, name, baseline)
        d = rank_differences(found.base, found.other)
        z.append(d / np.sqrt((d**2).sum()))
    z = np.array(z)  # type: ignore[assignment]
    observed = np.abs(z.sum(axis=1))  # type: ignore[attr-defined]
    signs = np.array(list(itertools.product([1, -1], repeat=z.shape[1])))  # type: ignore[attr-defined]
    order, adjusted, last = np.argsort(-observed), np.empty(len(names)), 0.0
    for rank, k in enumerate(order):
        largest = np.abs(signs @ z[order[rank:]].T).max(axis=1)
        last = max(last, float((largest >= observed[k] - 1e-9).mean()))
        adjusted[k] = last
    return list(adjusted)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_step_down_p_equals_its_definition(seed: int) -> None:
    values = noisy(9, EFFECTS, seed=seed)
    found = compare_declared(values, "base", OTHERS, "baseline").comparisons
    expected = [max(p, c.p) for p, c in zip(step_down_by_hand(values, OTHERS, "base"), found, strict=True)]
    assert [c.p_adjusted for c in found] == pytest.approx(expected)


def test_family_with_few_blocks_uses_holms_method() -> None:
    values = noisy(6, EFFECTS)
    found = compare_declared(values, "base", OTHERS, "baseline").comparisons
    plain = [compare(values, name, "base").p for name in OTHERS]
    assert [c.p_adjusted for c in found] == pytest.approx(list(multipletests(plain, method="holm")[1]))


def test_single_comparison_has_no_adjusted_p() -> None:
    assert (
        compare_declared(noisy(10, {"base": 0, "x": 0.03}), "base", ["x"], "baseline").comparisons[0].p_adjusted is None
    )


def test_family_leaves_plain_results_unchanged_and_adds_a_wider_interval() -> None:
    values = noisy(10, EFFECTS)
    for found in compare_declared(values, "base", OTHERS, "baseline").comparisons:
        alone = compare(values, found.treatment, "base")
        assert (found.p, found.ci95, found.ci90, found.effect) == (alone.p, alone.ci95, alone.ci90, alone.effect)
        assert found.ci_family[0] <= found.ci95[0] < found.ci95[1] <= found.ci_family[1]
        assert found.family_size == 3


def test_family_interval_is_absent_with_too_few_blocks() -> None:
    many = {"base": 0.0} | {f"t{k}": 0.01 * k for k in range(8)}
    found = compare_declared(noisy(8, many), "base", list(many)[1:], "baseline").comparisons
    ranked = [c for c in found if c.method == "blocked-rank"]
    assert len(ranked) >= 6
    assert all(c.ci_family is None and c.ci95 for c in ranked)


def test_family_excludes_treatments_with_too_few_blocks() -> None:
    values = noisy(10, EFFECTS)
    values = values[(values["treatment"] != "z") | (values["block"] < 4)]
    found = compare_declared(values, "base", OTHERS, "baseline").comparisons
    assert [c.family_size for c in found] == [2, 2, 1]
    assert found[2].p_adjusted is None


@settings(max_examples=examples(20), deadline=None)
@given(st.permutations(OTHERS), st.integers(8, 14), st.integers(0, 50))
def test_family_is_independent_of_treatment_order(order, blocks: int, seed: int) -> None:
    values = noisy(blocks, EFFECTS, seed=seed)
    one = {c.treatment: c.p_adjusted for c in compare_declared(values, "base", OTHERS, "baseline").comparisons}
    other = {c.treatment: c.p_adjusted for c in compare_declared(values, "base", order, "baseline").comparisons}
    assert one == pytest.approx(other)
    assert all(c.p_adjusted >= c.p for c in compare_declared(values, "base", OTHERS, "baseline").comparisons)


def test_best_arm_must_beat_every_other() -> None:
    arms = {"base": 0.0, "x": 0.06, "y": 0.03, "z": -0.03}
    assert find_best_arm(noisy(12, arms), list(arms), "base").best == "x"
    assert find_best_arm(noisy(12, arms), list(arms), "base", better="lower").best == "z"


def test_arms_tied_for_best_are_listed_and_compared_with_the_rest() -> None:
    arms = {"base": 0.0, "x": 0.06, "y": 0.0601, "z": -0.03}
    found = find_best_arm(noisy(12, arms), list(arms), "base")
    assert (found.best, set(found.tied), found.ties_beat_rest) == (None, {"x", "y"}, True)


def test_best_arm_needs_more_than_two_arms() -> None:
    assert find_best_arm(noisy(12, {"base": 0, "x": 0.1}), ["base", "x"], "base").best is None


def test_missing_block_of_one_treatment_leaves_other_comparisons_complete() -> None:
    values = noisy(10, EFFECTS)
    values = values[(values["treatment"] != "z") | (values["block"] != 4)]
    found = {c.treatment: c for c in compare_declared(values, "base", OTHERS, "baseline").comparisons}
    assert (found["z"].blocks, found["z"].excluded, found["x"].blocks) == (9, 1, 10)
    assert all(0 < c.p_adjusted <= 1 for c in found.values())


def test_family_with_identical_arms_is_compared() -> None:
    same = [5.0] * 10
    found = compare_declared(
        frame({"base": same, "x": same, "y": [6.0] * 10}), "base", ["x", "y"], "baseline"
    ).comparisons
    assert [c.p_adjusted for c in found] == [1.0, pytest.approx(2 / 1024)]
