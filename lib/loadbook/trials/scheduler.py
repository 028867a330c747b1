"""Workers on a Dask cluster that the user runs: the one door to `distributed`, which is the optional extra `dask`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from loadbook.core.errors import HostError, UsageError

CONNECT_S = 10


@contextmanager
def dask_workers(address: str) -> Iterator[Executor]:
    """Yield the executor of the cluster whose scheduler listens at `address` (``tcp://host:8786``).

    Its workers need the same loadbook installed and must see data/ under the same path. The cluster goes on afterwards.

    Raises
    ------
    UsageError : Dask is not installed, or `address` is none.
    HostError : no scheduler answers there, or it has no workers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("--scheduler needs Dask, which is not installed", "pip install 'loadbook[dask]'") from None
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except ValueError as error:
        raise UsageError(f"{address!r} is no address of a Dask scheduler: {error}", "tcp://HOST:8786") from error
    except OSError as error:  # a time-out is one
        raise HostError(address, f"no Dask scheduler answers: {error}", "start one: dask scheduler") from error
    with client:
        if not client.scheduler_info()["workers"]:
            raise HostError(address, "the Dask scheduler has no workers", f"start some: dask worker {address}")
        # pure: Dask would hand out the result of an earlier call with the same arguments, whatever the files hold now
        executor: Executor = client.get_executor(pure=False)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)
