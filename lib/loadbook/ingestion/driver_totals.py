"""Totals over all drivers of a trial: sums where a sum has a meaning, statistics of all times, no plain averages."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from loadbook.core.bucketed_times import joint_mean, joint_percentile, joint_sd
from loadbook.core.metrics import CPU_PER_RESPONSE
from loadbook.store.trial_record import TrialRecord
from loadbook.tools.base import Measurement, ParsedReport

SUMMED_UNITS = ("1", "B", "1/s", "B/s")
# shares of one CPU, whose sum over drivers has no meaning
NEVER_SUMMED = ("driver_cpu",)


def driver_totals(reports: Sequence[ParsedReport]) -> list[Measurement]:
    """Return the rows of driver ``*``, the totals over all drivers; for a single driver its own values.

    Counts and rates (each over its driver's own duration) are summed; the duration is the longest one. Statistics of
    times are computed from the times of the single requests of all drivers, else by `joint_time` from those of the
    drivers, and left out if they are not known. If a driver counts attempts, the others' requests count as such.
    """
    if len(reports) == 1:
        return list(reports[0].measurements)
    tables = [{(m.metric, m.statistic): m for m in report.measurements} for report in reports]
    if any(("attempts", "count") in table for table in tables):
        tables = [_requests_as_attempts(table) for table in tables]
    times = merged_times(reports)
    totals = []
    for m in tables[0].values() if tables else ():
        if not all((m.metric, m.statistic) in table for table in tables):
            continue
        values = [table[m.metric, m.statistic].value for table in tables]
        if m.metric == "duration":
            totals.append(m._replace(value=max(values), text=None, step=None))
        elif m.unit in SUMMED_UNITS and m.metric not in NEVER_SUMMED:
            totals.append(m._replace(value=sum(values), text=None, step=None))
        elif m.metric in times:
            if (value := statistic_s(times[m.metric], m.statistic)) is not None:
                totals.append(m._replace(value=value, text=None, step=None))
        elif m.unit == "s" and (joint := joint_time(reports, m.metric, m.statistic)):
            totals.append(m._replace(value=joint[0], text=None, step=joint[1]))
    return totals


def joint_time(reports: Sequence[ParsedReport], metric: str, statistic: str) -> tuple[float, float | None] | None:
    """Return a statistic (s) of the times of all drivers, and its step if known; None if it does not follow.

    Minimum and maximum are those of the drivers. Percentiles are those of the merged histograms. Mean and sd follow
    from the drivers' numbers of times, means and deviations.
    """
    own = [{m.statistic: m for m in report.measurements if m.metric == metric} for report in reports]
    if statistic in ("min", "max"):
        pick = min if statistic == "min" else max
        found = pick((rows[statistic] for rows in own), key=lambda row: row.value)
        return found.value, found.resolution
    if not all(metric in report.bucketed for report in reports):
        return None
    parts = [report.bucketed[metric] for report in reports]
    if statistic in ("mean", "sd") and all("mean" in rows for rows in own):
        numbers, means = [part.number for part in parts], [rows["mean"].value for rows in own]
        steps = [rows[statistic].resolution for rows in own]
        known = [step for step in steps if step is not None]
        step = max(known) if len(known) == len(steps) else None
        if statistic == "mean":
            return joint_mean(numbers, means), step
        return joint_sd(numbers, means, [rows["sd"].value for rows in own]), step
    if re.fullmatch(r"p\d+(\.\d+)?", statistic) and (joint := joint_percentile(parts, float(statistic[1:]))):
        return joint.value, joint.step or None
    return None


def _requests_as_attempts(table: Mapping[tuple[str, str], Measurement]) -> dict[tuple[str, str], Measurement]:
    """Return the rows of a driver with its requests as attempts, if each attempt of it had a response."""
    rows = dict(table)
    errors, by_status = table.get(("errors", "count")), table.get(("errors_status", "count"))
    if ("attempts", "count") in table or errors is None or errors.value > (by_status.value if by_status else 0):
        return rows
    for metric, statistic in (("attempts", "count"), ("attempts_per_s", "value")):
        answered = table.get((metric.replace("attempts", "requests"), statistic))
        if answered is not None:
            rows[metric, statistic] = answered._replace(metric=metric)
    return rows


def unmerged_times(reports: Sequence[ParsedReport], totals: Iterable[Measurement]) -> list[str]:
    """Return what has no total because a driver has neither its single times nor fine buckets of them.

    `totals` are those of `driver_totals`. It is a metric such as ``latency`` if no statistic of it has a total, else
    the statistics: ``latency p99``.
    """
    if len(reports) < 2:
        return []
    known, merged = {(m.metric, m.statistic) for m in totals}, _timed_metrics(reports)
    partly = {metric for metric, _ in known}
    names = dict.fromkeys((m.metric, m.statistic) for r in reports for m in r.measurements if m.unit == "s")
    missing = [key for key in names if key not in known and key[0] not in merged and key[0] != "duration"]
    missing.sort(key=lambda key: key[0])
    return list(dict.fromkeys(" ".join(key) if key[0] in partly else key[0] for key in missing))


def merged_times(reports: Sequence[ParsedReport]) -> dict[str, Counter[int]]:
    """Return metric -> time (us) -> number of requests of all drivers, for metrics whose times every driver has."""
    metrics = _timed_metrics(reports)
    return {metric: sum((Counter(r.times_us[metric]) for r in reports), Counter()) for metric in metrics}


def _timed_metrics(reports: Sequence[ParsedReport]) -> set[str]:
    """Return the metrics of which every driver has the single times."""
    return set.intersection(*(set(report.times_us) for report in reports)) if reports else set()


def statistic_s(times_us: Mapping[int, int], statistic: str) -> float | None:
    """Return a statistic (s) of `times_us`: time (us) -> number of requests, not empty; None if it is unknown.

    `statistic` is min, max, mean, sd, or a percentile such as p99 or p99.9 (nearest rank).
    """
    count, ordered = sum(times_us.values()), sorted(times_us)
    mean = sum(us * n for us, n in times_us.items()) / count
    if statistic in ("min", "max", "mean"):
        return {"min": ordered[0], "max": ordered[-1], "mean": mean}[statistic] / 1e6
    if statistic == "sd":
        return math.sqrt(sum((us - mean) ** 2 * n for us, n in times_us.items()) / max(1, count - 1)) / 1e6
    if not statistic.startswith("p"):
        return None
    rank = max(1, math.ceil(float(statistic[1:]) / 100 * count - 1e-9))
    reached = itertools.accumulate(times_us[us] for us in ordered)
    return next(us for us, n in zip(ordered, reached, strict=True) if n >= rank) / 1e6


def cpu_measurements(record: TrialRecord, measurements: Iterable[Measurement]) -> list[Measurement]:
    """Return CPU seconds per successful response of all services, and of those of each role.

    It is empty if the CPU time of a service is not known, or no response was successful. `measurements` are the
    totals over all drivers.
    """
    ok = next((m.value for m in measurements if (m.metric, m.statistic) == ("ok", "count")), 0.0)
    used: dict[str, float] = {}
    for service in record.services:
        if service.cpu_s is None:
            return []
        for name in (CPU_PER_RESPONSE, f"{CPU_PER_RESPONSE}.{service.role}"):
            used[name] = used.get(name, 0.0) + service.cpu_s
    return [Measurement(name, "value", cpu_s / ok, "s", None) for name, cpu_s in used.items()] if ok else []
