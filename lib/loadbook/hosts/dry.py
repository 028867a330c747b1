"""Hosts of a dry run: nothing is done, every call is recorded and answered as if all went well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn

from loadbook.core.errors import HostError
from loadbook.hosts import jobs
from loadbook.hosts.host import ClockOffset, CommandResult, Host, HttpResponse, Job, JobState
from loadbook.hosts.inventory import HostsFile
from loadbook.hosts.jobs import DEFAULT_LOCK_FILE
from loadbook.hosts.remote import RemoteHost

CLOCK_COMMAND = ("date", "+%s.%N")
TOKEN = "000000000000"  # noqa: S105  # stands for the random word in a rendered configuration
LEADER_PID = 999999999  # above every process id that Linux gives


class DryRunStep(NamedTuple):
    """One thing that would be done on one host.

    `action` is login, lock, run, script, put, job, http, ask, fetch, stop, remove or note; `args` are its argument
    list, path, URL or job's name (of a job: its name, then the argument list of one step); `data` is a file's content.
    """

    alias: str
    action: str
    args: tuple[str, ...]
    note: str = ""
    data: bytes = b""


@dataclass
class DryRunLog:
    """Calls to all hosts of a dry run, in order, and the answers that the hosts give.

    Parameters
    ----------
    script_output : returns what a script prints, from its text and arguments.
    outputs : what a command prints, by its argument list; others print nothing.
    responses : HTTP responses by URL; others are empty with status 200.
    """

    script_output: Callable[[str, Sequence[str]], str]
    steps: list[DryRunStep] = field(default_factory=list)
    outputs: dict[tuple[str, ...], bytes] = field(default_factory=dict)
    responses: dict[str, HttpResponse] = field(default_factory=dict)

    def take(self) -> list[DryRunStep]:
        """Return the steps since the last call."""
        steps, self.steps = self.steps, []
        return steps


class DryRunHost(Host):
    """A host that records what it is asked to do in `log`; questions about files and jobs are answered only."""

    live = False
    reconnects = 0

    def __init__(self, host: RemoteHost, inventory: HostsFile, log: DryRunLog) -> None:
        self.alias, self.address, self.workdir = host.alias, host.address, host.workdir
        self.destination = host.destination
        self._lock_file = inventory.hosts[host.alias].lock or DEFAULT_LOCK_FILE
        self._log = log

    def _record(self, action: str, *args: str, note: str = "", data: bytes = b"") -> None:
        self._log.steps.append(DryRunStep(self.alias, action, args, note, data))

    def _relative_path(self, path: str) -> str:
        """Return a path in a job's folder relative to the work folder."""
        return path.removeprefix(f"{self.workdir}/") if path.startswith(f"{self.workdir}/jobs/") else path

    def open(self) -> None:
        """Record the login, the script that starts jobs, and the lock."""
        name, launcher = jobs.launcher_script()
        self._record("login", self.workdir, note="makes this folder, and keeps to the CPUs of the hosts file")
        self._record("put", f"{self.workdir}/{name}", note="starts and ends jobs", data=launcher)
        note = "for the whole run; refused, with its name, where another run holds it"
        self._record("lock", self._lock_file, note=note)

    def close(self) -> None:
        """Do nothing."""

    reopen = abandon = close

    def take_transcript(self) -> bytes:
        """Return nothing: the answers are invented."""
        return b""

    def token(self, name: str) -> str:
        """Return the word that stands for a random one."""
        return TOKEN

    def run(self, argv: Sequence[str], *, timeout_s: float, check: bool = False) -> CommandResult:
        """Record a command."""
        self._record("run", *argv)
        return CommandResult(0, self._log.outputs.get(tuple(argv), b""), b"")

    def script(self, text: str, args: Sequence[str] = (), *, timeout_s: float, check: bool = False) -> CommandResult:
        """Record a script with its arguments."""
        words = ["LEADER" if word == str(LEADER_PID) else word for word in args]
        self._record("script", text, *words)
        return CommandResult(0, self._log.script_output(text, words).encode(), b"")

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Record a file that is written."""
        self._record("put", path, data=data)

    def get(self, path: str, *, max_bytes: int) -> bytes:
        """Return the exit code or the times of a step of a job; other files are empty."""
        return {"rc": b"0", "times": b"0 0"}.get(Path(path).name.partition(".")[0], b"")

    def fetch(self, path: str, local: Path, *, max_bytes: int) -> str:
        """Record a file that is copied to here; no local file is made."""
        self._record("fetch", self._relative_path(path))
        return ""

    def exists(self, path: str) -> bool:
        """Return True."""
        return True

    def remove(self, path: str) -> None:
        """Record a file or folder that is removed."""
        self._record("remove", self._relative_path(path))

    def start(self, job: Job) -> int:
        """Record the files of a job and each of its steps, as they are typed on the host."""
        for name, data in job.files.items():
            self._record("put", f"{jobs.job_folder(job.name)}/{name}", data=data)
        for argv in job.steps:
            self._record("job", job.name, *argv, note=f"for {job.lease_s:.0f} s at most")
        return LEADER_PID

    def state(self, name: str) -> JobState:
        """Return the state of a job that runs."""
        return JobState(LEADER_PID, None, running=True)

    def wait(self, name: str, *, timeout_s: float, expect_s: float | None = None) -> int:
        """Return 0 at once."""
        return 0

    def stop(self, name: str, *, grace_s: float = 5.0) -> None:
        """Record the end of a job."""
        self._record("stop", name)

    def http_get(self, address: str, port: int, path: str, *, timeout_s: float, scheme: str = "http") -> HttpResponse:
        """Record an HTTP request."""
        url = f"{scheme}://{address}:{port}{path}"
        self._record("http", url)
        return self._log.responses.get(url, HttpResponse(200, {}, b""))

    def connect(self, port: int, *, timeout_s: float) -> NoReturn:
        """Raise HostError: a dry run opens no connection."""
        raise HostError(self.alias, "a dry run opens no connection")

    def clock(self) -> ClockOffset:
        """Record one probe of the host's clock."""
        self._record("run", *CLOCK_COMMAND)
        return ClockOffset(0.0, 0.0)
