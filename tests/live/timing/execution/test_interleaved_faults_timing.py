"""Faults in mid-slice of an interleaved block: a cut link, a full disk, a driver whose jobs are killed as by a reboot.

After each no stopped process is on a host, every attempt is recorded, and the run is complete. A killed controller, a
server that dies and a generator that hangs are in test_interleaved_lab, a frozen server in test_stall_lab.
"""

from __future__ import annotations

import os
import signal

from controller_processes import jobs_left, must_be_whole
from interleaved_faults import TRIALS, run_small, statuses, turns
from loadbook.ingestion.ingest import ingest


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
