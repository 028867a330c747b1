"""Outliers among the trials are marked: one at a time, after drift, whatever their arm's scatter."""

from __future__ import annotations

import numpy as np
import pytest
from test_carry_over import run

from loadbook.stats import diagnostics


def test_outlier_is_marked_with_its_distance_from_the_expected_value() -> None:
    values = run(2)
    values.loc[30, "value"] *= 0.85
    found = diagnostics.find_outliers(values)
    assert found[values.loc[30, "trial"]] == pytest.approx(-0.15, abs=0.02)
    assert len(found) <= 6


def test_drift_and_a_step_of_all_values_do_not_make_outliers() -> None:
    values = run(3)
    drifted = values.assign(value=values["value"] * np.linspace(1, 0.8, len(values)))
    stepped = values.assign(value=values["value"] * np.where(values["slot"] > 40, 0.9, 1.0))
    for moved in (drifted, stepped):
        assert len(diagnostics.find_outliers(moved)) <= len(diagnostics.find_outliers(values)) + 2


def test_outliers_are_judged_by_the_scatter_of_their_treatment() -> None:
    values, rng = run(4, blocks=20), np.random.default_rng(1)
    noisy = values["treatment"] == "c"
    values.loc[noisy, "value"] *= np.exp(rng.normal(0, 0.08, noisy.sum()))
    marked = set(diagnostics.find_outliers(values)) & set(values.loc[noisy, "trial"])
    assert len(marked) <= 2


def test_at_most_one_trial_in_forty_is_an_outlier_by_chance() -> None:
    found = [len(diagnostics.find_outliers(run(seed))) for seed in range(30)]
    assert 0.01 < np.mean(found) / 84 < 0.045


def test_few_trials_and_invalid_trials_have_no_outliers() -> None:
    values = run(5)
    values.loc[30, ["value", "valid"]] = [1.0, False]
    assert values.loc[30, "trial"] not in diagnostics.find_outliers(values)
    few = run(5, blocks=7)
    few.loc[3, "value"] = 1.0
    assert diagnostics.find_outliers(few) == {}
    assert diagnostics.find_outliers(run(6).assign(value=5.0)) == {}
    assert diagnostics.find_outliers(run(6).iloc[:0]) == {}
