"""Errors: 20,000 requests a trial, errors that come singly, scattered or in bursts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from loadbook.stats.errors import ErrorCounts, summarise_errors
from noise import Floats, Rng
from simulated.check import Row, Simulation, percent

REQUESTS = 20_000
TRIALS_TEST = "errors: equal arms differ in trials with errors (Fisher)"
VERDICT = "errors: equal arms get the word more or fewer"
FOUND = "errors: bursts in 3 of 10 trials, none in the other arm, found"


def single(rng: Rng, shape: tuple[int, ...]) -> Floats:
    """Return counts of independent errors, 2 a trial."""
    return rng.poisson(2.0, shape).astype(float)


def scattered(rng: Rng, shape: tuple[int, ...]) -> Floats:
    """Return counts of errors whose rate differs from trial to trial (negative binomial), 10 a trial."""
    return rng.poisson(rng.gamma(0.5, 20.0, shape)).astype(float)


def bursts(rng: Rng, shape: tuple[int, ...]) -> Floats:
    """Return counts of errors of which 3 of 10 trials have a burst of about 300."""
    return np.where(rng.random(shape) < 0.3, np.ceil(rng.exponential(300.0, shape)), 0.0)


KINDS: dict[str, Callable[[Rng, tuple[int, ...]], Floats]] = {
    "single": single, "scattered": scattered, "bursts": bursts,
}  # fmt: skip


def counts(errors: Floats) -> ErrorCounts:
    """Return the counts of one arm, a trial in each block, as loadbook has them."""
    return ErrorCounts(errors, REQUESTS - errors, {}, tuple(range(len(errors))))


def equal_arms(kind: str, trials: int, rng: Rng, studies: int) -> tuple[float, float]:
    """Return how often the test on trials, and how often the verdict on errors, sees a difference of equal arms."""
    arms = KINDS[kind](rng, (studies, 2, trials))
    found = [summarise_errors("x", counts(other), counts(base)) for base, other in arms]
    return percent([f.p is not None and f.p < 0.05 for f in found]), percent([f.kind in _CLAIMS for f in found])


def bursts_removed(trials: int, rng: Rng, studies: int) -> tuple[float]:
    """Return how often a treatment that removes bursts of errors is said to have fewer."""
    none = counts(np.zeros(trials))
    return (percent([summarise_errors("x", none, counts(e)).kind == "fewer" for e in bursts(rng, (studies, trials))]),)


_CLAIMS = ("more", "fewer")


def simulations() -> Iterator[Simulation]:
    """Yield every simulation of errors."""
    for kind in KINDS:
        for trials in (10, 20):
            case = f"{kind}, n={trials}"
            yield Simulation(partial(equal_arms, kind, trials), (Row(TRIALS_TEST, case, high=6), Row(VERDICT, case)))
    for trials in (10, 20, 30):
        yield Simulation(partial(bursts_removed, trials), (Row(FOUND, f"n={trials}"),))
