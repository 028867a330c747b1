"""Capacity of a study: the objective within which requests are served, and the load of a probe.

A probe is a load at a constant rate that starts from a fresh service. A search of probes finds the rate that a
treatment just sustains in a block (`loadbook.study.rate_search`).
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from loadbook.core.units import NBSP
from loadbook.study.workload import Seconds, StrictModel, Workload

TAIL_REQUESTS = 20  # slower than the objective's percentile: with fewer, it is an estimate from a handful of requests
LIMITS_IN_PROBE = 10  # a probe lasts so many times the limit, so that a queue that grows is seen
QUEUE_LIMITS = 5
SMOKE_SHARE = 0.95
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
    """

    within_s: Seconds
    share: Annotated[float, Field(ge=0.5, lt=1)] = 0.99
    errors: Annotated[float, Field(ge=0, lt=1)] = 0.001
    metric: TimeMetric = "latency_intended"

    @property
    def text(self) -> str:
        """Return the objective as text: "99 % within 20 ms of the intended start, at most 0.1 % failed"."""
        limit = f"{1000 * self.within_s:g} ms {TIME_TEXTS[self.metric]}"
        return f"{self.share_text} within {limit}, at most {100 * self.errors:g}{NBSP}% failed"

    @property
    def share_text(self) -> str:
        """Return the share as text: "99 %"."""
        return f"{100 * self.share:g}{NBSP}%"

    def probe_s(self, rate_per_s: float, least_s: float) -> float:
        """Return the whole seconds of a probe at a rate: at least `least_s`, and enough requests beyond the share."""
        tail_s = TAIL_REQUESTS / (1 - self.share) / rate_per_s
        return float(math.ceil(max(least_s, tail_s, LIMITS_IN_PROBE * self.within_s) - 1e-9))

    def shortened(self) -> CapacityObjective:
        """Return the objective of a smoke variant, for a share that needs fewer requests."""
        return self.model_copy(update={"share": min(self.share, SMOKE_SHARE)})

    def time_s(self, margin: float) -> float:
        """Return the seconds within which the share of the requests was answered, for the margin of a probe."""
        return self.within_s * math.exp(-margin)

    def probe_load(self, workload: Workload, rate_per_s: float | None = None) -> Workload:
        """Return the load of a probe at about a rate: a study's load for as long as the objective asks.

        Without a rate, it is the first probe of a search, at the rate of the workload.
        Unless the study says another number, there are as many connections as requests arrive in `QUEUE_LIMITS` times
        the limit: a request that waits for one has missed the limit anyway, and an overload opens no more of them.
        """
        rate_per_s = probe_rate(rate_per_s or workload.rate_per_s or 1.0)
        seconds = self.probe_s(rate_per_s, workload.duration_s)
        most = workload.max_connections or math.ceil(QUEUE_LIMITS * self.within_s * rate_per_s)
        searched = {"rate_per_s": rate_per_s, "duration_s": seconds, "max_connections": max(most, workload.connections)}
        return workload.model_copy(update=searched)


def probe_rate(rate_per_s: float) -> float:
    """Return a rate that every load generator can be asked for: with four digits, and thousandths at most."""
    step = max(0.001, 10.0 ** (math.floor(math.log10(rate_per_s)) - RATE_DIGITS))
    return float(f"{max(1, round(rate_per_s / step)) * step:.{RATE_DIGITS + 1}g}")
