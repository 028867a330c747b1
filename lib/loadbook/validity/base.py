"""Evidence on one trial, which validity rules read, and hits, which they return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, Literal

from loadbook.core.validity_rules import rule_advice
from loadbook.store.trial_record import MonitorRecord, TrialRecord
from loadbook.study.limits import ValidityLimits

Severity = Literal["invalid", "doubt", "note", "unchecked"]
Row = Mapping[str, Any]
TOTAL = "*"


@dataclass(frozen=True)
class RuleHit:
    """Violation of a validity rule, or a rule without data ("unchecked"); no `trial` if it concerns the run."""

    name: str
    level: Severity
    trial: str | None
    treatment: str | None
    host: str | None
    message: str


@dataclass(frozen=True)
class Evidence:
    """One trial: its record, and its rows of tables, each a mapping from column to value.

    `rows` are measurements (driver, metric, statistic, value), `traces` those of its hosts (host, t_s, metric, item,
    value; t_s in seconds since the window's start), `samples` series within the trial (series, metric, x, value).
    `parser_doubts` are names of doubts that the parser of the tool's output raised.
    """

    record: TrialRecord
    rows: Sequence[Row]
    traces: Sequence[Row]
    thresholds: ValidityLimits
    parser_doubts: frozenset[str] = frozenset()
    samples: Sequence[Row] = ()

    def total(self, metric: str, statistic: str | None = None) -> float | None:
        """Return a metric's total over all drivers in its unit; None if the trial has none.

        Without `statistic`, it is that of the first row of the metric.
        """
        return self.value(TOTAL, metric, statistic)

    def value(self, driver: str, metric: str, statistic: str | None = None) -> float | None:
        """Return a metric of one driver, as `total`; None if the driver has none."""
        for row in self.rows:
            if (row["driver"], row["metric"]) == (driver, metric) and statistic in (None, row["statistic"]):
                return float(row["value"])
        return None

    @property
    def window_s(self) -> float | None:
        """Return the length of the measurement window in seconds; None if the window is not known."""
        window = self.record.window
        return window[1] - window[0] if window else None

    @cached_property
    def _series(self) -> dict[tuple[str, str], dict[str, list[tuple[float, float]]]]:
        """Return the points (t_s, value) of traces in the window: (host, metric) -> item, such as cpu0 -> points."""
        end = self.window_s
        series: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
        for row in self.traces:
            if end is not None and 0 <= row["t_s"] <= end:
                items = series.setdefault((row["host"], row["metric"]), {})
                items.setdefault(row["item"], []).append((float(row["t_s"]), float(row["value"])))
        return series

    def trace_means(self, host: str, metric: str) -> dict[str, float]:
        """Return the mean of a host's trace over the measurement window, per item (CPU, process, interface).

        A point covers the interval before it; one whose interval began before the window counts only if it is alone.
        """
        interval = next((m.interval_s for m in self.record.monitors if m.host == host), 0.0)
        series = self._series.get((host, metric), {})
        whole = {item: [v for t, v in points if t >= interval] for item, points in series.items()}
        return {item: fmean(whole[item] or [v for _, v in points]) for item, points in series.items()}

    def trace_points(self, host: str, metric: str) -> dict[str, dict[float, float]]:
        """Return a host's trace within the measurement window: item (CPU, process, ...) -> time (s) -> value."""
        return {item: dict(points) for item, points in self._series.get((host, metric), {}).items()}

    def trace_sums(self, host: str, metrics: Sequence[str], prefix: str = "") -> list[dict[float, float]]:
        """Return a list of one mapping: time (s) -> sum of these traces of a host; an empty list without traces.

        The sum is over all `metrics`, and over the items that begin with `prefix`.
        """
        sums: dict[float, float] = {}
        for metric in metrics:
            for item, points in self._series.get((host, metric), {}).items():
                for t, value in points if item.startswith(prefix) else ():
                    sums[t] = sums.get(t, 0.0) + value
        return [sums] if sums else []

    def cpu_means(self, monitor: MonitorRecord, metric: str) -> dict[str, float]:
        """Return the means of a per-CPU trace for the CPUs in this host's mask, or for all CPUs if it has none."""
        own_cpus = {f"cpu{number}" for number in monitor.cpus}
        means = self.trace_means(monitor.host, metric)
        return {item: mean for item, mean in means.items() if (item in own_cpus if own_cpus else item != "all")}

    def monitors_sharing_cpus(self, monitor: MonitorRecord) -> list[MonitorRecord]:
        """Return the monitors of all hosts, this one included, whose processes may run on this host's CPUs."""
        boots = self.record.boot_ids

        def may_share(other: MonitorRecord) -> bool:
            same_machine = boots.get(other.host) == boots.get(monitor.host) is not None
            return same_machine and (not other.cpus or not monitor.cpus or bool(set(other.cpus) & set(monitor.cpus)))

        return [other for other in self.record.monitors if other.host == monitor.host or may_share(other)]

    def sample_times(self, host: str) -> list[float]:
        """Return the times (s since the window opened) at which samples of a host were taken within the window."""
        own = (items.values() for (name, _), items in self._series.items() if name == host)
        return sorted({t for items in own for points in items for t, _ in points})

    def hit(self, name: str, level: Severity, observation: str, host: str | None = None) -> RuleHit:
        """Return a hit of a rule on this trial; reason and remedy of the rule are added to the observation."""
        return rule_hit(name, level, observation, self.record, host=host)

    def unchecked(self, name: str, reason: str, host: str | None = None) -> RuleHit:
        """Return the hit of a rule that could not be checked on this trial."""
        return RuleHit(name, "unchecked", self.record.trial, self.record.treatment, host, f"not checked: {reason}")


def rule_hit(
    name: str,
    level: Severity,
    observation: str,
    record: TrialRecord | None = None,
    *,
    treatment: str | None = None,
    host: str | None = None,
) -> RuleHit:
    """Return a hit whose message states the observation, the reason and the remedy.

    Without `record`, it is a hit on `treatment` or, if that is None too, on the whole run.
    """
    trial, treatment = (record.trial, record.treatment) if record else (None, treatment)
    return RuleHit(name, level, trial, treatment, host, observation + rule_advice(name))


def not_checked(name: str, reason: str, *, treatment: str | None = None, host: str | None = None) -> RuleHit:
    """Return the hit of a rule that could not be checked on a run."""
    return RuleHit(name, "unchecked", None, treatment, host, f"not checked: {reason}")
