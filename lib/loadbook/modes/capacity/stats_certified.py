"""Certified rates: that at least a share of the starts of a service sustain a rate, at a stated confidence.

The starts of a run are counted that met the objective. The bounds of the share are those of Clopper and Pearson (1934,
Biometrika 26:404-413), each one-sided, which are exact for independent starts. On a host whose speed wanders, starts
are like those just before them and say less. This is tested by the ranks of their times (Bartels 1982, JASA 77:40-46),
and where it shows, the starts count as fewer: n (1 - r) / (1 + r), the number of independent values in n with a
correlation of r from one to the next.

Several rates of one configuration are tested from the lowest upwards until one is not certified; so the chance that any
of them is certified wrongly is that of one (a fixed sequence; Maurer, Hothorn and Lehmacher 1995).
`benchmarks/validation.py --only certif` simulates all of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

RateState = Literal["certified", "refuted", "open", "lower-rate-open"]
LEAST_TESTED = 10  # starts; the ranks of fewer show no dependence
DEPENDENT_P = 0.1
TOLERANCE = 1e-9  # of a time that is at the limit


@dataclass(frozen=True)
class Starts:
    """Starts at one rate, and the number of them that met the objective.

    `independent` is the number of independent starts that would say as much.
    """

    made: int
    met: int
    independent: float

    @classmethod
    def of_times(cls, times_s: Sequence[float], limit_s: float) -> Starts:
        """Return the starts of these times (s, in order of execution); those up to `limit_s` met the objective."""
        met = sum(time_s <= limit_s * (1 + TOLERANCE) for time_s in times_s)
        return cls(len(times_s), met, independent_number(times_s))

    def share_low(self, level: float) -> float:
        """Return the lower bound of the share of starts that meet the objective, one-sided, with confidence `level`."""
        met, missed = self._counts
        return float(stats.beta.ppf(1 - level, met, missed + 1)) if met else 0.0

    def share_high(self, level: float) -> float:
        """Return the upper bound of that share, one-sided, with confidence `level`."""
        met, missed = self._counts
        return float(stats.beta.ppf(level, met + 1, missed)) if missed else 1.0

    @property
    def _counts(self) -> tuple[float, float]:
        """The independent starts that met and that missed the objective."""
        share_met = self.met / self.made if self.made else 0.0
        return self.independent * share_met, self.independent * (1 - share_met)


def independent_number(values: Sequence[float]) -> float:
    """Return how many independent values are worth as much as these, which are in order of execution.

    It is their number, unless their ranks show a dependence on the value before: then it is smaller.
    """
    number, ranks = len(values), stats.rankdata(values)
    spread = float(((ranks - ranks.mean()) ** 2).sum()) if number else 0.0
    if number < LEAST_TESTED or not spread:
        return float(number)
    ratio = float((np.diff(ranks) ** 2).sum()) / spread  # 2 for independent values
    variance = 4 * (number - 2) * (5 * number**2 - 2 * number - 9) / (5 * number * (number + 1) * (number - 1) ** 2)
    if stats.norm.cdf((ratio - 2) / math.sqrt(variance)) >= DEPENDENT_P:
        return float(number)
    correlation = 1 - ratio / 2
    return number * (1 - correlation) / (1 + correlation)


def rate_states(starts: Mapping[float, Starts], share: float, level: float) -> dict[float, RateState]:
    """Return rate -> whether the starts certify that at least `share` of all starts sustain it, rates ascending.

    "refuted": fewer than `share` of all starts sustain it, at the confidence `level`, such as 0.95. "open": neither
    is shown. "lower-rate-open": its own starts would certify it, but a lower rate is not certified.
    """
    states: dict[float, RateState] = {}
    is_open = False
    for rate in sorted(starts):
        if starts[rate].share_high(level) < share:
            states[rate] = "refuted"
        elif starts[rate].share_low(level) < share:
            states[rate] = "open"
        else:
            states[rate] = "lower-rate-open" if is_open else "certified"
        is_open |= states[rate] != "certified"
    return states
