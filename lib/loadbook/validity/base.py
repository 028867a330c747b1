"""Evidence of one trial, which rules read, and hits, which they return."""

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
    """A violation of a rule, or a rule without evidence ("unchecked"); `trial` is None for a hit on the whole run."""

    name: str
    level: Severity
    trial: str | None
    treatment: str | None
    host: str | None
    message: str


@dataclass(frozen=True)
class Evidence:
    """One trial: its record, rows of measurements and of traces (t_s: seconds from the window's start).

    `samples` are series within the trial (rates by the second), `parser_doubts` the names of what the tool's parser
    doubts.
    """

    record: TrialRecord
    rows: Sequence[Row]
    traces: Sequence[Row]
    thresholds: ValidityLimits
    parser_doubts: frozenset[str] = frozenset()
    samples: Sequence[Row] = ()

    def total(self, metric: str, statistic: str | None = None) -> float | None:
        """Return a metric's total over drivers, None where there is none."""
        return self.value(TOTAL, metric, statistic)

    def value(self, driver: str, metric: str, statistic: str | None = None) -> float | None:
        """Return a metric of one driver, None where there is none."""
        for row in self.rows:
            if (row["driver"], row["metric"]) == (driver, metric) and statistic in (None, row["statistic"]):
                return float(row["value"])
        return None

    @property
    def window_s(self) -> float | None:
        """Length of the measurement window, seconds."""
        window = self.record.window
        return window[1] - window[0] if window else None

    @cached_property
    def _series(self) -> dict[tuple[str, str], dict[str, list[tuple[float, float]]]]:
        """Trace points (t_s, value) in the window by host and metric, then by item."""
        end = self.window_s
        series: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
        for row in self.traces:
            if end is not None and 0 <= row["t_s"] <= end:
                items = series.setdefault((row["host"], row["metric"]), {})
                items.setdefault(row["item"], []).append((float(row["t_s"]), float(row["value"])))
        return series

    def trace_means(self, host: str, metric: str) -> dict[str, float]:
        """Return, by item, the mean of a trace of a host over the measurement window.

        A point stands for the interval before it, so one that began before the window counts only if there is no other.
        """
        interval = next((m.interval_s for m in self.record.monitors if m.host == host), 0.0)
        series = self._series.get((host, metric), {})
        whole = {item: [v for t, v in points if t >= interval] for item, points in series.items()}
        return {item: fmean(whole[item] or [v for _, v in points]) for item, points in series.items()}

    def trace_sums(self, host: str, metrics: Sequence[str], prefix: str = "") -> list[dict[float, float]]:
        """Return by time the sum of traces of a host over items that begin with `prefix`; nothing without a trace."""
        sums: dict[float, float] = {}
        for metric in metrics:
            for item, points in self._series.get((host, metric), {}).items():
                for t, value in points if item.startswith(prefix) else ():
                    sums[t] = sums.get(t, 0.0) + value
        return [sums] if sums else []

    def cpu_means(self, monitor: MonitorRecord, metric: str) -> dict[str, float]:
        """Return the means of a per-CPU trace for the CPUs that are this host's own (its mask, else all)."""
        own_cpus = {f"cpu{number}" for number in monitor.cpus}
        means = self.trace_means(monitor.host, metric)
        return {item: mean for item, mean in means.items() if (item in own_cpus if own_cpus else item != "all")}

    def monitors_sharing_cpus(self, monitor: MonitorRecord) -> list[MonitorRecord]:
        """Return the monitors whose processes may run on this host's CPUs, itself among them."""
        boots = self.record.boot_ids

        def may_share(other: MonitorRecord) -> bool:
            same_machine = boots.get(other.host) == boots.get(monitor.host) is not None
            return same_machine and (not other.cpus or not monitor.cpus or bool(set(other.cpus) & set(monitor.cpus)))

        return [other for other in self.record.monitors if other.host == monitor.host or may_share(other)]

    def sample_times(self, host: str) -> list[float]:
        """Return the instants (s since the window opened) at which a host was sampled within the window."""
        own = (items.values() for (name, _), items in self._series.items() if name == host)
        return sorted({t for items in own for points in items for t, _ in points})

    def hit(self, name: str, level: Severity, observation: str, host: str | None = None) -> RuleHit:
        """Return a hit on the trial; see `rule_hit`."""
        return rule_hit(name, level, observation, self.record, host=host)

    def unchecked(self, name: str, reason: str, host: str | None = None) -> RuleHit:
        """Return the hit of a rule that had no evidence."""
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
    """Return a hit whose message has the observation, the reason and the remedy.

    Without a record it is a hit on a treatment or, without one, on the whole run.
    """
    trial, treatment = (record.trial, record.treatment) if record else (None, treatment)
    return RuleHit(name, level, trial, treatment, host, observation + rule_advice(name))


def not_checked(name: str, reason: str, *, treatment: str | None = None, host: str | None = None) -> RuleHit:
    """Return the hit of a rule on a run that had no evidence."""
    return RuleHit(name, "unchecked", None, treatment, host, f"not checked: {reason}")
