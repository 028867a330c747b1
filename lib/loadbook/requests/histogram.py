"""Exact distributions of whole numbers: every distinct value with its count, mergeable in any order."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
MAX_DENSE_CELLS = 1 << 22  # counting by array takes 8 bytes a cell: 32 MB
EMPTY = np.zeros(0, np.int64)


class Histogram:
    """Times in whole microseconds. Memory grows with the distinct values, never with the number of requests."""

    def __init__(self, values: Ints = EMPTY, counts: Ints = EMPTY) -> None:
        self._values, self._counts = values, counts
        self._pending: list[tuple[Ints, Ints]] = []
        self._pending_values = 0

    def add(self, values: Ints, counts: Ints) -> None:
        """Add `counts` of `values` (us); what waits is merged when it is as much as what is there."""
        self._pending.append((values, counts))
        self._pending_values += len(values)
        if self._pending_values > len(self._values) + 4096:
            self._merge_pending()

    def merge(self, other: Histogram) -> None:
        """Add all of another histogram."""
        self.add(*other.cells)

    @property
    def cells(self) -> tuple[Ints, Ints]:
        """Distinct values (us) in ascending order, and how often each occurred."""
        self._merge_pending()
        return self._values, self._counts

    def _merge_pending(self) -> None:
        if not self._pending:
            return
        values = np.concatenate([self._values, *(v for v, _ in self._pending)])
        counts = np.concatenate([self._counts, *(c for _, c in self._pending)])
        order = np.argsort(values, kind="stable")
        values, counts = values[order], counts[order]
        starts = np.flatnonzero(np.diff(values, prepend=values[:1] - 1)) if len(values) else EMPTY
        self._values, self._counts = values[starts], np.add.reduceat(counts, starts) if len(starts) else EMPTY
        self._pending, self._pending_values = [], 0

    @property
    def count(self) -> int:
        """How many values were added."""
        return int(self.cells[1].sum())

    @property
    def sum_us(self) -> int:
        """Their exact sum in us."""
        return sum(v * c for v, c in zip(*(cell.tolist() for cell in self.cells), strict=True))

    def mean_s(self) -> float:
        """Return the mean in s; ValueError when empty."""
        return self.sum_us / self._count_or_error() / 1e6

    def sd_s(self) -> float | None:
        """Return the standard deviation in s (of a sample: n - 1), computed from exact sums; None below two values."""
        n = self._count_or_error()
        if n < 2:
            return None
        squares = sum(v * v * c for v, c in zip(*(cell.tolist() for cell in self.cells), strict=True))
        return math.sqrt((n * squares - self.sum_us**2) / (n * (n - 1))) / 1e6

    def percentile_s(self, percent: float) -> float:
        """Return the smallest value in s that at least `percent` % of all values do not exceed (nearest rank).

        That is a time which occurred: element ``ceil(n * percent / 100)`` of the sorted times, counted from 1; 0 is the
        minimum, 100 the maximum. Nothing is interpolated. ValueError when empty.
        """
        rank = max(1, math.ceil(self._count_or_error() * percent / 100 - 1e-9))
        values, counts = self.cells
        return int(values[np.searchsorted(np.cumsum(counts), rank)]) / 1e6

    def _count_or_error(self) -> int:
        if not (n := self.count):
            raise ValueError("no times: an empty histogram has no statistics")
        return n


def group_counts(group: NDArray[np.integer], ticks: Ints, groups: int) -> Iterator[tuple[int, Ints, Ints]]:
    """Return for every group that occurs its distinct ticks (>= 0) in ascending order, and their counts."""
    if not len(ticks):
        return
    width = int(ticks.max()) + 1
    if groups * width > MAX_DENSE_CELLS:
        for g in np.unique(group).tolist():
            values, counts = np.unique(ticks[group == g], return_counts=True)
            yield g, values, counts.astype(np.int64)
        return
    cells = np.bincount(group * np.int64(width) + ticks, minlength=groups * width).reshape(groups, width)
    for g in np.flatnonzero(cells.any(axis=1)).tolist():
        values = np.flatnonzero(cells[g])
        yield g, values, cells[g][values]
