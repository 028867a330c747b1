"""Histograms and summaries: exact, whatever order and parts they were put together from."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.request_logs import summary
from loadbook.request_logs.summary import Histogram, group_counts

TIMES = st.lists(st.integers(0, 10**12), min_size=1, max_size=200)


def made(values: list[int]) -> Histogram:
    result = Histogram()
    distinct, counts = np.unique(np.array(values, np.int64), return_counts=True)
    result.add(distinct, counts.astype(np.int64))
    return result


@given(TIMES, st.floats(0, 100))
def test_histogram_statistics_equal_those_of_the_sorted_values(values: list[int], percent: float) -> None:
    found = made(values)
    assert found.count == len(values)
    assert found.sum_us == sum(values)
    assert found.mean_s() == pytest.approx(sum(values) / len(values) / 1e6, rel=1e-12)
    expected = sorted(values)[max(1, math.ceil(len(values) * percent / 100 - 1e-9)) - 1]
    assert found.percentile_s(percent) == expected / 1e6
    assert (found.percentile_s(0), found.percentile_s(100)) == (min(values) / 1e6, max(values) / 1e6)
    if len(values) > 1:
        assert found.sd_s() == pytest.approx(statistics.stdev(values) / 1e6, rel=1e-9)


@given(st.lists(TIMES, min_size=1, max_size=6), st.randoms())
def test_histogram_parts_merge_in_any_order(parts: list[list[int]], random: object) -> None:
    merged = Histogram()
    for part in sorted(parts, key=lambda _: random.random()):  # type: ignore[attr-defined]
        merged.merge(made(part))
    for found, expected in zip(merged.cells, made([v for part in parts for v in part]).cells, strict=True):
        assert found.tolist() == expected.tolist()


def test_histogram_percentile_is_an_observed_time() -> None:
    found = made([1_000_000, 2_000_000, 3_000_000, 4_000_000])
    assert [found.percentile_s(p) for p in (0, 25, 25.1, 50, 75, 99, 100)] == [1, 1, 2, 2, 3, 4, 4]


def test_empty_histogram_has_no_statistics() -> None:
    for statistic in (Histogram().mean_s, Histogram().sd_s, lambda: Histogram().percentile_s(50)):
        with pytest.raises(ValueError, match="no times"):
            statistic()
    assert made([5]).sd_s() is None


@pytest.mark.parametrize("cells", [1, summary.MAX_DENSE_CELLS])
def test_values_are_counted_alike_with_a_dense_array_and_by_sorting(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "MAX_DENSE_CELLS", cells)
    group, ticks = np.array([2, 0, 2, 2], np.int32), np.array([7, 1, 7, 3], np.int64)
    found = [(g, values.tolist(), counts.tolist()) for g, values, counts in group_counts(group, ticks, 4)]
    assert found == [(0, [1], [1]), (2, [3, 7], [1, 2])]
