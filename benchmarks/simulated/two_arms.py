"""Two arms: false alarms, power, coverage, equivalence, and what a test without blocks would have found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
from scipy import stats

from loadbook.stats.compare import TESTS, choose_method, compare_pairs
from loadbook.stats.paired_tests import PairedLogs
from loadbook.stats.power import p_by_row
from loadbook.stats.verdict import decide_verdict
from noise import MARGIN, SCENARIOS, Floats, Rng, draw
from simulated.check import Row, Simulation, percent

CHECKED = 50  # studies of every simulation
FALSE_ALARMS = "false alarms, no difference"
FEW_BLOCKS = "false alarms, no difference, n = 5 to 7"
COVERAGE = "the 95 % interval covers the truth"
POWER = "a true 2 % found"
GAIN = "a true 2 % found, points above Mann-Whitney without blocks"
WRONG_EQUIVALENCE = "equivalence claimed wrongly, at the margin"
EQUIVALENCE = "equivalence claimed rightly, no difference"
WRONG_NO_LOSS = "no loss beyond 2 % claimed wrongly, at the margin"
NO_LOSS = "no loss beyond 2 % claimed rightly, no difference"


def pairs_of(base: Floats, other: Floats, name: str = "x") -> PairedLogs:
    """Return the logs of two arms of one study as the pairs that loadbook compares."""
    return PairedLogs(name, "base", tuple(range(len(base))), base, other, 0, 0)


def p_values(base: Floats, other: Floats) -> Floats:
    """Return loadbook's p of each study, by its function for many studies at once; of some by what `compare` calls."""
    p = p_by_row(base, other)
    for k in range(0, len(p), max(1, len(p) // CHECKED)):
        assert math.isclose(p[k], p_alone(base[k], other[k]), abs_tol=1e-9), "compare and many disagree"
    return p


def p_alone(base: Floats, other: Floats) -> float:
    """Return the p of one study as `compare` finds it."""
    method = choose_method(pairs_of(base, other))
    return TESTS[method](base, other, []).p if method else 1.0


def false_alarms(noise: str, blocks: int, rng: Rng, studies: int) -> tuple[float]:
    """Return how often a difference is found where there is none."""
    return (percent(p_values(*draw(rng, noise, studies, blocks)) <= 0.05),)


def power(noise: str, blocks: int, rng: Rng, studies: int) -> tuple[float, float]:
    """Return how often a true 2 % is found, and how many points more than by Mann-Whitney on the same data."""
    base, other = draw(rng, noise, studies, blocks, [MARGIN])
    unblocked = stats.mannwhitneyu(other, base, axis=1, method="exact").pvalue
    found = percent(p_values(base, other) <= 0.05)
    return found, found - percent(unblocked <= 0.05)


def verdicts(noise: str, blocks: int, effect: float, rng: Rng, studies: int) -> tuple[float, float, float]:
    """Judge studies with this true log effect, a loss where less is better.

    Returns how often the 95 % interval covers the effect, how often the verdict is that any difference is within 2 %,
    and how often, asked for that alone, that no loss is beyond 2 %.
    """
    covered, inside, no_loss = [], [], []
    for base, other in zip(*draw(rng, noise, studies, blocks, [effect]), strict=True):
        found = compare_pairs(pairs_of(base, other))
        covered.append(found.ci95 is not None and found.ci95[0] <= np.expm1(effect) <= found.ci95[1])
        inside.append(decide_verdict(found, 0.02).kind in ("equivalent", "small"))
        no_loss.append(decide_verdict(found, 0.02, "lower", hypothesis="non-inferiority").kind == "no-loss")
    return percent(covered), percent(inside), percent(no_loss)


def simulations() -> Iterator[Simulation]:
    """Yield every simulation of two arms."""
    for noise in SCENARIOS:
        for blocks in (5, 6, 7, 8, 10, 20):
            claim, high = (FEW_BLOCKS, 7.0) if blocks < 8 else (FALSE_ALARMS, 7.5 if noise == "periodic" else 6.5)
            yield Simulation(partial(false_alarms, noise, blocks), (Row(claim, _case(noise, blocks), 2.5, high),))
    yield from _power()
    yield from _verdicts()


def _power() -> Iterator[Simulation]:
    least = {
        ("ar1+drift", 10): 80, ("drift", 10): 38, ("host-states", 10): 70, ("stalls", 10): 80,
        ("iid", 20): 77, ("drift", 20): 76, ("run-modes", 20): 70,
    }  # fmt: skip
    gain = {("ar1+drift", 10): 20, ("host-states", 10): 20, ("drift", 10): 10}
    for noise in SCENARIOS:
        for blocks in (10, 20):
            which = noise, blocks
            found = Row(POWER, _case(*which), least.get(which, -np.inf))
            yield Simulation(partial(power, *which), (found, Row(GAIN, _case(*which), gain.get(which, -11))))


def _verdicts() -> Iterator[Simulation]:
    for noise in SCENARIOS:
        case = _case(noise, 10)
        rows = Row(COVERAGE, case, 94, 98), Row(WRONG_EQUIVALENCE, case, high=6.5), Row(WRONG_NO_LOSS, case, high=6.5)
        yield Simulation(partial(verdicts, noise, 10, MARGIN), rows)
    for noise, blocks, least in (("ar1+drift", 10, 78), ("iid", 30, 88), ("stalls", 15, 88), ("hetero", 30, None)):
        case = f"{_case(noise, blocks)}, no difference"
        right = Row(EQUIVALENCE, _case(noise, blocks), -np.inf if least is None else least)
        rows = Row(COVERAGE, case, 94, 98), right, Row(NO_LOSS, _case(noise, blocks))
        yield Simulation(partial(verdicts, noise, blocks, 0.0), rows)


def _case(noise: str, blocks: int) -> str:
    return f"{noise}, n={blocks}"
