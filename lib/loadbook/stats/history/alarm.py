"""Is the newest run worse than its past? A prediction interval of its effect, from runs that it can be held against.

One-sided, towards worse. If runs scatter normally about one level, `rate` of all runs raise a false alarm in any of
the study's comparisons: each of m comparisons has rate / m (Bonferroni), as they share a baseline. A run's own error is
an estimate from its few blocks: a newest run that took itself for better than such runs usually are would ring too
often, so its error is at least the usual one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from loadbook.core.metrics import Direction
from loadbook.stats.history.level import estimate_level

LogEffect = tuple[float, float, int]  # log of the ratio, its standard error, blocks
MIN_PAST_RUNS = 4  # earlier runs: with fewer, hardly anything could be found
NIGHTS_PER_YEAR = 365


@dataclass(frozen=True)
class Alarm:
    """What the past lets expect of the newest run, as ratios minus 1: `expected`, and `limit` at worst.

    `raised` where `effect` is worse than that. `power` is the probability with which a true worsening by `margin`
    would have been found. `rate` is this comparison's own share of false alarms.
    """

    effect: float
    expected: float
    limit: float
    past_runs: int
    raised: bool
    rate: float
    margin: float
    power: float


def assess_newest(past: Sequence[LogEffect], newest: LogEffect, *, better: Direction, rate: float, margin: float) -> Alarm | None:
    """Hold the newest run against its past; None where that is too short.

    Parameters
    ----------
    past, newest : what each run told.
    rate : the share of false alarms of this one comparison.
    margin : ratio minus 1, as the study declares it.
    """
    if len(past) < MIN_PAST_RUNS:
        return None
    from scipy.special import stdtr, stdtrit

    past_level = estimate_level([(log, error) for log, error, _ in past])
    error = past_level.prediction_error(max(newest[1], _usual_error(past, newest[2])))
    sign, degrees_of_freedom = (1 if better == "higher" else -1), len(past) - 1
    quantile = float(stdtrit(degrees_of_freedom, 1 - rate))
    limit = past_level.mean - sign * quantile * error
    return Alarm(
        effect=math.expm1(newest[0]),
        expected=math.expm1(past_level.mean),
        limit=math.expm1(limit),
        past_runs=len(past),
        raised=sign * (newest[0] - limit) < 0,
        rate=rate,
        margin=margin,
        power=float(stdtr(degrees_of_freedom, math.log1p(margin) / error - quantile)),
    )


def _usual_error(past: Sequence[LogEffect], blocks: int) -> float:
    """Return the standard error that a run of so many blocks usually has, by those before it."""
    return math.sqrt(sum(error**2 * count for _, error, count in past) / len(past) / blocks)


def false_alarms_per_year(rate: float) -> float:
    """Return how many false alarms a year of nightly runs has at this rate per run."""
    return NIGHTS_PER_YEAR * rate
