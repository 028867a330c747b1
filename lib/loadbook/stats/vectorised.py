"""Loadbook's own test for thousands of studies at once.

What `compare.choose_method` and `methods` do, by rows of arrays.

Only p and its sign, no intervals: for pseudo-studies from recorded noise. That both agree, a test says.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from loadbook.stats.compare import MIN_RANK_BLOCKS, MIN_SIGNED_BLOCKS
from loadbook.stats.tests import LOG_DECIMALS, UNEQUAL_VARIANCE_ALPHA, FloatArray, permutation_p, rank_differences

BISECTION_STEPS = 12  # of the bisection: to 1/4,000 of the range of the values
CHUNK_ROWS = 500  # studies that fit into memory together with all of their swaps


def p_by_row(base: FloatArray, other: FloatArray) -> FloatArray:
    """Return loadbook's two-sided p of each row of two arms of logs."""
    starts = range(0, len(base), CHUNK_ROWS)
    return np.concatenate([_p_and_sign(base[k : k + CHUNK_ROWS], other[k : k + CHUNK_ROWS])[0] for k in starts])


def smallest_detected(base: FloatArray, other: FloatArray, alpha: float) -> FloatArray:
    """Return by how much (log) each row's `other` must be raised to be found above `base`; inf if never.

    By bisection: more of a difference is never harder to find.
    """
    max_shift = float(max(base.max() - other.min(), other.max() - base.min())) + 1e-6
    max_shift *= 1 if base.shape[1] >= MIN_SIGNED_BLOCKS else 20  # the t test may ask for more than arms that lie apart
    low, high = np.full(len(base), -max_shift), np.full(len(base), max_shift)
    undetected = ~_is_detected(base, other, high, alpha)
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        detected = _is_detected(base, other, middle, alpha)
        low, high = np.where(detected, low, middle), np.where(detected, middle, high)
    return np.where(undetected, np.inf, high)


def _is_detected(base: FloatArray, other: FloatArray, shift: FloatArray, alpha: float) -> NDArray[np.bool_]:
    p, sign = _p_and_sign(base, other + shift[:, None])
    return np.asarray((p <= alpha) & (sign > 0))


def _p_and_sign(base: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return p and a number with the sign of the difference, by row; rows of one portion have one number of blocks."""
    blocks = base.shape[1]
    if blocks < MIN_RANK_BLOCKS:
        return _paired_t_by_row(base, other)
    differences = rank_differences(base, other)
    p, sign = permutation_p(differences), differences.sum(axis=1)
    unequal = _variances_differ_by_row(base, other)
    if unequal.any():
        fallback_test = _signed_rank_by_row if blocks >= MIN_SIGNED_BLOCKS else _paired_t_by_row
        p[unequal], sign[unequal] = fallback_test(base[unequal], other[unequal])
    return p, sign


def _paired_t_by_row(base: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
    differences = other - base
    blocks, mean = differences.shape[1], differences.mean(axis=1)
    error = differences.std(axis=1, ddof=1) / math.sqrt(blocks)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * stats.t.sf(np.abs(mean) / error, blocks - 1)
    return np.where(error > 0, p, np.where(mean == 0, 1.0, 0.0)), mean


def _signed_rank_by_row(base: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
    differences = np.round(other - base, LOG_DECIMALS)
    ranks = np.sign(differences) * stats.rankdata(np.abs(differences), axis=-1)
    return permutation_p(ranks), ranks.sum(axis=1)


def _variances_differ_by_row(base: FloatArray, other: FloatArray) -> NDArray[np.bool_]:
    """Return `methods.variances_differ` of each row: Spearman's correlation of sum and difference."""
    total, difference = (_standard_ranks(np.round(x, LOG_DECIMALS)) for x in (base + other, other - base))
    blocks = base.shape[1]
    with np.errstate(invalid="ignore"):
        r = (total * difference).mean(axis=1)
    return np.abs(r) > _critical_correlation(blocks)


@lru_cache(maxsize=64)
def _critical_correlation(blocks: int) -> float:
    """Return the correlation of so many values from which on Student's t calls it shown."""
    critical = float(stats.t.isf(UNEQUAL_VARIANCE_ALPHA / 2, blocks - 2))
    return critical / math.sqrt(blocks - 2 + critical**2)


def _standard_ranks(values: FloatArray) -> FloatArray:
    ranks = stats.rankdata(values, axis=-1)
    sd = ranks.std(axis=1, keepdims=True)
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    return np.divide(centred, sd, out=np.zeros_like(centred), where=sd > 0)
