"""One run per machine, whoever and from wherever; the death of its owner frees it, when its jobs have ended."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from job_sh import SHELLS
from loadbook.hosts.jobs import (
    launcher_script,
)
from waiting import PATIENCE_S


@pytest.mark.parametrize("shell", SHELLS)
def test_lock_path_that_is_a_fifo_is_refused_at_once(shell, tmp_path):
    """Opening a FIFO waits for its other end: nothing may open one that somebody left there."""
    if shutil.which(SHELLS[shell][0]) is None:
        pytest.skip(f"{shell} is not there: apt-get install {shell}")
    name, text = launcher_script()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(text)
    os.mkfifo(tmp_path / "lock")
    args = ["a", "me@here", "1", "x:1", "study", "run", "0"]
    watch = [*SHELLS[shell], str(tmp_path / name), "watch", "session", "120", str(tmp_path / "lock"), *args]
    done = subprocess.run(
        watch, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode != 0 and f"unlocked {tmp_path}/lock is no regular file" in done.stdout.decode(), done
    os.mkfifo(tmp_path / "other.b.1")
    listing = [*SHELLS[shell], str(tmp_path / name), "owners", str(tmp_path / "other")]
    assert subprocess.run(listing, cwd=tmp_path, capture_output=True, timeout=PATIENCE_S, check=True).stdout == b""
