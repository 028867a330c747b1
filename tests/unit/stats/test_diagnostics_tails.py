"""A percentile that a trial's requests cannot measure is compared with nothing."""

from __future__ import annotations

import pandas as pd
import pytest
from test_analyse import make_run

from loadbook.stats.analyse import analyse
from loadbook.stats.diagnostics import has_short_tail, requests_needed, share_beyond, tail_requests


@pytest.mark.parametrize(
    ("statistic", "share", "requests"), [("p50", 0.5, 40), ("p99", 0.01, 2000), ("p99.9", 0.001, 20_000)]
)
def test_percentile_needs_twenty_slower_requests(statistic: str, share: float, requests: int) -> None:
    assert share_beyond(statistic) == pytest.approx(share)
    assert requests_needed(statistic, 20) == requests
    counts = pd.Series([requests - 1.0, requests, float("nan")])
    assert list(has_short_tail("latency", statistic, counts, 20)) == [True, False, False]


@pytest.mark.parametrize(("metric", "statistic"), [("latency", "mean"), ("ok_per_s", "p99"), ("latency", "p100")])
def test_only_tail_percentiles_need_a_minimum_of_requests(metric: str, statistic: str) -> None:
    assert tail_requests(metric, statistic, pd.Series([1.0])) is None
    assert not has_short_tail(metric, statistic, pd.Series([1.0, float("nan")]), 20).any()


def run_of(requests: dict[str, float], **study):
    """A run whose treatments have p99, and these numbers of requests per trial."""
    run = make_run({"base": {}, "x": {"effect": 0.3}}, blocks=10, **study)
    rows = run.measurements.merge(run.trials[["trial", "treatment"]])
    of_p99 = rows[rows["metric"] == "latency"].assign(statistic="p99")
    counted = rows["metric"] == "requests"
    rows.loc[counted, "value"] = rows.loc[counted, "treatment"].map(requests)
    run.measurements = pd.concat([rows, of_p99])[["trial", "metric", "statistic", "value", "driver"]]
    return run


def test_p99_of_enough_requests_is_compared() -> None:
    found = analyse(run_of({"base": 2000.0, "x": 2500.0}), metric="latency", statistic="p99")
    assert found.row("x").verdict.kind == "better"


def test_p99_of_too_few_requests_is_not_compared() -> None:
    run = run_of({"base": 2500.0, "x": 1900.0})
    verdict = analyse(run, metric="latency", statistic="p99").row("x").verdict
    assert (verdict.kind, verdict.comparison.effect) == ("invalid", None)
    assert verdict.reason == (
        "p99 is not measurable: too few requests of a trial lie beyond it (validity.min_tail_requests)"
    )
    assert analyse(run, metric="latency", statistic="p50").row("x").verdict.kind == "better"


def test_study_can_lower_the_number_of_requests_that_a_percentile_needs() -> None:
    run = run_of({"base": 500.0, "x": 500.0}, validity={"min_tail_requests": 5})
    assert analyse(run, metric="latency", statistic="p99").row("x").verdict.kind == "better"
