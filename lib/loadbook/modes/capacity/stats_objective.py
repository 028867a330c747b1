"""Whether a load was served within an objective, such as 99 % of the requests within 20 ms, and by how much.

Requests that were offered and not answered well count as slower than any limit. So do those that the load generator did
not start, since users would have waited for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from loadbook.modes.capacity.stats import MOST_MARGIN

LEAST_ACHIEVED = 0.98  # of the offered requests: below it, the offered load was another one
JUST_MISSED = -0.05  # margin of a load that missed the objective for another reason than its times


Missed = Literal["latency", "errors", "rate"]


class Outcome(NamedTuple):
    """Whether a load met an objective, and how the times of its requests lie to the limit.

    `share_within` is the share of the offered requests that were answered without error within the limit. `margin` is
    the logarithm of the limit over the time that the objective's share of them took (negative if it was missed).
    `missed` is the constraint that was missed: latency, errors, or rate; None if the objective was met.
    """

    share_within: float
    margin: float
    missed: Missed | None


@dataclass(frozen=True)
class Objective:
    """The share of the offered requests that must be answered without error within `within_s` seconds.

    `errors` is the largest share of the offered requests that may fail.
    """

    within_s: float
    share: float = 0.99
    errors: float = 0.001

    def outcome(self, offered: int, errors: int, times_us: Sequence[int], counts: Sequence[int]) -> Outcome:
        """Return the outcome of a load.

        Parameters
        ----------
        offered : requests that should have been sent, at least 1.
        errors : requests that failed, or had an answer that is none.
        times_us, counts : distinct times (µs) of the requests that were answered without error, ascending, and the
            number of each. Times count from the instant that the objective names, usually the intended start.
        """
        times, upto = np.asarray(times_us, dtype=np.int64), np.cumsum(np.asarray(counts, dtype=np.int64))
        limit_us = round(self.within_s * 1e6)
        within = int(np.searchsorted(times, limit_us, side="right"))
        share_within = float(upto[within - 1]) / offered if within else 0.0
        rank = math.ceil(offered * self.share - 1e-9)
        place = int(np.searchsorted(upto, rank))
        margin = -MOST_MARGIN
        if place < len(times):
            margin = min(MOST_MARGIN, max(-MOST_MARGIN, math.log(limit_us / max(1, int(times[place])))))
        answered = int(upto[-1]) if len(upto) else 0
        missed: Missed | None = None
        if answered + errors < LEAST_ACHIEVED * offered:
            missed = "rate"
        elif errors > self.errors * offered:
            missed = "errors"
        elif margin < 0:
            missed = "latency"
        return Outcome(min(1.0, share_within), min(margin, JUST_MISSED) if missed else margin, missed)
