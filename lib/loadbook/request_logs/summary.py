"""Exact counts and times of any number of requests by label, in total and per second, mergeable over drivers.

A distribution holds every distinct time in us with its count. Times of several trials are merged only to be drawn in
figures, never for statistical tests.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from loadbook.request_logs.stream import OUTCOME_CODES, OUTCOME_NAMES, Damage, LogRowKind, RequestBatch, to_numpy

Ints = NDArray[np.int64]
MAX_DENSE_CELLS = 1 << 22  # counting by array takes 8 bytes a cell: 32 MB
EMPTY = np.zeros(0, np.int64)
MAX_EMPTY_SECONDS = 86_400  # a log whose requests are further apart is no load: its series has no zeros
MAX_LABELS = 10_000
OTHER_LABELS = "(labels beyond the first 10000)"
CLASSES = 6  # no status, 1xx ... 5xx
MIN_REQUESTS_BEYOND = 20  # the curve of slow requests ends where fewer requests are slower
CURVE_POINTS = 160


class Histogram:
    """Times in whole us with their counts; memory grows with the distinct values, not with the number of requests."""

    def __init__(self, values: Ints = EMPTY, counts: Ints = EMPTY) -> None:
        self._values, self._counts = values, counts
        self._pending: list[tuple[Ints, Ints]] = []
        self._pending_values = 0

    def add(self, values: Ints, counts: Ints) -> None:
        """Add `values` (us) that occurred `counts` times; they are merged later, many at once."""
        self._pending.append((values, counts))
        self._pending_values += len(values)
        if self._pending_values > len(self._values) + 4096:
            self._merge_pending()

    def merge(self, other: Histogram) -> None:
        """Add all times of another histogram."""
        self.add(*other.cells)

    @property
    def cells(self) -> tuple[Ints, Ints]:
        """Distinct values (us) in ascending order, and the count of each."""
        self._merge_pending()
        return self._values, self._counts

    def times_us(self) -> dict[int, int]:
        """Return {time in us: count}."""
        return dict(zip(*(cell.tolist() for cell in self.cells), strict=True))

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
        """Number of values added."""
        return int(self.cells[1].sum())

    @property
    def sum_us(self) -> int:
        """Exact sum of all values in us."""
        return sum(us * count for us, count in self.times_us().items())

    def mean_s(self) -> float:
        """Return the mean in s; ValueError when empty."""
        return self.sum_us / self._count_or_error() / 1e6

    def sd_s(self) -> float | None:
        """Return the sample standard deviation (n - 1) in s; None for a single value, ValueError when empty."""
        n = self._count_or_error()
        if n < 2:
            return None
        squares = sum(us * us * count for us, count in self.times_us().items())
        return math.sqrt((n * squares - self.sum_us**2) / (n * (n - 1))) / 1e6

    def percentile_s(self, percent: float) -> float:
        """Return the smallest value in s that at least `percent` % of all values do not exceed (nearest rank).

        It is element ``ceil(n * percent / 100)`` of the sorted times, counted from 1, without interpolation; 0 is the
        minimum, 100 the maximum. ValueError when empty.
        """
        rank = max(1, math.ceil(self._count_or_error() * percent / 100 - 1e-9))
        values, counts = self.cells
        return int(values[np.searchsorted(np.cumsum(counts), rank)]) / 1e6

    def _count_or_error(self) -> int:
        if not (n := self.count):
            raise ValueError("no times: an empty histogram has no statistics")
        return n


def group_counts(group: NDArray[np.integer], ticks: Ints, groups: int) -> Iterator[tuple[int, Ints, Ints]]:
    """Yield (group, its distinct ticks in ascending order, their counts) for every group that occurs.

    `group` has the group (from 0 to `groups` - 1) of each element of `ticks`, which are at least 0.
    """
    if not len(ticks):
        return
    width = int(ticks.max()) + 1
    if groups * width > MAX_DENSE_CELLS:
        for g in np.flatnonzero(np.bincount(group)).tolist():
            values, counts = np.unique(ticks[group == g], return_counts=True)
            yield g, values, counts.astype(np.int64)
        return
    cells = np.bincount(group * np.int64(width) + ticks, minlength=groups * width).reshape(groups, width)
    for g in np.flatnonzero(cells.any(axis=1)).tolist():
        values = np.flatnonzero(cells[g])
        yield g, values, cells[g][values]


@dataclass
class Tally:
    """Counts and times of the requests with one label, or of all requests.

    Parameters
    ----------
    attempts : requests that ended, with or without a response.
    answered : responses of any status (the metric `requests`).
    outcomes : number of attempts by name in OUTCOME_NAMES, which do not overlap.
    classes : number of responses by status class (2 for 2xx), 0 for those without an HTTP status.
    received : bytes of answered requests; None if the log lacks them.
    latency, first_byte : times of single requests in us.
    connect : times in us to open a connection, of answered requests for which it took at least a tick.
    """

    attempts: int = 0
    answered: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    classes: Counter[int] = field(default_factory=Counter)
    received: int | None = None
    latency: Histogram = field(default_factory=Histogram)
    first_byte: Histogram = field(default_factory=Histogram)
    connect: Histogram = field(default_factory=Histogram)

    @property
    def ok(self) -> int:
        """Number of responses that the tool does not count as failed, of status 2xx or 3xx if there is a status."""
        return self.outcomes["ok"]

    @property
    def errors(self) -> int:
        """Number of attempts that are known not to be ok; attempts of unknown outcome are not included."""
        return self.attempts - self.ok - self.outcomes["unknown"]

    @property
    def error_share(self) -> float | None:
        """Errors per attempt; None without attempts or without outcomes in the log."""
        return self.errors / self.attempts if self.attempts and not self.outcomes["unknown"] else None

    def merge(self, other: Tally) -> None:
        """Add the counts and times of another tally."""
        self.attempts += other.attempts
        self.answered += other.answered
        self.outcomes.update(other.outcomes)
        self.classes.update(other.classes)
        if other.received is not None:
            self.received = (self.received or 0) + other.received
        self.latency.merge(other.latency)
        self.first_byte.merge(other.first_byte)
        self.connect.merge(other.connect)


@dataclass
class Summary:
    """Counts and times of the requests in one or several logs.

    Parameters
    ----------
    labels : tallies by label; transactions : those of JMeter's transaction rows, which no total includes.
    seconds : whole second since 1970 by the driver's clock -> number of answered, ok, failed requests that ended in it.
    rows : number of rows read, by kind.
    first_start_us, last_end_us : us since 1970; None if the log has no exact times of day.
    intended : times in us from the place of an answered request in its schedule to its end, once `settle_schedule` has
        shifted them by the start of the schedule.
    not_started : number of requests that should have started, but for which no user of the tool was free.
    received_apart : bytes that the logs count apart from their requests; None if they have no such rows.
    damage : defects of the files, each kind at most 20 times; `damage_counts` is the number of all by kind.
    """

    labels: dict[str, Tally] = field(default_factory=dict)
    transactions: dict[str, Tally] = field(default_factory=dict)
    seconds: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    rows: Counter[LogRowKind] = field(default_factory=Counter)
    first_start_us: int | None = None
    last_end_us: int | None = None
    damage: list[Damage] = field(default_factory=list)
    damage_counts: Counter[str] = field(default_factory=Counter)
    intended: Histogram = field(default_factory=Histogram)
    not_started: int = 0
    received_apart: int | None = None
    _least_lateness_us: int | None = None

    @property
    def duration_s(self) -> float | None:
        """Seconds from the first start to the last end; None if the log has no exact times of day, or no rows."""
        if self.first_start_us is None or self.last_end_us is None:
            return None
        return (self.last_end_us - self.first_start_us) / 1e6

    def idle_gaps_s(self, least_s: float) -> list[float]:
        """Return the times of at least `least_s` seconds in which no request was under way, each 2 s too short at most.

        It is empty if the duration of some request is not known.
        """
        ends = np.array(sorted(self.seconds), np.int64)
        latency = self.total().latency
        if len(ends) < 2 or not latency.count or self.rows[LogRowKind.AGGREGATE]:
            return []
        idle = np.diff(ends) - 1 - latency.percentile_s(100)
        return [float(gap) for gap in idle[idle >= least_s]]

    def total(self) -> Tally:
        """Return the tally of all labels together."""
        total = Tally()
        for tally in self.labels.values():
            total.merge(tally)
        return total

    def per_second_counts(self) -> list[tuple[int, int, int, int]]:
        """Return (second, answered, ok, errors) for every second from first to last, seconds counted from 0.

        Seconds begin with those of the clock, so that drivers can be added; the first and the last are usually partial.
        Seconds without requests are left out if they are more than MAX_EMPTY_SECONDS.
        """
        if not self.seconds:
            return []
        first, nothing = min(self.seconds), np.zeros(3, np.int64)
        span: Iterable[int] = range(first, max(self.seconds) + 1)
        if max(self.seconds) + 1 - first - len(self.seconds) > MAX_EMPTY_SECONDS:
            span = sorted(self.seconds)
        return [(second - first, *self.seconds.get(second, nothing).tolist()) for second in span]

    def merge(self, other: Summary) -> None:
        """Add another summary: of another file, or of another driver with a synchronised clock."""
        for own_tallies, other_tallies in ((self.labels, other.labels), (self.transactions, other.transactions)):
            for label, tally in other_tallies.items():
                self._tally_of(own_tallies, label).merge(tally)
        for second, counts in other.seconds.items():
            self.seconds[second] = self.seconds.get(second, 0) + counts
        other.settle_schedule()
        self.settle_schedule()
        self.intended.merge(other.intended)
        self._count_apart(other.not_started, other.received_apart)
        self.rows.update(other.rows)
        self._extend_span(other.first_start_us, other.last_end_us)
        unlisted = other.damage_counts - Counter(defect.name for defect in other.damage)
        self.add_damage([*other.damage])
        self.damage_counts.update(unlisted)

    def add(self, batch: RequestBatch) -> None:
        """Add the rows of one batch."""
        self.add_damage(batch.damage)
        self._count_apart(batch.not_started, batch.received_apart)
        kinds = np.bincount(batch.kind, minlength=len(LogRowKind))
        self.rows.update({kind: int(kinds[kind]) for kind in LogRowKind if kinds[kind]})
        if batch.lateness_us is not None and len(batch):
            own = batch.least_lateness_us if batch.least_lateness_us is not None else int(batch.lateness_us.min())
            least = (self._least_lateness_us, own)
            self._least_lateness_us = min(us for us in least if us is not None)
            answered_us = (batch.lateness_us + batch.elapsed * batch.tick_us)[batch.answered]
            self.intended.add(*np.unique(answered_us, return_counts=True))
        for kind, table in ((LogRowKind.REQUEST, self.labels), (LogRowKind.TRANSACTION, self.transactions)):
            if kinds[kind]:
                self._count(table, batch.take(batch.kind == kind) if kinds[kind] < len(batch) else batch)
        counted = (LogRowKind.REQUEST, LogRowKind.AGGREGATE)
        if kinds[LogRowKind.AGGREGATE]:
            self._count_aggregates(batch.take(batch.kind == LogRowKind.AGGREGATE))
        if batch.start_us is not None and kinds[list(counted)].any():
            self._count_seconds(
                batch if kinds[list(counted)].sum() == len(batch) else batch.take(np.isin(batch.kind, counted))
            )

    def _count_apart(self, not_started: int, received: int | None) -> None:
        self.not_started += not_started
        if received is not None:
            self.received_apart = (self.received_apart or 0) + received

    def settle_schedule(self) -> None:
        """Shift the times in `intended` by the start of the schedule.

        No request starts before its place in the schedule, so the one with the least lateness started on time.
        """
        if self._least_lateness_us is not None:
            values, counts = self.intended.cells
            self.intended = Histogram(values - self._least_lateness_us, counts)
            self._least_lateness_us = None

    def add_damage(self, damage: Iterable[Damage]) -> None:
        """Count the damage, and store the first 20 of each kind."""
        for defect in damage:
            self.damage_counts[defect.name] += 1
            if self.damage_counts[defect.name] <= 20:
                self.damage.append(defect)

    def _tally_of(self, table: dict[str, Tally], label: str) -> Tally:
        if label not in table and len(table) >= MAX_LABELS:
            label = OTHER_LABELS
        return table.setdefault(label, Tally())

    def _count(self, table: dict[str, Tally], batch: RequestBatch) -> None:
        """Add rows of single requests (or of transactions) to the tallies of their labels."""
        groups = len(batch.labels)
        ends = _count_grid(batch.label, batch.outcome, groups, len(OUTCOME_NAMES))
        classes = _count_grid(batch.label[batch.answered], batch.status[batch.answered] // 100, groups, CLASSES)
        sums: NDArray[Any] = np.zeros(groups)
        if batch.received is not None:  # float sums are exact up to 2^53, far above a batch's bytes
            sums = np.bincount(batch.label, np.where(batch.answered, batch.received, 0), groups)
        tallies = {g: self._tally_of(table, batch.labels[g]) for g in np.flatnonzero(ends.any(axis=1)).tolist()}
        for g, tally in tallies.items():
            tally.attempts += int(ends[g].sum())
            tally.answered += int(classes[g].sum())
            tally.outcomes.update({name: n for name, n in zip(OUTCOME_NAMES, ends[g].tolist(), strict=True) if n})
            tally.classes.update({code: n for code, n in enumerate(classes[g].tolist()) if n})
            if batch.received is not None:
                tally.received = (tally.received or 0) + int(sums[g])
        for g, cells in _label_times(batch, batch.elapsed, batch.timed):
            tallies[g].latency.add(*cells)
        if batch.first_byte is not None:
            for g, cells in _label_times(batch, batch.first_byte, batch.answered):
                tallies[g].first_byte.add(*cells)
        if batch.connect is not None and batch.connect.any():
            for g, cells in _label_times(batch, batch.connect, batch.answered & (batch.connect > 0)):
                tallies[g].connect.add(*cells)

    def _count_aggregates(self, batch: RequestBatch) -> None:
        """Add rows that stand for several requests: numbers of requests and failures, but no times."""
        assert batch.samples is not None and batch.failed is not None
        for label, samples, failed in zip(
            batch.label.tolist(), batch.samples.tolist(), batch.failed.tolist(), strict=True
        ):
            tally = self._tally_of(self.labels, batch.labels[label])
            tally.attempts += samples
            tally.answered += samples
            tally.outcomes.update({"ok": samples - failed, "errors_other": failed})
            tally.classes[0] += samples

    def _count_seconds(self, batch: RequestBatch) -> None:
        assert batch.start_us is not None
        ends_us = batch.start_us + batch.elapsed * batch.tick_us
        if batch.exact_starts:
            self._extend_span(int(batch.start_us.min()), int(ends_us.max()))
        seconds = ends_us // 1_000_000
        first, present = int(seconds.min()), None
        seconds -= first
        if int(seconds.max()) > MAX_EMPTY_SECONDS:
            present, seconds = np.unique(seconds, return_inverse=True)
        all_ends = np.bincount(seconds)
        if batch.samples is None or batch.failed is None:

            def count(rows: NDArray[np.bool_]) -> Ints:  # few, of a good load
                return np.bincount(seconds[rows], minlength=len(all_ends))

            ok = all_ends - count(batch.outcome != OUTCOME_CODES["ok"])
            errors = all_ends - ok - count(batch.outcome == OUTCOME_CODES["unknown"])
            counts = np.stack([all_ends - count(~batch.answered), ok, errors], axis=1)
        else:
            columns = (batch.answered * batch.samples, batch.samples - batch.failed, batch.failed)
            counts = np.stack([np.bincount(seconds, column) for column in columns], axis=1).astype(np.int64)
        places = np.flatnonzero(all_ends)
        for place, second in zip(places.tolist(), (places if present is None else present).tolist(), strict=True):
            self.seconds[first + second] = self.seconds.get(first + second, 0) + counts[place]

    def _extend_span(self, start_us: int | None, end_us: int | None) -> None:
        starts = [t for t in (self.first_start_us, start_us) if t is not None]
        ends = [t for t in (self.last_end_us, end_us) if t is not None]
        self.first_start_us, self.last_end_us = min(starts, default=None), max(ends, default=None)


def _count_grid(group: NDArray[np.integer], code: NDArray[np.integer], groups: int, codes: int) -> NDArray[np.int64]:
    """Return the count of each code in each group, as an array of shape (groups, codes)."""
    cells = np.bincount(group * np.int32(codes) + code, minlength=groups * codes)
    return cells.reshape(groups, codes)


def _label_times(
    batch: RequestBatch, ticks: NDArray[np.int64], mask: NDArray[np.bool_] | None
) -> Iterator[tuple[int, tuple[NDArray[np.int64], NDArray[np.int64]]]]:
    """Yield (index of a label, (its distinct times in us, their counts)) for the rows where `mask` is true."""
    group = batch.label
    if mask is not None and not mask.all():
        group, ticks = group[mask], ticks[mask]
    for g, values, counts in group_counts(group, ticks, len(batch.labels)):
        yield g, (values * batch.tick_us, counts)


class ExceedanceCurve(NamedTuple):
    """Curve of slow requests: the share `shares_slower[i]` of all requests took longer than `times_s[i]` seconds.

    Shares (0 to 1) descend from 1. `requests` and `trials` are the numbers of requests and of their files.
    """

    shares_slower: tuple[float, ...]
    times_s: tuple[float, ...]
    requests: int
    trials: int


def merge_times(paths: Iterable[Path]) -> tuple[Histogram, int]:
    """Return (times of all answered requests, number of files) of parquet files by `read.RequestWriter`."""
    merged, files = Histogram(), 0
    for path in paths:
        files += 1
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=["elapsed_us", "kind", "answered"]):
                requests = batch.filter(
                    pc.and_(pc.equal(pc.cast(batch["kind"], "string"), "request"), batch["answered"])
                )
                values, counts = np.unique(to_numpy(requests["elapsed_us"]), return_counts=True)
                merged.add(values, counts.astype(np.int64))
    return merged, files


def exceedance_curve(paths: Iterable[Path]) -> ExceedanceCurve | None:
    """Return the curve of all answered requests in the parquet files together; None for fewer than 20 requests."""
    merged, files = merge_times(paths)
    if merged.count < MIN_REQUESTS_BEYOND:
        return None
    shares = np.geomspace(1.0, MIN_REQUESTS_BEYOND / merged.count, CURVE_POINTS)
    values, counts = merged.cells
    ranks = np.maximum(1, np.ceil((1 - shares) * merged.count - 1e-9))
    times_s = values[np.searchsorted(np.cumsum(counts), ranks)] / 1e6
    return ExceedanceCurve(tuple(shares.tolist()), tuple(times_s.tolist()), merged.count, files)
