"""The reference set of randomised blocks: swaps of labels within blocks, and intervals by inverting a test.

Method: statistics.md 3.2. The set is complete for up to 12 blocks; beyond, 9,999 seeded draws and the observed order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating]

MAX_EXACT_BLOCKS = 12
RESAMPLES = 9_999
SEED = 20_170_422
# differences of logs closer than this are one value that was rounded differently
LOG_TOLERANCE = 1e-12
# statistics are multiples of one half
HALF_STEP = 0.25
# standardised statistics closer than this are one value that was rounded differently
STATISTIC_TOLERANCE = 1e-9


@lru_cache(maxsize=16)
def label_signs(blocks: int) -> NDArray[np.float32]:
    """Return swaps as rows of +1 and -1, one column per block.

    Up to 12 blocks these are all swaps but for a common sign, which no two-sided test needs.
    """
    if blocks <= MAX_EXACT_BLOCKS:
        numbers = np.arange(2 ** max(blocks - 1, 0))[:, None]
        bits = (numbers >> np.arange(blocks)) & 1
    else:
        bits = np.random.default_rng(SEED).integers(0, 2, size=(RESAMPLES, blocks), dtype=np.int8)
    return np.asfortranarray(1 - 2 * bits, dtype=np.float32)


def p_from_hits(hits: NDArray[np.bool_], *, exact: bool) -> FloatArray:
    """Return p-values from which swaps (last axis) reached the observed statistic; sampled swaps add the observed."""
    count = np.count_nonzero(hits, axis=-1)
    if exact:
        return np.asarray(count / hits.shape[-1], dtype=float)
    return np.asarray((count + 1) / (hits.shape[-1] + 1), dtype=float)


def permutation_p(differences: FloatArray) -> FloatArray:
    """Return the two-sided p of each row of block differences (multiples of one half) under the swaps.

    Sorting the magnitudes makes sampled p-values, too, independent of the order of blocks and of which arm is which.
    """
    blocks = differences.shape[1]
    observed = np.abs(differences.sum(axis=1))
    magnitudes = np.sort(np.abs(differences), axis=1).astype(np.float32)
    # not `@`: the threads of a BLAS wait for each other on a busy machine, ten times as long as this takes
    permuted = np.einsum("kb,sb->ks", magnitudes, label_signs(blocks))
    return p_from_hits(np.abs(permuted) >= observed[:, None] - HALF_STEP, exact=blocks <= MAX_EXACT_BLOCKS)


def step_down_max(observed: FloatArray, relabelled: FloatArray, *, exact: bool) -> list[float]:
    """Return p-values adjusted by the largest statistic of those left (Westfall and Young).

    Parameters
    ----------
    observed : statistic of each comparison, larger is more.
    relabelled : comparisons by relabellings: the same, after each relabelling that they share.
    exact : whether these are all relabellings, or a sample.
    """
    order = np.argsort(-observed, kind="stable")
    largest_of_rest = np.maximum.accumulate(relabelled[order][::-1], axis=0)[::-1]
    adjusted = np.empty(len(order))
    reached = largest_of_rest >= observed[order][:, None] - STATISTIC_TOLERANCE
    adjusted[order] = np.maximum.accumulate(p_from_hits(reached, exact=exact))
    return [float(p) for p in adjusted]


def adjust_holm(plain: Sequence[float | None]) -> list[float]:
    """Return p-values of one family adjusted by Holm's method, which knows nothing of how they depend."""
    from statsmodels.stats.multitest import multipletests

    return [float(p) for p in multipletests(plain, method="holm")[1]]


def invert_test(
    points: FloatArray, p_at: Callable[[FloatArray], FloatArray], alphas: Sequence[float]
) -> list[tuple[float, float] | None]:
    """Return, per alpha, the interval of shifts that a test does not reject (p > alpha).

    Parameters
    ----------
    points : every shift at which p can change; it is constant between two neighbours.
    p_at : p-values of an array of shifts.
    alphas : two-sided levels of rejection.

    Returns
    -------
    The accept/reject boundaries, which are members of `points`; None where even the farthest shift is accepted.
    """
    ordered = np.sort(points)
    ordered = ordered[np.diff(ordered, prepend=-np.inf) > LOG_TOLERANCE]
    between = np.concatenate([[ordered[0] - 1], (ordered[:-1] + ordered[1:]) / 2, [ordered[-1] + 1]])
    median, last = float(np.median(points)), len(ordered)
    estimate_gaps = [int(np.searchsorted(ordered, median, side=side)) for side in ("left", "right")]
    p_first, p_last, *p_at_estimate = p_at(between[[0, last, *estimate_gaps]])
    lowest, highest = _bisect_bounds(between, p_at, estimate_gaps[int(np.argmax(p_at_estimate))], alphas)
    intervals: list[tuple[float, float] | None] = []
    for alpha, low, high in zip(alphas, lowest, highest, strict=True):
        if max(p_first, p_last) > alpha:
            intervals.append(None)
        elif max(p_at_estimate) <= alpha:  # coarse values: only the estimate itself, where values tie, is not rejected
            intervals.append((median, median))
        else:
            intervals.append((float(ordered[low - 1]), float(ordered[high])))
    return intervals


def _bisect_bounds(
    between: FloatArray, p_at: Callable[[FloatArray], FloatArray], centre: int, alphas: Sequence[float]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return, per alpha, the lowest and the highest accepted gap; all ends are searched together, which is faster."""
    limits = np.tile(alphas, 2)
    rejected = np.repeat([0, len(between) - 1], len(alphas))
    accepted = np.full(len(limits), centre)
    while (abs(accepted - rejected) > 1).any():
        halves = (accepted + rejected) // 2
        accepts = p_at(between[halves]) > limits
        accepted, rejected = np.where(accepts, halves, accepted), np.where(accepts, rejected, halves)
    return accepted[: len(alphas)], accepted[len(alphas) :]
