"""One load from several hosts: the workload's numbers are totals, and each driver gets its part of them."""

from __future__ import annotations

from collections.abc import Sequence

from loadbook.core.errors import UsageError
from loadbook.design.workload import Workload


def split_load(workload: Workload, drivers: Sequence[str]) -> dict[str, Workload]:
    """Return each driver's part of a load; one driver has all of it.

    `connections`, `requests` and `rate_per_s` are shared so that they add up: in whole numbers where the total is one
    (a rate in whole connections per second), the first drivers getting one more where it does not come out even.
    Everything else, `threads` and `extra` among it, is the same on every driver.

    Raises
    ------
    UsageError : there are fewer connections or requests than drivers.
    """
    count = len(drivers)
    connections = _split_total("connections", workload.connections, count)
    requests = None if workload.requests is None else _split_total("requests", workload.requests, count)
    rates = None if workload.rate_per_s is None else _split_rate(workload.rate_per_s, workload.calls_per_connection, count)
    return {
        driver: workload.model_copy(
            update={
                "connections": connections[k],
                "requests": requests and requests[k],
                "rate_per_s": rates and rates[k],
            }
        )
        for k, driver in enumerate(drivers)
    }


def _split_total(key: str, total: int, count: int) -> list[int]:
    if total < count:
        raise UsageError(
            f"workload.{key} = {total} cannot be shared among {count} drivers",
            f"raise workload.{key}, or give fewer hosts the role",
        )
    return _split_evenly(total, count)


def _split_evenly(total: int, count: int) -> list[int]:
    least, more = divmod(total, count)
    return [least + (k < more) for k in range(count)]


def _split_rate(total: float, calls: int, count: int) -> list[float]:
    """Share a rate in whole connections per second, else in whole requests per second, else evenly."""
    for unit in (calls, 1):
        whole = total / unit
        if whole == int(whole) and whole >= count:
            return [float(part * unit) for part in _split_evenly(int(whole), count)]
    return [total / count] * count
