"""How many blocks a difference needs, and what so many blocks can detect (statistics.md 3.9 b and d).

`sd` is the standard deviation of the paired log ratio: about 1.4 times the coefficient of variation of a trial when
trials scatter independently, less when their noise is shared within blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from loadbook.core.errors import UsageError

MAX_BLOCKS = 10_000


def t_quantile(p: float, blocks: int) -> float:
    """Return Student's t quantile for paired differences of so many blocks."""
    from scipy.special import stdtrit

    return float(stdtrit(blocks - 1, p))


def detectable_effect(blocks: int, sd: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return the smallest effect (ratio minus 1) that so many blocks find with this power."""
    if blocks < 2:
        raise UsageError(f"{blocks} blocks detect nothing", "plan 10 blocks or more")
    return math.expm1((t_quantile(1 - alpha / 2, blocks) + t_quantile(power, blocks)) * sd / math.sqrt(blocks))


def blocks_needed(
    effect: float, sd: float, *, alpha: float = 0.05, power: float = 0.8, limit: int = MAX_BLOCKS
) -> int | None:
    """Return how many blocks find an effect (ratio minus 1) with this power; None if more than `limit`."""
    if effect <= -1:
        raise UsageError(f"an effect of {effect} is no ratio minus 1", "give 0.02 for 2 %")
    delta = abs(math.log1p(effect))
    return smallest_block_count(lambda n: t_quantile(1 - alpha / 2, n) + t_quantile(power, n), delta, sd, limit)


def smallest_block_count(quantiles: Callable[[int], float], delta: float, sd: float, limit: int) -> int | None:
    """Return the smallest n with n >= (quantiles(n) sd / delta)^2, both on the log scale."""
    if delta <= 0:
        return None
    return next((n for n in range(2, limit + 1) if n >= (quantiles(n) * sd / delta) ** 2), None)


def best_trial_length_s(sd_within_1s: float, sd_between: float, overhead_s: float) -> float:
    """Return the trial length (s) that gives most precision per hour: (s_w / s_b) sqrt(c0).

    `sd_within_1s` is the scatter of one second within a trial (autocorrelation included), `sd_between` that between
    trials, `overhead_s` what a trial costs beyond its measurement (restart, warm-up).
    """
    return sd_within_1s / sd_between * math.sqrt(overhead_s)
