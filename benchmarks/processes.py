"""A pool of processes for simulations."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.pool import Pool


def process_pool(jobs: int | None = None) -> Pool:
    """Return a pool of `jobs` processes (default: one for each CPU), each with a single thread for linear algebra."""
    os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}
    return multiprocessing.get_context("spawn").Pool(jobs)
