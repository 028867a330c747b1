"""Interleaved and plain blocks on the same simulated host, whose speed changes while arms are measured."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from loadbook.study.interleaving import FIRST_SLICE_S, SliceLengths, block_seconds, draw_rounds
from noise import MARGIN, Floats, Rng
from simulated.check import Row, Simulation, percent
from simulated.two_arms import p_values

STEP_S = 0.005
ARMS, DURATION_S, OVERHEAD_S = 4, 1.0, 0.5
TURNS = SliceLengths(0.025, 0.001)
SLICE_NOISE, TRIAL_NOISE = 0.05, 0.005  # of the rate in a step; of a fresh process, which no slicing averages out
HOSTS = ("two modes", "AR(0.9) by the second", "drift", "stalls")
FALSE_ALARMS = "interleaved: false alarms, no difference"
POWER = "interleaved: a true 2 % found"
POWER_PLAIN = "plain trials on the same host: a true 2 % found"
GAIN = "interleaved: variance times seconds, plain over interleaved"


def host_speed(kind: str, steps: int, rng: Rng) -> Floats:
    """Return the speed of a host at every step, 1 where nothing disturbs it."""
    if kind == "two modes":  # a factor of 1.6 apart, each for 3 s on average
        switches = rng.random(steps) < STEP_S / 3
        return np.where((np.cumsum(switches) + rng.integers(2)) % 2 == 0, 1.0, 1 / 1.6)
    if kind == "stalls":  # a fifth of a second, every ten seconds or so
        starts = np.flatnonzero(rng.random(steps) < STEP_S / 10)
        speed = np.ones(steps)
        for start in starts:
            speed[start : start + int(0.2 / STEP_S)] = 0.05
        return speed
    if kind == "drift":
        return np.exp(np.linspace(0, rng.normal(0, 0.3), steps))
    seconds = int(steps * STEP_S) + 2
    level = np.zeros(seconds)
    for second in range(1, seconds):
        level[second] = 0.9 * level[second - 1] + rng.normal(0, 0.05)
    return np.exp(np.interp(np.arange(steps) * STEP_S, np.arange(seconds), level))


def interleaved_rates(speed: Floats, blocks: int, rng: Rng) -> Floats:
    """Return the rates of all arms (blocks, arms) when they take turns by the product's own draw."""
    steps_of_slice, rates, step = int(TURNS.slice_s / STEP_S), np.empty((blocks, ARMS)), 0
    rounds = round(DURATION_S / TURNS.slice_s)
    for block in range(blocks):
        order = np.array(draw_rounds(ARMS, rounds, str(rng.integers(1 << 30)))).ravel()
        own = speed[step : step + order.size * steps_of_slice].reshape(order.size, steps_of_slice).mean(axis=1)
        rates[block] = [own[order == arm].mean() for arm in range(ARMS)]
        step += int((block_seconds(TURNS, ARMS, DURATION_S) + OVERHEAD_S) / STEP_S)
    return rates


def plain_rates(speed: Floats, blocks: int, rng: Rng) -> Floats:
    """Return the rates of all arms (blocks, arms), measured one after the other in random order."""
    rates, step, steps_of_trial = np.empty((blocks, ARMS)), 0, int(DURATION_S / STEP_S)
    for block in range(blocks):
        for arm in rng.permutation(ARMS):
            rates[block, arm] = speed[step : step + steps_of_trial].mean()
            step += steps_of_trial + int(OVERHEAD_S / STEP_S)
    return rates


def draw_pairs(kind: str, blocks: int, rng: Rng, studies: int) -> tuple[Floats, Floats]:
    """Return the log ratios of two arms (studies, blocks), interleaved and plain, of processes without a difference."""
    steps = int(blocks * ARMS * (DURATION_S + OVERHEAD_S) / STEP_S * 1.2)
    ratios = np.empty((2, studies, blocks))
    trial_noise = TRIAL_NOISE + SLICE_NOISE / np.sqrt(DURATION_S / STEP_S)
    for study in range(studies):
        speed = host_speed(kind, steps, rng)
        for way, rates in enumerate((interleaved_rates(speed, blocks, rng), plain_rates(speed, blocks, rng))):
            logs = np.log(rates) + rng.normal(0, trial_noise, rates.shape)
            ratios[way, study] = logs[:, 1] - logs[:, 0]
    return ratios[0], ratios[1]


def false_alarms(kind: str, blocks: int, rng: Rng, studies: int) -> tuple[float]:
    """Return how often interleaved arms without a difference are found to differ."""
    interleaved, _ = draw_pairs(kind, blocks, rng, studies)
    return (percent(p_values(np.zeros_like(interleaved), interleaved) <= 0.05),)


def power(kind: str, blocks: int, rng: Rng, studies: int) -> tuple[float, float, float]:
    """Return how often a true 2 % is found interleaved and plain, and the ratio of the variances."""
    interleaved, plain = draw_pairs(kind, blocks, rng, studies)
    found = [percent(p_values(np.zeros_like(logs), logs + MARGIN) <= 0.05) for logs in (interleaved, plain)]
    plain_s = ARMS * (DURATION_S + OVERHEAD_S)
    interleaved_s = block_seconds(TURNS, ARMS, DURATION_S) + OVERHEAD_S + ARMS * FIRST_SLICE_S
    return found[0], found[1], float(plain.var() * plain_s / (interleaved.var() * interleaved_s))


def simulations() -> Iterator[Simulation]:
    """Yield the hosts, with few blocks and with many."""
    for kind in HOSTS:
        for blocks in (8, 15):
            case = f"{kind}, n={blocks}"
            yield Simulation(partial(false_alarms, kind, blocks), (Row(FALSE_ALARMS, case, 2.5, 6.5),))
        rows = (Row(POWER, case, 80), Row(POWER_PLAIN, case), Row(GAIN, case))
        yield Simulation(partial(power, kind, 15), rows)
