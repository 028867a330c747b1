"""The protocol of a host, implemented by `remote` over SSH, `replay` from a recorded run, `dry` without any host.

Every call is bounded in time. Commands are argument lists; quoting happens in one place inside the implementation.
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
    """A control command that ended: exit code (128 + n for signal n) and its capped output."""

    rc: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """The standard output as text."""
        return self.stdout.decode(errors="replace")


class HttpResponse(NamedTuple):
    """An HTTP response as seen from the host."""

    status: int
    headers: dict[str, str]
    body: bytes


class ClockOffset(NamedTuple):
    """Host clock minus ours and the round trip of the best probe, seconds."""

    offset_s: float
    rtt_s: float


@dataclass(frozen=True)
class Job:
    """A program that runs detached on the host, in its own process group, until it ends or its lease does.

    Parameters
    ----------
    name : unique on the host within the run; names the job's folder ``<workdir>/jobs/<name>``.
    steps : argument lists run one after the other; step k writes ``stdout.<k>``, ``stderr.<k>``, ``times.<k>``
        (start and end, epoch seconds by the host's clock) and ``rc.<k>`` in the job's folder. The job's
        file ``rc`` is written last (the last step's code) and means: everything beside it is complete.
    lease_s : seconds after which the host itself ends the whole group, whatever became of us.
    files : put beside the steps first (relative names).
    last_step_at : the last step does not begin before this instant (epoch seconds, the host's clock); None: at once.
    ends_with_session : end the group as soon as our control connection to the host is closed from our side or we die.
    """

    name: str
    steps: tuple[tuple[str, ...], ...]
    lease_s: float
    files: Mapping[str, bytes] = field(default_factory=dict)
    ends_with_session: bool = True
    last_step_at: float | None = None


class JobState(NamedTuple):
    """`running` until `rc` is known; `pid` is the leader of the job's process group."""

    pid: int | None
    rc: int | None
    running: bool


class Host(Protocol):
    """One host of a run. Raises only HostError and its children.

    `live` is False where nothing happens (a replay, a dry run), so that there is nothing to wait for; `reconnects`
    counts how often a lost connection was opened again.
    """

    alias: str
    address: str
    workdir: str
    live: bool
    reconnects: int

    def open(self) -> None:
        """Connect, prove the host key, create `workdir`; calling it again does nothing."""

    def close(self) -> None:
        """Close the connection; jobs started with `ends_with_session` end."""

    def reopen(self) -> None:
        """Close and open again, waiting for a host that is out of reach until it counts as lost."""

    def abandon(self) -> None:
        """Drop the connection at once, from any thread; jobs that end with us end when the host notices."""

    def set_trial(self, planned: PlannedTrial | None) -> None:
        """Set the trial that the following calls belong to; None: the run as a whole. Only a replay depends on it."""
        return

    def token(self, name: str) -> str:
        """Return a unique word for an object `name` on the host; a replay returns the recorded one."""

    def run(self, argv: Sequence[str], *, timeout_s: float, check: bool = False) -> CommandResult:
        """Run a short control command; with `check`, a code other than 0 raises CommandError."""

    def script(self, text: str, args: Sequence[str] = (), *, timeout_s: float, check: bool = False) -> CommandResult:
        """Run a POSIX sh script with `args` as $1...; for several commands in one round trip."""

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file whole or not at all, making its folders; relative paths start at `workdir`."""

    def get(self, path: str, *, max_bytes: int) -> bytes:
        """Read a file; one larger than `max_bytes` raises HostError."""

    def fetch(self, path: str, local: Path, *, max_bytes: int) -> str:
        """Copy a file byte for byte to a new local file, compare sha256 with the host's, and return it (hex).

        Of a larger one the first `max_bytes` are kept; then OversizeError.
        """

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""

    def remove(self, path: str) -> None:
        """Remove a file or folder below `workdir`; a path outside it raises HostError."""

    def start(self, job: Job) -> int:
        """Start a detached job and return the process id of its leader."""

    def state(self, name: str) -> JobState:
        """Return the state of a job from its files on the host; works after a reconnect."""

    def wait(self, name: str, *, timeout_s: float, expect_s: float | None = None) -> int:
        """Wait for a job's end and return its rc; HostTimeoutError when the time is up.

        `expect_s` is how long it should take from now; until then the host is asked about once a second only.
        """

    def stop(self, name: str, *, grace_s: float = 5.0) -> None:
        """End a job's whole process group: TERM, `grace_s`, KILL; a job that has ended is no error."""

    def http_get(self, address: str, port: int, path: str, *, timeout_s: float, scheme: str = "http") -> HttpResponse:
        """Send one HTTP request through the host's own network (an SSH channel); needs nothing installed there."""

    def connect(self, port: int, *, timeout_s: float) -> Channel:
        """Open a TCP connection from the host to one of its own ports; it stays open until it is closed."""

    def recorded_file(self, name: str) -> bytes:
        """Return a file of the trial that is replayed; empty on a real host or if there is none."""
        return b""

    def clock(self) -> ClockOffset:
        """Measure the offset of the host's clock by the probe with the shortest round trip."""
