"""An SSH session: one open connection with a shell, file transfer by SFTP, and a dead-man switch.

The dead-man switch is a process on the host that ends our jobs when the controller is gone. Files are written whole or
not at all, and every transfer is checked by sha256.
"""

from __future__ import annotations

import hashlib
import io
import re
import shlex
import stat
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath

from fabric import Connection
from paramiko import Channel, ChannelException, SFTPClient
from paramiko.ssh_exception import SSHException

from loadbook.core import clock
from loadbook.core.errors import HostError, HostTimeoutError, OtherMachineError, OversizeError
from loadbook.hosts.host import CommandResult
from loadbook.hosts.jobs import launcher_script, lock_error, parse_owners, script_command
from loadbook.hosts.keys import Endpoint
from loadbook.hosts.shell import SHELL_TIMEOUT_S, Shell, StartFileError, sh_join
from loadbook.hosts.ssh import RESPONSE_TIMEOUT_S, close_connection, map_ssh_errors, open_connection
from loadbook.store.atomic import atomic_path, explain_disk_full

SHUTDOWN_TIMEOUT_S = 8.0
CHANNEL_RETRY_S = 0.5
# the host ends our jobs after SESSION_LEASE_S without a heartbeat; it must be longer than RECONNECT_TIMEOUT_S
SESSION_LEASE_S, HEARTBEAT_S = 120, 15.0
# seconds to wait for a lock whose owner is about to release it
HOST_LOCK_TIMEOUT_S = 20.0
START_FILE_HINT = "begin that host's ~/.bashrc with: case $- in *i*) ;; *) return ;; esac (in others: read </dev/null)"
SFTP_HINT = "add `Subsystem sftp internal-sftp` to its sshd_config (of Dropbear: install sftp-server), and restart it"
_FOREIGN_WORKDIR_RC, _OTHER_MACHINE_RC = 3, 4


class SshSession:
    """A connection with its shell, SFTP and dead-man switch (see the module).

    `name` is the name of the session's folder, kept after a reconnect; the shell is bound to `cpus` (None: to none).
    With `fresh`, jobs left by dead controllers are ended first, and those of an earlier session of this name that
    could not be ended while the host was unreachable; a resumed session leaves all jobs running. `machine` is the
    expected id of the machine; "" if it is not known yet.
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
        shells = [Shell(self._channel()) for _ in range(2)]  # so that both run their login files at the same time
        self._shell = self._prepare_shell(shells[0])
        self.files = SftpFiles(self._endpoint.alias, self.connection, self._sha256, self.workdir)
        name, text = launcher_script()
        script = f"{self.workdir}/{name}"
        if not self.files.exists(script):
            self.files.make_folders(f"{self.workdir}/bin")
            self.files.put(script, text, 0o755)
        if fresh:
            self.call(script_command("sweep", self.name), timeout_s=SHELL_TIMEOUT_S)
        self._prepare_shell(shells[1])
        self._evict_owners()
        lock_args = self._endpoint.lock_request.script_args() if self._endpoint.lock_request else []
        watch_args = ["/bin/sh", script, "watch", self.name, str(SESSION_LEASE_S), *lock_args]
        self._dead_man_switch = DeadManSwitch(self._endpoint.alias, shells[1].channel, watch_args)
        self._dead_man_switch.send_line(f"shell {self._shell.pid}")

    def _evict_owners(self) -> None:
        """End the sessions of lock owners that the user named (--break-lock) or whose process is known to be dead."""
        request = self._endpoint.lock_request
        if request is None:
            return
        listed = self.call(script_command("owners", request.lock_file), timeout_s=SHELL_TIMEOUT_S)
        for owner in parse_owners(listed.stdout):
            if owner.id == request.evict_id or (owner.id != request.id and owner.is_dead):
                self.call(script_command("evict", request.lock_file, owner.id), timeout_s=SHELL_TIMEOUT_S)

    def _channel(self) -> Channel:
        """Open a channel; retry once if sshd refuses, because sshd may still count a channel that was just closed."""
        try:
            return self.transport.open_session()
        except ChannelException:
            clock.sleep(CHANNEL_RETRY_S)
            return self.transport.open_session()

    def _prepare_shell(self, shell: Shell) -> Shell:
        alias = self._endpoint.alias
        try:
            allowed = shell.prepare(self._cpus)
        except (StartFileError, TimeoutError) as failure:
            problem = (
                "the shell of the login did not run its first command: a start file, such as ~/.bashrc, may read it"
            )
            kind = HostTimeoutError if isinstance(failure, TimeoutError) else HostError
            raise kind(alias, problem, START_FILE_HINT) from failure
        if self._cpus and allowed != set(self._cpus):
            problem = f"cannot keep to CPUs {list(self._cpus)}: may use {sorted(allowed)}"
            hint = "taskset (apt install util-linux) must be there, and `cpus` in the hosts file name CPUs that are"
            raise HostError(alias, problem, hint)
        folder_arg = shlex.quote(self.workdir)
        # follow a symbolic link only if our user owns it: another user could point it at any folder of ours
        own_link_test = f'{{ [ ! -L {folder_arg} ] || [ "$(stat -c %u {folder_arg})" = "$(id -u)" ]; }}'
        own_test = f"{{ {own_link_test} && [ -O . ] || (exit {_FOREIGN_WORKDIR_RC}); }}"
        text = f'mkdir -p -m 700 {folder_arg} && cd {folder_arg} && {own_test} && echo "$machine"'
        # after a reconnect, the machine must have the same id as before, if both ids are known
        known_id = shlex.quote(self.machine_id)
        same = f'[ -z {known_id} ] || [ -z "$machine" ] || [ "$machine" = {known_id} ]'
        machine_test = f"{{ {same} || (exit {_OTHER_MACHINE_RC}); }}"
        text = f"machine=$(cat /etc/machine-id 2>/dev/null)\n{machine_test} && {text}"
        if self._endpoint.state_folder:
            text = f"export LOADBOOK_STATE={shlex.quote(self._endpoint.state_folder)}\n{text}"
        prepared = shell.call(text, timeout_s=SHELL_TIMEOUT_S)
        if prepared.rc == _OTHER_MACHINE_RC:
            reason = "another machine answers under its name: its machine id is not that of the machine before"
            raise OtherMachineError(alias, reason, "was it replaced? A new run begins on it: --new")
        if prepared.rc == _FOREIGN_WORKDIR_RC:
            raise HostError(alias, f"{self.workdir} belongs to another user", "set `workdir` for this host")
        if prepared.rc:
            error = prepared.stderr.decode(errors="replace").strip()
            raise HostError(alias, f"work folder {self.workdir}: {error}", "set `workdir` for this host")
        self.machine_id = prepared.text.strip()
        return shell

    def _sha256(self, path: str, first_bytes: int, in_workdir: bool) -> str:
        """Return the sha256 (hex) of a file's first bytes, calculated on the host; "" if there is none.

        The file is opened once, so that a file put in its place in the meantime is not hashed.
        """
        take = "" if first_bytes < 0 else f"head -c {first_bytes} | "
        path_below = shlex.quote(path.removeprefix(self.workdir))
        path_test = f'[ "$(readlink /proc/self/fd/0)" = "$(pwd -P)"{path_below} ] && ' if in_workdir else ""
        text = f"exec <{shlex.quote(path)} && {path_test}{take}sha256sum"
        with map_ssh_errors(self._endpoint.alias, f"sha256sum {path}"):
            done = self.call(text, timeout_s=60)
        return done.stdout.decode("ascii", "replace").removeprefix("\\").split(" ")[0]

    @property
    def alive(self) -> bool:
        """Return whether commands can still be sent."""
        return self.transport.is_active() and self._dead_man_switch.alive

    def call(self, command: str, *, timeout_s: float) -> CommandResult:
        """Run quoted shell text in a subshell of the persistent shell and return exit code and output.

        After `timeout_s` its process group is killed and HostTimeoutError raised; the next call starts a new shell.
        """
        if not self._shell.alive and self.transport.is_active():
            self._shell = self._prepare_shell(Shell(self._channel()))
            self._dead_man_switch.send_line(f"shell {self._shell.pid}")
        try:
            return self._shell.call(f"( {command}\n) </dev/null", timeout_s=timeout_s)
        except TimeoutError:
            self._dead_man_switch.send_line(f"kill {self._shell.pid}")
            self._shell.close()
            problem = f"command took longer than {timeout_s:g} s: {command[:200]}"
            raise HostTimeoutError(self._endpoint.alias, problem) from None

    def close(self, *, graceful: bool) -> None:
        """Close the connection; with `graceful`, wait up to SHUTDOWN_TIMEOUT_S until the host has ended our jobs."""
        try:
            if graceful and self.alive:
                self._dead_man_switch.shut_down()
        finally:
            close_connection(self.connection)


class DeadManSwitch:
    """The process `job.sh watch` on the host, which ends our jobs when its input (our channel) ends.

    `args` is its command line, which replaces the shell on `channel`; HostError if a requested lock is not acquired.
    If the network fails, the input does not end; so a heartbeat is sent every HEARTBEAT_S seconds, too.
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
            while not clock.wait(self._channel.status_event, HEARTBEAT_S) and self.alive:
                self.send_line("alive")

    @property
    def alive(self) -> bool:
        """Return whether the switch is still connected to the process on the host."""
        return not (self._channel.closed or self._channel.eof_received)

    def send_line(self, line: str) -> None:
        """Send one command to the process on the host: "alive", "shell PID", "kill PID" or "bye"."""
        self._channel.sendall(f"{line}\n".encode())

    def shut_down(self) -> None:
        """Make the host end the session's jobs now, and wait for their end up to SHUTDOWN_TIMEOUT_S seconds."""
        self.send_line("bye")
        # the process closes its output before it ends
        clock.wait_until(lambda: self._channel.status_event.is_set() and not self.alive, SHUTDOWN_TIMEOUT_S)


_BLOCK_BYTES = 1 << 15  # most bytes in one SFTP answer
_BLOCKS_IN_FLIGHT = 128  # blocks that are requested at the same time


def _open_sftp(alias: str, connection: Connection) -> SFTPClient:
    """Return an SFTP client; HostError that names the setting if the server has no SFTP, or one that ends at once."""
    try:
        return connection.sftp()
    except ChannelException:  # too few sessions, which does not depend on SFTP
        raise
    except (SSHException, EOFError) as error:
        if not connection.transport.is_active():
            raise
        problem = f"its SSH server offers no SFTP, by which files are copied ({error or 'it ended at once'})"
        raise HostError(alias, problem, SFTP_HINT) from error


class SftpFiles:
    """SFTP on one connection; paths are absolute, and fetched files must be below `workdir`.

    `sha256` (path, number of bytes, in_workdir) returns the digest (hex) that the host calculates of a file's first
    bytes (-1: all), "" if there is none; with in_workdir, the path must lead into `workdir` without any link.
    """

    def __init__(
        self, alias: str, connection: Connection, sha256: Callable[[str, int, bool], str], workdir: str
    ) -> None:
        self._sftp = _open_sftp(alias, connection)
        channel = self._sftp.get_channel()
        assert channel is not None
        channel.settimeout(RESPONSE_TIMEOUT_S)
        self._alias, self._sha256, self._workdir = alias, sha256, workdir

    def put(self, path: str, data: bytes, mode: int) -> None:
        """Write `data` to a temporary file beside `path`, check its size and sha256, and rename it to `path`.

        Fabric's `Connection.put` would ask for two more answers for each file, which counts on distant hosts.
        """
        part = f"{path}.{uuid.uuid4().hex[:12]}.part"
        try:
            self._sftp.putfo(io.BytesIO(data), part, confirm=False)
            if (arrived := self._sftp.stat(part).st_size) != len(data):
                raise HostError(self._alias, f"{part}: {arrived} of {len(data)} bytes arrived", "is its disk full?")
            if self._sha256(part, -1, False) != hashlib.sha256(data).hexdigest():
                raise HostError(self._alias, f"{part}: other bytes arrived than were sent")
            self._sftp.chmod(part, mode)
            self._sftp.posix_rename(part, path)
        except BaseException:
            with suppress(OSError, EOFError):
                self._sftp.remove(part)
            raise

    def get(self, path: str, max_bytes: int) -> bytes:
        """Return the content of a file; HostError if it is larger than `max_bytes`."""
        with self._sftp.open(path, "rb") as handle:
            data: bytes = handle.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise HostError(self._alias, f"{path} is larger than the {max_bytes} bytes allowed")
        return data

    def fetch(self, path: str, local: Path, max_bytes: int) -> str:
        """Copy a file to `local`, which appears by rename; return its sha256, checked against the host's.

        OversizeError if the file is larger than `max_bytes`: `local` then holds its first `max_bytes` bytes. HostError
        if it is not a regular file: links are not followed, as they may lead to files of others.
        """
        attributes = self._sftp.lstat(path)
        real_path = f"{self._real_workdir}{path.removeprefix(self._workdir)}"
        if not stat.S_ISREG(attributes.st_mode or 0) or self._sftp.normalize(path) != real_path:
            problem = f"{path} is not a plain file of ours: not fetched"
            raise HostError(self._alias, problem, "who else writes in that folder?")
        size = attributes.st_size or 0
        copied_size = min(size, max_bytes)
        with atomic_path(local, copied_size) as part:
            digest = self._copy(path, part, copied_size)
            if self._sha256(path, -1 if copied_size == size else copied_size, True) != digest:
                raise HostError(self._alias, f"{path} changed while it was fetched", "fetch a job's files after its rc")
        if copied_size < size:
            raise OversizeError(self._alias, path, size, copied_size)
        return digest

    @cached_property
    def _real_workdir(self) -> str:
        return str(self._sftp.normalize(self._workdir)).rstrip("/")

    def _copy(self, path: str, part: Path, size: int) -> str:
        """Copy the first `size` bytes, with few requests at a time to limit memory; return the sha256 (hex)."""
        digest = hashlib.sha256()
        missing_bytes = size
        with self._sftp.open(path, "rb") as remote, part.open("xb") as local:
            for start in range(0, size, _BLOCK_BYTES * _BLOCKS_IN_FLIGHT):
                block_starts = range(start, min(size, start + _BLOCK_BYTES * _BLOCKS_IN_FLIGHT), _BLOCK_BYTES)
                for block in remote.readv([(offset, min(_BLOCK_BYTES, size - offset)) for offset in block_starts]):
                    missing_bytes -= len(block)
                    digest.update(block)
                    with explain_disk_full(part, size):
                        local.write(block)
        if missing_bytes:
            raise HostError(self._alias, f"{path}: {size - missing_bytes} of {size} bytes arrived")
        return digest.hexdigest()

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""
        try:
            self._sftp.stat(path)
        except FileNotFoundError:
            return False
        return True

    def make_folders(self, path: str) -> None:
        """Make a folder and all missing folders above it."""
        missing = []
        folder = PurePosixPath(path)
        while not self.exists(str(folder)):
            missing.append(str(folder))
            folder = folder.parent
        for name in reversed(missing):
            self._sftp.mkdir(name)
