"""The times of the requests of several trials together, for pictures: they describe, and are never tested."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from loadbook.requests.arrow import to_numpy
from loadbook.requests.histogram import Histogram

MIN_REQUESTS_BEYOND = 20  # a share that fewer requests exceed is not drawn
CURVE_POINTS = 160


class ExceedanceCurve(NamedTuple):
    """How many requests took longer than a time: shares that fall from 1, and times (s) that rise."""

    shares_slower: tuple[float, ...]
    times_s: tuple[float, ...]
    requests: int
    trials: int


def merge_times(paths: Iterable[Path]) -> tuple[Histogram, int]:
    """Return the times of all answered requests in these files (docs/data-format.md, requests), and how many files."""
    merged, files = Histogram(), 0
    for path in paths:
        files += 1
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=["elapsed_us", "kind", "answered"]):
                requests = batch.filter(pc.and_(pc.equal(pc.cast(batch["kind"], "string"), "request"), batch["answered"]))
                values, counts = np.unique(to_numpy(requests["elapsed_us"]), return_counts=True)
                merged.add(values, counts.astype(np.int64))
    return merged, files


def exceedance_curve(paths: Iterable[Path]) -> ExceedanceCurve | None:
    """Return the distribution of all these requests together; None where there are fewer than twenty."""
    merged, files = merge_times(paths)
    if merged.count < MIN_REQUESTS_BEYOND:
        return None
    shares = np.geomspace(1.0, MIN_REQUESTS_BEYOND / merged.count, CURVE_POINTS)
    values, counts = merged.cells
    ranks = np.maximum(1, np.ceil((1 - shares) * merged.count - 1e-9))
    times_s = values[np.searchsorted(np.cumsum(counts), ranks)] / 1e6
    return ExceedanceCurve(tuple(shares.tolist()), tuple(times_s.tolist()), merged.count, files)
