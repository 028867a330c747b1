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
    letters = bottlenecks(saturation_of(data))
    errors = tier_errors(study, data.trials, data.measurements, regimes.series)
    return Found(regimes, values, letters, tiers, link_of(data), study.margin, errors)


def link_of(data: RunData) -> float | None:
    """Return the narrowest link known on the way from the load's target to the driver, in bytes per second.

    Links are those of the hosts file, and what the study's role of the driver narrows its way to (rate_mbit).
    """
    study = data.study
    driver, targets = study.workload.role, {study.target_of(name) for name in data.plan["treatments"]}
    ends = [host for host in data.run_json["hosts"].values() if {driver, *targets} & set(host["roles"])]
    known = [host["link_mbit"] for host in ends if host.get("link_mbit")]
    shaped = [study.setting(name, driver).rate_mbit for name in data.plan["treatments"]]
    known += [rate for rate in shaped[:1] if rate and len(set(shaped)) == 1]
    return min(known) * MBIT if known else None
