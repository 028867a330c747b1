"""Families: a baseline and seven treatments in blocks; and the claim that one of several arms is best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadbook.stats.compare import find_best_arm, step_down_p
from noise import MARGIN, Floats, Rng, draw
from simulated.check import Row, Simulation, percent
from simulated.two_arms import p_values, pairs_of

NOTHING = "family of 7, no difference: studies with a claim"
BESIDE = "family of 7, two real 3 %: studies with a false claim"
REAL = "family of 7: real 3 % found"
WRONG_BEST = "the wrong arm called best"
RIGHT_BEST = "the best arm of three called best, ahead by 2 %"
THREE = float(np.log(1.03))
TWO_REAL = [THREE, THREE, 0.0, 0.0, 0.0, 0.0, 0.0]
SCENARIOS = {
    "iid": "iid", "ar1+drift": "ar1+drift", "stalls": "stalls", "one noisy treatment": "hetero",
    "noisy baseline": "noisy baseline",
}  # fmt: skip


def claims(arms: Floats) -> NDArray[np.bool_]:
    """Tell which treatments loadbook calls different from the first arm: studies by treatments.

    The adjusted p decides, and the plain one, which is asked where it matters.
    """
    found = np.array([adjusted_p(study) for study in arms.swapaxes(0, 1)]) < 0.05
    for rows, arm in zip(found.T, arms[1:], strict=True):
        if rows.any():
            rows[rows] = p_values(arms[0][rows], arm[rows]) < 0.05
    return found


def adjusted_p(arms: Floats) -> list[float]:
    """Return the p-values of one study's treatments, adjusted for all of them."""
    return step_down_p([pairs_of(arms[0], arm, f"t{k}") for k, arm in enumerate(arms[1:], 1)])


def without_effect(noise: str, blocks: int, rng: Rng, studies: int) -> tuple[float]:
    """Return how many studies of seven treatments without effect claim one."""
    arms = draw(rng, noise, studies, blocks, [0.0] * 7)
    return (percent(claims(arms).any(axis=1)),)


def with_effects(noise: str, blocks: int, rng: Rng, studies: int) -> tuple[float, float]:
    """Return how many studies make a false claim beside two real effects, and how many of the real ones are found."""
    arms = draw(rng, noise, studies, blocks, TWO_REAL)
    found = claims(arms)
    return percent(found[:, 2:].any(axis=1)), percent(found[:, :2])


def called_best(blocks: int, effects: Sequence[float], rng: Rng, studies: int) -> list[str | None]:
    """Return which arm each study calls best, for arms with these effects and independent noise of 2 %."""
    names = [f"t{k}" for k in range(len(effects) + 1)]
    arm = np.repeat(np.array(names, dtype=object), blocks)
    rows = pd.DataFrame({"treatment": pd.Series(arm, dtype=object), "block": np.tile(np.arange(blocks), len(names))})
    arms = np.exp(draw(rng, "iid", studies, blocks, effects)).swapaxes(0, 1)
    return [find_best_arm(rows.assign(value=study.ravel()), names, "t0").best for study in arms]


def wrong_best(blocks: int, rng: Rng, studies: int) -> tuple[float]:
    """Return how often one of two equal leaders is called best; the third arm is far behind."""
    return (percent([best is not None for best in called_best(blocks, [0.0, -0.05], rng, studies)]),)


def right_best(blocks: int, rng: Rng, studies: int) -> tuple[float]:
    """Return how often an arm that is ahead by 2 % is called best."""
    return (percent([best == "t1" for best in called_best(blocks, [MARGIN, 0.0], rng, studies)]),)


def simulations() -> Iterator[Simulation]:
    """Yield every simulation of families."""
    least = {("ar1+drift", 10): 77, ("iid", 15): 74, ("stalls", 10): 80}
    for words, noise in SCENARIOS.items():
        for blocks in (8, 10, 15, 20):
            case = f"{words}, n={blocks}"
            yield Simulation(partial(without_effect, noise, blocks), (Row(NOTHING, case, 2.5, 6.8),))
            found = Row(REAL, case, least.get((noise, blocks), -np.inf))
            yield Simulation(partial(with_effects, noise, blocks), (Row(BESIDE, case, high=6.8), found))
    for blocks in (10, 20):
        tied = Row(WRONG_BEST, f"two tied leaders, iid, n={blocks}", high=6)
        yield Simulation(partial(wrong_best, blocks), (tied,))
    yield Simulation(partial(right_best, 20), (Row(RIGHT_BEST, "iid, n=20"),))
