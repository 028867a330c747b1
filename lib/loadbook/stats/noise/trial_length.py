"""Run length against number of runs: how long a trial gives most precision per hour (statistics.md 3.9 d).

Scatter within a trial averages out with its length, scatter between trials only with their number. What a trial costs
around its measurement decides where the best length lies. Longer trials do not replace more of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from loadbook.stats.plan import best_trial_length_s

BATCH_S = 10.0  # means over so many seconds count as independent
MIN_BATCHES = 3
MIN_TRIALS = 5


class TrialLength(NamedTuple):
    """What the parts of the scatter say (ratios; seconds); `best_s` is None where no scatter between trials is seen."""

    best_s: float | None
    within_1s: float
    between: float
    overhead_s: float
    trials: int


def estimate_trial_length(rates: Sequence[ArrayLike], interval_s: float, sd_trial: float, overhead_s: float) -> TrialLength | None:
    """Return what trials of one configuration say of their best length; None where they are too short or too few.

    Parameters
    ----------
    rates : of each trial, one value per `interval_s` seconds (warm-up is not among them).
    sd_trial : scatter of the log rate of whole trials that blocks do not share: that of a pair over the root of two.
    overhead_s : seconds of a trial beyond its measurement.
    """
    size = max(1, round(BATCH_S / interval_s))
    batches = [_batch_means(np.asarray(series, float), size) for series in rates]
    batches = [means for means in batches if len(means) >= MIN_BATCHES and means.mean() > 0]
    if len(batches) < MIN_TRIALS:
        return None
    variances = [float(np.var(means / means.mean(), ddof=1)) for means in batches]
    batch_s = size * interval_s
    within = math.sqrt(float(np.mean(variances)) * batch_s)
    length_s = batch_s * float(np.mean([len(means) for means in batches]))
    between = math.sqrt(max(sd_trial**2 - within**2 / length_s, 0.0))
    best = best_trial_length_s(within, between, overhead_s) if between > 0 else None
    return TrialLength(best, within, between, overhead_s, len(batches))


def _batch_means(series: np.ndarray, size: int) -> np.ndarray:
    return np.asarray(series[: len(series) // size * size].reshape(-1, size).mean(axis=1))
