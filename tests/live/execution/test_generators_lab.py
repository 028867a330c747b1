"""vegeta, k6, oha, autocannon and Locust over SSH in the lab: found, run, read. Needs `make generators`."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator_runs import OPEN, measured
from loadbook.hosts.lab import Lab

pytestmark = pytest.mark.timeout(300)
SCRIPT = """
import http from "k6/http";
import { check } from "k6";
export const options = { thresholds: { http_req_failed: ["rate<0.01"] } };
const checks = { "is 200": (r) => r.status === 200, "is 201": (r) => r.status === 201 };
export default function () { check(http.get(__ENV.URL), checks); }
"""


@pytest.mark.parametrize("tool", ["vegeta", "k6", "oha", "autocannon", "locust"])
def test_closed_load_is_measured_and_ingested(tool: str, lab: Lab, tmp_path: Path) -> None:
    got, _ = measured(lab, tmp_path / "home", tool, "")
    assert got["requests", "count"] == got["ok", "count"] == got["status_2xx", "count"] > 20
    assert got["errors", "count"] == 0 and got["duration", "value"] > 0.3
    assert got["latency", "p50"] <= got["latency", "p99"] <= got["latency", "max"] * 1.001


@pytest.mark.parametrize(
    ("arrivals", "metrics"), [("poisson", {"service_time", "latency_intended"}), ("users", {"service_time"})]
)
def test_k6_makes_other_arrivals_at_the_same_rate(arrivals: str, metrics: set[str], lab: Lab, tmp_path: Path) -> None:
    got, _ = measured(lab, tmp_path / "home", "k6", f'{OPEN}\narrivals = "{arrivals}"')
    # Poisson arrivals are drawn given their number; those of users scatter
    number = 200 if arrivals == "poisson" else pytest.approx(200, abs=60)
    assert got["ok", "count"] == got["requests", "count"] == number
    assert {metric for metric, statistic in got if statistic == "p99"} == metrics


@pytest.mark.parametrize("tool", ["k6", "oha"])
def test_closed_load_runs_interleaved(tool: str, lab: Lab, tmp_path: Path) -> None:
    got, _ = measured(lab, tmp_path / "home", tool, "", execution="interleaved")
    assert got["requests", "count"] == got["ok", "count"] > 20 and got["errors", "count"] == 0
    assert got["duration", "value"] > 1.5  # of its own slices
    assert ("latency", "p50") in got and ("latency", "max") not in got


def test_script_of_k6_is_used_as_it_is_and_its_failed_checks_are_doubts(lab: Lab, tmp_path: Path) -> None:
    got, doubts = measured(lab, tmp_path / "home", "k6", 'plan = "mine.js"', {"mine.js": SCRIPT})
    assert got["requests", "count"] == got["ok", "count"] == got["status_2xx", "count"] > 20
    assert got["duration", "value"] > 0.3
    assert "checks_failed" in doubts and "thresholds_crossed" not in doubts


def test_locustfile_of_the_user_is_used_as_it_is(lab: Lab, tmp_path: Path) -> None:
    text = (
        "from locust import FastHttpUser, task\n\n\nclass Mine(FastHttpUser):\n    @task\n    def page(self):\n"
        '        self.client.get("/index.html")\n'
    )
    got, _ = measured(lab, tmp_path / "home", "locust", 'plan = "mine.py"', {"mine.py": text})
    assert got["requests", "count"] == got["ok", "count"] > 50 and got["latency", "max"] > 0
