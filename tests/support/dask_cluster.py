"""A Dask cluster on loopback."""

from __future__ import annotations

from typing import Any


def cluster(workers: int) -> Any:
    """Start a cluster with so many workers, a context manager."""
    import distributed

    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )
