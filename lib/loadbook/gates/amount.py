"""Rules about how much was measured: percentiles of too few requests, connections that were not at work."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loadbook.core.units import format_percent, format_duration
from loadbook.gates.base import TOTAL, Evidence, RuleHit

REQUEST_TIME_METRICS = ("latency", "latency_intended", "service_time")
# a tail beyond p99 is nobody's question by accident
MAX_PERCENTILE = 99.0
# tools whose latency is the whole time of a request as it was -> the shortest mean (s) that their resolution can tell
MIN_MEAN_LATENCY_S = {"ab": 0.010, "jmeter": 0.010, "h2load": 0.0, "weighttp": 0.0}
# below these, starting and ending are a part of the mean
MIN_REQUESTS_PER_CONNECTION, MIN_DURATION_S = 20, 0.5
H2LOAD_STREAMS = re.compile(r"(?:-m ?|--max-concurrent-streams[= ])(\d{1,6})")


def too_short(evidence: Evidence) -> Iterator[RuleHit]:
    """Find percentiles that so few requests cannot measure (ab prints p99 of 10 requests)."""
    highest = _highest_percentiles(evidence)
    for driver in [TOTAL] if TOTAL in highest else sorted(highest):
        requests, p = evidence.value(driver, "requests", "count"), highest[driver]
        tail_requests = (requests or 0.0) * (1 - p / 100)
        if requests is not None and tail_requests < evidence.thresholds.min_tail_requests - 1e-9:
            min_tail_requests = evidence.thresholds.min_tail_requests
            observation = f"p{p:g} is that of {requests:,.0f} requests: {tail_requests:.2g} lie beyond it, {min_tail_requests:g} are needed"
            yield evidence.hit("too_short", "doubt", observation, None if driver == TOTAL else driver)


def _highest_percentiles(evidence: Evidence) -> dict[str, float]:
    """Return the highest percentile that each driver has; with one driver or merged times, the total, too."""
    highest: dict[str, float] = {}
    for row in evidence.rows:
        if row["metric"] in REQUEST_TIME_METRICS and re.fullmatch(r"p\d+(\.\d+)?", str(row["statistic"])):
            p = float(str(row["statistic"])[1:])
            if p <= MAX_PERCENTILE:
                highest[row["driver"]] = max(p, highest.get(row["driver"], 0.0))
    return highest


def little_law(evidence: Evidence) -> Iterator[RuleHit]:
    """Hold rate x mean latency against the connections asked for: in a closed load each has a request under way."""
    workload, tool = evidence.record.workload, evidence.record.tool
    if workload.get("model", "closed") != "closed" or tool not in MIN_MEAN_LATENCY_S:
        return
    if not workload.get("connections"):
        yield evidence.unchecked("little_law", "it is not known how many connections were asked for")
        return
    rate, mean = evidence.total("requests_per_s", "value"), _mean_latency(evidence)
    connections = float(workload["connections"])
    requests, duration = evidence.total("requests", "count") or 0.0, evidence.total("duration") or 0.0
    if rate is None or mean is None:
        yield evidence.unchecked("little_law", "no mean latency beside the rate")
    elif _concurrent_streams(evidence) > 1:
        yield evidence.unchecked("little_law", "several requests at once on each connection, queued within the tool")
    elif mean < MIN_MEAN_LATENCY_S[tool]:
        yield evidence.unchecked("little_law", f"{tool} rounds to milliseconds, too coarse for a mean this short")
    elif requests < MIN_REQUESTS_PER_CONNECTION * connections or duration < MIN_DURATION_S:
        yield evidence.unchecked("little_law", "too few requests on each connection")
    else:
        yield from _concurrency_hit(evidence, rate, mean + float(workload.get("think_time_s") or 0.0), connections)


def _mean_latency(evidence: Evidence) -> float | None:
    """Return the mean over all requests; a mean, unlike a percentile, is that of the drivers weighted by requests."""
    if (mean := evidence.total("latency", "mean")) is not None:
        return mean
    hosts = [driver.host for driver in evidence.record.drivers]
    means, counts = ([evidence.value(h, *key) for h in hosts] for key in (("latency", "mean"), ("requests", "count")))
    weighted = [(m, n) for m, n in zip(means, counts, strict=True) if m is not None and n is not None]
    weight = sum(n for _, n in weighted)
    return sum(m * n for m, n in weighted) / weight if weight and len(weighted) == len(hosts) else None


def _concurrency_hit(evidence: Evidence, rate: float, cycle_s: float, connections: float) -> Iterator[RuleHit]:
    busy_connections = rate * cycle_s
    if abs(busy_connections / connections - 1) > evidence.thresholds.little_tolerance:
        share = format_percent(busy_connections / connections, 0, signed=False)
        observation = f"{rate:,.0f} requests/s of {format_duration(cycle_s)} each keep {busy_connections:,.1f} connections at work"
        yield evidence.hit("little_law", "doubt", f"{observation}, {share} of the {connections:,.0f} asked for")


def _concurrent_streams(evidence: Evidence) -> int:
    """Return how many requests h2load has under way on each connection (-m)."""
    if evidence.record.tool != "h2load" or not evidence.record.drivers:
        return 1
    found = H2LOAD_STREAMS.search(" ".join(evidence.record.drivers[0].argv))
    return max(1, int(found[1])) if found else 1
