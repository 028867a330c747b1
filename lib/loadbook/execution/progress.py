"""Events of a run, for a terminal, a log or a notebook; and waiting for hosts that another run uses.

A waiting run holds no host's lock, as two runs that each held one and waited for the other would never end.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, get_args

from loadbook.core import clock
from loadbook.core.errors import HostError
from loadbook.core.text import one_line
from loadbook.core.units import NBSP, format_duration, format_remaining_time
from loadbook.hosts.inventory import read_hosts
from loadbook.hosts.jobs import DEFAULT_LOCK_FILE, InUseError, LockOwner, parse_owners, script_command
from loadbook.hosts.remote import connect
from loadbook.study.plan import PlannedTrial

Kind = Literal["note", "trial-started", "phase", "trial-ended"]
KINDS = get_args(Kind)
EVENTS_FORMAT = 1  # of the lines of JSON that --events prints (docs/ci.md)


@dataclass(frozen=True)
class Progress:
    """One event; `remaining_s` is the expected time (s) to the end of the plan, None if it is not known.

    `block` is the number of the block, of `blocks`; `done` is the number of trials that have ended, of `total`.
    `trial` and `treatment` are None for a phase of a whole block. `run` is the run's id in the event that announces
    the run; None in all others. `phase_s`: planned duration (s) of a phase, None if it has none. `beside`: number of
    the block's trials that start or end together with this one, and whose events follow (end) or are left out
    (start).
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
    phase_s: float | None = None
    beside: int = 0

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> Progress:
        """Return the event of a line that --events printed, given as its parsed JSON; unknown keys are ignored."""
        return cls(**{field.name: message[field.name] for field in fields(cls) if field.name in message})

    def to_message(self) -> dict[str, Any]:
        """Return the fields of the line that --events prints: those that are not the default."""
        usual = {field.name: field.default for field in fields(self)}
        return {name: value for name, value in asdict(self).items() if value != usual[name]}

    @property
    def ends_block(self) -> bool:
        """Whether this is the end of the last trial of a block."""
        if self.kind != "trial-ended" or not (self.blocks and self.done):
            return False
        return self.done % max(1, self.total // self.blocks) == 0

    def line(self) -> str:
        """Return the event as one line of plain text."""
        if self.kind == "note":
            return one_line(self.message)
        where = f"[{self.done}/{self.total}] {'  '.join(self.place)}"
        return self.with_remaining(f"{where}: {one_line(self.message)}")

    @property
    def place(self) -> list[str]:
        """The block, and trial and treatment unless a whole block is meant: ["block 3 of 10", "t0009 as-is"]."""
        block = f"block {self.block} of {self.blocks}"
        is_block = self.trial is None or (self.kind == "trial-started" and self.beside > 0)
        return [block] if is_block else [block, f"{self.trial} {self.treatment}"]

    def phase_text(self, spent_s: float) -> str:
        """Return a phase with its seconds so far: "load 4 of 22 s", "starting services 3 s"; "" for other events."""
        if self.kind != "phase":
            return ""
        if self.phase_s is not None:
            return f"{self.message} {int(spent_s)} of {self.phase_s:.0f}{NBSP}s"
        return f"{self.message} {int(spent_s)}{NBSP}s" if spent_s >= 1 else self.message

    def remaining_text(self, spent_s: float = 0.0) -> str:
        """Return a text with the time to the end of the plan, `spent_s` seconds after the event; "" if not known."""
        if self.remaining_s is None:
            return ""
        return format_remaining_time(max(1.0, self.remaining_s - spent_s) if self.remaining_s > 0 else 0.0)

    def with_remaining(self, text: str) -> str:
        """Return `text` followed by the remaining time, if that is known.

        They are separated by a comma, or by a semicolon if the trial has ended with a status other than "ok".
        """
        if not (left := self.remaining_text()):
            return text
        return f"{text}, {left}" if self.status in (None, "ok") else f"{text.rstrip('.')}; {left}"


OnEvent = Callable[[Progress], None]
# asks the user a yes/no question and returns whether the answer is yes
Confirm = Callable[[str], bool]


def ignore_event(event: Progress) -> None:
    """Ignore an event."""


class OnPhase(Protocol):
    """Called at the begin of a phase of a trial, or of a block that is measured as a whole."""

    def __call__(self, phase: str, planned_s: float | None = None, trial: PlannedTrial | None = None) -> None:
        """Take a phase with its planned duration (s), if it has one, and its trial; None: the whole block."""


def ignore_phase(phase: str, planned_s: float | None = None, trial: PlannedTrial | None = None) -> None:
    """Ignore the begin of a phase."""


# the phases of a trial without a planned duration, by their names in trial.json (`phases_s`)
PHASE_TEXTS = {
    "reset": "waiting until hosts are at rest",
    "configure": "writing configurations",
    "start": "starting services",
    "ask_before": "checking the page",
    "ask_after": "reading counters",
    "collect": "collecting results",
    "stop": "stopping services",
}


# polls are rare, since each takes some milliseconds of CPU time on a host that runs another measurement
LOCK_POLL_S = 3.0
LOCK_NOTE_S = 60.0
LOCK_CHECK_TIMEOUT_S = 20.0

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
                output = host.script(script_command("owners", lock), timeout_s=LOCK_CHECK_TIMEOUT_S).stdout
                if not (owners := parse_owners(output)):
                    return
                owner = owners[0]
        finally:
            host.close()


def _waiting_text(alias: str, owner: LockOwner, deadline: float) -> str:
    left_s = deadline - clock.monotonic()
    limit = "" if left_s == float("inf") else f", for {format_duration(left_s)} at most"
    return f"waiting for host {alias}{limit}: in use by {owner.description}"
