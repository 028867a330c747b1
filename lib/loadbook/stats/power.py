"""Noise of one configuration, power of studies simulated from its trials (pseudo-studies), best trial length.

Noise is described on the log scale, except for the mean and the coefficient of variation.

A block of a pseudo-study is a pair of neighbouring trials, labelled at random and judged by loadbook's own test.
Scatter within a trial averages out with its length, scatter between trials only with their number; the best length
depends on the time that a trial costs beyond its measurement.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadbook.core.errors import UsageError
from loadbook.stats.compare import MIN_BLOCKS, MIN_RANK_BLOCKS, MIN_SIGNED_BLOCKS
from loadbook.stats.diagnostics import describe_drift, lag1_correlation
from loadbook.stats.paired_tests import (
    LOG_DECIMALS,
    FloatArray,
    blocked_rank_p,
    paired_t_p,
    signed_rank_p,
    variances_differ,
)
from loadbook.stats.results import Interval
from loadbook.stats.sequential import best_trial_length_s, blocks_needed, detectable_effect

if TYPE_CHECKING:
    import pandas as pd

MIN_NOISE_TRIALS = 10
GAP_SAMPLES, GAP_SEED = 999, 20_170_423
MIDDLE_SHARE = 0.8  # wide gaps in the outer tenths are due to outliers, not to two groups
BIMODAL_ALPHA = 0.01
ALPHA, POWER = 0.05, 0.8
BISECTION_STEPS = 12  # bisection to 1/4,000 of the range of the values
CHUNK_ROWS = 500  # pseudo-studies whose label swaps fit into memory together
PSEUDO_STUDIES, STUDY_SEED = 400, 20_170_424
MAX_RESAMPLED_BLOCKS = 40  # above, a record of some 60 pairs is too small, and a formula is used
SD_RANGE_LEVEL = 0.8
PRECISION_BLOCKS, PRECISION_STUDIES = (5, 6, 7, 8, 10, 12, 16, 24, 40), 200


@dataclass(frozen=True)
class GapTest:
    """Widest gap (ratio minus 1) among the middle 80 % of the trials, and the number of trials below and above it.

    `p` is the probability of a gap as wide in a normal sample of this size and spread.
    """

    gap: float
    below: int
    above: int
    p: float

    @property
    def is_bimodal(self) -> bool:
        """Return whether the trials form two groups, at p < 0.01."""
        return self.p < BIMODAL_ALPHA


@dataclass(frozen=True)
class NoiseSummary:
    """Noise of trials of one configuration.

    Parameters
    ----------
    slots, residuals : of each trial in order of execution: its slot, and the log of its value minus the median log.
    mean : mean of the values, in their unit.
    cv, cv_interval : coefficient of variation (a ratio) and its 95 % interval.
    drift, drift_p : change from first to last block (ratio minus 1), p (Mann-Kendall); None below 5 blocks.
    lag1, lag1_error : correlation of neighbouring residuals; standard error of a correlation of zero.
    gap_test : whether the trials form two groups.
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
        """Return the number of valid trials."""
        return len(self.residuals)


def trials_of_arms(values: pd.DataFrame, arms: Collection[str]) -> pd.DataFrame:
    """Return the valid trials of arms that share one configuration, in order of execution.

    `values` has a row per trial and the columns `treatment`, `valid`, `value` (of the metric) and `slot` (its position
    in the run); trials without a positive value are left out. `arms` are names of treatments.
    """
    counted = values[values["treatment"].isin(arms) & values["valid"].astype(bool) & (values["value"] > 0)]
    return counted.sort_values("slot", ignore_index=True)


def summarise_noise(values: pd.DataFrame) -> NoiseSummary | None:
    """Describe the noise of trials of one configuration; None below 10 trials, or if all values are equal.

    `values` is a result of `trials_of_arms` that also has the columns `block` and `valid`.
    """
    if len(values) < MIN_NOISE_TRIALS or values["value"].nunique() < 2:
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
    """Return the interval of the true standard deviation, divided by the standard deviation of the sample.

    Bonett's interval (2006), which allows for heavy tails, with the effective sample size of an autoregressive series,
    n (1 - r^2) / (1 + r^2). `lag1` is r, the correlation of neighbouring values; `level` is the confidence level.
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
    """Test whether the widest gap among the middle 80 % of the residuals (logs) is wider than in normal noise."""
    ordered = np.sort(residuals)
    start, gap = _widest_gap(ordered[None, :])
    simulated = np.sort(np.random.default_rng(GAP_SEED).normal(size=(GAP_SAMPLES, len(ordered))))
    simulated_gaps = _widest_gap(simulated)[1] / simulated.std(axis=1, ddof=1)
    wider = int(np.count_nonzero(simulated_gaps >= gap[0] / ordered.std(ddof=1)))
    below = int(start[0]) + 1
    return GapTest(math.expm1(gap[0]), below, len(ordered) - below, (wider + 1) / (GAP_SAMPLES + 1))


def _widest_gap(ordered: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return, per row of sorted values, the position and width of the widest gap in the middle 80 %."""
    outer = int(ordered.shape[1] * (1 - MIDDLE_SHARE) / 2)
    gaps = np.diff(ordered, axis=1)[:, outer : ordered.shape[1] - 1 - outer]
    return np.argmax(gaps, axis=1) + outer, gaps.max(axis=1)


def normal_scores(size: int) -> NDArray[np.float64]:
    """Return the expected values of `size` sorted standard normal values (Blom's approximation)."""
    return normal_quantiles((np.arange(1, size + 1) - 0.375) / (size + 0.25))


def normal_quantiles(shares: ArrayLike) -> NDArray[np.float64]:
    """Return the standard normal quantiles of these probabilities."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.asarray(shares, float)))


class BlocksNeeded(NamedTuple):
    """Number of blocks that detect a difference with a probability of 80 %, and its 80 % range, `low` to `high`.

    `resampled` is True if pseudo-studies gave the number, False if a formula did (above 40 blocks).
    """

    blocks: int
    low: int
    high: int
    resampled: bool


class DesignPrecision(NamedTuple):
    """Precision of studies with a given number of blocks.

    `half_width` is the median half-width of their 95 % intervals, `detectable_effect` the effect that 80 % of them
    detect (both ratios minus 1), `power` the share of them that detects an effect as large as the margin.
    """

    blocks: int
    half_width: float
    detectable_effect: float
    power: float


class RelabellingTest(NamedTuple):
    """Shares (0 to 1) of pseudo-studies that find a difference, at p <= 0.05, between trials of one configuration.

    A pseudo-study takes `blocks` pairs of successive trials from a record and labels them as two arms.

    Parameters
    ----------
    windows : number of places in the record at which a pseudo-study can begin.
    studies : number of pseudo-studies behind `false_alarms`, and behind `detected`.
    false_alarms : share with random labels in each pair; there is no true difference.
    detected : the same share if one arm is multiplied by 1 + `effect`.
    fixed_order : share if all trials of one arm come before those of the other; one pseudo-study per window.
    """

    blocks: int
    windows: int
    studies: int
    false_alarms: float
    detected: float
    effect: float
    fixed_order: float


@dataclass(frozen=True)
class PairPool:
    """Logs of pairs of neighbouring trials of one configuration, one row per pair.

    Its methods simulate pseudo-studies: each of their blocks is one of these pairs, drawn and labelled at random. A
    study detects an effect if the p of its comparison is at most `alpha`.
    """

    pairs: NDArray[np.float64]
    _known: dict[float, float] = field(default_factory=dict, repr=False, compare=False)

    @property
    def sd(self) -> float:
        """Return the standard deviation of the log ratio of a pair, whichever of the two comes first."""
        return float(np.sqrt(np.mean(np.square(self.pairs[:, 0] - self.pairs[:, 1]))))

    @property
    def sd_factors(self) -> tuple[float, float]:
        """Return the factors on `sd` between which the true standard deviation lies with a probability of 80 %."""
        ratios = self.pairs[:, 0] - self.pairs[:, 1]
        return sd_interval_factors(ratios, level=SD_RANGE_LEVEL)

    def draw_studies(self, blocks: int, number: int = PSEUDO_STUDIES) -> tuple[FloatArray, FloatArray]:
        """Return the logs of both arms in `number` studies, each an array with a row per study, a column per block.

        Pairs are drawn with replacement, labels at random.
        """
        rng = np.random.default_rng((STUDY_SEED, blocks))
        drawn = self.pairs[rng.integers(0, len(self.pairs), (number, blocks))]
        return _with_drawn_labels(drawn, rng)

    def power(self, blocks: int, effect: float, alpha: float = ALPHA) -> float:
        """Return the share (0 to 1) of studies that detect an effect (ratio minus 1)."""
        base, other = self.draw_studies(blocks)
        return float(np.mean(p_by_row(base, other + math.log1p(effect)) <= alpha))

    def detectable_effect(self, blocks: int, alpha: float = ALPHA, power: float = POWER) -> float:
        """Return the effect (ratio minus 1) that the share `power` of studies detects; infinite if no effect is enough.

        With a power of 0.5 it is the median half-width of the intervals.
        """
        return _effect_found(smallest_detected(*self.draw_studies(blocks), alpha), power)

    def precision(self, blocks: int, margin: float) -> DesignPrecision:
        """Return the precision of studies with this number of blocks; `margin` (a ratio minus 1) is for their power."""
        smallest_effects = smallest_detected(*self.draw_studies(blocks, PRECISION_STUDIES), ALPHA)
        half_width, detectable = (_effect_found(smallest_effects, power) for power in (0.5, POWER))
        return DesignPrecision(blocks, half_width, detectable, self.power(blocks, margin))

    def narrow_share(self, blocks: int, margin: float) -> float:
        """Return the share of studies whose A/A arm passes: the half-width of its 95 % interval is below the margin.

        Above 40 blocks the intervals are those of 40 blocks times the root of the ratio of blocks.
        """
        drawn = min(blocks, MAX_RESAMPLED_BLOCKS)
        base, other = self.draw_studies(drawn, PRECISION_STUDIES)
        upper, lower = (smallest_detected(*arms, ALPHA) for arms in ((other, base), (base, other)))
        half_widths = np.expm1((upper + lower) / 2 * math.sqrt(drawn / blocks))
        return float(np.mean(half_widths < margin))

    def blocks_needed(self, effect: float, alpha: float = ALPHA) -> BlocksNeeded | None:
        """Return the number of blocks that detect an effect (ratio minus 1) in 80 % of studies; None above 10,000.

        Above 40 blocks the number comes from a formula. UsageError if the effect is not above 0.
        """
        if not effect > 0:
            raise UsageError(f"a difference of {effect} is nothing to look for", "give 0.02 for 2 %")
        blocks, resampled = self._resampled(effect, alpha), True
        if blocks is None:
            blocks, resampled = blocks_needed(effect, self._sd_beyond(alpha), alpha=alpha), False
        if blocks is None:
            return None
        blocks = blocks if resampled else max(blocks, MAX_RESAMPLED_BLOCKS + 1)
        low, high = (max(MIN_BLOCKS, math.ceil(blocks * factor**2)) for factor in self.sd_factors)
        return BlocksNeeded(blocks, min(low, blocks), max(high, blocks), resampled)

    def detectable_by_formula(self, blocks: int, alpha: float = ALPHA) -> float:
        """Return the effect (ratio minus 1) that more than 40 blocks detect with 80 % power, by a formula."""
        return detectable_effect(blocks, self._sd_beyond(alpha), alpha=alpha)

    def _sd_beyond(self, alpha: float) -> float:
        """Return the standard deviation with which the formula agrees with pseudo-studies of 40 blocks."""
        if alpha not in self._known:
            detectable = self.detectable_effect(MAX_RESAMPLED_BLOCKS, alpha)
            by_formula = detectable_effect(MAX_RESAMPLED_BLOCKS, 1.0, alpha=alpha)
            self._known[alpha] = math.log1p(detectable) / math.log1p(by_formula)
        return self._known[alpha]

    def _resampled(self, effect: float, alpha: float) -> int | None:
        """Return the fewest blocks, up to 40, with 80 % power, found by bisection; None if 40 are not enough."""
        if self.power(MAX_RESAMPLED_BLOCKS, effect, alpha) < POWER:
            return None
        too_few, enough = MIN_BLOCKS - 1, MAX_RESAMPLED_BLOCKS
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            too_few, enough = (too_few, middle) if self.power(middle, effect, alpha) >= POWER else (middle, enough)
        return enough


def _effect_found(smallest_effects: FloatArray, power: float) -> float:
    return math.expm1(float(np.quantile(smallest_effects, power, method="higher")))


def pair_pool(series: NDArray[np.float64]) -> PairPool:
    """Return pairs of neighbours from logs in order of execution; the last log is left out if their number is odd."""
    return PairPool(series[: len(series) // 2 * 2].reshape(-1, 2))


def relabelling_test(
    series: NDArray[np.float64], blocks: int, studies: int = 5_000, effect: float = 0.02
) -> RelabellingTest | None:
    """Judge pseudo-studies of trials of one configuration, each from 2 x `blocks` successive trials.

    `series` has the logs of the trials' values in order of execution, `effect` is a ratio minus 1. None if there are
    no more than 2 x `blocks` trials.
    """
    if len(series) <= 2 * blocks:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(series, 2 * blocks)
    rng = np.random.default_rng((STUDY_SEED, blocks))
    drawn = windows[rng.integers(0, len(windows), studies)].reshape(studies, blocks, 2)
    base, other = _with_drawn_labels(drawn, rng)
    arms = ((base, other), (base, other + math.log1p(effect)), (windows[:, :blocks], windows[:, blocks:]))
    false_alarms, detected, fixed_order = (float(np.mean(p_by_row(*pair) <= ALPHA)) for pair in arms)
    return RelabellingTest(blocks, len(windows), studies, false_alarms, detected, effect, fixed_order)


def _with_drawn_labels(pairs: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw at random which of each pair (last axis) is the baseline; return the logs of both arms."""
    swapped = rng.integers(0, 2, pairs.shape[:-1], dtype=bool)
    return np.where(swapped, pairs[..., 1], pairs[..., 0]), np.where(swapped, pairs[..., 0], pairs[..., 1])


BATCH_S = 10.0  # means over this time count as independent
MIN_BATCHES = 3
MIN_LENGTH_TRIALS = 5


class TrialLength(NamedTuple):
    """Best length of a trial, `best_s` (s); None if trials scatter no more than their own length explains.

    `within_1s` and `between` are standard deviations (ratios): of a mean over 1 s within a trial, and between trials.
    `overhead_s` is the time (s) that a trial takes in addition, `trials` the number of trials that were long enough.
    """

    best_s: float | None
    within_1s: float
    between: float
    overhead_s: float
    trials: int


def estimate_trial_length(
    rates: Sequence[ArrayLike], interval_s: float, sd_trial: float, overhead_s: float
) -> TrialLength | None:
    """Estimate the best trial length from trials of one configuration; None below five trials of about 30 s or more.

    Parameters
    ----------
    rates : rates of each trial, one value per `interval_s` seconds of its measurement.
    sd_trial : scatter of the log rate between trials of one block: that of a pair's log ratio over the root of two.
    overhead_s : seconds that a trial takes in addition to its measurement.
    """
    size = max(1, round(BATCH_S / interval_s))
    arrays = (np.asarray(series, float) for series in rates)
    batches = [array[: len(array) // size * size].reshape(-1, size).mean(axis=1) for array in arrays]
    batches = [means for means in batches if len(means) >= MIN_BATCHES and means.mean() > 0]
    if len(batches) < MIN_LENGTH_TRIALS:
        return None
    variances = [float(np.var(means / means.mean(), ddof=1)) for means in batches]
    batch_s = size * interval_s
    within = math.sqrt(float(np.mean(variances)) * batch_s)
    length_s = batch_s * float(np.mean([len(means) for means in batches]))
    between = math.sqrt(max(sd_trial**2 - within**2 / length_s, 0.0))
    best = best_trial_length_s(within, between, overhead_s) if between > 0 else None
    return TrialLength(best, within, between, overhead_s, len(batches))


def p_by_row(base: FloatArray, other: FloatArray) -> FloatArray:
    """Return the two-sided p of the test that `compare` would choose, for each row (study) of the logs of two arms.

    Both arrays have a column per block.
    """
    starts = range(0, len(base), CHUNK_ROWS)
    return np.concatenate([_p_and_sign(base[k : k + CHUNK_ROWS], other[k : k + CHUNK_ROWS])[0] for k in starts])


def smallest_detected(base: FloatArray, other: FloatArray, alpha: float) -> FloatArray:
    """Return, per row (study), the smallest shift of `other` (log) that makes it significantly larger than `base`.

    Significant means p <= `alpha`; inf if no shift is. `base` and `other` are logs, a column per block. Found by
    bisection, since a larger difference is never harder to detect.
    """
    max_shift = float(max(base.max() - other.min(), other.max() - base.min())) + 1e-6
    max_shift *= 1 if base.shape[1] >= MIN_SIGNED_BLOCKS else 20  # the t test may need more than disjoint arms
    low, high = np.full(len(base), -max_shift), np.full(len(base), max_shift)
    undetected = ~_is_detected(base, other, high, alpha)
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        detected = _is_detected(base, other, middle, alpha)
        low, high = np.where(detected, low, middle), np.where(detected, middle, high)
    return np.where(undetected, np.inf, high)


def _is_detected(base: FloatArray, other: FloatArray, shift: FloatArray, alpha: float) -> NDArray[np.bool_]:
    p, sign = _p_and_sign(base, other + shift[:, None])
    return np.asarray((p <= alpha) & (sign > 0))


def _p_and_sign(base: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return, by row, p and a number with the sign of the difference; all rows have the same number of blocks."""
    blocks = base.shape[1]
    if blocks < MIN_RANK_BLOCKS:
        return paired_t_p(other - base)[:2]
    p, sign = blocked_rank_p(base, other)
    unequal = variances_differ(base, other)
    if unequal.any():
        differences = np.round((other - base)[unequal], LOG_DECIMALS)
        p[unequal], sign[unequal] = (signed_rank_p if blocks >= MIN_SIGNED_BLOCKS else paired_t_p)(differences)[:2]
    return p, sign
