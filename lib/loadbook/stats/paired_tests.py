"""Paired tests on logarithms of values in complete blocks, their permutations, intervals by inverting a test.

All tests use logarithms, with blocks along the last axis; p-values are also computed for many rows at once.
Permutations swap the labels of both arms within blocks: all swaps for up to 12 blocks, 9,999 seeded ones beyond.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from loadbook.core.errors import DataError
from loadbook.stats.results import Interval

if TYPE_CHECKING:
    import pandas as pd

FloatArray = NDArray[np.floating]

MAX_EXACT_BLOCKS = 12
RESAMPLES = 9_999
SEED = 20_170_422
LOG_TOLERANCE, LOG_DECIMALS = 1e-12, 12  # logs that differ by less are the same value, rounded differently
HALF_STEP = 0.25  # half the distance of neighbouring rank statistics, which are multiples of one half
STATISTIC_TOLERANCE = 1e-9  # for standardised statistics
MAX_LOG = 700.0  # the exponential of a larger one overflows a float
UNEQUAL_VARIANCE_ALPHA = 0.05


@lru_cache(maxsize=16)
def label_signs(blocks: int) -> NDArray[np.float32]:
    """Return label swaps as rows of +1 and -1, one column per block.

    Up to 12 blocks these are all swaps, without those that differ only in the sign of the whole row; above, they are
    9,999 random ones, the same in each call.
    """
    if blocks <= MAX_EXACT_BLOCKS:
        numbers = np.arange(2 ** max(blocks - 1, 0))[:, None]
        bits = (numbers >> np.arange(blocks)) & 1
    else:
        bits = np.random.default_rng(SEED).integers(0, 2, size=(RESAMPLES, blocks), dtype=np.int8)
    return np.asfortranarray(1 - 2 * bits, dtype=np.float32)


def p_from_hits(hits: NDArray[np.bool_], *, exact: bool) -> FloatArray:
    """Return p-values: shares of label swaps (last axis) with a hit, a statistic as extreme as the observed one.

    `exact`: these are all swaps; otherwise the observed labels are counted as one more swap with a hit.
    """
    count = np.count_nonzero(hits, axis=-1)
    if exact:
        return np.asarray(count / hits.shape[-1], dtype=float)
    return np.asarray((count + 1) / (hits.shape[-1] + 1), dtype=float)


def permutation_p(differences: FloatArray) -> FloatArray:
    """Return the two-sided p of each row of block differences (multiples of one half) under label swaps.

    Magnitudes are sorted so that sampled p-values do not depend on the order of blocks or on which arm comes first.
    """
    blocks = differences.shape[1]
    observed = np.abs(differences.sum(axis=1))
    magnitudes = np.sort(np.abs(differences), axis=1).astype(np.float32)
    # `@` would take ten times as long on a busy machine because the threads of BLAS wait for each other
    permuted = np.einsum("kb,sb->ks", magnitudes, label_signs(blocks))
    return p_from_hits(np.abs(permuted) >= observed[:, None] - HALF_STEP, exact=blocks <= MAX_EXACT_BLOCKS)


def step_down_max(observed: FloatArray, relabelled: FloatArray, *, exact: bool) -> list[float]:
    """Return p-values adjusted step-down by the largest remaining statistic (Westfall and Young).

    `observed` has each comparison's statistic (larger means stronger evidence), `relabelled` (one row per comparison)
    the statistics under shared label swaps. `exact`: these are all possible swaps, not a sample.
    """
    order = np.argsort(-observed, kind="stable")
    largest_of_rest = np.maximum.accumulate(relabelled[order][::-1], axis=0)[::-1]
    adjusted = np.empty(len(order))
    reached = largest_of_rest >= observed[order][:, None] - STATISTIC_TOLERANCE
    adjusted[order] = np.maximum.accumulate(p_from_hits(reached, exact=exact))
    return [float(p) for p in adjusted]


def adjust_holm(plain: Sequence[float | None]) -> list[float]:
    """Return p-values of one family adjusted by Holm's method, which is valid under any dependence; NaN for None.

    The same as `statsmodels.stats.multitest.multipletests`, which collects garbage on every call: 50 to 300 ms.
    """
    values = np.asarray(plain, dtype=float)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)))
    return [float(p) for p in adjusted]


def invert_test(
    points: FloatArray, p_at: Callable[[FloatArray], FloatArray], alphas: Sequence[float]
) -> list[tuple[float, float] | None]:
    """Return, per two-sided alpha, the interval of shifts that a test does not reject (p > alpha).

    `points` are all shifts at which p can change, `p_at` returns the p-values of an array of shifts. The ends of an
    interval are members of `points`; it is None if the test does not even reject the largest shifts.
    """
    ordered = np.sort(points)
    ordered = ordered[np.diff(ordered, prepend=-np.inf) > LOG_TOLERANCE]
    between = np.concatenate([[ordered[0] - 1], (ordered[:-1] + ordered[1:]) / 2, [ordered[-1] + 1]])
    median, last = float(np.median(points)), len(ordered)
    estimate_gaps = [int(np.searchsorted(ordered, median, side=side)) for side in ("left", "right")]
    p_first, p_last, *p_at_estimate = p_at(between[[0, last, *estimate_gaps]])
    lowest, highest = _bisect_bounds(between, p_at, estimate_gaps[int(np.argmax(p_at_estimate))], alphas)
    intervals: list[tuple[float, float] | None] = []
    for alpha, low, high in zip(alphas, lowest, highest, strict=True):
        if max(p_first, p_last) > alpha:
            intervals.append(None)
        elif max(p_at_estimate) <= alpha:  # tied values: the test rejects all but the estimate
            intervals.append((median, median))
        else:
            intervals.append((float(ordered[low - 1]), float(ordered[high])))
    return intervals


def _bisect_bounds(
    between: FloatArray, p_at: Callable[[FloatArray], FloatArray], centre: int, alphas: Sequence[float]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the lowest and highest accepted gap per alpha; all ends are searched at once, which is faster."""
    limits = np.tile(alphas, 2)
    rejected = np.repeat([0, len(between) - 1], len(alphas))
    accepted = np.full(len(limits), centre)
    while (abs(accepted - rejected) > 1).any():
        halves = (accepted + rejected) // 2
        accepts = p_at(between[halves]) > limits
        accepted, rejected = np.where(accepts, halves, accepted), np.where(accepts, rejected, halves)
    return accepted[: len(alphas)], accepted[len(alphas) :]


@dataclass(frozen=True)
class PairedLogs:
    """Logs of both arms in complete blocks, ordered as `blocks`: `base` of the baseline, `other` of the treatment.

    `incomplete` is the number of other blocks. In `unusable` of these a trial is not valid or its value is not a
    positive number; in the rest a trial is missing.
    """

    treatment: str
    baseline: str
    blocks: tuple[object, ...]
    base: FloatArray
    other: FloatArray
    incomplete: int
    unusable: int


def pair_arms(values: pd.DataFrame, treatment: str, baseline: str) -> PairedLogs:
    """Pair two arms by block; raise DataError if an arm has two rows in one block.

    `values` has one row per trial: treatment, block, value, and optionally valid. A block is complete if both arms have
    a valid, finite, positive value (zero throughput is a failed trial). Blocks in which only other treatments ran count
    as incomplete.
    """
    by_arm = _values_by_block(values, (baseline, treatment))
    base, other = by_arm[baseline], by_arm[treatment]
    all_blocks = list(dict.fromkeys(values["block"].tolist()))
    arm_values = np.array([[arm.get(block, math.nan) for block in all_blocks] for arm in (base, other)], float)
    present = np.array([[block in arm for block in all_blocks] for arm in (base, other)], bool)
    usable = np.isfinite(arm_values) & (arm_values > 0)
    complete = usable.all(axis=0)
    base_logs, other_logs = np.log(arm_values[:, complete])
    return PairedLogs(
        treatment=treatment,
        baseline=baseline,
        blocks=tuple(block for block, counts in zip(all_blocks, complete, strict=True) if counts),
        base=base_logs,
        other=other_logs,
        incomplete=int((~complete).sum()),
        unusable=int((present & ~usable).any(axis=0).sum()),
    )


def complete_blocks(values: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """Return the values of blocks in which each arm has a valid positive one: a row per block, a column per arm.

    `values` has one row per trial: treatment, block, value, valid.
    """
    usable = values[values["valid"] & (values["value"] > 0)]
    return usable.pivot(index="block", columns="treatment", values="value").reindex(columns=list(arms)).dropna()


def _values_by_block(values: pd.DataFrame, arms: Sequence[str]) -> dict[str, dict[object, float]]:
    """Return arm -> block -> value; a value that is missing or not valid is NaN."""
    numbers = values["value"].to_numpy(float, na_value=math.nan)
    if "valid" in values:
        numbers = np.where(values["valid"].to_numpy(bool), numbers, math.nan)
    found: dict[str, dict[object, float]] = {name: {} for name in arms}
    rows = zip(values["treatment"].tolist(), values["block"].tolist(), numbers.tolist(), strict=True)
    for name, block, number in rows:
        if name not in found:
            continue
        if block in found[name]:
            raise DataError(f"treatment {name!r} has more than one row in block {block}")
        found[name][block] = number
    return found


def effect_from_log(log_ratio: float) -> float:
    """Convert a log ratio to a ratio minus 1."""
    return math.expm1(min(log_ratio, MAX_LOG))


def effect_interval_from_logs(log_interval: Interval | None) -> Interval | None:
    """Convert an interval of log ratios to ratios minus 1; None stays None."""
    return None if log_interval is None else (effect_from_log(log_interval[0]), effect_from_log(log_interval[1]))


class PairedTestResult(NamedTuple):
    """Estimate of the log ratio, its two-sided p, and one interval of the log ratio for each given alpha.

    The ratio is other to base, so a positive estimate means that `other` has the larger values. An interval is None if
    so few blocks allow none at its alpha.
    """

    estimate: float
    p: float
    intervals: list[Interval | None]


def rank_differences(base: FloatArray, other: FloatArray) -> FloatArray:
    """Return, per block (last axis), the midrank of `other` minus that of `base` among all values of both arms."""
    blocks = base.shape[-1]
    ranks = stats.rankdata(np.concatenate([base, other], axis=-1), axis=-1)
    return np.asarray(ranks[..., blocks:] - ranks[..., :blocks])


def blocked_rank(base: FloatArray, other: FloatArray, alphas: Sequence[float]) -> PairedTestResult:
    """Test by Mann-Whitney's statistic under label swaps within blocks; the estimate is that of Hodges and Lehmann."""
    shifts = np.subtract.outer(other, base).ravel()

    def p_at(shift: FloatArray) -> FloatArray:
        return blocked_rank_p(np.broadcast_to(base, (len(shift), len(base))), other - shift[:, None])[0]

    return PairedTestResult(float(np.median(shifts)), float(p_at(np.zeros(1))[0]), invert_test(shifts, p_at, alphas))


def blocked_rank_p(base: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return, for each row, p of the blocked rank test and the sum of rank differences."""
    differences = rank_differences(base, other)
    return permutation_p(differences), differences.sum(axis=1)


def signed_rank(base: FloatArray, other: FloatArray, alphas: Sequence[float]) -> PairedTestResult:
    """Test by Wilcoxon's signed midranks under all sign changes; the estimate is the median of Walsh averages."""
    differences = np.round(other - base, LOG_DECIMALS)
    first, second = np.triu_indices(len(differences))
    walsh = (differences[first] + differences[second]) / 2

    def p_at(shift: FloatArray) -> FloatArray:
        return signed_rank_p(differences - shift[:, None])[0]

    return PairedTestResult(float(np.median(walsh)), float(p_at(np.zeros(1))[0]), invert_test(walsh, p_at, alphas))


def signed_rank_p(differences: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return, for each row, p of the signed rank test and the sum of signed ranks."""
    rounded = np.round(differences, LOG_DECIMALS + 1)
    ranks = np.sign(rounded) * stats.rankdata(np.abs(rounded), axis=-1)
    return permutation_p(ranks), ranks.sum(axis=1)


def paired_t(base: FloatArray, other: FloatArray, alphas: Sequence[float]) -> PairedTestResult:
    """Test by Student's t on the paired log ratios; the estimate is their mean."""
    p, mean, error = (float(x[0]) for x in paired_t_p((other - base)[None, :]))
    half_widths = [float(stats.t.ppf(1 - alpha / 2, len(base) - 1)) * error for alpha in alphas]
    return PairedTestResult(mean, p, [(mean - w, mean + w) for w in half_widths])


def paired_t_p(differences: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return, for each row, p of the paired t test, the mean, and its standard error."""
    differences = np.round(differences, LOG_DECIMALS)
    blocks, mean = differences.shape[1], differences.mean(axis=1)
    error = differences.std(axis=1, ddof=1) / math.sqrt(blocks)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * stats.t.sf(np.abs(mean) / error, blocks - 1)
    return np.where(error > 0, p, np.where(mean == 0, 1.0, 0.0)), mean, error


def variances_differ(base: FloatArray, other: FloatArray) -> NDArray[np.bool_]:
    """Return whether one arm scatters more, at p < 0.05, for logs with blocks along the last axis.

    The test is that of Pitman and Morgan, with Spearman's correlation of sum and difference.
    """
    ranks = stats.rankdata(np.round([base + other, other - base], LOG_DECIMALS), axis=-1)
    centred = ranks - ranks.mean(axis=-1, keepdims=True)
    sd = ranks.std(axis=-1, keepdims=True)
    total, difference = np.divide(centred, sd, out=np.zeros_like(centred), where=sd > 0)
    correlation = (total * difference).mean(axis=-1)
    return np.asarray(np.abs(correlation) > _critical_correlation(base.shape[-1]))


@lru_cache(maxsize=64)
def _critical_correlation(blocks: int) -> float:
    """Return the smallest correlation of `blocks` pairs that Student's t finds significant."""
    critical = float(stats.t.isf(UNEQUAL_VARIANCE_ALPHA / 2, blocks - 2))
    return critical / math.sqrt(blocks - 2 + critical**2)
