"""Which runs hold the hosts of a lab on this machine: told by their locks, which the death of a run frees."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from loadbook.core.errors import UsageError
from loadbook.hosts.host_lock import LockOwner, parse_owners
from loadbook.hosts.jobs import launcher_script
from loadbook.hosts.sshd import Sshd

OWNERS_TIMEOUT_S = 20.0


def lab_lock_file(workdir: Path) -> Path:
    """Return the lock of a lab's host: its own, since labs that do not know of each other share the machine."""
    return workdir / "host.lock"


def lab_lock_owners(workdir: Path) -> list[LockOwner]:
    """Return who holds the host of a lab that has this work folder."""
    if not workdir.is_dir():
        return []
    command = ["/bin/sh", "-c", launcher_script()[1].decode(), "job.sh", "owners", str(lab_lock_file(workdir))]
    done = subprocess.run(
        command, cwd=workdir, stdin=subprocess.DEVNULL, capture_output=True, timeout=OWNERS_TIMEOUT_S, check=False
    )
    return parse_owners(done.stdout)


def check_idle(servers: Sequence[Sshd]) -> None:
    """Raise UsageError when a run is under way on one of these hosts, which are to be ended."""
    for server in servers:
        if owners := lab_lock_owners(server.workdir):
            problem = f"host {server.alias} of the lab is in use by {owners[0].description}"
            raise UsageError(f"{problem}, and would have to be changed", "wait for its end, or end it: loadbook lab down")
