"""All that a run says about page size: the curves, what limits each point, the tiers compared, the link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from loadbook.stats.compare import MIN_BLOCKS
from loadbook.stats.reasons import usable_mask
from loadbook.stats.regimes.series import PageSizeCurves, PageSizeSeries, fit_page_sizes
from loadbook.stats.regimes.tiers import TierComparison, tier_errors, compare_tiers
from loadbook.stats.result import ErrorSummary
from loadbook.stats.saturation import BYTES_PER_S_PER_MBIT, BottleneckCode, bottleneck_by_treatment, saturation_of_run

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.records.rundata import RunData

NETWORK: BottleneckCode = "N"


@dataclass(frozen=True)
class PageSizeResult:
    """What was found in a run.

    Attributes
    ----------
    values : the rate by trial (`RunData.values`), of which the curves are made.
    bottlenecks : treatment -> its bottleneck by the traces; None: nothing that was watched was full; absent: not watched.
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


def separate_shared_cpus(data: RunData, full: pd.DataFrame, letters: Mapping[str, BottleneckCode | None]) -> dict[str, BottleneckCode | None]:
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
    masks = [{cpu for host in aliases for cpu in data.run_json["hosts"][host].get("cpus") or ()} for aliases in hosts.values()]
    return bool(data.run_json.get("lab")) and bool(masks[0] & masks[1])


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
    study, hosts = data.study, data.run_json["hosts"]
    link_mbit = {alias: host["link_mbit"] for alias, host in hosts.items() if host.get("link_mbit")}
    for role in (name for name in study.roles if name != study.workload.role):
        rates = {study.setting(name, role).rate_mbit for name in data.plan["treatments"]}
        shaped = rates.pop() if len(rates) == 1 else None
        if shaped:
            link_mbit |= {a: min(shaped, link_mbit.get(a, shaped)) for a, host in hosts.items() if role in host["roles"]}
    return {alias: mbit * BYTES_PER_S_PER_MBIT for alias, mbit in link_mbit.items()}


def _narrowest_link(data: RunData, links: Mapping[str, float]) -> float | None:
    """Return the narrowest link known on the way from the load's target to the driver, in bytes per second."""
    study = data.study
    ends = {study.workload.role, *(study.target_of(name) for name in data.plan["treatments"])}
    capacities = [
        links[alias] for alias, host in data.run_json["hosts"].items() if alias in links and ends & set(host["roles"])
    ]
    return min(capacities, default=None)
