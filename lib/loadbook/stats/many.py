"""Loadbook's own test for thousands of studies at once: what `compare.choose` and `methods` do, by rows of arrays.

Only p and its sign, no intervals: for pseudo-studies from recorded noise. That both agree, a test says.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from loadbook.stats.compare import MIN_RANK_BLOCKS, MIN_SIGNED_BLOCKS
from loadbook.stats.methods import DECIMALS, SPREAD_ALPHA, rank_differences
from loadbook.stats.swaps import Floats, swap_p

STEPS = 12  # of the bisection: to 1/4,000 of the range of the values
ROWS = 500  # studies that fit into memory together with all of their swaps


def p_values(base: Floats, other: Floats) -> Floats:
    """Return loadbook's two-sided p of each row of two arms of logs."""
    starts = range(0, len(base), ROWS)
    return np.concatenate([_tested(base[k : k + ROWS], other[k : k + ROWS])[0] for k in starts])


def smallest_found(base: Floats, other: Floats, alpha: float) -> Floats:
    """Return by how much (log) each row's `other` must be raised to be found above `base`; inf if never.

    By bisection: more of a difference is never harder to find.
    """
    reach = float(max(base.max() - other.min(), other.max() - base.min())) + 1e-6
    reach *= 1 if base.shape[1] >= MIN_SIGNED_BLOCKS else 20  # the t test may ask for more than arms that lie apart
    low, high = np.full(len(base), -reach), np.full(len(base), reach)
    never = ~_found(base, other, high, alpha)
    for _ in range(STEPS):
        middle = (low + high) / 2
        found = _found(base, other, middle, alpha)
        low, high = np.where(found, low, middle), np.where(found, middle, high)
    return np.where(never, np.inf, high)


def _found(base: Floats, other: Floats, shift: Floats, alpha: float) -> NDArray[np.bool_]:
    p, sign = _tested(base, other + shift[:, None])
    return np.asarray((p <= alpha) & (sign > 0))


def _tested(base: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Return p and a number with the sign of the difference, by row; rows of one portion have one number of blocks."""
    blocks = base.shape[1]
    if blocks < MIN_RANK_BLOCKS:
        return _paired_t(base, other)
    differences = rank_differences(base, other)
    p, sign = swap_p(differences), differences.sum(axis=1)
    uneven = _spread_differs(base, other)
    if uneven.any():
        second = _signed_rank if blocks >= MIN_SIGNED_BLOCKS else _paired_t
        p[uneven], sign[uneven] = second(base[uneven], other[uneven])
    return p, sign


def _paired_t(base: Floats, other: Floats) -> tuple[Floats, Floats]:
    differences = other - base
    blocks, mean = differences.shape[1], differences.mean(axis=1)
    error = differences.std(axis=1, ddof=1) / math.sqrt(blocks)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * stats.t.sf(np.abs(mean) / error, blocks - 1)
    return np.where(error > 0, p, np.where(mean == 0, 1.0, 0.0)), mean


def _signed_rank(base: Floats, other: Floats) -> tuple[Floats, Floats]:
    differences = np.round(other - base, DECIMALS)
    ranks = np.sign(differences) * stats.rankdata(np.abs(differences), axis=-1)
    return swap_p(ranks), ranks.sum(axis=1)


def _spread_differs(base: Floats, other: Floats) -> NDArray[np.bool_]:
    """Return `methods.spread_differs` of each row: Spearman's correlation of sum and difference."""
    total, difference = (_standard_ranks(np.round(x, DECIMALS)) for x in (base + other, other - base))
    blocks = base.shape[1]
    with np.errstate(invalid="ignore"):
        r = (total * difference).mean(axis=1)
    return np.abs(r) > _least_correlation(blocks)


@lru_cache(maxsize=64)
def _least_correlation(blocks: int) -> float:
    """Return the correlation of so many values from which on Student's t calls it shown."""
    least = float(stats.t.isf(SPREAD_ALPHA / 2, blocks - 2))
    return least / math.sqrt(blocks - 2 + least**2)


def _standard_ranks(values: Floats) -> Floats:
    ranks = stats.rankdata(values, axis=-1)
    spread = ranks.std(axis=1, keepdims=True)
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    return np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
