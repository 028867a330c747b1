"""Levels, changes and alarms of one comparison through many runs."""

import math

import numpy as np
import pytest
from scipy import stats

from history_rates import rates, too_many
from loadbook.analyses.history.levels import (
    MIN_PAST_RUNS,
    MIN_SEGMENT_RUNS,
    assess_newest,
    estimate_level,
    find_changes,
)

RNG = np.random.default_rng(7)


def logs(values, error=0.004):
    return [(float(value), error) for value in values]


def reported(values, error=0.004):
    return [(value, own, 10) for value, own in logs(values, error)]


def noisy_runs(effects):
    return [(*log, 10) for log in noisy(effects)]


def noisy(effects, sd=0.004, seed=1):
    return logs(np.asarray(effects, float) + np.random.default_rng(seed).normal(0, sd, len(effects)))


@pytest.mark.parametrize("sd", [0.001, 0.01], ids=["runs agree within their errors", "runs scatter more than that"])
def test_history_level_of_runs_with_equal_errors_is_the_mean_with_a_prediction_interval(sd):
    values = RNG.normal(0.02, sd, 9)
    found = estimate_level(logs(values))
    assert found.mean == pytest.approx(values.mean())
    assert found.error == pytest.approx(stats.sem(values), rel=1e-3)
    assert found.prediction_error(0.004) == pytest.approx(values.std(ddof=1) * math.sqrt(1 + 1 / 9), rel=1e-3)


def test_history_weights_runs_by_their_standard_error():
    found = estimate_level([(0.0, 0.001), (0.001, 0.001), (-0.001, 0.001), (0.05, 0.05)])
    assert abs(found.mean) < 0.001


def test_history_level_of_identical_runs_keeps_their_standard_errors():
    found = estimate_level(logs([0.01] * 5))
    assert (found.sd_between_runs, found.scale) == (0.0, 1.0)
    assert found.prediction_error(0.004) > 0.004


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ([0.0] * 15 + [-0.03] * 15, [15]),
        ([0.0] * 12 + [-0.03] * 6 + [0.0] * 12, [12, 18]),
        ([0.0] * 20 + [0.03] * MIN_SEGMENT_RUNS, [20]),
        ([0.0] * 8 + [0.05] * 8 + [0.1] * 8, [8, 16]),
    ],
    ids=["a step", "one that was taken back", "the newest runs", "two steps"],
)
def test_history_finds_the_run_at_which_the_level_changed(effects, expected):
    assert find_changes(noisy(effects), 0.01) == expected


@pytest.mark.parametrize(
    "effects",
    [[], [0.0], [0.0, 0.1], [0.0, 0.0, 0.0, 0.1, 0.1], [0.0] * 20, [0.0] * 15 + [-0.03] + [0.0] * 15],
    ids=["none", "one run", "two", "fewer than two levels", "no change", "one run alone"],
)
def test_history_shows_no_change_if_the_level_did_not_change(effects):
    assert find_changes(noisy(effects, 1e-3), 0.01) == []


def test_history_finds_a_change_between_levels_without_scatter():
    assert find_changes(logs([0.0] * 4 + [0.02] * 4), 0.01) == [4]


def test_history_alarm_is_raised_for_worse_runs_only():
    past = noisy_runs([0.03] * 10)
    worse, better = (
        assess_newest(past, (0.03 + by, 0.004, 10), better="higher", rate=0.01, margin=0.02) for by in (-0.05, 0.05)
    )
    assert worse.raised
    assert not better.raised
    assert worse.effect < worse.limit < worse.expected


def test_history_alarm_treats_longer_times_as_worse():
    found = assess_newest(noisy_runs([0.03] * 10), (0.08, 0.004, 10), better="lower", rate=0.01, margin=0.02)
    assert found.raised
    assert found.limit > found.expected


def test_history_alarm_needs_enough_earlier_runs():
    past = noisy_runs([0.0] * MIN_PAST_RUNS)
    assert assess_newest(past[1:], (-1.0, 0.004, 10), better="higher", rate=0.01, margin=0.02) is None
    assert assess_newest(past, (-1.0, 0.004, 10), better="higher", rate=0.01, margin=0.02).raised


def test_history_alarm_uses_at_least_the_usual_standard_error():
    past, limits = noisy_runs([0.0] * 10), {}
    for error, blocks in ((0.0004, 10), (0.004, 10), (0.04, 10), (0.0004, 1000)):
        limits[error, blocks] = assess_newest(past, (0.0, error, blocks), better="higher", rate=0.01, margin=0.02).limit
    assert limits[0.0004, 10] == limits[0.004, 10]
    assert limits[0.04, 10] < limits[0.004, 10] < limits[0.0004, 1000]


def test_history_alarm_limit_is_a_prediction_interval():
    values = RNG.normal(0.02, 0.01, 12)
    found = assess_newest(reported(values), (0.02, 0.004, 10), better="higher", rate=0.01, margin=0.02)
    half = stats.t.ppf(0.99, 11) * values.std(ddof=1) * math.sqrt(1 + 1 / 12)
    assert math.log1p(found.limit) == pytest.approx(values.mean() - half, rel=1e-3)


@pytest.mark.parametrize("runs", [5, 10, 30])
def test_history_alarm_has_the_stated_false_alarm_rate_and_power(runs):
    """In short; benchmarks/history_rates.py is it whole."""
    histories = 150
    found = rates(runs, "normally", histories, rate=0.1)
    error = math.sqrt(0.1 * 0.9 / histories)
    assert abs(found.alarms - 0.1) < 4 * error
    assert abs(found.found - found.foretold) < 0.12
    assert not too_many(found.shown, 0.01, histories, errors=4)
