"""What the parser of the sampler returns."""

from __future__ import annotations

import math
from typing import Any

SHARES = {"cpu_busy", "cpu_user", "cpu_system", "cpu_iowait", "cpu_steal"}
UNITS = {
    "memory_used": "B",
    "memory_total": "B",
    "net_rx": "B/s",
    "net_tx": "B/s",
    "process_rss": "B",
    "accept_wait": "s",
}


def check(traces: Any) -> None:
    """Assert what holds for every result, however broken its input."""
    assert traces.times == sorted(set(traces.times))
    for row in traces.rows:
        assert set(row) == {"t", "metric", "item", "value", "unit"}
        assert math.isfinite(row["value"]) and row["value"] >= 0
        assert row["t"] in traces.times
        assert row["unit"] == UNITS.get(row["metric"], "1")
        assert row["metric"] not in SHARES or row["value"] <= 1
