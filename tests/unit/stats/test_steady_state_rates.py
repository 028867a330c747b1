"""Rates per second of a run: whole intervals, several drivers, arms of which one had not settled, the settled rate."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from test_analyse import make_run
from test_steady_state import series

from loadbook.stats.analyse import analyse
from loadbook.stats.steady_state import MIN_SERIES_S, RateSeries, rate_series, rate_trends, settled_rate

COLUMNS = ["trial", "driver", "series", "metric", "x", "value"]


def samples(rates: dict[str, np.ndarray], kind: str = "ended", driver: str = "d1") -> pd.DataFrame:
    """The samples table of trials with these whole seconds, and the parts of seconds before and after them."""
    rows = [
        (trial, driver, kind, metric, float(x), value)
        for trial, values in rates.items()
        for metric in ("requests_per_s", "ok_per_s")
        for x, value in enumerate([3.0, *values, 5.0])
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def run_with(tau_of: dict[str, float], seconds: int = 60):
    """A run in which each treatment's trials warm up with its time constant (s)."""
    run, rng = make_run({"base": {}, "x": {"effect": 0.05}}, blocks=8), np.random.default_rng(2)
    taus = zip(run.trials["trial"], run.trials["treatment"].map(tau_of), strict=True)
    run.samples = samples({trial: 40_000 * series(rng, tau, seconds=seconds)[0] for trial, tau in taus})
    return run


def test_rate_series_use_whole_seconds_and_sum_drivers() -> None:
    both = pd.concat([samples({"t1": np.arange(1.0, 8.0)}), samples({"t1": np.full(5, 10.0)}, driver="d2")])
    one = rate_series(both)["t1"]
    assert one.interval_s == 1
    assert list(one.values) == [11, 12, 13, 14, 15]  # the last that both have is a part of a second for one of them
    whole = pd.DataFrame([("t", "d", "reply_rate", "requests_per_s", x, 9.0) for x in (5, 10, 15)], columns=COLUMNS)
    assert list(rate_series(whole)["t"].values) == [9, 9, 9]
    assert rate_series(whole, "ok_per_s") == {}


def test_steadiness_is_unknown_without_rates_or_in_short_trials() -> None:
    assert rate_trends(samples({"t1": np.ones(60)}), {"t1": "a", "t2": "b"})["b"] is None
    assert rate_trends(samples({"t1": np.ones(MIN_SERIES_S.__int__() - 1)}), {"t1": "a"}) == {"a": None}


def test_two_arms_with_steady_rates_are_compared() -> None:
    assert analyse(run_with({"base": 0, "x": 0})).row("x").verdict.kind == "better"


def test_two_arms_with_moving_rates_are_compared() -> None:
    assert analyse(run_with({"base": 15, "x": 15})).row("x").verdict.kind == "better"


@pytest.mark.parametrize(
    ("taus", "reason"),
    [
        ({"base": 0, "x": 15}, "its rate moved within trials, the baseline's did not"),
        ({"base": 15, "x": 0}, "its rate held still within trials, the baseline's did"),
    ],
)
def test_arm_with_a_steady_rate_is_not_compared_with_an_arm_with_a_moving_rate(
    taus: dict[str, float], reason: str
) -> None:
    verdict = analyse(run_with(taus)).row("x").verdict
    assert (verdict.kind, verdict.reason) == ("invalid", reason)


def test_arms_of_unknown_steadiness_are_compared() -> None:
    assert analyse(run_with({"base": 0, "x": 15}, seconds=30)).row("x").verdict.kind == "better"


def test_settled_rate_excludes_the_transient() -> None:
    values = np.concatenate([np.full(15, 100.0), np.full(45, 500.0)])
    assert settled_rate(RateSeries(1.0, values)) == (15.0, 500.0)
    assert settled_rate(RateSeries(1.0, values[:39])) is None


def test_settled_rate_is_a_separate_statistic() -> None:
    run = run_with({"base": 3, "x": 3})
    found = analyse(run, statistic="settled")
    assert found.statistic == "settled"
    assert found.row("base").median == pytest.approx(40_000, rel=0.02)
    assert abs(found.row("x").verdict.comparison.effect) < 0.02  # the samples hold no effect, the tool's own rate does
    assert analyse(run).row("x").verdict.kind == "better"
