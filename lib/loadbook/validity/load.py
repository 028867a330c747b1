"""Rules on the load: failed requests, limits of the driver, shared CPUs, offered rate, several drivers, stalls.

A stall is time in a closed-loop measurement in which nothing was served (a frozen server or load generator, a cut
link). The requests under way then wait, and most tools show nothing of it but one large latency. Stalls are found in
the first of these that was recorded: samples of service CPU and network, the tool's requests per second, the largest
latency.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, product
from typing import NamedTuple

from loadbook.core.units import format_duration, format_percent
from loadbook.core.validity_rules import rule_advice
from loadbook.modes.base import mode_of_record
from loadbook.modes.plain.rules import rules_of
from loadbook.store.trial_record import (
    MonitorRecord,
    clock_error_s,
    measurement_spans,
)
from loadbook.study.workload import spinning_reason
from loadbook.validity.base import Evidence, RuleHit, Severity
from loadbook.validity.machine import foreign_cpu

FAILED_ARE_REQUESTS = ("ab",)  # tools whose `requests` include failed ones
LENGTH_REMEDY = "let ab accept pages of variable length (-l), or measure a page of constant length"
SOCKET_ERRORS = ("errors_connect", "errors_timeout", "errors_read", "errors_write", "errors_length", "errors_other")


def zero_work(evidence: Evidence) -> Iterator[RuleHit]:
    """Find trials without any response, or without any successful one."""
    requests, ok = evidence.total("requests", "count"), evidence.total("ok", "count")
    if requests is None and ok is None:
        yield evidence.unchecked("zero_work", "the tool reports neither requests nor successes")
    elif not requests and requests is not None:
        yield evidence.hit("zero_work", "invalid", "the tool completed no request")
    elif ok == 0:
        yield evidence.hit("zero_work", "invalid", f"none of {requests or 0:,.0f} responses was a success")


def error_responses(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge responses with status 400 and above, as a share of all responses."""
    errors, requests = evidence.total("errors_status", "count"), evidence.total("requests", "count")
    if errors is None or requests is None:
        yield from _non_2xx_hit(evidence, requests)
    elif errors > 0:
        yield from _error_share_hit(evidence, "error_responses", errors, max(requests, errors), "responses were errors")


def _non_2xx_hit(evidence: Evidence, requests: float | None) -> Iterator[RuleHit]:
    """Judge responses of a tool that separates only 2xx from others (ab): if the page itself is 2xx, all must be."""
    good = evidence.total("status_2xx", "count")
    if good is None or not requests:
        yield evidence.unchecked("error_responses", "the tool reports no error responses")
    elif evidence.record.workload.get("expect_status", 200) // 100 != 2:
        yield evidence.unchecked("error_responses", "the tool does not tell errors from the redirects expected")
    elif requests > good:
        yield from _error_share_hit(evidence, "error_responses", requests - good, requests, "responses were not 2xx")


def socket_errors(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge failed connections and transfers as a share of all attempts, without failures at the driver's limits."""
    names = [n for n in SOCKET_ERRORS if n != "errors_timeout" or "timeouts_weighted" not in evidence.parser_doubts]
    counts = [count for name in names if (count := evidence.total(name, "count")) is not None]
    requests = evidence.total("requests", "count")
    if not counts or requests is None:
        yield evidence.unchecked("socket_errors", "the tool reports no connection errors")
    elif (failed := sum(counts)) > 0:
        attempts = max(requests, failed) if evidence.record.tool in FAILED_ARE_REQUESTS else requests + failed
        hits = _error_share_hit(evidence, "socket_errors", failed, attempts, "attempts failed")
        if (wrong := evidence.total("errors_length", "count") or 0) <= failed / 2:
            yield from hits
            return
        for hit in hits:
            observation = hit.message.removesuffix(rule_advice("socket_errors"))
            text = f"{observation}, {wrong:,.0f} of them as their length was another than the first one's"
            yield replace(hit, message=f"{text}; {LENGTH_REMEDY}.")


def _error_share_hit(evidence: Evidence, name: str, errors: float, total: float, noun: str) -> Iterator[RuleHit]:
    share = errors / total
    observation = f"{errors:,.0f} of {total:,.0f} {noun} ({format_percent(share, 2, signed=False)})"
    limits = evidence.thresholds
    level: Severity = "doubt" if share > limits.doubt_error_share else "note"
    level = "invalid" if share > limits.max_error_share else level
    yield evidence.hit(name, level, observation)


def driver_limits(evidence: Evidence) -> Iterator[RuleHit]:
    """Find failures at the load generator's own limits, which make its results meaningless (httperf's manual)."""
    errors = evidence.total("errors_driver", "count")
    if errors:
        yield evidence.hit("driver_limits", "invalid", f"{errors:,.0f} attempts failed on the driver itself")


def driver_saturated(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge the CPU use of each driver over the measurement window: its busiest CPU, and the load generator's threads.

    With `driver_cpu = 1` (in studies of the load generators themselves) a full CPU is only a doubt.
    """
    for host in driver_hosts(evidence):
        load = evidence.record.workload
        scheme, keepalive = str(load.get("scheme")), load.get("keepalive") is not False
        if reason := spinning_reason(evidence.record.tool, scheme, keepalive=keepalive):
            yield evidence.unchecked("driver_saturated", reason, host)
            continue
        monitor = monitor_of(evidence, host)
        busy = evidence.cpu_means(monitor, "cpu_busy") if monitor else {}
        if not monitor or not busy:
            yield evidence.unchecked("driver_saturated", "no CPU trace of the driver", host)
            continue
        sharing = [m.host for m in evidence.monitors_sharing_cpus(monitor) if m.host in driver_hosts(evidence)]
        watched = [mean for name in sharing for mean in evidence.trace_means(name, "process_cpu").values()]
        used = sum(watched) if watched else None
        yield from list(_busiest_cpu_hit(evidence, host, busy, used)) or _thread_hit(evidence, host)


def _busiest_cpu_hit(evidence: Evidence, host: str, busy: dict[str, float], used: float | None) -> Iterator[RuleHit]:
    """Judge a driver's busiest CPU: invalid if filled by the load generator itself, a doubt if filled by others.

    `used`: CPUs used by the load, also from other drivers that share these CPUs; None if not known.
    Services that share the driver's CPUs fill them as they should; that they share them is the doubt `shared_cores`.
    CPU time of other programs is the doubt `foreign_cpu`.
    """
    cpu = max(busy, key=lambda item: busy[item])
    if busy[cpu] < evidence.thresholds.driver_cpu_doubt:
        return
    observation = f"{cpu} of the driver was {format_percent(busy[cpu], 0, signed=False)} busy while measuring"
    own_share, min_share = 1.0 if used is None else used / sum(busy.values()), evidence.thresholds.driver_own_share
    if own_share < min_share:
        observation += f", {format_percent(own_share, 0, signed=False)} of that with the load"
        others = (*shared_cores(evidence), *foreign_cpu(evidence))
        if any(hit.level == "doubt" and hit.host == host for hit in others):
            return
    full = busy[cpu] > evidence.thresholds.driver_cpu and own_share >= min_share
    yield evidence.hit("driver_saturated", "invalid" if full else "doubt", observation, host)


def _thread_hit(evidence: Evidence, host: str) -> Iterator[RuleHit]:
    """Judge the load generator's threads: if they move between CPUs they fill none, and yet can be at their limit."""
    tool, threads = evidence.record.tool, int(evidence.record.workload.get("threads") or 1)
    watched = evidence.trace_means(host, "process_cpu")
    cpu_per_thread = sum(mean for item, mean in watched.items() if item.partition(":")[0] == tool) / threads
    if cpu_per_thread >= evidence.thresholds.driver_cpu_doubt:
        which, each = (f"the {threads} threads", " each") if threads > 1 else ("the one thread", "")
        share = format_percent(cpu_per_thread, 0, signed=False)
        observation = f"{which} of {tool} used {share} of a CPU{each}"
        level: Severity = "invalid" if min(cpu_per_thread, 1.0) > evidence.thresholds.driver_cpu else "doubt"
        yield evidence.hit("driver_saturated", level, observation, host)


def shared_cores(evidence: Evidence) -> Iterator[RuleHit]:
    """Find driver and service on the same machine (same boot id) without disjoint CPU masks."""
    boots = evidence.record.boot_ids
    if not evidence.record.services:
        yield evidence.unchecked("shared_cores", "it is not recorded where the service ran")
    for host, service in product(driver_hosts(evidence), evidence.record.services):
        driver, server = monitor_of(evidence, host), monitor_of(evidence, service.host)
        if host not in boots or service.host not in boots:
            yield evidence.unchecked("shared_cores", "a boot id is not known", host)
        elif boots[host] == boots[service.host] and driver is None:
            yield evidence.unchecked("shared_cores", "the driver's CPU mask is not known", host)
        elif boots[host] == boots[service.host] and driver:
            driver_cpus, service_cpus = set(driver.cpus), set(service.cpus) or set(server.cpus if server else ())
            shared = sorted(driver_cpus & service_cpus)
            if shared or not driver_cpus or not service_cpus:
                which = f"CPU {', '.join(map(str, shared))}" if shared else "no CPU mask separates them"
                observation = f"the driver and {service.service} run on one machine ({which})"
                yield evidence.hit("shared_cores", "doubt", observation, host)


def offered_ceiling(evidence: Evidence) -> Iterator[RuleHit]:
    """Find open loads that were served completely, so that the rate is the load generator's setting.

    A study with [capacity] has no hits: its objective judges the rate.
    """
    offered, achieved = offered_and_achieved_rates(evidence)
    if offered is None or rules_of(evidence.record).is_judged_by_objective:
        return
    if achieved is None:
        yield evidence.unchecked("offered_ceiling", "the tool reports no rate")
    elif achieved >= evidence.thresholds.offered_ceiling * offered and not evidence.total("errors", "count"):
        observation = f"{achieved:,.0f} of {offered:,.0f} offered requests/s were served without error"
        yield evidence.hit("offered_ceiling", "doubt", observation)


def offered_shortfall(evidence: Evidence) -> Iterator[RuleHit]:
    """Find open loads of which a part was not served; not in a study with [capacity], whose objective judges that."""
    offered, achieved = offered_and_achieved_rates(evidence)
    if offered is None or rules_of(evidence.record).is_judged_by_objective:
        return
    if achieved is None:
        yield evidence.unchecked("offered_shortfall", "the tool reports no rate")
    elif achieved < evidence.thresholds.offered_shortfall * offered:
        share = format_percent(achieved / offered, 0, signed=False)
        observation = f"{achieved:,.0f} of {offered:,.0f} offered requests/s were answered ({share})"
        yield evidence.hit("offered_shortfall", "doubt", observation)


def driver_hosts(evidence: Evidence) -> list[str]:
    """Return the hosts that generated the load."""
    return list(dict.fromkeys(driver.host for driver in evidence.record.drivers))


def monitor_of(evidence: Evidence, host: str) -> MonitorRecord | None:
    """Return the monitor of a host; None if it has none."""
    return next((monitor for monitor in evidence.record.monitors if monitor.host == host), None)


def offered_and_achieved_rates(evidence: Evidence) -> tuple[float | None, float | None]:
    """Return offered (None for a closed load) and achieved (None if not reported) requests per second."""
    offered = mode_of_record(evidence.record).offered_per_s(evidence.record) or evidence.total("offered_per_s")
    return (float(offered) if offered else None), evidence.total("requests_per_s", "value")


def drivers_apart(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge the share of the time, from first start to last end, in which not all drivers were measuring."""
    record, limits = evidence.record, evidence.thresholds
    if len(record.drivers) < 2:
        return
    if (hits := rules_of(record).drivers_apart(evidence)) is not None:
        yield from hits
        return
    spans = measurement_spans(record.drivers, record.clocks)
    if spans is None:
        yield evidence.unchecked("drivers_apart", "it is not recorded when each driver measured")
        return
    total_s = spans.full_span[1] - spans.full_span[0]
    if spans.non_overlap_share > limits.drivers_apart_doubt:
        level: Severity = "invalid" if spans.non_overlap_share > limits.drivers_apart else "doubt"
        overlap_s = total_s * (1 - spans.non_overlap_share)
        observation = f"all {len(record.drivers)} drivers were at work for {format_duration(overlap_s)}"
        observation += f" of {format_duration(total_s)}, their starts {format_duration(spans.start_skew_s)} apart"
        yield evidence.hit("drivers_apart", level, observation)
    elif (error_s := clock_error_s(driver_hosts(evidence), record.clocks)) > limits.drivers_apart_doubt * total_s:
        share = format_percent(error_s / total_s, 0, signed=False)
        observation = f"the drivers' clocks are known to {format_duration(error_s)} only, {share} of the measurement"
        yield evidence.hit("drivers_apart", "doubt", observation)


# a sample is idle below this share of the usual value in the window (its 90th percentile)
IDLE_SHARE, USUAL_QUANTILE = 0.05, 0.9
# minimum usual value (CPUs in use, B/s) of a service's CPU time or a host's traffic; with less, idling means nothing
MIN_USUAL_CPU, MIN_USUAL_TRAFFIC = 0.15, 10_000.0
# more than two samples, since samples may be late by a part of an interval
MIN_IDLE_SAMPLES = 2.5
# idle time that is explained by slow responses, few requests or think time is no stall
MIN_MISSED_REQUESTS, MIN_MISSED_CYCLES = 20.0, 2.0
# of the measurement: without other data, a request that took longer than this share indicates a stall
LATENCY_SHARE = 0.2
RATES_BY_SECOND = ("ended", "started")


class IdleSpan(NamedTuple):
    """Part of the measurement window without work; seconds since the window opened."""

    start: float
    end: float

    @property
    def length(self) -> float:
        """Return the length in seconds."""
        return self.end - self.start


def stall(evidence: Evidence) -> Iterator[RuleHit]:
    """Find time in a closed-loop measurement in which nothing was served although requests were under way."""
    workload, window = evidence.record.workload, evidence.window_s
    duration = evidence.total("duration") or window
    requests = evidence.total("requests", "count")
    if workload.get("model", "closed") != "closed" or not duration or not requests or duration <= 0:
        return
    rate = requests / duration
    cycle_s = float(workload.get("connections") or 1) / rate
    shortest = max(MIN_MISSED_REQUESTS / rate, MIN_MISSED_CYCLES * cycle_s)
    if (hits := rules_of(evidence.record).stall(evidence, shortest)) is not None:
        yield from hits
        return
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
    """Return the spans in which all serving hosts were idle for more than two samples; None without samples."""
    services: dict[str, set[str]] = {}
    for service in evidence.record.services:
        services.setdefault(service.host, set()).add(service.service)
    hosts = services or {driver.host: set() for driver in evidence.record.drivers}
    intervals = {m.host: m.interval_s for m in evidence.record.monitors if m.host in hosts}
    spans_of_hosts = (_host_idle_spans(evidence, host, hosts[host], interval) for host, interval in intervals.items())
    by_host = [spans for spans in spans_of_hosts if spans is not None]
    if not by_host:
        return None
    idle = by_host[0]
    for other in by_host[1:]:
        both = (IdleSpan(max(a.start, b.start), min(a.end, b.end)) for a in idle for b in other)
        idle = [span for span in both if span.length > 0]
    interval = max(intervals.values())
    # a tool that starts late or ends early (JMeter's JVM) is itself idle at the edges of the window
    spare = max(0.0, window - duration)
    idle = [_without_edges(span, window, spare, interval) for span in idle]
    return [span for span in idle if span.length > MIN_IDLE_SAMPLES * interval]


def _without_edges(span: IdleSpan, window: float, spare: float, interval: float) -> IdleSpan:
    """Return an idle span without the part at an edge of the window in which the tool itself starts or ends."""
    if span.start <= 2 * interval:
        return span._replace(start=min(span.start + spare, span.end))
    return span._replace(end=max(span.end - spare, span.start)) if span.end >= window - 2 * interval else span


def _host_idle_spans(evidence: Evidence, host: str, services: Iterable[str], interval: float) -> list[IdleSpan] | None:
    """Return the spans in which neither a host's services nor its network worked; None if neither was recorded."""
    cpu = [points for name in services for points in evidence.trace_sums(host, ("process_cpu",), f"{name}:")]
    known = [points for points in cpu if _usual(points) >= MIN_USUAL_CPU]
    known += [p for p in evidence.trace_sums(host, ("net_rx", "net_tx")) if _usual(p) >= MIN_USUAL_TRAFFIC]
    if not known:
        return None
    limits = [IDLE_SHARE * _usual(points) for points in known]
    times = sorted({t for points in known for t in points if t >= interval})
    idle = {t: all(points.get(t, 0.0) <= limit for points, limit in zip(known, limits, strict=True)) for t in times}
    return list(_runs(times, idle, interval))


def _runs(times: Sequence[float], idle: Mapping[float, bool], interval: float) -> Iterator[IdleSpan]:
    """Yield the spans of consecutive idle samples; a missing sample ends a span."""
    numbered, number = [], 0
    for k, t in enumerate(times):
        number += k > 0 and (t - times[k - 1] > 2 * interval or idle[t] != idle[times[k - 1]])
        numbered.append((number, t))
    for _, group in groupby(numbered, key=lambda pair: pair[0]):
        run = [t for _, t in group]
        if idle[run[0]]:
            yield IdleSpan(run[0] - interval, run[-1])


def _usual(points: Mapping[float, float]) -> float:
    """Return the 90th percentile of the samples of a window, so that a stall may last more than half of it."""
    values = sorted(points.values())
    return values[min(len(values) - 1, int(USUAL_QUANTILE * len(values)))] if values else 0.0


def _idle_by_seconds(evidence: Evidence, duration: float) -> list[IdleSpan] | None:
    """Return the spans in which no request ended, from the tool's log; None without rates per second."""
    counts: dict[int, float] = {}
    for row in evidence.samples:
        if row["series"] in RATES_BY_SECOND and row["metric"] == "requests_per_s":
            counts[int(row["x"])] = counts.get(int(row["x"]), 0.0) + float(row["value"])
    if not counts:
        return None
    first = min(counts)
    end = max(max(counts), first + int(duration) - 1) + 1
    busy = sorted(second for second, count in counts.items() if count)
    borders = zip([first - 1, *busy], [*busy, end], strict=True)
    return [IdleSpan(float(one + 1 - first), float(next_ - first)) for one, next_ in borders if next_ > one + 1]
