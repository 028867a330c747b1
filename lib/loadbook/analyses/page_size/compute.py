"""Series of page sizes, their curves, bottlenecks found in host metrics, and two web tiers compared at every size.

The two-regime curve of a series is 1 / rate = cost per request + size x cost per byte.

The cost per request (handshake, headers, scheduling) dominates for small pages, the cost per byte (copying, encryption,
the wire) for large ones. It is the linear model of transfer time, latency plus size over bandwidth (Hockney, Parallel
Computing 20, 1994), applied to plots of TPS against page size. At the *knee* both costs are equal; beyond it the curve
approaches a ceiling of 1 / (cost per byte) bytes per second.

Method: least-squares means of the log rates by size, with blocks as the other factor (a block that lost a trial keeps
its other trials), then the logs of both costs by least squares on log(rate). Intervals: the delete-one-block jackknife
(Tukey 1958; Miller, Biometrika 61, 1974) on the log of each quantity with Student's t, so that the unit is the block.
tests/unit/analyses/test_page_size_compute.py checks the coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from scipy.stats import t

from loadbook.core.units import pluralize
from loadbook.stats import errors, saturation
from loadbook.stats.comparability import usable_mask
from loadbook.stats.compare import MIN_BLOCKS, compare_contrasts
from loadbook.stats.paired_tests import FloatArray
from loadbook.stats.results import ErrorSummary, Interval, Verdict
from loadbook.stats.saturation import BottleneckCode, bottleneck_by_treatment, saturation_of_run
from loadbook.stats.verdict import decide_verdict
from loadbook.store.tables import RunData
from loadbook.study.model import Study
from loadbook.study.treatments import FactorLevel

MIN_SIZES = 3  # two sizes determine two costs, the third can contradict them
MIN_COST_SHARE = 1e-4  # lower bound of a fitted cost, as a share of every request's time


@dataclass(frozen=True)
class Estimate:
    """A positive quantity with its interval (low, high), whose confidence is the `level` of the curve."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class TwoRegimeCurve:
    """The two-regime curve fitted to one series.

    `means_per_s` are the fitted rates at `sizes_b` (bytes, rising); `log_costs` are the logs of both costs (seconds per
    request, seconds per byte). `log_costs_without` and `means_without` have one row per fit that leaves out one block.
    """

    sizes_b: FloatArray
    means_per_s: FloatArray
    log_costs: FloatArray
    log_costs_without: FloatArray
    means_without: FloatArray
    level: float = 0.95

    @property
    def blocks(self) -> int:
        """The number of blocks from which the intervals are computed."""
        return len(self.log_costs_without)

    @cached_property
    def per_request_s(self) -> Estimate:
        """Seconds per request apart from its bytes: the first term of 1 / rate.

        One request takes this times the number of requests in progress at the same time.
        """
        return self._estimate(lambda logs: logs[..., 0])

    @cached_property
    def per_byte_s(self) -> Estimate:
        """Seconds per byte of the page, divided by the number of requests in progress at the same time."""
        return self._estimate(lambda logs: logs[..., 1])

    @cached_property
    def ceiling_bytes_per_s(self) -> Estimate:
        """Bytes per second that the curve approaches as size grows."""
        return self._estimate(lambda logs: -logs[..., 1])

    @cached_property
    def knee_b(self) -> Estimate:
        """The size in bytes at which the cost per request equals the cost of the bytes."""
        return self._estimate(lambda logs: logs[..., 0] - logs[..., 1])

    def rate_at(self, size_b: float) -> Estimate:
        """Return the curve's rate (requests/s) at a size, with the interval of the curve (not of a single trial)."""
        return self._estimate(lambda logs: _log_rate(logs, size_b))

    @cached_property
    def misfits(self) -> dict[float, Estimate]:
        """Size in bytes -> measured rate / the curve's rate; if the interval excludes 1, the curve is too simple."""
        misfits = {}
        for k, size in enumerate(self.sizes_b):
            log_ratio = math.log(self.means_per_s[k]) - _log_rate(self.log_costs, size)
            without = np.log(self.means_without[:, k]) - _log_rate(self.log_costs_without, size)
            misfits[float(size)] = jackknife_estimate(float(log_ratio), without, self.level)
        return misfits

    @property
    def visible_regime(self) -> str:
        """The sides of the knee that the sizes cover, judged by its interval.

        "both"; "request" if the knee may lie above the largest size; "byte" if it may lie below the smallest.
        """
        low, high = self.knee_b.interval
        if high > self.sizes_b[-1]:
            return "request"
        return "byte" if low < self.sizes_b[0] else "both"

    def _estimate(self, log_of: Callable[[FloatArray], FloatArray]) -> Estimate:
        return jackknife_estimate(float(log_of(self.log_costs)), log_of(self.log_costs_without), self.level)


def jackknife_estimate(log_whole: float, logs_without: FloatArray, level: float) -> Estimate:
    """Return exp(log_whole) with its jackknife interval of confidence `level`.

    `log_whole` is the log of the estimate from all blocks; `logs_without` has one per block, without that block.
    """
    blocks = len(logs_without)
    spread = float(np.sum((logs_without - logs_without.mean()) ** 2)) * (blocks - 1) / blocks
    half = float(t.ppf(0.5 + level / 2, blocks - 1)) * math.sqrt(spread)
    value, low, high = (
        math.exp(max(min(log, 700.0), -700.0)) for log in (log_whole, log_whole - half, log_whole + half)
    )
    return Estimate(value, (low, high))


def fit_curve(values: Mapping[float, Mapping[object, float]], level: float = 0.95) -> TwoRegimeCurve | str:
    """Fit the curve of one series; return the reason as text if that is impossible.

    `values` is size (bytes) -> block -> rate (requests/s, > 0) of the valid trials.
    """
    usable = {size: values[size] for size in sorted(values) if len(values[size]) >= MIN_BLOCKS}
    if len(usable) < MIN_SIZES:
        return f"{len(usable)} of {len(values)} sizes have {MIN_BLOCKS} trials that count, {MIN_SIZES} must for a curve"
    blocks = sorted({block for by_block in usable.values() for block in by_block}, key=str)
    table = np.array(
        [[math.log(by_block[b]) if b in by_block else math.nan for by_block in usable.values()] for b in blocks]
    )
    table = table[np.isfinite(table).sum(axis=1) > 1]  # a block with only one size compares nothing
    if len(table) < MIN_BLOCKS:
        return f"only {pluralize(len(table), 'block has', 'blocks have')} two sizes, {MIN_BLOCKS} are needed"
    sizes = np.array(list(usable), float)
    means, parts = _size_means(table), np.array([_size_means(np.delete(table, k, axis=0)) for k in range(len(table))])
    logs = _fit_costs(sizes, means)
    without = np.array([_fit_costs(sizes, part, logs) for part in parts])
    return TwoRegimeCurve(sizes, np.exp(means), logs, without, np.exp(parts), level)


def _size_means(table: FloatArray) -> FloatArray:
    """Return the least-squares mean of each size, from a blocks x sizes table of logs that may have gaps (NaN)."""
    present = np.isfinite(table)
    if present.all():
        return np.asarray(table.mean(axis=0))
    rows, columns = np.nonzero(present)
    design = np.zeros((len(rows), table.shape[1] + table.shape[0]))
    design[np.arange(len(rows)), columns] = 1.0
    design[np.arange(len(rows)), table.shape[1] + rows] = 1.0
    # block effects add up to 0
    closing = np.r_[np.zeros(table.shape[1]), np.ones(table.shape[0])]
    solved = np.linalg.lstsq(np.vstack([design, closing]), np.r_[table[present], 0.0], rcond=None)[0]
    return np.asarray(solved[: table.shape[1]])


def _fit_costs(sizes: FloatArray, log_rates: FloatArray, start: FloatArray | None = None) -> FloatArray:
    """Return the logs of both costs by least squares on log rates, bounded so that each cost is measurable."""
    seconds = np.exp(-log_rates)
    low = np.log([seconds.min() * MIN_COST_SHARE, seconds.min() / sizes[-1] * MIN_COST_SHARE])
    high = np.log([seconds.max() * 2, (seconds / sizes).max() * 2])
    first = np.log([seconds[0], seconds[-1] / sizes[-1]]) if start is None else start
    log_sizes = np.log(sizes)

    def slopes(logs: FloatArray) -> FloatArray:
        of_bytes = 1 / (1 + np.exp(logs[0] - logs[1] - log_sizes))
        return np.column_stack([1 - of_bytes, of_bytes])

    def residuals(logs: FloatArray) -> FloatArray:
        return np.asarray(log_rates + np.logaddexp(logs[0], logs[1] + log_sizes))

    start = np.clip(first, low + 1e-6, high - 1e-6)
    return np.asarray(least_squares(residuals, start, jac=slopes, bounds=(low, high), xtol=1e-10).x)


def _log_rate(logs: FloatArray, size_b: float) -> FloatArray:
    """Return the log of the curve's rate at a size; `logs` has the logs of both costs along its last axis."""
    return np.asarray(-np.logaddexp(logs[..., 0], logs[..., 1] + math.log(size_b)))


@dataclass(frozen=True)
class PageSizeSeries:
    """Treatments that differ in page size only: `levels` of the other factors, `arms`: size in bytes -> treatment."""

    name: str
    levels: Mapping[str, FactorLevel]
    arms: Mapping[int, str]


def page_size_series(study: Study, treatments: Iterable[str]) -> tuple[PageSizeSeries, ...]:
    """Return the series of these treatments in their order, without harness checks and duplicated treatments."""
    others = [name for name in study.factors if name != study.page_size_factor]
    arms_by_levels: dict[tuple[FactorLevel, ...], dict[int, str]] = {}
    for name in treatments:
        size, spec = study.page_bytes(name), study.treatments[name]
        if size and not spec.check and not spec.same_as:
            levels = study.levels_of(name)
            arms_by_levels.setdefault(tuple(levels[n] for n in others), {})[size] = name
    varied = [k for k in range(len(others)) if len({levels[k] for levels in arms_by_levels}) > 1]
    series = []
    for all_levels, arms in arms_by_levels.items():
        own = {others[k]: all_levels[k] for k in varied}
        name = ", ".join(level_text(study, factor, level) for factor, level in own.items()) or "all arms"
        series.append(PageSizeSeries(name, own, dict(sorted(arms.items()))))
    return tuple(series)


def level_text(study: Study, factor: str, level: FactorLevel) -> str:
    """Return a level with the name of its factor or role: "small balancer", "4 nodes"."""
    role = study.factors[factor].role
    noun = role if factor.startswith(role) else factor.replace("_", " ")
    return f"{level:g} {noun}" if isinstance(level, float) else f"{level} {noun}"


@dataclass(frozen=True)
class TierPair:
    """Two web tiers behind the same front end `name`: size in bytes -> verdict on the second against the first."""

    name: str
    verdicts: Mapping[int, Verdict]

    @property
    def converge_from_b(self) -> int | None:
        """The smallest size in bytes from which on all verdicts are "equivalent" or "small"; None if there is none.

        No correction for several comparisons is needed, as each of them must hold (intersection-union test, Berger,
        Technometrics 24, 1982).
        """
        falling = sorted(self.verdicts, reverse=True)
        return min(takewhile(lambda size: self.verdicts[size].kind in ("equivalent", "small"), falling), default=None)


@dataclass(frozen=True)
class TierComparison:
    """Two web tiers: their factor, the names of its two levels, and a comparison of them behind each front end."""

    factor: str
    names: tuple[str, str]
    pairs: tuple[TierPair, ...]


def compare_tiers(
    study: Study, values: pd.DataFrame, series: Sequence[PageSizeSeries], metric: str, level: float
) -> TierComparison | None:
    """Compare the two web tiers of a study at every size; None if the study does not have two.

    Tiers are the two levels of a factor (other than page size) of the role that serves the page. Every size is a
    separate comparison; p-values of differences are adjusted over all sizes. `values`: `RunData.values` of `metric`.
    """
    sized = study.page_size_factor
    role = study.factors[sized].role if sized else None
    factors = [n for n, f in study.factors.items() if f.role == role and n != sized and f.of != "workload"]
    factor = next((n for n in factors if len({one.levels.get(n) for one in series}) == 2), None)
    if factor is None:
        return None
    first, second = dict.fromkeys(page_series.levels[factor] for page_series in series)
    valid = values.assign(valid=usable_mask(values))
    fronts: dict[tuple[FactorLevel, ...], dict[FactorLevel, PageSizeSeries]] = {}
    for one in series:
        other_levels = tuple(level for name, level in one.levels.items() if name != factor)
        fronts.setdefault(other_levels, {})[one.levels[factor]] = one
    both_tiers = [(by_tier[first], by_tier[second]) for by_tier in fronts.values() if len(by_tier) == 2]
    contrasts = {
        (front, size): (after.arms[size], before.arms[size])
        for front, (before, after) in enumerate(both_tiers)
        for size in before.arms
        if size in after.arms
    }
    comparisons = compare_contrasts(valid, list(contrasts.values()), metric=metric, level=level) if contrasts else []
    verdicts = {
        key: decide_verdict(comparison, study.margin) for key, comparison in zip(contrasts, comparisons, strict=True)
    }
    pairs = []
    for front, (before, after) in enumerate(both_tiers):
        name = ", ".join(part for part in before.name.split(", ") if part in after.name.split(", "))
        pairs.append(TierPair(name, {size: v for (k, size), v in verdicts.items() if k == front}))
    return TierComparison(factor, (level_text(study, factor, first), level_text(study, factor, second)), tuple(pairs))


def tier_errors(
    data: RunData, series: Sequence[PageSizeSeries], tiers: TierComparison | None
) -> dict[str, ErrorSummary]:
    """Return tier -> its errors over all sizes and front ends; the second tier is compared with the first.

    Empty without `tiers`. The comparison is that of two treatments: the unit is the trial, and both tiers have the
    same sizes.
    """
    if tiers is None:
        return {}
    tier_of_series = [(one, level_text(data.study, tiers.factor, one.levels[tiers.factor])) for one in series]
    tier_of_arm = {arm: tier for one, tier in tier_of_series for arm in one.arms.values()}
    by_tier = data.trials.assign(treatment=data.trials["treatment"].map(tier_of_arm))
    first, second = tiers.names
    # without the check by blocks, which needs one trial per treatment and block: a block has many trials of a tier
    by_name = errors.count_errors(by_tier, data.measurements, tiers.names)
    counts = {name: tier._replace(blocks=()) for name, tier in by_name.items()}
    return {
        first: errors.summarise_errors(first, counts[first], None),
        second: errors.summarise_errors(second, counts[second], counts[first]),
    }


@dataclass(frozen=True)
class PageSizeResult:
    """Curves, bottlenecks, comparison of tiers, and errors of a run.

    Attributes
    ----------
    fits : name of the series -> curve, or the reason as text if none can be fitted.
    level : confidence of the curves' intervals.
    values : the rate of each trial (`RunData.values`), to which the curves are fitted.
    bottlenecks : treatment -> its bottleneck by host metrics (C: balancer CPU, N: network, W: web CPU, D: driver);
        None if no monitored resource was saturated; absent if not monitored.
    tiers : comparison of the two web tiers; None if the study does not have two.
    margin : the smallest difference that matters, a ratio minus 1.
    link_bytes_per_s : the slowest known link between the load's target and the driver; None if none is known.
    errors : tier -> its errors over all sizes; the second tier is compared with the first.
    """

    series: tuple[PageSizeSeries, ...]
    fits: Mapping[str, TwoRegimeCurve | str]
    level: float
    values: pd.DataFrame
    bottlenecks: Mapping[str, BottleneckCode | None]
    tiers: TierComparison | None
    link_bytes_per_s: float | None
    margin: float
    errors: Mapping[str, ErrorSummary]

    @cached_property
    def curves(self) -> dict[str, TwoRegimeCurve]:
        """Name of a series -> its curve, for the series that could be fitted."""
        return {name: fit for name, fit in self.fits.items() if isinstance(fit, TwoRegimeCurve)}

    @cached_property
    def size_by_arm(self) -> dict[str, int]:
        """Treatment -> page size in bytes, for all treatments in series."""
        return {arm: size for series in self.series for size, arm in series.arms.items()}

    @property
    def sizes_b(self) -> list[int]:
        """All page sizes of the run in bytes, rising."""
        return sorted(set(self.size_by_arm.values()))

    @cached_property
    def measured_sizes_b(self) -> list[int]:
        """The sizes (bytes, rising) at which a treatment has enough valid trials to determine its bottleneck."""
        return sorted({size for series in self.series for size in self._measured_sizes_of(series)})

    def _measured_sizes_of(self, series: PageSizeSeries) -> list[int]:
        usable = self.values.loc[usable_mask(self.values), "treatment"].value_counts()
        return [size for size, arm in series.arms.items() if usable.get(arm, 0) >= MIN_BLOCKS]

    def network_limited_from(self, series: PageSizeSeries) -> int | None:
        """Return the smallest measured size (bytes) from which on the network is the bottleneck; None if there is none.

        Sizes with too few valid trials are ignored.
        """
        falling = sorted(self._measured_sizes_of(series), reverse=True)
        return min(takewhile(lambda size: self.bottlenecks.get(series.arms[size]) == "N", falling), default=None)


def analyse_page_sizes(data: RunData, metric: str, level: float = 0.95) -> PageSizeResult:
    """Return curves, bottlenecks, tiers and errors of a run; `metric` is a rate."""
    study, values = data.study, data.values(metric)
    series = page_size_series(study, data.plan.treatments)
    usable = values[usable_mask(values) & (values["value"] > 0)]
    rates = {name: dict(zip(own["block"], own["value"], strict=True)) for name, own in usable.groupby("treatment")}
    fits = {s.name: fit_curve({float(size): rates.get(arm, {}) for size, arm in s.arms.items()}, level) for s in series}
    tiers = compare_tiers(study, values, series, metric, level)
    links = link_capacities(data)
    full = saturation_of_run(data, links)
    letters = separate_shared_cpus(data, full, bottleneck_by_treatment(full))
    ends = {study.workload.role, *(study.target_of(name) for name in data.plan.treatments)}
    on_path = [links[a] for a, host in data.run_record.hosts.items() if a in links and ends & set(host.roles)]
    errors = tier_errors(data, series, tiers)
    link = min(on_path, default=None)
    return PageSizeResult(series, fits, level, values, letters, tiers, link, study.margin, errors)


def separate_shared_cpus(
    data: RunData, full: pd.DataFrame, letters: Mapping[str, BottleneckCode | None]
) -> dict[str, BottleneckCode | None]:
    """Return `letters` with the bottleneck assigned to balancer or web where they share CPUs on one machine (a lab).

    Both then show the same saturated core; it is assigned to the hosts whose own processes used more CPU time.
    `full` is a result of `stats.saturation.saturation`; `letters`: treatment -> its bottleneck, None without one.
    """
    separated, used = dict(letters), _process_cpu(data)
    for treatment, rows in full[full["bottleneck"].isin(["C", "W"])].groupby("treatment"):
        hosts = {str(letter): list(own["host"]) for letter, own in rows.groupby("bottleneck")}
        masks = [
            {cpu for host in aliases for cpu in data.run_record.hosts[host].cpus or ()} for aliases in hosts.values()
        ]
        overlap = data.run_record.lab and len(masks) == 2 and masks[0] & masks[1]
        if separated.get(str(treatment)) in hosts and overlap:
            sums = {letter: sum(used.get((str(treatment), host), 0.0) for host in own) for letter, own in hosts.items()}
            separated[str(treatment)] = "W" if sums["W"] > sums["C"] else "C"
    return separated


def _process_cpu(data: RunData) -> dict[tuple[str, str], float]:
    """Return (treatment, host) -> mean number of CPUs that its service's processes used while it was measured."""
    traces = data.traces[(data.traces["metric"] == "process_cpu") & (data.traces["t_s"] >= 0)]
    valid_traces = traces.merge(data.trials.loc[data.trials["valid"], ["trial", "treatment"]], on="trial")
    sums = valid_traces.groupby(["treatment", "host", "trial", "t_s"])["value"].sum()
    means = sums.groupby(level=["treatment", "host"]).mean()
    keys = [(str(key[0]), str(key[1])) for key in means.index.tolist()]
    return dict(zip(keys, means.to_numpy(float).tolist(), strict=True))


def link_capacities(data: RunData) -> dict[str, float]:
    """Return host -> link capacity in bytes per second: from the hosts file, or the study's `rate_mbit` if lower.

    Hosts for which neither is given are absent.
    """
    study, hosts = data.study, data.run_record.hosts
    links = saturation.link_capacities(hosts)
    for role in (name for name in study.roles if name != study.workload.role):
        rates = {study.setting(name, role).rate_mbit for name in data.plan.treatments}
        if len(rates) == 1 and (shaped := (rates.pop() or 0.0) * saturation.BYTES_PER_S_PER_MBIT):
            links |= {a: min(shaped, links.get(a, shaped)) for a, host in hosts.items() if role in host.roles}
    return links
