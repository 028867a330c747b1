"""Rules about the load: whether the driver could give it, whether it was met, and which CPUs it shares."""

from __future__ import annotations

from collections.abc import Iterator

from loadbook.core.units import percent
from loadbook.gates.base import Evidence, Hit, Level
from loadbook.records.manifest import MonitorRecord, ServiceRecord

# tools that poll without pause: their CPU is always full and says nothing (httperf(1))
SPINNING_TOOLS = ("httperf",)


def driver_saturated(evidence: Evidence) -> Iterator[Hit]:
    """Judge each driver over the measurement window: its busiest CPU, and the generator's own threads.

    With `driver_cpu = 1` (a study of the generators themselves) a full CPU is doubted, never invalid.
    """
    for host in drivers(evidence):
        if evidence.record.tool in SPINNING_TOOLS:
            yield evidence.unchecked("driver_saturated", f"{evidence.record.tool} fills its CPU by design", host)
            continue
        monitor = monitor_of(evidence, host)
        busy = evidence.cpu_means(monitor, "cpu_busy") if monitor else {}
        if not busy:
            yield evidence.unchecked("driver_saturated", "no CPU trace of the driver", host)
            continue
        used = _used(evidence, monitor) if monitor else None
        yield from list(_busiest(evidence, host, busy, used)) or _threads(evidence, host)


def _used(evidence: Evidence, monitor: MonitorRecord) -> float | None:
    """Return how many CPUs the processes of a driver, and of others that share its CPUs, used; None: not known."""
    sharing = [m.host for m in evidence.neighbours(monitor) if m.host == monitor.host or m.host in drivers(evidence)]
    watched = [mean for host in sharing for mean in evidence.means(host, "process_cpu").values()]
    return sum(watched) if watched else None


def _busiest(evidence: Evidence, host: str, busy: dict[str, float], used: float | None) -> Iterator[Hit]:
    """Judge the busiest CPU: full of the generator's own work is invalid, full of others' work a doubt."""
    cpu = max(busy, key=lambda item: busy[item])
    if busy[cpu] < evidence.thresholds.driver_cpu_doubt:
        return
    seen = f"{cpu} of the driver was {percent(busy[cpu], 0, signed=False)} busy while measuring"
    own, least = 1.0 if used is None else used / sum(busy.values()), evidence.thresholds.driver_own_share
    if own < least:
        seen += f", {percent(own, 0, signed=False)} of that with the load"
    full = busy[cpu] > evidence.thresholds.driver_cpu and own >= least
    yield evidence.hit("driver_saturated", "invalid" if full else "doubt", seen, host)


def _threads(evidence: Evidence, host: str) -> Iterator[Hit]:
    """Judge the generator's threads: those that move between CPUs fill none of them, yet can do no more."""
    tool, threads = evidence.record.tool, int(evidence.record.workload.get("threads") or 1)
    watched = evidence.means(host, "process_cpu")
    own = sum(mean for item, mean in watched.items() if item.partition(":")[0] == tool) / threads
    if own >= evidence.thresholds.driver_cpu_doubt:
        counted = f"the {threads} threads" if threads > 1 else "the one thread"
        seen = f"{counted} of {tool} used {percent(own, 0, signed=False)} of a CPU{' each' if threads > 1 else ''}"
        level: Level = "invalid" if min(own, 1.0) > evidence.thresholds.driver_cpu else "doubt"
        yield evidence.hit("driver_saturated", level, seen, host)


def shared_cores(evidence: Evidence) -> Iterator[Hit]:
    """Find driver and service on one machine (same boot id) without disjoint CPU masks."""
    boots = evidence.record.boot_ids
    if not evidence.record.services:
        yield evidence.unchecked("shared_cores", "it is not recorded where the service ran")
    for host in drivers(evidence):
        monitor = monitor_of(evidence, host)
        for service in evidence.record.services:
            if host not in boots or service.host not in boots:
                yield evidence.unchecked("shared_cores", "a boot id is not known", host)
            elif boots[host] == boots[service.host] and monitor is None:
                yield evidence.unchecked("shared_cores", "the driver's CPU mask is not known", host)
            elif boots[host] == boots[service.host] and monitor:
                yield from _same_machine(evidence, monitor, service)


def _same_machine(evidence: Evidence, driver: MonitorRecord, service: ServiceRecord) -> Iterator[Hit]:
    other = monitor_of(evidence, service.host)
    own, its = set(driver.cpus), set(service.cpus) or set(other.cpus if other else ())
    shared = sorted(own & its)
    if shared or not own or not its:
        which = f"CPU {', '.join(map(str, shared))}" if shared else "no CPU mask separates them"
        seen = f"the driver and {service.service} run on one machine ({which})"
        yield evidence.hit("shared_cores", "doubt", seen, driver.host)


def offered_ceiling(evidence: Evidence) -> Iterator[Hit]:
    """Find open load that was served whole: the rate is the generator's setting."""
    offered, achieved = rates(evidence)
    if offered is None:
        return
    if achieved is None:
        yield evidence.unchecked("offered_ceiling", "the tool reports no rate")
    elif achieved >= evidence.thresholds.offered_ceiling * offered and not evidence.total("errors", "count"):
        seen = f"{achieved:,.0f} of {offered:,.0f} offered requests/s were served without error"
        yield evidence.hit("offered_ceiling", "doubt", seen)


def offered_shortfall(evidence: Evidence) -> Iterator[Hit]:
    """Find open load of which a part was not served."""
    offered, achieved = rates(evidence)
    if offered is None:
        return
    if achieved is None:
        yield evidence.unchecked("offered_shortfall", "the tool reports no rate")
    elif achieved < evidence.thresholds.offered_shortfall * offered:
        seen = f"{achieved:,.0f} of {offered:,.0f} offered requests/s were answered "
        seen += f"({percent(achieved / offered, 0, signed=False)})"
        yield evidence.hit("offered_shortfall", "doubt", seen)


def drivers(evidence: Evidence) -> list[str]:
    """Return the hosts that generated load."""
    return list(dict.fromkeys(driver.host for driver in evidence.record.drivers))


def monitor_of(evidence: Evidence, host: str) -> MonitorRecord | None:
    """Return the monitor of a host."""
    return next((monitor for monitor in evidence.record.monitors if monitor.host == host), None)


def rates(evidence: Evidence) -> tuple[float | None, float | None]:
    """Return offered (None for closed load) and achieved requests per second."""
    offered = evidence.record.workload.get("rate_per_s") or evidence.total("offered_per_s")
    return (float(offered) if offered else None), evidence.total("requests_per_s", "value")
