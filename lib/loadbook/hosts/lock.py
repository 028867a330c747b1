"""The lock of a host, which allows one run per machine: requests, owners and errors (lock.sh runs on the host).

The lock is held by the process on the host that ends our jobs when the controller is gone; it is released when they
have ended.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import secrets
import socket
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from loadbook.core.errors import HostError
from loadbook.core.units import format_duration
from loadbook.hosts.shell import sh_join

# one place that every user of a machine finds; each user's work folder is another
DEFAULT_LOCK_FILE = "/tmp/loadbook-host.lock"  # noqa: S108
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9@._-]")


def pid_namespace_id() -> str:
    """Return an id of the process namespace; two controllers with the same id can check whether the other is alive."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    try:
        identity = boot.read_text() + str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        identity = secrets.token_hex()
    return hashlib.sha256(identity.encode()).hexdigest()[:8]


def process_start_ticks(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot; "" if it does not exist."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" else fields[18]


@dataclass(frozen=True)
class LockRequest:
    """Identity of a controller that requests a host's lock; aliases of one machine share it, and so the lock.

    Parameters
    ----------
    lock : the lock's file on the host.
    evict : id of an owner whose sessions are to be ended first, as the user typed it.
    """

    study: str
    run: str
    lock_file: str = DEFAULT_LOCK_FILE
    evict_id: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    since_s: float = field(default_factory=time.monotonic)

    def with_lock_file(self, lock: str | None) -> LockRequest:
        """Return the claim on a host with this lock file."""
        return replace(self, lock_file=lock or DEFAULT_LOCK_FILE)

    def script_args(self) -> list[str]:
        """Return the arguments of `take` in lock.sh: lock, id, user, process, place, study, run, seconds so far."""
        user = f"{getpass.getuser()}@{socket.gethostname()}"
        process_identity = f"{pid_namespace_id()}:{process_start_ticks(os.getpid())}"
        args = [self.id, user, str(os.getpid()), process_identity, self.study, self.run]
        held_s = str(int(time.monotonic() - self.since_s))
        return [
            self.lock_file,
            *(_UNSAFE_CHARACTERS.sub("_", word)[:100] if word != process_identity else word for word in args),
            held_s,
        ]


class LockOwner(NamedTuple):
    """Owner of a machine's lock, and for how long (seconds)."""

    age_s: float
    ending: bool
    id: str
    user: str
    pid: int
    process_identity: str
    study: str
    run: str

    @property
    def description(self) -> str:
        """Return user, machine, process, study and duration as text."""
        purpose = f"run {self.run} of {self.study}"
        return f"{self.user} (process {self.pid}), {purpose}, for {format_duration(max(0.0, self.age_s))}"

    @property
    def is_dead(self) -> bool:
        """Return whether the owner was a process on this machine that no longer exists; False for owners elsewhere."""
        namespace_id, _, start_time = self.process_identity.partition(":")
        return namespace_id == pid_namespace_id() and process_start_ticks(self.pid) != start_time


def parse_owners(output: bytes) -> list[LockOwner]:
    """Parse the output of `job.sh owners`: the owners of the machine's lock, one for each of their hosts."""
    owners = []
    for line in output.decode("utf-8", "replace").splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[0].lstrip("-").isdigit() and fields[4].isdigit():
            age, status, owner, user, pid, process_identity, study, run = fields
            owners.append(
                LockOwner(float(age), status == "ending", owner, user, int(pid), process_identity, study, run)
            )
    return owners


class InUseError(HostError):
    """Another run uses the machine. Nothing was changed there, so the call can be repeated later."""

    transient = True

    def __init__(self, host: str, owner: LockOwner) -> None:
        hint = f"wait for its end (loadbook run --wait), or end it: loadbook run --break-lock {owner.id}"
        super().__init__(host, f"in use by {owner.description}", hint)
        self.owner = owner


def lock_error(alias: str, output: str) -> HostError:
    """Return the error for a lock that `job.sh watch` could not acquire."""
    status, _, rest = output.strip().partition(" ")
    if status == "busy" and (owners := parse_owners(rest.encode())):
        return InUseError(alias, owners[0])
    return HostError(alias, f"its lock cannot be taken: {rest or output}", "set `lock` for this host in the hosts file")


def lock_command(script: str, verb: str, *args: str) -> str:
    """Return shell text for a lock command of the host's job.sh: `owners` LOCK, or `evict` LOCK ID."""
    return sh_join(["/bin/sh", script, verb, *args])
