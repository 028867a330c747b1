"""Histograms of several drivers: the joint percentile is that of all single times, to the step that is said."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.core.bucketed_times import Bucket, BucketedTimes, joint_mean, joint_percentile, joint_sd
from loadbook.tools.locust_text import rounded_times

DRIVERS = st.lists(st.lists(st.integers(1, 3 * 10**7), min_size=1, max_size=60), min_size=1, max_size=3)
PERCENTS = st.sampled_from([0.0, 50.0, 75.0, 90.0, 99.0, 99.9, 100.0])


def locust(times_us: list[int]) -> BucketedTimes:
    """Return times rounded as Locust's `StatsEntry._log_response_time` does."""
    counts: Counter[float] = Counter()
    for us in times_us:
        ms = us / 1000
        digits = 0 if ms < 100 else -1 if ms < 1000 else -2 if ms < 10_000 else -3
        counts[float(round(ms, digits))] += 1
    return rounded_times(counts)


def binned(edges: list[float], times_us: list[int], *, is_upper_stated: bool) -> BucketedTimes:
    """Return times in buckets with the given edges in s, the first and last cut to minimum and maximum."""
    times, buckets = sorted(us / 1e6 for us in times_us), []
    for low, high in itertools.pairwise(edges):
        inside = [time for time in times if low < time <= high]
        if inside:
            start, end = max(low, times[0]), min(high, times[-1])
            buckets.append(Bucket(start, end, len(inside), end if is_upper_stated else None))
    return BucketedTimes(len(times), tuple(buckets))


def fortio(times_us: list[int]) -> BucketedTimes:
    return binned(
        [0.0, *(n / 1000 for n in range(1, 11)), 0.012, 0.05, 0.1, 0.2, 0.5, 40.0], times_us, is_upper_stated=False
    )


def wrk2(times_us: list[int]) -> BucketedTimes:
    """Return times between the rows of a spectrum, which are those of some ranks."""
    ordered = sorted(us / 1e6 for us in times_us)
    return binned([0.0, *dict.fromkeys(ordered[::3]), ordered[-1]], times_us, is_upper_stated=True)


@pytest.mark.parametrize("tool", [locust, fortio, wrk2])
@given(drivers=DRIVERS, percent=PERCENTS)
def test_joint_percentile_differs_from_that_of_all_times_by_at_most_its_step(tool, drivers, percent):
    everything = sorted(us / 1e6 for times in drivers for us in times)
    truth = everything[max(1, math.ceil(percent / 100 * len(everything) - 1e-9)) - 1]
    parts = [tool(times) for times in drivers]
    found = joint_percentile(parts, percent)
    assert found is not None and abs(found.value - truth) <= found.step + 1e-12


@given(DRIVERS)
def test_joint_mean_and_deviation_are_those_of_all_times(drivers):
    parts = [np.array(times) for times in drivers]
    numbers, means = [len(part) for part in parts], [float(part.mean()) for part in parts]
    everything = np.concatenate(parts)
    assert joint_mean(numbers, means) == pytest.approx(float(everything.mean()))
    sd = joint_sd(numbers, means, [float(part.std()) for part in parts])
    assert sd == pytest.approx(float(everything.std()), abs=1e-3)


def test_joint_percentile_is_interpolated_where_buckets_state_no_time():
    parts = [BucketedTimes(50, (Bucket(1.0, 1.02, 50),)), BucketedTimes(50, (Bucket(1.0, 1.02, 50),))]
    found = joint_percentile(parts, 50)
    assert found == pytest.approx((1.01, 0.02))
    same = BucketedTimes(3, (Bucket(1.0, 1.0, 3),))
    assert joint_percentile([same, parts[0]], 1) == (1.0, 0.0)
    assert joint_percentile([same, same], 99) == (1.0, 0.0)


@pytest.mark.parametrize(
    "part",
    [
        BucketedTimes(3),
        BucketedTimes(3, (Bucket(1.0, 1.0, 2),)),
        BucketedTimes(2, (Bucket(1.0, 1.2, 2),), least_percent=75),
        BucketedTimes(0),
    ],
)
def test_joint_percentile_is_left_out_without_buckets_of_all_times_or_below_the_least_that_they_tell(part):
    assert joint_percentile([part, part], 50) is None


def test_locusts_rounded_times_have_the_ranges_from_which_they_come():
    buckets = rounded_times({0.0: 1, 7.0: 1, 100.0: 2, 120.0: 3, 1000.0: 1, 12_000.0: 1}).buckets
    ranges = [(bucket.low * 1000, bucket.high * 1000) for bucket in buckets]
    expected = [(0, 0.5), (6.5, 7.5), (99.5, 105), (115, 125), (995, 1050), (11_500, 12_500)]
    assert ranges == [pytest.approx(pair) for pair in expected]
