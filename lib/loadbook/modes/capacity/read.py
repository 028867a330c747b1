"""Outcomes of probes from the raw files, and what follows from them: a capacity, or the time at the rate of a start."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from loadbook.core.errors import DataError
from loadbook.core.metrics import CAPACITY, OBJECTIVE_TIME
from loadbook.ingestion.host_metrics import Row
from loadbook.ingestion.trial_rows import ALL_DRIVERS, TrialRows, read_load_rows
from loadbook.modes.capacity.spec import offered_requests, time_of_margin_s
from loadbook.modes.capacity.stats import capacity_from_margins
from loadbook.modes.capacity.stats_objective import Objective, Outcome
from loadbook.modes.plain.read import PlainRead
from loadbook.store.trial_record import PROBE_SERIES, RECORD_NAME, CapacityRecord, ProbeRecord, read_trial
from loadbook.tools.base import Measurement, Sample

SERVICE_TIME = "service_time"
BUSY_SHARE = 0.9  # of the connections on average: all of them, but for the time between two requests


def probe_outcome(rows: TrialRows, capacity: CapacityRecord) -> Outcome | None:
    """Return the outcome of a probe from its rows, read with times; None if these lack errors or times of requests.

    Responses with an error's status are among the times. They count as failed, and the fastest times are left out for
    them, as an error is often the fastest answer.
    """
    return _outcome(rows, capacity, capacity.metric, _offered(rows))


def is_driver_late(rows: TrialRows, capacity: CapacityRecord) -> bool:
    """Return whether the objective was missed only because the load generator started requests late, or not at all.

    Requests that it did not start are its own fault if the server answered in time on all connections that it had.
    """
    outcome = probe_outcome(rows, capacity)
    if outcome is not None and outcome.missed == "latency":
        return capacity.metric != SERVICE_TIME and _is_served_well(rows, capacity, _offered(rows))
    if outcome is not None and outcome.missed == "rate":
        return _are_connections_busy(rows) and _is_served_well(rows, capacity, _started(rows))
    return False


def _is_served_well(rows: TrialRows, capacity: CapacityRecord, requests: int) -> bool:
    """Return whether so many requests met the objective by their times from the actual start."""
    served = _outcome(rows, capacity, SERVICE_TIME, requests)
    return served is not None and served.missed is None


def _are_connections_busy(rows: TrialRows) -> bool:
    """Return whether the load used all of its connections all the time; False if it could open any number of them."""
    load, times_us = rows.record.workload, rows.times_us.get(SERVICE_TIME, Counter())
    busy = sum(us * count for us, count in times_us.items()) / 1e6 / load["duration_s"]
    return bool(busy >= BUSY_SHARE * (load.get("max_connections") or math.inf))


def _started(rows: TrialRows) -> int:
    """Return the number of requests that were started: those with an answer, and those that failed without one."""
    totals, answered = _totals(rows), sum(rows.times_us.get(SERVICE_TIME, Counter()).values())
    return max(1, round(answered + totals.get("errors", 0.0) - totals.get("errors_status", 0.0)))


def _totals(rows: TrialRows) -> dict[str, float]:
    """Return the sums over all load generators by metric."""
    return {m["metric"]: m["value"] for m in rows.measurements if m["driver"] == ALL_DRIVERS}


def _offered(rows: TrialRows) -> int:
    """Return the number of requests that the rate asked for."""
    load = rows.record.workload
    return offered_requests(load["rate_per_s"], load["duration_s"])


def _outcome(rows: TrialRows, capacity: CapacityRecord, metric: str, offered: int) -> Outcome | None:
    """Return the outcome of so many requests by their times of one metric; None if times or errors are not told."""
    objective, totals = Objective(capacity.within_s, capacity.share, capacity.errors), _totals(rows)
    errors = totals.get("errors")
    times = rows.times_us.get(metric, Counter())
    if errors is None or (not times and totals.get("requests")):
        return None
    ordered, counts = sorted(times), list[int]()
    failed = int(totals.get("errors_status") or 0)  # for these the fastest times are left out
    for us in ordered:
        taken = min(times[us], failed)
        failed -= taken
        counts.append(times[us] - taken)
    return objective.outcome(offered, int(errors), ordered, counts)


def capacity_of(probes: Sequence[ProbeRecord]) -> float | None:
    """Return the capacity (1/s) from the probes of a search; None without one that counts."""
    counted = [(probe.rate_per_s, probe.margin) for probe in probes if probe.phase == "search"]
    known = [(rate, margin) for rate, margin in counted if margin is not None]
    return capacity_from_margins(*zip(*known, strict=True)) if known else None


def add_capacity_rows(rows: TrialRows, folder: Path) -> None:
    """Add the capacity of a trial to its measurements, and its probes to its samples, all from the raw files."""
    capacity = rows.record.capacity
    assert capacity is not None
    recorded = [probe for probe in capacity.probes if probe.counts]
    probes = [read for probe in recorded if (read := _read_again(folder, probe, capacity, rows))]
    for probe in probes:
        rows.samples += _samples(probe)
    if len(probes) < len(recorded):
        return
    capacity_per_s = capacity_of(probes)
    values = [] if capacity_per_s is None else [Measurement(CAPACITY, "value", capacity_per_s, "1/s", None)]
    values += [
        Measurement(OBJECTIVE_TIME, "value", time_of_margin_s(capacity.within_s, probe.margin), "s", None)
        for probe in probes
        if probe.phase == "start" and probe.margin is not None
    ]
    rows.measurements += [{"driver": ALL_DRIVERS, **value.as_row()} for value in values]


def _read_again(folder: Path, probe: ProbeRecord, capacity: CapacityRecord, rows: TrialRows) -> ProbeRecord | None:
    """Return a probe with its outcome by its files; None, with a problem, if they do not tell it."""
    if probe.missed == "server":
        return probe
    prefix = f"{probe.folder}/"
    changed = [name.removeprefix(prefix) for name in rows.changed if name.startswith(prefix)]
    try:
        own = read_load_rows(folder / probe.folder, read_trial(folder / probe.folder), changed, with_times=True)
    except DataError as error:
        rows.add_problem("unreadable-output", error.message, file=f"{prefix}{RECORD_NAME}")
        return None
    outcome = probe_outcome(own, capacity)
    if outcome is None:
        rows.problems += [problem | {"file": f"{prefix}{problem['file']}"} for problem in own.problems]
        return None
    return probe.model_copy(update=outcome._asdict())


def _samples(probe: ProbeRecord) -> Iterator[Row]:
    """Yield the rows of a probe in the table samples: its share within the limit, and its margin, at its rate."""
    for metric, value in (("share_within", probe.share_within), ("margin", probe.margin)):
        if value is not None:
            sample = Sample(PROBE_SERIES[probe.phase], metric, probe.rate_per_s, "1/s", value, "1")
            yield {"driver": ALL_DRIVERS} | sample._asdict()


class CapacityRead(PlainRead):
    """What is read of a trial with probes."""

    def add_rows(self, rows: TrialRows, folder: Path) -> None:
        """Add the capacity of a trial and its probes."""
        add_capacity_rows(rows, folder)


FACET = CapacityRead()
