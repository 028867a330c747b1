"""Does the method keep its promises? False alarms, power, equivalence, families, and controls that must fail.

    .venv/bin/python benchmarks/validate_stats.py [--reps 2000] [--quick]

Prints one table per question with the limits of the project's validation protocol; exits 1 if a row is outside its
limits. Noise: benchmarks/noise.py. The tests are loadbook's own (`choose`, `TESTS`, `step_down`), nothing is copied.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import zlib
from collections.abc import Callable, Iterator

import numpy as np
from scipy import stats

from loadbook.stats.compare import TESTS, choose
from loadbook.stats.family import step_down
from loadbook.stats.pairs import Pairs
from noise import SCENARIOS, alternating, draw, sequential

MARGIN = math.log(1.02)
Row = tuple[str, float, float, float]


def pairs_of(base: np.ndarray, other: np.ndarray, name: str = "x") -> Pairs:
    """Return logs as the pairs that loadbook compares."""
    return Pairs(name, "base", tuple(range(len(base))), base, other, 0, 0)


def p_of(base: np.ndarray, other: np.ndarray) -> float:
    """Return loadbook's p for two arms."""
    method = choose(pairs_of(base, other))
    return TESTS[method](base, other, []).p if method else 1.0


def equivalent(base: np.ndarray, other: np.ndarray) -> bool:
    """Tell whether loadbook's 90 % interval lies within the 2 % margin."""
    method = choose(pairs_of(base, other))
    interval = TESTS[method](base, other, [0.10]).intervals[0] if method else None
    return interval is not None and interval[0] > -MARGIN and interval[1] < MARGIN


def rate(reps: int, start: int, hit: Callable[[np.random.Generator], bool]) -> float:
    """Return the percentage of repetitions in which `hit` is true."""
    rng = np.random.default_rng(start)
    return 100 * sum(hit(rng) for _ in range(reps)) / reps


def seed(*words: object) -> int:
    """Return a seed of its own for every row."""
    return zlib.crc32(repr(words).encode())


def rejects(scenario: str, blocks: int, effect: float = 0.0) -> Callable[[np.random.Generator], bool]:
    """Return a study that tells whether loadbook finds a difference."""
    return lambda rng: p_of(*draw(rng, scenario, blocks, effect)) <= 0.05


def false_alarms(reps: int) -> Iterator[Row]:
    """Yield how often a difference is claimed where there is none."""
    for scenario in SCENARIOS:
        for blocks in (6, 10, 20):
            if scenario != "carry-over":
                low, high = (2.5, 7.5) if scenario == "periodic" else (2.5, 7.0 if blocks < 8 else 6.5)
                yield (
                    f"{scenario}, n={blocks}",
                    rate(reps, seed(scenario, blocks), rejects(scenario, blocks)),
                    low,
                    high,
                )


def power(reps: int) -> Iterator[Row]:
    """Yield how often a true 2 % is found."""
    least = {
        ("ar1+drift", 10): 80, ("drift", 10): 38, ("host-states", 10): 70, ("stalls", 10): 80, ("iid", 20): 77,
        ("drift", 20): 76, ("run-modes", 20): 70,
    }  # fmt: skip
    for scenario in SCENARIOS:
        for blocks in (10, 20):
            if scenario != "carry-over":
                found = rate(reps, seed(scenario, blocks, 2), rejects(scenario, blocks, MARGIN))
                yield f"{scenario}, n={blocks}", found, least.get((scenario, blocks), 0), 100


def equivalence(reps: int) -> Iterator[Row]:
    """Yield how often equivalence is claimed at the margin and at 0."""
    for scenario in SCENARIOS:
        if scenario != "carry-over":
            wrong = rate(reps, seed(scenario, 3), lambda rng, s=scenario: equivalent(*draw(rng, s, 10, MARGIN)))
            yield f"wrong, {scenario}, n=10", wrong, 0, 6.5
    for scenario, blocks, least in (("ar1+drift", 10, 78), ("iid", 30, 88), ("stalls", 15, 88)):
        right = rate(reps, 4, lambda rng, s=scenario, n=blocks: equivalent(*draw(rng, s, n)))
        yield f"right, {scenario}, n={blocks}", right, least, 100


def family_p(rng: np.random.Generator, scenario: str, blocks: int, effects: list[float]) -> list[float]:
    """Return adjusted p-values of treatments with these effects; every block holds all in random order."""
    size = len(effects) + 1
    order = np.concatenate([rng.permutation(size) for _ in range(blocks)])
    values = SCENARIOS[scenario](rng, order) + np.array([0.0, *effects])[order]
    arms = [values[order == k] for k in range(size)]
    return step_down([pairs_of(arms[0], arm, f"t{k}") for k, arm in enumerate(arms[1:])])


def claims_any(scenario: str, blocks: int) -> Callable[[np.random.Generator], bool]:
    """Return a study of seven treatments without effect that tells whether one is claimed."""
    return lambda rng: min(family_p(rng, scenario, blocks, [0.0] * 7)) <= 0.05


def families(reps: int) -> Iterator[Row]:
    """Yield how often a family makes a false claim, and finds what is there."""
    three = math.log(1.03)
    for scenario in ("iid", "ar1+drift", "stalls"):
        for blocks in (8, 10, 15):
            none = rate(
                reps,
                seed(scenario, blocks, 7),
                lambda rng, s=scenario, n=blocks: min(family_p(rng, s, n, [0.0] * 7)) <= 0.05,
            )
            yield f"no effect, {scenario}, n={blocks}", none, 2.5, 6.8
    for scenario, blocks, least in (("ar1+drift", 10, 77), ("iid", 15, 74), ("stalls", 10, 80)):
        rng = np.random.default_rng(5)
        two = [three, three, 0, 0, 0, 0, 0]
        found = [[p <= 0.05 for p in family_p(rng, scenario, blocks, two)] for _ in range(reps)]
        yield f"real effects found, {scenario}, n={blocks}", 100 * float(np.mean([f[:2] for f in found])), least, 100
        wrong = 100 * float(np.mean([any(f[2:]) for f in found]))
        yield f"false beside real ones, {scenario}, n={blocks}", wrong, 0, 6.8


def gain_over_unblocked(reps: int) -> Iterator[Row]:
    """Yield what blocks gain."""
    for scenario, least in (("ar1+drift", 20), ("host-states", 20), ("drift", 10), ("iid", -11), ("run-modes", -11)):
        rng, ours, theirs = np.random.default_rng(6), 0, 0
        for _ in range(reps):
            base, other = draw(rng, scenario, 10, MARGIN)
            ours += p_of(base, other) <= 0.05
            theirs += stats.mannwhitneyu(other, base).pvalue <= 0.05
        yield scenario, 100 * (ours - theirs) / reps, least, 100


def controls_that_must_fail(reps: int) -> Iterator[Row]:
    """Yield the false alarms of other designs: they prove that the noise is there to be seen."""

    def welch(rng: np.random.Generator) -> bool:
        base, other = draw(rng, "ar1+drift", 10, order=sequential)
        return bool(stats.ttest_ind(base, other, equal_var=False).pvalue <= 0.05)

    def paired(rng: np.random.Generator) -> bool:
        return bool(stats.ttest_rel(*draw(rng, "periodic", 10, order=alternating)).pvalue <= 0.05)

    def ranks_in_sequence(rng: np.random.Generator) -> bool:
        return p_of(*draw(rng, "ar1+drift", 10, order=sequential)) <= 0.05

    def peeking(rng: np.random.Generator) -> bool:
        base, other = draw(rng, "iid", 60)
        return any(stats.ttest_rel(base[:n], other[:n]).pvalue <= 0.05 for n in range(5, 61))

    yield "one arm after the other, Welch, ar1+drift", rate(reps, 7, welch), 45, 100
    yield "one arm after the other, our own test, ar1+drift", rate(reps, 8, ranks_in_sequence), 40, 100
    yield "strict alternation, paired t, periodic", rate(reps, 9, paired), 60, 100
    yield "looking after every block, iid", rate(max(100, reps // 10), 10, peeking), 20, 100
    yield "carry-over of 2 %, blocks", rate(reps, 11, rejects("carry-over", 10)), 10, 100


QUESTIONS: dict[str, Callable[[int], Iterator[Row]]] = {
    "True effect 0: claims of a difference, %": false_alarms,
    "True effect 2 %: differences found, %": power,
    "Power for 2 % at n = 10 above an unblocked Mann-Whitney test on the same data, points": gain_over_unblocked,
    "Equivalence (margin 2 %) claimed, %: wrongly at the margin, rightly at 0": equivalence,
    "Seven comparisons: studies with a false claim, and real effects of 3 % found, %": families,
    "What loadbook does not do: false alarms, %": controls_that_must_fail,
}


def main() -> int:
    """Print every table; return 1 if a row is outside its limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=2000, help="studies per row (default 2000)")
    parser.add_argument("--quick", action="store_true", help="300 studies per row, limits wider by 3 standard errors")
    arguments = parser.parse_args()
    reps = 300 if arguments.quick else arguments.reps
    bad = 0
    for title, question in QUESTIONS.items():
        started = time.perf_counter()
        print(f"\n{title}")
        for name, value, low, high in question(reps):
            slack = 3 * math.sqrt(max(value * (100 - value), 400) / reps) if arguments.quick else 0.0
            outside = not low - slack <= value <= high + slack
            bad += outside
            print(f"  {name:52} {value:6.1f}   {low:g} to {high:g}{'   OUTSIDE' if outside else ''}", flush=True)
        print(f"  {time.perf_counter() - started:.0f} s, {reps} studies a row", file=sys.stderr)
    print(f"\n{bad} rows outside their limits" if bad else "\nall rows within their limits")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
