"""Events of a run, for a terminal, a log or a notebook; and waiting for hosts that another run uses.

A waiting run holds no host's lock, as two runs that each held one and waited for the other would never end.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from loadbook.core import clock
from loadbook.core.errors import HostError
from loadbook.core.text import one_line
from loadbook.core.units import format_duration, format_remaining_time
from loadbook.hosts.inventory import read_hosts
from loadbook.hosts.jobs import DEFAULT_LOCK_FILE, InUseError, LockOwner, parse_owners, script_command
from loadbook.hosts.remote import connect

Kind = Literal["note", "trial-started", "trial-ended"]


@dataclass(frozen=True)
class Progress:
    """One event; `remaining_s` is the expected time (s) to the end of the plan, None if it is not known.

    `run` is the run's id in the event that announces the run; None in all others.
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
        """Return the expected remaining time as the end of a line; "" if it is not known."""
        return "" if self.remaining_s is None else f", {format_remaining_time(self.remaining_s)}"


OnEvent = Callable[[Progress], None]
# asks the user a yes/no question and returns whether the answer is yes
Confirm = Callable[[str], bool]


def ignore_event(event: Progress) -> None:
    """Ignore an event."""


# polls are rare, since each takes some milliseconds of CPU time on a host that runs another measurement
LOCK_POLL_S = 3.0
LOCK_NOTE_S = 60.0
LOCK_PROBE_TIMEOUT_S = 20.0

T = TypeVar("T")


@dataclass(frozen=True)
class LockPolicy:
    """Reaction to hosts in use: seconds to wait for them, and the id of a lock owner whose run is ended ("": none)."""

    wait_s: float = 0.0
    break_lock: str = ""


def wait_for_hosts(start: Callable[[], T], hosts_file: Path, wait_s: float, on_event: OnEvent) -> T:
    """Call `start` and return its result, retrying for `wait_s` seconds while another run uses a host.

    Raises
    ------
    InUseError : another run still uses a host when the time is up.
    """
    deadline = None
    while True:
        try:
            return start()
        except InUseError as error:
            deadline = deadline or clock.monotonic() + wait_s
            if clock.monotonic() >= deadline:
                raise
            _wait_until_free(hosts_file, error, deadline, on_event)


def _wait_until_free(hosts_file: Path, refused: InUseError, deadline: float, on_event: OnEvent) -> None:
    """Poll the owner of a host's lock until the host is free or the time is up."""
    owner = refused.owner
    lock = read_hosts(hosts_file).hosts[refused.host].lock or DEFAULT_LOCK_FILE
    noted = clock.monotonic()
    on_event(Progress("note", _waiting_text(refused.host, owner, deadline)))
    with suppress(HostError):  # the next call of `start` reports an unreachable host
        host = connect(hosts_file, refused.host, "waiting")
        try:
            while clock.monotonic() < deadline:
                if clock.monotonic() - noted >= LOCK_NOTE_S:
                    noted = clock.monotonic()
                    on_event(Progress("note", _waiting_text(refused.host, owner, deadline)))
                clock.sleep(min(LOCK_POLL_S, max(0.0, deadline - clock.monotonic())))
                output = host.script(script_command("owners", lock), timeout_s=LOCK_PROBE_TIMEOUT_S).stdout
                if not (owners := parse_owners(output)):
                    return
                owner = owners[0]
        finally:
            host.close()


def _waiting_text(alias: str, owner: LockOwner, deadline: float) -> str:
    left_s = deadline - clock.monotonic()
    limit = "" if left_s == float("inf") else f", for {format_duration(left_s)} at most"
    return f"waiting for host {alias}{limit}: in use by {owner.description}"
