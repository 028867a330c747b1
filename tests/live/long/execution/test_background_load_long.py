"""Somebody else uses the hosts: said before the run, flagged on the trials that it met."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab_study import ON_A_BUSY_MACHINE
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.store.paths import Layout
from recorded_run import with_studies

SMALL = (
    """
include = "aa.toml"
name = "small"
blocks = 1
"""
    + ON_A_BUSY_MACHINE
)


@contextmanager
def foreign_load(cpus):
    """A process that is neither driver nor service, on the web host's CPUs; ended by itself at the latest."""
    words = ["timeout", "60", "sh", "-c", "while :; do :; done"]
    pin = ["taskset", "-c", ",".join(map(str, cpus))] if cpus else []
    burner = subprocess.Popen([*pin, *words])
    try:
        yield
    finally:
        burner.terminate()
        burner.wait()


@pytest.mark.fault(42)
def test_background_load_is_reported_before_the_run_and_flagged_on_the_trial(lab, tmp_path, record_property):
    layout: Layout = with_studies(tmp_path / "home")
    (layout.studies / "small.toml").write_text(SMALL)
    cpus = json.loads((lab.folder / "lab.json").read_text())["hosts"]["web"]["cpus"]
    printed: list[str] = []
    with foreign_load(cpus):
        run = run_study(
            layout, RunRequest("small", lab.hosts_file), on_event=lambda event: printed.append(event.line())
        )
    before = printed[: next(k for k, line in enumerate(printed) if "t0001" in line)]
    warned = [line for line in before if line.startswith("warning: host web: other programs use ")]
    assert warned, before
    paths = layout.run("small", run)
    ingest(paths)
    flagged = hits(paths.processed)
    assert flagged
    record_property("seen", f"{warned[0]}; {flagged[0]}")


def hits(processed: Path) -> list[str]:
    """Return what the gate of foreign CPU said of the web host."""
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(processed / "problems.parquet").to_pylist()
    return [
        row["message"] for row in rows if (row["name"], row["level"], row["host"]) == ("foreign_cpu", "doubt", "web")
    ]
