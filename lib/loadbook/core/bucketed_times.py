"""Times of requests in buckets: percentiles, mean and deviation of several histograms together.

A time in a bucket is known to the bucket's width. So the time of a rank lies between two times: that of the rank if
all times were at the lower edges of their buckets, and that if all were at the upper edges.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple


class Bucket(NamedTuple):
    """`number` times from `low` to `high`, in s; `stated` is the time that the tool says for each of them, if one."""

    low: float
    high: float
    number: int
    stated: float | None = None


class BucketedTimes(NamedTuple):
    """Times of one metric: how many its statistics are of, and their buckets, empty if the tool prints none.

    The statistic sd, if the tool states it, divides by `number`. Percentiles below `least_percent` are not told by the
    buckets. This does not depend on the times: a trial must not lose a value because of how large it is.
    """

    number: int
    buckets: tuple[Bucket, ...] = ()
    least_percent: float = 0.0


class Rounded(NamedTuple):
    """A time, and the width of the range in which the exact one lies, both in s."""

    value: float
    step: float


def joint_percentile(histograms: Iterable[BucketedTimes], percent: float) -> Rounded | None:
    """Return the nearest-rank percentile of all times together; None if the buckets do not tell it.

    It is the time that the tool states for the bucket; without one it is interpolated within the buckets.
    """
    parts = list(histograms)
    buckets = [bucket for part in parts for bucket in part.buckets if bucket.number]
    number = sum(bucket.number for bucket in buckets)
    if not number or any(sum(bucket.number for bucket in part.buckets) != part.number for part in parts):
        return None
    if percent < max(part.least_percent for part in parts):
        return None
    rank = max(1, math.ceil(percent / 100 * number - 1e-9))
    low = _at_rank([(bucket.low, bucket.number) for bucket in buckets], rank)
    high = _at_rank([(bucket.high, bucket.number) for bucket in buckets], rank)
    stated = [(bucket.stated, bucket.number) for bucket in buckets if bucket.stated is not None]
    if len(stated) == len(buckets):
        value = _at_rank(stated, rank)
    else:
        value = _interpolated(buckets, percent / 100 * number, low, high)
    return Rounded(value, high - low)


def joint_mean(numbers: Sequence[int], means: Sequence[float]) -> float:
    """Return the mean of all times from the number of each part and its mean."""
    return math.fsum(n * mean for n, mean in zip(numbers, means, strict=True)) / sum(numbers)


def joint_sd(numbers: Sequence[int], means: Sequence[float], sds: Sequence[float]) -> float:
    """Return the deviation of all times from the number, mean and deviation of each part; all divide by the number."""
    mean = joint_mean(numbers, means)
    squares = (n * (sd**2 + (own - mean) ** 2) for n, own, sd in zip(numbers, means, sds, strict=True))
    return math.sqrt(math.fsum(squares) / sum(numbers))


def _at_rank(times: Iterable[tuple[float, int]], rank: int) -> float:
    """Return the time of a rank, counted from 1; `times` are (time, count)."""
    ordered = sorted(times)
    reached = itertools.accumulate(count for _, count in ordered)
    return next(time for (time, _), upto in zip(ordered, reached, strict=True) if upto >= rank)


def _interpolated(buckets: Sequence[Bucket], target: float, low: float, high: float) -> float:
    """Return the time from `low` to `high` that `target` times do not exceed, if buckets are filled evenly."""
    edges = sorted({edge for bucket in buckets for edge in (bucket.low, bucket.high) if low <= edge <= high})
    for before, after in pairwise(edges):
        reached = _upto(buckets, before)
        if reached >= target:
            return before
        inside = sum(
            bucket.number * (after - before) / (bucket.high - bucket.low)
            for bucket in buckets
            if bucket.low <= before and after <= bucket.high
        )
        if reached + inside >= target:
            return before + (target - reached) / inside * (after - before)
    return edges[-1]


def _upto(buckets: Sequence[Bucket], time: float) -> float:
    """Return how many times are at most `time`, if buckets are filled evenly."""
    number = 0.0
    for bucket in buckets:
        if bucket.high <= time:
            number += bucket.number
        elif bucket.low < time:
            number += bucket.number * (time - bucket.low) / (bucket.high - bucket.low)
    return number
