"""Rates of an arm of a shared block, by the seconds of its own load."""

from __future__ import annotations

import pytest

from loadbook.modes.shared.read import own_report
from loadbook.store.trial_record import SharedRecord
from loadbook.tools.base import Measurement, ParsedReport
from loadbook.tools.shared_load import Part
from valid_trial import SHARED

REPORT = ParsedReport((
    Measurement("requests", "count", 1000, "1", None),
    Measurement("ok_per_s", "value", 250.0, "1/s", None),
    Measurement("duration", "value", 4.0, "s", None),
    Measurement("latency_intended", "p50", 0.002, "s", None),
))  # fmt: skip


def values(shared: SharedRecord, part: Part) -> dict[str, float]:
    return {m.metric: m.value for m in own_report(REPORT, shared, part).measurements}


def test_rates_are_by_the_seconds_of_the_arms_slices_and_times_stay() -> None:
    found = values(SharedRecord.model_validate(SHARED), Part(0, 1000, due_us=4_000_000))
    assert (found["duration"], found["ok_per_s"], found["offered_per_s"]) == (1.0, 1000.0, 1000.0)
    assert (found["requests"], found["latency_intended"]) == (1000, 0.002)


@pytest.mark.parametrize("changes", [{}, {"slice_s": None, "active_s": 4.0, "rate_per_s": 250.0}])
def test_late_generator_makes_the_load_longer_and_its_rate_lower_than_was_asked_for(changes: dict) -> None:
    shared = SharedRecord.model_validate(SHARED | changes)
    found = values(shared, Part(0, 1000, due_us=4_000_000, late_us=4_000_000))
    assert found["duration"] == 2 * shared.active_s
    assert found["ok_per_s"] == shared.rate_per_s / 2
    assert found["offered_per_s"] == shared.rate_per_s
