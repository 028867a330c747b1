"""Rules on trials with several drivers: all of them are looked at, and they must have been at work together."""

from __future__ import annotations

from typing import Any

import pytest

from loadbook.study.limits import ValidityLimits
from loadbook.validity.base import RuleHit
from loadbook.validity.rules import check_trial
from valid_trial import CLEAN, INTERLEAVED, TOTALS, check, named, record, rows, traces

ADDED = {
    ("driver-2", "cpu_busy", "cpu1"): 0.60, ("driver-2", "cpu_busy", "cpu0"): 0.97,
    ("driver-2", "cpu_steal", "cpu1"): 0.0, ("driver-2", "process_cpu", "wrk:300"): 0.0,
}  # fmt: skip


def changes(late_s: float = 0.0, rtt_s: float = 0.001, offset_s: float = 7.0) -> dict[str, Any]:
    """A second driver on the first one's CPU, whose clock is ahead by `offset_s` and which starts `late_s` later."""
    clock = CLEAN["clocks"]["driver-1"]
    ahead = {"offset_before_s": offset_s, "rtt_before_s": rtt_s, "offset_after_s": offset_s, "rtt_after_s": rtt_s}
    times = [(1000.001, 1004.001), (1000 + offset_s + late_s, 1004 + offset_s + late_s)]
    return {
        "drivers": [
            {"host": host, "argv": ["wrk"], "rc": 0, "stdout": "o", "stderr": "e", "started_host": a, "ended_host": b}
            for host, (a, b) in zip(("driver-1", "driver-2"), times, strict=True)
        ],
        "clocks": {"driver-1": clock, "web-1": clock, "driver-2": ahead},
        "boot_ids": CLEAN["boot_ids"] | {"driver-2": "b1"},
        "monitors": [
            *CLEAN["monitors"],
            {"host": "driver-2", "role": "driver", "file": "m3", "interval_s": 0.25, "cpus": [1]},
        ],
    }


def two(late_s: float = 0.0, traced: dict | None = None, *, gates: dict | None = None, **more: Any) -> list[RuleHit]:
    """Hits on a trial with two drivers."""
    return check(traced=ADDED | (traced or {}), gates=gates, **(changes(late_s) | more))


def test_synchronised_drivers_have_no_hits_whatever_their_clocks():
    assert two() == []
    assert two(0.05) == []


@pytest.mark.parametrize(("late_s", "level"), [(0.15, "doubt"), (-0.3, "doubt"), (1.0, "invalid"), (9.0, "invalid")])
def test_drivers_that_did_not_overlap_are_invalid(late_s, level):
    hit = named(two(late_s), "drivers_apart")[0]
    assert hit.level == level
    together = max(0.0, 4 - abs(late_s))
    assert hit.message.startswith(f"all 2 drivers were at work for {together:.3g}".replace("0 s", "0"))


def test_driver_clocks_with_large_error_are_a_doubt():
    hit = named(two(**changes(rtt_s=1.0)), "drivers_apart")[0]
    assert hit.level == "doubt"
    assert "clocks are known to 500 ms only, 13\u00a0% of the measurement" in hit.message.replace("\u00a0ms", " ms")


def test_overlap_of_drivers_without_recorded_times_is_unchecked():
    blind = changes()
    blind["drivers"][1] |= {"started_host": None}
    assert named(two(**blind), "drivers_apart")[0].level == "unchecked"


@pytest.mark.parametrize(
    ("apart_share", "level"), [(0.0, None), (0.04, None), (0.1, "doubt"), (0.3, "invalid"), (None, "unchecked")]
)
def test_slices_in_which_only_some_drivers_were_at_work(apart_share, level):
    hits = named(two(interleaved=INTERLEAVED | {"apart_share": apart_share}), "drivers_apart")
    assert [hit.level for hit in hits] == ([level] if level else [])
    if apart_share:
        assert all(
            f"in {100 - 100 * apart_share:.0f}\u00a0% of its slices all 2 drivers" in hit.message for hit in hits
        )


def test_driver_clocks_with_large_error_against_slice_and_gap_are_a_doubt():
    hits = named(two(**changes(rtt_s=0.02), interleaved=INTERLEAVED | {"apart_share": 0.0}), "drivers_apart")
    assert [hit.level for hit in hits] == ["doubt"]
    assert "clocks are known to 10.5\u00a0ms only, with slices of 25\u00a0ms and gaps of 1\u00a0ms" in hits[0].message


def test_saturation_is_checked_on_every_driver():
    full = {("driver-2", "cpu_busy", "cpu2"): 0.99, ("driver-2", "process_cpu", "wrk:300"): 0.98}
    monitors = changes()["monitors"]
    monitors[2] = monitors[2] | {"cpus": [2]}
    hit = named(two(traced=full, monitors=monitors), "driver_saturated")[0]
    assert (hit.level, hit.host) == ("invalid", "driver-2")


def test_drivers_sharing_a_cpu_are_judged_together():
    full = {(host, "cpu_busy", "cpu1"): 0.99 for host in ("driver-1", "driver-2")}
    half = {("driver-1", "process_cpu", "wrk:100"): 0.49, ("driver-2", "process_cpu", "wrk:300"): 0.48}
    hits = named(two(traced=full | half), "driver_saturated")
    assert [(hit.level, hit.host) for hit in hits] == [("invalid", "driver-1"), ("invalid", "driver-2")]


def measured(tool: str, means: list[float | None], requests: int) -> list[RuleHit]:
    """Hits where each driver has its own latency and there is no total of it."""
    own = [
        {"driver": f"driver-{k}", "metric": m, "statistic": s, "value": v, "unit": "1"}
        for k, mean in enumerate(means, 1)
        for m, s, v in [
            ("requests", "count", requests),
            ("latency", "mean", mean),
            ("latency", "p99", mean and 3 * mean),
        ]
        if v is not None
    ]
    work = CLEAN["workload"] | {"tool": tool}
    found = record(**changes() | {"tool": tool, "workload": work})
    total = rows({("requests", "count"): 2 * requests, ("ok", "count"): 2 * requests, ("bytes_read", "count"): None})
    return check_trial(found, total + own, traces(ADDED), [], ValidityLimits())


def test_littles_law_uses_the_sum_of_drivers_and_percentiles_are_judged_per_driver():
    rate = TOTALS["requests_per_s", "value"]
    right = 50 / rate
    assert named(measured("h2load", [0.5 * right, 1.5 * right], 50_000), "little_law") == []
    assert named(measured("h2load", [0.2 * right, 0.3 * right], 50_000), "little_law")[0].level == "doubt"
    assert [h.host for h in named(measured("wrk", [0.1, 0.1], 20), "too_short")] == ["driver-1", "driver-2"]


def test_littles_law_is_unchecked_if_the_latency_of_a_driver_is_not_known():
    (hit,) = named(measured("h2load", [0.25 * 50 / TOTALS["requests_per_s", "value"], None], 50_000), "little_law")
    assert hit.level == "unchecked"
