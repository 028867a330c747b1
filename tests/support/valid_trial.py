"""A trial that violates no validity rule; each test changes one property of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loadbook.store.trial_record import SLICE_SERIES, TrialRecord
from loadbook.study.limits import ValidityLimits
from loadbook.validity.base import RuleHit
from loadbook.validity.rules import check_trial

CLEAN: dict[str, Any] = {
    "study": "s", "run": "r", "trial": "t0001", "treatment": "base", "factors": {}, "block": 1, "slot": 1,
    "attempt": 1, "status": "ok", "tool": "wrk", "tool_version": "4.1.0",
    "workload": {"tool": "wrk", "model": "closed", "connections": 50, "expect_status": 200, "expect_bytes": 5},
    "window": (1000.0, 1004.0),
    "drivers": [{"host": "driver-1", "argv": ["wrk"], "rc": 0, "stdout": "o", "stderr": "e"}],
    "services": [{"host": "web-1", "role": "web", "service": "nginx", "config_sha256": "0" * 64, "live": True,
                  "cpus": [0]}],
    "monitors": [
        {"host": "driver-1", "role": "driver", "file": "m1", "interval_s": 0.25, "cpus": [1]},
        {"host": "web-1", "role": "web", "file": "m2", "interval_s": 0.25, "cpus": [0]},
    ],
    "clocks": {h: {"offset_before_s": 0.001, "rtt_before_s": 0.001, "offset_after_s": 0.002, "rtt_after_s": 0.001}
               for h in ("driver-1", "web-1")},
    "boot_ids": {"driver-1": "b1", "web-1": "b1"},
    "reset": {h: {"at_rest": 1.0, "waited_s": 0.1, "time_wait": 3.0} for h in ("driver-1", "web-1")},
    "response_before": {"status": 200, "bytes": 5, "sha256": "a"},
    "response_after": {"status": 200, "bytes": 5, "sha256": "a"},
}  # fmt: skip
# of an interleaved trial, and the service of one whose CPU time was read
INTERLEAVED = {
    "arm": 0, "beside": ["a", "b"], "slice_s": 0.025, "gap_s": 0.001, "slices": "slices", "active_s": 1.0,
    "late_share": 0.0,
}  # fmt: skip
MEASURED_SERVICE = CLEAN["services"][0] | {"cpu_s": 1.0, "idle_cpu_share": 0.0}
SHARED = {"arm": 0, "beside": ["a", "b"], "slice_s": 0.05, "rate_per_s": 1000.0, "active_s": 1.0}


def overruns(mean_s: float) -> list[dict[str, Any]]:
    """Samples of four slices whose last responses come so many seconds later than usual, which is 1 ms, on average."""
    keys = {"series": SLICE_SERIES, "x_unit": "s", "unit": "s"}
    late_s = (0.0, 0.0, 0.001 + mean_s, 0.001 + 3 * mean_s)
    rows = [keys | {"metric": "overrun", "x": 0.15 * k, "value": own} for k, own in enumerate(late_s)]
    return rows + [keys | {"metric": "latency", "x": 0.15 * k, "value": 0.001} for k in range(4)]


TOTALS = {
    ("requests", "count"): 100_000, ("ok", "count"): 100_000, ("requests_per_s", "value"): 25_000,
    ("duration", "value"): 4.0, ("errors", "count"): 0, ("errors_status", "count"): 0, ("errors_connect", "count"): 0,
    ("errors_timeout", "count"): 0, ("bytes_read", "count"): 23_800_000,
}  # fmt: skip
# mean use of what each host's sampler sees: both hosts are one machine of two CPUs
LOAD = {
    ("driver-1", "cpu_busy", "cpu0"): 0.97, ("driver-1", "cpu_busy", "cpu1"): 0.60,
    ("driver-1", "cpu_busy", "all"): 0.79,
    ("web-1", "cpu_busy", "cpu0"): 0.97, ("web-1", "cpu_busy", "cpu1"): 0.60,
    ("web-1", "cpu_busy", "all"): 0.79,
    ("driver-1", "cpu_steal", "cpu1"): 0.0, ("web-1", "cpu_steal", "cpu0"): 0.0,
    ("driver-1", "process_cpu", "wrk:100"): 0.57, ("web-1", "process_cpu", "nginx:200"): 0.02,
    ("web-1", "process_cpu", "nginx:201"): 0.92,
}  # fmt: skip


def record(**changes: Any) -> TrialRecord:
    return TrialRecord.model_validate(CLEAN | changes)


def rows(changes: dict | None = None) -> list[dict[str, Any]]:
    """Return the trial's measurements with these changes; None removes a row."""
    known = TOTALS | (changes or {})
    return [
        {"driver": "*", "metric": m, "statistic": s, "value": float(v), "unit": "1"}
        for (m, s), v in known.items()
        if v is not None
    ]


def traces(changes: dict | None = None, times: list[float] | None = None, end: float = 4.0) -> list[dict[str, Any]]:
    """Return traces every 0.25 s from before to after the measurement, idle outside it; None removes a metric."""
    instants = times if times is not None else [k * 0.25 for k in range(-4, 20)]
    return [
        {"host": host, "t_s": t, "metric": metric, "item": item, "value": value if 0 < t <= end else 0.01, "unit": "1"}
        for (host, metric, item), value in (LOAD | (changes or {})).items()
        if value is not None
        for t in instants
    ]


def check(
    measured: dict | None = None,
    traced: dict | None = None,
    *,
    doubts: list[tuple[str, str]] | None = None,
    gates: dict[str, float] | None = None,
    times: list[float] | None = None,
    idle_s: tuple[float, float] = (9.0, 9.0),
    samples: Sequence[dict[str, Any]] = (),
    **changes: Any,
) -> list[RuleHit]:
    """Return the rules that the trial with these changes violates; `idle_s` are the idle seconds before and after."""
    begin, end = idle_s
    traced_rows = [
        row | ({"value": 0.0} if begin <= row["t_s"] - 0.25 and row["t_s"] <= end else {})
        for row in traces(traced, times)
    ]
    return check_trial(
        record(**changes), rows(measured), traced_rows, doubts or [], ValidityLimits(**(gates or {})), samples
    )


def named(hits: list[RuleHit], name: str) -> list[RuleHit]:
    return [hit for hit in hits if hit.name == name]
