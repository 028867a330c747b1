"""A real JMeter over SSH in the lab: found under JMETER_HOME, warmed up, measured, read. Needs `make jmeter`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jmeter_home import HOME, MISSING
from loadbook.execution.load import TIMED_WARMUP_SCRIPT
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.hosts.remote import RemoteHost
from loadbook.ingestion.ingest import ingest
from recorded_run import with_studies

pytestmark = pytest.mark.timeout(600)
SCRIPTS = Path(__file__).parents[3] / "scripts"
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
time_wait_sockets = 1000000
"""


@pytest.fixture
def jmeter(lab: Lab) -> None:
    """JMeter where the lab's hosts look for it."""
    if MISSING:
        pytest.skip(MISSING)
    beside = lab.folder.parent / "jmeter"
    if not beside.exists():
        beside.symlink_to(HOME)


def test_jmeter_run_is_measured_and_ingested(jmeter: None, lab: Lab, tmp_path: Path) -> None:
    layout = with_studies(tmp_path / "home")
    (layout.studies / "jm.toml").write_text(STUDY)
    paths = layout.run("jm", run_study(layout, RunRequest("jm", lab.hosts_file)))
    done = ingest(paths)
    assert done.trials == done.planned == 2
    rows = pq.read_table(paths.table("measurements")).to_pylist()
    for trial in {row["trial"] for row in rows}:
        got = {(r["metric"], r["statistic"]): r["value"] for r in rows if r["trial"] == trial and r["driver"] == "*"}
        assert got["requests", "count"] == got["ok", "count"] == got["status_2xx", "count"] > 3
        assert got["errors", "count"] == 0 and got["duration", "value"] > 0.5
        assert got["latency", "min"] <= got["latency", "p50"] <= got["latency", "p99.9"] <= got["latency", "max"]
    trials = pq.read_table(paths.table("trials")).to_pylist()
    assert {t["tool_version"] for t in trials} == {"5.6.3"} and {t["status"] for t in trials} == {"ok"}
    kept = {p.name for p in next(paths.trials.iterdir()).iterdir()}
    assert {"driver-results.jtl", "driver-jmeter.log"} <= kept


def test_jmeter_installed_beside_the_lab_takes_precedence(lab: Lab, connect_lab: Callable[..., RemoteHost]) -> None:
    home = os.environ.get("JMETER_HOME") or lab.folder.parent / "jmeter"
    printed = connect_lab().run(["sh", "-c", 'echo "$PATH"'], timeout_s=20).stdout.decode()
    assert printed.startswith(f"{home}/bin:") and ":/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin:" in printed


def test_jmeter_warm_up_ends_with_all_its_processes(tmp_path: Path) -> None:
    script = tmp_path / "jmeter"  # like JMeter's own: no exec
    script.write_text(f"#!/bin/sh\nsh -c 'echo $$ >{tmp_path}/pid; exec sleep 60'\n:\n")
    script.chmod(0o755)
    assert subprocess.run(["/bin/sh", "-c", TIMED_WARMUP_SCRIPT, "1", str(script)], timeout=30).returncode == 0
    time.sleep(0.5)
    assert not Path("/proc", (tmp_path / "pid").read_text().strip(), "cwd").exists()


def test_jmeter_installer_names_missing_programs_and_changes_nothing(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "dirname", "mkdir", "python3"):
        (tools / name).symlink_to(shutil.which(name) or "")
    done = subprocess.run(
        [SCRIPTS / "jmeter.sh", tmp_path / "home"], env={"PATH": str(tools)}, capture_output=True, text=True, timeout=30
    )
    assert (
        done.returncode == 2 and "apt-get install -y --no-install-recommends default-jre-headless maven" in done.stderr
    )
    assert not list(tmp_path.glob("home/*"))


def test_all_files_that_the_jmeter_installer_downloads_have_checksums() -> None:
    lines = (SCRIPTS / "jmeter.sha256").read_text().splitlines()
    assert all(re.fullmatch(r"[0-9a-f]{64}  [\w.-]+\.jar", line) for line in lines) and len(lines) == 143
    assert sum("  ApacheJMeter" in line for line in lines) == 7
