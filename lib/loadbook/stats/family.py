"""Several treatments against one baseline, and which of them is best (statistics.md 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from loadbook.core.metrics import Direction
from loadbook.stats.compare import MIN_RANK_BLOCKS, TESTS, choose, compare_pairs
from loadbook.stats.methods import Tested, rank_differences
from loadbook.stats.pairs import Pairs, pair
from loadbook.stats.result import Comparison
from loadbook.stats.swaps import Floats, share, swap_signs

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
) -> list[Comparison]:
    """Compare every treatment with the baseline, with p adjusted for all of them.

    The family is every comparison that has a p. From 8 blocks each: joint swaps, step-down; else Holm on the p-values.
    An adjusted p is never below the plain one (their methods differ where arms scatter differently).
    """
    pairs = [pair(values, name, baseline) for name in treatments]
    family = sum(choose(p) is not None for p in pairs)
    found = [
        compare_pairs(p, metric=metric, statistic=statistic, level=level, family=family if choose(p) else 1)
        for p in pairs
    ]
    if family < 2:
        return found
    tested = [k for k, c in enumerate(found) if c.p is not None]
    adjusted = _adjusted([pairs[k] for k in tested], [found[k] for k in tested])
    for k, p_adjusted in zip(tested, adjusted, strict=True):
        found[k] = replace(found[k], p_adjusted=max(p_adjusted, found[k].p or 0.0))
    return found


def _adjusted(pairs: list[Pairs], comparisons: list[Comparison]) -> list[float]:
    if all(c.blocks >= MIN_RANK_BLOCKS for c in comparisons):
        return step_down(pairs)
    from statsmodels.stats.multitest import multipletests

    return [float(p) for p in multipletests([c.p for c in comparisons], method="holm")[1]]


def step_down(pairs: Sequence[Pairs]) -> list[float]:
    """Return p-values adjusted by the largest statistic under swaps that all comparisons share (Westfall and Young).

    A block that a comparison lacks counts as no difference. Exact for up to 12 blocks.
    """
    z = _standardised(pairs)
    observed = np.abs(z.sum(axis=1))
    order = np.argsort(-observed, kind="stable")
    swapped = np.abs(z[order] @ swap_signs(z.shape[1]).T.astype(float))
    largest_of_rest = np.maximum.accumulate(swapped[::-1], axis=0)[::-1]
    p = share(largest_of_rest >= observed[order][:, None] - 1e-9, z.shape[1])
    adjusted = np.empty(len(p))
    adjusted[order] = np.maximum.accumulate(p)
    return [float(value) for value in adjusted]


def _standardised(pairs: Sequence[Pairs]) -> Floats:
    """Return rank differences, comparisons by blocks, rows of length 1; block names do not matter."""
    blocks = sorted({block for p in pairs for block in p.blocks}, key=repr)
    column = {block: k for k, block in enumerate(blocks)}
    z = np.zeros((len(pairs), len(blocks)))
    for row, p in zip(z, pairs, strict=True):
        row[[column[block] for block in p.blocks]] = rank_differences(p.base, p.other)
    lengths = np.sqrt((z**2).sum(axis=1, keepdims=True))
    z = np.divide(z, lengths, out=np.zeros_like(z), where=lengths > 0)
    by_name = [z[k] for k in sorted(range(len(pairs)), key=lambda k: pairs[k].treatment)]
    return np.asarray(z[:, np.lexsort(by_name)])


def lead(
    values: pd.DataFrame, arms: Sequence[str], baseline: str, *, better: Direction = "higher", level: float = 0.95
) -> Leader:
    """Say which arm is best: only one that beats every other (two-sided, unadjusted: the largest p is what counts).

    Parameters
    ----------
    arms : treatments that could be compared, the baseline among them.
    """
    sign = 1 if better == "higher" else -1
    estimates = {name: _tested(values, name, baseline) for name in arms}
    known = {name: sign * found.estimate for name, found in estimates.items() if found}
    if len(known) < 3:
        return Leader(None, (), False)
    leader = max(known, key=lambda name: known[name])
    others = [name for name in known if name != leader]
    tied = [name for name in others if not _beats(values, leader, name, sign, level)]
    if not tied:
        return Leader(leader, (), False)
    rest = [name for name in others if name not in tied]
    ahead = bool(rest) and all(_beats(values, t, r, sign, level) for t in tied for r in rest)
    return Leader(None, (leader, *tied), ahead)


def _tested(values: pd.DataFrame, one: str, other: str) -> Tested | None:
    pairs = pair(values, one, other)
    method = choose(pairs)
    return TESTS[method](pairs.base, pairs.other, []) if method else None


def _beats(values: pd.DataFrame, one: str, other: str, sign: int, level: float) -> bool:
    found = _tested(values, one, other)
    return found is not None and found.p < 1 - level and sign * found.estimate > 0
