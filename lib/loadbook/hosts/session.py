"""SSH sessions: one open connection with its shell and files, and a session that reconnects when it is lost.

A dead-man switch on the host ends our jobs when the controller is gone.
"""

from __future__ import annotations

import re
import shlex
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from paramiko import Channel, ChannelException
from paramiko.ssh_exception import SSHException

from loadbook.core.errors import HostError, HostTimeoutError, LostError, OtherMachineError, UnreachableError
from loadbook.hosts.files import SftpFiles
from loadbook.hosts.host import CommandResult
from loadbook.hosts.jobs import launcher_script
from loadbook.hosts.keys import Endpoint
from loadbook.hosts.lock import lock_command, lock_error, parse_owners
from loadbook.hosts.shell import SHELL_TIMEOUT_S, Shell, sh_join
from loadbook.hosts.ssh import RESPONSE_TIMEOUT_S, close_connection, map_ssh_errors, open_connection

SHUTDOWN_TIMEOUT_S = 8.0
CHANNEL_RETRY_S = 0.5
# a host ends the session of a controller that was silent for SESSION_LEASE_S, which is more than RECONNECT_TIMEOUT_S
SESSION_LEASE_S, HEARTBEAT_S = 120, 15.0
# an owner of the lock that is about to end is waited for
HOST_LOCK_TIMEOUT_S = 20.0
_FOREIGN_WORKDIR_RC, _OTHER_MACHINE_RC = 3, 4


class SshSession:
    """A connection with everything on it. `name` is that of the session's folder, the same after a reconnect.

    With `fresh`, jobs whose controller died are ended first, and those of an earlier session of this name, which could
    not be ended while the host was out of reach; a resumed session touches no job. `machine` is the id that the
    machine must have; "": not known.
    """

    def __init__(
        self, endpoint: Endpoint, name: str, workdir: str, cpus: Sequence[int] | None, *, fresh: bool, machine: str = ""
    ) -> None:
        self._endpoint, self.name, self.workdir, self._cpus, self.machine_id = endpoint, name, workdir, cpus, machine
        self.connection = open_connection(endpoint)
        self.transport = self.connection.transport
        try:
            with map_ssh_errors(endpoint.alias, "opening a session"):
                self._open(fresh)
        except BaseException:
            close_connection(self.connection)
            raise

    def _open(self, fresh: bool) -> None:
        shells = [Shell(self._channel()) for _ in range(2)]  # both run their login files at once
        self._shell = self._prepare_shell(shells[0])
        self.files = SftpFiles(self._endpoint.alias, self.transport, self._sha256, self.workdir)
        self.script = f"{self.workdir}/{self._install_launcher()}"
        if fresh:
            self.call(sh_join(["/bin/sh", self.script, "sweep", self.name]), timeout_s=SHELL_TIMEOUT_S)
        self._prepare_shell(shells[1])
        self._evict_owners()
        self._dead_man_switch = DeadManSwitch(self._endpoint.alias, shells[1].channel, self._watch_args())
        self._dead_man_switch.send_line(f"shell {self._shell.pid}")

    def _watch_args(self) -> list[str]:
        lock = self._endpoint.lock_request.script_args() if self._endpoint.lock_request else []
        return ["/bin/sh", self.script, "watch", self.name, str(SESSION_LEASE_S), *lock]

    def _evict_owners(self) -> None:
        """End an owner of the lock that the user named, or whose process is known to be dead."""
        claim = self._endpoint.lock_request
        if claim is None:
            return
        listed = self.call(lock_command(self.script, "owners", claim.lock_file), timeout_s=SHELL_TIMEOUT_S)
        for owner in parse_owners(listed.stdout):
            if owner.id == claim.evict_id or (owner.id != claim.id and owner.is_dead):
                self.call(lock_command(self.script, "evict", claim.lock_file, owner.id), timeout_s=SHELL_TIMEOUT_S)

    def _channel(self) -> Channel:
        """Open a channel, once more if sshd refuses: one that was closed just now may still count for it."""
        try:
            return self.transport.open_session()
        except ChannelException:
            time.sleep(CHANNEL_RETRY_S)
            return self.transport.open_session()

    def _prepare_shell(self, shell: Shell) -> Shell:
        allowed = shell.prepare(self._cpus)
        if self._cpus and allowed != set(self._cpus):
            raise HostError(
                self._endpoint.alias, f"cannot keep to CPUs {list(self._cpus)}: may use {sorted(allowed)}",
                "taskset (apt install util-linux) must be there, and `cpus` in the hosts file name CPUs that are",
            )  # fmt: skip
        folder_arg = shlex.quote(self.workdir)
        # a link is followed only where it is our own: another user could turn it to any folder of ours
        own_link_test = f'{{ [ ! -L {folder_arg} ] || [ "$(stat -c %u {folder_arg})" = "$(id -u)" ]; }}'
        own_test = f"{{ {own_link_test} && [ -O . ] || (exit {_FOREIGN_WORKDIR_RC}); }}"
        text = f'mkdir -p -m 700 {folder_arg} && cd {folder_arg} && {own_test} && echo "$machine"'
        text = f"machine=$(cat /etc/machine-id 2>/dev/null)\n{self._same_machine_test()} && {text}"
        if self._endpoint.state_folder:
            text = f"export LOADBOOK_STATE={shlex.quote(self._endpoint.state_folder)}\n{text}"
        prepared = shell.call(text, timeout_s=SHELL_TIMEOUT_S)
        if prepared.rc == _OTHER_MACHINE_RC:
            reason = "another machine answers under its name: its machine id is not that of the machine before"
            raise OtherMachineError(self._endpoint.alias, reason, "was it replaced? A new run begins on it: --new")
        if prepared.rc == _FOREIGN_WORKDIR_RC:
            raise HostError(
                self._endpoint.alias, f"{self.workdir} belongs to another user", "set `workdir` for this host"
            )
        if prepared.rc:
            error = prepared.stderr.decode(errors="replace").strip()
            raise HostError(self._endpoint.alias, f"work folder {self.workdir}: {error}", "set `workdir` for this host")
        self.machine_id = prepared.stdout.decode(errors="replace").strip()
        return shell

    def _same_machine_test(self) -> str:
        """Return shell text that fails on another machine than that of before, where both have an id."""
        known_id = shlex.quote(self.machine_id)
        same = f'[ -z {known_id} ] || [ -z "$machine" ] || [ "$machine" = {known_id} ]'
        return f"{{ {same} || (exit {_OTHER_MACHINE_RC}); }}"

    def _install_launcher(self) -> str:
        name, text = launcher_script()
        path = f"{self.workdir}/{name}"
        if not self.files.exists(path):
            self.files.make_folders(f"{self.workdir}/bin")
            self.files.put(path, text, 0o755)
        return name

    def _sha256(self, path: str, first_bytes: int | None = None, *, in_workdir: bool = False) -> str:
        """Return a file's digest; with `in_workdir` that of a file below the work folder itself, nothing for a link's.

        What is hashed is the file that was opened, whatever has taken its place since.
        """
        take = "" if first_bytes is None else f"head -c {first_bytes} | "
        path_below = shlex.quote(path.removeprefix(self.workdir))
        path_test = f'[ "$(readlink /proc/self/fd/0)" = "$(pwd -P)"{path_below} ] && ' if in_workdir else ""
        text = f"exec <{shlex.quote(path)} && {path_test}{take}sha256sum"
        with map_ssh_errors(self._endpoint.alias, f"sha256sum {path}"):
            done = self.call(text, timeout_s=60)
        return done.stdout.decode("ascii", "replace").removeprefix("\\").split(" ")[0]

    @property
    def alive(self) -> bool:
        """Tell whether commands can still be sent."""
        return self.transport.is_active() and self._dead_man_switch.alive

    def call(self, command: str, *, timeout_s: float, stdin: str = "/dev/null") -> CommandResult:
        """Run quoted shell text in a subshell of the persistent shell; one that overstays is killed with its group."""
        if not self._shell.alive and self.transport.is_active():
            self._replace_shell()
        try:
            return self._shell.call(f"( {command}\n) <{shlex.quote(stdin)}", timeout_s=timeout_s)
        except TimeoutError:
            self._dead_man_switch.send_line(f"kill {self._shell.pid}")
            self._shell.close()
            raise HostTimeoutError(
                self._endpoint.alias, f"command took longer than {timeout_s:g} s: {command[:200]}"
            ) from None

    def _replace_shell(self) -> None:
        self._shell = self._prepare_shell(Shell(self._channel()))
        self._dead_man_switch.send_line(f"shell {self._shell.pid}")

    def close(self, *, graceful: bool) -> None:
        """Close the connection; with `graceful`, wait up to SHUTDOWN_TIMEOUT_S until the host has ended our jobs."""
        try:
            if graceful and self.alive:
                self._dead_man_switch.shut_down()
        finally:
            close_connection(self.connection)


class DeadManSwitch:
    """`job.sh watch` on the host, connected to our channel: it reads end of file when the controller dies.

    A network may die without one, so we say every HEARTBEAT_S seconds that we live.
    """

    def __init__(self, alias: str, channel: Channel, args: Sequence[str]) -> None:
        self._channel = channel
        channel.settimeout(HOST_LOCK_TIMEOUT_S)
        channel.sendall(f"exec {sh_join(args)}\n".encode())
        answer = b""
        while not re.search(rb"watching \d+\n", answer):
            data = channel.recv(4096)
            if not data:
                raise lock_error(alias, answer[-1000:].decode(errors="replace"))
            answer += data
        channel.settimeout(RESPONSE_TIMEOUT_S)
        threading.Thread(target=self._send_heartbeats, name="loadbook-beat", daemon=True).start()

    def _send_heartbeats(self) -> None:
        with suppress(SSHException, OSError, EOFError):
            while not self._channel.status_event.wait(HEARTBEAT_S) and self.alive:
                self.send_line("alive")

    @property
    def alive(self) -> bool:
        """Tell whether the switch is armed."""
        return not (self._channel.closed or self._channel.eof_received)

    def send_line(self, line: str) -> None:
        """Send one command line."""
        self._channel.sendall(f"{line}\n".encode())

    def shut_down(self) -> None:
        """Have the session's jobs ended now, and wait for it."""
        self.send_line("bye")
        deadline = time.monotonic() + SHUTDOWN_TIMEOUT_S
        self._channel.status_event.wait(SHUTDOWN_TIMEOUT_S)
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.01)


# how long a host may be out of reach before it counts as lost
RECONNECT_TIMEOUT_S = 60.0
RECONNECT_PAUSE_S = 0.2
BUSY_TIMEOUT_S = 1.0

T = TypeVar("T")


class ReconnectingSession:
    """One session after the other to one host, one caller at a time; `reconnects` counts.

    A lost connection is reopened at once, so that jobs go on; this is retried for RECONNECT_TIMEOUT_S seconds from
    its loss. A later call makes one attempt.
    """

    def __init__(self, endpoint: Endpoint, workdir: str, cpus: Sequence[int] | None, name: str) -> None:
        self.alias, self.workdir, self.destination = endpoint.alias, workdir, endpoint.destination
        self.reconnects = 0
        if not workdir.startswith("/"):
            raise HostError(self.alias, f"work folder {workdir!r} is not an absolute path")
        self._endpoint, self._cpus, self._name = endpoint, cpus, name
        self._session: SshSession | None = None
        self._closed = False
        self._lost_at: float | None = None
        self._machine = ""
        self._lock = threading.RLock()

    def open(self) -> None:
        """Connect, prove the host key, create `workdir`; calling it again does nothing."""
        self._closed = False
        self._call_with_retry("connecting", lambda session: None)

    def reopen(self) -> None:
        """Close, which ends our jobs, and connect anew; a host out of reach is tried until it counts as lost."""
        self.close()
        self._lost_at = self._lost_at or time.monotonic()
        self.open()

    def close(self) -> None:
        """Close the connection; jobs that end with us have ended when this returns.

        A call of another thread is cut off after BUSY_TIMEOUT_S seconds, and the jobs end a little later.
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
        if self._closed:  # meanwhile, by another thread
            session.close(graceful=False)
            raise HostError(self.alias, _CLOSED_MESSAGE)
        self._session, self._machine = session, session.machine_id
        self.reconnects += self._lost_at is not None
        threading.Thread(target=self._reconnect_when_lost, args=(session,), name="loadbook-follow", daemon=True).start()
        return session

    def _mark_lost(self, session: SshSession) -> None:
        self._lost_at = self._lost_at or time.monotonic()
        session.close(graceful=False)

    def _reconnect_when_lost(self, session: SshSession) -> None:
        """Reopen a lost connection at once, because the host ends our jobs if we stay away."""
        session.transport.join()
        with self._lock:
            if self._session is not session or self._closed:
                return
            self._mark_lost(session)
        with suppress(HostError):
            self._call_with_retry("connecting again", lambda session: None)

    def _call_once(self, action: str, call: Callable[[SshSession], T]) -> T:
        """Make a call that must not be repeated."""
        with self._lock, map_ssh_errors(self.alias, action):
            return call(self._open_session())

    def _call_with_retry(self, action: str, call: Callable[[SshSession], T]) -> T:
        """Make a call that may be repeated, over new connections if necessary, until the host counts as lost."""
        while True:
            try:
                return self._call_once(action, call)
            except (LostError, UnreachableError):
                if self._closed or not self._may_reconnect():
                    raise
                time.sleep(RECONNECT_PAUSE_S)

    def _may_reconnect(self) -> bool:
        if self._session is not None:  # it was there once, and nobody may have noticed yet that it is gone
            self._lost_at = self._lost_at or time.monotonic()
        return self._lost_at is not None and time.monotonic() < self._lost_at + RECONNECT_TIMEOUT_S


_CLOSED_MESSAGE = "the connection was closed by us"
