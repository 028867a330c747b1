"""Latencies of arms that share the requests of one generator, on simulated hosts and servers whose truth is known.

Requests are due at an even rate. In plain trials each arm has a third of a block; in slices the arm changes every so
many requests, in random order; by request it changes with every request, so that each arm has a third of the rate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadbook.study.limits import ValidityLimits

Floats = NDArray[np.float64]
RATE_PER_S, ARMS, BLOCK_S = 1000, 3, 9.0
TIMES = int(RATE_PER_S * BLOCK_S)
PERCENTILES = (50.0, 90.0, 99.0, 99.9)
SLICES_MS = (5, 10, 20, 50, 100, 200)
PLAIN, REQUEST = "plain", "request"
WAYS = (PLAIN, *(f"{ms} ms" for ms in SLICES_MS), REQUEST)
SHARES = (0.1, 0.5, 0.9)  # of the capacity of an arm
SLOWER = 1.1  # times the work of the other arms, of the last one
SPREAD = 0.5  # of the logarithm of a request's work
# all arms stop: how often a second, and the mean length (s)
HOST_STALLS_PER_S, HOST_STALL_S = 2.0, 0.010
SPEED_SD, SPEED_MEMORY = 0.03, 0.9  # of the logarithm of the host's speed, from second to second
CLOCK_STALL_S, CLOCK_PERIOD_S = 0.030, 1.0  # a timer of the arm's own, whatever its load
GARBAGE_STALL_S, GARBAGE_REQUESTS = 0.020, 500  # work that the arm's own requests cause
SERVERS = ("even", "timer", "garbage", "one queue")


class Rows(NamedTuple):
    """Rows of blocks (blocks, requests): latency in seconds, and the arm of each request."""

    latency_s: Floats
    arm: NDArray[np.int64]

    def percentiles(self, arm: int) -> Floats:
        """Return the percentiles of an arm in every block (blocks, percentiles)."""
        each = [np.percentile(own[of == arm], PERCENTILES) for own, of in zip(self.latency_s, self.arm, strict=True)]
        return np.array(each)

    def pooled(self, arm: int) -> Floats:
        """Return the percentiles of an arm in all blocks together."""
        return np.asarray(np.percentile(self.latency_s[self.arm == arm], PERCENTILES))


def arms_in_order(way: str, blocks: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the arm of every request (blocks, requests)."""
    length = {PLAIN: TIMES // ARMS, REQUEST: 1}.get(way) or int(way.split(maxsplit=1)[0]) * RATE_PER_S // 1000
    rounds = -(-TIMES // (length * ARMS))
    orders = rng.permuted(np.tile(np.arange(ARMS), (blocks, rounds, 1)), axis=2).reshape(blocks, -1)
    return np.repeat(orders, length, axis=1)[:, :TIMES]


def simulate(way: str, server: str, share: float, blocks: int, rng: np.random.Generator, every: int = 1) -> Rows:
    """Return the rows of blocks in which the arms share one generator, or have it one after the other.

    `share` is that of an arm's capacity which the rate takes while the arm has all of it. With `every` = 3, only every
    third request is sent.
    """
    arm, tick = arms_in_order(way, blocks, rng)[:, ::every], 1 / RATE_PER_S
    work_s = share * tick * rng.lognormal(-(SPREAD**2) / 2, SPREAD, arm.shape)
    work_s *= np.where(arm == ARMS - 1, SLOWER, 1.0) * _slowness(blocks, rng)[:, ::every]
    until = _stalls_until(blocks, rng, server)
    free, since = np.zeros((blocks, ARMS)), rng.integers(0, GARBAGE_REQUESTS, (blocks, ARMS))
    rows, latency_s, last = np.arange(blocks), np.empty(arm.shape), until.shape[2] - 1
    for number in range(arm.shape[1]):
        own, due_s = arm[:, number], number * every * tick
        queue = np.zeros(blocks, np.int64) if server == "one queue" else own
        begun_s = np.maximum(due_s, free[rows, queue])
        begun_s = np.maximum(begun_s, until[rows, own, np.minimum((begun_s / tick).astype(np.int64), last)])
        ended_s = begun_s + work_s[:, number]
        latency_s[:, number] = ended_s - due_s
        if server == "garbage":
            since[rows, own] += 1
            full = since[rows, own] >= GARBAGE_REQUESTS
            since[rows[full], own[full]] = 0
            ended_s = ended_s + full * GARBAGE_STALL_S
        free[rows, queue] = ended_s
    return Rows(latency_s, arm)


def _slowness(blocks: int, rng: np.random.Generator) -> Floats:
    """Return the factor by which the host makes work longer (blocks, requests)."""
    seconds = int(BLOCK_S) + 2
    level = np.empty((blocks, seconds))
    level[:, 0] = rng.normal(0, SPEED_SD, blocks)
    for second in range(1, seconds):
        new = rng.normal(0, SPEED_SD * np.sqrt(1 - SPEED_MEMORY**2), blocks)
        level[:, second] = SPEED_MEMORY * level[:, second - 1] + new
    at = np.arange(TIMES) / RATE_PER_S
    return np.exp(np.array([np.interp(at, np.arange(seconds), own) for own in level]))


def _stalls_until(blocks: int, rng: np.random.Generator, server: str) -> Floats:
    """Return the end (s) of the stall in which each instant lies (blocks, arms, ticks); 0: of none."""
    ticks = int(1.2 * TIMES)
    until = np.zeros((blocks, ARMS, ticks))

    def stall(block: int, arm: int | slice, begin_s: float, length_s: float) -> None:
        part = slice(int(begin_s * RATE_PER_S), int((begin_s + length_s) * RATE_PER_S) + 1)
        until[block, arm, part] = np.maximum(until[block, arm, part], begin_s + length_s)

    for block in range(blocks):
        for begin_s in rng.uniform(0, BLOCK_S, rng.poisson(HOST_STALLS_PER_S * BLOCK_S)):
            stall(block, slice(None), begin_s, rng.exponential(HOST_STALL_S))
        if server == "timer":
            for arm, phase_s in enumerate(rng.uniform(0, CLOCK_PERIOD_S, ARMS)):
                for begin_s in np.arange(phase_s, BLOCK_S, CLOCK_PERIOD_S):
                    stall(block, arm, begin_s, CLOCK_STALL_S)
    return until


class Found(NamedTuple):
    """What a way of sharing tells about a server at a rate, for each of `PERCENTILES`.

    `sd`: of the log ratio of two equal arms in a block, to that of plain trials of the same time.
    `percent`: of the requests of the arm alone at the same rate, how many are below the percentile that is told.
    `overrun`: the time from the end of a slice to the last response, beyond a median latency, in slices; `doubted`:
    the share of trials that the rule `slices_overrun` doubts for it.
    """

    way: str
    server: str
    share: float
    percent: Floats
    sd: Floats
    overrun: float
    doubted: float


def find_all(server: str, share: float, blocks: int, seed: int) -> list[Found]:
    """Return what each way tells, beside the arms alone at the rate that an arm has in that way: a third by request."""
    rng = np.random.default_rng(seed)
    truths = {every: simulate(PLAIN, server, share, 3 * blocks, rng, every) for every in (1, ARMS)}
    plain_sd = _sd(truths[1])
    found = []
    for way in WAYS[1:]:
        rows, truth = simulate(way, server, share, blocks, rng), truths[ARMS if way == REQUEST else 1]
        found.append(_find(way, server, share, rows, truth, plain_sd))
    return found


def _sd(rows: Rows) -> Floats:
    """Return the SD of the log ratio of two equal arms in a block, by percentile."""
    return np.asarray(np.log(rows.percentiles(1) / rows.percentiles(0)).std(axis=0, ddof=1))


def _find(way: str, server: str, share: float, rows: Rows, truth: Rows, plain_sd: Floats) -> Found:
    own = np.sort(truth.latency_s[truth.arm == 0])
    percent = 100 * np.searchsorted(own, rows.pooled(0)) / len(own)
    overruns = _overruns(rows, way)
    doubted = float((overruns > ValidityLimits().slices_overrun_doubt).mean())
    return Found(way, server, share, percent, _sd(rows) / plain_sd, float(overruns.mean()), doubted)


def _overruns(rows: Rows, way: str) -> Floats:
    """Return the time from the end of a slice to the last response, beyond a median latency, in slices, by trial."""
    if way in (PLAIN, REQUEST):
        return np.zeros(1)
    count = int(way.split(maxsplit=1)[0]) * RATE_PER_S // 1000
    number = TIMES // count
    ended_s = (rows.latency_s + np.arange(TIMES) / RATE_PER_S)[:, : number * count].reshape(-1, number, count)
    late_s = ended_s.max(axis=2) - np.arange(1, number + 1) * count / RATE_PER_S
    of_slice, trials = rows.arm[:, : number * count : count], list[float]()
    for block in range(len(late_s)):
        for arm in range(ARMS):
            usual_s = np.median(rows.latency_s[block][rows.arm[block] == arm])
            trials.append(np.maximum(late_s[block][of_slice[block] == arm] - usual_s, 0).mean())
    return np.array(trials) * RATE_PER_S / count
