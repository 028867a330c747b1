"""Noise of one configuration on one set of hosts, from trials that should all be alike.

All on the log scale but for the mean and the coefficient of variation; `stats.power` says what it means for a study.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadbook.stats.diagnostics import describe_drift, lag1_correlation
from loadbook.stats.results import Interval

if TYPE_CHECKING:
    import pandas as pd

MIN_TRIALS = 10
GAP_SAMPLES, GAP_SEED = 999, 20_170_423
MIDDLE_SHARE = 0.8  # gaps in the outer tenths are those of outliers, not of two groups
BIMODAL_ALPHA = 0.01


@dataclass(frozen=True)
class GapTest:
    """Widest gap (ratio minus 1) among the middle 80 % of the trials, and the number of trials on each side.

    `p` is the share of normal samples of this size and spread that have one as wide.
    """

    gap: float
    below: int
    above: int
    p: float

    @property
    def is_bimodal(self) -> bool:
        """Tell whether the trials lie in two groups."""
        return self.p < BIMODAL_ALPHA


@dataclass(frozen=True)
class NoiseSummary:
    """Noise of trials of one configuration.

    Parameters
    ----------
    slots, residuals : of each trial in order of execution; log of its value less the median log.
    mean : of the values, in their unit.
    cv, cv_interval : coefficient of variation with its 95 % interval.
    drift, drift_p : change over the record (ratio minus 1), Mann-Kendall; None below 5 blocks.
    lag1, lag1_error : correlation of neighbouring residuals, and its standard error if there were none.
    """

    slots: NDArray[np.int64]
    residuals: NDArray[np.float64]
    mean: float
    cv: float
    cv_interval: Interval
    drift: float | None
    drift_p: float | None
    lag1: float
    lag1_error: float
    gap_test: GapTest

    @property
    def trials(self) -> int:
        """Number of valid trials."""
        return len(self.residuals)


def trials_of_arms(values: pd.DataFrame, arms: Collection[str]) -> pd.DataFrame:
    """Return the valid trials with a value of these arms (one configuration), in order of execution."""
    counted = values[values["treatment"].isin(arms) & values["valid"].astype(bool) & (values["value"] > 0)]
    return counted.sort_values("slot", ignore_index=True)


def summarise_noise(values: pd.DataFrame) -> NoiseSummary | None:
    """Describe trials of one configuration (see `trials_of_arms`); None below 10 trials, or if all are equal."""
    if len(values) < MIN_TRIALS or values["value"].nunique() < 2:
        return None
    logs = np.log(values["value"].to_numpy(float))
    residuals = logs - np.median(logs)
    drift = describe_drift(values.assign(treatment="one"))
    lag1 = lag1_correlation(residuals)
    cv = float(values["value"].std(ddof=1) / values["value"].mean())
    low, high = sd_interval_factors(residuals, lag1)
    return NoiseSummary(
        slots=values["slot"].to_numpy(np.int64),
        residuals=residuals,
        mean=float(values["value"].mean()),
        cv=cv,
        cv_interval=(cv * low, cv * high),
        drift=drift.drift,
        drift_p=drift.drift_p,
        lag1=lag1,
        lag1_error=1 / math.sqrt(len(residuals)),
        gap_test=widest_gap_test(residuals),
    )


def sd_interval_factors(sample: NDArray[np.float64], lag1: float = 0.0, level: float = 0.95) -> Interval:
    """Return the interval of the true standard deviation over that of the sample.

    Bonett's interval (2006), which allows for heavy tails, with the effective sample size of an autoregressive series:
    n (1 - r^2) / (1 + r^2).
    """
    from scipy.stats import norm, trim_mean

    z = float(norm.ppf((1 + level) / 2))
    size = max(len(sample) * (1 - lag1**2) / (1 + lag1**2), z + 3)
    centre = trim_mean(sample, 1 / (2 * math.sqrt(max(len(sample) - 4, 1))))
    kurtosis = len(sample) * float(((sample - centre) ** 4).sum()) / float(((sample - sample.mean()) ** 2).sum()) ** 2
    error = size / (size - z) * math.sqrt(max(kurtosis - (size - 3) / size, 0.0) / (size - 1))
    centre_factor = math.sqrt(size / (size - z))
    return centre_factor * math.exp(-z * error / 2), centre_factor * math.exp(z * error / 2)


def widest_gap_test(residuals: NDArray[np.float64]) -> GapTest:
    """Test the widest gap among the middle 80 % of the residuals against normal noise."""
    ordered = np.sort(residuals)
    start, gap = _widest_gap(ordered[None, :])
    simulated = np.sort(np.random.default_rng(GAP_SEED).normal(size=(GAP_SAMPLES, len(ordered))))
    simulated_gaps = _widest_gap(simulated)[1] / simulated.std(axis=1, ddof=1)
    wider = int(np.count_nonzero(simulated_gaps >= gap[0] / ordered.std(ddof=1)))
    below = int(start[0]) + 1
    return GapTest(math.expm1(gap[0]), below, len(ordered) - below, (wider + 1) / (GAP_SAMPLES + 1))


def _widest_gap(ordered: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return, per row, start and width of the widest gap among the middle."""
    outer = int(ordered.shape[1] * (1 - MIDDLE_SHARE) / 2)
    gaps = np.diff(ordered, axis=1)[:, outer : ordered.shape[1] - 1 - outer]
    return np.argmax(gaps, axis=1) + outer, gaps.max(axis=1)


def normal_scores(size: int) -> NDArray[np.float64]:
    """Return normal scores of so many sorted values (Blom)."""
    return normal_quantiles((np.arange(1, size + 1) - 0.375) / (size + 0.25))


def normal_quantiles(shares: ArrayLike) -> NDArray[np.float64]:
    """Return the normal quantiles of shares."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.asarray(shares, float)))
