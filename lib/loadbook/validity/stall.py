"""The rule about stalls: time within a closed-loop measurement in which nothing was served.

A frozen server or load generator, a cut link: the requests under way wait, and most tools count what they had before
and after. Three kinds of evidence tell, the finest that there is: samples of the service's CPU and of the network, the
tool's requests by the second, the largest latency.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from loadbook.core.units import format_duration
from loadbook.validity.base import Evidence, RuleHit, Severity

# a sample is idle below this share of what is usual within the window (its 90th percentile)
IDLE_SHARE, USUAL_QUANTILE = 0.05, 0.9
# a service, or a host's network, that usually does less than this is too quiet to tell: CPUs' worth, B/s
MIN_USUAL_CPU, MIN_USUAL_TRAFFIC = 0.15, 10_000.0
# more than two samples; sampling is late by a part of an interval
MIN_IDLE_SAMPLES = 2.5
# idle time that slow answers, few requests or think time explain is no stall
MIN_MISSED_REQUESTS, MIN_MISSED_CYCLES = 20.0, 2.0
# of the measurement: a request that took so long tells of a stall where there is no other evidence
LATENCY_SHARE = 0.2
RATES_BY_SECOND = ("ended", "started")


class IdleSpan(NamedTuple):
    """A stretch of the measurement window, seconds since it opened."""

    start: float
    end: float

    @property
    def length(self) -> float:
        """Seconds."""
        return self.end - self.start


def stall(evidence: Evidence) -> Iterator[RuleHit]:
    """Find time of a closed-loop measurement in which nothing was served, though requests were under way."""
    workload, window = evidence.record.workload, evidence.window_s
    duration = evidence.total("duration") or window
    requests = evidence.total("requests", "count")
    if workload.get("model", "closed") != "closed" or not duration or not requests or duration <= 0:
        return
    rate = requests / duration
    cycle_s = float(workload.get("connections") or 1) / rate
    shortest = max(MIN_MISSED_REQUESTS / rate, MIN_MISSED_CYCLES * cycle_s)
    if window and (idle := _idle_by_samples(evidence, window, duration)) is not None:
        source, least = "neither the service nor the network was at work", 0.0
    elif (idle := _idle_by_seconds(evidence, duration)) is not None:
        source, least = "no request ended", 0.0
    elif (latency := evidence.total("latency", "max")) is not None:
        idle, source, least = [IdleSpan(0.0, latency)], "the slowest request took as long", LATENCY_SHARE * duration
    else:
        yield evidence.unchecked("stall", "neither samples nor rates by the second nor a largest latency")
        return
    stalls = [span for span in idle if span.length > max(shortest, least)]
    if stalls:
        total = sum(span.length for span in stalls)
        share = total / (window or duration)
        level: Severity = "invalid" if not least and share > evidence.thresholds.stall else "doubt"
        when = "" if least else f", first {format_duration(stalls[0].start)} after its begin"
        observation = f"{source} for {format_duration(total)} of {format_duration(window or duration)}{when}"
        yield evidence.hit("stall", level, observation)


def _idle_by_samples(evidence: Evidence, window: float, duration: float) -> list[IdleSpan] | None:
    """Return the span in which all serving hosts were idle for more than two samples; None without samples."""
    services: dict[str, set[str]] = {}
    for service in evidence.record.services:
        services.setdefault(service.host, set()).add(service.service)
    hosts = services or {driver.host: set() for driver in evidence.record.drivers}
    intervals = {m.host: m.interval_s for m in evidence.record.monitors if m.host in hosts}
    by_host = [
        spans
        for host, interval in intervals.items()
        if (spans := _host_idle_spans(evidence, host, hosts[host], interval)) is not None
    ]
    if not by_host:
        return None
    idle = by_host[0]
    for other in by_host[1:]:
        both = (IdleSpan(max(a.start, b.start), min(a.end, b.end)) for a in idle for b in other)
        idle = [span for span in both if span.length > 0]
    interval = max(intervals.values())
    # a tool that starts late or ends early (JMeter's JVM) is idle at the window's edges by its own account
    spare = max(0.0, window - duration)
    idle = [_without_edges(span, window, spare, interval) for span in idle]
    return [span for span in idle if span.length > MIN_IDLE_SAMPLES * interval]


def _without_edges(span: IdleSpan, window: float, spare: float, interval: float) -> IdleSpan:
    """Return an idle span without the parts that may be the tool's own start or end."""
    if span.start <= 2 * interval:
        return span._replace(start=min(span.start + spare, span.end))
    return span._replace(end=max(span.end - spare, span.start)) if span.end >= window - 2 * interval else span


def _host_idle_spans(evidence: Evidence, host: str, services: Iterable[str], interval: float) -> list[IdleSpan] | None:
    """Return when neither the services of a host nor its network were at work; None where neither is traced."""
    cpu = [points for name in services for points in evidence.trace_sums(host, ("process_cpu",), f"{name}:")]
    known = [points for points in cpu if _usual(points) >= MIN_USUAL_CPU]
    known += [
        points for points in evidence.trace_sums(host, ("net_rx", "net_tx")) if _usual(points) >= MIN_USUAL_TRAFFIC
    ]
    if not known:
        return None
    limits = [IDLE_SHARE * _usual(points) for points in known]
    times = sorted({t for points in known for t in points if t >= interval})
    idle = {t: all(points.get(t, 0.0) <= limit for points, limit in zip(known, limits, strict=True)) for t in times}
    return list(_runs(times, idle, interval))


def _runs(times: Sequence[float], idle: Mapping[float, bool], interval: float) -> Iterator[IdleSpan]:
    """Yield the spans of consecutive idle samples; a missing sample ends one."""
    numbered, number = [], 0
    for k, t in enumerate(times):
        number += k > 0 and (t - times[k - 1] > 2 * interval or idle[t] != idle[times[k - 1]])
        numbered.append((number, t))
    for _, group in groupby(numbered, key=lambda pair: pair[0]):
        run = [t for _, t in group]
        if idle[run[0]]:
            yield IdleSpan(run[0] - interval, run[-1])


def _usual(points: Mapping[float, float]) -> float:
    """Return the value that most samples of a window reach at times; a stall may take more than half of it."""
    values = sorted(points.values())
    return values[min(len(values) - 1, int(USUAL_QUANTILE * len(values)))] if values else 0.0


def _idle_by_seconds(evidence: Evidence, duration: float) -> list[IdleSpan] | None:
    """Return the span in which no request ended, by the tool's log; None without rates by the second."""
    counts: dict[int, float] = {}
    for row in evidence.samples:
        if row["series"] in RATES_BY_SECOND and row["metric"] == "requests_per_s":
            counts[int(row["x"])] = counts.get(int(row["x"]), 0.0) + float(row["value"])
    if not counts:
        return None
    first = min(counts)
    seconds = range(first, max(max(counts), first + int(duration) - 1) + 1)
    idle = {float(s + 1): not counts.get(s) for s in seconds}
    return [IdleSpan(run.start - first, run.end - first) for run in _runs(list(idle), idle, 1.0)]
