"""Two arms over complete blocks -> a Comparison (statistics.md 3.2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from loadbook.core.units import percent
from loadbook.design.stopping import Rule
from loadbook.stats.hygiene import unstable
from loadbook.stats.methods import Tested, blocked_rank, paired_t, signed_rank, spread_differs
from loadbook.stats.pairs import Pairs, pair, ratio, ratios
from loadbook.stats.result import Comparison, Method
from loadbook.stats.sequential import always_valid
from loadbook.stats.swaps import TOLERANCE

if TYPE_CHECKING:
    import pandas as pd

MIN_BLOCKS = 5
MIN_RANK_BLOCKS = 8
MIN_SIGNED_BLOCKS = 10
MAX_INCOMPLETE = 0.20  # share of the blocks
TESTS = {
    "blocked-rank": blocked_rank,
    "signed-rank": signed_rank,
    "paired-t": paired_t,
    "always-valid-t": always_valid,
}

UNEQUAL_SPREAD = "the arms scatter differently; compared within blocks only"
IDENTICAL = "identical values; metric too coarse?"
ONE_RATIO = "every block gives this very ratio; metric too coarse?"


def compare(
    values: pd.DataFrame,
    treatment: str,
    baseline: str,
    *,
    metric: str = "value",
    statistic: str = "value",
    level: float = 0.95,
    rule: Rule = "fixed",
) -> Comparison:
    """Compare a treatment with the baseline over the blocks in which both have a value.

    Fewer than 5 blocks: no test. 5 to 7: paired t on logs. From 8: blocked rank test, exact up to 12 blocks; where
    the arms scatter differently, signed ranks (from 10 blocks) or paired t.

    Parameters
    ----------
    values : one row per trial: treatment, block, value (any unit) and, if there, valid.
    level : of the two-sided interval; the second interval is that of two one-sided tests at the same level.
    rule : with "always-valid" the always-valid t at any number of blocks from 5 on.
    """
    return compare_pairs(pair(values, treatment, baseline), metric=metric, statistic=statistic, level=level, rule=rule)


def compare_pairs(
    pairs: Pairs,
    *,
    metric: str = "value",
    statistic: str = "value",
    level: float = 0.95,
    family: int = 1,
    rule: Rule = "fixed",
) -> Comparison:
    """Compare two arms that were paired already; `family` comparisons share the error rate of `ci_family`."""
    method = choose(pairs, rule)
    differences = pairs.other - pairs.base
    alpha = 1 - level
    alphas = [alpha, 2 * alpha] + ([alpha / family] if family > 1 else [])
    tested = TESTS[method](pairs.base, pairs.other, alphas) if method else _estimate_only(pairs)
    ci95, ci90, *widened = [ratios(interval) for interval in tested.intervals] or [None, None]
    return Comparison(
        treatment=pairs.treatment,
        baseline=pairs.baseline,
        metric=metric,
        statistic=statistic,
        blocks=len(pairs.blocks),
        excluded=pairs.excluded,
        method=method,
        effect=None if math.isnan(tested.estimate) else ratio(tested.estimate),
        ci95=ci95,
        ci90=ci90,
        p=tested.p if method else None,
        ci_family=widened[0] if widened else None,
        flags=_flags(pairs, method),
        level=level,
        family=family,
        sd_log=float(differences.std(ddof=1)) if len(differences) > 1 else None,
    )


def choose(pairs: Pairs, rule: Rule = "fixed") -> Method | None:
    """Return the test for these pairs; None below 5 complete blocks."""
    blocks = len(pairs.blocks)
    if blocks < MIN_BLOCKS:
        return None
    if rule == "always-valid":
        return "always-valid-t"
    if blocks < MIN_RANK_BLOCKS:
        return "paired-t"
    if spread_differs(pairs.base, pairs.other):
        return "signed-rank" if blocks >= MIN_SIGNED_BLOCKS else "paired-t"
    return "blocked-rank"


def claimable(pairs: Pairs) -> bool:
    """Tell whether a verdict is possible."""
    return too_little(len(pairs.blocks), pairs.excluded) is None


def too_little(complete: int, excluded: int) -> str | None:
    """Return why so few complete blocks, or so many that are not, allow no verdict; None where they do."""
    if complete < MIN_BLOCKS:
        return f"only {complete} complete block{'' if complete == 1 else 's'}, {MIN_BLOCKS} are needed"
    if excluded > MAX_INCOMPLETE * (complete + excluded):
        most = percent(MAX_INCOMPLETE, 0, signed=False)
        return f"{excluded} of {complete + excluded} blocks are incomplete, more than {most}"
    return None


def _estimate_only(pairs: Pairs) -> Tested:
    differences = np.subtract.outer(pairs.other, pairs.base)
    return Tested(float(np.median(differences)) if differences.size else math.nan, math.nan, [])


def _flags(pairs: Pairs, method: Method | None) -> tuple[str, ...]:
    flags = []
    if pairs.unusable:
        why = "does not count (not valid, or its value is missing or not above zero)"
        flags.append(_left_out(pairs.unusable, why))
    if pairs.excluded > pairs.unusable:
        flags.append(_left_out(pairs.excluded - pairs.unusable, "is not there"))
    if len(pairs.blocks) >= MIN_RANK_BLOCKS and method in ("signed-rank", "paired-t"):
        flags.append(UNEQUAL_SPREAD)
    if method and np.array_equal(pairs.base, pairs.other):
        flags.append(IDENTICAL)
    elif method and np.ptp(pairs.other - pairs.base) < TOLERANCE:
        flags.append(ONE_RATIO)
    if method:
        flags += unstable.flags(pairs.blocks, pairs.base, pairs.other)
    return tuple(flags)


def _left_out(blocks: int, why: str) -> str:
    where, which = ("blocks", "those blocks are") if blocks > 1 else ("block", "that block is")
    return f"in {blocks} {where} a trial of the treatment or of the baseline {why}; {which} left out"
