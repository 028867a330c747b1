"""Rules about how much was measured: percentiles of too few requests, connections that were not at work."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loadbook.core.units import percent, seconds
from loadbook.gates.base import TOTAL, Evidence, Hit

REQUEST_TIMES = ("latency", "latency_intended", "service_time")
# a tail beyond p99 is nobody's question by accident
HIGHEST_PERCENTILE = 99.0
# tools whose latency is the whole time of a request as it was -> the shortest mean (s) that their resolution can tell
WHOLE_LATENCY = {"ab": 0.010, "jmeter": 0.010, "h2load": 0.0, "weighttp": 0.0}
# below these, starting and ending are a part of the mean
MIN_ROUNDS, MIN_DURATION_S = 20, 0.5
STREAMS = re.compile(r"(?:-m ?|--max-concurrent-streams[= ])(\d{1,6})")


def too_short(evidence: Evidence) -> Iterator[Hit]:
    """Find percentiles beyond which there is hardly a request (ab prints p99 of 10 requests)."""
    requests, p = evidence.total("requests", "count"), _highest_percentile(evidence)
    if requests is not None and p is not None:
        beyond = requests * (1 - p / 100)
        if beyond < evidence.thresholds.min_tail_requests:
            seen = f"p{p:g} is that of {requests:,.0f} requests, of which {beyond:.2g} lie beyond it"
            yield evidence.hit("too_short", "doubt", seen)


def _highest_percentile(evidence: Evidence) -> float | None:
    rows = [str(r["statistic"]) for r in evidence.rows if r["driver"] == TOTAL and r["metric"] in REQUEST_TIMES]
    found = [float(name[1:]) for name in rows if re.fullmatch(r"p\d+(\.\d+)?", name)]
    return max((p for p in found if p <= HIGHEST_PERCENTILE), default=None)


def little_law(evidence: Evidence) -> Iterator[Hit]:
    """Hold rate x mean latency against the connections asked for: in a closed load each has a request under way."""
    work, tool = evidence.record.workload, evidence.record.tool
    if work.get("model", "closed") != "closed" or tool not in WHOLE_LATENCY or not work.get("connections"):
        return
    rate, mean = evidence.total("requests_per_s", "value"), evidence.total("latency", "mean")
    asked = float(work["connections"])
    requests, duration = evidence.total("requests", "count") or 0.0, evidence.total("duration") or 0.0
    if rate is None or mean is None:
        yield evidence.unchecked("little_law", "no mean latency beside the rate")
    elif _streams(evidence) > 1:
        yield evidence.unchecked("little_law", "several requests at once on each connection, queued within the tool")
    elif mean < WHOLE_LATENCY[tool]:
        yield evidence.unchecked("little_law", f"{tool} rounds to milliseconds, too coarse for a mean this short")
    elif requests < MIN_ROUNDS * asked or duration < MIN_DURATION_S:
        yield evidence.unchecked("little_law", "too few requests on each connection")
    else:
        yield from _at_work(evidence, rate, mean + float(work.get("think_time_s") or 0.0), asked)


def _at_work(evidence: Evidence, rate: float, cycle_s: float, asked: float) -> Iterator[Hit]:
    busy = rate * cycle_s
    if abs(busy / asked - 1) > evidence.thresholds.little_tolerance:
        share = percent(busy / asked, 0, signed=False)
        seen = f"{rate:,.0f} requests/s of {seconds(cycle_s)} each keep {busy:,.1f} connections at work"
        yield evidence.hit("little_law", "doubt", f"{seen}, {share} of the {asked:,.0f} asked for")


def _streams(evidence: Evidence) -> int:
    """Return how many requests h2load has under way on each connection (-m)."""
    if evidence.record.tool != "h2load" or not evidence.record.drivers:
        return 1
    found = STREAMS.search(" ".join(evidence.record.drivers[0].argv))
    return max(1, int(found[1])) if found else 1
