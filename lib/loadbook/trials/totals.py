"""A trial's totals over its drivers: what can be added up is, and what cannot is left out, never averaged."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence

from loadbook.tools.base import Measurement, ParsedReport

SUMMED_UNITS = ("1", "B", "1/s", "B/s")
# a share of one CPU: its sum over drivers means nothing
NEVER_SUMMED = ("driver_cpu",)


def driver_totals(reports: Sequence[ParsedReport]) -> list[Measurement]:
    """Return the rows of driver ``*``; those of a single driver are the totals.

    Of several, what every driver reports counts: counts and rates are summed, each rate over its driver's own
    duration, and the duration is the longest of theirs, by the tools' own accounts. The statistics of a time are those
    of all drivers' single times together where these are known (`Parsed.times_us`), and else there are none.
    """
    if len(reports) == 1:
        return list(reports[0].measurements)
    tables = [{(m.metric, m.statistic): m for m in report.measurements} for report in reports]
    times = _merged_times(reports)
    totals = []
    for m in reports[0].measurements if reports else ():
        if not all((m.metric, m.statistic) in table for table in tables):
            continue
        values = [table[m.metric, m.statistic].value for table in tables]
        if m.metric == "duration":
            totals.append(m._replace(value=max(values), text=None))
        elif m.unit in SUMMED_UNITS and m.metric not in NEVER_SUMMED:
            totals.append(m._replace(value=sum(values), text=None))
        elif m.metric in times and (value := statistic_s(times[m.metric], m.statistic)) is not None:
            totals.append(m._replace(value=value, text=None))
    return totals


def unmerged_times(reports: Sequence[ParsedReport]) -> list[str]:
    """Return the metrics of times that several drivers report, but not every single time: each driver has its own."""
    timed = {m.metric for report in reports for m in report.measurements if m.unit == "s" and m.metric != "duration"}
    return sorted(timed - set(_merged_times(reports))) if len(reports) > 1 else []


def _merged_times(reports: Sequence[ParsedReport]) -> dict[str, Counter[int]]:
    """Return the single times of all drivers by metric, for metrics of which each driver has them."""
    if not reports:
        return {}
    metrics = set.intersection(*(set(report.times_us) for report in reports))
    return {metric: sum((Counter(r.times_us[metric]) for r in reports), Counter()) for metric in metrics}


def statistic_s(times_us: Mapping[int, int], statistic: str) -> float | None:
    """Return a statistic of single times in s (percentiles: nearest rank); None for one that is not known."""
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
