"""Several treatments against one baseline, and which of them is best (statistics.md 3.4).

Every arm against the one observed best: which arms may still be the best one (statistics.md 3.4).

The leader was chosen by the same values, so a p of its own is too small. What is asked of an arm is whether *any*
other beats it: its adjusted p is the leader's among all arms that are compared with that arm. Whichever arm is truly
best, it is called behind in at most 5 % of studies (a confidence set; Hsu's comparisons with the best, by our swaps).

One arm is called the best only if it beats every other at the plain level: the largest p is what counts, and it is
then the adjusted p of all (Gutmann and Maymin).

What a study compares with what: each treatment with the baseline, each rung with the one before, each with the best.

Whatever it is, the family shares its swaps (statistics.md 3.4): the sign that a swap gives a block is that of every
comparison in it, also of the two in which a rung stands. The joint distribution of neighbours, which share an arm and
therefore lean against each other, is thus kept, and so is the error rate of the family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from loadbook.core.metrics import Direction
from loadbook.stats import paired_tests
from loadbook.stats.compare import MIN_RANK_BLOCKS, TESTS, allows_verdict, choose_method, compare_pairs
from loadbook.stats.paired_tests import (
    MAX_EXACT_BLOCKS,
    FloatArray,
    PairedLogs,
    PairedTestResult,
    adjust_holm,
    label_signs,
    pair_arms,
    rank_differences,
)
from loadbook.stats.results import Comparison, Contrasts
from loadbook.study.limits import StoppingRuleName

if TYPE_CHECKING:
    import pandas as pd


class BestArm(NamedTuple):
    """`best` beats every other arm; else the `tied` arms (leader first), and whether those beat all the rest."""

    best: str | None
    tied: tuple[str, ...]
    ties_beat_rest: bool


def compare_all(
    values: pd.DataFrame,
    treatments: Sequence[str],
    baseline: str,
    *,
    metric: str = "value",
    statistic: str = "value",
    level: float = 0.95,
    rule: StoppingRuleName = "fixed",
) -> list[Comparison]:
    """Compare every treatment with the baseline, with p adjusted for all of them; see `compare_contrasts`."""
    contrasts = [(name, baseline) for name in treatments]
    return compare_contrasts(values, contrasts, metric=metric, statistic=statistic, level=level, rule=rule)


def compare_contrasts(
    values: pd.DataFrame,
    contrasts: Sequence[tuple[str, str]],
    *,
    metric: str = "value",
    statistic: str = "value",
    level: float = 0.95,
    rule: StoppingRuleName = "fixed",
) -> list[Comparison]:
    """Compare the first arm of every contrast with the second, with p adjusted for all of them.

    The family is every comparison that allows a verdict: an arm that may not be compared makes no claim. From 8 blocks
    each: joint swaps, step-down; else, and where the rule is always-valid, Holm on the p-values.
    An adjusted p is never below the plain one (their methods differ where arms scatter differently).
    """
    pairs = [pair_arms(values, one, other) for one, other in contrasts]
    in_family = [k for k, p in enumerate(pairs) if allows_verdict(p)]
    family_size = len(in_family)
    comparisons = [
        compare_pairs(
            p,
            metric=metric,
            statistic=statistic,
            level=level,
            family_size=family_size if allows_verdict(p) else 1,
            rule=rule,
        )
        for p in pairs
    ]
    if family_size < 2:
        return comparisons
    adjusted = adjust_p([pairs[k] for k in in_family], [comparisons[k].p for k in in_family], rule)
    for k, p_adjusted in zip(in_family, adjusted, strict=True):
        comparisons[k] = replace(comparisons[k], p_adjusted=max(p_adjusted, comparisons[k].p or 0.0))
    return comparisons


def adjust_p(
    pairs: Sequence[PairedLogs], plain: Sequence[float | None], rule: StoppingRuleName = "fixed"
) -> list[float]:
    """Return the p-values of comparisons, `plain` as they stand alone, adjusted for all of them."""
    if rule != "always-valid" and all(len(p.blocks) >= MIN_RANK_BLOCKS for p in pairs):
        return step_down_p(pairs)
    return adjust_holm(plain)


def step_down_p(pairs: Sequence[PairedLogs]) -> list[float]:
    """Return p-values adjusted by the largest statistic under swaps that all comparisons share (Westfall and Young).

    A block that a comparison lacks counts as no difference. Exact for up to 12 blocks.
    """
    z = _standardised_rank_differences(pairs)
    permuted = np.abs(z @ label_signs(z.shape[1]).T.astype(float))
    return paired_tests.step_down_max(np.abs(z.sum(axis=1)), permuted, exact=z.shape[1] <= MAX_EXACT_BLOCKS)


def _standardised_rank_differences(pairs: Sequence[PairedLogs]) -> FloatArray:
    """Return rank differences, comparisons by blocks, rows of length 1; block names do not matter."""
    z = _paired_rank_differences(pairs)
    lengths = np.sqrt((z**2).sum(axis=1, keepdims=True))
    z = np.divide(z, lengths, out=np.zeros_like(z), where=lengths > 0)
    by_name = [z[k] for k in sorted(range(len(pairs)), key=lambda k: pairs[k].treatment)]
    return np.asarray(z[:, np.lexsort(by_name)])


def _paired_rank_differences(pairs: Sequence[PairedLogs]) -> FloatArray:
    """Return rank differences, comparisons by blocks: in one go where all have the same blocks."""
    if len({p.blocks for p in pairs}) == 1:
        return rank_differences(np.stack([p.base for p in pairs]), np.stack([p.other for p in pairs]))
    blocks = sorted({block for p in pairs for block in p.blocks}, key=repr)
    column = {block: k for k, block in enumerate(blocks)}
    differences = np.zeros((len(pairs), len(blocks)))
    for row, p in zip(differences, pairs, strict=True):
        row[[column[block] for block in p.blocks]] = rank_differences(p.base, p.other)
    return differences


def find_best_arm(
    values: pd.DataFrame,
    arms: Sequence[str],
    baseline: str,
    *,
    better: Direction = "higher",
    level: float = 0.95,
    rule: StoppingRuleName = "fixed",
) -> BestArm:
    """Say which arm is best: only one that beats every other (two-sided, unadjusted: the largest p is what counts).

    Parameters
    ----------
    arms : treatments that could be compared, the baseline among them.
    """
    ranked = rank_arms(values, arms, baseline, better)
    if len(ranked) < 3:
        return BestArm(None, (), False)
    observed_best, *others = ranked
    tied = [name for name in others if not is_better(values, observed_best, name, better, level, rule)]
    return best_arm_given_ties(
        values, observed_best, tied, [name for name in others if name not in tied], better, level, rule
    )


def rank_arms(values: pd.DataFrame, arms: Sequence[str], baseline: str, better: Direction) -> list[str]:
    """Return the arms that can be tested, the one observed best first."""
    sign = 1 if better == "higher" else -1
    tests = {name: compare_arms(values, name, baseline) for name in arms}
    estimate_by_arm = {name: sign * result.estimate for name, result in tests.items() if result}
    return sorted(estimate_by_arm, key=lambda name: -estimate_by_arm[name])


def best_arm_given_ties(
    values: pd.DataFrame,
    leader: str,
    tied: Sequence[str],
    rest: Sequence[str],
    better: Direction,
    level: float,
    rule: StoppingRuleName = "fixed",
) -> BestArm:
    """Return what may be said of the leader, given which arms are tied with it and which it beats."""
    if not tied:
        return BestArm(leader, (), False)
    ties_beat_rest = bool(rest) and all(
        is_better(values, t, r, better, level, rule) for t in (leader, *tied) for r in rest
    )
    return BestArm(None, (leader, *tied), ties_beat_rest)


def compare_arms(
    values: pd.DataFrame, one: str, other: str, rule: StoppingRuleName = "fixed"
) -> PairedTestResult | None:
    """Return estimate and p of one arm against another, None where there are too few blocks."""
    return compare_paired_arms(pair_arms(values, one, other), rule)


def compare_paired_arms(pairs: PairedLogs, rule: StoppingRuleName = "fixed") -> PairedTestResult | None:
    """Return estimate and p of arms that were paired already, None where there are too few blocks."""
    method = choose_method(pairs, rule)
    return TESTS[method](pairs.base, pairs.other, []) if method else None


def is_better(
    values: pd.DataFrame, one: str, other: str, better: Direction, level: float, rule: StoppingRuleName = "fixed"
) -> bool:
    """Tell whether an arm is shown to be better than another, looked at alone."""
    sign = 1 if better == "higher" else -1
    result = compare_arms(values, one, other, rule)
    return result is not None and result.p < 1 - level and sign * result.estimate > 0


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
        compare_pairs(p, metric=metric, statistic=statistic, level=level, family_size=family_size, rule=rule)
        for p in others
    ]
    largest_p = max(c.p if c.p is not None and sign * (c.effect or 0.0) < 0 else 1.0 for c in unadjusted)
    p_of_best = largest_p if largest_p < 1 - level else None
    comparisons = [
        replace(c, p_adjusted=_p_against_any(values, c, ranked, rule) if p_of_best is None else p_of_best)
        for c in unadjusted
    ]
    beaten = [c.treatment for c in comparisons if sign * (c.effect or 0.0) < 0 and _is_below(c.p_adjusted, 1 - level)]
    tied = [name for name in ranked[1:] if name not in beaten]
    return BestComparisons(
        observed_best, comparisons, best_arm_given_ties(values, observed_best, tied, beaten, better, level, rule)
    )


def _p_against_any(
    values: pd.DataFrame, comparison: Comparison, ranked: Sequence[str], rule: StoppingRuleName
) -> float | None:
    """Return the leader's p among all arms that are compared with this one, never below the plain one."""
    if comparison.p is None:
        return None
    pairs = {name: pair_arms(values, name, comparison.treatment) for name in ranked if name != comparison.treatment}
    plain_p = {name: result.p for name, p in pairs.items() if (result := compare_paired_arms(p, rule))}
    adjusted = adjust_p([pairs[name] for name in plain_p], list(plain_p.values()), rule)
    return max(comparison.p, dict(zip(plain_p, adjusted, strict=True))[comparison.baseline])


def _is_below(p: float | None, limit: float) -> bool:
    return p is not None and p < limit


NO_BEST_ARM = BestArm(None, (), False)


class DeclaredComparisons(NamedTuple):
    """The arm that has no comparison, all comparisons, and what may be said of the best arm.

    `best_arm` is None where that was not looked at; nothing may be said of the best rung of a ladder.
    """

    reference: str
    comparisons: list[Comparison]
    best_arm: BestArm | None = None


def compare_declared(
    values: pd.DataFrame,
    baseline: str,
    others: Sequence[str],
    contrasts: Contrasts,
    *,
    better: Direction = "higher",
    metric: str = "value",
    statistic: str = "value",
    level: float = 0.95,
    rule: StoppingRuleName = "fixed",
    comparable: Callable[[Comparison], bool] = lambda comparison: comparison.p is not None,
) -> DeclaredComparisons:
    """Compare the treatments as the study declares it.

    Parameters
    ----------
    others : every other treatment; a ladder begins with the baseline and goes through them in this order.
    comparable : which comparisons with the baseline may be drawn on: only such arms can be the best one.

    Returns
    -------
    With "best", fewer than three arms that can be compared are compared with the baseline.
    """
    compare_family = partial(compare_contrasts, values, metric=metric, statistic=statistic, level=level, rule=rule)
    pairs = [(name, baseline) for name in others]
    if contrasts == "adjacent":
        pairs = list(zip(others, (baseline, *others), strict=False))
    comparisons = compare_family(pairs)
    if contrasts != "best":
        return (
            DeclaredComparisons(baseline, comparisons)
            if contrasts == "baseline"
            else DeclaredComparisons(baseline, _with_reference_named(comparisons), NO_BEST_ARM)
        )
    arms = [baseline, *(c.treatment for c in comparisons if comparable(c))]
    best = compare_with_best(
        values, arms, baseline, better=better, metric=metric, statistic=statistic, level=level, rule=rule
    )
    if best is None:
        return DeclaredComparisons(baseline, comparisons)
    left_out = [name for name in others if name not in arms]
    rest = compare_family([(name, best.observed_best) for name in left_out])
    return DeclaredComparisons(best.observed_best, _with_reference_named([*best.comparisons, *rest]), best.best_arm)


def _with_reference_named(comparisons: list[Comparison]) -> list[Comparison]:
    """Let flags name what was compared with, which is not the baseline of the study."""
    return [
        replace(c, flags=tuple(flag.replace("of the baseline", f"of {c.baseline}") for flag in c.flags))
        for c in comparisons
    ]
