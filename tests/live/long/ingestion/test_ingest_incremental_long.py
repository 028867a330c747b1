"""Ingest again: only what is new is read, by whatever workers, and the tables are those of a full rebuild."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ingested_runs import run_paths


@pytest.fixture
def paths(tmp_path):
    return run_paths(tmp_path)


NO_GUARD = """
import sys
from pathlib import Path
from loadbook.store.paths import RunPaths
from loadbook.ingestion import ingest as module
module.MIN_PARALLEL_BYTES, module.PART_BYTES, module.usable_cpus = 0, 400_000, lambda: 2
print(module.ingest(RunPaths(Path(sys.argv[1]), Path(sys.argv[2])), on_note=print).read)
"""


def test_worker_processes_do_not_run_the_calling_script_again(paths, tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(NO_GUARD)
    run = [sys.executable, str(script), str(paths.raw), str(tmp_path / "out")]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "32\n", "")
