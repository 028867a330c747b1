"""Faults in mid-slice of an interleaved block: a cut link, a full disk, a driver whose jobs are killed as by a reboot.

After each no stopped process is on a host, every attempt is recorded, and the run is complete. A killed controller, a
server that dies and a generator that hangs are in test_interleaved_lab, a frozen server in test_stall_lab.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from controller_processes import at_work_in, jobs_left, must_be_whole
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.ingestion.ingest import ingest
from loadbook.store.ledger import read_ledger
from loadbook.store.paths import RunPaths
from recorded_run import with_studies
from waiting import meanwhile, wait_until

STUDY = """
include = "aa.toml"
name = "small"
execution = "interleaved"
blocks = 2

[workload]
connections = 8
duration_s = %g
warmup_s = 0

[reset]
time_wait_sockets = 1000000

[validity]
driver_cpu = 1.0
"""
TRIALS = ["t0001", "t0002", "t0003", "t0004"]


def run_small(lab: Lab, root, duration_s: float = 2, fault: Callable[[], None] = lambda: None) -> RunPaths:
    """Run the study, with a fault as soon as load generators take turns in the first block."""
    layout = with_studies(root)
    (layout.studies / "small.toml").write_text(STUDY % duration_s)
    with meanwhile(lambda: (wait_until(lambda: turns(lab), 120), time.sleep(0.5), fault())):
        run = run_study(layout, "small", lab.hosts_file)
    return layout.run("small", run)


def turns(lab: Lab) -> list[int]:
    """Return the processes that let load generators take turns."""
    return [pid for pid, line in at_work_in(lab).items() if line.startswith("perl interleave.pl schedule")]


def statuses(paths: RunPaths) -> list[tuple[str, bool]]:
    return [(entry["status"], entry["final"]) for entry in read_ledger(paths.ledger) if entry["event"] == "ended"]


def test_driver_whose_jobs_are_killed_in_mid_slice_loses_the_block_which_is_repeated(lab, tmp_path):
    """As a reboot does: the process that gives the turns and all generators, running or stopped, are gone at once."""

    def kill_jobs() -> None:
        for pid in turns(lab):
            os.killpg(os.getpgid(pid), signal.SIGKILL)

    paths = run_small(lab, tmp_path / "home", fault=kill_jobs)
    must_be_whole(paths, TRIALS)
    assert ("lost", False) in statuses(paths)
    assert [status for status in statuses(paths) if status[1]] == [("ok", True)] * 4
    assert jobs_left(lab) == []
    assert ingest(paths).valid == 4
