"""The reference set of randomised blocks: swaps of labels within blocks, and intervals by inverting a test.

Method: statistics.md 3.2. The set is complete for up to 12 blocks; beyond, 9,999 seeded draws and the observed order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]

EXACT_BLOCKS = 12
RESAMPLES = 9_999
SEED = 20_170_422
# differences of logs closer than this are one value that was rounded differently
TOLERANCE = 1e-12
# statistics are multiples of one half
HALF_STEP = 0.25


@lru_cache(maxsize=16)
def swap_signs(blocks: int) -> NDArray[np.float32]:
    """Return swaps as rows of +1 and -1, one column per block.

    Up to 12 blocks these are all swaps but for a common sign, which no two-sided test needs.
    """
    if blocks <= EXACT_BLOCKS:
        numbers = np.arange(2 ** max(blocks - 1, 0))[:, None]
        bits = (numbers >> np.arange(blocks)) & 1
    else:
        bits = np.random.default_rng(SEED).integers(0, 2, size=(RESAMPLES, blocks), dtype=np.int8)
    return (1 - 2 * bits).astype(np.float32)


def share(reached: NDArray[np.bool_], blocks: int) -> Floats:
    """Return p-values from which swaps (last axis) reached the observed statistic; sampled swaps add the observed."""
    count = np.count_nonzero(reached, axis=-1)
    if blocks <= EXACT_BLOCKS:
        return np.asarray(count / reached.shape[-1], dtype=float)
    return np.asarray((count + 1) / (reached.shape[-1] + 1), dtype=float)


def swap_p(differences: Floats) -> Floats:
    """Return the two-sided p of each row of block differences (multiples of one half) under the swaps.

    Sorting the magnitudes makes sampled p-values, too, independent of the order of blocks and of which arm is which.
    """
    blocks = differences.shape[1]
    observed = np.abs(differences.sum(axis=1))
    magnitudes = np.sort(np.abs(differences), axis=1).astype(np.float32)
    reached = np.abs(magnitudes @ swap_signs(blocks).T) >= observed[:, None] - HALF_STEP
    return share(reached, blocks)


def invert(
    points: Floats, p_at: Callable[[Floats], Floats], alphas: Sequence[float]
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
    ordered = ordered[np.diff(ordered, prepend=-np.inf) > TOLERANCE]
    between = np.concatenate([[ordered[0] - 1], (ordered[:-1] + ordered[1:]) / 2, [ordered[-1] + 1]])
    known: dict[int, float] = {}

    def p(gap: int) -> float:
        if gap not in known:
            known[gap] = float(p_at(between[[gap]])[0])
        return known[gap]

    middle = float(np.median(points))
    around = [int(np.searchsorted(ordered, middle, side=side)) for side in ("left", "right")]
    return [_boundaries(ordered, p, max(around, key=p), middle, alpha) for alpha in alphas]


def _boundaries(
    ordered: Floats, p: Callable[[int], float], centre: int, middle: float, alpha: float
) -> tuple[float, float] | None:
    last = len(ordered)
    if p(0) > alpha or p(last) > alpha:
        return None
    if p(centre) <= alpha:  # coarse values: only the estimate itself, where values tie, is not rejected
        return middle, middle
    lowest = _bisect(0, centre, lambda gap: p(gap) > alpha)
    highest = _bisect(last, centre, lambda gap: p(gap) > alpha)
    return float(ordered[lowest - 1]), float(ordered[highest])


def _bisect(rejected: int, accepted: int, accepts: Callable[[int], bool]) -> int:
    """Return the accepted gap next to the rejected ones."""
    while abs(accepted - rejected) > 1:
        middle = (accepted + rejected) // 2
        rejected, accepted = (rejected, middle) if accepts(middle) else (middle, accepted)
    return accepted
