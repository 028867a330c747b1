"""The noise of one configuration, and what pseudo-studies of it say: held against the tests that loadbook uses."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from loadbook.core.errors import UsageError
from loadbook.stats.compare import TESTS, choose_method
from loadbook.stats.paired_tests import PairedLogs
from loadbook.stats.power import (
    p_by_row,
    pair_pool,
    relabelling_test,
    sd_interval_factors,
    smallest_detected,
    summarise_noise,
    trials_of_arms,
    widest_gap_test,
)
from loadbook.stats.sequential import blocks_needed

RNG = np.random.default_rng


def arms(rows: int, blocks: int, seed: int = 1, wider: float = 5.0) -> tuple[np.ndarray, np.ndarray]:
    dice = RNG(seed)
    spread = np.where(np.arange(rows) % 2, wider, 1)[:, None]
    return dice.normal(0, 0.02, (rows, blocks)), dice.normal(0, 0.02, (rows, blocks)) * spread


def record(logs: np.ndarray) -> pd.DataFrame:
    """Trials of two arms in blocks of two, all of them valid."""
    slots = np.arange(1, len(logs) + 1)
    return pd.DataFrame({
        "trial": [f"t{k}" for k in slots], "treatment": np.where(slots % 2, "baseline", "again"), "slot": slots,
        "block": (slots + 1) // 2, "status": "ok", "valid": True, "value": 1000 * np.exp(logs),
    })  # fmt: skip


@pytest.mark.parametrize("blocks", [5, 7, 8, 9, 10, 12, 14])
def test_test_of_many_studies_at_once_equals_the_test_of_one_study(blocks):
    base, other = arms(24, blocks)
    p, least = p_by_row(base, other), smallest_detected(base, other, 0.05)
    methods = set()
    for row in range(len(base)):
        method = choose_method(PairedLogs("x", "b", tuple(range(blocks)), base[row], other[row], 0, 0))
        one = TESTS[method](base[row], other[row], [0.05])
        methods.add(method)
        assert p[row] == pytest.approx(one.p, abs=1e-9)
        assert least[row] == pytest.approx(-one.intervals[0][0], abs=0.005)
    assert len(methods) == (1 if blocks < 8 else 2)


def test_test_of_many_studies_at_once_handles_ties_like_the_test_of_one_study():
    base, other = (np.round(a, 2) for a in arms(24, 10, seed=3))
    for row, p in enumerate(p_by_row(base, other)):
        method = choose_method(PairedLogs("x", "b", tuple(range(10)), base[row], other[row], 0, 0))
        assert p == pytest.approx(TESTS[method](base[row], other[row], []).p, abs=1e-9)


def test_studies_simulated_from_identical_trials_find_no_difference():
    assert p_by_row(np.zeros((2, 6)), np.zeros((2, 6))).tolist() == [1.0, 1.0]
    assert p_by_row(np.zeros((2, 9)), np.zeros((2, 9))).tolist() == [1.0, 1.0]


def test_studies_with_too_few_blocks_for_alpha_never_find_a_difference():
    """With 8 blocks the smallest p is 2 of 256."""
    assert np.isinf(smallest_detected(*arms(4, 8, wider=1), 0.005)).all()


def test_blocks_needed_follow_the_formula_for_normal_noise():
    found = pair_pool(RNG(7).normal(0, 0.015, 400))
    need = found.blocks_needed(0.02)
    assert need.resampled
    assert need.low < need.blocks < need.high
    assert need.blocks == pytest.approx(blocks_needed(0.02, found.sd), rel=0.35)
    assert found.power(need.blocks, 0.02) >= 0.8
    far = found.blocks_needed(0.001)
    assert not far.resampled
    assert far.blocks == pytest.approx(blocks_needed(0.001, found.sd), rel=0.15)
    assert found.detectable_by_formula(far.blocks) == pytest.approx(0.001, rel=0.01)


def test_detectable_difference_is_found_in_four_of_five_studies():
    found = pair_pool(RNG(8).normal(0, 0.02, 200))
    assert found.power(10, found.detectable_effect(10)) == pytest.approx(0.8, abs=0.02)
    assert found.detectable_effect(10, power=0.5) < found.detectable_effect(10) < found.detectable_effect(6)
    assert found.detectable_effect(10) < found.detectable_effect(10, alpha=0.01)
    assert math.isinf(found.detectable_effect(8, alpha=0.005))


def test_blocks_needed_for_a_difference_of_zero_is_an_error():
    with pytest.raises(UsageError, match="nothing to look for"):
        pair_pool(RNG(1).normal(size=20)).blocks_needed(0.0)


def test_random_relabelling_of_a_drifting_record_shows_false_alarms_of_a_fixed_order():
    """On a host that drifts by 15 %, random blocks keep to 5 % false alarms, and the fixed order finds its drift."""
    logs = RNG(5).normal(0, 0.01, 160) + np.linspace(0, -0.15, 160)
    found = relabelling_test(logs, 10, studies=1000)
    assert found.windows == 141
    assert found.false_alarms < 0.07
    assert found.fixed_order > 0.3
    assert found.detected > 0.3


@pytest.mark.parametrize("trials", [0, 1, 20])
def test_relabelling_test_needs_more_than_one_window_of_trials(trials):
    assert relabelling_test(np.zeros(trials), 10) is None


def test_noise_of_trials_of_one_configuration_is_summarised():
    logs = RNG(2).normal(0, 0.02, 120)
    found = summarise_noise(trials_of_arms(record(logs), ["baseline", "again"]))
    assert found.trials == 120
    assert found.mean == pytest.approx(1000, rel=0.01)
    assert found.cv_interval[0] < 0.02 < found.cv_interval[1]
    assert abs(found.lag1) < 3 * found.lag1_error
    assert not found.gap_test.is_bimodal
    assert found.drift_p > 0.01


def test_noise_summary_uses_only_valid_trials_of_one_configuration():
    values = record(RNG(2).normal(0, 0.02, 40))
    values.loc[3, "valid"], values.loc[5, "value"] = False, 0.0
    assert trials_of_arms(values, ["baseline"])["treatment"].unique().tolist() == ["baseline"]
    assert len(trials_of_arms(values, ["baseline", "again"])) == 38


@pytest.mark.parametrize("logs", [np.zeros(30), RNG(1).normal(size=9)], ids=["all equal", "nine trials"])
def test_noise_summary_needs_enough_trials(logs):
    assert summarise_noise(trials_of_arms(record(logs), ["baseline", "again"])) is None


def test_gap_test_detects_two_groups_of_trials():
    dice = RNG(4)
    assert sum(widest_gap_test(dice.normal(0, 0.02, 120)).is_bimodal for _ in range(40)) <= 2
    two = dice.normal(0, 0.01, 120) - 0.08 * (np.arange(120) % 3 == 0)
    found = widest_gap_test(two)
    assert found.is_bimodal
    assert (found.below, found.above) == (40, 80)
    assert 0.02 < found.gap < 0.08


@settings(deadline=None, max_examples=examples(30))
@given(st.integers(10, 200), st.floats(-0.9, 0.9), st.integers(0, 99))
def test_interval_of_the_standard_deviation_contains_the_sample_value(size, lag1, seed):
    low, high = sd_interval_factors(RNG(seed).standard_t(3, size), lag1)
    assert 0 < low < high < math.inf
    assert high > 1


def test_interval_of_the_standard_deviation_covers_the_true_value():
    dice = RNG(6)
    hits = 0
    for _ in range(300):
        sample = dice.normal(0, 0.02, 60)
        low, high = sd_interval_factors(sample)
        hits += low <= 0.02 / sample.std(ddof=1) <= high
    assert 0.91 <= hits / 300 <= 0.985
