"""Series of page sizes, their bottlenecks by the traces, and two web tiers compared at every size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from loadbook.analyses.page_size.curve import TwoRegimeCurve, fit_curve
from loadbook.stats import errors
from loadbook.stats.compare import MIN_BLOCKS, compare_contrasts
from loadbook.stats.results import ErrorSummary, Verdict
from loadbook.stats.saturation import BYTES_PER_S_PER_MBIT, BottleneckCode, bottleneck_by_treatment, saturation_of_run
from loadbook.stats.verdict import decide_verdict, usable_mask
from loadbook.study.model import Study
from loadbook.study.reader import page_bytes, page_size_factor
from loadbook.study.treatments import FactorLevel

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.store.tables import RunData


@dataclass(frozen=True)
class PageSizeSeries:
    """Arms that differ in the page's size only: `levels` of the other factors, `arms` by size in bytes."""

    name: str
    levels: Mapping[str, FactorLevel]
    arms: Mapping[int, str]


@dataclass(frozen=True)
class PageSizeCurves:
    """The curves of a run: `fits` by the name of a series, a text instead of a curve if none can be fitted."""

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
    """Return the series among these treatments in file order, without checks and repeated arms."""
    others = [name for name in study.factors if name != page_size_factor(study)]
    arms_by_levels: dict[tuple[FactorLevel, ...], dict[int, str]] = {}
    for name in treatments:
        size, spec = page_bytes(study, name), study.treatments[name]
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


def fit_page_sizes(
    study: Study, values: pd.DataFrame, treatments: Iterable[str], level: float = 0.95
) -> PageSizeCurves:
    """Fit the curve of every series of a run.

    Parameters
    ----------
    values : a rate by trial, as `RunData.values` returns it.
    """
    series = page_size_series(study, treatments)
    usable = values[usable_mask(values) & (values["value"] > 0)]
    rates = {name: dict(zip(own["block"], own["value"], strict=True)) for name, own in usable.groupby("treatment")}
    fits = {
        one.name: fit_curve({float(size): rates.get(arm, {}) for size, arm in one.arms.items()}, level)
        for one in series
    }
    return PageSizeCurves(series, fits, level)


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
        least = None
        for size in sorted(self.verdicts, reverse=True):
            if self.verdicts[size].kind not in ("equivalent", "small"):
                break
            least = size
        return least


@dataclass(frozen=True)
class TierComparison:
    """Every front's pair of tiers: the factor, its two levels in words, the second level against the first."""

    factor: str
    names: tuple[str, str]
    pairs: tuple[TierPair, ...]


def tier_factor(study: Study, series: Sequence[PageSizeSeries]) -> str | None:
    """Return the factor, not the size, of the role that serves the page with two levels in the series."""
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
    """Compare the two tiers of a study at every size; None if no factor has two of them.

    Every size is a comparison of its own; the p of differences is adjusted among all sizes.
    """
    factor = tier_factor(study, series)
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
    verdicts = {key: decide_verdict(comparison, margin) for key, comparison in zip(contrasts, comparisons, strict=True)}
    pairs = []
    for front, (before, after) in enumerate(both_tiers):
        name = ", ".join(part for part in before.name.split(", ") if part in after.name.split(", "))
        pairs.append(TierPair(name, {size: v for (k, size), v in verdicts.items() if k == front}))
    return TierComparison(factor, (level_text(study, factor, first), level_text(study, factor, second)), tuple(pairs))


def tier_errors(
    study: Study, trials: pd.DataFrame, measurements: pd.DataFrame, series: Sequence[PageSizeSeries]
) -> dict[str, ErrorSummary]:
    """Return tier -> its errors over all sizes and fronts, those of the second compared with the first.

    The verdict is that of two arms (`stats.errors`): the trial is the unit, and both tiers have the same sizes.
    """
    factor = tier_factor(study, series)
    if factor is None:
        return {}
    tier_of_arm = {arm: level_text(study, factor, one.levels[factor]) for one in series for arm in one.arms.values()}
    by_tier = trials.assign(treatment=trials["treatment"].map(tier_of_arm))
    first, second = dict.fromkeys(tier_of_arm.values())
    # a block has many trials of a tier: the check by blocks, which takes one of each arm, does not apply
    counts = {name: errors.count_errors(by_tier, measurements, name)._replace(blocks=()) for name in (first, second)}
    return {
        first: errors.summarise_errors(first, counts[first], None),
        second: errors.summarise_errors(second, counts[second], counts[first]),
    }


NETWORK: BottleneckCode = "N"


@dataclass(frozen=True)
class PageSizeResult:
    """Curves, bottlenecks, tiers and errors of a run.

    Attributes
    ----------
    values : the rate by trial (`RunData.values`), of which the curves are made.
    bottlenecks : treatment -> its bottleneck by the traces; None: nothing that was monitored was full; absent: not
        monitored.
    link_bytes_per_s : capacity of the path to the driver, if the hosts file or the study declares it.
    errors : tier -> its errors over all sizes, those of the second compared with the first.
    """

    curves: PageSizeCurves
    values: pd.DataFrame
    bottlenecks: Mapping[str, BottleneckCode | None]
    tiers: TierComparison | None
    link_bytes_per_s: float | None
    margin: float
    errors: Mapping[str, ErrorSummary]

    @cached_property
    def measured_sizes_b(self) -> list[int]:
        """The sizes (bytes, rising) at which some arm has enough trials that count to know its limit."""
        return sorted({size for series in self.curves.series for size in self._measured_sizes_of(series)})

    def _measured_sizes_of(self, series: PageSizeSeries) -> list[int]:
        usable = self.values.loc[usable_mask(self.values), "treatment"].value_counts()
        return [size for size, arm in series.arms.items() if usable.get(arm, 0) >= MIN_BLOCKS]

    def network_limited_from(self, series: PageSizeSeries) -> int | None:
        """Return the least measured size (bytes) from which on the network is the bottleneck, None if it is not.

        Sizes with too few trials that count are passed over.
        """
        least = None
        for size in sorted(self._measured_sizes_of(series), reverse=True):
            if self.bottlenecks.get(series.arms[size]) != NETWORK:
                break
            least = size
        return least


def analyse_page_sizes(data: RunData, metric: str, level: float = 0.95) -> PageSizeResult:
    """Analyse the page sizes of a run on a rate, with its own treatments."""
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
