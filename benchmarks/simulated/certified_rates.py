"""Rates certified to be sustained by a share of starts: how often that is wrong, beside what is done without it.

A start meets the objective or misses it. A rate is certified wrongly if fewer starts than the share sustain it, which
is tested at the edge: at just the share. `naive` are one start, three starts, and starts that are added until they
certify.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from loadbook.modes.capacity.spec import CONFIDENCE, least_starts
from loadbook.modes.capacity.stats_certified import Starts, rate_states
from noise import NOISES, Rng
from simulated.check import Row, Simulation, percent

EDGE = 1e-9  # below the share
MOST_STARTS = 200  # where starts are added until they certify
WRONG = "certified rates: wrong, where just too few starts sustain the rate"
WRONG_IN_RUN = "certified rates: any wrong in a run, three rates that just too few starts sustain"
FOUND = "certified rates: found, where nearly all starts sustain the rate"
WANDERING = "certified rates: wrong, on a host whose speed wanders"
FOUND_BY_TIMES = "certified rates: found, with the test of independence"
NAIVE = "certified rates: wrong, {}"


def is_certified(met: int, starts: int, share: float) -> bool:
    """Return whether a run certifies its only rate."""
    return rate_states({1.0: Starts(starts, met, starts)}, share, CONFIDENCE)[1.0] == "certified"


def one_rate(share: float, starts: int, true_share: float, rng: Rng, studies: int) -> tuple[float]:
    """Return how often a rate is certified."""
    certified = np.array([is_certified(met, starts, share) for met in range(starts + 1)])
    return (percent(certified[rng.binomial(starts, true_share, studies)]),)


def three_rates(starts: int, rng: Rng, studies: int) -> tuple[float, float]:
    """Return how often any rate is certified: from the lowest upwards, and each rate by itself."""
    met = rng.binomial(starts, 0.9 - EDGE, (studies, 3))
    in_order, alone = [], []
    for row in met.tolist():
        states = rate_states({rate: Starts(starts, n, starts) for rate, n in enumerate(row, 1)}, 0.9, CONFIDENCE)
        in_order.append("certified" in states.values())
        alone.append(any(is_certified(n, starts, 0.9) for n in row))
    return percent(in_order), percent(alone)


def few_starts(starts: int, rng: Rng, studies: int) -> tuple[float]:
    """Return how often so few starts all meet the objective."""
    return (percent(rng.binomial(starts, 0.9 - EDGE, studies) == starts),)


def added_starts(rng: Rng, studies: int) -> tuple[float]:
    """Return how often starts that are added one by one certify at last."""
    most_missed = np.array(
        [max((n for n in range(made + 1) if is_certified(made - n, made, 0.9)), default=-1)
         for made in range(1, MOST_STARTS + 1)]
    )  # fmt: skip
    missed = np.cumsum(rng.random((studies, MOST_STARTS)) < 0.1 + EDGE, axis=1)
    return (percent((missed <= most_missed).any(axis=1)),)


def wandering_host(kind: str, starts: int, true_share: float, rng: Rng, studies: int) -> tuple[float, float]:
    """Return how often a rate is certified that a share of starts sustain over many runs on a host with such noise.

    Second: how often if the starts were taken as independent.
    """
    order = np.zeros((max(studies, 2000), starts), dtype=int)
    speeds = np.asarray(NOISES[kind](rng, order))  # logarithms
    times_s, limit_s = np.exp(-speeds[:studies]), float(np.exp(-np.quantile(speeds, 1 - true_share)))
    runs = [Starts.of_times(row, limit_s * (1 - EDGE)) for row in times_s.tolist()]
    states = [rate_states({1.0: run}, 0.9, CONFIDENCE)[1.0] for run in runs]
    return percent([s == "certified" for s in states]), percent([is_certified(run.met, starts, 0.9) for run in runs])


def simulations() -> Iterator[Simulation]:
    """Yield every simulation of certified rates."""
    cases: Sequence[tuple[float, int]] = [(0.9, 29), (0.9, 46), (0.8, 14), (0.5, 5), (0.9, 100)]
    for share, starts in cases:
        case = f"{100 * share:g} % of starts, n={starts}"
        yield Simulation(partial(one_rate, share, starts, share - EDGE), (Row(WRONG, case, high=6.0),))
    for starts in (least_starts(0.9), least_starts(0.9, 1)):
        for true_share in (0.99, 0.999):
            case = f"{100 * true_share:g} % do, n={starts}"
            yield Simulation(partial(one_rate, 0.9, starts, true_share), (Row(FOUND, case),))
    rows = Row(WRONG_IN_RUN, "from the lowest upwards, n=46", high=6.0), Row(WRONG_IN_RUN, "each by itself, n=46")
    yield Simulation(partial(three_rates, 46), rows)
    for starts in (1, 3):
        row = Row(NAIVE.format(f"by {starts} start{'s' * (starts > 1)} that met the objective"), "", 20)
        yield Simulation(partial(few_starts, starts), (row,))
    yield Simulation(added_starts, (Row(NAIVE.format("starts are added until they certify"), "at most 200", 10),))
    for kind in ("iid", "ar1", "ar1+drift", "host-states", "stalls"):
        for starts, high in ((29, 8.0), (46, 6.0)):
            case = f"{kind}, n={starts}"
            rows = Row(WANDERING, case, high=high), Row(f"{WANDERING}, starts taken as independent", case)
            yield Simulation(partial(wandering_host, kind, starts, 0.9), rows)
    for true_share in (0.99, 0.999):
        case = f"{100 * true_share:g} % do, iid, n=46"
        rows = Row(FOUND_BY_TIMES, case), Row(f"{FOUND_BY_TIMES}, starts taken as independent", case)
        yield Simulation(partial(wandering_host, "iid", 46, true_share), rows)
