"""The check of claims about a curve: the log-log slope of a metric over the numbers of a factor (page size, say)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loadbook.stats.claims import words
from loadbook.stats.claims.finding import ClaimFinding
from loadbook.stats.compare import MIN_BLOCKS, MIN_SIGNED_BLOCKS
from loadbook.stats.methods import paired_t, signed_rank
from loadbook.stats.pairs import complete_blocks

if TYPE_CHECKING:
    from loadbook.design.claim import Claim
    from loadbook.stats.claims.run import ClaimRun


def check_slope(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "the rate falls with size by this power": holds if the 90 % interval of the slope lies in the range.

    One slope per block (Theil-Sen over the sizes), then an interval over the blocks: the block is the unit, not the
    trial. Contradicted if the interval lies outside the range.
    """
    sizes = {name: run.study.levels_of(name)[claim.factors[0]] for name in claim.treatments}
    strange = [f"{run.label(n)} ({x})" for n, x in sizes.items() if not isinstance(x, int | float) or not x > 0]
    if strange or len(set(sizes.values())) < 2:
        return ClaimFinding("unchecked", words.no_slope_sentence(claim.factors[0], strange))
    full = [run.label(name) for name in sizes if run.mostly_at_ceiling(name)]
    if full:
        return ClaimFinding("unchecked", words.all_served_sentence(full))
    slopes = block_slopes(claim, run, {name: float(x) for name, x in sizes.items()})
    if len(slopes) < MIN_BLOCKS:
        return ClaimFinding("unchecked", words.too_few_blocks_sentence(len(slopes), MIN_BLOCKS))
    middle, (low, high) = slope_interval(slopes)
    sentence = words.slope_sentence(middle, (low, high), len(slopes), len(sizes))
    number = words.slope_text(middle, (low, high))
    least, most = claim.slope or (0.0, 0.0)
    if least <= low and high <= most:
        return ClaimFinding("holds", sentence, short_evidence=number)
    return ClaimFinding("contradicted" if high < least or low > most else "undecided", sentence, short_evidence=number)


def block_slopes(claim: Claim, run: ClaimRun, sizes: dict[str, float]) -> np.ndarray:
    """Return the Theil-Sen slope of log value over log size of each block that has every size."""
    from scipy.stats import theilslopes

    table = complete_blocks(run.values(claim), list(sizes))
    x = np.log(list(sizes.values()))
    return np.array([theilslopes(np.log(row), x).slope for row in table.to_numpy(float)])


def slope_interval(slopes: np.ndarray) -> tuple[float, tuple[float, float]]:
    """Return the estimate of a slope and its 90 % interval over blocks: t below 10 blocks, else signed ranks."""
    test = signed_rank if len(slopes) >= MIN_SIGNED_BLOCKS else paired_t
    result = test(np.zeros_like(slopes), slopes, [0.10])
    bounds = result.intervals[0]
    assert bounds is not None  # 5 blocks have a 90 % interval by t, 10 by signed ranks
    return result.estimate, bounds
