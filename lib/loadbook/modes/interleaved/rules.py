"""Rules on interleaved trials: late slices, slices without work (a stall), CPU time outside of slices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from loadbook.core.units import format_duration, format_percent
from loadbook.modes.plain.rules import PlainRules
from loadbook.store.trial_record import PIECE_SERIES, SLICE_SERIES, InterleavedRecord, clock_error_s
from loadbook.validity.base import Evidence, RuleHit, Severity

# a slice is idle below this share of the largest value of the trial, so that a stall may last most of it
IDLE_SHARE = 0.05
# least largest values (B/s, CPUs in use); with less, idling means nothing
MIN_LARGEST = {"received_per_s": 10_000.0, "generator_cpu": 0.01, "service_cpu": 0.01}
# a service that works on (garbage collection) is slow and not frozen
WORK_SHARE = 0.2
# CPUs that generator and services waited for in a slice; with more, other programs had the CPU, and nothing stood still
MAX_WAITING = 0.25


class _OwnSlice(NamedTuple):
    """One slice of a trial, or a piece of one: start (s), length (s), and the values known of it."""

    start_s: float
    length_s: float
    values: Mapping[str, float]


def late_slices(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge how many slices of an interleaved trial lasted much longer than planned: its driver was disturbed."""
    interleaved = evidence.record.interleaved
    if interleaved is None:
        return
    if interleaved.late_share is None:
        yield evidence.unchecked("late_slices", "there are too few slices")
    elif interleaved.late_share > evidence.thresholds.late_slices:
        share = format_percent(interleaved.late_share, 0, signed=False)
        planned = format_duration(interleaved.slice_s)
        yield evidence.hit("late_slices", "doubt", f"{share} of its slices lasted 1.5 times the {planned} planned")


def stall_in_slices(evidence: Evidence, shortest_s: float) -> Iterator[RuleHit]:
    """Find slices, or pieces of long ones, of an interleaved trial in which nothing was served for over `shortest_s`.

    In such a slice the driver received next to nothing, or the load generator used next to no CPU time. A service that
    used CPU time all the same is slow and not frozen; where that is not known, the trial is doubtful. A slice in which
    generator or services waited for a CPU is no part of a stall.
    """
    all_slices = _read_slices(evidence, SLICE_SERIES)
    # in the first and the last slice, the load generator starts and ends
    pieces = _read_slices(evidence, PIECE_SERIES)
    slices = pieces or all_slices[1:-1]
    limits = _idle_limits(slices)
    if not {"received_per_s", "generator_cpu"} & limits.keys():
        yield evidence.unchecked("stall", "the traffic of its slices was not recorded, or is too small")
        return
    runs = [list(group) for idle, group in groupby(slices, key=lambda turn: _is_idle(turn, limits)) if idle]
    spans = [span for span in runs if _length_s(span) > shortest_s]
    opened_s, is_known = all_slices[0].start_s, "service_cpu" in limits
    service_idle = [is_known or _is_service_idle(evidence, span, opened_s) for span in spans]
    stalls = [turn for span, idle in zip(spans, service_idle, strict=True) if idle is not False for turn in span]
    if not stalls:
        return
    frozen_s = sum(_length_s(span) for span, idle in zip(spans, service_idle, strict=True) if idle)
    level: Severity = "invalid" if frozen_s / _length_s(slices) > evidence.thresholds.stall else "doubt"
    noun = "pieces of slices" if pieces else "slices"
    lengths = f"{format_duration(_length_s(stalls))} of {format_duration(_length_s(slices))}"
    observation = f"nothing was served in {len(stalls)} of {len(slices)} {noun} ({lengths}),"
    observation += f" first {format_duration(stalls[0].start_s - opened_s)} after its begin"
    yield evidence.hit("stall", level, observation)


def _length_s(slices: Iterable[_OwnSlice]) -> float:
    return sum(turn.length_s for turn in slices)


def _read_slices(evidence: Evidence, series: str) -> list[_OwnSlice]:
    """Return the slices of a trial, or the pieces of its slices, in order."""
    by_start: dict[float, dict[str, float]] = {}
    for row in evidence.samples:
        if row["series"] == series:
            by_start.setdefault(float(row["x"]), {})[str(row["metric"])] = float(row["value"])
    return [_OwnSlice(start_s, by_start[start_s]["slice"], by_start[start_s]) for start_s in sorted(by_start)]


def _is_service_idle(evidence: Evidence, span: Sequence[_OwnSlice], opened_s: float) -> bool | None:
    """Return whether the arm's services used next to no CPU time in a span of slices, by the samples of their hosts.

    None if no sample lies in it.
    """
    begin_s, end_s = span[0].start_s - opened_s, span[-1].start_s + span[-1].length_s - opened_s
    inside: list[bool] = []
    for host, name in {(service.host, service.service) for service in evidence.record.services}:
        interval_s = next((m.interval_s for m in evidence.record.monitors if m.host == host), 0.0)
        for points in evidence.trace_sums(host, ("process_cpu",), f"{name}:"):
            largest = max(points.values(), default=0.0)
            if largest >= MIN_LARGEST["service_cpu"]:
                within = [value for t, value in points.items() if begin_s <= t - interval_s and t <= end_s]
                inside += [value <= IDLE_SHARE * largest for value in within]
    return all(inside) if inside else None


def _idle_limits(slices: Sequence[_OwnSlice]) -> dict[str, float]:
    """Return metric -> value below which a slice is idle, for the metrics known of all slices and large enough."""
    limits: dict[str, float] = {}
    for metric, least in MIN_LARGEST.items():
        values = [turn.values[metric] for turn in slices if metric in turn.values]
        if values and len(values) == len(slices) and max(values) >= least:
            limits[metric] = max(values) * (WORK_SHARE if metric == "service_cpu" else IDLE_SHARE)
    return limits


def _is_idle(turn: _OwnSlice, limits: Mapping[str, float]) -> bool:
    served_nothing = any(turn.values[m] <= limits[m] for m in ("received_per_s", "generator_cpu") if m in limits)
    service_rested = "service_cpu" not in limits or turn.values["service_cpu"] <= limits["service_cpu"]
    return served_nothing and service_rested and turn.values.get("waiting", 0.0) <= MAX_WAITING


def unasked_work(evidence: Evidence) -> Iterator[RuleHit]:
    """Find services of an interleaved trial that work in gaps and in the slices of other treatments.

    Where their CPU time there is not known, their CPU use just before the slices, without any load, is taken to have
    gone on in the others' slices.
    """
    interleaved, window = evidence.record.interleaved, evidence.window_s
    if interleaved is None or window is None or interleaved.active_s is None:
        return
    services = evidence.record.services
    if any(not service.cpu_s for service in services):
        names = " and ".join(dict.fromkeys(service.service for service in services if not service.cpu_s))
        yield evidence.unchecked("unasked_work", f"the CPU time of {names} is not known")
        return
    total_s, outside_s = sum(service.cpu_s or 0.0 for service in services), interleaved.outside_cpu_s
    source = "outside of its slices"
    if outside_s is None:
        if any(service.idle_cpu_share is None for service in services):
            yield evidence.unchecked("unasked_work", "the CPU time of its services without load is not known")
            return
        others_s = max(0.0, window - interleaved.active_s)
        outside_s = sum(service.idle_cpu_share or 0.0 for service in services) * others_s
        source = "in the others' slices, if it went on as just before the load"
    if outside_s > evidence.thresholds.unasked_work * total_s:
        names = " and ".join(dict.fromkeys(service.service for service in services))
        share, used = format_percent(outside_s / total_s, 1, signed=False), format_duration(outside_s)
        observation = f"{names} used {used} of CPU time {source}: {share} of its CPU time"
        yield evidence.hit("unasked_work", "doubt", observation)


def drivers_apart_in_slices(evidence: Evidence, interleaved: InterleavedRecord) -> Iterator[RuleHit]:
    """Judge the share of an interleaved trial's slices in which not all drivers put load on it.

    While they are apart, one driver's slice lies beside another treatment's.
    """
    record, limits, share = evidence.record, evidence.thresholds, interleaved.apart_share
    if share is None:
        yield evidence.unchecked("drivers_apart", "it is not recorded when each driver put load on it")
        return
    error_s = clock_error_s([driver.host for driver in record.drivers], record.clocks)
    if share > limits.drivers_apart_doubt:
        level: Severity = "invalid" if share > limits.drivers_apart else "doubt"
        together = format_percent(1 - share, 0, signed=False)
        observation = f"in {together} of its slices all {len(record.drivers)} drivers were at work at once"
        yield evidence.hit("drivers_apart", level, observation)
    elif error_s > min(limits.drivers_apart_doubt * interleaved.slice_s, interleaved.gap_s):
        observation = f"the drivers' clocks are known to {format_duration(error_s)} only, with slices of "
        observation += f"{format_duration(interleaved.slice_s)} and gaps of {format_duration(interleaved.gap_s)}"
        yield evidence.hit("drivers_apart", "doubt", observation)


class InterleavedRules(PlainRules):
    """Validity rules on trials of interleaved blocks, whose windows contain the slices of other treatments."""

    trial_rules = (late_slices, unasked_work)

    def drivers_apart(self, evidence: Evidence) -> Iterator[RuleHit]:
        """Judge the share of a trial's slices in which not all drivers put load on it."""
        assert evidence.record.interleaved is not None
        yield from drivers_apart_in_slices(evidence, evidence.record.interleaved)

    def stall(self, evidence: Evidence, shortest_s: float) -> Iterator[RuleHit]:
        """Find slices in which nothing was served for over `shortest_s`."""
        yield from stall_in_slices(evidence, shortest_s)


FACET = InterleavedRules()
