"""Is the newest run worse than its past? A prediction interval of its effect, from runs that it can be held against.

One-sided, towards worse. If runs scatter normally about one level, `rate` of all runs raise a false alarm in any of
the study's comparisons: each of m comparisons has rate / m (Bonferroni), as they share a baseline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from loadbook.core.metrics import Direction
from loadbook.stats.history.level import level

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


def alarm(
    past: Sequence[tuple[float, float]], newest: tuple[float, float], *, better: Direction, rate: float, margin: float
) -> Alarm | None:
    """Hold the newest run against its past; None where that is too short.

    Parameters
    ----------
    past, newest : log of the ratio and its standard error, of each run.
    rate : the share of false alarms of this one comparison.
    margin : ratio minus 1, as the study declares it.
    """
    if len(past) < MIN_PAST:
        return None
    from scipy.special import stdtr, stdtrit

    found = level(past)
    sign, error, free = (1 if better == "higher" else -1), found.next_error(newest[1]), len(past) - 1
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


def a_year(rate: float) -> float:
    """Return how many false alarms a year of nightly runs has at this rate per run."""
    return NIGHTS * rate
