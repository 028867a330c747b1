"""Did the effect itself change during the run? Trend and memory of the paired log ratios (statistics.md 3.11).

Blocks take drift of the host out of a comparison; a difference that grows or comes and goes they cannot. Power is low:
what is not flagged may still be unstable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from loadbook.core.units import format_p_value, format_percent
from loadbook.stats.methods import LOG_DECIMALS
from loadbook.stats.pairs import effect_from_log
from loadbook.stats.swaps import FloatArray

MIN_STABILITY_BLOCKS = 8
UNSTABLE_ALPHA = 0.01
FLAG_PREFIX = "unstable effect: "


class EffectStability(NamedTuple):
    """How a comparison's ratio changed: effects (ratio minus 1) of the halves of its blocks, and p."""

    first_half: float
    second_half: float
    p: float

    @property
    def is_unstable(self) -> bool:
        """Whether the change is more than blocks in any order would show once in a hundred comparisons."""
        return self.p < UNSTABLE_ALPHA

    @property
    def flag(self) -> str:
        """What a reader is told."""
        halves = f"{format_percent(self.first_half)} in the first half of the blocks, {format_percent(self.second_half)} in the second"
        return f"{FLAG_PREFIX}{halves} (p {format_p_value(self.p)}); measure again in a new run before relying on it"


def effect_stability(differences: FloatArray) -> EffectStability | None:
    """Return how log ratios, in the order of their blocks, changed; None below eight blocks.

    p is twice the smaller one of two tests: Mann-Kendall (a trend) and von Neumann's ratio of ranks (neighbours alike;
    Bartels, 1982).
    """
    differences, blocks = np.round(differences, LOG_DECIMALS), len(differences)
    if blocks < MIN_STABILITY_BLOCKS or np.ptp(differences) == 0:
        return None
    from scipy.stats import kendalltau

    trend_p = float(kendalltau(np.arange(blocks), differences).pvalue)
    first, second = (
        effect_from_log(float(np.median(half))) for half in (differences[: blocks // 2], differences[(blocks + 1) // 2 :])
    )
    return EffectStability(first, second, min(1.0, 2 * min(trend_p, rank_von_neumann_p(differences))))


def rank_von_neumann_p(values: FloatArray) -> float:
    """Return the one-sided p of von Neumann's ratio of ranks, small where neighbours are alike (Bartels' beta)."""
    from scipy.special import betainc
    from scipy.stats import rankdata

    n, ranks = len(values), rankdata(values)
    von_neumann_ratio = float((np.diff(ranks) ** 2).sum() / ((ranks - ranks.mean()) ** 2).sum())
    shape = 5 * n * (n + 1) * (n - 1) ** 2 / (2 * (n - 2) * (5 * n**2 - 2 * n - 9)) - 0.5
    return float(betainc(shape, shape, von_neumann_ratio / 4))


def block_order(blocks: Sequence[object]) -> list[int] | None:
    """Return the places of blocks in the order in which they ran; None where their names do not tell (not numbers)."""
    try:
        numbers = [float(str(block)) for block in blocks]
    except ValueError:
        return None
    return sorted(range(len(numbers)), key=numbers.__getitem__) if all(map(math.isfinite, numbers)) else None


def stability_flags(blocks: Sequence[object], base: FloatArray, other: FloatArray) -> tuple[str, ...]:
    """Return the flag of a comparison whose effect changed, as a tuple of none or one."""
    order = block_order(blocks)
    stability = None if order is None else effect_stability((other - base)[order])
    return (stability.flag,) if stability and stability.is_unstable else ()
