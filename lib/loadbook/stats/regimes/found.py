"""All that a run says about page size: the curves, what limits each point, the tiers compared, the link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

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

    def limited_from(self, series: Series, letter: Letter) -> int | None:
        """Return the least size (bytes) from which on this is the bottleneck of a series; None where it is not."""
        least = None
        for size in sorted(series.arms, reverse=True):
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
    letters = bottlenecks(saturation_of(data, links))
    errors = tier_errors(study, data.trials, data.measurements, regimes.series)
    return Found(regimes, values, letters, tiers, _narrowest(data, links), study.margin, errors)


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
