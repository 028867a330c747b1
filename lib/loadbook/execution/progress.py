"""Events of a run, for a terminal, a log or a notebook; and the wait for hosts that another run uses.

A run that waits holds no host: two runs that each held one and waited for the other would never end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from loadbook.core.errors import HostError
from loadbook.core.text import one_line
from loadbook.core.units import format_duration, format_remaining_time
from loadbook.hosts.inventory import read_hosts
from loadbook.hosts.jobs import DEFAULT_LOCK_FILE, InUseError, LockOwner, parse_owners, script_command
from loadbook.hosts.remote import connect

Kind = Literal["note", "trial-started", "trial-ended"]


@dataclass(frozen=True)
class Progress:
    """One event; `remaining_s` is the expected time (s) to the end of the plan, None where it is not known.

    `run` is the run's id, in the event that announces it.
    """

    kind: Kind
    message: str
    trial: str | None = None
    treatment: str | None = None
    block: int = 0
    blocks: int = 0
    done: int = 0
    total: int = 0
    status: str | None = None
    remaining_s: float | None = None
    run: str | None = None

    def line(self) -> str:
        """Return the event as one line of plain text."""
        if self.kind == "note":
            return one_line(self.message)
        where = f"[{self.done}/{self.total}] block {self.block} of {self.blocks}"
        return f"{where}  {self.trial}  {self.treatment}: {one_line(self.message)}{self.remaining_text()}"

    def remaining_text(self) -> str:
        """Return the expected remaining time as the end of a line; empty where it is not known."""
        return "" if self.remaining_s is None else f", {format_remaining_time(self.remaining_s)}"


OnEvent = Callable[[Progress], None]
# asks the user a question with the answers yes and no
Confirm = Callable[[str], bool]


def ignore_event(event: Progress) -> None:
    """Ignore an event."""


# each poll costs the host, which runs another measurement, some milliseconds
LOCK_POLL_S = 3.0
LOCK_NOTE_S = 60.0
LOCK_PROBE_TIMEOUT_S = 20.0

T = TypeVar("T")


@dataclass(frozen=True)
class LockPolicy:
    """Reaction to hosts in use: seconds to wait, and the id of an owner to end, typed by the user."""

    wait_s: float = 0.0
    break_lock: str = ""


def wait_for_hosts(start: Callable[[], T], hosts_file: Path, wait_s: float, on_event: OnEvent) -> T:
    """Return the result of `start`, retried for `wait_s` seconds while another run uses a host.

    Raises
    ------
    InUseError : of the last try, when the time is up.
    """
    deadline = None
    while True:
        try:
            return start()
        except InUseError as error:
            deadline = deadline or time.monotonic() + wait_s
            if time.monotonic() >= deadline:
                raise
            _wait_until_free(hosts_file, error, deadline, on_event)


def _wait_until_free(hosts_file: Path, refused: InUseError, deadline: float, on_event: OnEvent) -> None:
    """Poll the lock's owner, over a connection without a lock, until the host is free or the time is up."""
    owner = refused.owner
    lock = read_hosts(hosts_file).hosts[refused.host].lock or DEFAULT_LOCK_FILE
    noted = time.monotonic()
    on_event(Progress("note", _waiting_text(refused.host, owner, deadline)))
    with suppress(HostError):  # the next try reports a host that is out of reach
        host = connect(hosts_file, refused.host, "waiting")
        try:
            while time.monotonic() < deadline:
                if time.monotonic() - noted >= LOCK_NOTE_S:
                    noted = time.monotonic()
                    on_event(Progress("note", _waiting_text(refused.host, owner, deadline)))
                time.sleep(min(LOCK_POLL_S, max(0.0, deadline - time.monotonic())))
                output = host.script(script_command("owners", lock), timeout_s=LOCK_PROBE_TIMEOUT_S).stdout
                if not (owners := parse_owners(output)):
                    return
                owner = owners[0]
        finally:
            host.close()


def _waiting_text(alias: str, owner: LockOwner, deadline: float) -> str:
    left_s = deadline - time.monotonic()
    limit = "" if left_s == float("inf") else f", for {format_duration(left_s)} at most"
    return f"waiting for host {alias}{limit}: in use by {owner.description}"
