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
from loadbook.stats.history.level import level

Told = tuple[float, float, int]  # log of the ratio, its standard error, blocks
MIN_PAST = 4  # earlier runs: with fewer, hardly anything could be found
NIGHTS = 365


@dataclass(frozen=True)
class Alarm:
    """What the past lets expect of the newest run, as ratios minus 1: `expected`, and `limit` at worst.

    `speaks` where `effect` is worse than that. `power` is the probability with which a true worsening by `margin`
    would have been found. `rate` is this comparison's own share of false alarms.
    """

    effect: float
    expected: float
    limit: float
    past: int
    speaks: bool
    rate: float
    margin: float
    power: float


def alarm(past: Sequence[Told], newest: Told, *, better: Direction, rate: float, margin: float) -> Alarm | None:
    """Hold the newest run against its past; None where that is too short.

    Parameters
    ----------
    past, newest : what each run told.
    rate : the share of false alarms of this one comparison.
    margin : ratio minus 1, as the study declares it.
    """
    if len(past) < MIN_PAST:
        return None
    from scipy.special import stdtr, stdtrit

    found = level([(log, error) for log, error, _ in past])
    error = found.next_error(max(newest[1], _usual(past, newest[2])))
    sign, free = (1 if better == "higher" else -1), len(past) - 1
    reach = float(stdtrit(free, 1 - rate))
    limit = found.mean - sign * reach * error
    return Alarm(
        effect=math.expm1(newest[0]),
        expected=math.expm1(found.mean),
        limit=math.expm1(limit),
        past=len(past),
        speaks=sign * (newest[0] - limit) < 0,
        rate=rate,
        margin=margin,
        power=float(stdtr(free, math.log1p(margin) / error - reach)),
    )


def _usual(past: Sequence[Told], blocks: int) -> float:
    """Return the standard error that a run of so many blocks usually has, by those before it."""
    return math.sqrt(sum(error**2 * count for _, error, count in past) / len(past) / blocks)


def a_year(rate: float) -> float:
    """Return how many false alarms a year of nightly runs has at this rate per run."""
    return NIGHTS * rate
