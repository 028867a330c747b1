"""The protocol `Host`: implemented over SSH (`remote`), from a recorded run (`replay`), and for dry runs (`dry`).

Every call has a time limit. Commands are argument lists; quoting happens in one place inside the implementation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from loadbook.study.plan import PlannedTrial

if TYPE_CHECKING:
    from paramiko import Channel


class CommandResult(NamedTuple):
    """Result of a control command: exit code (128 + n for signal n), and the first 1 MiB of each output."""

    rc: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """The standard output as text."""
        return self.stdout.decode(errors="replace")


class HttpResponse(NamedTuple):
    """An HTTP response as seen from the host; names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class ClockOffset(NamedTuple):
    """Host clock minus the controller's clock, and the round trip of the probe that measured it; both in seconds."""

    offset_s: float
    rtt_s: float


@dataclass(frozen=True)
class Job:
    """A program that runs detached on the host, in its own process group, until it ends or its lease expires.

    Parameters
    ----------
    name : unique on the host within the run; names the job's folder ``<workdir>/jobs/<name>``.
    steps : argument lists run one after the other; step k writes ``stdout.<k>``, ``stderr.<k>``, ``times.<k>``
        (start and end, epoch seconds by the host's clock) and ``rc.<k>`` in the job's folder. The file ``rc`` (exit
        code of the last step) is written last: once it exists, all other files of the job are complete.
    lease_s : seconds after which the host itself ends the whole group, even if the controller has died.
    files : relative name -> content of files that are written to the job's folder before the first step.
    last_step_at : the last step does not begin before this instant (epoch seconds, the host's clock); None: at once.
    ends_with_session : end the group as soon as the controller closes its connection to the host, or dies.
    """

    name: str
    steps: tuple[tuple[str, ...], ...]
    lease_s: float
    files: Mapping[str, bytes] = field(default_factory=dict)
    ends_with_session: bool = True
    last_step_at: float | None = None


class JobState(NamedTuple):
    """State of a job; `pid` is the leader of its process group, None if it has not started yet.

    `running` is False and `rc` the exit code once the job has ended; `rc` remains None for a job that ended without
    an exit code, as after a restart of the host.
    """

    pid: int | None
    rc: int | None
    running: bool


class Host(Protocol):
    """One host of a run. Its methods raise only HostError and its subclasses.

    `live` is False for a replay or a dry run, where nothing really runs and waiting is pointless; `reconnects` counts
    how often a lost connection was opened again.
    """

    alias: str
    address: str
    workdir: str
    live: bool
    reconnects: int

    def open(self) -> None:
        """Connect, verify the host key and create `workdir`; a second call does nothing."""

    def close(self) -> None:
        """Close the connection; jobs started with `ends_with_session` end."""

    def reopen(self) -> None:
        """Close and open again; an unreachable host is retried until the time limit for lost hosts is over."""

    def abandon(self) -> None:
        """Drop the connection at once, from any thread; the host ends `ends_with_session` jobs when it notices."""

    def set_trial(self, planned: PlannedTrial | None) -> None:
        """Set the trial that the following calls belong to; None for calls outside all trials. SSH hosts ignore it."""
        return

    def token(self, name: str) -> str:
        """Return a unique word for the object `name` (such as a service); a replay returns the recorded one."""

    def run(self, argv: Sequence[str], *, timeout_s: float, check: bool = False) -> CommandResult:
        """Run a short control command in `workdir`; with `check`, an exit code other than 0 raises CommandError."""

    def script(self, text: str, args: Sequence[str] = (), *, timeout_s: float, check: bool = False) -> CommandResult:
        """Run a POSIX sh script with `args` as $1, $2, ..., so that several commands take one network round trip.

        With `check`, an exit code other than 0 raises CommandError.
        """

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file atomically, creating its folders; relative paths start at `workdir`."""

    def get(self, path: str, *, max_bytes: int) -> bytes:
        """Read a file (relative paths start at `workdir`); one larger than `max_bytes` raises HostError."""

    def fetch(self, path: str, local: Path, *, max_bytes: int) -> str:
        """Copy a file to a new local file, check its sha256 against the host's, and return the sha256 (hex).

        A file larger than `max_bytes` is cut to its first `max_bytes` bytes, and OversizeError is raised.
        """

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""

    def remove(self, path: str) -> None:
        """Remove a file or folder below `workdir`; a path outside it raises HostError."""

    def start(self, job: Job) -> int:
        """Start a detached job and return the process id of its leader; HostError if its name was used before."""

    def state(self, name: str) -> JobState:
        """Return the state of a job, read from its files on the host, so that it also works after a reconnect."""

    def wait(self, name: str, *, timeout_s: float, expect_s: float | None = None) -> int:
        """Wait for a job's end and return its exit code; HostTimeoutError after `timeout_s` seconds.

        `expect_s` is the expected time until the end; before it, the host is polled only about once a second.
        """

    def stop(self, name: str, *, grace_s: float = 5.0) -> None:
        """End a job's process group with TERM, and with KILL after `grace_s` seconds; no error if it already ended."""

    def http_get(self, address: str, port: int, path: str, *, timeout_s: float, scheme: str = "http") -> HttpResponse:
        """Send a GET request through the host's own network (an SSH channel); needs nothing installed there."""

    def connect(self, port: int, *, timeout_s: float) -> Channel:
        """Open a TCP connection from the host to one of its own ports; it stays open until it is closed."""

    def can_forward(self) -> bool:
        """Return whether the host allows the connections that `http_get` and `connect` make; True if it is not live."""
        return True

    def recorded_file(self, name: str) -> bytes:
        """Return a file of the recorded trial that is replayed; empty on a real host or if the file does not exist."""
        return b""

    def clock(self) -> ClockOffset:
        """Measure host clock minus controller clock, in seconds, by the probe with the shortest round trip."""
