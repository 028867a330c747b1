"""job.sh by itself, under every shell that a host may have as /bin/sh."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from loadbook.hosts.jobs import launcher_script

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}


def with_job_sh(folder: Path) -> Path:
    """Write job.sh into a folder, and return the folder."""
    (folder / "job.sh").write_bytes(launcher_script()[1])
    return folder


def prepare(work: Path, name: str, *steps: str, session: str | None = None) -> Path:
    """Write the folder of a job with these steps, and return it."""
    folder = work / "jobs" / name
    folder.mkdir(parents=True)
    for number, step in enumerate(steps, 1):
        (folder / f"cmd.{number}").write_text(step + "\n")
    if session:
        (folder / "session").write_text(session + "\n")
    return folder


def start(shell: list[str], work: Path, name: str, lease_s: int = 60, path: str = "/usr/bin:/bin") -> subprocess.Popen:
    """Start a job that was prepared."""
    return subprocess.Popen(
        [*shell, "job.sh", "run", f"jobs/{name}", str(lease_s)],
        cwd=work,
        env=os.environ | {"PATH": path},  # a folder there that we may not read turns code 127 into 126
        start_new_session=True,
        stdin=subprocess.DEVNULL,
    )


def watch(shell: list[str], folder: Path, lock: Path, owner: str, *, path: str | None = None) -> subprocess.Popen[str]:
    """Start a watcher that claims the lock, in a work folder of its own."""
    folder.mkdir(exist_ok=True)
    with_job_sh(folder)
    words = [*shell, "job.sh", "watch", f"s-{owner}", "60", str(lock)]
    return subprocess.Popen(
        [*words, owner, f"{owner}@there", "1", "place:1", "study", "run", "90"],
        cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | ({"PATH": path} if path else {}),
    )  # fmt: skip
