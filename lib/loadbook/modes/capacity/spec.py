"""Capacity of a study: the objective within which requests are served, and the load of a probe.

A probe is a load at a constant rate that starts from a fresh service. A search of probes finds the rate that a
treatment just sustains in a block (`loadbook.modes.capacity.spec_search`). Without a search, a study certifies the
rates of its loads: that most starts of the service sustain them.
"""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Literal

from pydantic import Field

from loadbook.core.units import NBSP, pluralize
from loadbook.study.workload import Seconds, StrictModel, Workload

TAIL_REQUESTS = 20  # slower than the objective's percentile: with fewer, it is an estimate from a handful of requests
LIMITS_IN_PROBE = 10  # a probe lasts so many times the limit, so that a queue that grows is seen
QUEUE_LIMITS = 5
SMOKE_SHARE = 0.95
SMOKE_CERTIFIED_SHARE = 0.5
CONFIDENCE = 0.95  # of certified rates
USUAL_PROBES = 6  # of a search (docs/validation.md)
SEARCHED = "a search for the capacity of all treatments in each block, in rounds of one probe for each"
ONE_START = "one start of each treatment in each block at the rate of its load, to certify what it sustains"
RATE_DIGITS = 3  # of a probe's rate, after the first: it is rounded by 0.05 % at most, the search resolves 1.5 %
TimeMetric = Literal["latency_intended", "service_time"]
TIME_TEXTS: dict[TimeMetric, str] = {
    "latency_intended": "of the intended start",
    "service_time": "of the actual start",
}


class CapacityObjective(StrictModel):
    """Objective of a study that compares capacities: the highest rates that are served within it.

    Attributes
    ----------
    within_s : limit in seconds for the time of a request.
    share : share of the offered requests that are answered well within the limit; requests that fail count as slower.
    errors : largest share of the offered requests that may fail.
    metric : time that is limited: "latency_intended", from the instant at which the rate asks for the request, or
        "service_time", from its actual start.
    certified_share : share of the starts of a service that are shown to sustain the rate of its load, with a confidence
        of 95 %. A trial is then one start at this rate, and nothing is searched. None: capacities are searched.
    """

    within_s: Seconds
    share: Annotated[float, Field(ge=0.5, lt=1)] = 0.99
    errors: Annotated[float, Field(ge=0, lt=1)] = 0.001
    metric: TimeMetric = "latency_intended"
    certified_share: Annotated[float, Field(ge=0.5, le=0.99)] | None = None

    @property
    def text(self) -> str:
        """Return the objective as text: "99 % within 20 ms of the intended start, at most 0.1 % failed"."""
        limit = f"{1000 * self.within_s:g} ms {TIME_TEXTS[self.metric]}"
        return f"{self.share_text} within {limit}, at most {100 * self.errors:g}{NBSP}% failed"

    @property
    def share_text(self) -> str:
        """Return the share as text: "99 %"."""
        return f"{100 * self.share:g}{NBSP}%"

    @property
    def is_search(self) -> bool:
        """Return whether capacities are searched, and no rate is certified."""
        return self.certified_share is None

    @property
    def least_starts(self) -> int | None:
        """Return the number of starts that certifies a rate if none of them misses the objective; None for a search."""
        return None if self.certified_share is None else least_starts(self.certified_share)

    def certified_if_text(self, starts: int) -> str:
        """Return the text on when so many starts certify a rate: "if at most 1 of 46 starts misses the objective"."""
        share = self.certified_share or 0.0
        if most_misses(share, starts) < 0:
            counted = pluralize(starts, "start is", "starts are")
            return f"never: {counted} too few for {100 * share:g}{NBSP}%, which needs {least_starts(share)}"
        most = most_misses(share, starts)
        missed = f"at most {most} of {starts} starts misses" if most else f"none of {starts} starts misses"
        confidence = f"{100 * CONFIDENCE:g}{NBSP}% confidence"
        return f"if {missed} the objective, for {100 * share:g}{NBSP}% of starts ({confidence})"

    @property
    def usual_probes(self) -> int:
        """Return the number of probes that a trial usually has."""
        return USUAL_PROBES if self.is_search else 1

    @property
    def execution_text(self) -> str:
        """Return how the trials of a block are executed."""
        return SEARCHED if self.is_search else ONE_START

    def probe_s(self, rate_per_s: float, least_s: float) -> float:
        """Return the whole seconds of a probe at a rate: at least `least_s`, and enough requests beyond the share."""
        tail_s = TAIL_REQUESTS / (1 - self.share) / rate_per_s
        return float(math.ceil(max(least_s, tail_s, LIMITS_IN_PROBE * self.within_s) - 1e-9))

    def shortened(self) -> CapacityObjective:
        """Return the objective of a smoke variant, for shares that need fewer requests and fewer starts."""
        certified = self.certified_share and min(self.certified_share, SMOKE_CERTIFIED_SHARE)
        return self.model_copy(update={"share": min(self.share, SMOKE_SHARE), "certified_share": certified})

    def time_s(self, margin: float) -> float:
        """Return the seconds within which the share of the requests was answered, for the margin of a probe.

        The margin is the logarithm of the limit over this time: positive if the objective was met.
        """
        return time_of_margin_s(self.within_s, margin)

    def probe_load(self, workload: Workload, rate_per_s: float | None = None) -> Workload:
        """Return the load of a probe at about a rate: a study's load for as long as the objective asks.

        Without a rate, it is the first probe of a search, at the rate of the workload.
        Unless the study says another number, there are as many connections as requests arrive in `QUEUE_LIMITS` times
        the limit: a request that waits for one has missed the limit anyway, and an overload opens no more of them. All
        of them are kept, as closing and opening connections would be load of its own.
        """
        rate_per_s = probe_rate(rate_per_s or workload.rate_per_s or 1.0)
        seconds = self.probe_s(rate_per_s, workload.duration_s)
        most = workload.max_connections or math.ceil(QUEUE_LIMITS * self.within_s * rate_per_s)
        most = max(most, workload.connections)
        searched = {"rate_per_s": rate_per_s, "duration_s": seconds, "connections": most, "max_connections": most}
        return workload.model_copy(update=searched | {"request_times": True})


def time_of_margin_s(within_s: float, margin: float) -> float:
    """Return the seconds within which an objective's share of the requests was answered, from limit and margin.

    The margin is the logarithm of the limit over this time: positive if the objective was met.
    """
    return within_s * math.exp(-margin)


def most_misses(certified_share: float, starts: int) -> int:
    """Return how many of so many starts may miss the objective, so that they certify a rate; -1 if they are too few.

    If just this share of starts sustained the rate, so few misses would happen in at most 5 % of runs.
    """
    missed_share, chance = 1 - certified_share, 0.0
    for misses in range(starts):
        chance += math.comb(starts, misses) * missed_share**misses * certified_share ** (starts - misses)
        if chance > 1 - CONFIDENCE:
            return misses - 1
    return -1  # no start at all


def least_starts(certified_share: float, misses: int = 0) -> int:
    """Return the least number of starts that certify a rate if `misses` of them miss the objective."""
    return next(starts for starts in itertools.count(1) if most_misses(certified_share, starts) >= misses)


def offered_requests(rate_per_s: float, duration_s: float) -> int:
    """Return the number of requests that a rate asks for in so many seconds, at least 1."""
    return max(1, math.floor(rate_per_s * duration_s + 1e-6))


def probe_rate(rate_per_s: float) -> float:
    """Return a rate that every load generator can be asked for: with four digits, and thousandths at most."""
    step = max(0.001, 10.0 ** (math.floor(math.log10(rate_per_s)) - RATE_DIGITS))
    return float(f"{max(1, round(rate_per_s / step)) * step:.{RATE_DIGITS + 1}g}")
