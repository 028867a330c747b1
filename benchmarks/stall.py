"""Rates at which the validity rule `stall` rejects trials without and with a stall, from simulated samples.

    .venv/bin/python benchmarks/stall.py [TRIALS]

Each row is a kind of service, sampled every 0.25 s for 10 s as by the sampler: up to 40 ms late, with CPU times in
ticks of 10 ms if the kernel has no finer ones, random response times, and lost samples. A stall stops the service for
the time in the heading of its column.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from loadbook.store.trial_record import TrialRecord
from loadbook.study.limits import ValidityLimits
from loadbook.validity.base import Evidence
from loadbook.validity.load import stall

WINDOW_S, INTERVAL_S = 10.0, 0.25
STALLS_S = (0.0, 0.5, 1.0, 1.5, 3.0)


class Service(NamedTuple):
    """One kind of service: connections of the closed load; response time (s), bytes and CPU time (s) per response."""

    name: str
    connections: int
    answer_s: float
    answer_bytes: float = 300.0
    cpu_s: float = 2e-5
    spread: float = 0.3
    pause_s: float = 0.0
    lost: float = 0.0
    ticks: bool = False


SERVICES = (
    Service("fast, small page", 50, 0.001),
    Service("fast, ticks of 10 ms", 50, 0.001, ticks=True),
    Service("fast, every tenth sample lost", 50, 0.001, lost=0.1),
    Service("path of 100 ms", 50, 0.1),
    Service("path of 100 ms, ticks", 50, 0.1, ticks=True),
    Service("answers of 1 s, in step", 50, 1.0, spread=0.01, cpu_s=2e-3),
    Service("answers of 1 s, spread", 50, 1.0, cpu_s=2e-3),
    Service("one connection, 5 ms", 1, 0.005, cpu_s=1e-3),
    Service("one connection, 50 ms, ticks", 1, 0.05, cpu_s=1e-2, ticks=True),
    Service("large answers", 10, 0.02, answer_bytes=2e6, cpu_s=1e-3),
    Service("garbage collection: 300 ms a second", 50, 0.002, pause_s=0.3),
    Service("quiet: 5 ms of CPU a second", 4, 0.05, cpu_s=6e-5, ticks=True),
)


def answer_times(service: Service, stalled: tuple[float, float], rng: np.random.Generator) -> np.ndarray:
    """Return the end times of responses (s); each connection sends its next request at once, except during a stall."""
    count = int(WINDOW_S / service.answer_s) + 20
    times = rng.normal(1.0, service.spread, (min(service.connections, 8), count)).clip(0.1) * service.answer_s
    ended = times.cumsum(axis=1).ravel()
    if service.pause_s:  # a collector works at the begin of every second
        ended = np.floor(ended) + service.pause_s + (ended % 1) * (1 - service.pause_s)
    return np.where(ended > stalled[0], ended + stalled[1] - stalled[0], ended)


def samples(service: Service, stalled: tuple[float, float], rng: np.random.Generator) -> tuple[list[Any], int]:
    """Return (rows of traces, number of requests) of one simulated trial."""
    ended, weight = answer_times(service, stalled, rng), service.connections / min(service.connections, 8)
    ended = ended[ended < WINDOW_S]
    at = np.arange(0, WINDOW_S + INTERVAL_S / 2, INTERVAL_S) + rng.uniform(0, 0.04, int(WINDOW_S / INTERVAL_S) + 1)
    answers = np.searchsorted(np.sort(ended), at) * weight
    cpu = answers * service.cpu_s
    if service.pause_s:
        before = np.where(at > stalled[0], np.maximum(stalled[0], at - (stalled[1] - stalled[0])), at)
        cpu = cpu + np.floor(before) * service.pause_s + np.minimum(before % 1, service.pause_s)
    if service.ticks:
        cpu = np.floor(cpu * 100 + rng.uniform()) / 100
    rows = []
    kept = rng.uniform(size=len(at)) >= service.lost
    for k in range(1, len(at)):
        if kept[k] and kept[k - 1]:
            passed = at[k] - at[k - 1]
            common = {"host": "web", "t_s": float(at[k])}
            used = (cpu[k] - cpu[k - 1]) / passed
            sent = (answers[k] - answers[k - 1]) * service.answer_bytes / passed + rng.uniform(0, 200)
            rows.append(common | {"metric": "process_cpu", "item": "nginx:2", "value": float(used)})
            rows.append(common | {"metric": "net_tx", "item": "eth0", "value": float(sent)})
    return rows, int(len(ended) * weight)


def is_hit(service: Service, length_s: float, rng: np.random.Generator) -> bool:
    """Return whether the rule rejects a trial with a stall of `length_s` seconds."""
    begin = float(rng.uniform(0.5, WINDOW_S - length_s))
    traces, requests = samples(service, (begin, begin + length_s), rng)
    record = TrialRecord.model_validate({
        "study": "s", "run": "r", "trial": "t", "treatment": "x", "factors": {}, "block": 1, "slot": 1, "attempt": 1,
        "status": "ok", "tool": "wrk", "workload": {"model": "closed", "connections": service.connections},
        "window": (0.0, WINDOW_S),
        "services": [{"host": "web", "role": "web", "service": "nginx", "config_sha256": ""}],
        "monitors": [{"host": "web", "role": "web", "file": "m", "interval_s": INTERVAL_S}],
    })  # fmt: skip
    totals = {("duration", "value"): WINDOW_S, ("requests", "count"): float(requests)}
    rows = [{"driver": "*", "metric": m, "statistic": s, "value": v} for (m, s), v in totals.items()]
    hits = stall(Evidence(record, rows, traces, ValidityLimits()))
    return any(hit.level in ("doubt", "invalid") for hit in hits)


def main(trials: int) -> None:
    """Print the share of rejected trials by kind of service and length of the stall."""
    rng = np.random.default_rng(20261123)
    print(f"{'share of trials hit, %':38}" + "".join(f"{length:>8g} s" for length in STALLS_S))
    for service in SERVICES:
        shares = [100 * np.mean([is_hit(service, length, rng) for _ in range(trials)]) for length in STALLS_S]
        print(f"{service.name:38}" + "".join(f"{share:10.1f}" for share in shares), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
