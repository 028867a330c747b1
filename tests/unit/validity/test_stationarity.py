"""The gate on rates within trials: steady, moving, and not to be told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from test_rules_of_runs import STUDY, make

from loadbook.store.trial_record import TrialRecord
from loadbook.validity.rules import check_run, unsteady
from valid_trial import CLEAN

RECORDS = [
    TrialRecord.model_validate(CLEAN | {"trial": f"t{k}", "treatment": "ab"[k % 2], "slot": k + 1}) for k in range(12)
]


def samples(moving: str = "", seconds: int = 60, only: str = "ab") -> pd.DataFrame:
    rng, rows = np.random.default_rng(4), []
    for record in RECORDS:
        for second in range(seconds + 2) if record.treatment in only else ():
            level = 1 + 0.002 * second * (record.treatment in moving)
            value = 9000 * level * (1 + rng.normal(0, 0.02))
            rows.append((record.trial, "driver-1", "ended", "requests_per_s", float(second), value))
    return pd.DataFrame(rows, columns=["trial", "driver", "series", "metric", "x", "value"])


def test_steady_rates_have_no_hits() -> None:
    assert list(unsteady(RECORDS, samples())) == []


def test_rate_with_a_trend_is_a_doubt_on_its_treatment() -> None:
    (hit,) = unsteady(RECORDS, samples(moving="b"))
    assert (hit.name, hit.level, hit.treatment, hit.trial) == ("unsteady", "doubt", "b", None)
    assert hit.message.startswith("b: the rate moved by +")
    assert hit.message.endswith("warm up longer (workload.warmup_s), or measure longer.")


@pytest.mark.parametrize(
    ("frame", "printed"),
    [
        (samples(only=""), "not checked: no rates per second of wrk"),
        (samples(seconds=12), "not checked: at most 12 s of rates per second, 40 s are needed"),
    ],
)
def test_run_without_usable_rates_has_one_unchecked_hit(frame: pd.DataFrame, printed: str) -> None:
    (hit,) = unsteady(RECORDS, frame)
    assert (hit.level, hit.treatment, hit.message) == ("unchecked", None, printed)


def test_treatment_without_rates_is_unchecked() -> None:
    (hit,) = unsteady(RECORDS, samples(only="a"))
    assert (hit.level, hit.treatment) == ("unchecked", "b")


def test_steadiness_of_rates_is_checked_as_a_rule_on_runs() -> None:
    assert [hit.name for hit in check_run(STUDY, *make(), samples=samples(only=""))] == ["unsteady"]
    assert list(unsteady([], samples())) == []
