"""One run per machine, whoever and from wherever; the death of its owner frees it, when its jobs have ended."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from job_sh import SHELLS
from loadbook.hosts.jobs import launcher_script
from waiting import PATIENCE_S

OWNER = ["a", "me@here", "1", "x:1", "study", "run", "0"]


def script_in(folder: Path) -> str:
    """Write the script of hosts into a folder; return its path."""
    name, text = launcher_script()
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(text)
    return str(folder / name)


def watch(shell: list[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Try to take the lock `lock` in the folder."""
    command = [*shell, script_in(folder), "watch", "session", "120", str(folder / "lock"), *OWNER]
    return subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False
    )


@pytest.mark.parametrize("mode", ["-s", "-x"])
def test_lock_that_a_program_which_is_no_run_keeps_locked_is_not_taken(mode, tmp_path):
    (tmp_path / "lock").touch()
    with subprocess.Popen(
        ["flock", mode, "lock", "sh", "-c", "echo locked; exec cat"], cwd=tmp_path, stdin=-1, stdout=-1
    ) as other:
        assert other.stdout.readline() == b"locked\n"
        done = watch(SHELLS["dash"], tmp_path)
        other.stdin.close()
    assert done.returncode != 0 and f"unlocked {tmp_path}/lock stays locked" in done.stdout.decode(), done


@pytest.mark.parametrize("shell", SHELLS)
def test_lock_path_that_is_a_fifo_is_refused_at_once(shell, tmp_path):
    """Opening a FIFO waits for its other end: nothing may open one that somebody left there."""
    if shutil.which(SHELLS[shell][0]) is None:
        pytest.skip(f"{shell} is not there: apt-get install {shell}")
    os.mkfifo(tmp_path / "lock")
    done = watch(SHELLS[shell], tmp_path)
    assert done.returncode != 0 and f"unlocked {tmp_path}/lock is no regular file" in done.stdout.decode(), done
    os.mkfifo(tmp_path / "other.b.1")
    listing = [*SHELLS[shell], script_in(tmp_path), "owners", str(tmp_path / "other")]
    assert subprocess.run(listing, cwd=tmp_path, capture_output=True, timeout=PATIENCE_S, check=True).stdout == b""
