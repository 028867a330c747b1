"""Ingest again: only what is new is read, by whatever workers, and the tables are those of a full rebuild."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from pathlib import Path

import pytest

from ingested_runs import everything, run_paths
from loadbook.ingestion import ingest as ingest_module
from loadbook.ingestion import workers
from loadbook.ingestion.ingest import ingest
from waiting import wait_until


@pytest.fixture
def paths(tmp_path):
    return run_paths(tmp_path)


@pytest.fixture
def ingested(paths):
    ingest(paths)
    return paths


@pytest.fixture
def many_parts(monkeypatch):
    monkeypatch.setattr(ingest_module, "PART_BYTES", 200_000)


def test_ingest_with_worker_processes_gives_the_same_tables(ingested, many_parts, monkeypatch):
    alone, reported, done = everything(ingested), [], []
    monkeypatch.setattr(ingest_module, "MIN_PARALLEL_BYTES", 0)
    monkeypatch.setattr(ingest_module, "usable_cpus", lambda: 2)
    shutil.rmtree(ingested.processed)
    ingest(ingested, None, lambda n, of: done.append((n, of)), reported.append)
    assert everything(ingested) == alone
    assert done[0] == (0, 32)
    assert done[-1] == (32, 32)
    assert len(done) > 3


def test_no_trial_is_lost_if_workers_die(ingested, many_parts):
    alone, reported = everything(ingested), []
    shutil.rmtree(ingested.processed)
    with ProcessPoolExecutor(2, get_context("spawn"), initializer=os._exit, initargs=(9,)) as dying:
        assert ingest(ingested, dying, on_note=reported.append).read == 32
    assert everything(ingested) == alone
    assert len(reported) == 1
    assert "done again in this process" in reported[0]
    assert "BrokenProcessPool" in reported[0]


def square_but_die_of_seven(number):
    if number == 7 and parent_process() is not None:
        os._exit(9)
    return number * number


def test_no_trial_is_lost_if_a_worker_is_killed_midway():
    reported = []
    with workers.worker_processes() as pool:
        found = sorted(workers.map_unordered(square_but_die_of_seven, range(20), pool, reported.append))
    assert found == [n * n for n in range(20)]
    assert len(reported) == 1


ENDLESS = """
import os, time
from loadbook.ingestion.workers import worker_processes
with worker_processes() as pool:
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 120).result()
"""


def ended(pid):
    """Tell whether a process is gone, or waits for nothing but its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_worker_processes_end_when_their_parent_is_killed():
    with subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, text=True) as parent:
        worker = int(parent.stdout.readline())
        parent.kill()
    wait_until(lambda: ended(worker))
