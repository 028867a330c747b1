"""Mean effects of several runs ("levels"), changes between them, and the alarm that the newest run is worse.

A level is a random-effects mean: the variance between runs is estimated by Paule and Mandel (by statsmodels), the
scale by Hartung, Knapp, Sidik and Jonkman. If all runs have the same standard error, it is the plain mean with the
usual prediction interval; runs with more blocks only get more weight.

Changes are found by circular binary segmentation (Olshen and others 2004), weighted by the runs' standard errors. An
arc is a series of at least `MIN_SEGMENT_RUNS` consecutive runs. The search takes the arc whose mean differs most from
the mean of the other runs; it counts if the p-value of its F test times the number of arcs (Bonferroni) is significant.
Unlike a single cut, an arc also finds a change that was later reverted. Each piece is then searched in the same way,
and edges that the two adjacent pieces do not confirm are dropped. If runs scatter normally, at most the share `rate` of
histories without a change shows one; benchmarks/history_rates.py measures that share, also with heavy tails.

The alarm compares the newest effect with a one-sided prediction interval. If runs scatter normally about one level, the
share `rate` of runs raises a false alarm for any treatment of the study: each of m treatments gets rate / m
(Bonferroni), as they share a baseline. A run's standard error is estimated from few blocks; the newest run's is set to
at least the usual one, because a run that underestimates its error would raise too many alarms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc, stdtr, stdtrit

from loadbook.core.metrics import Direction
from loadbook.stats.paired_tests import FloatArray
from loadbook.stats.results import Interval


@dataclass(frozen=True)
class EffectLevel:
    """The level of `runs` runs, in logs of ratios: mean, standard error, and standard deviation between runs.

    `scale` multiplies the variance of a run (squared error plus squared `sd_between_runs`). For one run, `error` is
    its own.
    """

    runs: int
    mean: float
    error: float
    sd_between_runs: float
    scale: float

    def interval(self, level: float = 0.95) -> Interval:
        """Return the interval of the mean (Student's t); it needs at least two runs."""
        half = float(stdtrit(self.runs - 1, (1 + level) / 2)) * self.error
        return self.mean - half, self.mean + half

    def prediction_error(self, error: float) -> float:
        """Return the standard error of the difference between the mean and another run with standard error `error`."""
        return math.sqrt(self.scale * (error**2 + self.sd_between_runs**2) + self.error**2)


def estimate_level(logs: Sequence[tuple[float, float]]) -> EffectLevel:
    """Return the level of runs; `logs` has (log ratio, its standard error > 0) of each run."""
    y, errors = np.array(logs, float).T
    if len(y) == 1:
        return EffectLevel(1, float(y[0]), float(errors[0]), 0.0, 1.0)
    between = sd_between_runs(y, errors)
    share = 1 / (errors**2 + between**2)
    mean = float(share @ y / share.sum())
    scale = float(share @ (y - mean) ** 2) / (len(y) - 1)
    scale = scale if scale > 1e-12 else 1.0  # if all runs are exactly equal, their standard errors are not scaled to 0
    return EffectLevel(len(y), mean, math.sqrt(scale / share.sum()), between, scale)


def sd_between_runs(values: FloatArray, errors: FloatArray) -> float:
    """Return the standard deviation between runs that their standard errors do not explain."""
    from statsmodels.stats.meta_analysis import combine_effects

    unit = float(np.median(errors))  # scaled, as statsmodels stops at absolute tolerances
    with np.errstate(divide="ignore", invalid="ignore"):  # statsmodels' measures of heterogeneity divide by zero
        return unit * math.sqrt(combine_effects(values / unit, (errors / unit) ** 2, method_re="iterated").tau2)


MIN_SEGMENT_RUNS = 3  # smallest number of runs of a level: one or two outlying runs are no change
MAX_RUNS = 1000  # only the newest runs are searched: the number of arcs grows with the square of the number of runs


def find_changes(logs: Sequence[tuple[float, float]], rate: float) -> list[int]:
    """Return the indices at which a new level begins, in rising order.

    `logs` has (log ratio, its standard error) of each run, oldest first. `rate` is the accepted share of histories
    without a change in which one is found.
    """
    y, errors = np.array(logs, float).reshape(-1, 2).T
    first = max(0, len(y) - MAX_RUNS)
    edges = _prune_edges(y[first:], errors[first:], sorted(set(_segment_edges(y[first:], errors[first:], rate))), rate)
    return [first + edge for edge in edges]


def _segment_edges(y: FloatArray, errors: FloatArray, rate: float) -> list[int]:
    """Return the edges of the most significant arc, and recursively those within its pieces; empty if none is."""
    if len(y) < 2 * MIN_SEGMENT_RUNS:
        return []
    starts, ends = np.triu_indices(len(y) + 1, MIN_SEGMENT_RUNS)
    # on either side of an arc there must be no runs or enough for a level
    sides = [(side == 0) | (side >= MIN_SEGMENT_RUNS) for side in (starts, len(y) - ends)]
    arcs = np.column_stack([starts, ends])[sides[0] & sides[1] & (ends - starts < len(y))]
    p = _arc_p(y, errors, arcs)
    best = int(np.argmin(p))
    if p[best] * len(arcs) > rate:
        return []
    edges = [0, *(int(edge) for edge in arcs[best] if 0 < edge < len(y)), len(y)]
    inner_edges = edges[1:-1]
    for start, end in pairwise(edges):
        inner_edges += [start + edge for edge in _segment_edges(y[start:end], errors[start:end], rate)]
    return inner_edges


def _prune_edges(y: FloatArray, errors: FloatArray, inner: list[int], rate: float) -> list[int]:
    """Drop edges, the weakest first, at which the adjacent pieces do not differ significantly; return the others."""
    while inner:
        edges = [0, *inner, len(y)]
        p = [
            float(_arc_p(y[a:c], errors[a:c], np.array([[0, b - a]]))[0])
            for a, b, c in zip(edges, edges[1:], edges[2:], strict=False)
        ]
        weakest = int(np.argmax(p))
        if p[weakest] <= rate:
            break
        inner = inner[:weakest] + inner[weakest + 1 :]
    return inner


def _arc_p(y: FloatArray, errors: FloatArray, arcs: NDArray[np.integer]) -> FloatArray:
    """Return each arc's p-value against the other runs, by an F test with 1 and n - 2 degrees of freedom."""
    weights = 1 / (errors**2 + sd_between_runs(y, errors) ** 2)
    total_weight = weights.sum()
    centred = y - weights @ y / total_weight
    sums, shares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (weights * centred, weights))
    inside = shares[arcs[:, 1]] - shares[arcs[:, 0]]
    explained = (sums[arcs[:, 1]] - sums[arcs[:, 0]]) ** 2 * total_weight / (inside * (total_weight - inside))
    residual = np.maximum(weights @ centred**2 - explained, 1e-12 * len(y))
    return np.asarray(fdtrc(1, len(y) - 2, explained / residual * (len(y) - 2)))


LogEffect = tuple[float, float, int]  # (log ratio, its standard error, number of blocks)
MIN_PAST_RUNS = 4  # earlier runs that an alarm needs: fewer could hardly detect anything


@dataclass(frozen=True)
class Alarm:
    """The newest run compared with earlier runs; `effect`, `expected` and `limit` (worst expected) are ratios minus 1.

    `raised`: `effect` is worse than `limit`. `power` is the probability that a true worsening by `margin` raises the
    alarm, `rate` the accepted share of false alarms for this treatment alone.
    """

    effect: float
    expected: float
    limit: float
    past_runs: int
    raised: bool
    rate: float
    margin: float
    power: float


def assess_newest(
    past: Sequence[LogEffect], newest: LogEffect, *, better: Direction, rate: float, margin: float
) -> Alarm | None:
    """Compare the newest run with earlier runs; None if these are too few.

    Runs are (log ratio, its standard error, number of blocks). `rate` is the accepted share of false alarms for this
    one treatment, `margin` a ratio minus 1, as the study declares it.
    """
    if len(past) < MIN_PAST_RUNS:
        return None
    past_level = estimate_level([(log, error) for log, error, _ in past])
    usual_error = math.sqrt(sum(error**2 * blocks for _, error, blocks in past) / len(past) / newest[2])
    error = past_level.prediction_error(max(newest[1], usual_error))
    sign, degrees_of_freedom = (1 if better == "higher" else -1), len(past) - 1
    quantile = float(stdtrit(degrees_of_freedom, 1 - rate))
    limit = past_level.mean - sign * quantile * error
    return Alarm(
        effect=math.expm1(newest[0]),
        expected=math.expm1(past_level.mean),
        limit=math.expm1(limit),
        past_runs=len(past),
        raised=sign * (newest[0] - limit) < 0,
        rate=rate,
        margin=margin,
        power=float(stdtr(degrees_of_freedom, math.log1p(margin) / error - quantile)),
    )
