"""A Comparison and the margin declared before the run -> a Verdict (statistics.md 3.5 and 5.3).

In a family "the interval excludes 0" also needs the adjusted p below 1 - level: the interval shown stays the plain
one, `ci_family` stands beside it, and a difference that only the plain interval sees is undecided, with a flag.
"""

from __future__ import annotations

import math
from dataclasses import replace

from loadbook.core.metrics import Direction
from loadbook.stats.compare import too_little
from loadbook.stats.plan import smallest, t_quantile
from loadbook.stats.result import Asks, Comparison, Forecast, Interval, Verdict
from loadbook.stats.sequential import critical

MAX_FORECAST = 60
SMALLEST = -1 + 1e-15  # effects below are -1 in floating point, and have no logarithm
# a forecast from about ten blocks is itself uncertain by this much (statistics.md 3.9 c)
FORECAST_RANGE = (0.46, 1.63)
POWER = 0.8  # of a forecast
ONLY_ALONE = "differs if looked at alone, but not among all {family} comparisons (adjusted p {p:.2g})"


def decide(
    comparison: Comparison,
    margin: float,
    better: Direction = "higher",
    *,
    reason: str | None = None,
    asks: Asks = "difference",
) -> Verdict:
    """Return what may be said.

    Parameters
    ----------
    margin : smallest difference that matters, ratio minus 1; 0 if none was declared (never small, never equivalent).
    better : which direction of the metric is better.
    reason : why the arms must not be compared, whatever the numbers say.
    asks : "no-loss" asks one thing only: whether a loss beyond the margin is excluded.
    """
    reason = reason or too_little(comparison.blocks, comparison.excluded)
    if reason or comparison.effect is None or comparison.ci95 is None or comparison.ci90 is None:
        too_sharp = f"{comparison.blocks} blocks are too few for a {comparison.level:.4g} interval"
        return Verdict("invalid", comparison, margin, reason=reason or too_sharp)
    if asks == "no-loss":
        return _of_loss(comparison, comparison.ci90, margin, better)
    inside = within(comparison.ci90, margin)
    if differs(comparison):
        wanted = (comparison.effect > 0) == (better == "higher")
        return Verdict("small" if inside else ("better" if wanted else "worse"), comparison, margin)
    if excludes_zero(comparison.ci95):
        flag = ONLY_ALONE.format(family=comparison.family, p=comparison.p_adjusted)
        comparison = replace(comparison, flags=(*comparison.flags, flag))
    if inside:
        return Verdict("equivalent", comparison, margin)
    return Verdict("undecided", comparison, margin, forecast=forecast(comparison, margin))


def _of_loss(comparison: Comparison, interval: Interval, margin: float, better: Direction) -> Verdict:
    """Judge the ends of the 90 % interval, each a one-sided bound at 95 %, against the largest loss accepted.

    Each claim has its own risk of 5 %, as equivalence has: a family does not widen it.
    """
    sign = 1 if better == "higher" else -1
    worst, best = interval[::sign]
    edge = largest_loss(margin, better)
    if sign * worst > sign * edge:
        return Verdict("no-loss", comparison, margin, loss=(worst, best))
    if sign * best < sign * edge:
        return Verdict("worse", comparison, margin, loss=(worst, best))
    forecast = to_reach(comparison, abs(_log(comparison.effect or 0.0) - _log(edge)))
    return Verdict("undecided", comparison, margin, forecast=forecast, loss=(worst, best))


def excludes_zero(interval: Interval) -> bool:
    """Tell whether an interval of effects lies on one side of no difference."""
    return interval[0] > 0 or interval[1] < 0


def within(interval: Interval, margin: float) -> bool:
    """Tell whether an interval of effects lies inside a factor 1 + margin in both directions."""
    return largest_loss(margin, "higher") < interval[0] and interval[1] < largest_loss(margin, "lower")


def largest_loss(margin: float, better: Direction) -> float:
    """Return the effect at which a loss reaches the margin, a factor: -1.96 % of a rate for 2 %, +5 % of a time."""
    return 1 / (1 + margin) - 1 if better == "higher" else margin


def differs(comparison: Comparison) -> bool:
    """Tell whether a difference is shown, after allowing for all comparisons of the family."""
    if comparison.ci95 is None or not excludes_zero(comparison.ci95):
        return False
    return comparison.p_adjusted is None or comparison.p_adjusted < 1 - comparison.level


def forecast(comparison: Comparison, margin: float) -> Forecast:
    """Return how many more blocks would show the difference or exclude one beyond the margin, whichever comes first.

    Up to 60 blocks in all; within a family the threshold is divided by the number of comparisons.
    """
    if comparison.effect is None or not comparison.sd_log:
        return Forecast(None, None, None)
    sd, alpha = comparison.sd_log, (1 - comparison.level) / comparison.family
    size, method = abs(_log(comparison.effect)), comparison.method
    room = math.log1p(margin) - size
    detect = smallest(lambda n: critical(method, n, alpha) + t_quantile(POWER, n), size, sd, MAX_FORECAST)
    exclude = _excluding(comparison, room)
    return _more(comparison, min((n for n in (detect, exclude) if n is not None), default=None))


def to_reach(comparison: Comparison, room: float) -> Forecast:
    """Return how many more blocks bring a one-sided bound within `room` (log) of the estimate, if that stays."""
    return _more(comparison, _excluding(comparison, room))


def _excluding(comparison: Comparison, room: float) -> int | None:
    """Return how many blocks have a one-sided bound that lies within `room` (log) of the estimate."""
    sd, alpha = comparison.sd_log, 2 * (1 - comparison.level)
    return smallest(lambda n: critical(comparison.method, n, alpha), room, sd, MAX_FORECAST) if sd else None


def _log(effect: float) -> float:
    return math.log1p(max(effect, SMALLEST))


def _more(comparison: Comparison, total: int | None) -> Forecast:
    if total is None:
        return Forecast(None, None, None)
    about, low, high = (max(1, math.ceil(factor * total) - comparison.blocks) for factor in (1.0, *FORECAST_RANGE))
    return Forecast(about, low, high)
