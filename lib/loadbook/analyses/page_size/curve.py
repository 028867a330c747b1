"""The two-regime curve of one series: 1 / rate = cost per request + size x cost per byte.

The cost per request (handshake, headers, scheduling) rules small pages, the cost per byte (copying, encryption, the
wire) large ones: the linear model of transfer time as latency plus size over bandwidth (Hockney, Parallel Computing 20,
1994), in the words of articles that draw TPS against page size. At the *knee* both costs are equal; beyond it the curve
approaches a ceiling of 1 / (cost per byte) bytes per second.

Method: least-squares means of the log rates by size, with blocks as the other factor (every trial counts; a block that
lost one trial keeps the rest), then least squares of log(rate) over the logs of both costs. Intervals: the
delete-one-block jackknife (Tukey 1958; Miller, Biometrika 61, 1974) on the log of each quantity with Student's t, so
that the block is the unit. tests/analyses/test_page_size_compute.py checks the coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import t

from loadbook.stats.compare import MIN_BLOCKS
from loadbook.stats.paired_tests import FloatArray
from loadbook.stats.results import Interval

MIN_SIZES = 3  # two costs and one size that can contradict them
MIN_COST_SHARE = 1e-4  # a cost that is a smaller part of every request than this cannot be seen at all


@dataclass(frozen=True)
class Estimate:
    """A quantity above zero with its interval at the curve's level."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class TwoRegimeCurve:
    """The fit of one series.

    `sizes_b` (bytes, rising) and `means_per_s`, the rates by size that were fitted; `log_costs`, the logs of both costs
    (seconds, seconds per byte). `log_costs_without` and `means_without` are those of the fits without one block each.
    """

    sizes_b: FloatArray
    means_per_s: FloatArray
    log_costs: FloatArray
    log_costs_without: FloatArray
    means_without: FloatArray
    level: float = 0.95

    @property
    def blocks(self) -> int:
        """Blocks that the intervals rest on."""
        return len(self.log_costs_without)

    @cached_property
    def per_request_s(self) -> Estimate:
        """Seconds per request without its bytes, over all requests that are in progress at one time."""
        return self._estimate(lambda logs: logs[..., 0])

    @cached_property
    def per_byte_s(self) -> Estimate:
        """Seconds per byte of the page."""
        return self._estimate(lambda logs: logs[..., 1])

    @cached_property
    def ceiling_bytes_per_s(self) -> Estimate:
        """Bytes per second that the curve approaches with size."""
        return self._estimate(lambda logs: -logs[..., 1])

    @cached_property
    def knee_b(self) -> Estimate:
        """The size in bytes at which a request costs as much as its bytes."""
        return self._estimate(lambda logs: logs[..., 0] - logs[..., 1])

    def rate_at(self, size_b: float) -> Estimate:
        """Return the curve's rate per second at a size, with its interval (of the curve, not of a trial)."""
        return self._estimate(lambda logs: _log_rate(logs, size_b))

    @cached_property
    def misfits(self) -> dict[float, Estimate]:
        """Size -> measured rate over that of the curve; if the interval excludes 1, the curve is too simple."""
        misfits = {}
        for k, size in enumerate(self.sizes_b):
            log_ratio = math.log(self.means_per_s[k]) - _log_rate(self.log_costs, size)
            without = np.log(self.means_without[:, k]) - _log_rate(self.log_costs_without, size)
            misfits[float(size)] = jackknife_estimate(float(log_ratio), without, self.level)
        return misfits

    @property
    def visible_regime(self) -> str:
        """The side of the knee that the sizes cover: "both", "request" (the knee may lie beyond them) or "byte"."""
        low, high = self.knee_b.interval
        if high > self.sizes_b[-1]:
            return "request"
        return "byte" if low < self.sizes_b[0] else "both"

    def _estimate(self, log_of: Callable[[FloatArray], FloatArray]) -> Estimate:
        return jackknife_estimate(float(log_of(self.log_costs)), log_of(self.log_costs_without), self.level)


def jackknife_estimate(log_whole: float, logs_without: FloatArray, level: float) -> Estimate:
    """Return exp of an estimate with its interval, from the estimates that each leave out one block."""
    blocks = len(logs_without)
    spread = float(np.sum((logs_without - logs_without.mean()) ** 2)) * (blocks - 1) / blocks
    half = float(t.ppf(0.5 + level / 2, blocks - 1)) * math.sqrt(spread)
    value, low, high = (
        math.exp(max(min(log, 700.0), -700.0)) for log in (log_whole, log_whole - half, log_whole + half)
    )
    return Estimate(value, (low, high))


def fit_curve(values: Mapping[float, Mapping[object, float]], level: float = 0.95) -> TwoRegimeCurve | str:
    """Fit one series; return the reason in words if it cannot be fitted.

    `values` has size in bytes -> block -> rate per second, of the trials that count (all above zero).
    """
    usable = {size: values[size] for size in sorted(values) if len(values[size]) >= MIN_BLOCKS}
    if len(usable) < MIN_SIZES:
        return f"{len(usable)} of {len(values)} sizes have {MIN_BLOCKS} trials that count, {MIN_SIZES} must for a curve"
    blocks = sorted({block for by_block in usable.values() for block in by_block}, key=str)
    table = np.array(
        [[math.log(by_block[b]) if b in by_block else math.nan for by_block in usable.values()] for b in blocks]
    )
    table = table[np.isfinite(table).sum(axis=1) > 1]  # a block with one size compares nothing
    if len(table) < MIN_BLOCKS:
        return f"only {len(table)} blocks have two sizes, {MIN_BLOCKS} are needed"
    sizes = np.array(list(usable), float)
    means, parts = _size_means(table), np.array([_size_means(np.delete(table, k, axis=0)) for k in range(len(table))])
    logs = _fit_costs(sizes, means)
    without = np.array([_fit_costs(sizes, part, logs) for part in parts])
    return TwoRegimeCurve(sizes, np.exp(means), logs, without, np.exp(parts), level)


def _size_means(table: FloatArray) -> FloatArray:
    """Return the least-squares mean of each column of a table of logs (blocks down, sizes across) with gaps."""
    present = np.isfinite(table)
    if present.all():
        return np.asarray(table.mean(axis=0))
    rows, columns = np.nonzero(present)
    design = np.zeros((len(rows), table.shape[1] + table.shape[0]))
    design[np.arange(len(rows)), columns] = 1.0
    design[np.arange(len(rows)), table.shape[1] + rows] = 1.0
    # block effects add up to 0
    closing = np.r_[np.zeros(table.shape[1]), np.ones(table.shape[0])]
    solved = np.linalg.lstsq(np.vstack([design, closing]), np.r_[table[present], 0.0], rcond=None)[0]
    return np.asarray(solved[: table.shape[1]])


def _fit_costs(sizes: FloatArray, log_rates: FloatArray, start: FloatArray | None = None) -> FloatArray:
    """Return the logs of both costs by least squares on log rates, each within bounds of a visible share."""
    seconds = np.exp(-log_rates)
    low = np.log([seconds.min() * MIN_COST_SHARE, seconds.min() / sizes[-1] * MIN_COST_SHARE])
    high = np.log([seconds.max() * 2, (seconds / sizes).max() * 2])
    first = np.log([seconds[0], seconds[-1] / sizes[-1]]) if start is None else start
    log_sizes = np.log(sizes)

    def slopes(logs: FloatArray) -> FloatArray:
        of_bytes = 1 / (1 + np.exp(logs[0] - logs[1] - log_sizes))
        return np.column_stack([1 - of_bytes, of_bytes])

    def residuals(logs: FloatArray) -> FloatArray:
        return np.asarray(log_rates + np.logaddexp(logs[0], logs[1] + log_sizes))

    start = np.clip(first, low + 1e-6, high - 1e-6)
    return np.asarray(least_squares(residuals, start, jac=slopes, bounds=(low, high), xtol=1e-10).x)


def _log_rate(logs: FloatArray, size_b: float) -> FloatArray:
    """Return the log of the curve's rate at a size; costs along the last axis."""
    return np.asarray(-np.logaddexp(logs[..., 0], logs[..., 1] + math.log(size_b)))
