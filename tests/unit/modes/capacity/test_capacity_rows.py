"""Outcomes of probes from what their load generators told."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from loadbook.ingestion.trial_rows import TrialRows
from loadbook.modes.capacity.read import capacity_of, is_driver_late, probe_outcome
from loadbook.store.trial_record import CapacityRecord, ProbeRecord
from valid_trial import record

OBJECTIVE = CapacityRecord(within_s=0.02, share=0.9, errors=0.01, metric="latency_intended")


def rows(
    times_ms: dict[float, int],
    errors: int = 0,
    status_errors: int = 0,
    actual_ms: dict[float, int] | None = None,
    rate: float = 100,
    max_connections: int = 10,
) -> TrialRows:
    """Return the rows of a probe of one second with these times (ms: requests) from the intended and actual start."""
    times = {"latency_intended": times_ms, "service_time": times_ms if actual_ms is None else actual_ms}
    totals = {"requests": sum(times_ms.values()), "errors": errors, "errors_status": status_errors}
    load = {"tool": "vegeta", "model": "open", "rate_per_s": rate, "duration_s": 1.0}
    return TrialRows(
        record(workload=load | {"max_connections": max_connections}),
        measurements=[
            {"driver": "*", "metric": name, "statistic": "count", "value": float(value), "unit": "1"}
            for name, value in totals.items()
        ],
        times_us={name: Counter({round(1000 * ms): n for ms, n in own.items()}) for name, own in times.items()},
    )


def test_outcome_is_of_the_offered_requests_within_the_limit() -> None:
    outcome = probe_outcome(rows({5: 89, 10: 6, 40: 5}), OBJECTIVE)
    assert outcome is not None
    assert (outcome.missed, outcome.share_within) == (None, pytest.approx(0.95))
    assert outcome.margin == pytest.approx(math.log(20 / 10))
    late = probe_outcome(rows({5: 80, 40: 20}), OBJECTIVE)
    assert late is not None and late.missed == "latency" and late.margin == pytest.approx(math.log(20 / 40))


def test_too_many_errors_and_requests_that_were_never_answered_are_misses() -> None:
    failed, unanswered = probe_outcome(rows({5: 98}, errors=2), OBJECTIVE), probe_outcome(rows({5: 92}), OBJECTIVE)
    assert failed is not None and unanswered is not None
    assert (failed.missed, unanswered.missed) == ("errors", "rate")
    assert failed.margin < 0 and unanswered.margin < 0


def test_fast_error_responses_do_not_help() -> None:
    lenient = OBJECTIVE.model_copy(update={"errors": 0.2})
    outcome = probe_outcome(rows({1: 15, 15: 80, 40: 5}, errors=15, status_errors=15), lenient)
    assert outcome is not None and outcome.missed == "latency"
    assert outcome.share_within == pytest.approx(0.8)


def test_generator_that_starts_late_is_told_from_a_slow_server() -> None:
    assert is_driver_late(rows({40: 100}, actual_ms={5: 100}), OBJECTIVE)
    assert not is_driver_late(rows({40: 100}), OBJECTIVE)
    assert not is_driver_late(rows({5: 100}), OBJECTIVE)


def test_generator_with_too_few_connections_is_told_from_a_server_that_keeps_them_busy() -> None:
    """Two connections of 10 ms a request start 200 a second: fewer than 220, and fewer than their schedule asks."""
    queued = rows({30: 200}, actual_ms={10: 200}, rate=220, max_connections=2)
    assert is_driver_late(queued, OBJECTIVE)
    slow = rows({60: 90}, actual_ms={22: 90}, rate=100, max_connections=2)
    assert not is_driver_late(slow, OBJECTIVE)
    # the server was fast and then stood still, which left nothing to start requests on: it was not busy on average
    stopped = rows({5: 170, 300: 2}, actual_ms={5: 170, 300: 2}, rate=200, max_connections=2)
    assert not is_driver_late(stopped, OBJECTIVE)
    failing = rows({30: 190}, errors=10, actual_ms={10: 190}, rate=220, max_connections=2)
    assert not is_driver_late(failing, OBJECTIVE)


def test_error_responses_are_counted_once_among_the_requests_that_a_generator_started() -> None:
    lenient = OBJECTIVE.model_copy(update={"errors": 0.2})
    failing = rows({30: 200}, errors=18, status_errors=18, actual_ms={10: 200}, rate=220, max_connections=2)
    outcome = probe_outcome(failing, lenient)
    assert outcome is not None and outcome.missed == "rate"
    assert is_driver_late(failing, lenient)


def test_load_that_tells_no_times_or_errors_has_no_outcome() -> None:
    silent = rows({5: 100})
    silent.times_us = {}
    assert probe_outcome(silent, OBJECTIVE) is None
    silent = rows({5: 100})
    silent.measurements = [row for row in silent.measurements if row["metric"] != "errors"]
    assert probe_outcome(silent, OBJECTIVE) is None


def test_capacity_is_that_of_the_search_without_exploration_and_probes_that_do_not_count() -> None:
    def probe(rate: float, margin: float | None, phase: str = "search") -> ProbeRecord:
        return ProbeRecord(folder="probe-01", phase=phase, rate_per_s=rate, status="ok", margin=margin)

    assert capacity_of([probe(100, 1.0), probe(400, -1.0)]) == pytest.approx(200)
    assert capacity_of([probe(100, 1.0), probe(400, -1.0), probe(150, -2.0, "exploration"), probe(200, None)]) == (
        pytest.approx(200)
    )
    assert capacity_of([probe(200, None)]) is None


@pytest.mark.parametrize(("answered", "late"), [(180, True), (178, False)])
def test_connections_are_busy_from_nine_tenths_of_the_time_on(answered: int, late: bool) -> None:
    """Two connections for a second with requests of 10 ms each."""
    queued = rows({30: answered}, actual_ms={10: answered}, rate=220, max_connections=2)
    assert is_driver_late(queued, OBJECTIVE) is late
    queued.record.workload.pop("max_connections")
    assert not is_driver_late(queued, OBJECTIVE)


def test_requests_that_were_offered_are_the_rate_times_the_duration() -> None:
    probe = rows({5: 199}, rate=100)
    probe.record.workload["duration_s"] = 2.0
    outcome = probe_outcome(probe, OBJECTIVE)
    assert outcome is not None and outcome.share_within == pytest.approx(199 / 200)


def test_late_start_does_not_count_if_the_objective_is_about_the_time_from_the_actual_start() -> None:
    by_service_time = OBJECTIVE.model_copy(update={"metric": "service_time"})
    assert not is_driver_late(rows({5: 100}, actual_ms={40: 100}), by_service_time)
