"""Rates per second within the trials of a run: whether each treatment held still, and its rate once settled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadbook.stats.hygiene.steady import DISCARD_S, MIN_WINDOWS, WINDOW_S, Trend, cut_samples, steady

if TYPE_CHECKING:
    import pandas as pd

# the statistic of a rate after the warm-up: never the tool's own, never a default
SETTLED = "settled"
# series of the samples table -> seconds per value, and whether its first and last value are of a part of that only
KINDS = {"ended": (1.0, True), "started": (1.0, True), "reply_rate": (5.0, False)}
NEEDED_S = DISCARD_S + MIN_WINDOWS * WINDOW_S


class Series(NamedTuple):
    """Rates of one trial, all drivers together, one value per `interval_s` seconds from its first whole interval."""

    interval_s: float
    values: NDArray[np.float64]

    @property
    def seconds(self) -> float:
        """How long the series is."""
        return len(self.values) * self.interval_s


class Settled(NamedTuple):
    """What a trial's rate is after the warm-up that MSER-5 finds: seconds left out, rate per second of the rest."""

    cut_s: float
    rate: float


def series_of(samples: pd.DataFrame, metric: str = "requests_per_s") -> dict[str, Series]:
    """Return trial -> its rates; trials of tools that tell no rates per second are not there.

    Seconds of several drivers are added up by their number: they start together, and each counts by its own clock.
    """
    found: dict[str, Series] = {}
    wanted = samples[(samples["metric"] == metric) & samples["series"].isin(list(KINDS))]
    for (trial, kind), own in wanted.groupby(["trial", "series"], sort=False):
        interval_s, ragged = KINDS[str(kind)]
        at = own.groupby("x")["value"].agg(["sum", "count"]).sort_index()
        rates = at.loc[at["count"] == own["driver"].nunique(), "sum"].to_numpy(float)
        found.setdefault(str(trial), Series(interval_s, rates[1:-1] if ragged else rates))
    return found


def trends(samples: pd.DataFrame, treatment_of: Mapping[str, str]) -> dict[str, Trend | None]:
    """Return for each treatment whether its rate still moved after ten seconds; None where nothing tells.

    Parameters
    ----------
    treatment_of : treatment of each trial that counts.
    """
    found = series_of(samples)
    result: dict[str, Trend | None] = {}
    for name in dict.fromkeys(treatment_of.values()):
        own = [found[trial] for trial, treatment in treatment_of.items() if treatment == name and trial in found]
        one_kind = len({series.interval_s for series in own}) == 1
        result[name] = steady([series.values for series in own], own[0].interval_s) if one_kind else None
    return result


def settled(series: Series) -> Settled | None:
    """Return the rate after the warm-up; None for a series that is too short to be judged."""
    if series.seconds < NEEDED_S:
        return None
    cut = cut_samples(series.values, series.interval_s)
    return Settled(cut * series.interval_s, float(series.values[cut:].mean()))


def settled_rates(samples: pd.DataFrame, metric: str) -> dict[str, float]:
    """Return trial -> its rate after the warm-up, for trials whose series allow it."""
    found = {trial: settled(series) for trial, series in series_of(samples, metric).items()}
    return {trial: one.rate for trial, one in found.items() if one is not None}
