"""Every threshold stands in the study: with its default the gate speaks, with another value it does not."""

from __future__ import annotations

from typing import Any

import pytest
from test_rules_of_runs import STUDY, make, received
from test_rules_several_drivers import two

from captured_trials import check_capture
from loadbook.core.validity_rules import RULE_INFO
from loadbook.study.limits import ValidityLimits
from loadbook.study.model import Study
from loadbook.validity.base import RuleHit
from loadbook.validity.rules import check_run
from valid_trial import CLEAN, INTERLEAVED, MEASURED_SERVICE, SHARED, check, named, overruns

LAZY = MEASURED_SERVICE | {"idle_cpu_share": 0.02}
OPEN = {"model": "open", "rate_per_s": 25_000}
STEP = {"offset_before_s": 0.0, "rtt_before_s": 0.001, "offset_after_s": 1.5, "rtt_after_s": 0.001}
BUSY = {("driver-1", "cpu_busy", "cpu1"): 0.97, ("driver-1", "process_cpu", "wrk:100"): 0.95}
THROTTLED = {("web-1", "throttled_time", "nginx"): 0.1, ("web-1", "throttled_periods", "nginx"): 0.4}


def run(gates: dict[str, float], *made: Any, facts: dict | None = None) -> list[RuleHit]:
    """Hits on a whole run under these thresholds."""
    return check_run(Study.model_validate(STUDY.model_dump(by_alias=True) | {"gates": gates}), *made, facts=facts)


def grown(gates: dict[str, float], **state: float) -> list[RuleHit]:
    """Hits on a run whose second trial found the web host in this state."""
    records, rows = make()
    for record in records:
        record.reset["web-1"] |= dict.fromkeys(state, 1.0)
    records[1].reset["web-1"] |= state
    return run(gates, records, rows)


def memory(size: int) -> dict[str, dict]:
    return {"memory_total_b": {"value": size, "kind": "tolerance"}}


# key of [gates] -> gate, a value under which it is silent (or milder), hits under given thresholds
CASES: dict[str, tuple[str, float, Any]] = {
    "max_error_share": ("error_responses", 0.1, lambda g: check({("errors_status", "count"): 50}, gates=g)),
    "doubt_error_share": (
        "error_responses", 0.1, lambda g: check({("errors_status", "count"): 50}, gates={"max_error_share": 0.5} | g)
    ),
    "driver_cpu": ("driver_saturated", 0.99, lambda g: check(traced=BUSY, gates=g)),
    "driver_cpu_doubt": ("driver_saturated", 0.99, lambda g: check(traced=BUSY, gates={"driver_cpu": 1.0} | g)),
    "driver_own_share": ("driver_saturated", 0.99, lambda g: check(traced=BUSY, gates=g)),
    "drivers_apart": ("drivers_apart", 0.9, lambda g: two(2.0, gates=g)),
    "drivers_apart_doubt": ("drivers_apart", 0.2, lambda g: two(0.3, gates=g)),
    "offered_ceiling": (
        "offered_ceiling", 0.999, lambda g: check({("requests_per_s", "value"): 24_900}, gates=g, workload=OPEN)
    ),
    "offered_shortfall": (
        "offered_shortfall", 0.5, lambda g: check({("requests_per_s", "value"): 20_000}, gates=g, workload=OPEN)
    ),
    "steal": ("stolen_cpu", 0.1, lambda g: check(traced={("web-1", "cpu_steal", "cpu0"): 0.05}, gates=g)),
    "foreign_cpu": ("foreign_cpu", 0.5, lambda g: check(traced={("web-1", "process_cpu", "nginx:201"): 0.7}, gates=g)),
    "aa_p": ("aa_differs", 1e-9, lambda g: run(g, *make(aa=0.05))),
    "throttled": ("cpu_throttled", 0.5, lambda g: check(traced=THROTTLED, gates=g)),
    "trace_coverage": (
        "monitor_gaps", 0.1, lambda g: check(times=[k * 0.25 for k in range(-4, 20) if not 4 < k < 12], gates=g)
    ),
    "little_tolerance": (
        "little_law", 0.9, lambda g: check_capture("h2load", "1.52.0--server_killed_D3", g, connections=20)
    ),
    "min_tail_requests": ("too_short", 0.01, lambda g: check_capture("ab", "2.3--csv_n10", g)),
    "bytes_tolerance": ("bytes_per_response", 0.5, lambda g: check({("bytes_read", "count"): 400_000}, gates=g)),
    "header_bytes": ("bytes_per_response", 9999, lambda g: check({("bytes_read", "count"): 400_000_000}, gates=g)),
    "stall": ("stall", 0.5, lambda g: check(idle_s=(1.0, 2.0), gates=g)),
    "late_slices": ("late_slices", 0.5, lambda g: check(interleaved=INTERLEAVED | {"late_share": 0.2}, gates=g)),
    "slices_overrun": ("slices_overrun", 0.9, lambda g: check(shared=SHARED, samples=overruns(0.03), gates=g)),
    "slices_overrun_doubt": ("slices_overrun", 0.9, lambda g: check(shared=SHARED, samples=overruns(0.005), gates=g)),
    "unasked_work": ("unasked_work", 0.5, lambda g: check(interleaved=INTERLEAVED, services=[LAZY], gates=g)),
    "clock_step_s": ("clock", 5.0, lambda g: check(clocks={"web-1": STEP}, gates=g)),
    "absurd_duration": ("clock", 10_000.0, lambda g: check({("duration", "value"): 4000.0}, gates=g)),
    "facts_tolerance": (
        "facts_differ", 0.2, lambda g: run(g, *make(), facts={"w-before": memory(1000), "w-after": memory(900)})
    ),
    "time_wait_increase": ("not_at_rest", 50_000, lambda g: grown(g, time_wait=9000.0)),
    "rest_conntrack": ("not_at_rest", 50_000, lambda g: grown(g, conntrack=9000.0)),
    "rest_open_files": ("not_at_rest", 50_000, lambda g: grown(g, open_files=9000.0)),
    "rest_load": ("not_at_rest", 9.0, lambda g: grown(g, load1=6.0)),
}  # fmt: skip
WEIGHT = {"note": 1, "doubt": 2, "invalid": 3}


@pytest.mark.parametrize("key", ValidityLimits.model_fields)
def test_study_can_change_every_threshold(key: str) -> None:
    gate, lenient, hits_under = CASES[key]
    assert key in RULE_INFO[gate].thresholds
    before, after = (sum(WEIGHT[h.level] for h in named(hits_under(g), gate)) for g in ({}, {key: lenient}))
    assert after < before


def test_rule_thresholds_are_keys_of_the_study() -> None:
    assert {key for info in RULE_INFO.values() for key in info.thresholds} == set(ValidityLimits.model_fields)


def test_trials_without_problems_have_no_hits_under_default_thresholds() -> None:
    assert run({}, *received(*make())) == []
    assert grown({}, time_wait=300.0, conntrack=300.0, open_files=300.0, load1=3.0) == []
    assert check(gates={}, workload=CLEAN["workload"]) == []
