"""Stopping rules of a run, and the number of blocks that detects a given difference.

`sd` is the standard deviation of the paired log ratio: about 1.4 times the coefficient of variation of a trial if
trials are independent, less if trials of one block share noise. At planned looks the usual tests have a lower p
threshold. Intervals of the always-valid t test hold at all numbers of blocks at once, so a run may stop at any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import stdtr

from loadbook.core.errors import UsageError
from loadbook.core.units import pluralize
from loadbook.stats.paired_tests import LOG_DECIMALS, FloatArray, PairedTestResult
from loadbook.stats.results import Method, StoppingState
from loadbook.study.limits import POCOCK_P, StoppingRule

MAX_BLOCKS = 10_000


def t_quantile(p: float, blocks: int) -> float:
    """Return the quantile of Student's t at probability `p` for `blocks` paired differences."""
    from scipy.special import stdtrit

    return float(stdtrit(blocks - 1, p))


def detectable_effect(blocks: int, sd: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return the smallest effect (ratio minus 1) that this number of blocks detects with this power.

    `sd` is the standard deviation of the paired log ratio. UsageError below 2 blocks.
    """
    if blocks < 2:
        raise UsageError(f"{pluralize(blocks, 'block detects', 'blocks detect')} nothing", "plan 10 blocks or more")
    return math.expm1((t_quantile(1 - alpha / 2, blocks) + t_quantile(power, blocks)) * sd / math.sqrt(blocks))


def blocks_needed(
    effect: float, sd: float, *, alpha: float = 0.05, power: float = 0.8, limit: int = MAX_BLOCKS
) -> int | None:
    """Return how many blocks detect an effect (ratio minus 1) with this power; None if more than `limit`.

    `sd` is the standard deviation of the paired log ratio. UsageError for an effect of -1 or less.
    """
    if effect <= -1:
        raise UsageError(f"an effect of {effect} is no ratio minus 1", "give 0.02 for 2 %")
    delta = abs(math.log1p(effect))
    return smallest_block_count(lambda n: t_quantile(1 - alpha / 2, n) + t_quantile(power, n), delta, sd, limit)


def smallest_block_count(quantiles: Callable[[int], float], delta: float, sd: float, limit: int) -> int | None:
    """Return the smallest n with n >= (quantiles(n) sd / delta)^2, at most `limit`; None if there is none."""
    if delta <= 0:
        return None
    return next((n for n in range(2, limit + 1) if n >= (quantiles(n) * sd / delta) ** 2), None)


def best_trial_length_s(sd_within_1s: float, sd_between: float, overhead_s: float) -> float:
    """Return the trial length (s) with the highest precision per hour, (sd_within_1s / sd_between) sqrt(overhead_s).

    `sd_within_1s` is the scatter of one second within a trial (including autocorrelation), `sd_between` the scatter
    between trials, `overhead_s` the time that a trial takes in addition to its measurement (restart, warm-up).
    """
    return sd_within_1s / sd_between * math.sqrt(overhead_s)


DEFAULT_LEVEL = 0.95
MIN_ALPHA = 1e-6  # below, blocks are too few to detect any realistic difference


def always_valid_paired_t(base: FloatArray, other: FloatArray, alphas: Sequence[float]) -> PairedTestResult:
    """Test paired logs, one value per block, by the always-valid t test; the estimate is the mean of other - base."""
    return always_valid_t(np.round(other - base, LOG_DECIMALS), alphas)


def always_valid_t(differences: FloatArray, alphas: Sequence[float] = (), g: float = 1.0) -> PairedTestResult:
    """Test whether the mean of differences is zero; p and intervals hold at any stopping time.

    Student's t mixed over normal effects of `g` times the variance (Lai 1976; Wang and Ramdas 2023). With r = (sqrt(1 +
    n g) / alpha)^(2/n) it rejects if t^2 > (n - 1) (r - 1) / (1 - r / (1 + n g)); p is the alpha of equality.
    `differences` has one value per block, in any unit, at least two. An interval is None if it needs more blocks.
    """
    n, mean = len(differences), float(np.mean(differences))
    error = float(np.std(differences, ddof=1)) / math.sqrt(n)
    bounds = [_always_valid_critical_t(n, alpha, g) for alpha in alphas]
    intervals = [None if math.isinf(bound) else (mean - bound * error, mean + bound * error) for bound in bounds]
    return PairedTestResult(mean, _always_valid_p(mean, error, n, g), intervals)


def _always_valid_p(mean: float, error: float, n: int, g: float) -> float:
    if mean == 0:
        return 1.0
    t_squared, df, variance_ratio = (mean / error) ** 2 if error > 0 else math.inf, n - 1, 1 + n * g
    ratio = variance_ratio if math.isinf(t_squared) else (t_squared + df) / (t_squared / variance_ratio + df)
    return min(1.0, math.exp(math.log(variance_ratio) / 2 - n / 2 * math.log(ratio)))


def critical_t(method: Method | None, blocks: int, alpha: float) -> float:
    """Return the two-sided critical value of t for a test of paired differences with this number of blocks."""
    return _always_valid_critical_t(blocks, alpha) if method == "always-valid-t" else t_quantile(1 - alpha / 2, blocks)


def equivalent_fixed_alpha(blocks: int, alpha: float) -> float:
    """Return the alpha, at least 1e-6, at which a fixed t test has the critical value of the always-valid one."""
    return max(float(2 * stdtr(blocks - 1, -_always_valid_critical_t(blocks, alpha))), MIN_ALPHA)


def _always_valid_critical_t(n: int, alpha: float, g: float = 1.0) -> float:
    """Return the critical value of the always-valid t; infinite if these blocks can never reject."""
    variance_ratio = 1 + n * g
    ratio = (math.sqrt(variance_ratio) / alpha) ** (2 / n)
    return math.sqrt((n - 1) * (ratio - 1) / (1 - ratio / variance_ratio)) if ratio < variance_ratio else math.inf


def compute_stopping_state(
    stopping: StoppingRule,
    *,
    started: int,
    complete: int,
    planned: int | None,
    added: int = 0,
    level: float = DEFAULT_LEVEL,
) -> StoppingState:
    """Return the level and blocks that count now under the stopping rule, or why there is no verdict yet.

    Parameters
    ----------
    started, complete : numbers of blocks with at least one trial, and with all trials.
    planned : number of blocks, including added ones; None if the run has no plan.
    added : number of blocks that were added beyond the stopping rule.
    level : confidence level over all looks together.

    Raises
    ------
    UsageError : planned looks and a level other than 95 %.
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
    complete_text = f"{pluralize(complete, 'block is', 'blocks are')} complete"
    reason = f"not yet a planned look: {complete_text}, the next look is after {next_look}"
    return StoppingState("looks", look_level, complete, pending_reason=reason)
