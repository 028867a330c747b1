"""Rules about the hosts while they were measured: other load, gaps, clocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from loadbook.core.units import format_percent
from loadbook.gates.base import Evidence, RuleHit


def stolen_cpu(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge the steal time of the host's own CPUs."""
    if not evidence.record.monitors:
        yield evidence.unchecked("stolen_cpu", "no monitor was running")
    for monitor in evidence.record.monitors:
        steal = evidence.cpu_means(monitor, "cpu_steal")
        if not steal:
            yield evidence.unchecked("stolen_cpu", "no steal trace", monitor.host)
        elif max(steal.values()) > evidence.thresholds.steal:
            cpu = max(steal, key=lambda item: steal[item])
            yield evidence.hit(
                "stolen_cpu", "doubt", f"{format_percent(steal[cpu], 1, signed=False)} of {cpu} was stolen", monitor.host
            )


def foreign_cpu(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge the CPU time on a host's own CPUs that no watched process used, in CPUs.

    Hosts may share a machine (the lab): only CPUs of the host's mask are counted, and where masks overlap the
    processes watched for the other host are no strangers. Stolen time, part of busy, is another rule's.
    """
    if not evidence.record.monitors:
        yield evidence.unchecked("foreign_cpu", "no monitor was running")
    for monitor in evidence.record.monitors:
        busy = evidence.cpu_means(monitor, "cpu_busy")
        watched = [evidence.trace_means(m.host, "process_cpu") for m in evidence.monitors_sharing_cpus(monitor)]
        if not busy or not any(watched):
            yield evidence.unchecked("foreign_cpu", "no trace of CPUs and processes", monitor.host)
            continue
        stolen = evidence.cpu_means(monitor, "cpu_steal")
        foreign = sum(busy.values()) - sum(stolen.values()) - sum(sum(means.values()) for means in watched)
        if foreign > evidence.thresholds.foreign_cpu:
            observation = f"processes that are neither driver nor service used {format_percent(foreign, 0, signed=False)} of a CPU"
            yield evidence.hit("foreign_cpu", "doubt", observation, monitor.host)


def not_at_rest(evidence: Evidence) -> Iterator[RuleHit]:
    """Find hosts that were not back at rest when the trial began: what the trial before left is carried over."""
    if not evidence.record.reset:
        yield evidence.unchecked("not_at_rest", "the hosts' state before the trial was not recorded")
    for host, state in evidence.record.reset.items():
        if not state.get("at_rest", 1.0):
            observation = (
                f"{state.get('time_wait', 0):,.0f} sockets in TIME-WAIT after {state.get('waited_s', 0):.0f} s of rest"
            )
            yield evidence.hit("not_at_rest", "doubt", observation, host)


def monitor_gaps(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge the share of the window that samples cover."""
    window = evidence.window_s
    if not evidence.record.monitors or not window:
        yield evidence.unchecked("monitor_gaps", "no monitor was running" if window else "no measurement window")
        return
    for monitor in evidence.record.monitors:
        times = evidence.sample_times(monitor.host)
        edges = [0.0, *times, window]
        gaps = [later - earlier for earlier, later in pairwise(edges)]
        lost_s = sum(gap - monitor.interval_s for gap in gaps if gap > 2 * monitor.interval_s)
        covered = max(0.0, 1 - lost_s / window) if times else 0.0
        if covered < evidence.thresholds.trace_coverage:
            observation = f"samples cover {format_percent(covered, 0, signed=False)} of the measurement"
            yield evidence.hit("monitor_gaps", "doubt", observation, monitor.host)


def clock(evidence: Evidence) -> Iterator[RuleHit]:
    """Find durations that cannot be, and host clocks that moved against ours during the trial."""
    duration, window = evidence.total("duration"), evidence.window_s
    if duration is not None and duration <= 0:
        yield evidence.hit("clock", "invalid", f"the tool measured for {duration:g} s")
    elif duration is not None and window and duration > evidence.thresholds.absurd_duration * max(window, 1.0):
        observation = f"the tool says it measured for {duration:g} s, our clock says {window:.1f} s"
        yield evidence.hit("clock", "invalid", observation)
    if not evidence.record.clocks:
        yield evidence.unchecked("clock", "no clock was compared")
    for host, offsets in evidence.record.clocks.items():
        if offsets.offset_after_s is None:
            yield evidence.unchecked("clock", "the clock was not compared after the load", host)
            continue
        step = abs(offsets.offset_after_s - offsets.offset_before_s)
        if step > evidence.thresholds.clock_step_s + offsets.rtt_before_s + (offsets.rtt_after_s or 0.0):
            yield evidence.hit("clock", "doubt", f"the host's clock moved by {step:.2f} s against ours", host)
