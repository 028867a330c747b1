"""Hosts of a dry run: no command is executed; every call is recorded and answered as if it had succeeded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn

from loadbook.core.errors import HostError
from loadbook.hosts import jobs
from loadbook.hosts.host import ClockOffset, CommandResult, Host, HttpResponse, Job, JobState
from loadbook.hosts.inventory import HostsFile
from loadbook.hosts.jobs import DEFAULT_LOCK_FILE
from loadbook.hosts.remote import RemoteHost
from loadbook.hosts.script import DRY_RUN_PID, Script

CLOCK_COMMAND = ("date", "+%s.%N")
TOKEN = "000000000000"  # noqa: S105  # stands for the random word in a rendered configuration


class DryRunStep(NamedTuple):
    """One action that a real run would take on one host.

    `action` is login, lock, run, script, put, job, http, ask, fetch, stop, remove or note. `args` holds the argument
    list, path, URL or job name (for a job: its name, then the arguments of one step). `data` is a file's content,
    `note` the purpose in words.
    """

    alias: str
    action: str
    args: tuple[str, ...]
    note: str = ""
    data: bytes = b""


@dataclass
class DryRunLog:
    """Calls to all hosts of a dry run, in order, and the answers that these hosts return.

    Parameters
    ----------
    outputs : argument list -> output of that command; all other commands print nothing.
    responses : URL -> HTTP response; all other URLs give an empty response with status 200.
    """

    steps: list[DryRunStep] = field(default_factory=list)
    outputs: dict[tuple[str, ...], bytes] = field(default_factory=dict)
    responses: dict[str, HttpResponse] = field(default_factory=dict)

    def take(self) -> list[DryRunStep]:
        """Return the steps since the last call."""
        steps, self.steps = self.steps, []
        return steps


class DryRunHost(Host):
    """A host that records every action in `log`; queries of files and job states are answered but not recorded."""

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
        """Record the login, the copy of the script that starts jobs, and the taking of the lock."""
        name, launcher = jobs.launcher_script()
        self._record("login", self.workdir, note="makes this folder, and keeps to the CPUs of the hosts file")
        self._record("put", f"{self.workdir}/{name}", note="starts and ends jobs", data=launcher)
        note = "for the whole run; refused, with its name, where another run holds it"
        self._record("lock", self._lock_file, note=note)

    def close(self) -> None:
        """Do nothing: there is no connection to close."""

    reopen = abandon = close

    def take_transcript(self) -> bytes:
        """Return an empty transcript, since no answer came from a real host."""
        return b""

    def token(self, name: str) -> str:
        """Return a fixed placeholder in place of a random token."""
        return TOKEN

    def run(self, argv: Sequence[str], *, timeout_s: float, check: bool = False) -> CommandResult:
        """Record a command; return exit code 0 with its output in `DryRunLog.outputs`, empty for other commands."""
        self._record("run", *argv)
        return CommandResult(0, self._log.outputs.get(tuple(argv), b""), b"")

    def script(self, text: str, args: Sequence[str] = (), *, timeout_s: float, check: bool = False) -> CommandResult:
        """Record a script with its arguments, and return its answer on a host without problems."""
        words = ["LEADER" if word == str(DRY_RUN_PID) else word for word in args]
        self._record("script", text, *words)
        answer = text.answer_to(args) if isinstance(text, Script) else ""
        return CommandResult(0, answer.encode(), b"")

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Record a file that is written."""
        self._record("put", path, data=data)

    def get(self, path: str, *, max_bytes: int) -> bytes:
        """Return invented exit codes and times for the files of a job's steps; all other files are empty."""
        return {"rc": b"0", "times": b"0 0"}.get(Path(path).name.partition(".")[0], b"")

    def fetch(self, path: str, local: Path, *, max_bytes: int) -> str:
        """Record the copying of a file to this machine and return ""; no local file is made."""
        self._record("fetch", self._relative_path(path))
        return ""

    def exists(self, path: str) -> bool:
        """Return True for every path."""
        return True

    def remove(self, path: str) -> None:
        """Record a file or folder that is removed."""
        self._record("remove", self._relative_path(path))

    def start(self, job: Job) -> int:
        """Record the files of a job and the command line of each of its steps; return an invented process id."""
        for name, data in job.files.items():
            self._record("put", f"{jobs.job_folder(job.name)}/{name}", data=data)
        for argv in job.steps:
            self._record("job", job.name, *argv, note=f"for {job.lease_s:.0f} s at most")
        return DRY_RUN_PID

    def state(self, name: str) -> JobState:
        """Return the state "running" for any job."""
        return JobState(DRY_RUN_PID, None, running=True)

    def wait(self, name: str, *, timeout_s: float, expect_s: float | None = None) -> int:
        """Return the exit code 0 at once."""
        return 0

    def stop(self, name: str, *, grace_s: float = 5.0) -> None:
        """Record the end of a job."""
        self._record("stop", name)

    def http_get(self, address: str, port: int, path: str, *, timeout_s: float, scheme: str = "http") -> HttpResponse:
        """Record an HTTP request; return its response in `DryRunLog.responses`, or an empty one with status 200."""
        url = f"{scheme}://{address}:{port}{path}"
        self._record("http", url)
        return self._log.responses.get(url, HttpResponse(200, {}, b""))

    def connect(self, port: int, *, timeout_s: float) -> NoReturn:
        """Raise HostError: a dry run opens no connection."""
        raise HostError(self.alias, "a dry run opens no connection")

    def clock(self) -> ClockOffset:
        """Record one probe of the host's clock; return an offset of 0 s."""
        self._record("run", *CLOCK_COMMAND)
        return ClockOffset(0.0, 0.0)
