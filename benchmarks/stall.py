"""Rates at which the validity rule `stall` rejects trials without and with a stall, from simulated samples.

    .venv/bin/python benchmarks/stall.py [TRIALS]

Each row is a kind of service, sampled every 0.25 s for 10 s as by the sampler: up to 40 ms late, with CPU times in
ticks of 10 ms if the kernel has no finer ones, random response times, and lost samples. A stall stops the service for
the time in the heading of its column. The second table has interleaved trials of 1 s of 3 and 7 treatments, in slices
of 12 ms or 20 mean latencies; services are on the driver's machine or (elsewhere) on another one.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np

from loadbook.modes.interleaved.spec import slices_for_latency
from loadbook.store.trial_record import TrialRecord
from loadbook.study.limits import ValidityLimits
from loadbook.validity.base import Evidence
from loadbook.validity.load import stall

WINDOW_S, INTERVAL_S = 10.0, 0.25
PIECE_S = 0.05  # of hosts/interleave.pl
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
    Service("path of 27 ms", 50, 0.027),
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


def level_of(
    service: Service, requests: float, duration_s: float, traces: list[Any], slices: list[Any], **of_record: Any
) -> str:
    """Return the level that the rule gives a trial, "doubt" or "invalid"; "" for none."""
    record = TrialRecord.model_validate({
        "study": "s", "run": "r", "trial": "t", "treatment": "x", "factors": {}, "block": 1, "slot": 1, "attempt": 1,
        "status": "ok", "tool": "wrk", "workload": {"model": "closed", "connections": service.connections},
        "window": (0.0, duration_s),
        "services": [{"host": "web", "role": "web", "service": "nginx", "config_sha256": ""}],
        "monitors": [{"host": "web", "role": "web", "file": "m", "interval_s": INTERVAL_S}],
    } | of_record)  # fmt: skip
    totals = {("duration", "value"): duration_s, ("requests", "count"): requests}
    rows = [{"driver": "*", "metric": m, "statistic": s, "value": v} for (m, s), v in totals.items()]
    hits = stall(Evidence(record, rows, traces, ValidityLimits(), samples=slices))
    return next((hit.level for hit in hits if hit.level in ("doubt", "invalid")), "")


def is_hit(service: Service, length_s: float, rng: np.random.Generator) -> bool:
    """Return whether the rule rejects a trial with a stall of `length_s` seconds."""
    begin = float(rng.uniform(0.5, WINDOW_S - length_s))
    traces, requests = samples(service, (begin, begin + length_s), rng)
    return level_of(service, float(requests), WINDOW_S, traces, []) != ""


def slice_times(service: Service, arms: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Return the starts (s) of one arm's slices in a trial of 1 s, and the length of a slice (s)."""
    lengths = slices_for_latency(service.answer_s)
    assert lengths
    rounds = max(2, math.ceil(1.0 / lengths.slice_s)) + 2
    places = np.arange(rounds) * arms + rng.integers(0, arms, rounds)
    return places * (lengths.slice_s + lengths.gap_s), lengths.slice_s


def slice_rows(
    service: Service, arms: int, length_s: float, elsewhere: bool, rng: np.random.Generator
) -> tuple[list[Any], list[Any], tuple[float, float]]:
    """Return samples of slices, traces of the service, and (responses, seconds of load) of a trial with a stall.

    While a generator is stopped, its service rests; the requests under way go on when it is continued.
    """
    starts, slice_s = slice_times(service, arms, rng)
    window_s = float(starts[-1] + slice_s)
    begin_s = float(rng.uniform(0.1, max(0.2, window_s - length_s)))
    cycles = rng.normal(1.0, service.spread, (min(service.connections, 8), 400)).clip(0.1) * service.answer_s
    ended = np.sort(cycles.cumsum(axis=1).ravel())  # seconds of work
    weight, done_s, total = service.connections / min(service.connections, 8), 0.0, 0.0
    rows: list[dict[str, Any]] = []
    busy: list[tuple[float, float]] = []

    def add(series: str, start: float, part_s: float, answers: float) -> None:
        values = {
            "slice": part_s,
            "received_per_s": answers * service.answer_bytes / part_s + rng.uniform(0, 200),
            "generator_cpu": answers * 1e-5 / part_s,
        } | ({} if elsewhere else {"service_cpu": answers * service.cpu_s / part_s})
        rows.extend({"series": series, "metric": m, "x": start, "value": float(v)} for m, v in values.items())

    pieces = max(1, int(slice_s / PIECE_S))
    part_s = slice_s / pieces
    for number, start in enumerate(map(float, starts)):
        own = 0.0
        for piece in range(pieces):
            at = start + piece * part_s
            worked = part_s - max(0.0, min(begin_s + length_s, at + part_s) - max(begin_s, at))
            answers = float(np.searchsorted(ended, done_s + worked) - np.searchsorted(ended, done_s)) * weight
            done_s = (done_s + worked) % (ended[-1] / 2)
            busy.append((at, answers * service.cpu_s))
            own += answers
            if pieces > 1 and 0 < number < len(starts) - 1:
                add("piece", at, part_s, answers)
        add("slice", start, slice_s, own)
        total += own
    traces: list[dict[str, Any]] = []
    for t in np.arange(INTERVAL_S, window_s + INTERVAL_S, INTERVAL_S):
        used = sum(cpu for at, cpu in busy if t - INTERVAL_S <= at < t) / INTERVAL_S
        traces.append({"host": "web", "t_s": float(t), "metric": "process_cpu", "item": "nginx:2", "value": used})
    return rows, traces, (total, len(starts) * slice_s)


def level_in_slices(service: Service, arms: int, length_s: float, elsewhere: bool, rng: np.random.Generator) -> str:
    """Return the level that the rule gives an interleaved trial with a stall of `length_s` seconds; "" for none."""
    slices, traces, (requests, duration_s) = slice_rows(service, arms, length_s, elsewhere, rng)
    interleaved = {"arm": 0, "beside": ["x", "y"], "slice_s": 0.025, "gap_s": 0.001, "slices": "slices"}
    window = (0.0, 1e6)  # longer than all slices of the block
    return level_of(service, requests, duration_s, traces, slices, interleaved=interleaved, window=window)


def print_slices(trials: int, rng: np.random.Generator) -> None:
    """Print the share of interleaved trials that are invalid, and in brackets those that are at least doubtful."""
    print(f"\n{'interleaved: invalid (or doubtful), %':38}" + "".join(f"{length:>13g} s" for length in STALLS_S))
    for service in SERVICES:
        if service.pause_s or service.lost or service.ticks or slices_for_latency(service.answer_s) is None:
            continue
        for arms, elsewhere in ((3, False), (7, False), (7, True)):
            cells = []
            for length_s in STALLS_S:
                levels = [level_in_slices(service, arms, length_s, elsewhere, rng) for _ in range(trials)]
                invalid, found = (
                    100 * np.mean(hits) for hits in ([x == "invalid" for x in levels], list(map(bool, levels)))
                )
                cells.append(f"{invalid:7.1f} ({found:5.1f})")
            name = f"{service.name}, {arms} arms{', elsewhere' if elsewhere else ''}"
            print(f"{name:38}" + "".join(f"{cell:>15}" for cell in cells), flush=True)


def main(trials: int) -> None:
    """Print the shares of rejected trials by kind of service and length of the stall."""
    rng = np.random.default_rng(20261123)
    print(f"{'share of trials hit, %':38}" + "".join(f"{length:>8g} s" for length in STALLS_S))
    for service in SERVICES:
        shares = [100 * np.mean([is_hit(service, length, rng) for _ in range(trials)]) for length in STALLS_S]
        print(f"{service.name:38}" + "".join(f"{share:10.1f}" for share in shares), flush=True)
    print_slices(trials, rng)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
