"""Interleaved and plain blocks on the same simulated host, whose speed changes while arms are measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd

from loadbook.modes.interleaved.spec import FIRST_SLICE_S, SliceLengths, block_seconds, draw_rounds
from loadbook.modes.interleaved.stats_noise import noise_sources
from loadbook.modes.interleaved.stats_slices import slice_length_check
from loadbook.stats.carry_over import slice_carry_over
from loadbook.store.trial_record import SLICE_SERIES
from noise import MARGIN, Floats, Rng
from simulated.check import Row, Simulation, percent
from simulated.two_arms import p_values

STEP_S = 0.005
ARMS, DURATION_S, OVERHEAD_S = 4, 1.0, 0.5
TURNS = SliceLengths(0.025, 0.001)
SLICE_NOISE, TRIAL_NOISE = 0.05, 0.005  # of the rate in a step; of a fresh process, which no slicing averages out
RATE_NOISE = TRIAL_NOISE + SLICE_NOISE / np.sqrt(DURATION_S / STEP_S)
HOSTS = ("two modes", "AR(0.9) by the second", "drift", "stalls")
FALSE_ALARMS = "interleaved: false alarms, no difference"
POWER = "interleaved: a true 2 % found"
POWER_PLAIN = "plain trials on the same host: a true 2 % found"
CARRY_FALSE = "carry-over between slices: false alarms at p < 0.01, none there"
CARRY_FOUND = "carry-over between slices: 1 % after one of four treatments found"
CARRIED = 0.01
LENGTHS_FALSE = "effects by slice length: false alarms, an effect that does not move"
LENGTHS_FOUND = "effects by slice length: one that moves by 4 % found"
MOVED = 0.04
STARTS_FALSE = "sources of noise: starts said to scatter, they do not"
STARTS_SHOWN = "sources of noise: starts that scatter by 2 % shown"
STARTS_COVERED = "sources of noise: interval of the scatter of starts covers it"
STARTS = 0.02
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


STEPS_OF_SLICE = int(TURNS.slice_s / STEP_S)
LONG_TURNS = SliceLengths(0.1, 0.001)


def slices_of_blocks(
    speed: Floats, blocks: int, rng: Rng, turns: Sequence[SliceLengths] = (TURNS,)
) -> Iterator[tuple[Floats, Floats]]:
    """Yield the arm and the host's speed in every slice of each block; arms take turns by the product's own draw.

    Blocks have the lengths of `turns` one after the other.
    """
    step = 0
    for block in range(blocks):
        lengths = turns[block % len(turns)]
        steps_of_slice = int(lengths.slice_s / STEP_S)
        rounds = draw_rounds(ARMS, round(DURATION_S / lengths.slice_s), str(rng.integers(1 << 30)))
        order = np.array(rounds).ravel()
        yield order, speed[step : step + order.size * steps_of_slice].reshape(-1, steps_of_slice).mean(axis=1)
        step += int((block_seconds(lengths, ARMS, DURATION_S) + OVERHEAD_S) / STEP_S)


def interleaved_rates(speed: Floats, blocks: int, rng: Rng, turns: Sequence[SliceLengths] = (TURNS,)) -> Floats:
    """Return the rates of all arms (blocks, arms) when they take turns."""
    return np.array([
        [own[order == arm].mean() for arm in range(ARMS)] for order, own in slices_of_blocks(speed, blocks, rng, turns)
    ])  # fmt: skip


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
    for study in range(studies):
        speed = host_speed(kind, steps, rng)
        for way, rates in enumerate((interleaved_rates(speed, blocks, rng), plain_rates(speed, blocks, rng))):
            logs = np.log(rates) + rng.normal(0, RATE_NOISE, rates.shape)
            ratios[way, study] = logs[:, 1] - logs[:, 0]
    return ratios[0], ratios[1]


def false_alarms(kind: str, blocks: int, rng: Rng, studies: int) -> tuple[float]:
    """Return how often interleaved arms without a difference are found to differ."""
    interleaved, _ = draw_pairs(kind, blocks, rng, studies)
    return (percent(p_values(np.zeros_like(interleaved), interleaved) <= 0.05),)


def slice_study(
    kind: str, blocks: int, carried: float, rng: Rng, starts: float = TRIAL_NOISE
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables samples and values of a study; slices after the last arm are slower by the share `carried`.

    `starts` is the standard deviation (log) between processes.
    """
    period = TURNS.slice_s + TURNS.gap_s
    speed = host_speed(kind, int(blocks * ARMS * (DURATION_S + OVERHEAD_S) / STEP_S * 1.2), rng)
    rows, trials = list[tuple[str, str, str, float, float]](), list[tuple[str, str, int, bool, float]]()
    for block, (order, own) in enumerate(slices_of_blocks(speed, blocks, rng)):
        rates = own * np.exp(rng.normal(0, SLICE_NOISE / np.sqrt(STEPS_OF_SLICE), order.size))
        rates[1:] *= np.where(order[:-1] == ARMS - 1, 1 - carried, 1.0)
        rates *= np.exp(rng.normal(0, starts, ARMS))[order]
        for turn, (arm, rate) in enumerate(zip(order, rates, strict=True)):
            trial = f"t{block}-{arm}"
            rows.append((trial, SLICE_SERIES, "slice", turn * period, TURNS.slice_s))
            rows.append((trial, SLICE_SERIES, "received_per_s", turn * period, 1e6 * rate))
        trials += [(f"t{block}-{arm}", str(arm), block, True, rates[order == arm].mean()) for arm in range(ARMS)]
    samples = pd.DataFrame(rows, columns=["trial", "series", "metric", "x", "value"])
    return samples, pd.DataFrame(trials, columns=["trial", "treatment", "block", "valid", "value"])


def carry_over_found(kind: str, carried: float, rng: Rng, studies: int) -> tuple[float]:
    """Return how often a carry-over between slices is found, in studies of 15 blocks; they are a tenth as many."""
    found = [
        slice_carry_over(*slice_study(kind, 15, carried, rng), baseline="0") for _ in range(max(40, studies // 10))
    ]
    return (percent([one is not None and one.is_significant for one in found]),)


def moved_found(kind: str, blocks: int, moved: float, rng: Rng, studies: int) -> tuple[float]:
    """Return how often an effect is said to depend on the slices, which are short and long in turn."""
    found = []
    for _ in range(max(100, studies // 10)):
        speed = host_speed(kind, int(blocks * ARMS * (DURATION_S + OVERHEAD_S) / STEP_S * 1.5), rng)
        rates = interleaved_rates(speed, blocks, rng, (TURNS, LONG_TURNS))
        rates *= np.exp(rng.normal(0, RATE_NOISE, rates.shape))
        rates[1::2, 1] *= 1 + moved
        rows = [(block, str(arm), True, rates[block, arm]) for block in range(blocks) for arm in range(ARMS)]
        values = pd.DataFrame(rows, columns=["block", "treatment", "valid", "value"])
        lengths_s = {block: (TURNS, LONG_TURNS)[block % 2].slice_s for block in range(blocks)}
        compared = slice_length_check(values, lengths_s, "0", [str(arm) for arm in range(1, ARMS)])
        found.append(compared is not None and bool(compared.moved))
    return (percent(found),)


def starts_found(kind: str, starts: float, rng: Rng, studies: int) -> tuple[float, float]:
    """Return how often starts are said to scatter, in studies of 15 blocks, and how often their interval covers it."""
    number = max(100, studies // 10)
    found = [
        noise_sources(*slice_study(kind, 15, 0.0, rng, starts), arms=[str(arm) for arm in range(ARMS // 2)])
        for _ in range(number)
    ]
    known = [one for one in found if one is not None]
    shown = percent([one.starts_show for one in known])
    return shown, percent([one.starts_interval[0] <= starts <= one.starts_interval[1] for one in known])


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
        yield Simulation(partial(carry_over_found, kind, 0.0), (Row(CARRY_FALSE, kind, 0.0, 3.0),))
        yield Simulation(partial(carry_over_found, kind, CARRIED), (Row(CARRY_FOUND, kind, 80),))
        covered = [Row(STARTS_COVERED, f"{kind}, {size}", 92.0) for size in ("none", "2 %")]
        yield Simulation(partial(starts_found, kind, 0.0), (Row(STARTS_FALSE, kind, 0.0, 8.0), covered[0]))
        yield Simulation(partial(starts_found, kind, STARTS), (Row(STARTS_SHOWN, kind), covered[1]))
        for blocks in (8, 16):
            case_of_lengths = f"{kind}, n={blocks}"
            found = partial(moved_found, kind, blocks)
            yield Simulation(partial(found, 0.0), (Row(LENGTHS_FALSE, case_of_lengths, 0.0, 3.0),))
            yield Simulation(partial(found, MOVED), (Row(LENGTHS_FOUND, case_of_lengths),))
        rows = (Row(POWER, case, 80), Row(POWER_PLAIN, case), Row(GAIN, case))
        yield Simulation(partial(power, kind, 15), rows)
