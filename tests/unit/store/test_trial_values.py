"""Values of a metric by trial: totals of the drivers, of the trials that tell the metric."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from loadbook.store.tables import trial_values
from run_records import plan_of

TRIALS = pd.DataFrame(
    [
        {"trial": f"t000{n}", "treatment": "base", "block": 1, "slot": 5 - n, "status": "ok", "valid": True} | more
        for n, more in enumerate(
            ({"measures": "rates"}, {"measures": "latencies"}, {"measures": "all"}, {"measures": "rates"}), 1
        )
    ]
)


def measured(trial: str, metric: str, statistic: str, value: float, driver: str = "*") -> dict[str, Any]:
    return {"trial": trial, "driver": driver, "metric": metric, "statistic": statistic, "value": value}


MEASUREMENTS = pd.DataFrame(
    [
        measured("t0001", "ok_per_s", "value", 10.0),
        measured("t0001", "ok_per_s", "value", 4.0, "driver-1"),
        measured("t0001", "errors", "count", 3.0),
        measured("t0002", "ok_per_s", "value", 20.0),
        measured("t0002", "latency", "p99", 0.2),
        measured("t0002", "latency", "p50", 0.1),
        measured("t0003", "ok_per_s", "value", 30.0),
        measured("t0003", "latency", "p99", 0.3),
    ]
)


def values(*words: Any, **options: Any) -> dict[str, float | None]:
    rows = trial_values(TRIALS, MEASUREMENTS, *words, **options)
    return {trial: None if math.isnan(v) else v for trial, v in zip(rows["trial"], rows["value"], strict=True)}


def test_values_are_totals_of_all_drivers_in_the_order_of_the_run() -> None:
    found = values("ok_per_s", every_trial=True)
    assert list(found.items()) == [("t0004", None), ("t0003", 30.0), ("t0002", 20.0), ("t0001", 10.0)]


def test_rates_are_of_interleaved_trials_and_times_of_plain_ones() -> None:
    assert values("ok_per_s") == {"t0004": None, "t0003": 30.0, "t0001": 10.0}
    assert values("latency", "p99") == {"t0003": 0.3, "t0002": 0.2}
    assert values("latency", "p50") == {"t0003": None, "t0002": 0.1}
    assert values("errors", "count")["t0001"] == 3.0


@pytest.mark.parametrize(
    ("metric", "execution"),
    [
        ("ok_per_s", "interleaved"), ("cpu_per_response", "interleaved"), ("latency", "plain"), ("errors", None),
        ("of_a_later_version", None),
    ],
)  # fmt: skip
def test_execution_of_the_trials_that_tell_a_metric(metric: str, execution: str | None) -> None:
    both, one = plan_of(blocks=5, latency_blocks=2), plan_of(blocks=5)
    blocks = both.mode.blocks_telling(both, metric)
    assert (blocks.execution, blocks.number) == (execution, 2 if execution == "plain" else 5)
    assert one.mode.blocks_telling(one, metric).execution is None
