"""One open connection to a host: its shell, its files, and the dead-man switch that ends our jobs when we are gone."""

from __future__ import annotations

import re
import shlex
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from paramiko import Channel, ChannelException
from paramiko.ssh_exception import SSHException

from loadbook.core.errors import HostError, HostTimeoutError, OtherMachineError
from loadbook.hosts.connection import RESPONSE_TIMEOUT_S, close_connection, open_connection, map_ssh_errors
from loadbook.hosts.files import SftpFiles
from loadbook.hosts.host import CommandResult
from loadbook.hosts.host_lock import lock_command, parse_owners, lock_error
from loadbook.hosts.jobs import launcher_script
from loadbook.hosts.shell import SHELL_TIMEOUT_S, Shell, sh_join
from loadbook.hosts.ssh_config import Endpoint

SHUTDOWN_TIMEOUT_S = 8.0
CHANNEL_RETRY_S = 0.5
# a host ends the session of a controller that it did not hear from for SESSION_LEASE_S; RECONNECT_TIMEOUT_S of link.py must fit in
SESSION_LEASE_S, HEARTBEAT_S = 120, 15.0
# an owner of the lock that is about to end is waited for
HOST_LOCK_TIMEOUT_S = 20.0
_FOREIGN_WORKDIR_RC, _OTHER_MACHINE_RC = 3, 4


class SshSession:
    """A connection with everything on it. `name` is that of the session's folder, the same after a reconnect.

    With `fresh`, jobs whose controller died are ended first, and those of an earlier session of this name, which could
    not be ended while the host was out of reach; a session that is resumed leaves all alone. `machine_id` is the id that
    the machine must have, where it is known.
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
        """End an owner of the machine's lock that the user named, or whose process died where we can see it."""
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
        text = f'mkdir -p -m 700 {folder_arg} && cd {folder_arg} && {{ [ -O . ] || (exit {_FOREIGN_WORKDIR_RC}); }} && echo "$machine"'
        text = f"machine=$(cat /etc/machine-id 2>/dev/null)\n{self._same_machine_test()} && {text}"
        if self._endpoint.state_folder:
            text = f"export LOADBOOK_STATE={shlex.quote(self._endpoint.state_folder)}\n{text}"
        prepared = shell.call(text, timeout_s=SHELL_TIMEOUT_S)
        if prepared.rc == _OTHER_MACHINE_RC:
            reason = "another machine answers under its name: its machine id is not that of the machine before"
            raise OtherMachineError(self._endpoint.alias, reason, "was it replaced? A new run begins on it: --new")
        if prepared.rc == _FOREIGN_WORKDIR_RC:
            raise HostError(self._endpoint.alias, f"{self.workdir} belongs to another user", "set `workdir` for this host")
        if prepared.rc:
            error = prepared.stderr.decode(errors="replace").strip()
            raise HostError(self._endpoint.alias, f"work folder {self.workdir}: {error}", "set `workdir` for this host")
        self.machine_id = prepared.stdout.decode(errors="replace").strip()
        return shell

    def _same_machine_test(self) -> str:
        """Return shell text that fails on another machine than that of before, where both have an id."""
        known_id = shlex.quote(self.machine_id)
        return f'{{ [ -z {known_id} ] || [ -z "$machine" ] || [ "$machine" = {known_id} ] || (exit {_OTHER_MACHINE_RC}); }}'

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
        """Close the connection; with `graceful`, wait until the host has ended our jobs (at most SHUTDOWN_TIMEOUT_S)."""
        try:
            if graceful and self.alive:
                self._dead_man_switch.shut_down()
        finally:
            close_connection(self.connection)


class DeadManSwitch:
    """`job.sh watch` on the host, holding the other end of our channel: our death is its end of file.

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
