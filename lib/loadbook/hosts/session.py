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
from loadbook.hosts.connection import ANSWER_S, close_connection, open_connection, talk_errors
from loadbook.hosts.files import Files
from loadbook.hosts.host import Completed
from loadbook.hosts.host_lock import ask_text, owners_in, refusal
from loadbook.hosts.jobs import launcher
from loadbook.hosts.shell import START_S, Shell, sh_join
from loadbook.hosts.ssh_config import Endpoint

FAREWELL_S = 8.0
RETRY_S = 0.5
# a host ends the session of a controller that it did not hear from for LEASE_S; RECONNECT_S of link.py must fit in
LEASE_S, BEAT_S = 120, 15.0
# an owner of the lock that is about to end is waited for
LOCK_S = 20.0
_FOREIGN, _OTHER = 3, 4


class Session:
    """A connection with everything on it. `name` is that of the session's folder, the same after a reconnect.

    With `fresh`, jobs whose controller died are ended first, and those of an earlier session of this name, which could
    not be ended while the host was out of reach; a session that is resumed leaves all alone. `machine` is the id that
    the machine must have, where it is known.
    """

    def __init__(
        self, end: Endpoint, name: str, workdir: str, cpus: Sequence[int] | None, *, fresh: bool, machine: str = ""
    ) -> None:
        self._end, self.name, self.workdir, self._cpus, self.machine = end, name, workdir, cpus, machine
        self.connection = open_connection(end)
        self.transport = self.connection.transport
        try:
            with talk_errors(end.alias, "opening a session"):
                self._open(fresh)
        except BaseException:
            close_connection(self.connection)
            raise

    def _open(self, fresh: bool) -> None:
        shells = [Shell(self._channel()) for _ in range(2)]  # both run their login files at once
        self._shell = self._ready(shells[0])
        self.files = Files(self._end.alias, self.transport, self._sha256, self.workdir)
        self.script = f"{self.workdir}/{self._install_launcher()}"
        if fresh:
            self.call(sh_join(["/bin/sh", self.script, "sweep", self.name]), timeout_s=START_S)
        self._ready(shells[1])
        self._make_room()
        self._watcher = Watcher(self._end.alias, shells[1].channel, self._watch_words())
        self._watcher.tell(f"shell {self._shell.pid}")

    def _watch_words(self) -> list[str]:
        lock = self._end.claim.words() if self._end.claim else []
        return ["/bin/sh", self.script, "watch", self.name, str(LEASE_S), *lock]

    def _make_room(self) -> None:
        """End an owner of the machine's lock that the user named, or whose process died where we can see it."""
        claim = self._end.claim
        if claim is None:
            return
        asked = self.call(ask_text(self.script, "owners", claim.lock), timeout_s=START_S)
        for owner in owners_in(asked.stdout):
            if owner.id == claim.evict or (owner.id != claim.id and owner.is_dead):
                self.call(ask_text(self.script, "evict", claim.lock, owner.id), timeout_s=START_S)

    def _channel(self) -> Channel:
        """Open a channel, once more if sshd refuses: one that was closed just now may still count for it."""
        try:
            return self.transport.open_session()
        except ChannelException:
            time.sleep(RETRY_S)
            return self.transport.open_session()

    def _ready(self, shell: Shell) -> Shell:
        allowed = shell.prepare(self._cpus)
        if self._cpus and allowed != set(self._cpus):
            raise HostError(
                self._end.alias, f"cannot keep to CPUs {list(self._cpus)}: may use {sorted(allowed)}",
                "taskset (apt install util-linux) must be there, and `cpus` in the hosts file name CPUs that are",
            )  # fmt: skip
        where = shlex.quote(self.workdir)
        text = f'mkdir -p -m 700 {where} && cd {where} && {{ [ -O . ] || (exit {_FOREIGN}); }} && echo "$machine"'
        text = f"machine=$(cat /etc/machine-id 2>/dev/null)\n{self._is_same()} && {text}"
        if self._end.state:
            text = f"export LOADBOOK_STATE={shlex.quote(self._end.state)}\n{text}"
        made = shell.call(text, timeout_s=START_S)
        if made.rc == _OTHER:
            why = "another machine answers under its name: its machine id is not that of the machine before"
            raise OtherMachineError(self._end.alias, why, "was it replaced? A new run begins on it: --new")
        if made.rc == _FOREIGN:
            raise HostError(self._end.alias, f"{self.workdir} belongs to another user", "set `workdir` for this host")
        if made.rc:
            said = made.stderr.decode(errors="replace").strip()
            raise HostError(self._end.alias, f"work folder {self.workdir}: {said}", "set `workdir` for this host")
        self.machine = made.stdout.decode(errors="replace").strip()
        return shell

    def _is_same(self) -> str:
        """Return shell text that fails on another machine than that of before, where both have an id."""
        known = shlex.quote(self.machine)
        return f'{{ [ -z {known} ] || [ -z "$machine" ] || [ "$machine" = {known} ] || (exit {_OTHER}); }}'

    def _install_launcher(self) -> str:
        name, text = launcher()
        path = f"{self.workdir}/{name}"
        if not self.files.exists(path):
            self.files.make_folders(f"{self.workdir}/bin")
            self.files.put(path, text, 0o755)
        return name

    def _sha256(self, path: str, first_bytes: int | None = None, *, ours: bool = False) -> str:
        """Return a file's digest; with `ours` that of a file below the work folder itself, nothing for a link's.

        What is hashed is the file that was opened, whatever has taken its place since.
        """
        take = "" if first_bytes is None else f"head -c {first_bytes} | "
        below = shlex.quote(path.removeprefix(self.workdir))
        proof = f'[ "$(readlink /proc/self/fd/0)" = "$(pwd -P)"{below} ] && ' if ours else ""
        text = f"exec <{shlex.quote(path)} && {proof}{take}sha256sum"
        with talk_errors(self._end.alias, f"sha256sum {path}"):
            done = self.call(text, timeout_s=60)
        return done.stdout.decode("ascii", "replace").removeprefix("\\").split(" ")[0]

    @property
    def alive(self) -> bool:
        """Tell whether commands can still be sent."""
        return self.transport.is_active() and self._watcher.alive

    def call(self, command: str, *, timeout_s: float, stdin: str = "/dev/null") -> Completed:
        """Run quoted shell text in a subshell of the persistent shell; one that overstays is killed with its group."""
        if not self._shell.alive and self.transport.is_active():
            self._replace_shell()
        try:
            return self._shell.call(f"( {command}\n) <{shlex.quote(stdin)}", timeout_s=timeout_s)
        except TimeoutError:
            self._watcher.tell(f"kill {self._shell.pid}")
            self._shell.close()
            raise HostTimeoutError(
                self._end.alias, f"command took longer than {timeout_s:g} s: {command[:200]}"
            ) from None

    def _replace_shell(self) -> None:
        self._shell = self._ready(Shell(self._channel()))
        self._watcher.tell(f"shell {self._shell.pid}")

    def close(self, *, farewell: bool) -> None:
        """Close the connection; with `farewell`, wait until the host has ended our jobs (at most FAREWELL_S)."""
        try:
            if farewell and self.alive:
                self._watcher.farewell()
        finally:
            close_connection(self.connection)


class Watcher:
    """`job.sh watch` on the host, holding the other end of our channel: our death is its end of file.

    A network may die without one, so we say every BEAT_S seconds that we live.
    """

    def __init__(self, alias: str, channel: Channel, words: Sequence[str]) -> None:
        self._channel = channel
        channel.settimeout(LOCK_S)
        channel.sendall(f"exec {sh_join(words)}\n".encode())
        answer = b""
        while not re.search(rb"watching \d+\n", answer):
            data = channel.recv(4096)
            if not data:
                raise refusal(alias, answer[-1000:].decode(errors="replace"))
            answer += data
        channel.settimeout(ANSWER_S)
        threading.Thread(target=self._beat, name="loadbook-beat", daemon=True).start()

    def _beat(self) -> None:
        with suppress(SSHException, OSError, EOFError):
            while not self._channel.status_event.wait(BEAT_S) and self.alive:
                self.tell("alive")

    @property
    def alive(self) -> bool:
        """Tell whether the switch is armed."""
        return not (self._channel.closed or self._channel.eof_received)

    def tell(self, line: str) -> None:
        """Send one command line."""
        self._channel.sendall(f"{line}\n".encode())

    def farewell(self) -> None:
        """Have the session's jobs ended now, and wait for it."""
        self.tell("bye")
        deadline = time.monotonic() + FAREWELL_S
        self._channel.status_event.wait(FAREWELL_S)
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.01)
