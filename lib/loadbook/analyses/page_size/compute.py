"""The two-regime curve of one series: 1 / rate = cost per request + size x cost per byte.

The cost per request (handshake, headers, scheduling) rules small pages, the cost per byte (copying, encryption, the
wire) large ones: the linear model of transfer time as latency plus size over bandwidth (Hockney, Parallel Computing 20,
1994), in the words of articles that draw TPS against page size. At the *knee* both costs are equal; beyond it the curve
approaches a ceiling of 1 / (cost per byte) bytes per second.

Method: least-squares means of the log rates by size, with blocks as the other way (every trial counts; a block that
lost one is no reason to drop the rest), then least squares of log(rate) over the logs of both costs. Intervals: the
delete-one-block jackknife (Tukey 1958; Miller, Biometrika 61, 1974) on the log of each quantity with Student's t, so
that the block is the unit, whatever trials of one block share. tests/analyses/test_page_size_compute.py checks the
coverage.

The series of a study of page sizes: arms that differ in the size alone, each with its fit and its tiers compared.

Do two web tiers converge? Their ratio at each page size, with the margin declared before the run.

Every size is a comparison of its own, by the methods of every other (`stats.compare`). "From here on they converge" is
said where every size from there on is shown to be equivalent: a claim of several parts needs no correction, as each
part must hold (the intersection-union test of Berger, Technometrics 24, 1982). The p of differences is adjusted among
all sizes (`stats.family`).

All that a run says about page size: the curves, what limits each point, the tiers compared, the link.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from loadbook.stats import errors
from loadbook.stats.compare import MIN_BLOCKS
from loadbook.stats.family import compare_contrasts
from loadbook.stats.paired_tests import FloatArray
from loadbook.stats.results import ErrorSummary, Interval, Verdict
from loadbook.stats.saturation import BYTES_PER_S_PER_MBIT, BottleneckCode, bottleneck_by_treatment, saturation_of_run
from loadbook.stats.verdict import decide_verdict, usable_mask
from loadbook.study.model import Study
from loadbook.study.reader import page_bytes, page_size_factor
from loadbook.study.treatments import FactorLevel

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.store.tables import RunData

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

    `sizes_b` (bytes, rising), `means_per_s` the rates by size that were fitted, `log_costs` the log of both costs
    (seconds,
    seconds per byte) of the whole fit and, in `log_costs_without`, of the fits that leave out one block each;
    `means_without`
    likewise.
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
        """Seconds that a request costs whatever its size, over all that are answered at one time."""
        return self._estimate(lambda logs: logs[..., 0])

    @cached_property
    def per_byte_s(self) -> Estimate:
        """Seconds that a byte of the page costs."""
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
        """Size -> rate measured over that of the curve: where its interval leaves out 1, the curve is too simple."""
        misfits_by_size = {}
        for k, size in enumerate(self.sizes_b):
            log_ratio = math.log(self.means_per_s[k]) - _log_rate(self.log_costs, size)
            log_ratios_without = np.log(self.means_without[:, k]) - _log_rate(self.log_costs_without, size)
            misfits_by_size[float(size)] = jackknife_estimate(float(log_ratio), log_ratios_without, self.level)
        return misfits_by_size

    @property
    def visible_regime(self) -> str:
        """Which side of the knee the sizes show: "both", "request" (it may lie beyond the largest) or "byte"."""
        low, high = self.knee_b.interval
        if high > self.sizes_b[-1]:
            return "request"
        return "byte" if low < self.sizes_b[0] else "both"

    def _estimate(self, log_of: Callable[[FloatArray], FloatArray]) -> Estimate:
        return jackknife_estimate(float(log_of(self.log_costs)), log_of(self.log_costs_without), self.level)


def jackknife_estimate(log_whole: float, logs_without: FloatArray, level: float) -> Estimate:
    """Return exp of an estimate with its interval, from the estimates that each leave out one block."""
    from scipy.stats import t

    blocks = len(logs_without)
    spread = float(np.sum((logs_without - logs_without.mean()) ** 2)) * (blocks - 1) / blocks
    half = float(t.ppf(0.5 + level / 2, blocks - 1)) * math.sqrt(spread)
    return Estimate(_safe_exp(log_whole), (_safe_exp(log_whole - half), _safe_exp(log_whole + half)))


def fit_curve(values: Mapping[float, Mapping[object, float]], level: float = 0.95) -> TwoRegimeCurve | str:
    """Fit one series, or say in words why it cannot be.

    Parameters
    ----------
    values : size in bytes -> block -> rate per second, of the trials that count (all above zero).
    level : of the intervals.
    """
    usable = {size: values[size] for size in sorted(values) if len(values[size]) >= MIN_BLOCKS}
    if len(usable) < MIN_SIZES:
        return f"{len(usable)} of {len(values)} sizes have {MIN_BLOCKS} trials that count, {MIN_SIZES} must for a curve"
    blocks = sorted({block for by_block in usable.values() for block in by_block}, key=str)
    table = np.array(
        [[math.log(by_block[b]) if b in by_block else math.nan for by_block in usable.values()] for b in blocks]
    )
    table = table[np.isfinite(table).sum(axis=1) > 1]  # a block with one size says nothing of the others
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
    # the smallest solution in the blocks' part: block effects that add up to nothing
    closing = np.r_[np.zeros(table.shape[1]), np.ones(table.shape[0])]
    solved = np.linalg.lstsq(np.vstack([design, closing]), np.r_[table[present], 0.0], rcond=None)[0]
    return np.asarray(solved[: table.shape[1]])


def _fit_costs(sizes: FloatArray, log_rates: FloatArray, start: FloatArray | None = None) -> FloatArray:
    """Return the logs of both costs by least squares on log rates; each stays a visible part of some request."""
    from scipy.optimize import least_squares

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


def _safe_exp(log: float) -> float:
    return math.exp(max(min(log, 700.0), -700.0))


@dataclass(frozen=True)
class PageSizeSeries:
    """Arms that differ in the page's size only: `levels` are those of the other factors, `arms` size (bytes) -> arm."""

    name: str
    levels: Mapping[str, FactorLevel]
    arms: Mapping[int, str]


@dataclass(frozen=True)
class PageSizeCurves:
    """The curves of a run: `fits` by the name of a series, a text instead of a curve where none can be fitted."""

    series: tuple[PageSizeSeries, ...]
    fits: Mapping[str, TwoRegimeCurve | str]
    level: float

    @cached_property
    def curves(self) -> dict[str, TwoRegimeCurve]:
        """The curves that could be fitted, by the name of their series."""
        return {name: fit for name, fit in self.fits.items() if isinstance(fit, TwoRegimeCurve)}

    @property
    def sizes_b(self) -> list[int]:
        """Every size of the run in bytes, rising."""
        return sorted({size for series in self.series for size in series.arms})


def page_size_series(study: Study, treatments: Iterable[str]) -> tuple[PageSizeSeries, ...]:
    """Return the series among these treatments in file order; checks and repeated arms belong to none."""
    others = [name for name in study.factors if name != page_size_factor(study)]
    arms_by_levels: dict[tuple[FactorLevel, ...], dict[int, str]] = {}
    for name in treatments:
        size, spec = page_bytes(study, name), study.treatments[name]
        if size and not spec.check and not spec.same_as:
            levels = study.levels_of(name)
            arms_by_levels.setdefault(tuple(levels[n] for n in others), {})[size] = name
    varied = [k for k in range(len(others)) if len({levels[k] for levels in arms_by_levels}) > 1]
    arms_and_levels = [({others[k]: levels[k] for k in varied}, arms) for levels, arms in arms_by_levels.items()]
    return tuple(
        PageSizeSeries(_series_name(study, series_levels), series_levels, dict(sorted(arms.items())))
        for series_levels, arms in arms_and_levels
    )


def _series_name(study: Study, levels: Mapping[str, FactorLevel]) -> str:
    """Return what readers call a series: "small balancer, 4 nodes"."""
    return ", ".join(level_text(study, name, level) for name, level in levels.items()) or "all arms"


def level_text(study: Study, factor: str, level: FactorLevel) -> str:
    """Return a level in words: before the name of its factor, or of the role whose size the factor is."""
    role = study.factors[factor].role
    noun = role if factor.startswith(role) else factor.replace("_", " ")
    return f"{level:g} {noun}" if isinstance(level, float) else f"{level} {noun}"


def fit_page_sizes(
    study: Study, values: pd.DataFrame, treatments: Iterable[str], level: float = 0.95
) -> PageSizeCurves:
    """Fit the curve of every series of a run.

    Parameters
    ----------
    values : a rate by trial, as `RunData.values` returns it.
    """
    series = page_size_series(study, treatments)
    return PageSizeCurves(
        series,
        {page_series.name: fit_curve(_rates_by_size(values, page_series), level) for page_series in series},
        level,
    )


def _rates_by_size(values: pd.DataFrame, series: PageSizeSeries) -> dict[float, dict[object, float]]:
    usable = values[usable_mask(values) & (values["value"] > 0)]
    by_arm = {
        name: dict(zip(arm_rows["block"], arm_rows["value"], strict=True))
        for name, arm_rows in usable.groupby("treatment")
    }
    return {float(size): by_arm.get(arm, {}) for size, arm in series.arms.items()}


@dataclass(frozen=True)
class TierPair:
    """Two tiers behind one and the same front: `name` says which front, `verdicts` of the second by size in bytes."""

    name: str
    verdicts: Mapping[int, Verdict]

    @property
    def converge_from_b(self) -> int | None:
        """The least size from which on all sizes are equivalent; None where the largest is not."""
        least = None
        for size in sorted(self.verdicts, reverse=True):
            if self.verdicts[size].kind not in ("equivalent", "small"):
                break
            least = size
        return least


@dataclass(frozen=True)
class TierComparison:
    """Every front's pair of tiers: the factor, its two levels in words, the second compared with the first."""

    factor: str
    names: tuple[str, str]
    pairs: tuple[TierPair, ...]


def tier_factor(study: Study, series: Sequence[PageSizeSeries]) -> str | None:
    """Return the factor of the role that has the page, beside the size, of which the series have two levels."""
    sized = page_size_factor(study)
    role = study.factors[sized].role if sized else None
    factors = [n for n, f in study.factors.items() if f.role == role and n != sized and f.of != "workload"]
    return next((n for n in factors if len({page_series.levels.get(n) for page_series in series}) == 2), None)


def compare_tiers(
    study: Study,
    values: pd.DataFrame,
    series: Sequence[PageSizeSeries],
    margin: float,
    metric: str,
    level: float = 0.95,
) -> TierComparison | None:
    """Compare the two tiers of a study at every size; None where no factor has two of them."""
    factor = tier_factor(study, series)
    if factor is None:
        return None
    first, second = dict.fromkeys(page_series.levels[factor] for page_series in series)
    valid = values.assign(valid=usable_mask(values))
    fronts: dict[tuple[FactorLevel, ...], dict[FactorLevel, PageSizeSeries]] = {}
    for page_series in series:
        fronts.setdefault(tuple(v for n, v in page_series.levels.items() if n != factor), {})[
            page_series.levels[factor]
        ] = page_series
    both_tiers = [by_tier for by_tier in fronts.values() if len(by_tier) == 2]
    contrasts = {
        (front, size): (by_tier[second].arms[size], by_tier[first].arms[size])
        for front, by_tier in enumerate(both_tiers) for size in by_tier[first].arms if size in by_tier[second].arms
    }  # fmt: skip
    comparisons = compare_contrasts(valid, list(contrasts.values()), metric=metric, level=level) if contrasts else []
    verdicts = {key: decide_verdict(comparison, margin) for key, comparison in zip(contrasts, comparisons, strict=True)}
    pairs = [
        TierPair(
            _shared_front_name(by_tier[first], by_tier[second]),
            {size: v for (k, size), v in verdicts.items() if k == front},
        )
        for front, by_tier in enumerate(both_tiers)
    ]
    return TierComparison(factor, (level_text(study, factor, first), level_text(study, factor, second)), tuple(pairs))


def _shared_front_name(first: PageSizeSeries, second: PageSizeSeries) -> str:
    """Return what two series' names have in common."""
    second_parts = second.name.split(", ")
    return ", ".join(part for part in first.name.split(", ") if part in second_parts)


def tier_errors(
    study: Study, trials: pd.DataFrame, measurements: pd.DataFrame, series: Sequence[PageSizeSeries]
) -> dict[str, ErrorSummary]:
    """Return the errors of each tier over all of its sizes and fronts, by its name; the second compared with the first.

    The verdict is that of two arms (`stats.errors`): the trial is the unit, and both tiers have the same sizes.
    """
    factor = tier_factor(study, series)
    if factor is None:
        return {}
    tier_of_arm = {
        arm: level_text(study, factor, page_series.levels[factor])
        for page_series in series
        for arm in page_series.arms.values()
    }
    by_tier = trials.assign(treatment=trials["treatment"].map(tier_of_arm))
    first, second = dict.fromkeys(tier_of_arm.values())
    # a block holds many trials of a tier: the check by blocks, which takes one of each arm, does not apply
    counts = {name: errors.count_errors(by_tier, measurements, name)._replace(blocks=()) for name in (first, second)}
    return {
        first: errors.summarise_errors(first, counts[first], None),
        second: errors.summarise_errors(second, counts[second], counts[first]),
    }


NETWORK: BottleneckCode = "N"


@dataclass(frozen=True)
class PageSizeResult:
    """What was found in a run.

    Attributes
    ----------
    values : the rate by trial (`RunData.values`), of which the curves are made.
    bottlenecks : treatment -> its bottleneck by the traces; None: nothing that was watched was full; absent: not
        watched.
    link_bytes_per_s : capacity of the way to the driver, where the hosts file or the study tells it.
    errors : tier -> its errors over all sizes, those of the second compared with the first.
    """

    curves: PageSizeCurves
    values: pd.DataFrame
    bottlenecks: Mapping[str, BottleneckCode | None]
    tiers: TierComparison | None
    link_bytes_per_s: float | None
    margin: float
    errors: Mapping[str, ErrorSummary]

    def network_limited_from(self, series: PageSizeSeries) -> int | None:
        """Return the least size (bytes) from which on the network is the bottleneck of every size of a series."""
        return self.limited_from(series, NETWORK)

    @cached_property
    def measured_sizes_b(self) -> list[int]:
        """The sizes (bytes, rising) of which some arm has enough trials that count to say what limits it."""
        return sorted({size for series in self.curves.series for size in self._measured_sizes_of(series)})

    def _measured_sizes_of(self, series: PageSizeSeries) -> list[int]:
        usable = self.values.loc[usable_mask(self.values), "treatment"].value_counts()
        return [size for size, arm in series.arms.items() if usable.get(arm, 0) >= MIN_BLOCKS]

    def limited_from(self, series: PageSizeSeries, letter: BottleneckCode) -> int | None:
        """Return the least measured size (bytes) from which on this is the bottleneck of a series, None if it is not.

        Sizes of which too few trials count say nothing.
        """
        least = None
        for size in sorted(self._measured_sizes_of(series), reverse=True):
            if self.bottlenecks.get(series.arms[size]) != letter:
                break
            least = size
        return least


def analyse_page_sizes(data: RunData, metric: str, level: float = 0.95) -> PageSizeResult:
    """Return what a run says about page size on a rate, by its own treatments."""
    study, values = data.study, data.values(metric)
    regimes = fit_page_sizes(study, values, data.plan["treatments"], level)
    tiers = compare_tiers(study, values, regimes.series, study.margin, metric, level)
    links = link_capacities(data)
    full = saturation_of_run(data, links)
    letters = separate_shared_cpus(data, full, bottleneck_by_treatment(full))
    errors = tier_errors(study, data.trials, data.measurements, regimes.series)
    return PageSizeResult(regimes, values, letters, tiers, _narrowest_link(data, links), study.margin, errors)


def separate_shared_cpus(
    data: RunData, full: pd.DataFrame, letters: Mapping[str, BottleneckCode | None]
) -> dict[str, BottleneckCode | None]:
    """Tell balancer and web apart where they share CPUs, as in a small lab: a full core is then seen from both.

    The letter is that of the hosts whose own processes used more of the time, as far as they were watched.
    """
    separated, used = dict(letters), _process_cpu(data)
    for treatment, rows in full[full["bottleneck"].isin(["C", "W"])].groupby("treatment"):
        hosts = {str(letter): list(own["host"]) for letter, own in rows.groupby("bottleneck")}
        if separated.get(str(treatment)) in hosts and len(hosts) == 2 and _cpus_overlap(data, hosts):
            sums = {letter: sum(used.get((str(treatment), host), 0.0) for host in own) for letter, own in hosts.items()}
            separated[str(treatment)] = "W" if sums["W"] > sums["C"] else "C"
    return separated


def _cpus_overlap(data: RunData, hosts: Mapping[str, list[str]]) -> bool:
    """Tell whether hosts of both letters may use one CPU of one machine."""
    masks = [
        {cpu for host in aliases for cpu in data.run_record.hosts[host].get("cpus") or ()} for aliases in hosts.values()
    ]
    return bool(data.run_record.lab) and bool(masks[0] & masks[1])


def _process_cpu(data: RunData) -> dict[tuple[str, str], float]:
    """Return (treatment, host) -> CPUs' worth of time that its service's processes used while it was measured."""
    traces = data.traces[(data.traces["metric"] == "process_cpu") & (data.traces["t_s"] >= 0)]
    valid_traces = traces.merge(data.trials.loc[data.trials["valid"], ["trial", "treatment"]], on="trial")
    sums = valid_traces.groupby(["treatment", "host", "trial", "t_s"])["value"].sum()
    means = sums.groupby(level=["treatment", "host"]).mean()
    keys = [(str(key[0]), str(key[1])) for key in means.index.tolist()]
    return dict(zip(keys, means.to_numpy(float).tolist(), strict=True))


def link_capacities(data: RunData) -> dict[str, float]:
    """Return host -> capacity of its link in bytes per second: of the hosts file, or narrower where the study says so.

    A study makes the links of a role other than the driver's narrow by `rate_mbit`, in the lab say.
    """
    study, hosts = data.study, data.run_record.hosts
    link_mbit = {alias: host["link_mbit"] for alias, host in hosts.items() if host.get("link_mbit")}
    for role in (name for name in study.roles if name != study.workload.role):
        rates = {study.setting(name, role).rate_mbit for name in data.plan["treatments"]}
        shaped = rates.pop() if len(rates) == 1 else None
        if shaped:
            link_mbit |= {
                a: min(shaped, link_mbit.get(a, shaped)) for a, host in hosts.items() if role in host["roles"]
            }
    return {alias: mbit * BYTES_PER_S_PER_MBIT for alias, mbit in link_mbit.items()}


def _narrowest_link(data: RunData, links: Mapping[str, float]) -> float | None:
    """Return the narrowest link known on the way from the load's target to the driver, in bytes per second."""
    study = data.study
    ends = {study.workload.role, *(study.target_of(name) for name in data.plan["treatments"])}
    capacities = [
        links[alias] for alias, host in data.run_record.hosts.items() if alias in links and ends & set(host["roles"])
    ]
    return min(capacities, default=None)
