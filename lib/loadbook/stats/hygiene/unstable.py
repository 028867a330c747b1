"""Did the effect itself change during the run? Trend and memory of the paired log ratios (statistics.md 3.11).

Blocks take drift of the host out of a comparison; a difference that grows or comes and goes they cannot. Power is low:
what is not flagged may still be unstable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from loadbook.core.units import p_value, percent
from loadbook.stats.methods import DECIMALS
from loadbook.stats.pairs import ratio
from loadbook.stats.swaps import Floats

MIN_BLOCKS = 8
UNSTABLE_P = 0.01
BEGINS = "unstable effect: "


class Change(NamedTuple):
    """How a comparison's ratio changed: effects (ratio minus 1) of the halves of its blocks, and p."""

    first: float
    second: float
    p: float

    @property
    def unstable(self) -> bool:
        """Whether the change is more than blocks in any order would show once in a hundred comparisons."""
        return self.p < UNSTABLE_P

    @property
    def flag(self) -> str:
        """What a reader is told."""
        halves = f"{percent(self.first)} in the first half of the blocks, {percent(self.second)} in the second"
        return f"{BEGINS}{halves} (p {p_value(self.p)}); measure again in a new run before relying on it"


def change(differences: Floats) -> Change | None:
    """Return how log ratios, in the order of their blocks, changed; None below eight blocks.

    p is twice the smaller one of two tests: Mann-Kendall (a trend) and von Neumann's ratio of ranks (neighbours alike;
    Bartels, 1982).
    """
    differences, blocks = np.round(differences, DECIMALS), len(differences)
    if blocks < MIN_BLOCKS or np.ptp(differences) == 0:
        return None
    from scipy.stats import kendalltau

    trend = float(kendalltau(np.arange(blocks), differences).pvalue)
    first, second = (
        ratio(float(np.median(half))) for half in (differences[: blocks // 2], differences[(blocks + 1) // 2 :])
    )
    return Change(first, second, min(1.0, 2 * min(trend, neighbours_alike(differences))))


def neighbours_alike(values: Floats) -> float:
    """Return the one-sided p of von Neumann's ratio of ranks, small where neighbours are alike (Bartels' beta)."""
    from scipy.special import betainc
    from scipy.stats import rankdata

    n, ranks = len(values), rankdata(values)
    ratio = float((np.diff(ranks) ** 2).sum() / ((ranks - ranks.mean()) ** 2).sum())
    shape = 5 * n * (n + 1) * (n - 1) ** 2 / (2 * (n - 2) * (5 * n**2 - 2 * n - 9)) - 0.5
    return float(betainc(shape, shape, ratio / 4))


def in_order(blocks: Sequence[object]) -> list[int] | None:
    """Return the places of blocks in the order in which they ran; None where their names do not tell (not numbers)."""
    try:
        numbers = [float(str(block)) for block in blocks]
    except ValueError:
        return None
    return sorted(range(len(numbers)), key=numbers.__getitem__) if all(map(math.isfinite, numbers)) else None


def flags(blocks: Sequence[object], base: Floats, other: Floats) -> tuple[str, ...]:
    """Return the flag of a comparison whose effect changed, as a tuple of none or one."""
    order = in_order(blocks)
    found = None if order is None else change((other - base)[order])
    return (found.flag,) if found and found.unstable else ()
