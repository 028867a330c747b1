"""Rates per second within the trials of a run: whether each treatment held still, and its rate once settled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadbook.stats.hygiene.steady import MIN_WARMUP_S, MIN_WINDOWS, WINDOW_S, RateTrend, warmup_samples, rate_trend

if TYPE_CHECKING:
    import pandas as pd

# the statistic of a rate after the warm-up: never the tool's own, never a default
SETTLED = "settled"
# series of the samples table -> seconds per value, and whether its first and last value are of a part of that only
RATE_SERIES_KINDS = {"ended": (1.0, True), "started": (1.0, True), "reply_rate": (5.0, False)}
MIN_SERIES_S = MIN_WARMUP_S + MIN_WINDOWS * WINDOW_S


class RateSeries(NamedTuple):
    """Rates of one trial, all drivers together, one value per `interval_s` seconds from its first whole interval."""

    interval_s: float
    values: NDArray[np.float64]

    @property
    def duration_s(self) -> float:
        """How long the series is."""
        return len(self.values) * self.interval_s


class SettledRate(NamedTuple):
    """What a trial's rate is after the warm-up that MSER-5 finds: seconds left out, rate per second of the rest."""

    warmup_s: float
    rate_per_s: float


def rate_series(samples: pd.DataFrame, metric: str = "requests_per_s") -> dict[str, RateSeries]:
    """Return trial -> its rates; trials of tools that tell no rates per second are not there.

    Seconds of several drivers are added up by their number: they start together, and each counts by its own clock.
    """
    series_by_trial: dict[str, RateSeries] = {}
    selected = samples[(samples["metric"] == metric) & samples["series"].isin(list(RATE_SERIES_KINDS))]
    for (trial, kind), own in selected.groupby(["trial", "series"], sort=False):
        interval_s, partial_ends = RATE_SERIES_KINDS[str(kind)]
        sums = own.groupby("x")["value"].agg(["sum", "count"]).sort_index()
        rates = sums.loc[sums["count"] == own["driver"].nunique(), "sum"].to_numpy(float)
        series_by_trial.setdefault(str(trial), RateSeries(interval_s, rates[1:-1] if partial_ends else rates))
    return series_by_trial


def rate_trends(samples: pd.DataFrame, treatment_of: Mapping[str, str]) -> dict[str, RateTrend | None]:
    """Return for each treatment whether its rate still moved after ten seconds; None where nothing tells.

    Parameters
    ----------
    treatment_of : treatment of each trial that counts.
    """
    series_by_trial = rate_series(samples)
    result: dict[str, RateTrend | None] = {}
    for name in dict.fromkeys(treatment_of.values()):
        own = [series_by_trial[trial] for trial, treatment in treatment_of.items() if treatment == name and trial in series_by_trial]
        one_kind = len({series.interval_s for series in own}) == 1
        result[name] = rate_trend([series.values for series in own], own[0].interval_s) if one_kind else None
    return result


def settled_rate(series: RateSeries) -> SettledRate | None:
    """Return the rate after the warm-up; None for a series that is too short to be judged."""
    if series.duration_s < MIN_SERIES_S:
        return None
    cut = warmup_samples(series.values, series.interval_s)
    return SettledRate(cut * series.interval_s, float(series.values[cut:].mean()))


def settled_rates(samples: pd.DataFrame, metric: str) -> dict[str, float]:
    """Return trial -> its rate after the warm-up, for trials whose series allow it."""
    settled_by_trial = {trial: settled_rate(series) for trial, series in rate_series(samples, metric).items()}
    return {trial: one.rate_per_s for trial, one in settled_by_trial.items() if one is not None}
