"""A host over SSH: the `Host` protocol on a session that reconnects when its connection is lost.

How other packages use this one (every call is bounded in time; errors are HostError and its children)::

    host = connect(hosts_path, "driver", run_id)            # open RemoteHost; host.close() ends its jobs
    connect(..., lock_request=LockRequest(study, run_id))   # takes the machine's lock; InUseError if another run has it
    host.run(argv, timeout_s=5, check=True)                 # CommandResult(rc, stdout, stderr), bytes
    host.script(text, ["$1", "$2"], timeout_s=5)            # POSIX sh, one round trip, in host.workdir
    host.start(Job("t1-load", (warmup, load), lease_s=60))  # detached; outputs in <workdir>/jobs/t1-load/
    host.wait("t1-load", timeout_s=60, expect_s=10)         # rc; stdout.2, stderr.2, times.2, rc.2 are then complete
    host.fetch("jobs/t1-load/stdout.2", local, max_bytes=n) # sha256; the file `step` holds the running step's pid
    host.reconnects, host.can_forward()
"""

from __future__ import annotations

import secrets
import shlex
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

from paramiko import Channel, Transport

from loadbook.core import clock
from loadbook.core.errors import CommandError, HostError, HostTimeoutError, LostError, UnreachableError, UsageError
from loadbook.hosts import http, jobs
from loadbook.hosts.host import ClockOffset, CommandResult, Host, HttpResponse, Job, JobState
from loadbook.hosts.inventory import HostEntry, HostsFile, read_hosts
from loadbook.hosts.jobs import DEFAULT_LOCK_FILE, LockRequest
from loadbook.hosts.keys import Endpoint, resolve_endpoint
from loadbook.hosts.session import SshSession
from loadbook.hosts.shell import sh_join
from loadbook.hosts.ssh import map_ssh_errors
from loadbook.store.paths import check_name

CONTROL_TIMEOUT_S, CLOCK_PROBES = 15.0, 10
_MIN_PAUSE_S = 0.02
_CLOSED_MESSAGE = "the connection was closed by us"

T = TypeVar("T")

# seconds for which a host may be unreachable before it counts as lost
RECONNECT_TIMEOUT_S = 60.0
RECONNECT_PAUSE_S = 0.2
BUSY_TIMEOUT_S = 1.0


class RemoteHost(Host):
    """One host of a run over SSH; safe to use from several threads. `reconnects` counts lost connections.

    A lost connection is opened again at once, so that jobs survive; this is retried for RECONNECT_TIMEOUT_S seconds
    after the loss, and each later call makes one attempt. A call interrupted by the loss raises LostError if repeating
    it could do harm (run, script, put, remove, start); other calls are repeated.
    """

    live = True

    def __init__(self, endpoint: Endpoint, entry: HostEntry, run_id: str) -> None:
        self.alias, self.address, self.reconnects = endpoint.alias, entry.address or endpoint.host_name, 0
        # one folder per alias, since two aliases may be one machine; the session checks that our user owns it
        self.workdir = entry.workdir or f"/tmp/loadbook-{endpoint.user}-{endpoint.alias}"  # noqa: S108
        if not self.workdir.startswith("/"):
            raise HostError(self.alias, f"work folder {self.workdir!r} is not an absolute path")
        self.destination = endpoint.destination
        self._endpoint, self._cpus, self._name = endpoint, entry.cpus, f"{run_id}-{secrets.token_hex(6)}"
        self._session: SshSession | None = None
        self._closed = False
        self._lost_at: float | None = None
        self._machine = ""
        self._lock = threading.RLock()

    def open(self) -> None:
        """Connect, verify the host key and create `workdir`; a second call does nothing."""
        self._closed = False
        self._call_with_retry("connecting", lambda session: None)

    def reopen(self) -> None:
        """Close, which ends our jobs, and connect again; an unreachable host is retried until it counts as lost."""
        self.close()
        self._lost_at = self._lost_at or clock.monotonic()
        self.open()

    def close(self) -> None:
        """Close the connection; jobs with `ends_with_session` have ended when this returns.

        If another thread's call is in progress for BUSY_TIMEOUT_S seconds, it is cut off and the jobs end a bit later.
        """
        self._closed = True
        acquired = self._lock.acquire(timeout=BUSY_TIMEOUT_S)
        session, self._session = self._session, None
        try:
            if session:
                with suppress(HostError), map_ssh_errors(self.alias, "closing"):
                    session.close(graceful=acquired)
        finally:
            if acquired:
                self._lock.release()

    def abandon(self) -> None:
        """Drop the connection at once, from any thread; the host ends our jobs when it notices."""
        self._closed = True
        session, self._session = self._session, None
        if session:
            with suppress(HostError), map_ssh_errors(self.alias, "closing"):
                session.close(graceful=False)

    def _open_transport(self) -> Transport:
        with self._lock:
            return self._open_session().transport

    def _open_session(self) -> SshSession:
        if self._closed:
            raise HostError(self.alias, _CLOSED_MESSAGE)
        session = self._session
        if session is None or not session.alive:
            session = self._connect()
        self._lost_at = None
        return session

    def _connect(self) -> SshSession:
        lost = self._session
        if lost:
            self._mark_lost(lost)
        is_new, machine = lost is None, self._machine
        session = SshSession(self._endpoint, self._name, self.workdir, self._cpus, fresh=is_new, machine=machine)
        if self._closed:  # closed by another thread in the meantime
            session.close(graceful=False)
            raise HostError(self.alias, _CLOSED_MESSAGE)
        self._session, self._machine = session, session.machine_id
        self.reconnects += self._lost_at is not None
        threading.Thread(target=self._reconnect_when_lost, args=(session,), name="loadbook-follow", daemon=True).start()
        return session

    def _mark_lost(self, session: SshSession) -> None:
        self._lost_at = self._lost_at or clock.monotonic()
        session.close(graceful=False)

    def _reconnect_when_lost(self, session: SshSession) -> None:
        """Wait until the connection is lost and reopen it at once, before the host ends our jobs."""
        session.transport.join()
        with self._lock:
            if self._session is not session or self._closed:
                return
            self._mark_lost(session)
        with suppress(HostError):
            self._call_with_retry("connecting again", lambda session: None)

    def _call_once(self, action: str, call: Callable[[SshSession], T]) -> T:
        """Make a call once, without a retry if the connection is lost."""
        with self._lock, map_ssh_errors(self.alias, action):
            return call(self._open_session())

    def _call_with_retry(self, action: str, call: Callable[[SshSession], T]) -> T:
        """Make a call that may be repeated; on connection loss, retry on a new one until the host counts as lost."""
        while True:
            try:
                return self._call_once(action, call)
            except (LostError, UnreachableError):
                if self._closed:
                    raise
                if self._session is not None:  # there was a connection, whose loss may not have been noticed until now
                    self._lost_at = self._lost_at or clock.monotonic()
                if self._lost_at is None or clock.monotonic() >= self._lost_at + RECONNECT_TIMEOUT_S:
                    raise
                clock.sleep(RECONNECT_PAUSE_S)

    def _ask(self, action: str, command: str, timeout_s: float) -> CommandResult:
        """Run quoted shell text that may be repeated after a reconnect, and return its result."""
        return self._call_with_retry(action, lambda session: session.call(command, timeout_s=timeout_s))

    def token(self, name: str) -> str:
        """Return a random hexadecimal token, which a replay can return again by `name`."""
        return secrets.token_hex(6)

    def absolute_path(self, path: str) -> str:
        """Return an absolute path; relative ones start at `workdir`. HostError for unprintable characters."""
        if "\0" in path or not path.isprintable():
            raise HostError(self.alias, f"{path!r} is not a path that loadbook uses")
        return str(PurePosixPath(self.workdir, path))

    def run(self, argv: Sequence[str], *, timeout_s: float, check: bool = False) -> CommandResult:
        """Run a short control command in `workdir`; with `check`, an exit code other than 0 raises CommandError."""
        try:
            command = f"exec {sh_join(argv)}"
        except ValueError as error:
            raise HostError(self.alias, str(error)) from error
        command_text = shlex.join(argv)[:200]
        done = self._call_once(command_text, lambda s: s.call(command, timeout_s=timeout_s))
        if check and done.rc:
            output = _output_end(done.stderr or done.stdout)
            raise CommandError(self.alias, f"{command_text}: exit code {done.rc}\n{output}")
        return done

    def script(self, text: str, args: Sequence[str] = (), *, timeout_s: float, check: bool = False) -> CommandResult:
        """Run a POSIX sh script in `workdir`, with `args` as $1, $2, ...; `check` is that of `run`."""
        return self.run(["/bin/sh", "-c", text, "sh", *args], timeout_s=timeout_s, check=check)

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file atomically, creating its folders; relative paths start at `workdir`."""
        target = self.absolute_path(path)

        def write(session: SshSession) -> None:
            try:
                session.files.put(target, data, mode)
            except FileNotFoundError:
                session.files.make_folders(str(PurePosixPath(target).parent))
                session.files.put(target, data, mode)

        self._call_once(f"writing {target}", write)

    def get(self, path: str, *, max_bytes: int) -> bytes:
        """Read a file (relative paths start at `workdir`); one larger than `max_bytes` raises HostError."""
        return self._call_with_retry(f"reading {path}", lambda s: s.files.get(self.absolute_path(path), max_bytes))

    def fetch(self, path: str, local: Path, *, max_bytes: int) -> str:
        """Copy a file byte for byte to a new local file, and return its sha256 (hex), checked against the host's.

        Of a file larger than `max_bytes`, only the first `max_bytes` bytes are copied, and OversizeError is raised.
        """
        local.parent.mkdir(parents=True, exist_ok=True)
        source = self.absolute_path(path)
        return self._call_with_retry(f"fetching {path}", lambda s: s.files.fetch(source, local, max_bytes))

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""
        return self._call_with_retry(f"looking for {path}", lambda s: s.files.exists(self.absolute_path(path)))

    def remove(self, path: str) -> None:
        """Remove a file or folder below `workdir`; a path outside it raises HostError."""
        target = PurePosixPath(self.absolute_path(path))
        if ".." in target.parts or PurePosixPath(self.workdir) not in target.parents:
            raise HostError(self.alias, f"refuses to remove {target}: not below {self.workdir}")
        self.run(["rm", "-rf", str(target)], timeout_s=CONTROL_TIMEOUT_S, check=True)

    def start(self, job: Job) -> int:
        """Start a detached job and return the process id of its leader; HostError if its name was used before."""
        folder = jobs.job_folder(job.name)
        try:
            prepare = jobs.prepare_text(job, self._name)
        except ValueError as error:
            raise HostError(self.alias, f"job {job.name}: {error}") from error
        launch = jobs.launch_text(job)
        if job.files:
            self._check_started(job, self.script(prepare, timeout_s=CONTROL_TIMEOUT_S))
            for name, data in job.files.items():
                self.put(f"{folder}/{name}", data)
            prepare = ":"
        return int(self._check_started(job, self.script(f"{prepare}\n{launch}", timeout_s=CONTROL_TIMEOUT_S)).stdout)

    def _check_started(self, job: Job, done: CommandResult) -> CommandResult:
        if done.rc == jobs.NAME_TAKEN_RC:
            raise HostError(self.alias, f"there is already a job {job.name}", "job names are used once in a run")
        if done.rc:
            raise CommandError(self.alias, f"job {job.name} could not be started: {_output_end(done.stderr)}")
        return done

    def state(self, name: str) -> JobState:
        """Return the state of a job from its files on the host."""
        command = jobs.script_command("state", jobs.job_folder(name))
        return jobs.parse_state(self._ask(f"state of {name}", command, CONTROL_TIMEOUT_S).stdout)

    def wait(self, name: str, *, timeout_s: float, expect_s: float | None = None) -> int:
        """Wait for a job's end and return its exit code; LostError if it ended without one.

        Until shortly before `expect_s` seconds the host is polled only about once a second (one SFTP stat), so that
        polling does not disturb the measurement.
        """
        started = clock.monotonic()
        rc_path = f"{jobs.job_folder(name)}/rc"
        polls = 0
        while not self.exists(rc_path):
            polls += 1
            waited = clock.monotonic() - started
            if waited > timeout_s:
                raise HostTimeoutError(self.alias, f"job {name} did not end within {timeout_s:g} s")
            if polls % 20 == 0:
                state = self.state(name)
                if not state.running and state.rc is None:
                    raise LostError(self.alias, f"job {name} ended without an exit code", "was the host restarted?")
            clock.sleep(min(_pause_s(waited, expect_s), max(0.0, timeout_s - waited) + _MIN_PAUSE_S))
        return int(self.get(rc_path, max_bytes=20))

    def stop(self, name: str, *, grace_s: float = 5.0) -> None:
        """End a job's process group with TERM, and with KILL after `grace_s` seconds; no error if it already ended."""
        command = jobs.script_command("end", jobs.job_folder(name), str(max(0, round(grace_s))))
        self._ask(f"stopping {name}", command, grace_s + CONTROL_TIMEOUT_S)

    def http_get(self, address: str, port: int, path: str, *, timeout_s: float, scheme: str = "http") -> HttpResponse:
        """Send a GET request through the host's own network (an SSH channel); needs nothing installed there."""
        url = http.HttpUrl(scheme, address, port, path)
        channel = http.open_channel(self.alias, self._open_transport(), url, timeout_s)
        return http.request_over_channel(self.alias, channel, url, timeout_s)

    def connect(self, port: int, *, timeout_s: float) -> Channel:
        """Open a TCP connection from the host to one of its own ports; it stays open until it is closed."""
        return http.open_channel(
            self.alias, self._open_transport(), http.HttpUrl("tcp", "127.0.0.1", port, ""), timeout_s
        )

    def can_forward(self) -> bool:
        """Return whether sshd allows connections from the host, which `http_get` and `connect` need."""
        transport = self._open_transport()
        try:
            http.open_channel(self.alias, transport, http.HttpUrl("tcp", "127.0.0.1", 1, ""), CONTROL_TIMEOUT_S).close()
        except UnreachableError:  # sshd tried to connect, so it allows it; nothing listens on port 1
            return True
        except HostError:
            return False
        return True

    def clock(self) -> ClockOffset:
        """Measure host clock minus controller clock, in seconds, by the probe with the shortest round trip."""
        probes = []
        for _ in range(CLOCK_PROBES):
            before = clock.now()
            answer = self._ask("reading its clock", "exec date +%s.%N", CONTROL_TIMEOUT_S)
            after = clock.now()
            whole_s, _, fraction = answer.text.strip().partition(".")
            coarse = not fraction.isdigit()  # busybox date prints whole seconds only: half a second off on average
            host_time = int(whole_s) + (0.5 if coarse else float(f"0.{fraction}"))
            probes.append(ClockOffset(host_time - (before + after) / 2, after - before + (1.0 if coarse else 0.0)))
        return min(probes, key=lambda probe: probe.rtt_s)


def _pause_s(waited_s: float, expect_s: float | None) -> float:
    """Return the seconds until the next poll of a job: short at its start and near its expected end."""
    if expect_s is None:
        return min(0.25, max(_MIN_PAUSE_S, waited_s / 20))
    remaining_s = expect_s - waited_s
    if remaining_s > _MIN_PAUSE_S:
        return min(1.0, max(_MIN_PAUSE_S, remaining_s - _MIN_PAUSE_S))
    return min(0.25, max(_MIN_PAUSE_S, -remaining_s / 5))


def _output_end(output: bytes, limit: int = 2000) -> str:
    return output[-limit:].decode("utf-8", "replace").rstrip()


def connect(
    hosts_path: Path,
    alias: str,
    run_id: str = "adhoc",
    *,
    hosts: HostsFile | None = None,
    lock_request: LockRequest | None = None,
) -> RemoteHost:
    """Connect to the host `alias` of a hosts file and return it; `lock_request` locks it against other runs.

    `hosts` is the file's content if already read; without `lock_request`, no lock is taken. Jobs started through the
    host end when it is closed, or a few seconds after this process died.
    """
    remote = remote_host(hosts_path, alias, run_id, hosts=hosts, lock_request=lock_request)
    remote.open()
    return remote


def remote_host(
    hosts_path: Path,
    alias: str,
    run_id: str = "adhoc",
    *,
    hosts: HostsFile | None = None,
    lock_request: LockRequest | None = None,
) -> RemoteHost:
    """Return the host `alias` of a hosts file without connecting; `hosts` is the file's content if already read."""
    hosts_file = hosts or read_hosts(hosts_path)
    if alias not in hosts_file.hosts:
        raise UsageError(f"{hosts_path} has no host {alias!r}", f"hosts: {', '.join(hosts_file.hosts)}")
    entry = hosts_file.hosts[alias]
    endpoint = resolve_endpoint(alias, entry, known_hosts_path(hosts_path, hosts_file))
    if lock_request:
        lock_request = replace(lock_request, lock_file=entry.lock or DEFAULT_LOCK_FILE)
        endpoint = replace(endpoint, lock_request=lock_request)
    return RemoteHost(endpoint, entry, check_name("run", run_id))


def known_hosts_path(hosts_path: Path, hosts: HostsFile) -> Path:
    """Return the path of loadbook's file of trusted keys: `known_hosts` of the hosts file, by default beside it."""
    return hosts_path.absolute().parent / (hosts.known_hosts or "known_hosts")
