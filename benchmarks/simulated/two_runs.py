"""Two runs of one study: changes claimed where there are none, the interval of the difference, agreement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from loadbook.analyses.compare_runs.compute import EffectChange, effect_change, is_changed
from loadbook.stats.compare import compare_pairs
from loadbook.stats.paired_tests import adjust_holm
from loadbook.stats.results import Comparison
from loadbook.stats.verdict import is_within_margin
from noise import MARGIN, Floats, Rng, draw
from simulated.check import Row, Simulation, percent
from simulated.two_arms import pairs_of

UNCHANGED = "two runs, an effect that did not change: called changed"
COVERED = "two runs: the 95 % interval of the change covers the truth"
WRONGLY = "two runs, a change as large as the margin: said to agree"
FOUND = "two runs, a change of 5 %: found"
FAMILY = "two runs, four effects that did not change: runs with one called changed"
EFFECT, CHANGE = 0.06, float(np.log(1.05))
MOST = 1000  # pairs of runs in a row: intervals take twenty times as long as the p-values of other rows
NOISES = ("iid", "ar1+drift", "run-modes", "stalls", "hetero", "periodic")
BLOCKS = ((6, 6), (5, 10), (8, 8), (12, 12), (8, 20))


def found(base: Floats, other: Floats) -> Comparison:
    """Return what a run of these two arms says."""
    return compare_pairs(pairs_of(base, other))


def shifts(
    noise: str, blocks: tuple[int, int], change: float, louder: float, rng: Rng, studies: int
) -> list[EffectChange]:
    """Return by how much an effect moved between two runs; the second scatters `louder` times as much."""
    studies = min(studies, MOST)
    runs = [draw(rng, noise, studies, n, [effect]) for n, effect in zip(blocks, (EFFECT, EFFECT + change), strict=True)]
    truth = np.array([0.0, EFFECT + change])[:, None, None]
    runs[1] = truth + louder * (runs[1] - truth)
    pairs = zip(*runs[0], *runs[1], strict=True)
    return [s for a, b, c, d in pairs if (s := effect_change(found(a, b), found(c, d))) is not None]


def unchanged(noise: str, blocks: tuple[int, int], louder: float, rng: Rng, studies: int) -> tuple[float, float]:
    """Return how often a change is claimed where there is none, and how often the interval covers that."""
    known = shifts(noise, blocks, 0.0, louder, rng, studies)
    return percent([is_changed(s) for s in known]), percent([s.ci95[0] <= 0 <= s.ci95[1] for s in known])


def as_the_margin(noise: str, blocks: tuple[int, int], rng: Rng, studies: int) -> tuple[float]:
    """Return how often runs are said to agree although an effect changed by as much as the margin."""
    return (percent([is_within_margin(s.ci90, 0.02) for s in shifts(noise, blocks, MARGIN, 1.0, rng, studies)]),)


def power(noise: str, blocks: tuple[int, int], rng: Rng, studies: int) -> tuple[float]:
    """Return how often a change of 5 % is found."""
    return (percent([is_changed(s) for s in shifts(noise, blocks, CHANGE, 1.0, rng, studies)]),)


def family(noise: str, blocks: tuple[int, int], rng: Rng, studies: int) -> tuple[float]:
    """Return how many pairs of runs call one of four effects changed, none of which is."""
    studies = min(studies, MOST)
    runs = [draw(rng, noise, studies, n, [EFFECT, 0.0, 0.0, -EFFECT]) for n in blocks]
    return (percent([_any_changed(runs[0][:, k], runs[1][:, k]) for k in range(studies)]),)


def _any_changed(older: Floats, newer: Floats) -> bool:
    pairs = zip(older[1:], newer[1:], strict=True)
    known = [s for a, b in pairs if (s := effect_change(found(older[0], a), found(newer[0], b))) is not None]
    adjusted = adjust_holm([s.p for s in known])
    return any(
        is_changed(replace(s, p_adjusted=p, family_size=len(known))) for s, p in zip(known, adjusted, strict=True)
    )


def simulations() -> Iterator[Simulation]:
    """Yield every simulation of two runs."""
    for noise in NOISES:
        for blocks in BLOCKS:
            yield _unchanged(noise, blocks, 1.0)
        yield _unchanged(noise, (12, 8), 3.0)
        yield Simulation(partial(as_the_margin, noise, (12, 12)), (Row(WRONGLY, _case(noise, (12, 12)), high=6.5),))
    for noise in ("iid", "ar1+drift", "stalls"):
        yield Simulation(partial(power, noise, (12, 12)), (Row(FOUND, _case(noise, (12, 12))),))
        yield Simulation(partial(family, noise, (10, 10)), (Row(FAMILY, _case(noise, (10, 10)), high=6.8),))


def _unchanged(noise: str, blocks: tuple[int, int], louder: float) -> Simulation:
    case = _case(noise, blocks) + ("" if louder == 1 else f", the second {louder:g} times as noisy")
    high = 7.5 if noise == "periodic" else 7.0 if min(blocks) < 8 else 6.5
    rows = Row(UNCHANGED, case, 1.0, high), Row(COVERED, case, 100 - high, 99.0)
    return Simulation(partial(unchanged, noise, blocks, louder), rows)


def _case(noise: str, blocks: tuple[int, int]) -> str:
    return f"{noise}, n={blocks[0]} and {blocks[1]}"
