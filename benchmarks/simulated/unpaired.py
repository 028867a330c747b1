"""Arms without blocks, as files in two folders: false alarms, coverage, power, and what drift makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from scipy import stats

from loadbook.stats.unpaired import compare_runs
from loadbook.stats.verdict import decide_verdict
from noise import MARGIN, Floats, Rng, draw, sequential
from simulated.check import Row, Simulation, percent

FALSE_ALARMS = "arms without blocks, runs in random order, no difference: false alarms"
COVERED = "arms without blocks: the 95 % interval covers the truth"
WRONG_EQUIVALENCE = "arms without blocks, a difference as large as the margin: said to be smaller"
EQUIVALENCE = "arms without blocks, no difference: said to be smaller than 2 %"
FOUND = "arms without blocks, a true 2 %: found"
NAIVE = "arms without blocks, the first scatters more: false alarms"
STUDENT = "must fail: arms without blocks, 5 runs scatter more than 20, Student's t test: false alarms"
STUDENT_ALIKE = "arms without blocks, the first scatters more, Student's t test: false alarms"
ONE_AFTER_THE_OTHER = "must fail: arms without blocks, one whole before the other: false alarms"
RUNS = ((5, 5), (5, 20), (7, 10), (10, 10), (20, 20))
MOST = 1000


def arms(noise: str, runs: tuple[int, int], rng: Rng, studies: int, effect: float = 0.0) -> list[tuple[Floats, Floats]]:
    """Return the log values of both arms of every study, in random order of all runs."""
    values = draw(rng, noise, min(studies, MOST), max(runs), [effect])
    return [(base[: runs[0]], other[: runs[1]]) for base, other in zip(*values, strict=True)]


def judged(noise: str, runs: tuple[int, int], effect: float, rng: Rng, studies: int) -> tuple[float, float, float]:
    """Return how often a difference is found, the interval covers the truth, and the difference is said to be small."""
    found, covered, small = [], [], []
    for base, other in arms(noise, runs, rng, studies, effect):
        comparison = compare_runs(np.exp(base), np.exp(other), ("base", "other"), "ok_per_s")
        low, high = comparison.ci95 or (-1.0, np.inf)
        found.append(not low <= 0 <= high)
        covered.append(low <= np.expm1(effect) <= high)
        small.append(decide_verdict(comparison, 0.02).kind in ("equivalent", "small"))
    return percent(found), percent(covered), percent(small)


def unequal(runs: tuple[int, int], louder: float, rng: Rng, studies: int) -> tuple[float, float]:
    """Return the false alarms where the first arm scatters `louder` times as much, and those of Student's t test."""
    ours, student = [], []
    for base, other in arms("iid", runs, rng, studies):
        ours.append((compare_runs(np.exp(louder * base), np.exp(other), ("a", "b"), "x").p or 1.0) <= 0.05)
        student.append(stats.ttest_ind(louder * base, other).pvalue <= 0.05)
    return percent(ours), percent(student)


def one_after_the_other(noise: str, runs: int, rng: Rng, studies: int) -> tuple[float]:
    """Return the false alarms where all runs of one arm precede those of the other."""
    values = draw(rng, noise, min(studies, MOST), runs, [0.0], sequential)
    pairs = zip(*values, strict=True)
    return (percent([(compare_runs(np.exp(a), np.exp(b), ("a", "b"), "x").p or 1.0) <= 0.05 for a, b in pairs]),)


def simulations() -> Iterator[Simulation]:
    """Yield every simulation of arms without blocks."""
    for noise in ("iid", "run-modes", "stalls"):
        for runs in RUNS:
            case = f"{noise}, {runs[0]} and {runs[1]} runs"
            alarms, covered = Row(FALSE_ALARMS, case, high=7.0), Row(COVERED, case, 93.0)
            yield Simulation(partial(judged, noise, runs, 0.0), (alarms, covered, Row(EQUIVALENCE, case)))
    for runs in RUNS:
        case = f"iid, {runs[0]} and {runs[1]} runs"
        rows = Row(FOUND, case), Row(COVERED, f"{case}, at the margin", 93.0), Row(WRONG_EQUIVALENCE, case, high=6.5)
        yield Simulation(partial(judged, "iid", runs, MARGIN), rows)
    for runs, louder in (((5, 20), 4.0), ((5, 20), 2.0), ((10, 10), 4.0), ((5, 5), 4.0)):
        case = f"{runs[0]} and {runs[1]} runs, {louder:g} times"
        student = Row(STUDENT, case, 15.0) if runs == (5, 20) else Row(STUDENT_ALIKE, case)
        yield Simulation(partial(unequal, runs, louder), (Row(NAIVE, case, high=7.0), student))
    for noise in ("drift", "ar1+drift"):
        row = Row(ONE_AFTER_THE_OTHER, f"{noise}, 10 runs", 40.0)
        yield Simulation(partial(one_after_the_other, noise, 10), (row,))
