"""One run per machine: who claims a host, who holds it, and how we are told (lock.sh does it, on the host).

The lock is held by the process on the host that ends our jobs when we are gone, and is free when that has ended them.
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
from loadbook.core.units import seconds
from loadbook.hosts.shell import sh_join

# one place that every user of a machine finds; each user's work folder is another
LOCK = "/tmp/loadbook-host.lock"  # noqa: S108
_ODD = re.compile(r"[^A-Za-z0-9@._-]")


def this_place() -> str:
    """Return a word for the processes that we can see: two sittings that share it can tell whether the other lives."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    try:
        seen = boot.read_text() + str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        seen = secrets.token_hex()
    return hashlib.sha256(seen.encode()).hexdigest()[:8]


def born(pid: int) -> str:
    """Return when a process began, in ticks since the boot; "" if it is gone."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" else fields[18]


@dataclass(frozen=True)
class Claim:
    """What a sitting says of itself on each of its hosts; two aliases of one machine share it, and so the lock.

    Parameters
    ----------
    lock : the lock's file on the host.
    evict : id of an owner whose sessions are to be ended first, as the user typed it.
    """

    study: str
    run: str
    lock: str = LOCK
    evict: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    since_s: float = field(default_factory=time.monotonic)

    def on(self, lock: str | None) -> Claim:
        """Return the claim on a host with this lock file."""
        return replace(self, lock=lock or LOCK)

    def words(self) -> list[str]:
        """Return the lock and what `take` of lock.sh is told: id, who, process, place, study, run, seconds so far."""
        who = f"{getpass.getuser()}@{socket.gethostname()}"
        place = f"{this_place()}:{born(os.getpid())}"
        known = [self.id, who, str(os.getpid()), place, self.study, self.run]
        held_s = str(int(time.monotonic() - self.since_s))
        return [self.lock, *(_ODD.sub("_", word)[:100] if word != place else word for word in known), held_s]


class Owner(NamedTuple):
    """Who holds a machine, and for how long already (seconds)."""

    age_s: float
    ending: bool
    id: str
    who: str
    pid: int
    place: str
    study: str
    run: str

    @property
    def said(self) -> str:
        """Return who it is, which study, and how long."""
        doing = f"run {self.run} of {self.study}"
        return f"{self.who} (process {self.pid}), {doing}, for {seconds(max(0.0, self.age_s))}"

    @property
    def is_dead(self) -> bool:
        """Tell whether it was a process here and is no more; of one elsewhere we cannot know."""
        place, _, began = self.place.partition(":")
        return place == this_place() and born(self.pid) != began


def owners_in(answer: bytes) -> list[Owner]:
    """Return the owners that `job.sh owners` told of, one for each of their hosts on the machine."""
    found = []
    for line in answer.decode("utf-8", "replace").splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[0].lstrip("-").isdigit() and fields[4].isdigit():
            age, state, owner, who, pid, place, study, run = fields
            found.append(Owner(float(age), state == "ending", owner, who, int(pid), place, study, run))
    return found


class InUseError(HostError):
    """Another run uses the machine. Nothing was done there; it may be tried again."""

    transient = True

    def __init__(self, host: str, owner: Owner) -> None:
        hint = f"wait for its end (loadbook run --wait), or end it: loadbook run --break-lock {owner.id}"
        super().__init__(host, f"in use by {owner.said}", hint)
        self.owner = owner


def refusal(alias: str, answer: str) -> HostError:
    """Return the error that `job.sh watch` told of when it could not take the lock."""
    word, _, rest = answer.strip().partition(" ")
    if word == "busy" and (owners := owners_in(rest.encode())):
        return InUseError(alias, owners[0])
    return HostError(alias, f"its lock cannot be taken: {rest or answer}", "set `lock` for this host in the hosts file")


def ask_text(script: str, verb: str, *words: str) -> str:
    """Return shell text that asks a host's job.sh about a lock: `owners` LOCK, or `evict` LOCK ID."""
    return sh_join(["/bin/sh", script, verb, *words])
