"""Rules on CPU quotas, on connections that nobody serves, and on CPU time that a host hides."""

from __future__ import annotations

import pytest
from test_rules_of_runs import STUDY, make

from loadbook.store.trial_record import TrialRecord
from loadbook.study.limits import ValidityLimits
from loadbook.validity.base import RuleHit
from loadbook.validity.rules import check_run, check_trial
from valid_trial import CLEAN, INTERLEAVED, check, named, rows, traces

LISTENING = CLEAN["services"][0] | {"listens": "10.0.0.2:18080"}
QUEUE = ("web-1", "accept_queue", "all")


def waiting(number: float, place: str = "10.0.0.2:18080") -> dict:
    """Return the traces of this many connections in an accept queue."""
    return {QUEUE: number, ("web-1", "unaccepted", place): number}


RELAXED = {
    ("driver-1", "process_cpu", "wrk:100"): 0.3,
    ("driver-1", "cpu_busy", "cpu1"): 0.35,
    ("web-1", "cpu_busy", "cpu1"): 0.35,
}
# 25,000 requests/s of 0.4 ms each keep 10 connections at work
TEN_AT_WORK = {("latency", "mean"): 0.0004}
FIFTY_AT_WORK = {("latency", "mean"): 0.002}


def text(hit: RuleHit) -> str:
    """Return the message with plain blanks."""
    return hit.message.replace("\u00a0", " ")


def unserved(measured=None, traced=None, waits=lambda t: t, **changes) -> list[RuleHit]:
    """Return the hits; `waits` is how long half of the waiting connections have waited at a time of the window."""
    changed = CLEAN | {"services": [LISTENING]} | changes
    points = traces({QUEUE: 0.0} | (traced or {}))
    points += [
        row | {"metric": "accept_wait", "value": waits(row["t_s"])} for row in points if row["metric"] == "unaccepted"
    ]
    record = TrialRecord.model_validate(changed)
    return named(check_trial(record, rows(measured), points, [], ValidityLimits()), "unserved_connections")


def test_connections_that_no_process_accepts_are_counted_and_named():
    (hit,) = unserved(TEN_AT_WORK, waiting(40.0))
    assert (hit.level, hit.host) == ("doubt", "web-1")
    assert text(hit).startswith(
        "at least 40 connections of 50 waited in the accept queue of nginx, and no process accepted them; "
        "25,000 requests/s of 400 µs each keep 10.0 connections at work, 20 % of the 50 asked for"
    )
    assert "MaxRequestWorkers" in hit.message


@pytest.mark.parametrize("address", ["0.0.0.0:18080", "[::]:18080"])
def test_service_that_listens_on_all_addresses_is_recognised(address):
    assert unserved(TEN_AT_WORK, waiting(40.0, address))


@pytest.mark.parametrize("address", ["0.0.0.0:18081", "10.0.0.2:18081", "10.0.0.9:18080", "127.1.2.3:80"])
def test_queue_that_may_be_of_another_treatment_or_run_is_not_told(address):
    assert not unserved(FIFTY_AT_WORK, waiting(40.0, address))


def test_connections_that_wait_in_turn_are_served():
    # a connection for every request at a slow server: at every look, others have waited for half a second
    assert not unserved(FIFTY_AT_WORK, waiting(40.0), waits=lambda t: 0.5)
    assert unserved(FIFTY_AT_WORK, waiting(40.0))
    # a mean that wrk has corrected for pauses is of no use
    assert unserved({("latency", "mean"): 0.016}, waiting(40.0))


def test_wait_that_was_seen_late_counts_if_connections_were_idle():
    late = {"traced": waiting(30.0), "waits": lambda t: max(0.0, 0.5 * t - 0.2)}
    assert unserved({("latency", "mean"): 0.0008}, **late)
    assert not unserved(FIFTY_AT_WORK, **late)


def test_connections_from_before_the_load_are_not_the_loads():
    assert not unserved(FIFTY_AT_WORK, waiting(40.0), waits=lambda t: t + 600)


def test_queue_of_a_server_outside_of_the_study_is_named():
    (hit,) = unserved(FIFTY_AT_WORK, waiting(7.0, "127.0.0.1:28999"))
    assert "waited in the accept queue of 127.0.0.1:28999, which is no service of the study, and" in text(hit)


def test_few_connections_at_work_are_told_without_a_queue_if_the_driver_has_time():
    (hit,) = unserved(TEN_AT_WORK, RELAXED)
    assert text(hit).startswith("25,000 requests/s of 400 µs each keep 10.0 connections at work, 20 %")
    half = {("latency", "mean"): 0.001}
    assert unserved(half, RELAXED)
    for item in (("cpu_busy", "cpu1"), ("process_cpu", "wrk:100")):
        busy = {("driver-1", *item): 0.85}
        assert not unserved(half, busy) and unserved(TEN_AT_WORK, busy)
    assert not unserved(FIFTY_AT_WORK, RELAXED)
    assert not unserved(TEN_AT_WORK, RELAXED, workload=CLEAN["workload"] | {"keepalive": False})
    assert not unserved(TEN_AT_WORK, RELAXED, workload=CLEAN["workload"] | {"think_time_s": 0.0016})
    assert not unserved(TEN_AT_WORK, RELAXED, workload=CLEAN["workload"] | {"model": "open", "rate_per_s": 10})


def test_in_interleaved_blocks_only_the_queue_tells():
    interleaved = {"interleaved": INTERLEAVED, "execution": "interleaved"}
    (hit,) = unserved(TEN_AT_WORK, waiting(40.0), **interleaved)
    assert text(hit).startswith("at least 40 connections of 50 waited in the accept queue of nginx, and no process")
    assert "at work" not in text(hit)
    assert not unserved(TEN_AT_WORK, RELAXED, **interleaved)


@pytest.mark.parametrize(
    ("host", "label", "who"), [("driver-1", "wrk", "the load generator"), ("web-1", "nginx", "nginx")]
)
def test_throttled_processes_are_named_with_their_quota(host, label, who):
    metrics = {"throttled_time": 0.7, "throttled_periods": 0.75, "cpu_quota": 0.2}
    (hit,) = named(check(traced={(host, metric, label): v for metric, v in metrics.items()}), "cpu_throttled")
    assert (hit.level, hit.host) == ("doubt", host)
    assert text(hit).startswith(f"a CPU quota of {host} (0.2 CPUs) stopped {who} in 75 % of its periods: ")


def test_quota_that_stops_nothing_is_no_doubt():
    quota = {("web-1", "cpu_quota", "nginx"): 4.0, ("web-1", "throttled_time", "nginx"): 0.005}
    assert not named(check(traced=quota), "cpu_throttled")


def test_host_that_hides_other_tenants_is_said_not_to_be_checked():
    records, measured = make()
    host = records[0].monitors[0].host
    hits = check_run(STUDY, records, measured, facts={f"{host}-before": {"proc_stat": {"value": "lxcfs"}}})
    told = [(hit.name, hit.level, hit.host) for hit in hits if "lxcfs" in hit.message]
    assert told == [("stolen_cpu", "unchecked", host), ("foreign_cpu", "unchecked", host)]
