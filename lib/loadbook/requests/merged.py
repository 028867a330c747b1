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

LEAST_BEYOND = 20  # a share that fewer requests exceed is not drawn
POINTS = 160


class Curve(NamedTuple):
    """How many requests took longer than a time: shares that fall from 1, and times (s) that rise."""

    slower: tuple[float, ...]
    times_s: tuple[float, ...]
    requests: int
    trials: int


def times(paths: Iterable[Path]) -> tuple[Histogram, int]:
    """Return the times of all answered requests in these files (docs/data-format.md, requests), and how many files."""
    merged, files = Histogram(), 0
    for path in paths:
        files += 1
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=["elapsed_us", "kind", "answered"]):
                kept = batch.filter(pc.and_(pc.equal(pc.cast(batch["kind"], "string"), "request"), batch["answered"]))
                values, counts = np.unique(to_numpy(kept["elapsed_us"]), return_counts=True)
                merged.add(values, counts.astype(np.int64))
    return merged, files


def curve(paths: Iterable[Path]) -> Curve | None:
    """Return the distribution of all these requests together; None where there are fewer than twenty."""
    merged, files = times(paths)
    if merged.count < LEAST_BEYOND:
        return None
    shares = np.geomspace(1.0, LEAST_BEYOND / merged.count, POINTS)
    values, counts = merged.cells
    ranks = np.maximum(1, np.ceil((1 - shares) * merged.count - 1e-9))
    reached = values[np.searchsorted(np.cumsum(counts), ranks)] / 1e6
    return Curve(tuple(shares.tolist()), tuple(reached.tolist()), merged.count, files)
