"""How long a trial should be: the worked example of the method, found from simulated trials."""

from __future__ import annotations

import numpy as np
import pytest

from loadbook.stats.power import estimate_trial_length


def ar(dice: np.random.Generator, seconds: int, sd: float = 0.05, rho: float = 0.5) -> np.ndarray:
    shocks = dice.normal(0, sd * np.sqrt(1 - rho**2), seconds)
    out = np.empty(seconds)
    last = dice.normal(0, sd)
    for k, shock in enumerate(shocks):
        out[k] = last = rho * last + shock
    return out


def run(trials: int, seconds: int, between: float, seed: int = 1) -> list[np.ndarray]:
    dice = np.random.default_rng(seed)
    return [1000 * np.exp(dice.normal(0, between) + ar(dice, seconds)) for _ in range(trials)]


@pytest.mark.parametrize("between, best_s", [(0.01, 34), (0.02, 17)])
def test_trial_length_matches_the_worked_example(between, best_s):
    """5 % per second, correlated by one half, 15 s around each trial: 34 s and 17 s."""
    trials = run(400, 60, between)
    sd = float(np.std(np.log([t.mean() for t in trials]), ddof=1))
    found = estimate_trial_length(trials, 1.0, sd, 15.0)
    assert found.within_1s == pytest.approx(0.05 * np.sqrt(3), rel=0.1)
    assert found.between == pytest.approx(between, rel=0.2)
    assert found.best_s == pytest.approx(best_s, rel=0.25)


def test_trial_length_without_scatter_between_trials_has_no_optimum():
    found = estimate_trial_length(run(20, 60, 0.0), 1.0, 0.001, 15.0)
    assert (found.best_s, found.between) == (None, 0.0)


@pytest.mark.parametrize("trials, seconds", [(20, 29), (4, 60), (0, 0)])
def test_trial_length_needs_long_and_enough_trials(trials, seconds):
    assert estimate_trial_length(run(trials, seconds, 0.01), 1.0, 0.02, 15.0) is None
