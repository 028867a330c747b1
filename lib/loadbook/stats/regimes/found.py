"""All that a run says about page size: the curves, what limits each point, the tiers compared, the link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from loadbook.stats.compare import MIN_BLOCKS
from loadbook.stats.reasons import counts
from loadbook.stats.regimes.series import Regimes, Series, regimes_of
from loadbook.stats.regimes.tiers import Tiers, tier_errors, tiers_of
from loadbook.stats.result import ErrorSummary
from loadbook.stats.saturation import MBIT, Letter, bottlenecks, saturation_of

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.records.rundata import RunData

NETWORK: Letter = "N"


@dataclass(frozen=True)
class Found:
    """What was found in a run.

    Attributes
    ----------
    values : the rate by trial (`RunData.values`), of which the curves are made.
    letters : treatment -> its bottleneck by the traces; None: nothing that was watched was full; absent: not watched.
    link_bytes_per_s : capacity of the way to the driver, where the hosts file or the study tells it.
    errors : tier -> its errors over all sizes, those of the second compared with the first.
    """

    regimes: Regimes
    values: pd.DataFrame
    letters: Mapping[str, Letter | None]
    tiers: Tiers | None
    link_bytes_per_s: float | None
    margin: float
    errors: Mapping[str, ErrorSummary]

    def network_from(self, series: Series) -> int | None:
        """Return the least size (bytes) from which on the network is the bottleneck of every size of a series."""
        return self.limited_from(series, NETWORK)

    @cached_property
    def measured_b(self) -> list[int]:
        """The sizes (bytes, rising) of which some arm has enough trials that count to say what limits it."""
        return sorted({size for one in self.regimes.series for size in self._measured_of(one)})

    def _measured_of(self, series: Series) -> list[int]:
        usable = self.values.loc[counts(self.values), "treatment"].value_counts()
        return [size for size, arm in series.arms.items() if usable.get(arm, 0) >= MIN_BLOCKS]

    def limited_from(self, series: Series, letter: Letter) -> int | None:
        """Return the least measured size (bytes) from which on this is the bottleneck of a series, None if it is not.

        Sizes of which too few trials count say nothing.
        """
        least = None
        for size in sorted(self._measured_of(series), reverse=True):
            if self.letters.get(series.arms[size]) != letter:
                break
            least = size
        return least


def look(data: RunData, metric: str, level: float = 0.95) -> Found:
    """Return what a run says about page size on a rate, by its own treatments."""
    study, values = data.study, data.values(metric)
    regimes = regimes_of(study, values, data.plan["treatments"], level)
    tiers = tiers_of(study, values, regimes.series, study.margin, metric, level)
    links = links_of(data)
    full = saturation_of(data, links)
    letters = by_use(data, full, bottlenecks(full))
    errors = tier_errors(study, data.trials, data.measurements, regimes.series)
    return Found(regimes, values, letters, tiers, _narrowest(data, links), study.margin, errors)


def by_use(data: RunData, full: pd.DataFrame, letters: Mapping[str, Letter | None]) -> dict[str, Letter | None]:
    """Tell balancer and web apart where they share CPUs, as in a small lab: a full core is then seen from both.

    The letter is that of the hosts whose own processes used more of the time, as far as they were watched.
    """
    found, used = dict(letters), _used(data)
    for treatment, rows in full[full["bottleneck"].isin(["C", "W"])].groupby("treatment"):
        hosts = {str(letter): list(own["host"]) for letter, own in rows.groupby("bottleneck")}
        if found.get(str(treatment)) in hosts and len(hosts) == 2 and _overlap(data, hosts):
            sums = {letter: sum(used.get((str(treatment), host), 0.0) for host in own) for letter, own in hosts.items()}
            found[str(treatment)] = "W" if sums["W"] > sums["C"] else "C"
    return found


def _overlap(data: RunData, hosts: Mapping[str, list[str]]) -> bool:
    """Tell whether hosts of both letters may use one CPU of one machine."""
    masks = [{cpu for host in own for cpu in data.run_json["hosts"][host].get("cpus") or ()} for own in hosts.values()]
    return bool(data.run_json.get("lab")) and bool(masks[0] & masks[1])


def _used(data: RunData) -> dict[tuple[str, str], float]:
    """Return (treatment, host) -> CPUs' worth of time that its service's processes used while it was measured."""
    traces = data.traces[(data.traces["metric"] == "process_cpu") & (data.traces["t_s"] >= 0)]
    own = traces.merge(data.trials.loc[data.trials["valid"], ["trial", "treatment"]], on="trial")
    sums = own.groupby(["treatment", "host", "trial", "t_s"])["value"].sum()
    means = sums.groupby(level=["treatment", "host"]).mean()
    keys = [(str(key[0]), str(key[1])) for key in means.index.tolist()]
    return dict(zip(keys, means.to_numpy(float).tolist(), strict=True))


def links_of(data: RunData) -> dict[str, float]:
    """Return host -> capacity of its link in bytes per second: of the hosts file, or narrower where the study says so.

    A study makes the links of a role other than the driver's narrow by `rate_mbit`, in the lab say.
    """
    study, hosts = data.study, data.run_json["hosts"]
    known = {alias: host["link_mbit"] for alias, host in hosts.items() if host.get("link_mbit")}
    for role in (name for name in study.roles if name != study.workload.role):
        rates = {study.setting(name, role).rate_mbit for name in data.plan["treatments"]}
        shaped = rates.pop() if len(rates) == 1 else None
        if shaped:
            known |= {a: min(shaped, known.get(a, shaped)) for a, host in hosts.items() if role in host["roles"]}
    return {alias: mbit * MBIT for alias, mbit in known.items()}


def _narrowest(data: RunData, links: Mapping[str, float]) -> float | None:
    """Return the narrowest link known on the way from the load's target to the driver, in bytes per second."""
    study = data.study
    ends = {study.workload.role, *(study.target_of(name) for name in data.plan["treatments"])}
    known = [
        links[alias] for alias, host in data.run_json["hosts"].items() if alias in links and ends & set(host["roles"])
    ]
    return min(known, default=None)
