"""Steady state within trials: transient at the start of the measurement, and trend of the rate after it.

Not to be confused with the planned warm-up, which precedes the measurement (`execution/load.py`). `mser5` cuts the
start of one trial so that its mean has the least error; `rate_trend` tests all trials of a treatment together after the
first ten seconds. The rate after the cut is a statistic of its own (`settled`); a tool's own figures stay as is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pandas as pd

MSER_BATCH = 5  # samples; the 5 of MSER-5
MAX_CUT = 0.5  # of the series; with a later cut, too little of it would be left
MIN_TRANSIENT_S = 10.0
# with fewer than six means, no order has p < 0.01
WINDOW_S, MAX_WINDOWS, MIN_WINDOWS = 5.0, 20, 6
MOVING_ALPHA = 0.01


class RateTrend(NamedTuple):
    """Trend of a treatment's rate: `p` (Mann-Kendall), `change` from first to last window (ratio minus 1).

    `moving` is true for p < 0.01; `duration_s` is the length of the shortest series.
    """

    moving: bool
    p: float
    change: float
    duration_s: float


def mser5(series: ArrayLike, max_cut: float = MAX_CUT) -> int:
    """Return how many samples to cut from the start so that the mean of the rest has the smallest standard error.

    The cut is a multiple of five samples (White, Cobb and Spratt, 2000); samples after the last whole five are ignored.
    At most the share `max_cut` is cut; a series cut at that limit has not settled.
    """
    values = np.asarray(series, float)
    batches = values[: len(values) // MSER_BATCH * MSER_BATCH].reshape(-1, MSER_BATCH).mean(axis=1)
    if len(batches) < 2:
        return 0
    cuts = range(int(len(batches) * max_cut) + 1)
    errors = [float(np.var(batches[cut:])) / (len(batches) - cut) for cut in cuts]
    return int(np.argmin(errors)) * MSER_BATCH


def transient_samples(series: ArrayLike, interval_s: float = 1.0) -> int:
    """Return the number of transient samples of one trial: ten seconds, plus the cut of MSER-5 in the rest."""
    first = math.ceil(MIN_TRANSIENT_S / interval_s)
    return first + mser5(np.asarray(series, float)[first:])


def rate_trend(series_by_trial: Sequence[ArrayLike], interval_s: float = 1.0) -> RateTrend | None:
    """Test whether a treatment's rate has a trend after the first ten seconds; None if a series is shorter than 40 s.

    Mann-Kendall at p < 0.01 on means over windows of 5 s (ten in trials of 60 s; at most 20, longer ones in longer
    trials), averaged over all trials because one trial alone has too little power. Each series has one rate per
    `interval_s` seconds from the start of the measurement; all are cut to the shortest.
    """
    from scipy.stats import kendalltau

    means = _window_means(series_by_trial, interval_s)
    if means is None:
        return None
    p = float(kendalltau(np.arange(len(means)), means).pvalue) if np.ptp(means) > 0 else 1.0
    shortest = min(len(np.asarray(series)) for series in series_by_trial)
    return RateTrend(p < MOVING_ALPHA, p, float(means[-1] / means[0]) - 1 if means[0] else 0.0, shortest * interval_s)


def _window_means(series_by_trial: Sequence[ArrayLike], interval_s: float) -> np.ndarray | None:
    first = math.ceil(MIN_TRANSIENT_S / interval_s)
    rest = [np.asarray(series, float)[first:] for series in series_by_trial]
    samples = min((len(series) for series in rest), default=0)
    windows = min(MAX_WINDOWS, int(samples * interval_s / WINDOW_S + 1e-9))
    if windows < MIN_WINDOWS:
        return None
    size = samples // windows
    average = np.mean([series[: size * windows] for series in rest], axis=0)
    return np.asarray(average.reshape(windows, size).mean(axis=1))


# statistic of the rate after the transient; never a tool's own figure, never the default
SETTLED = "settled"
# series in the samples table -> seconds per value, and whether its first and last value cover only part of an interval
RATE_SERIES_KINDS = {"ended": (1.0, True), "started": (1.0, True), "reply_rate": (5.0, False)}
MIN_SERIES_S = MIN_TRANSIENT_S + MIN_WINDOWS * WINDOW_S


class RateSeries(NamedTuple):
    """Rates of one trial, summed over drivers, one value per `interval_s` seconds, whole intervals only.

    The first interval begins `first_s` seconds after the start of the load.
    """

    interval_s: float
    values: NDArray[np.float64]
    first_s: float = 0.0

    @property
    def duration_s(self) -> float:
        """Return the length of the series in seconds."""
        return len(self.values) * self.interval_s


class SettledRate(NamedTuple):
    """Seconds of the transient (ten, plus the cut of MSER-5), and the rate per second after it."""

    transient_s: float
    rate_per_s: float


def rate_series(samples: pd.DataFrame, metric: str = "requests_per_s") -> dict[str, RateSeries]:
    """Return trial -> its rates, from the table `samples`; trials of tools without rates per second are missing.

    Rates of several drivers are added second by second, since drivers start together; each counts by its own clock.
    """
    series_by_trial: dict[str, RateSeries] = {}
    selected = samples[(samples["metric"] == metric) & samples["series"].isin(list(RATE_SERIES_KINDS))]
    for (trial, kind), own in selected.groupby(["trial", "series"], sort=False):
        interval_s, partial_ends = RATE_SERIES_KINDS[str(kind)]
        sums = own.groupby("x")["value"].agg(["sum", "count"]).sort_index()
        rates = sums.loc[sums["count"] == own["driver"].nunique(), "sum"].to_numpy(float)
        series = RateSeries(interval_s, rates[1:-1], interval_s) if partial_ends else RateSeries(interval_s, rates)
        series_by_trial.setdefault(str(trial), series)
    return series_by_trial


def rate_trends(samples: pd.DataFrame, treatment_of: Mapping[str, str]) -> dict[str, RateTrend | None]:
    """Return the trend of each treatment's rate after the first ten seconds; None if its rates are not known.

    `treatment_of` maps each valid trial to its treatment.
    """
    series_by_trial = rate_series(samples)
    result: dict[str, RateTrend | None] = {}
    for name in dict.fromkeys(treatment_of.values()):
        trials = [trial for trial, treatment in treatment_of.items() if treatment == name]
        own = [series_by_trial[trial] for trial in trials if trial in series_by_trial]
        one_kind = len({series.interval_s for series in own}) == 1
        result[name] = rate_trend([series.values for series in own], own[0].interval_s) if one_kind else None
    return result


def settled_rate(series: RateSeries) -> SettledRate | None:
    """Return the rate after the transient; None if the series is shorter than 40 s."""
    if series.duration_s < MIN_SERIES_S:
        return None
    cut = transient_samples(series.values, series.interval_s)
    return SettledRate(cut * series.interval_s, float(series.values[cut:].mean()))


def settled_rates(samples: pd.DataFrame, metric: str) -> dict[str, float]:
    """Return trial -> its rate (1/s) after the transient, for trials whose series has 40 s or more."""
    settled_by_trial = {trial: settled_rate(series) for trial, series in rate_series(samples, metric).items()}
    return {trial: one.rate_per_s for trial, one in settled_by_trial.items() if one is not None}
