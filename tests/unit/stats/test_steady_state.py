"""Warm-up and steady state within trials, on series whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.stats.steady_state import mser5, rate_trend, transient_samples


def series(rng: np.random.Generator, tau_s: float, trials: int = 1, seconds: int = 60) -> np.ndarray:
    """Rates per second that start at half of 1 and approach it with `tau_s`; CV 5 %, correlation 0.5 per second."""
    noise = np.zeros((trials, seconds + 30))
    shocks = rng.normal(0, 0.05 * np.sqrt(0.75), noise.shape)
    for k in range(1, noise.shape[1]):
        noise[:, k] = 0.5 * noise[:, k - 1] + shocks[:, k]
    level = 1 - 0.5 * np.exp(-(np.arange(seconds) + 0.5) / tau_s) if tau_s else 1.0
    return level * (1 + noise[:, 30:])


@pytest.mark.parametrize("tau_s", [0, 2, 5])
def test_mser_removes_the_bias_of_the_transient(tau_s: float) -> None:
    rng = np.random.default_rng(3)
    left = [one[mser5(one) :].mean() for one in (series(rng, tau_s)[0] for _ in range(300))]
    assert abs(np.mean(left) - 1) < 0.005
    whole = np.mean([series(rng, tau_s)[0].mean() for _ in range(300)])
    assert tau_s == 0 or whole < 0.985


def test_transient_is_ten_seconds_plus_the_cut_of_mser() -> None:
    one = np.concatenate([np.full(10, 0.2), np.full(5, 0.6), np.ones(45)])
    assert mser5(one) == 15
    assert transient_samples(one) == 15
    assert transient_samples(np.ones(60)) == 10
    assert transient_samples(np.ones(12), interval_s=5.0) == 2


@pytest.mark.parametrize(("tau_s", "low", "high"), [(0, 0, 3), (12, 90, 100)])
def test_rate_with_a_trend_is_flagged_and_a_steady_rate_is_not(tau_s: float, low: int, high: int) -> None:
    rng = np.random.default_rng(11)
    found = [rate_trend(series(rng, tau_s, trials=10)) for _ in range(150)]  # type: ignore[arg-type]
    flagged = 100 * sum(trend is not None and trend.moving for trend in found) / len(found)
    assert low <= flagged <= high


def test_rate_change_is_reported_from_first_to_last_window() -> None:
    trend = rate_trend([np.repeat(np.linspace(1.0, 1.18, 12), 5)])
    assert trend is not None and trend.moving
    assert trend.change == pytest.approx((1.18 / (1 + 0.18 * 2 / 11)) - 1)
    assert trend.duration_s == 60


def test_short_rate_series_are_not_judged() -> None:
    assert rate_trend([]) is None
    assert rate_trend([np.ones(39)]) is None
    assert rate_trend([np.ones(60), np.ones(12)]) is None
    assert rate_trend([np.ones(40)]) is not None
    assert rate_trend([np.ones(7)], interval_s=5.0) is None
    assert rate_trend([np.ones(8)], interval_s=5.0) is not None


def test_constant_rate_is_steady() -> None:
    trend = rate_trend([np.full(60, 40_000.0)] * 3)
    assert trend is not None and (trend.moving, trend.p) == (False, 1.0)


@given(st.lists(st.floats(0, 1e6), max_size=90))
def test_transient_cut_is_a_multiple_of_five_samples_and_at_most_half(values: list[float]) -> None:
    cut = mser5(values)
    assert cut % 5 == 0
    assert cut <= len(values) / 2
