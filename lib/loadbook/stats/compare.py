"""Comparison of two arms over their complete blocks: choice of the test, effect, intervals, flags.

The p-value comes from the test in `TESTS` (modules `paired_tests` and `sequential`); `family` adjusts it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from loadbook.core.units import format_percent
from loadbook.stats import diagnostics
from loadbook.stats.paired_tests import (
    LOG_TOLERANCE,
    PairedLogs,
    PairedTestResult,
    blocked_rank,
    effect_from_log,
    effect_interval_from_logs,
    pair_arms,
    paired_t,
    signed_rank,
    variances_differ,
)
from loadbook.stats.results import Comparison, Method
from loadbook.stats.sequential import always_valid_paired_t
from loadbook.study.limits import StoppingRuleName

if TYPE_CHECKING:
    import pandas as pd

MIN_BLOCKS = 5
MIN_RANK_BLOCKS = 8
MIN_SIGNED_BLOCKS = 10
MAX_INCOMPLETE_SHARE = 0.20  # share of the blocks
TESTS = {
    "blocked-rank": blocked_rank,
    "signed-rank": signed_rank,
    "paired-t": paired_t,
    "always-valid-t": always_valid_paired_t,
}

UNEQUAL_VARIANCES = "the arms scatter differently; compared within blocks only"
IDENTICAL_VALUES = "identical values; metric too coarse?"
CONSTANT_RATIO = "every block gives this very ratio; metric too coarse?"


def compare(
    values: pd.DataFrame,
    treatment: str,
    baseline: str,
    *,
    metric: str = "value",
    statistic: str = "value",
    level: float = 0.95,
    rule: StoppingRuleName = "fixed",
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
    return compare_pairs(
        pair_arms(values, treatment, baseline), metric=metric, statistic=statistic, level=level, rule=rule
    )


def compare_pairs(
    pairs: PairedLogs,
    *,
    metric: str = "value",
    statistic: str = "value",
    level: float = 0.95,
    family_size: int = 1,
    rule: StoppingRuleName = "fixed",
) -> Comparison:
    """Compare two arms that were paired already; `family_size` comparisons share the error rate of `ci_family`."""
    method = choose_method(pairs, rule)
    differences = pairs.other - pairs.base
    alpha = 1 - level
    alphas = [alpha, 2 * alpha] + ([alpha / family_size] if family_size > 1 else [])
    if method:
        result = TESTS[method](pairs.base, pairs.other, alphas)
    else:
        every_difference = np.subtract.outer(pairs.other, pairs.base)
        estimate = float(np.median(every_difference)) if every_difference.size else math.nan
        result = PairedTestResult(estimate, math.nan, [])
    intervals = [effect_interval_from_logs(interval) for interval in result.intervals] or [None, None]
    ci95, ci90, *family_intervals = intervals
    return Comparison(
        treatment=pairs.treatment,
        baseline=pairs.baseline,
        metric=metric,
        statistic=statistic,
        blocks=len(pairs.blocks),
        excluded=pairs.incomplete,
        method=method,
        effect=None if math.isnan(result.estimate) else effect_from_log(result.estimate),
        ci95=ci95,
        ci90=ci90,
        p=result.p if method else None,
        ci_family=family_intervals[0] if family_intervals else None,
        flags=_comparison_flags(pairs, method),
        level=level,
        family_size=family_size,
        sd_log=float(differences.std(ddof=1)) if len(differences) > 1 else None,
    )


def choose_method(pairs: PairedLogs, rule: StoppingRuleName = "fixed") -> Method | None:
    """Return the test for these pairs; None below 5 complete blocks."""
    blocks = len(pairs.blocks)
    if blocks < MIN_BLOCKS:
        return None
    if rule == "always-valid":
        return "always-valid-t"
    if blocks < MIN_RANK_BLOCKS:
        return "paired-t"
    if variances_differ(pairs.base, pairs.other):
        return "signed-rank" if blocks >= MIN_SIGNED_BLOCKS else "paired-t"
    return "blocked-rank"


def insufficient_blocks(complete: int, incomplete: int) -> str | None:
    """Return the reason if too few blocks are complete, or too many are not, for a verdict; else None."""
    if complete < MIN_BLOCKS:
        return f"only {complete} complete block{'' if complete == 1 else 's'}, {MIN_BLOCKS} are needed"
    if incomplete > MAX_INCOMPLETE_SHARE * (complete + incomplete):
        limit = format_percent(MAX_INCOMPLETE_SHARE, 0, signed=False)
        return f"{incomplete} of {complete + incomplete} blocks are incomplete, more than {limit}"
    return None


def _comparison_flags(pairs: PairedLogs, method: Method | None) -> tuple[str, ...]:
    flags = []
    if pairs.unusable:
        reason = "does not count (not valid, or its value is missing or not above zero)"
        flags.append(_left_out_flag(pairs.unusable, reason))
    if pairs.incomplete > pairs.unusable:
        flags.append(_left_out_flag(pairs.incomplete - pairs.unusable, "is not there"))
    if len(pairs.blocks) >= MIN_RANK_BLOCKS and method in ("signed-rank", "paired-t"):
        flags.append(UNEQUAL_VARIANCES)
    if method and np.array_equal(pairs.base, pairs.other):
        flags.append(IDENTICAL_VALUES)
    elif method and np.ptp(pairs.other - pairs.base) < LOG_TOLERANCE:
        flags.append(CONSTANT_RATIO)
    if method:
        flags += diagnostics.stability_flags(pairs.blocks, pairs.base, pairs.other)
    return tuple(flags)


def _left_out_flag(blocks: int, reason: str) -> str:
    noun, subject = ("blocks", "those blocks are") if blocks > 1 else ("block", "that block is")
    return f"in {blocks} {noun} a trial of the treatment or of the baseline {reason}; {subject} left out"
