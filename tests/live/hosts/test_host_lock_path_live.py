"""One run per machine, whoever and from wherever; the death of its owner frees it, when its jobs have ended."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from job_sh import SHELLS, watch
from waiting import PATIENCE_S


@pytest.mark.parametrize("mode", ["-s", "-x"])
def test_lock_that_a_program_which_is_no_run_keeps_locked_is_not_taken(mode, tmp_path):
    (tmp_path / "lock").touch()
    holds = ["flock", mode, "lock", "sh", "-c", "echo locked; exec cat"]
    with subprocess.Popen(holds, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"locked\n"
        watcher = watch(SHELLS["dash"], tmp_path / "work", tmp_path / "lock", "a")
        printed, _ = watcher.communicate(timeout=PATIENCE_S)
        other.stdin.close()
    assert watcher.returncode != 0 and f"unlocked {tmp_path}/lock stays locked" in printed


@pytest.mark.parametrize("shell", SHELLS)
def test_lock_path_that_is_a_fifo_is_refused_at_once(shell, tmp_path):
    """Opening a FIFO waits for its other end: nothing may open one that somebody left there."""
    if shutil.which(SHELLS[shell][0]) is None:
        pytest.skip(f"{shell} is not there: apt-get install {shell}")
    os.mkfifo(tmp_path / "lock")
    watcher = watch(SHELLS[shell], tmp_path / "work", tmp_path / "lock", "a")
    printed, _ = watcher.communicate(timeout=PATIENCE_S)
    assert watcher.returncode != 0 and f"unlocked {tmp_path}/lock is no regular file" in printed
    os.mkfifo(tmp_path / "other.b.1")
    listing = [*SHELLS[shell], "job.sh", "owners", str(tmp_path / "other")]
    listed = subprocess.run(listing, cwd=tmp_path / "work", capture_output=True, timeout=PATIENCE_S, check=True)
    assert listed.stdout == b""
