"""A Comparison and the margin declared before the run -> a Verdict (statistics.md 3.5 and 5.3).

In a family "the interval excludes 0" also needs the adjusted p below 1 - level: the interval shown stays the plain
one, `ci_family` stands beside it, and a difference that only the plain interval sees is undecided, with a flag.
"""

from __future__ import annotations

import math
from dataclasses import replace

from loadbook.core.metrics import Direction
from loadbook.stats.compare import insufficient_blocks
from loadbook.stats.plan import smallest_block_count, t_quantile
from loadbook.stats.result import Hypothesis, Comparison, Forecast, Interval, Verdict
from loadbook.stats.sequential import critical_t

MAX_FORECAST_BLOCKS = 60
MIN_EFFECT = -1 + 1e-15  # effects below are -1 in floating point, and have no logarithm
# a forecast from about ten blocks is itself uncertain by this much (statistics.md 3.9 c)
FORECAST_RANGE = (0.46, 1.63)
FORECAST_POWER = 0.8  # of a forecast
NOT_SIGNIFICANT_IN_FAMILY = "differs if looked at alone, but not among all {family} comparisons (adjusted p {p:.2g})"


def decide_verdict(
    comparison: Comparison,
    margin: float,
    better: Direction = "higher",
    *,
    reason: str | None = None,
    hypothesis: Hypothesis = "difference",
) -> Verdict:
    """Return what may be said.

    Parameters
    ----------
    margin : smallest difference that matters, ratio minus 1; 0 if none was declared (never small, never equivalent).
    better : which direction of the metric is better.
    reason : why the arms must not be compared, whatever the numbers say.
    hypothesis : "no-loss" asks one thing only: whether a loss beyond the margin is excluded.
    """
    reason = reason or insufficient_blocks(comparison.blocks, comparison.excluded)
    if reason or comparison.effect is None or comparison.ci95 is None or comparison.ci90 is None:
        too_few = f"{comparison.blocks} blocks are too few for a {comparison.level:.4g} interval"
        return Verdict("invalid", comparison, margin, reason=reason or too_few)
    if hypothesis == "no-loss":
        return _non_inferiority_verdict(comparison, comparison.ci90, margin, better)
    is_small = is_within_margin(comparison.ci90, margin)
    if is_significant(comparison):
        is_improvement = (comparison.effect > 0) == (better == "higher")
        return Verdict("small" if is_small else ("better" if is_improvement else "worse"), comparison, margin)
    if excludes_zero(comparison.ci95):
        flag = NOT_SIGNIFICANT_IN_FAMILY.format(family=comparison.family_size, p=comparison.p_adjusted)
        comparison = replace(comparison, flags=(*comparison.flags, flag))
    if is_small:
        return Verdict("equivalent", comparison, margin)
    return Verdict("undecided", comparison, margin, forecast=forecast_blocks(comparison, margin))


def _non_inferiority_verdict(comparison: Comparison, interval: Interval, margin: float, better: Direction) -> Verdict:
    """Judge the ends of the 90 % interval, each a one-sided bound at 95 %, against the largest loss accepted.

    Each claim has its own risk of 5 %, as equivalence has: a family does not widen it.
    """
    sign = 1 if better == "higher" else -1
    worst, best = interval[::sign]
    limit = loss_at_margin(margin, better)
    if sign * worst > sign * limit:
        return Verdict("no-loss", comparison, margin, one_sided_bounds=(worst, best))
    if sign * best < sign * limit:
        return Verdict("worse", comparison, margin, one_sided_bounds=(worst, best))
    forecast = forecast_one_sided(comparison, abs(_log_effect(comparison.effect or 0.0) - _log_effect(limit)))
    return Verdict("undecided", comparison, margin, forecast=forecast, one_sided_bounds=(worst, best))


def excludes_zero(interval: Interval) -> bool:
    """Tell whether an interval of effects lies on one side of no difference."""
    return interval[0] > 0 or interval[1] < 0


def is_within_margin(interval: Interval, margin: float) -> bool:
    """Tell whether an interval of effects lies inside a factor 1 + margin in both directions."""
    return loss_at_margin(margin, "higher") < interval[0] and interval[1] < loss_at_margin(margin, "lower")


def loss_at_margin(margin: float, better: Direction) -> float:
    """Return the effect at which a loss reaches the margin, a factor: -1.96 % of a rate for 2 %, +5 % of a time."""
    return 1 / (1 + margin) - 1 if better == "higher" else margin


def is_significant(comparison: Comparison) -> bool:
    """Tell whether a difference is shown, after allowing for all comparisons of the family."""
    if comparison.ci95 is None or not excludes_zero(comparison.ci95):
        return False
    return comparison.p_adjusted is None or comparison.p_adjusted < 1 - comparison.level


def forecast_blocks(comparison: Comparison, margin: float) -> Forecast:
    """Return how many more blocks would show the difference or exclude one beyond the margin, whichever comes first.

    Up to 60 blocks in all; within a family the threshold is divided by the number of comparisons.
    """
    if comparison.effect is None or not comparison.sd_log:
        return Forecast(None, None, None)
    sd, alpha = comparison.sd_log, (1 - comparison.level) / comparison.family_size
    size, method = abs(_log_effect(comparison.effect)), comparison.method
    distance = math.log1p(margin) - size
    detect = smallest_block_count(lambda n: critical_t(method, n, alpha) + t_quantile(FORECAST_POWER, n), size, sd, MAX_FORECAST_BLOCKS)
    exclude = _blocks_for_one_sided_bound(comparison, distance)
    return _additional_blocks(comparison, min((n for n in (detect, exclude) if n is not None), default=None))


def forecast_one_sided(comparison: Comparison, distance: float) -> Forecast:
    """Return how many more blocks bring a one-sided bound within `distance` (log) of the estimate, if that stays."""
    return _additional_blocks(comparison, _blocks_for_one_sided_bound(comparison, distance))


def _blocks_for_one_sided_bound(comparison: Comparison, distance: float) -> int | None:
    """Return how many blocks have a one-sided bound that lies within `distance` (log) of the estimate."""
    sd, alpha = comparison.sd_log, 2 * (1 - comparison.level)
    return smallest_block_count(lambda n: critical_t(comparison.method, n, alpha), distance, sd, MAX_FORECAST_BLOCKS) if sd else None


def _log_effect(effect: float) -> float:
    return math.log1p(max(effect, MIN_EFFECT))


def _additional_blocks(comparison: Comparison, total: int | None) -> Forecast:
    if total is None:
        return Forecast(None, None, None)
    about, low, high = (max(1, math.ceil(factor * total) - comparison.blocks) for factor in (1.0, *FORECAST_RANGE))
    return Forecast(about, low, high)
