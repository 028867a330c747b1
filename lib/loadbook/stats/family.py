"""Several treatments against one baseline, and which of them is best (statistics.md 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from loadbook.core.metrics import Direction
from loadbook.design.stopping import StoppingRuleName
from loadbook.stats import swaps
from loadbook.stats.compare import MIN_RANK_BLOCKS, TESTS, choose_method, allows_verdict, compare_pairs
from loadbook.stats.methods import PairedTestResult, rank_differences
from loadbook.stats.pairs import PairedLogs, pair_arms
from loadbook.stats.result import Comparison
from loadbook.stats.swaps import MAX_EXACT_BLOCKS, FloatArray, adjust_holm, label_signs

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
            p, metric=metric, statistic=statistic, level=level, family_size=family_size if allows_verdict(p) else 1, rule=rule
        )
        for p in pairs
    ]
    if family_size < 2:
        return comparisons
    adjusted = adjust_p([pairs[k] for k in in_family], [comparisons[k].p for k in in_family], rule)
    for k, p_adjusted in zip(in_family, adjusted, strict=True):
        comparisons[k] = replace(comparisons[k], p_adjusted=max(p_adjusted, comparisons[k].p or 0.0))
    return comparisons


def adjust_p(pairs: Sequence[PairedLogs], plain: Sequence[float | None], rule: StoppingRuleName = "fixed") -> list[float]:
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
    return swaps.step_down_max(np.abs(z.sum(axis=1)), permuted, exact=z.shape[1] <= MAX_EXACT_BLOCKS)


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
    return best_arm_given_ties(values, observed_best, tied, [name for name in others if name not in tied], better, level, rule)


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
    ties_beat_rest = bool(rest) and all(is_better(values, t, r, better, level, rule) for t in (leader, *tied) for r in rest)
    return BestArm(None, (leader, *tied), ties_beat_rest)


def compare_arms(values: pd.DataFrame, one: str, other: str, rule: StoppingRuleName = "fixed") -> PairedTestResult | None:
    """Return estimate and p of one arm against another, None where there are too few blocks."""
    return compare_paired_arms(pair_arms(values, one, other), rule)


def compare_paired_arms(pairs: PairedLogs, rule: StoppingRuleName = "fixed") -> PairedTestResult | None:
    """Return estimate and p of arms that were paired already, None where there are too few blocks."""
    method = choose_method(pairs, rule)
    return TESTS[method](pairs.base, pairs.other, []) if method else None


def is_better(values: pd.DataFrame, one: str, other: str, better: Direction, level: float, rule: StoppingRuleName = "fixed") -> bool:
    """Tell whether an arm is shown to be better than another, looked at alone."""
    sign = 1 if better == "higher" else -1
    result = compare_arms(values, one, other, rule)
    return result is not None and result.p < 1 - level and sign * result.estimate > 0
