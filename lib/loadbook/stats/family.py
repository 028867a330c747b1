"""Several treatments against one baseline, and which of them is best (statistics.md 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from loadbook.core.metrics import Direction
from loadbook.design.stopping import Rule
from loadbook.stats import swaps
from loadbook.stats.compare import MIN_RANK_BLOCKS, TESTS, choose, claimable, compare_pairs
from loadbook.stats.methods import Tested, rank_differences
from loadbook.stats.pairs import Pairs, pair
from loadbook.stats.result import Comparison
from loadbook.stats.swaps import EXACT_BLOCKS, Floats, holm, swap_signs

if TYPE_CHECKING:
    import pandas as pd


class Leader(NamedTuple):
    """`best` beats every other arm; else the `tied` arms (leader first), and whether those beat all the rest."""

    best: str | None
    tied: tuple[str, ...]
    ties_lead: bool


def compare_all(
    values: pd.DataFrame,
    treatments: Sequence[str],
    baseline: str,
    *,
    metric: str = "value",
    statistic: str = "value",
    level: float = 0.95,
    rule: Rule = "fixed",
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
    rule: Rule = "fixed",
) -> list[Comparison]:
    """Compare the first arm of every contrast with the second, with p adjusted for all of them.

    The family is every comparison that allows a verdict: an arm that may not be compared makes no claim. From 8 blocks
    each: joint swaps, step-down; else, and where the rule is always-valid, Holm on the p-values.
    An adjusted p is never below the plain one (their methods differ where arms scatter differently).
    """
    pairs = [pair(values, one, other) for one, other in contrasts]
    tested = [k for k, p in enumerate(pairs) if claimable(p)]
    family = len(tested)
    found = [
        compare_pairs(
            p, metric=metric, statistic=statistic, level=level, family=family if claimable(p) else 1, rule=rule
        )
        for p in pairs
    ]
    if family < 2:
        return found
    adjusted = adjusted_p([pairs[k] for k in tested], [found[k].p for k in tested], rule)
    for k, p_adjusted in zip(tested, adjusted, strict=True):
        found[k] = replace(found[k], p_adjusted=max(p_adjusted, found[k].p or 0.0))
    return found


def adjusted_p(pairs: Sequence[Pairs], plain: Sequence[float | None], rule: Rule = "fixed") -> list[float]:
    """Return the p-values of comparisons, `plain` as they stand alone, adjusted for all of them."""
    if rule != "always-valid" and all(len(p.blocks) >= MIN_RANK_BLOCKS for p in pairs):
        return step_down(pairs)
    return holm(plain)


def step_down(pairs: Sequence[Pairs]) -> list[float]:
    """Return p-values adjusted by the largest statistic under swaps that all comparisons share (Westfall and Young).

    A block that a comparison lacks counts as no difference. Exact for up to 12 blocks.
    """
    z = _standardised(pairs)
    swapped = np.abs(z @ swap_signs(z.shape[1]).T.astype(float))
    return swaps.step_down(np.abs(z.sum(axis=1)), swapped, exact=z.shape[1] <= EXACT_BLOCKS)


def _standardised(pairs: Sequence[Pairs]) -> Floats:
    """Return rank differences, comparisons by blocks, rows of length 1; block names do not matter."""
    z = _rank_differences(pairs)
    lengths = np.sqrt((z**2).sum(axis=1, keepdims=True))
    z = np.divide(z, lengths, out=np.zeros_like(z), where=lengths > 0)
    by_name = [z[k] for k in sorted(range(len(pairs)), key=lambda k: pairs[k].treatment)]
    return np.asarray(z[:, np.lexsort(by_name)])


def _rank_differences(pairs: Sequence[Pairs]) -> Floats:
    """Return rank differences, comparisons by blocks: in one go where all have the same blocks."""
    if len({p.blocks for p in pairs}) == 1:
        return rank_differences(np.stack([p.base for p in pairs]), np.stack([p.other for p in pairs]))
    blocks = sorted({block for p in pairs for block in p.blocks}, key=repr)
    column = {block: k for k, block in enumerate(blocks)}
    differences = np.zeros((len(pairs), len(blocks)))
    for row, p in zip(differences, pairs, strict=True):
        row[[column[block] for block in p.blocks]] = rank_differences(p.base, p.other)
    return differences


def lead(
    values: pd.DataFrame,
    arms: Sequence[str],
    baseline: str,
    *,
    better: Direction = "higher",
    level: float = 0.95,
    rule: Rule = "fixed",
) -> Leader:
    """Say which arm is best: only one that beats every other (two-sided, unadjusted: the largest p is what counts).

    Parameters
    ----------
    arms : treatments that could be compared, the baseline among them.
    """
    known = ranking(values, arms, baseline, better)
    if len(known) < 3:
        return Leader(None, (), False)
    leader, *others = known
    tied = [name for name in others if not beats(values, leader, name, better, level, rule)]
    return standing(values, leader, tied, [name for name in others if name not in tied], better, level, rule)


def ranking(values: pd.DataFrame, arms: Sequence[str], baseline: str, better: Direction) -> list[str]:
    """Return the arms that can be tested, the one observed best first."""
    sign = 1 if better == "higher" else -1
    estimates = {name: tested(values, name, baseline) for name in arms}
    known = {name: sign * found.estimate for name, found in estimates.items() if found}
    return sorted(known, key=lambda name: -known[name])


def standing(
    values: pd.DataFrame,
    leader: str,
    tied: Sequence[str],
    rest: Sequence[str],
    better: Direction,
    level: float,
    rule: Rule = "fixed",
) -> Leader:
    """Return what may be said of the leader, given which arms are tied with it and which it beats."""
    if not tied:
        return Leader(leader, (), False)
    ahead = bool(rest) and all(beats(values, t, r, better, level, rule) for t in (leader, *tied) for r in rest)
    return Leader(None, (leader, *tied), ahead)


def tested(values: pd.DataFrame, one: str, other: str, rule: Rule = "fixed") -> Tested | None:
    """Return estimate and p of one arm against another, None where there are too few blocks."""
    return tested_pairs(pair(values, one, other), rule)


def tested_pairs(pairs: Pairs, rule: Rule = "fixed") -> Tested | None:
    """Return estimate and p of arms that were paired already, None where there are too few blocks."""
    method = choose(pairs, rule)
    return TESTS[method](pairs.base, pairs.other, []) if method else None


def beats(values: pd.DataFrame, one: str, other: str, better: Direction, level: float, rule: Rule = "fixed") -> bool:
    """Tell whether an arm is shown to be better than another, looked at alone."""
    sign = 1 if better == "higher" else -1
    found = tested(values, one, other, rule)
    return found is not None and found.p < 1 - level and sign * found.estimate > 0
