"""Which runs hold the hosts of a lab on this machine: told by their locks, which the death of a run frees."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from loadbook.core.errors import UsageError
from loadbook.hosts.host_lock import Owner, owners_in
from loadbook.hosts.jobs import launcher
from loadbook.hosts.sshd import Sshd

LOOK_S = 20.0


def lock_at(workdir: Path) -> Path:
    """Return the lock of a lab's host: its own, since labs that do not know of each other share the machine."""
    return workdir / "host.lock"


def owners_at(workdir: Path) -> list[Owner]:
    """Return who holds the host of a lab that has this work folder."""
    if not workdir.is_dir():
        return []
    words = ["/bin/sh", "-c", launcher()[1].decode(), "job.sh", "owners", str(lock_at(workdir))]
    done = subprocess.run(
        words, cwd=workdir, stdin=subprocess.DEVNULL, capture_output=True, timeout=LOOK_S, check=False
    )
    return owners_in(done.stdout)


def must_be_idle(servers: Sequence[Sshd]) -> None:
    """Raise UsageError when a run is under way on one of these hosts, which are to be ended."""
    for server in servers:
        if owners := owners_at(server.workdir):
            said = f"host {server.alias} of the lab is in use by {owners[0].said}"
            raise UsageError(f"{said}, and would have to be changed", "wait for its end, or end it: loadbook lab down")
