"""The three tests of paired logs that `compare` chooses from: each gives an estimate, p and intervals.

All take `base` and `other`, the logs of two arms in the same blocks, and work on the log scale.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from loadbook.stats.result import Interval
from loadbook.stats.swaps import FloatArray, invert_test, permutation_p

UNEQUAL_VARIANCE_ALPHA = 0.05
# logs this close are equal values that were scaled
LOG_DECIMALS = 12


class PairedTestResult(NamedTuple):
    """Estimate of the log ratio, two-sided p, and one interval of the log ratio per alpha asked for."""

    estimate: float
    p: float
    intervals: list[Interval | None]


def rank_differences(base: FloatArray, other: FloatArray) -> FloatArray:
    """Return, per block, the midrank of `other` minus that of `base` among all values of both (last axis: blocks)."""
    blocks = base.shape[-1]
    ranks = stats.rankdata(np.concatenate([base, other], axis=-1), axis=-1)
    return np.asarray(ranks[..., blocks:] - ranks[..., :blocks])


def blocked_rank(base: FloatArray, other: FloatArray, alphas: Sequence[float]) -> PairedTestResult:
    """Mann-Whitney's statistic judged against the swaps within blocks; estimate: Hodges-Lehmann (statistics.md 3.2)."""
    shifts = np.subtract.outer(other, base).ravel()

    def p_at(shift: FloatArray) -> FloatArray:
        return permutation_p(rank_differences(np.tile(base, (len(shift), 1)), other - shift[:, None]))

    p = float(permutation_p(rank_differences(base, other)[None, :])[0])
    return PairedTestResult(float(np.median(shifts)), p, invert_test(shifts, p_at, alphas))


def signed_rank(base: FloatArray, other: FloatArray, alphas: Sequence[float]) -> PairedTestResult:
    """Wilcoxon's signed ranks with midranks against all sign changes; estimate: median of the Walsh averages."""
    differences = np.round(other - base, LOG_DECIMALS)
    first, second = np.triu_indices(len(differences))
    walsh = (differences[first] + differences[second]) / 2

    def p_at(shift: FloatArray) -> FloatArray:
        return permutation_p(_signed_ranks(differences - shift[:, None]))

    p = float(permutation_p(_signed_ranks(differences[None, :]))[0])
    return PairedTestResult(float(np.median(walsh)), p, invert_test(walsh, p_at, alphas))


def _signed_ranks(differences: FloatArray) -> FloatArray:
    rounded = np.round(differences, LOG_DECIMALS + 1)
    return np.asarray(np.sign(rounded) * stats.rankdata(np.abs(rounded), axis=-1))


def paired_t(base: FloatArray, other: FloatArray, alphas: Sequence[float]) -> PairedTestResult:
    """Student's t on the paired log ratios."""
    differences = np.round(other - base, LOG_DECIMALS)
    blocks, mean = len(differences), float(differences.mean())
    error = float(differences.std(ddof=1)) / math.sqrt(blocks)
    p_of_constant = 1.0 if mean == 0 else 0.0
    p = float(2 * stats.t.sf(abs(mean) / error, blocks - 1)) if error > 0 else p_of_constant
    half_widths = [float(stats.t.ppf(1 - alpha / 2, blocks - 1)) * error for alpha in alphas]
    return PairedTestResult(mean, p, [(mean - w, mean + w) for w in half_widths])


def variances_differ(base: FloatArray, other: FloatArray) -> bool:
    """Tell whether one arm scatters more: Spearman's correlation of sum and difference, robust Pitman-Morgan."""
    total, difference = np.round(base + other, LOG_DECIMALS), np.round(other - base, LOG_DECIMALS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        return bool(stats.spearmanr(total, difference).pvalue < UNEQUAL_VARIANCE_ALPHA)
