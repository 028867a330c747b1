"""What a declared stopping rule makes of the blocks that are there (statistics.md 3.8).

Planned looks: the usual tests at a smaller threshold. Always-valid: a t test whose intervals hold at every number of
blocks at once, so that a run may stop whenever it pleases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtr

from loadbook.core.errors import UsageError
from loadbook.design.stopping import POCOCK, Stopping
from loadbook.stats.methods import DECIMALS, Tested
from loadbook.stats.plan import t_quantile
from loadbook.stats.result import Interval, Method, Stand
from loadbook.stats.swaps import Floats

__all__ = ["POCOCK", "always_valid", "always_valid_t", "as_fixed", "critical", "stand"]
LEVEL = 0.95
SMALLEST_ALPHA = 1e-6  # below, so few blocks find nothing of any size that matters


def always_valid(base: Floats, other: Floats, alphas: Sequence[float]) -> Tested:
    """Test paired logs by the always-valid t; the estimate is the mean log ratio."""
    return always_valid_t(np.round(other - base, DECIMALS), alphas)


def always_valid_t(differences: Floats, alphas: Sequence[float] = (), g: float = 1.0) -> Tested:
    """Test whether the mean of differences is zero; p and intervals hold whenever the looking stops.

    Student's t mixed over normal effects of `g` times the variance (Lai 1976; Wang and Ramdas 2023). With r = (sqrt(1 +
    n g) / alpha)^(2/n) it rejects where t^2 > (n - 1) (r - 1) / (1 - r / (1 + n g)); p is the alpha of equality.

    Parameters
    ----------
    differences : one per block, in any unit; at least two.
    g : variance of the effects that it looks for, in variances of a difference.

    Returns
    -------
    Mean, p, and per alpha an interval of the mean, None where so few differences have none.
    """
    n, mean = len(differences), float(np.mean(differences))
    error = float(np.std(differences, ddof=1)) / math.sqrt(n)
    return Tested(mean, _p(mean, error, n, g), [_interval(mean, error, _bound(n, alpha, g)) for alpha in alphas])


def _p(mean: float, error: float, n: int, g: float) -> float:
    if mean == 0:
        return 1.0
    square, freedom, spread = (mean / error) ** 2 if error > 0 else math.inf, n - 1, 1 + n * g
    ratio = spread if math.isinf(square) else (square + freedom) / (square / spread + freedom)
    return min(1.0, math.exp(math.log(spread) / 2 - n / 2 * math.log(ratio)))


def critical(method: Method | None, blocks: int, alpha: float) -> float:
    """Return the t beyond which a method of paired differences rejects, two-sided, after so many blocks."""
    return _bound(blocks, alpha) if method == "always-valid-t" else t_quantile(1 - alpha / 2, blocks)


def as_fixed(blocks: int, alpha: float) -> float:
    """Return the threshold at which a t test of a fixed number of blocks asks for as much as the always-valid one."""
    return max(float(2 * stdtr(blocks - 1, -_bound(blocks, alpha))), SMALLEST_ALPHA)


def _bound(n: int, alpha: float, g: float = 1.0) -> float:
    """Return the t beyond which zero is rejected; infinite where none is."""
    spread = 1 + n * g
    ratio = (math.sqrt(spread) / alpha) ** (2 / n)
    return math.sqrt((n - 1) * (ratio - 1) / (1 - ratio / spread)) if ratio < spread else math.inf


def _interval(mean: float, error: float, bound: float) -> Interval | None:
    return None if math.isinf(bound) else (mean - bound * error, mean + bound * error)


def stand(
    stopping: Stopping, *, begun: int, complete: int, planned: int | None, added: int = 0, level: float = LEVEL
) -> Stand:
    """Return where a run stands by its declared rule.

    Parameters
    ----------
    begun, complete : of how many blocks any trial is there, and all trials.
    planned : how many blocks are to be done, added ones included; None where there is no plan.
    added : how many blocks were added although the rule does not provide for them.
    level : confidence asked for, over all looks together.

    Raises
    ------
    UsageError : another level than 95 % at planned looks.
    """
    if stopping.rule == "fixed":
        return Stand(level=level, blocks=planned, added=added)
    if stopping.rule == "always-valid":
        return Stand("always-valid", level, complete, added=added)
    if level != LEVEL:
        raise UsageError(f"a study with planned looks has intervals at 95 % over all looks, not at {level:g}")
    each, looks = 1 - POCOCK[len(stopping.looks)], stopping.looks
    if added:
        return Stand("looks", each, planned, added=added)
    if begun == complete and complete in looks:
        return Stand("looks", each, complete, (looks.index(complete) + 1, len(looks)))
    following = next((look for look in looks if look > complete), looks[-1])
    are = f"{complete} block{' is' if complete == 1 else 's are'} complete"
    return Stand("looks", each, complete, waiting=f"not yet a planned look: {are}, the next look is after {following}")
