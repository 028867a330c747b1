"""Coverage of the intervals of the two-regime curve in % of simulated studies with known costs.

    python benchmarks/regimes.py [--studies 2000]

Each row prints the coverage for cost per request, cost per byte, knee and rate between two sizes, and the width of the
knee's interval (upper bound / lower bound). The exit code is 1 if a coverage is below 95 % (90 % if the noise has heavy
tails or is autocorrelated) by more than three standard errors of the simulation.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass

import numpy as np

from loadbook.analyses.page_size.compute import TwoRegimeCurve, fit_curve

PER_REQUEST_S = 1 / 2000
EIGHT = (128, 2048, 8192, 32_768, 65_536, 131_072, 262_144, 524_288)
FOUR = (128, 8192, 65_536, 524_288)
BETWEEN = 40_000


@dataclass(frozen=True)
class Row:
    """One kind of study: noise of a trial (log), its distribution, and the minimum coverage."""

    name: str
    blocks: int
    sizes: tuple[int, ...]
    knee: float = 65_536
    sd: float = 0.03
    shape: str = "normal"
    missing: float = 0.0
    least: float = 0.95


ROWS = (
    Row("15 blocks, 8 sizes", 15, EIGHT),
    Row("6 blocks, 4 sizes (smoke)", 6, FOUR, sd=0.05),
    Row("5 % of trials lost", 15, EIGHT, missing=0.05),
    Row("knee at the smallest but one", 15, EIGHT, knee=2048),
    Row("knee at the largest size", 10, EIGHT, knee=524_288, sd=0.05),
    Row("knee at four times the largest", 15, FOUR, knee=2**21),
    Row("noise of 10 %", 10, EIGHT, sd=0.10),
    Row("heavy tails (t, 3 degrees)", 10, EIGHT, shape="heavy", least=0.90),
    Row("noise that drifts within blocks", 10, EIGHT, shape="drift", least=0.90),
)


def noise(row: Row, rng: np.random.Generator) -> np.ndarray:
    """Return the noise of one block's trials in order of execution."""
    count = len(row.sizes)
    if row.shape == "heavy":
        return row.sd * rng.standard_t(3, count) / math.sqrt(3)
    own = rng.normal(0, row.sd, count)
    return own + rng.normal(0, 0.03) * np.linspace(-1, 1, count) if row.shape == "drift" else own


def study(row: Row, rng: np.random.Generator) -> dict[float, dict[object, float]]:
    """Return the rates of one simulated study, with sizes in random order and a common shift in each block."""
    found: dict[float, dict[object, float]] = {float(size): {} for size in row.sizes}
    for block in range(row.blocks):
        shared, off = rng.normal(0, 0.05), noise(row, rng)
        for size, own in zip(rng.permutation(row.sizes), off, strict=True):
            if rng.random() >= row.missing:
                found[float(size)][block] = math.exp(shared + own) / (PER_REQUEST_S * (1 + size / row.knee))
    return found


def covers(row: Row, studies: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Return (coverage of each interval, median width of the knee's interval)."""
    truths = (PER_REQUEST_S, PER_REQUEST_S / row.knee, row.knee, 1 / (PER_REQUEST_S * (1 + BETWEEN / row.knee)))
    hits, widths = np.zeros(4), []
    for _ in range(studies):
        fit = fit_curve(study(row, rng))
        assert isinstance(fit, TwoRegimeCurve), fit
        found = (fit.per_request_s, fit.per_byte_s, fit.knee_b, fit.rate_at(BETWEEN))
        hits += [e.interval[0] <= truth <= e.interval[1] for e, truth in zip(found, truths, strict=True)]
        widths.append(fit.knee_b.interval[1] / fit.knee_b.interval[0])
    return hits / studies, float(np.median(widths))


def main() -> None:
    """Print a row per kind of study; exit with 1 if a coverage is too low."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=2000)
    studies, wrong = parser.parse_args().studies, []
    print("| kind of study | request | byte | knee | rate | knee's interval |\n|---|---|---|---|---|---|")
    for number, row in enumerate(ROWS):
        hits, width = covers(row, studies, np.random.default_rng(number))
        print(f"| {row.name} | " + " | ".join(f"{100 * hit:.1f}" for hit in hits) + f" | × {width:.2f} |", flush=True)
        allowed = row.least - 3 * math.sqrt(0.95 * 0.05 / studies)
        wrong += [row.name] if (hits < allowed).any() else []
    sys.exit(f"covers too seldom: {', '.join(wrong)}" if wrong else 0)


if __name__ == "__main__":
    main()
