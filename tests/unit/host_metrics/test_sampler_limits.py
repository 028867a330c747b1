"""Accept queues and CPU quotas in the sampler's output, on captures of hosts that had them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loadbook.host_metrics.sampler import parse_sampler
from sampler_results import check

# wrk in a control group of version 1 with 20 ms of CPU in 100 ms
QUOTA = Path("tests/fixtures/hosts/sampler-quota.txt").read_bytes()
# haproxy with maxconn 10 under 50 connections, 4 of 5 samples without a look at single connections
QUEUE = Path("tests/fixtures/hosts/sampler-queue.txt").read_bytes()
BALANCER = "127.228.40.3:18080"


def values(traces, metric: str, item: str) -> list[float]:
    return [row["value"] for row in traces.rows if (row["metric"], row["item"]) == (metric, item)]


def test_quota_and_its_throttling_are_read():
    traces = parse_sampler(QUOTA)
    check(traces)
    assert values(traces, "cpu_quota", "wrk") == [0.2] * 5
    # periods 387 -> 389 -> 392, all of them throttled
    assert values(traces, "throttled_periods", "wrk") == [1.0] * 5
    passed_s = traces.times[1] - traces.times[0]
    assert values(traces, "throttled_time", "wrk")[0] == pytest.approx((17.664048699 - 17.579448106) / passed_s)


def test_quota_that_stops_is_named_and_not_the_smallest_one():
    inner = re.sub(rb"(?m)^(quota wrk) 1 200 .*$", rb"\1 2 150 100 0 0\n\g<0>", QUOTA)
    traces = parse_sampler(inner)
    check(traces)
    assert values(traces, "cpu_quota", "wrk") == [0.2] * 5
    assert values(traces, "throttled_periods", "wrk") == [1.0] * 5


def test_counters_of_another_group_are_not_compared():
    moved = QUOTA.replace(b"quota wrk 1 200 392 337", b"quota wrk 2 200 9392 9337")
    traces = parse_sampler(moved)
    check(traces)
    assert len(values(traces, "throttled_time", "wrk")) == 3


def test_throttling_is_told_across_a_gap_that_the_quota_made():
    blocks = QUOTA.split(b"@ ")
    traces = parse_sampler(b"@ ".join([*blocks[:2], blocks[-1]]))
    check(traces)
    assert [p.name for p in traces.problems] == ["gap"]
    assert values(traces, "throttled_periods", "wrk") == [1.0]
    assert not values(traces, "cpu_busy", "all")


def test_unreadable_control_group_is_a_problem_that_is_said_once():
    traces = parse_sampler(re.sub(rb"(?m)^quota wrk .*$", b"quota wrk ?", QUOTA))
    check(traces)
    assert [(p.name, p.message) for p in traces.problems] == [
        ("quota_unknown", "the control group of wrk cannot be read on this host")
    ]
    assert not values(traces, "throttled_time", "wrk")


@pytest.mark.parametrize("words", [b"wrk 1 200 387", b"wrk 1 200 387 332 x", b"wrk"])
def test_damaged_quota_spoils_its_sample_only(words):
    traces = parse_sampler(QUOTA.replace(b"quota wrk 1 200 387 332 17579448106", b"quota " + words))
    check(traces)
    assert [p.name for p in traces.problems] == ["unreadable_sample"]
    assert len(traces.times) == 5


def test_connections_in_accept_queues_are_read_with_those_that_stay_there():
    traces = parse_sampler(QUEUE)
    check(traces)
    assert values(traces, "accept_queue", BALANCER) == [11.0] * 8
    assert values(traces, "accept_queue", "all") == [11, 11, 21, 17, 11, 11, 21, 11]
    assert values(traces, "unaccepted", BALANCER) == [11, 11, 11]
    assert values(traces, "accept_wait", BALANCER) == [0.5, 1.2, 1.7]
    assert not values(traces, "unaccepted", "127.228.40.2:18080")


def test_host_that_hides_its_connections_is_said_once():
    traces = parse_sampler(re.sub(rb"(?m)^accept_queues .*$", b"accept_queues ?", QUEUE))
    check(traces)
    assert [p.name for p in traces.problems] == ["queue_unknown"]


def test_sockets_that_share_a_port_are_added_up_and_ipv6_addresses_have_brackets():
    line = b"accept_queues 7fe42803:18080=11\n"
    shared = QUEUE.replace(line, b"accept_queues 7fe42803:18080=11 7fe42803:18080=4 " + b"0" * 31 + b"1:80=2\n", 1)
    traces = parse_sampler(shared)
    check(traces)
    assert values(traces, "accept_queue", BALANCER)[0] == 15
    assert values(traces, "accept_queue", "[::1]:80") == [2]
    mapped = QUEUE.replace(b"7fe42803:18080=11/0.5", b"00000000000000000000ffff7fe42803:18080=11/0.5")
    assert values(parse_sampler(mapped), "unaccepted", BALANCER) == [11, 11, 11]


@pytest.mark.parametrize("item", [b"nonsense", b"7fe4280:80=1", b"7fe42803:80=x"])
def test_damaged_queue_spoils_its_sample_only(item):
    traces = parse_sampler(QUEUE.replace(b"accept_queues 7fe42803:18080=11", b"accept_queues " + item, 1))
    check(traces)
    assert [p.name for p in traces.problems] == ["unreadable_sample"]
    assert len(traces.times) == 7
