"""Within a trial: where the warm-up ends, and whether the rate holds still after it (statistics.md 3.10).

Two different questions. `mser5` cuts one trial's series, so that its mean has the least error; `rate_trend` asks all trials
of a treatment together whether the rate still moves after the first ten seconds. Neither changes a tool's own figures:
what the rate is after the cut is a statistic of its own (`trials.trial_rows`, `steady`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

MSER_BATCH = 5  # samples; the 5 of MSER-5
MAX_CUT = 0.5  # of the series; beyond, too little would be left to judge the rest by
MIN_WARMUP_S = 10.0
# of fewer than six means no order at all has p < 0.01
WINDOW_S, MAX_WINDOWS, MIN_WINDOWS = 5.0, 20, 6
MOVING_ALPHA = 0.01


class RateTrend(NamedTuple):
    """Whether a treatment's rate still moved: `p` of Mann-Kendall, `change` from first to last window (ratio - 1)."""

    moving: bool
    p: float
    change: float
    duration_s: float


def mser5(series: ArrayLike, max_cut: float = MAX_CUT) -> int:
    """Return how many samples to cut from the front: the cut whose remaining mean has the smallest standard error.

    The series is taken in batches of five (White, Cobb and Spratt, 2000); what is over at the end is not judged. At
    most the share `max_cut` is cut: a cut at that limit says that the series had not settled.
    """
    values = np.asarray(series, float)
    batches = values[: len(values) // MSER_BATCH * MSER_BATCH].reshape(-1, MSER_BATCH).mean(axis=1)
    if len(batches) < 2:
        return 0
    cuts = range(int(len(batches) * max_cut) + 1)
    errors = [float(np.var(batches[cut:])) / (len(batches) - cut) for cut in cuts]
    return int(np.argmin(errors)) * MSER_BATCH


def warmup_samples(series: ArrayLike, interval_s: float = 1.0) -> int:
    """Return how many samples of one trial are warm-up: ten seconds, and what MSER-5 cuts from the rest."""
    first = math.ceil(MIN_WARMUP_S / interval_s)
    return first + mser5(np.asarray(series, float)[first:])


def rate_trend(series_by_trial: Sequence[ArrayLike], interval_s: float = 1.0) -> RateTrend | None:
    """Return whether the rate of one treatment still moved after ten seconds; None where its series are too short.

    Mann-Kendall at p < 0.01 on means over windows of 5 s (ten of them in trials of 60 s; at most 20, which are longer
    in longer trials), averaged over all trials: of one trial alone it finds too little.

    Parameters
    ----------
    series_by_trial : rates of each trial, one value per `interval_s` seconds, warm-up included; cut to the shortest.
    """
    from scipy.stats import kendalltau

    means = _window_means(series_by_trial, interval_s)
    if means is None:
        return None
    p = float(kendalltau(np.arange(len(means)), means).pvalue) if np.ptp(means) > 0 else 1.0
    shortest = min(len(np.asarray(series)) for series in series_by_trial)
    return RateTrend(p < MOVING_ALPHA, p, float(means[-1] / means[0]) - 1 if means[0] else 0.0, shortest * interval_s)


def _window_means(series_by_trial: Sequence[ArrayLike], interval_s: float) -> np.ndarray | None:
    first = math.ceil(MIN_WARMUP_S / interval_s)
    rest = [np.asarray(series, float)[first:] for series in series_by_trial]
    samples = min((len(series) for series in rest), default=0)
    windows = min(MAX_WINDOWS, int(samples * interval_s / WINDOW_S + 1e-9))
    if windows < MIN_WINDOWS:
        return None
    size = samples // windows
    average = np.mean([series[: size * windows] for series in rest], axis=0)
    return np.asarray(average.reshape(windows, size).mean(axis=1))
