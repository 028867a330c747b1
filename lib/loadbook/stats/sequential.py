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
from loadbook.design.stopping import POCOCK_P, StoppingRule
from loadbook.stats.methods import LOG_DECIMALS, PairedTestResult
from loadbook.stats.plan import t_quantile
from loadbook.stats.result import Interval, Method, StoppingState
from loadbook.stats.swaps import FloatArray

__all__ = ["POCOCK_P", "always_valid_paired_t", "always_valid_t", "equivalent_fixed_alpha", "critical_t", "compute_stopping_state"]
DEFAULT_LEVEL = 0.95
MIN_ALPHA = 1e-6  # below, so few blocks find nothing of any size that matters


def always_valid_paired_t(base: FloatArray, other: FloatArray, alphas: Sequence[float]) -> PairedTestResult:
    """Test paired logs by the always-valid t; the estimate is the mean log ratio."""
    return always_valid_t(np.round(other - base, LOG_DECIMALS), alphas)


def always_valid_t(differences: FloatArray, alphas: Sequence[float] = (), g: float = 1.0) -> PairedTestResult:
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
    return PairedTestResult(mean, _always_valid_p(mean, error, n, g), [_t_interval(mean, error, _always_valid_critical_t(n, alpha, g)) for alpha in alphas])


def _always_valid_p(mean: float, error: float, n: int, g: float) -> float:
    if mean == 0:
        return 1.0
    t_squared, df, variance_ratio = (mean / error) ** 2 if error > 0 else math.inf, n - 1, 1 + n * g
    ratio = variance_ratio if math.isinf(t_squared) else (t_squared + df) / (t_squared / variance_ratio + df)
    return min(1.0, math.exp(math.log(variance_ratio) / 2 - n / 2 * math.log(ratio)))


def critical_t(method: Method | None, blocks: int, alpha: float) -> float:
    """Return the t beyond which a method of paired differences rejects, two-sided, after so many blocks."""
    return _always_valid_critical_t(blocks, alpha) if method == "always-valid-t" else t_quantile(1 - alpha / 2, blocks)


def equivalent_fixed_alpha(blocks: int, alpha: float) -> float:
    """Return the threshold at which a t test of a fixed number of blocks asks for as much as the always-valid one."""
    return max(float(2 * stdtr(blocks - 1, -_always_valid_critical_t(blocks, alpha))), MIN_ALPHA)


def _always_valid_critical_t(n: int, alpha: float, g: float = 1.0) -> float:
    """Return the t beyond which zero is rejected; infinite where none is."""
    variance_ratio = 1 + n * g
    ratio = (math.sqrt(variance_ratio) / alpha) ** (2 / n)
    return math.sqrt((n - 1) * (ratio - 1) / (1 - ratio / variance_ratio)) if ratio < variance_ratio else math.inf


def _t_interval(mean: float, error: float, bound: float) -> Interval | None:
    return None if math.isinf(bound) else (mean - bound * error, mean + bound * error)


def compute_stopping_state(
    stopping: StoppingRule, *, started: int, complete: int, planned: int | None, added: int = 0, level: float = DEFAULT_LEVEL
) -> StoppingState:
    """Return where a run stands by its declared rule.

    Parameters
    ----------
    started, complete : of how many blocks any trial is there, and all trials.
    planned : how many blocks are to be done, added ones included; None where there is no plan.
    added : how many blocks were added although the rule does not provide for them.
    level : confidence asked for, over all looks together.

    Raises
    ------
    UsageError : another level than 95 % at planned looks.
    """
    if stopping.rule == "fixed":
        return StoppingState(level=level, blocks=planned, added_blocks=added)
    if stopping.rule == "always-valid":
        return StoppingState("always-valid", level, complete, added_blocks=added)
    if level != DEFAULT_LEVEL:
        raise UsageError(f"a study with planned looks has intervals at 95 % over all looks, not at {level:g}")
    look_level, looks = 1 - POCOCK_P[len(stopping.looks)], stopping.looks
    if added:
        return StoppingState("looks", look_level, planned, added_blocks=added)
    if started == complete and complete in looks:
        return StoppingState("looks", look_level, complete, (looks.index(complete) + 1, len(looks)))
    next_look = next((look for look in looks if look > complete), looks[-1])
    complete_text = f"{complete} block{' is' if complete == 1 else 's are'} complete"
    return StoppingState("looks", look_level, complete, pending_reason=f"not yet a planned look: {complete_text}, the next look is after {next_look}")
