"""vegeta, k6, oha, autocannon and Locust over SSH in the lab: found, run, read. Needs `make generators`."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator_runs import OPEN, measured
from loadbook.hosts.lab import Lab

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    ("tool", "metrics"),
    [("vegeta", {"service_time", "latency_intended"}), ("k6", {"service_time"}), ("oha", {"latency_intended"})],
)
def test_open_load_holds_its_rate(tool: str, metrics: set[str], lab: Lab, tmp_path: Path) -> None:
    got, _ = measured(lab, tmp_path / "home", tool, OPEN)
    assert got["ok", "count"] == got["requests", "count"] == pytest.approx(200, abs=10)
    assert got["offered_per_s", "value"] == 100
    assert {metric for metric, statistic in got if statistic == "p99"} == metrics
