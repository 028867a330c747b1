"""Series of page sizes, their bottlenecks by the traces, and two web tiers compared at every size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import pandas as pd

from loadbook.analyses.page_size.curve import TwoRegimeCurve, fit_curve
from loadbook.stats import errors, saturation
from loadbook.stats.compare import MIN_BLOCKS
from loadbook.stats.family import compare_contrasts
from loadbook.stats.results import ErrorSummary, Verdict
from loadbook.stats.saturation import BottleneckCode, bottleneck_by_treatment, saturation_of_run
from loadbook.stats.verdict import decide_verdict, usable_mask
from loadbook.store.tables import RunData
from loadbook.study.model import Study
from loadbook.study.treatments import FactorLevel


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
