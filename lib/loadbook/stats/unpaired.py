"""Comparisons of arms whose runs have no blocks, such as files in two folders: nothing pairs a run with another.

The tests are on logarithms. From 16 runs of both arms on it is Mann-Whitney's, whose interval holds the shifts that it
does not reject; with fewer runs, or if one arm scatters more, Welch's t test. If one arm has more than 1.5 times the
runs of the other, a difference must be shown by both tests. Below 5 runs of an arm there is none.

They hold if the runs of both arms met the same conditions: the order and the times of runs are not used.
`benchmarks/simulated/unpaired.py` has their error rates, and what a drift makes of them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from loadbook.core.units import join_words, pluralize
from loadbook.stats import paired_tests
from loadbook.stats.compare import MIN_BLOCKS
from loadbook.stats.paired_tests import FloatArray, PairedTestResult
from loadbook.stats.results import Comparison, Method

MIN_RANK_RUNS = 16  # of both arms together
MAX_EXACT_RUNS = 100  # of both arms together
MAX_RATIO = 1.5  # of the numbers of runs
UNEQUAL_SCATTER_ALPHA = 0.05
NO_SCATTER = "all runs of a side have the same value: the metric is too coarse, or they are copies"
UNEQUAL_SCATTER = "the arms scatter differently; Welch's t test allows for it"


def rank_sum(base: FloatArray, other: FloatArray, alphas: Sequence[float]) -> PairedTestResult:
    """Test by Mann-Whitney's statistic, exactly if no values are tied; the estimate is that of Hodges and Lehmann.

    `base` and `other` are logarithms, of any numbers of runs.
    """
    shifts = np.subtract.outer(other, base).ravel()

    def p_at(shift: FloatArray) -> FloatArray:
        rounded = np.round(other - shift[:, None], paired_tests.LOG_DECIMALS)
        bases = np.broadcast_to(np.round(base, paired_tests.LOG_DECIMALS), (len(shift), len(base)))
        every = np.sort(np.hstack([rounded, bases]), axis=1)
        is_exact = every.shape[1] <= MAX_EXACT_RUNS and bool((np.diff(every, axis=1) > 0).all())
        return np.asarray(
            stats.mannwhitneyu(rounded, bases, axis=1, method="exact" if is_exact else "asymptotic").pvalue
        )

    p = float(p_at(np.zeros(1))[0])
    return PairedTestResult(float(np.median(shifts)), p, paired_tests.invert_test(shifts, p_at, alphas))


def welch_t(base: FloatArray, other: FloatArray, alphas: Sequence[float]) -> PairedTestResult:
    """Test by Welch's t on logarithms; the estimate is the difference of their means."""
    estimate = float(other.mean() - base.mean())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one arm without scatter, which Welch's t allows
        result = stats.ttest_ind(other, base, equal_var=False)
    intervals = (result.confidence_interval(1 - alpha) for alpha in alphas)
    return PairedTestResult(estimate, float(result.pvalue), [(float(one.low), float(one.high)) for one in intervals])


def rank_sum_and_t(base: FloatArray, other: FloatArray, alphas: Sequence[float]) -> PairedTestResult:
    """Test by both: the larger p and the widest interval count, the estimate is that of the ranks."""
    ranks, t = rank_sum(base, other, alphas), welch_t(base, other, alphas)
    intervals = [
        (min(one[0], other_[0]), max(one[1], other_[1])) if one and other_ else None
        for one, other_ in zip(ranks.intervals, t.intervals, strict=True)
    ]
    return PairedTestResult(ranks.estimate, max(ranks.p, t.p), intervals)


TESTS = {"rank-sum": rank_sum, "welch-t": welch_t, "rank-sum-and-t": rank_sum_and_t}


def scatters_differ(base: FloatArray, other: FloatArray) -> bool:
    """Return whether one arm scatters more than the other, by Brown and Forsythe's test at p < 0.05."""
    if max(np.ptp(base), np.ptp(other)) < paired_tests.LOG_TOLERANCE:
        return False
    return float(stats.levene(base, other, center="median").pvalue) < UNEQUAL_SCATTER_ALPHA


def choose_method(base: FloatArray, other: FloatArray) -> Method | None:
    """Return the name of the test for these logarithms; None if an arm has fewer than 5 runs."""
    fewer, more = sorted((len(base), len(other)))
    if fewer < MIN_BLOCKS:
        return None
    if fewer + more < MIN_RANK_RUNS:
        return "welch-t"
    if more > MAX_RATIO * fewer:
        return "rank-sum-and-t"
    return "welch-t" if scatters_differ(base, other) else "rank-sum"


def compare_runs(
    base: ArrayLike,
    other: ArrayLike,
    names: tuple[str, str],
    metric: str,
    statistic: str = "value",
    *,
    family_size: int = 1,
    level: float = 0.95,
) -> Comparison:
    """Compare the positive values of the runs of two arms.

    Parameters
    ----------
    names : of the baseline and of the other arm.
    family_size : number of comparisons that share one error rate, for `ci_family`.

    Returns
    -------
    Comparison : its `blocks` is the smaller number of runs, `runs` both numbers, the baseline's first. With fewer than
        5 runs it has an effect and neither interval nor p.
    """
    logs = np.log(np.asarray(base, float)), np.log(np.asarray(other, float))
    flat = all(len(arm) > 1 and np.ptp(arm) < paired_tests.LOG_TOLERANCE for arm in logs)
    method = None if flat else choose_method(*logs)
    alphas = [1 - level, 2 * (1 - level), *([(1 - level) / family_size] if family_size > 1 else [])]
    if method:
        result = TESTS[method](*logs, alphas)
    else:
        estimate = float(np.median(np.subtract.outer(logs[1], logs[0]))) if all(map(len, logs)) else math.nan
        result = PairedTestResult(estimate, math.nan, [None] * len(alphas))
    ci95, ci90, *family = map(paired_tests.effect_interval_from_logs, result.intervals)
    scatter = [float(arm.std(ddof=1)) for arm in logs if len(arm) > 1]
    return Comparison(
        treatment=names[1],
        baseline=names[0],
        metric=metric,
        statistic=statistic,
        blocks=min(map(len, logs)),
        excluded=0,
        method=method,
        effect=None if math.isnan(result.estimate) else paired_tests.effect_from_log(result.estimate),
        ci95=ci95,
        ci90=ci90,
        p=result.p if method else None,
        ci_family=family[0] if family else None,
        flags=(NO_SCATTER,) if flat else tuple(_flags(logs, method)),
        level=level,
        family_size=family_size,
        sd_log=math.hypot(*scatter) if len(scatter) == 2 else None,
        runs=(len(logs[0]), len(logs[1])),
    )


def _flags(logs: tuple[FloatArray, FloatArray], method: Method | None) -> list[str]:
    return [UNEQUAL_SCATTER] if method == "welch-t" and sum(map(len, logs)) >= MIN_RANK_RUNS else []


def adjust_family(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons of one family with p adjusted by Holm's method; unchanged if there is only one."""
    tested = [comparison for comparison in comparisons if comparison.p is not None]
    if len(tested) < 2:
        return list(comparisons)
    adjusted = iter(paired_tests.adjust_holm([comparison.p for comparison in tested]))
    return [replace(one, p_adjusted=next(adjusted)) if one.p is not None else one for one in comparisons]


def no_verdict_reason(comparison: Comparison) -> str | None:
    """Return the reason why a comparison of runs has no verdict: too few runs, or no scatter; None if there is none."""
    if comparison.runs is None:
        return None
    if min(comparison.runs) >= MIN_BLOCKS:
        return NO_SCATTER if NO_SCATTER in comparison.flags else None
    if comparison.runs == (1, 1):
        return "one run of each decides nothing: nobody knows how much such runs differ by themselves"
    arms = zip((comparison.baseline, comparison.treatment), comparison.runs, strict=True)
    few = [f"{pluralize(runs, 'run')} of {name}" for name, runs in arms if runs < MIN_BLOCKS]
    return f"only {join_words(few)}; a verdict needs {MIN_BLOCKS} of each"
