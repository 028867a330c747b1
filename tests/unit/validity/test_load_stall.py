"""The rule about stalls: what froze a server, a driver or a link in mid-trial, and what only looks like it."""

from __future__ import annotations

from typing import Any

import pytest

from loadbook.study.limits import ValidityLimits
from loadbook.validity.base import RuleHit
from loadbook.validity.rules import check_trial
from valid_trial import CLEAN, check, named, record, rows, traces

NETWORK = {("web-1", "net_rx", "lo"): 1e6, ("web-1", "net_tx", "lo"): 6e6}


def stalls(**changes: Any) -> list[RuleHit]:
    return named(check(**changes), "stall")


def seconds(*counts: float, series: str = "ended") -> list[dict[str, Any]]:
    return [
        {"driver": "d", "series": series, "metric": "requests_per_s", "x": float(x), "value": count}
        for x, count in enumerate(counts)
        if count
    ]


def untraced(**changes: Any) -> list[RuleHit]:
    return stalls(monitors=[], **changes)


def test_trial_with_steady_traffic_has_no_stall() -> None:
    assert stalls() == [] == stalls(traced=NETWORK)


@pytest.mark.parametrize(("begin", "end"), [(1.0, 2.0), (1.0, 4.0), (2.5, 4.0), (0.25, 1.5)])
def test_trial_with_a_frozen_server_is_invalid(begin: float, end: float) -> None:
    (hit,) = stalls(traced=NETWORK, idle_s=(begin, end))
    assert (hit.level, hit.trial) == ("invalid", "t0001")
    assert "neither the service nor the network was at work" in hit.message


def test_short_stall_of_a_long_trial_is_a_doubt() -> None:
    times = [k * 0.25 for k in range(-4, 90)]
    window, duration = (1000.0, 1020.0), {("duration", "value"): 20.0}
    idle = [row | {"value": 0.0} if 1.0 < row["t_s"] <= 2.0 else row for row in traces(times=times, end=20.0)]
    hits = check_trial(record(window=window), rows(duration), idle, [], ValidityLimits())
    assert [hit.level for hit in named(hits, "stall")] == ["doubt"]


def test_two_idle_samples_are_no_stall() -> None:
    assert stalls(traced=NETWORK, idle_s=(1.0, 1.5)) == []


def test_busy_network_is_no_stall_even_if_the_monitored_process_has_ended() -> None:
    ended = [r for r in traces(NETWORK) if r["metric"] != "process_cpu" or r["t_s"] <= 1.0]
    hits = check_trial(record(), rows(), ended, [], ValidityLimits())
    assert named(hits, "stall") == []


def test_missing_sample_ends_a_span_of_idle_samples() -> None:
    times = [k * 0.25 for k in range(-4, 20) if k not in (6, 7, 8)]
    assert stalls(times=times, idle_s=(1.0, 2.5)) == []


@pytest.mark.parametrize("workload", [{"model": "open", "rate_per_s": 25_000.0}])
def test_open_loads_are_not_checked_for_stalls(workload: dict[str, Any]) -> None:
    assert stalls(idle_s=(1.0, 3.0), workload=CLEAN["workload"] | workload) == []


def test_idle_time_explained_by_slow_responses_is_no_stall() -> None:
    slow = {("requests", "count"): 200, ("ok", "count"): 200}  # 50 connections, one answer a second each
    assert stalls(measured=slow, idle_s=(1.0, 2.0)) == []


def test_idle_time_explained_by_few_requests_is_no_stall() -> None:
    few = {("requests", "count"): 40, ("ok", "count"): 40}
    assert stalls(measured=few, idle_s=(1.0, 2.0), workload=CLEAN["workload"] | {"connections": 1}) == []


def test_idle_time_while_the_tool_itself_starts_is_no_stall() -> None:
    """JMeter's JVM takes a second before the first request and after the last."""
    late = {("duration", "value"): 2.9}
    assert stalls(traced=NETWORK, measured=late, idle_s=(0.25, 1.25)) == []
    assert stalls(traced=NETWORK, measured=late, idle_s=(3.0, 4.0)) == []
    assert stalls(traced=NETWORK, measured=late, idle_s=(1.5, 2.5)) != []


def test_service_with_little_cpu_use_is_unchecked_for_stalls() -> None:
    quiet = {("web-1", "process_cpu", "nginx:201"): 0.02, ("web-1", "process_cpu", "nginx:200"): 0.0}
    (hit,) = stalls(traced=quiet, idle_s=(1.0, 3.0))
    assert hit.level == "unchecked"


def test_seconds_without_a_response_in_the_log_are_a_stall() -> None:
    (hit,) = untraced(samples=seconds(20_000, 25_000, 0, 25_000, 20_000))
    assert (hit.level, "no request ended for 1\xa0s" in hit.message) == ("invalid", True)
    assert untraced(samples=seconds(20_000, 25_000, 25_000, 25_000)) == []


def test_log_that_ends_before_the_reported_duration_is_a_stall() -> None:
    (hit,) = untraced(samples=seconds(25_000, 25_000))
    assert hit.level == "invalid"


def test_large_maximum_latency_is_a_doubt_if_there_is_no_other_evidence_of_a_stall() -> None:
    (hit,) = untraced(measured={("latency", "max"): 1.5})
    assert (hit.level, "slowest request" in hit.message) == ("doubt", True)
    assert untraced(measured={("latency", "max"): 0.3}) == []
    assert stalls(measured={("latency", "max"): 1.5}) == []


def test_trial_without_evidence_on_stalls_is_unchecked() -> None:
    (hit,) = untraced()
    assert hit.level == "unchecked"
