"""A real JMeter over SSH in the lab: found under JMETER_HOME, warmed up, measured, read. Needs `make jmeter`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from loadbook.hosts.lab import Lab
from loadbook.trials.api import run_study
from loadbook.trials.ingest import ingest
from recorded import with_studies

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]
HOME = Path(os.environ.get("JMETER_HOME") or Path(__file__).parents[2] / ".cache" / "jmeter")
STUDY = """
include = "aa.toml"
name = "jm"
blocks = 1

[workload]
tool = "jmeter"
connections = 3
duration_s = 2
warmup_s = 1
headers = { X-Asked = 'a "\\b" <c>' }

[reset]
max_time_wait = 1000000
"""


@pytest.fixture
def jmeter(lab: Lab) -> None:
    """JMeter where the lab's hosts look for it."""
    if not (HOME / "bin" / "jmeter").is_file():
        pytest.skip(f"JMeter is not at {HOME}: make jmeter")
    if not shutil.which("java"):
        pytest.skip("java is not installed: make jmeter")
    beside = lab.folder.parent / "jmeter"
    if not beside.exists():
        beside.symlink_to(HOME)


def test_a_run_with_jmeter(jmeter: None, lab: Lab, tmp_path: Path) -> None:
    layout = with_studies(tmp_path / "home")
    (layout.studies / "jm.toml").write_text(STUDY)
    paths = layout.run("jm", run_study(layout, "jm", lab.hosts_file))
    done = ingest(paths)
    assert done.trials == done.planned == 2
    rows = pq.read_table(paths.table("measurements")).to_pylist()
    for trial in {row["trial"] for row in rows}:
        got = {(r["metric"], r["statistic"]): r["value"] for r in rows if r["trial"] == trial and r["driver"] == "*"}
        assert got["requests", "count"] == got["ok", "count"] == got["status_2xx", "count"] > 3
        assert got["errors", "count"] == 0 and 0.5 < got["duration", "value"] < 4
        assert got["latency", "min"] <= got["latency", "p50"] <= got["latency", "p99.9"] <= got["latency", "max"]
    trials = pq.read_table(paths.table("trials")).to_pylist()
    assert {t["tool_version"] for t in trials} == {"5.6.3"} and {t["status"] for t in trials} == {"ok"}
    kept = {p.name for p in next(paths.trials.iterdir()).iterdir()}
    assert {"driver-results.jtl", "driver-jmeter.log"} <= kept
