"""The noise of one configuration on one set of hosts: trials that should all be alike (statistics.md 4.3, 5.7).

A description, on the log scale but for the mean and the coefficient of variation. What it means for the number of
blocks is `stats.power`.
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
    """The widest gap among the middle 80 % of the trials: so wide (ratio minus 1), with so many trials on each side.

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
    """What trials of one configuration did.

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
        """How many trials count."""
        return len(self.residuals)


def trials_of_arms(values: pd.DataFrame, arms: Collection[str]) -> pd.DataFrame:
    """Return the trials of these arms, which are one configuration, that count and have a value; in order."""
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
    """Return by which factors the true standard deviation may differ from that of the sample, low and high.

    Bonett's interval (2006), which allows for heavy tails; correlated neighbours count as fewer trials, as they do for
    the variance of an autoregressive series: n (1 - r^2) / (1 + r^2).
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
    """Return the widest gap among the middle 80 % of the residuals, and how often normal noise has one as wide."""
    ordered = np.sort(residuals)
    start, gap = _widest_gap(ordered[None, :])
    simulated = np.sort(np.random.default_rng(GAP_SEED).normal(size=(GAP_SAMPLES, len(ordered))))
    simulated_gaps = _widest_gap(simulated)[1] / simulated.std(axis=1, ddof=1)
    wider = int(np.count_nonzero(simulated_gaps >= gap[0] / ordered.std(ddof=1)))
    below = int(start[0]) + 1
    return GapTest(math.expm1(gap[0]), below, len(ordered) - below, (wider + 1) / (GAP_SAMPLES + 1))


def _widest_gap(ordered: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return, per row, where its widest gap begins among the middle, and how wide it is."""
    outer = int(ordered.shape[1] * (1 - MIDDLE_SHARE) / 2)
    gaps = np.diff(ordered, axis=1)[:, outer : ordered.shape[1] - 1 - outer]
    return np.argmax(gaps, axis=1) + outer, gaps.max(axis=1)


def normal_scores(size: int) -> NDArray[np.float64]:
    """Return where so many sorted values lie on a normal scale (Blom)."""
    return normal_quantiles((np.arange(1, size + 1) - 0.375) / (size + 0.25))


def normal_quantiles(shares: ArrayLike) -> NDArray[np.float64]:
    """Return where shares of a whole lie on a normal scale."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.asarray(shares, float)))
