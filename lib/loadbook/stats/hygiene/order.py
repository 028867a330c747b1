"""Did the host drift over the run? A description (statistics.md 3.11), never a licence to drop blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadbook.core.units import format_percent

if TYPE_CHECKING:
    import pandas as pd

MIN_DRIFT_BLOCKS = 5
DRIFT_ALPHA = 0.05
TUKEY_FENCE, MIN_OUTLIER_TRIALS, NEIGHBOUR_TRIALS = 1.5, 8, 9
EQUAL_LOGS = 1e-9  # logs this close are one value


@dataclass(frozen=True)
class DriftSummary:
    """How values moved with the order of execution, treatments taken out.

    Parameters
    ----------
    residuals : trial, slot, block, residual (ratio of the value to the median of its treatment, minus 1).
    block_medians : median residual by block.
    drift : change from the first to the last block by the Theil-Sen slope (ratio minus 1).
    drift_p : Mann-Kendall test of the block medians. Both None below 5 blocks.
    lag1 : correlation of the residuals of neighbouring slots, None below 5 trials.
    """

    residuals: pd.DataFrame
    block_medians: pd.Series
    drift: float | None
    drift_p: float | None
    lag1: float | None

    @property
    def sentence(self) -> str:
        """What a reader is told."""
        if self.drift is None or self.drift_p is None:
            return "Too few blocks to see a drift."
        if self.drift_p >= DRIFT_ALPHA:
            return "No steady drift is visible over the run."
        return (
            f"The values moved by {format_percent(self.drift)} over the run; every block holds every treatment, "
            "so this cancels in the comparisons."
        )


def describe_drift(values: pd.DataFrame) -> DriftSummary:
    """Describe drift and correlation of a run.

    Parameters
    ----------
    values : trial, treatment, block, slot, status, valid, value (`RunData.values`); only valid positive values count.
    """
    usable = values[values["valid"].astype(bool) & (values["value"] > 0)].sort_values("slot")
    logs = np.log(usable["value"])
    residual = logs - logs.groupby(usable["treatment"]).transform("median")
    medians = residual.groupby(usable["block"]).median()
    drift, p = _mann_kendall_drift(medians)
    residuals = usable[["trial", "slot", "block"]].assign(residual=np.expm1(residual))
    return DriftSummary(residuals, np.expm1(medians), drift, p, _lag1_if_known(residual.to_numpy()))


def find_outliers(values: pd.DataFrame) -> dict[str, float]:
    """Return the trials that lie far from others of their treatment: trial -> ratio to what was expected, minus 1.

    Expected is the median of the treatment, and of the neighbouring nine trials' distances from theirs (the drift). Far
    is outside Tukey's fences, 1.5 quartile ranges beyond the quartiles of the treatment; the range is that of the
    treatment or of all trials, whichever is larger, as few trials may lie close together by luck. They are marked and
    never left out: leaving them out doubles the false alarms (statistics.md 3.2).

    Parameters
    ----------
    values : as for `describe_drift`; treatments with fewer than eight trials that count are not judged.
    """
    usable = values[values["valid"].astype(bool) & (values["value"] > 0)].sort_values("slot")
    logs = np.log(usable["value"])
    distances = logs - logs.groupby(usable["treatment"]).transform("median")
    distances -= distances.rolling(NEIGHBOUR_TRIALS, center=True, min_periods=MIN_DRIFT_BLOCKS).median().fillna(0.0)
    ratio_by_trial: dict[str, float] = {}
    common_range = distances.quantile(0.75) - distances.quantile(0.25)
    for _, own in distances.groupby(usable["treatment"]):
        low, high = own.quantile(0.25), own.quantile(0.75)
        fence = TUKEY_FENCE * max(high - low, common_range) + EQUAL_LOGS
        outlying = own[(own < low - fence) | (own > high + fence)] if len(own) >= MIN_OUTLIER_TRIALS else own[:0]
        ratio_by_trial |= {str(usable.at[row, "trial"]): math.expm1(value) for row, value in outlying.items()}
    return ratio_by_trial


def _mann_kendall_drift(medians: pd.Series) -> tuple[float | None, float | None]:
    from scipy.stats import kendalltau, theilslopes

    if len(medians) < MIN_DRIFT_BLOCKS or medians.nunique() < 2:
        return None, None
    blocks = medians.index.to_numpy(float)
    slope = float(theilslopes(medians.to_numpy(), blocks).slope)
    return math.expm1(slope * (blocks[-1] - blocks[0])), float(kendalltau(blocks, medians.to_numpy()).pvalue)


def _lag1_if_known(residuals: np.ndarray) -> float | None:
    if len(residuals) < MIN_DRIFT_BLOCKS or float(np.std(residuals)) == 0:
        return None
    return lag1_correlation(residuals)


def lag1_correlation(residuals: np.ndarray) -> float:
    """Return the correlation of neighbouring residuals."""
    centred = residuals - residuals.mean()
    return float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())
