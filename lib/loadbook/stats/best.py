"""Every arm against the one observed best: which arms may still be the best one (statistics.md 3.4).

The leader was chosen by the same values, so a p of its own is too small. What is asked of an arm is whether *any*
other beats it: its adjusted p is the leader's among all arms that are compared with that arm. Whichever arm is truly
best, it is called behind in at most 5 % of studies (a confidence set; Hsu's comparisons with the best, by our swaps).

One arm is called the best only if it beats every other at the plain level: the largest p is what counts, and it is
then the adjusted p of all (Gutmann and Maymin).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from loadbook.core.metrics import Direction
from loadbook.design.stopping import StoppingRuleName
from loadbook.stats.compare import compare_pairs
from loadbook.stats.family import BestArm, adjust_p, rank_arms, best_arm_given_ties, compare_paired_arms
from loadbook.stats.pairs import pair_arms
from loadbook.stats.result import Comparison

if TYPE_CHECKING:
    import pandas as pd

MIN_ARMS = 3


class BestComparisons(NamedTuple):
    """The arm observed best, every other arm compared with it, and what may be said of it."""

    observed_best: str
    comparisons: list[Comparison]
    best_arm: BestArm


def compare_with_best(
    values: pd.DataFrame,
    arms: Sequence[str],
    baseline: str,
    *,
    better: Direction = "higher",
    metric: str = "value",
    statistic: str = "value",
    level: float = 0.95,
    rule: StoppingRuleName = "fixed",
) -> BestComparisons | None:
    """Compare every arm with the one observed best; None if fewer than three arms can be tested.

    Parameters
    ----------
    arms : every arm that may be compared, the baseline among them.
    """
    ranked = rank_arms(values, arms, baseline, better)
    if len(ranked) < MIN_ARMS:
        return None
    observed_best, family_size, sign = ranked[0], len(ranked) - 1, 1 if better == "higher" else -1
    others = [pair_arms(values, name, observed_best) for name in arms if name in ranked and name != observed_best]
    unadjusted = [
        compare_pairs(p, metric=metric, statistic=statistic, level=level, family_size=family_size, rule=rule) for p in others
    ]
    largest_p = max(c.p if c.p is not None and sign * (c.effect or 0.0) < 0 else 1.0 for c in unadjusted)
    p_of_best = largest_p if largest_p < 1 - level else None
    comparisons = [replace(c, p_adjusted=_p_against_any(values, c, ranked, rule) if p_of_best is None else p_of_best) for c in unadjusted]
    beaten = [c.treatment for c in comparisons if sign * (c.effect or 0.0) < 0 and _is_below(c.p_adjusted, 1 - level)]
    tied = [name for name in ranked[1:] if name not in beaten]
    return BestComparisons(observed_best, comparisons, best_arm_given_ties(values, observed_best, tied, beaten, better, level, rule))


def _p_against_any(values: pd.DataFrame, comparison: Comparison, ranked: Sequence[str], rule: StoppingRuleName) -> float | None:
    """Return the leader's p among all arms that are compared with this one, never below the plain one."""
    if comparison.p is None:
        return None
    pairs = {name: pair_arms(values, name, comparison.treatment) for name in ranked if name != comparison.treatment}
    plain_p = {name: result.p for name, p in pairs.items() if (result := compare_paired_arms(p, rule))}
    adjusted = adjust_p([pairs[name] for name in plain_p], list(plain_p.values()), rule)
    return max(comparison.p, dict(zip(plain_p, adjusted, strict=True))[comparison.baseline])


def _is_below(p: float | None, limit: float) -> bool:
    return p is not None and p < limit
