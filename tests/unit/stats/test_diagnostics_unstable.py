"""An effect that changes during a run is flagged; noise is not, whatever its shape."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as sps

from loadbook.stats.compare import compare
from loadbook.stats.diagnostics import FLAG_PREFIX, block_order, effect_stability, rank_von_neumann_p
from trial_frames import frame


@pytest.mark.parametrize("blocks", [8, 12, 30])
@pytest.mark.parametrize("draw", [lambda rng, n: rng.normal(size=n), lambda rng, n: rng.standard_t(2.5, n)])
def test_stable_effects_are_flagged_unstable_at_most_once_in_a_hundred_runs(blocks: int, draw) -> None:
    rng = np.random.default_rng(blocks)
    found = [effect_stability(draw(rng, blocks)).is_unstable for _ in range(400)]
    assert sum(found) <= 9


def test_effect_with_a_trend_is_flagged_with_the_effects_of_both_halves() -> None:
    found = effect_stability(np.linspace(-0.01, 0.05, 12) + np.random.default_rng(1).normal(0, 0.004, 12))
    assert found is not None and found.is_unstable
    assert found.first_half == pytest.approx(0.004, abs=0.006)
    assert found.second_half == pytest.approx(0.037, abs=0.006)
    assert found.flag.startswith(f"{FLAG_PREFIX}+0.")
    assert found.flag.endswith("; measure again in a new run before relying on it")


def test_effect_that_comes_and_goes_is_flagged_as_unstable() -> None:
    waves = 0.02 * np.sin(np.arange(24) * 2 * np.pi / 12) + np.random.default_rng(2).normal(0, 0.003, 24)
    assert sps.kendalltau(np.arange(24), waves).pvalue > 0.05
    assert effect_stability(waves).is_unstable


def test_rank_von_neumann_p_equals_simulated_permutations() -> None:
    """Bartels' beta against the permutations themselves."""
    values = np.array([1.0, 2.0, 4.0, 3.0, 5.0, 7.0, 6.0, 9.0, 8.0, 10.0])
    rng = np.random.default_rng(3)
    orders = np.array([rng.permutation(10) + 1.0 for _ in range(20_000)])
    smaller = (np.diff(orders, axis=1) ** 2).sum(axis=1) <= (np.diff(values) ** 2).sum()
    assert rank_von_neumann_p(values) == pytest.approx(smaller.mean(), abs=0.004)
    assert rank_von_neumann_p(values[::-1]) == rank_von_neumann_p(values)


def test_stability_is_not_judged_with_few_blocks_or_equal_ratios() -> None:
    assert effect_stability(np.arange(7.0)) is None
    assert effect_stability(np.full(12, 0.01)) is None


def test_stability_is_judged_in_numeric_order_of_blocks() -> None:
    assert block_order(["1", "10", "2"]) == [0, 2, 1]
    assert block_order((3, 1, 2)) == [1, 2, 0]
    assert block_order(["monday", "tuesday"]) is None
    assert block_order(["1", "nan"]) is None


def test_comparison_has_the_flag_of_an_unstable_effect() -> None:
    ratios = 1 + np.linspace(-0.03, 0.08, 12)
    values = frame({"base": [100.0] * 12, "x": list(100 * ratios)})
    (flag,) = [flag for flag in compare(values, "x", "base").flags if flag.startswith(FLAG_PREFIX)]
    assert "in the second (p <\u00a00.001)" in flag
    named = values.assign(block="block " + values["block"].astype(str))
    assert not any(flag.startswith(FLAG_PREFIX) for flag in compare(named, "x", "base").flags)
