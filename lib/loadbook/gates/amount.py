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
    """Find percentiles that so few requests cannot measure (ab prints p99 of 10 requests)."""
    highest = _highest_percentiles(evidence)
    for driver in [TOTAL] if TOTAL in highest else sorted(highest):
        requests, p = evidence.of(driver, "requests", "count"), highest[driver]
        beyond = (requests or 0.0) * (1 - p / 100)
        if requests is not None and beyond < evidence.thresholds.min_tail_requests - 1e-9:
            least = evidence.thresholds.min_tail_requests
            seen = f"p{p:g} is that of {requests:,.0f} requests: {beyond:.2g} lie beyond it, {least:g} are needed"
            yield evidence.hit("too_short", "doubt", seen, None if driver == TOTAL else driver)


def _highest_percentiles(evidence: Evidence) -> dict[str, float]:
    """Return the highest percentile that each driver has; with one driver or merged times, the total, too."""
    found: dict[str, float] = {}
    for row in evidence.rows:
        if row["metric"] in REQUEST_TIMES and re.fullmatch(r"p\d+(\.\d+)?", str(row["statistic"])):
            p = float(str(row["statistic"])[1:])
            if p <= HIGHEST_PERCENTILE:
                found[row["driver"]] = max(p, found.get(row["driver"], 0.0))
    return found


def little_law(evidence: Evidence) -> Iterator[Hit]:
    """Hold rate x mean latency against the connections asked for: in a closed load each has a request under way."""
    work, tool = evidence.record.workload, evidence.record.tool
    if work.get("model", "closed") != "closed" or tool not in WHOLE_LATENCY:
        return
    if not work.get("connections"):
        yield evidence.unchecked("little_law", "it is not known how many connections were asked for")
        return
    rate, mean = evidence.total("requests_per_s", "value"), _mean_latency(evidence)
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


def _mean_latency(evidence: Evidence) -> float | None:
    """Return the mean over all requests; a mean, unlike a percentile, is that of the drivers weighted by requests."""
    if (mean := evidence.total("latency", "mean")) is not None:
        return mean
    hosts = [driver.host for driver in evidence.record.drivers]
    means, counts = ([evidence.of(h, *key) for h in hosts] for key in (("latency", "mean"), ("requests", "count")))
    known = [(m, n) for m, n in zip(means, counts, strict=True) if m is not None and n is not None]
    weight = sum(n for _, n in known)
    return sum(m * n for m, n in known) / weight if weight and len(known) == len(hosts) else None


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
