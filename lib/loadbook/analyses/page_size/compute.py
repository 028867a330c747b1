"""Series of page sizes, their curves, their bottlenecks by the traces, and two web tiers compared at every size.

The two-regime curve of a series is 1 / rate = cost per request + size x cost per byte.

The cost per request (handshake, headers, scheduling) rules small pages, the cost per byte (copying, encryption, the
wire) large ones: the linear model of transfer time as latency plus size over bandwidth (Hockney, Parallel Computing 20,
1994), in the words of articles that draw TPS against page size. At the *knee* both costs are equal; beyond it the curve
approaches a ceiling of 1 / (cost per byte) bytes per second.

Method: least-squares means of the log rates by size, with blocks as the other factor (every trial counts; a block that
lost one trial keeps the rest), then least squares of log(rate) over the logs of both costs. Intervals: the
delete-one-block jackknife (Tukey 1958; Miller, Biometrika 61, 1974) on the log of each quantity with Student's t, so
that the block is the unit. tests/analyses/test_page_size_compute.py checks the coverage.
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

from loadbook.stats import errors, saturation
from loadbook.stats.compare import MIN_BLOCKS, compare_contrasts
from loadbook.stats.paired_tests import FloatArray
from loadbook.stats.results import ErrorSummary, Interval, Verdict
from loadbook.stats.saturation import BottleneckCode, bottleneck_by_treatment, saturation_of_run
from loadbook.stats.verdict import decide_verdict, usable_mask
from loadbook.store.tables import RunData
from loadbook.study.model import Study
from loadbook.study.treatments import FactorLevel

MIN_SIZES = 3  # two costs and one size that can contradict them
MIN_COST_SHARE = 1e-4  # a cost that is a smaller part of every request than this cannot be seen at all


@dataclass(frozen=True)
class Estimate:
    """A quantity above zero with its interval at the curve's level."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class TwoRegimeCurve:
    """The fit of one series.

    `sizes_b` (bytes, rising) and `means_per_s`, the rates by size that were fitted; `log_costs`, the logs of both costs
    (seconds, seconds per byte). `log_costs_without` and `means_without` are those of the fits without one block each.
    """

    sizes_b: FloatArray
    means_per_s: FloatArray
    log_costs: FloatArray
    log_costs_without: FloatArray
    means_without: FloatArray
    level: float = 0.95

    @property
    def blocks(self) -> int:
        """Blocks that the intervals rest on."""
        return len(self.log_costs_without)

    @cached_property
    def per_request_s(self) -> Estimate:
        """Seconds per request without its bytes, over all requests that are in progress at one time."""
        return self._estimate(lambda logs: logs[..., 0])

    @cached_property
    def per_byte_s(self) -> Estimate:
        """Seconds per byte of the page."""
        return self._estimate(lambda logs: logs[..., 1])

    @cached_property
    def ceiling_bytes_per_s(self) -> Estimate:
        """Bytes per second that the curve approaches with size."""
        return self._estimate(lambda logs: -logs[..., 1])

    @cached_property
    def knee_b(self) -> Estimate:
        """The size in bytes at which a request costs as much as its bytes."""
        return self._estimate(lambda logs: logs[..., 0] - logs[..., 1])

    def rate_at(self, size_b: float) -> Estimate:
        """Return the curve's rate per second at a size, with its interval (of the curve, not of a trial)."""
        return self._estimate(lambda logs: _log_rate(logs, size_b))

    @cached_property
    def misfits(self) -> dict[float, Estimate]:
        """Size -> measured rate over that of the curve; if the interval excludes 1, the curve is too simple."""
        misfits = {}
        for k, size in enumerate(self.sizes_b):
            log_ratio = math.log(self.means_per_s[k]) - _log_rate(self.log_costs, size)
            without = np.log(self.means_without[:, k]) - _log_rate(self.log_costs_without, size)
            misfits[float(size)] = jackknife_estimate(float(log_ratio), without, self.level)
        return misfits

    @property
    def visible_regime(self) -> str:
        """The side of the knee that the sizes cover: "both", "request" (the knee may lie beyond them) or "byte"."""
        low, high = self.knee_b.interval
        if high > self.sizes_b[-1]:
            return "request"
        return "byte" if low < self.sizes_b[0] else "both"

    def _estimate(self, log_of: Callable[[FloatArray], FloatArray]) -> Estimate:
        return jackknife_estimate(float(log_of(self.log_costs)), log_of(self.log_costs_without), self.level)


def jackknife_estimate(log_whole: float, logs_without: FloatArray, level: float) -> Estimate:
    """Return exp of an estimate with its interval, from the estimates that each leave out one block."""
    blocks = len(logs_without)
    spread = float(np.sum((logs_without - logs_without.mean()) ** 2)) * (blocks - 1) / blocks
    half = float(t.ppf(0.5 + level / 2, blocks - 1)) * math.sqrt(spread)
    value, low, high = (
        math.exp(max(min(log, 700.0), -700.0)) for log in (log_whole, log_whole - half, log_whole + half)
    )
    return Estimate(value, (low, high))


def fit_curve(values: Mapping[float, Mapping[object, float]], level: float = 0.95) -> TwoRegimeCurve | str:
    """Fit one series; return the reason in words if it cannot be fitted.

    `values` has size in bytes -> block -> rate per second, of the trials that count (all above zero).
    """
    usable = {size: values[size] for size in sorted(values) if len(values[size]) >= MIN_BLOCKS}
    if len(usable) < MIN_SIZES:
        return f"{len(usable)} of {len(values)} sizes have {MIN_BLOCKS} trials that count, {MIN_SIZES} must for a curve"
    blocks = sorted({block for by_block in usable.values() for block in by_block}, key=str)
    table = np.array(
        [[math.log(by_block[b]) if b in by_block else math.nan for by_block in usable.values()] for b in blocks]
    )
    table = table[np.isfinite(table).sum(axis=1) > 1]  # a block with one size compares nothing
    if len(table) < MIN_BLOCKS:
        return f"only {len(table)} blocks have two sizes, {MIN_BLOCKS} are needed"
    sizes = np.array(list(usable), float)
    means, parts = _size_means(table), np.array([_size_means(np.delete(table, k, axis=0)) for k in range(len(table))])
    logs = _fit_costs(sizes, means)
    without = np.array([_fit_costs(sizes, part, logs) for part in parts])
    return TwoRegimeCurve(sizes, np.exp(means), logs, without, np.exp(parts), level)


def _size_means(table: FloatArray) -> FloatArray:
    """Return the least-squares mean of each column of a table of logs (blocks down, sizes across) with gaps."""
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
    """Return the logs of both costs by least squares on log rates, each within bounds of a visible share."""
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
    """Return the log of the curve's rate at a size; costs along the last axis."""
    return np.asarray(-np.logaddexp(logs[..., 0], logs[..., 1] + math.log(size_b)))


@dataclass(frozen=True)
class PageSizeSeries:
    """Arms that differ in the page's size only: `levels` of the other factors, `arms` by size in bytes."""

    name: str
    levels: Mapping[str, FactorLevel]
    arms: Mapping[int, str]


def page_size_series(study: Study, treatments: Iterable[str]) -> tuple[PageSizeSeries, ...]:
    """Return the series among these treatments in file order, without checks and repeated arms."""
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
    """Return a level in words, before the name of its factor or role: "small balancer", "4 nodes"."""
    role = study.factors[factor].role
    noun = role if factor.startswith(role) else factor.replace("_", " ")
    return f"{level:g} {noun}" if isinstance(level, float) else f"{level} {noun}"


@dataclass(frozen=True)
class TierPair:
    """Two tiers behind one front: the name of the front, and verdicts of the second tier by size in bytes."""

    name: str
    verdicts: Mapping[int, Verdict]

    @property
    def converge_from_b(self) -> int | None:
        """The least size from which on all sizes are equivalent; None if the largest is not.

        A statement of several parts needs no correction, as each part must hold (the intersection-union test of
        Berger, Technometrics 24, 1982).
        """
        falling = sorted(self.verdicts, reverse=True)
        return min(takewhile(lambda size: self.verdicts[size].kind in ("equivalent", "small"), falling), default=None)


@dataclass(frozen=True)
class TierComparison:
    """Every front's pair of tiers: the factor, its two levels in words, the second level against the first."""

    factor: str
    names: tuple[str, str]
    pairs: tuple[TierPair, ...]


def compare_tiers(
    study: Study, values: pd.DataFrame, series: Sequence[PageSizeSeries], metric: str, level: float
) -> TierComparison | None:
    """Compare the two tiers of a study at every size; None without them.

    Tiers are the levels of a factor, not the size, of the role that serves the page, with two levels in the series.
    Every size is a comparison of its own; the p of differences is adjusted among all sizes.
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
    verdicts = {key: decide_verdict(found, study.margin) for key, found in zip(contrasts, comparisons, strict=True)}
    pairs = []
    for front, (before, after) in enumerate(both_tiers):
        name = ", ".join(part for part in before.name.split(", ") if part in after.name.split(", "))
        pairs.append(TierPair(name, {size: v for (k, size), v in verdicts.items() if k == front}))
    return TierComparison(factor, (level_text(study, factor, first), level_text(study, factor, second)), tuple(pairs))


def tier_errors(
    data: RunData, series: Sequence[PageSizeSeries], tiers: TierComparison | None
) -> dict[str, ErrorSummary]:
    """Return tier -> its errors over all sizes and fronts, those of the second compared with the first.

    The verdict is that of two arms (`stats.errors`): the trial is the unit, and both tiers have the same sizes.
    """
    if tiers is None:
        return {}
    tier_of_series = [(one, level_text(data.study, tiers.factor, one.levels[tiers.factor])) for one in series]
    tier_of_arm = {arm: tier for one, tier in tier_of_series for arm in one.arms.values()}
    by_tier = data.trials.assign(treatment=data.trials["treatment"].map(tier_of_arm))
    first, second = tiers.names
    # a block has many trials of a tier: the check by blocks, which takes one of each arm, does not apply
    counts = {name: errors.count_errors(by_tier, data.measurements, name)._replace(blocks=()) for name in tiers.names}
    return {
        first: errors.summarise_errors(first, counts[first], None),
        second: errors.summarise_errors(second, counts[second], counts[first]),
    }


@dataclass(frozen=True)
class PageSizeResult:
    """Curves, bottlenecks, tiers and errors of a run.

    Attributes
    ----------
    fits : curves by the name of their series, a text instead of a curve if none can be fitted.
    level : of the intervals of the curves.
    values : the rate by trial (`RunData.values`), of which the curves are made.
    bottlenecks : treatment -> its bottleneck by the traces; None: nothing that was monitored was full; absent: not
        monitored.
    link_bytes_per_s : the narrowest link known on the way from the load's target to the driver.
    errors : tier -> its errors over all sizes, those of the second compared with the first.
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
        """The curves that could be fitted, by the name of their series."""
        return {name: fit for name, fit in self.fits.items() if isinstance(fit, TwoRegimeCurve)}

    @cached_property
    def size_by_arm(self) -> dict[str, int]:
        """The size (bytes) of the page of every arm of the series."""
        return {arm: size for series in self.series for size, arm in series.arms.items()}

    @property
    def sizes_b(self) -> list[int]:
        """Every size of the run in bytes, rising."""
        return sorted(set(self.size_by_arm.values()))

    @cached_property
    def measured_sizes_b(self) -> list[int]:
        """The sizes (bytes, rising) at which some arm has enough trials that count to know its limit."""
        return sorted({size for series in self.series for size in self._measured_sizes_of(series)})

    def _measured_sizes_of(self, series: PageSizeSeries) -> list[int]:
        usable = self.values.loc[usable_mask(self.values), "treatment"].value_counts()
        return [size for size, arm in series.arms.items() if usable.get(arm, 0) >= MIN_BLOCKS]

    def network_limited_from(self, series: PageSizeSeries) -> int | None:
        """Return the least measured size (bytes) from which on the network is the bottleneck, None if it is not.

        Sizes with too few trials that count are passed over.
        """
        falling = sorted(self._measured_sizes_of(series), reverse=True)
        return min(takewhile(lambda size: self.bottlenecks.get(series.arms[size]) == "N", falling), default=None)


def analyse_page_sizes(data: RunData, metric: str, level: float = 0.95) -> PageSizeResult:
    """Analyse the page sizes of a run on a rate, with its own treatments."""
    study, values = data.study, data.values(metric)
    series = page_size_series(study, data.plan["treatments"])
    usable = values[usable_mask(values) & (values["value"] > 0)]
    rates = {name: dict(zip(own["block"], own["value"], strict=True)) for name, own in usable.groupby("treatment")}
    fits = {s.name: fit_curve({float(size): rates.get(arm, {}) for size, arm in s.arms.items()}, level) for s in series}
    tiers = compare_tiers(study, values, series, metric, level)
    links = link_capacities(data)
    full = saturation_of_run(data, links)
    letters = separate_shared_cpus(data, full, bottleneck_by_treatment(full))
    ends = {study.workload.role, *(study.target_of(name) for name in data.plan["treatments"])}
    on_path = [links[a] for a, host in data.run_record.hosts.items() if a in links and ends & set(host["roles"])]
    errors = tier_errors(data, series, tiers)
    link = min(on_path, default=None)
    return PageSizeResult(series, fits, level, values, letters, tiers, link, study.margin, errors)


def separate_shared_cpus(
    data: RunData, full: pd.DataFrame, letters: Mapping[str, BottleneckCode | None]
) -> dict[str, BottleneckCode | None]:
    """Separate balancer and web if they share CPUs, as in a small lab: both then show the same saturated core.

    The letter is that of the hosts whose own processes used more of the time, as far as they were monitored.
    """
    separated, used = dict(letters), _process_cpu(data)
    for treatment, rows in full[full["bottleneck"].isin(["C", "W"])].groupby("treatment"):
        hosts = {str(letter): list(own["host"]) for letter, own in rows.groupby("bottleneck")}
        masks = [
            {cpu for host in aliases for cpu in data.run_record.hosts[host].get("cpus") or ()}
            for aliases in hosts.values()
        ]
        overlap = data.run_record.lab and len(masks) == 2 and masks[0] & masks[1]
        if separated.get(str(treatment)) in hosts and overlap:
            sums = {letter: sum(used.get((str(treatment), host), 0.0) for host in own) for letter, own in hosts.items()}
            separated[str(treatment)] = "W" if sums["W"] > sums["C"] else "C"
    return separated


def _process_cpu(data: RunData) -> dict[tuple[str, str], float]:
    """Return (treatment, host) -> mean CPUs used by its service's processes while it was measured."""
    traces = data.traces[(data.traces["metric"] == "process_cpu") & (data.traces["t_s"] >= 0)]
    valid_traces = traces.merge(data.trials.loc[data.trials["valid"], ["trial", "treatment"]], on="trial")
    sums = valid_traces.groupby(["treatment", "host", "trial", "t_s"])["value"].sum()
    means = sums.groupby(level=["treatment", "host"]).mean()
    keys = [(str(key[0]), str(key[1])) for key in means.index.tolist()]
    return dict(zip(keys, means.to_numpy(float).tolist(), strict=True))


def link_capacities(data: RunData) -> dict[str, float]:
    """Return host -> capacity of its link in bytes per second: of the hosts file, or the study's lower `rate_mbit`."""
    study, hosts = data.study, data.run_record.hosts
    links = saturation.link_capacities(hosts)
    for role in (name for name in study.roles if name != study.workload.role):
        rates = {study.setting(name, role).rate_mbit for name in data.plan["treatments"]}
        if len(rates) == 1 and (shaped := (rates.pop() or 0.0) * saturation.BYTES_PER_S_PER_MBIT):
            links |= {a: min(shaped, links.get(a, shaped)) for a, host in hosts.items() if role in host["roles"]}
    return links
