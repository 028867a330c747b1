"""Rules on limits of hosts and services that nobody reports: CPU quotas, connections that are never answered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import median_low
from typing import Any

from loadbook.core.units import format_percent, pluralize
from loadbook.modes.base import PLAIN, mode_of_record
from loadbook.store.run_record import fact_before
from loadbook.store.trial_record import ServiceRecord, TrialRecord
from loadbook.tools.served_load import MIN_SHARE_AT_WORK
from loadbook.validity.base import Evidence, RuleHit, not_checked
from loadbook.validity.load import driver_hosts, monitor_of
from loadbook.validity.responses import busy_connections

# tools that print the mean of all requests, and count no request that is never answered
COMPLETE_LATENCIES = ("wrk",)
# of the connections asked for; the rest of a request's cycle is the load generator's own work, which takes a good part
# of it if it uses more than MAX_DRIVER_CPU (CPUs) or this is not known: then `MIN_SHARE_AT_WORK` is the limit
MIN_BUSY_SHARE, MAX_DRIVER_CPU = 0.6, 0.8
# share of the time since the window began for which unserved connections wait, and seconds before it at which an
# interleaved load may have opened its connections
LASTING_SHARE, BEFORE_S = 0.5, 10.0
# seconds: earlier looks may be of the warm-up's connections; by how much a look may be late
FIRST_LOOK_S, LATE_LOOK_S = 0.5, 0.75
# of the connections at work; with fewer, some were idle
IDLE_SHARE = 0.9
# an address that stands for all addresses of a host
ANY_ADDRESS = ("0.0.0.0", "[::]")  # noqa: S104
# what services of a host use for each other; at its other addresses, other runs and treatments have services, too
LOOPBACK = {"127.0.0.1", "[::1]"}
_IP_ADDRESS = re.compile(r"\[.*\]|[\d.]+", re.ASCII)  # or a host name, which is that of any of its addresses


def cpu_throttled(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge the time for which a CPU quota stopped the load generator or a service.

    A quota that the study itself gives to a service is not judged: it is what the study asks for.
    """
    for monitor in evidence.record.monitors:
        stopped = evidence.trace_means(monitor.host, "throttled_time")
        if not stopped or max(stopped.values()) <= evidence.thresholds.throttled:
            continue
        label = max(stopped, key=lambda name: stopped[name])
        quota = _quota_at_work(evidence, monitor.host, label)
        periods = evidence.trace_means(monitor.host, "throttled_periods").get(label, 0.0)
        name = re.sub(r"\.\d+$", "", label)  # of an interleaved block, with the arm's number: haproxy.1
        is_driver = name == evidence.record.tool
        observation = f"a CPU quota of {monitor.host}" + (f" ({quota:g} CPUs)" if quota is not None else "")
        observation += f" stopped {'the load generator' if is_driver else name} in "
        observation += f"{format_percent(periods, 0, signed=False)} of its periods"
        yield evidence.hit("cpu_throttled", "doubt", observation, monitor.host)


def hidden_cpu_time(records: Sequence[TrialRecord], facts: Mapping[str, Any]) -> Iterator[RuleHit]:
    """Say that `stolen_cpu` and `foreign_cpu` find nothing on a host whose /proc/stat is that of lxcfs.

    lxcfs, in containers of Incus and Proxmox, shows a container's own CPU time only, without steal and other tenants
    (lxcfs 5.0). `facts` as in `facts_differ`.
    """
    for host in dict.fromkeys(monitor.host for record in records for monitor in record.monitors):
        if fact_before(facts, host, "proc_stat") == "lxcfs":
            reason = f"/proc/stat of {host} comes from lxcfs, which hides other tenants and stolen time"
            yield not_checked("stolen_cpu", reason, host=host)
            yield not_checked("foreign_cpu", reason, host=host)


def unserved_connections(evidence: Evidence) -> Iterator[RuleHit]:
    """Find connections of a closed load that nobody served: no load generator says so, as long as none times out.

    Either they wait in the accept queue of a service, or rate x mean latency are far below the connections that were
    asked for (Little's law), by more than the driver's own work explains. Of wrk only: `little_law` judges other tools.
    """
    workload = evidence.record.workload
    connections = float(workload.get("connections") or 0)
    if workload.get("model", "closed") != "closed" or not connections:
        return
    busy = busy_connections(evidence)
    at_work = None if isinstance(busy, str) or mode_of_record(evidence.record).name != PLAIN else busy
    # the sampler may have seen a connection a look after it came; granted where some connections must have been idle
    queues = _unaccepted(evidence, connections)
    if not queues and at_work and at_work.share < IDLE_SHARE:
        queues = _unaccepted(evidence, connections, LATE_LOOK_S)
    if queues:
        host, where, waiting = max(queues, key=lambda queue: queue[2])
        observation = f"at least {pluralize(round(waiting), 'connection')} of {connections:,.0f} waited in {where}, and"
        observation += " no process accepted them"
        observation += f"; {at_work.text}" if at_work and at_work.share < 1 else ""
        yield evidence.hit("unserved_connections", "doubt", observation, host)
        return
    complete = evidence.record.tool in COMPLETE_LATENCIES and "latency_censored" not in evidence.parser_doubts
    if complete and workload.get("keepalive", True) and at_work and at_work.share < _least_share_at_work(evidence):
        yield evidence.hit("unserved_connections", "doubt", at_work.text)


def _unaccepted(evidence: Evidence, most: float, late_s: float = 0.0) -> list[tuple[str, str, float]]:
    """Return (host, name of the queue, connections) of accept queues with connections that waited most of the time.

    The sampler looks about twice a second while connections wait, and tells how many were there at its last look, too,
    and how long half of them have been. At half of the looks, that must be most of the time since the window began,
    less `late_s` seconds. Longer waits, and more connections than `most`, are not of the load.
    """
    services = evidence.record.services
    own = {service.listens: service for service in services if service.listens}
    addresses = {_address(place) for place in own}
    found: list[tuple[str, str, float]] = []
    for host in dict.fromkeys(service.host for service in services):
        waits = evidence.trace_points(host, "accept_wait")
        for item, points in evidence.trace_points(host, "unaccepted").items():
            looks = [
                number if LASTING_SHARE * t - late_s <= waits[item].get(t, 0.0) <= t + BEFORE_S else 0.0
                for t, number in points.items()
                if t >= FIRST_LOOK_S
            ]
            number = median_low(looks) if looks else 0.0
            if not 1 <= number <= most:
                continue
            if service := _service_at(item, own):
                found.append((service.host, f"the accept queue of {service.service}", number))
            elif _address(item) in LOOPBACK - addresses:
                found.append((host, f"the accept queue of {item}, which is no service of the study", number))
    return found


def _service_at(item: str, own: Mapping[str, ServiceRecord]) -> ServiceRecord | None:
    """Return the service that listens at "address:port", also if one of them stands for all addresses."""
    item_address, _, item_port = item.rpartition(":")
    for place, service in own.items():
        address, _, port = place.rpartition(":")
        is_address = item_address in (address, *ANY_ADDRESS) or not _IP_ADDRESS.fullmatch(address)
        if port == item_port and is_address:
            return service
    return None


def _address(place: str) -> str:
    return place.rpartition(":")[0]


def _quota_at_work(evidence: Evidence, host: str, label: str) -> float | None:
    """Return the quota (CPUs) that stopped a label's processes longest in one sample; None if not known."""
    stopped = evidence.trace_points(host, "throttled_time").get(label, {})
    quotas = evidence.trace_points(host, "cpu_quota").get(label, {})
    return quotas.get(max(stopped, key=lambda t: stopped[t])) if stopped else None


def _least_share_at_work(evidence: Evidence) -> float:
    """Return which share of the connections must be at work, by how busy the CPUs of drivers and generators were."""
    threads, least = int(evidence.record.workload.get("threads") or 1), MIN_BUSY_SHARE
    for host in driver_hosts(evidence):
        monitor = monitor_of(evidence, host)
        busy = evidence.cpu_means(monitor, "cpu_busy") if monitor else {}
        used = sum(mean for item, mean in evidence.trace_means(host, "process_cpu").items() if item.startswith("wrk:"))
        if not busy or max(busy.values()) > MAX_DRIVER_CPU or used / threads > MAX_DRIVER_CPU:
            least = MIN_SHARE_AT_WORK
    return least
