"""Looking before the end: planned looks at 10, 20 and 30 blocks, and the always-valid test after every block."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from loadbook.stats.sequential import always_valid_t
from loadbook.study.limits import POCOCK_P
from noise import MARGIN, SCENARIOS, Floats, Rng, draw
from simulated.check import Row, Simulation, percent
from simulated.two_arms import p_values

PLANNED = (10, 20, 30)
EVERY = tuple(range(3, 61))


def planned(noise: str, effect: float, rng: Rng, studies: int) -> Floats:
    """Return for every planned look (first axis) and study whether it finds a difference."""
    base, other = draw(rng, noise, studies, PLANNED[-1], [effect])
    return np.array([p_values(base[:, :n], other[:, :n]) <= POCOCK_P[len(PLANNED)] for n in PLANNED])


def always_valid(noise: str, effect: float, rng: Rng, studies: int) -> Floats:
    """Return the same for the always-valid test after every block."""
    base, other = draw(rng, noise, studies, EVERY[-1], [effect])
    return np.array([[always_valid_t(d[:n]).p <= 0.05 for n in EVERY] for d in other - base]).T


RULES = {
    "looks after 10, 20 and 30 blocks": (planned, PLANNED, 7.0),
    "always-valid, looks after 3 to 60 blocks": (always_valid, EVERY, 5.0),
}


def false_claims(rule: str, noise: str, rng: Rng, studies: int) -> tuple[float]:
    """Return how often any look finds a difference where there is none."""
    looked, _, _ = RULES[rule]
    return (percent(looked(noise, 0.0, rng, studies).any(axis=0)),)


def power(rule: str, noise: str, rng: Rng, studies: int) -> tuple[float, float]:
    """Return how often any look finds a true 2 %, and after how many blocks it stops on average."""
    looked, looks, _ = RULES[rule]
    found = looked(noise, MARGIN, rng, studies)
    stopped = np.where(found.any(axis=0), found.argmax(axis=0), len(looks) - 1)
    return percent(found.any(axis=0)), float(np.mean(np.array(looks)[stopped]))


def simulations() -> Iterator[Simulation]:
    """Yield every simulation of looking before the end."""
    for rule, (_, _, most) in RULES.items():
        for noise in SCENARIOS:
            yield Simulation(partial(false_claims, rule, noise), (Row(f"{rule}: false alarms", noise, high=most),))
        for noise in ("iid", "ar1+drift"):
            found = Row(f"{rule}: a true 2 % found", noise)
            yield Simulation(partial(power, rule, noise), (found, Row(f"{rule}: blocks on average", noise)))
