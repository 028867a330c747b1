"""What loadbook does not do, on the same noise: each must fail, which proves that there is something to see."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from scipy import stats

from noise import Floats, Rng, alternating, draw, sequential
from simulated.check import Row, Simulation, percent
from simulated.families import TWO_REAL
from simulated.request_errors import REQUESTS, bursts
from simulated.two_arms import false_alarms, p_values

CONTROL = "must fail"
FIRST_LOOK, LAST_LOOK, RESAMPLES, PER_TRIAL, PORTION = 5, 60, 2_000, 2_000, 250


def welch_in_sequence(rng: Rng, studies: int) -> tuple[float]:
    """Return the false alarms of Welch's test where one arm runs after the other."""
    base, other = draw(rng, "ar1+drift", studies, 10, order=sequential)
    return (percent(stats.ttest_ind(base, other, axis=1, equal_var=False).pvalue <= 0.05),)


def ranks_in_sequence(rng: Rng, studies: int) -> tuple[float]:
    """Return the false alarms of loadbook's own test where one arm runs after the other."""
    return (percent(p_values(*draw(rng, "ar1+drift", studies, 10, order=sequential)) <= 0.05),)


def strict_alternation(rng: Rng, studies: int) -> tuple[float]:
    """Return the false alarms of the paired t test where the arms alternate and every fourth slot is disturbed."""
    base, other = draw(rng, "periodic", studies, 10, order=alternating)
    return (percent(stats.ttest_rel(base, other, axis=1).pvalue <= 0.05),)


def pooled_requests(rng: Rng, studies: int) -> tuple[float, float]:
    """Return the false alarms of Mann-Whitney on all requests, and of loadbook on the p99 of each trial."""
    pooled, p99 = [], np.empty((2, studies, 10))
    for k in range(studies):
        latencies = rng.normal(0, 0.03, (2, 10, 1)) + rng.normal(0, 0.5, (2, 10, PER_TRIAL))
        requests = latencies.reshape(2, -1)
        pooled.append(stats.mannwhitneyu(*requests, method="asymptotic").pvalue <= 0.05)
        p99[:, k] = np.quantile(latencies, 0.99, axis=2)
    return percent(pooled), percent(p_values(*p99) <= 0.05)


def pooled_errors(rng: Rng, studies: int) -> tuple[float]:
    """Return the false alarms of Fisher's test on the sums of requests where errors come in bursts."""
    sums = bursts(rng, (studies, 2, 10)).sum(axis=2).astype(int)
    tables = ([[a, 10 * REQUESTS - a], [b, 10 * REQUESTS - b]] for a, b in sums)
    return (percent([stats.fisher_exact(table).pvalue <= 0.05 for table in tables]),)


def peeking(rng: Rng, studies: int) -> tuple[float]:
    """Return the false alarms of a paired t test that is looked at after every block."""
    base, other = draw(rng, "iid", studies, LAST_LOOK)
    looks = range(FIRST_LOOK, LAST_LOOK + 1)
    p = [stats.ttest_rel(base[:, :n], other[:, :n], axis=1).pvalue for n in looks]
    return (percent(np.min(p, axis=0) <= 0.05),)


def percentile_bootstrap(rng: Rng, studies: int) -> tuple[float]:
    """Return the coverage of the percentile bootstrap of the mean paired log ratio."""
    base, other = draw(rng, "iid", studies, 10)
    covered = [_within_bootstrap(rng, rows) for rows in np.array_split(other - base, -(-studies // PORTION))]
    return (percent(np.concatenate(covered)),)


def _within_bootstrap(rng: Rng, ratios: Floats) -> np.ndarray:
    drawn = rng.integers(0, ratios.shape[1], (len(ratios), RESAMPLES * ratios.shape[1]))
    means = np.take_along_axis(ratios, drawn, axis=1).reshape(len(ratios), RESAMPLES, -1).mean(axis=2)
    low, high = np.quantile(means, [0.025, 0.975], axis=1)
    return (low <= 0) & (high >= 0)


def unblocked_dunnett(rng: Rng, studies: int) -> tuple[float]:
    """Return how many real effects of 3 % Dunnett's test finds that knows nothing of blocks."""
    arms = draw(rng, "ar1+drift", studies, 10, TWO_REAL)
    error = np.sqrt(arms.var(axis=2, ddof=1).mean(axis=0) * 2 / 10)
    t = (arms[1:3].mean(axis=2) - arms[0].mean(axis=1)) / error
    return (percent(np.abs(t) >= _dunnett_critical(rng, arms[:, 0])),)


def _dunnett_critical(rng: Rng, study: Floats) -> float:
    """Return the two-sided 5 % point of Dunnett's t, which depends only on the numbers of arms and blocks."""
    found = stats.dunnett(*study[1:], control=study[0], rng=rng)
    half = (found.confidence_interval().high[0] - found.confidence_interval().low[0]) / 2
    difference = study[1].mean() - study[0].mean()
    return float(half * found.statistic[0] / difference)


def simulations() -> Iterator[Simulation]:
    """Yield every control that must fail."""
    carry_over = partial(false_alarms, "carry-over", 10)
    yield Simulation(welch_in_sequence, (_row("one arm after the other, Welch, ar1+drift: false alarms", 45),))
    yield Simulation(ranks_in_sequence, (_row("one arm after the other, our own test, ar1+drift: false alarms", 40),))
    yield Simulation(strict_alternation, (_row("strict alternation, paired t, periodic: false alarms", 60),))
    p99 = Row("the same requests, p99 of each trial: false alarms", "10 x 2,000 requests", 2.5, 6.5)
    yield Simulation(pooled_requests, (_row("all requests pooled, Mann-Whitney: false alarms", 35), p99))
    yield Simulation(pooled_errors, (_row("all requests pooled, Fisher, errors in bursts: false alarms", 80),))
    yield Simulation(peeking, (_row("looking after every block, 5 to 60, paired t: false alarms", 20),))
    yield Simulation(percentile_bootstrap, (_row("percentile bootstrap, n=10: coverage", high=92),))
    yield Simulation(unblocked_dunnett, (_row("Dunnett without blocks, ar1+drift, n=10: real 3 % found", high=75),))
    yield Simulation(carry_over, (_row("carry-over of 2 %, blocks, n=10: false alarms", 10),))


def _row(case: str, low: float = -np.inf, high: float = np.inf) -> Row:
    return Row(CONTROL, case, low, high)
