"""One persistent /bin/sh per host for control commands, and the only place where arguments are quoted.

Starting a login shell may take 200 ms and print banners; a command through a shell that already runs takes a few
milliseconds. stdout and stderr are separate and byte-exact: the end of each is marked by a line with a random number.
"""

from __future__ import annotations

import os
import re
import select
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loadbook.core import clock
from loadbook.hosts.host import CommandResult

if TYPE_CHECKING:
    from paramiko import Channel

MAX_OUTPUT_BYTES = 1 << 20
SHELL_TIMEOUT_S = 15.0
_CHUNK_BYTES = 1 << 16

# folders that an ordinary user's PATH may lack: Debian's folders of servers, and Go's if it was unpacked by hand
PROGRAM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/go/bin")
# where `go install`, `cargo install`, `pip install --user` and users themselves put programs, below the user's home
HOME_FOLDERS = ("go/bin", ".cargo/bin", ".local/bin", "bin")
# what sshd gives to logins without settings of their own, with games, as Debian's ssh has it
LOGIN_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/games"
# JMETER_HOME goes first, because a distribution's own jmeter on PATH may be broken
_PATH = ":".join(
    ["${JMETER_HOME:+$JMETER_HOME/bin:}$PATH", *PROGRAM_FOLDERS, *(f"$HOME/{folder}" for folder in HOME_FOLDERS)]
)
PREAMBLE = f'export LC_ALL=C TZ=UTC PATH="{_PATH}"; unset CDPATH ENV'
_PRINT_CPU_MASK = 'while read -r key value; do [ "$key" = Cpus_allowed_list: ] && echo "$value"; done </proc/$$/status'


def search_path() -> str:
    """Return the PATH for commands on this machine: the user's own, extended by missing folders of programs."""
    return _with_missing_folders(os.environ.get("PATH", os.defpath))


def login_path() -> str:
    """Return the PATH for commands of loadbook in an SSH login of this user without a PATH of its own."""
    return _with_missing_folders(LOGIN_PATH)


def _with_missing_folders(path: str) -> str:
    own = path.split(":")
    folders = (*PROGRAM_FOLDERS, *(str(Path.home() / folder) for folder in HOME_FOLDERS))
    return ":".join([*own, *(folder for folder in folders if folder not in own)])


def sh_join(argv: Sequence[str]) -> str:
    """Quote an argument list for POSIX sh; ValueError if it names no program or contains a NUL."""
    if not argv or not argv[0] or argv[0].startswith("-"):
        raise ValueError(f"{list(argv)!r} names no program")
    if any("\0" in arg for arg in argv):
        raise ValueError("an argument holds a NUL character")
    for arg in argv:
        arg.encode("utf-8", "surrogateescape")  # UnicodeEncodeError is a ValueError
    return shlex.join(argv)


def cpu_list(text: str) -> set[int]:
    """Read the kernel's list form of a CPU set: "0,2-3" -> {0, 2, 3}."""
    spans = [part.partition("-") for part in text.strip().split(",") if part]
    return {cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1)}


class StartFileError(Exception):
    """The shell did not run the first command, as if a start file of the login had read it from standard input."""


class Shell:
    """A /bin/sh at the other end of a channel; not shared between threads.

    Raises TimeoutError (the command still runs: the caller must kill `pid`'s group and drop this shell) and
    EOFError (the shell or the connection ended).
    """

    pid = 0

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        channel.settimeout(SHELL_TIMEOUT_S)
        channel.exec_command("exec /bin/sh")

    def prepare(self, cpus: Sequence[int] | None) -> set[int]:
        """Skip the output of login files, set environment and CPU mask (by taskset), and read the shell's pid.

        Returns the CPUs that the shell may really use, which differ from `cpus` if the host has no taskset.
        StartFileError if its answer is missing.
        """
        mask = ",".join(map(str, cpus or ()))
        pin = f"command -v taskset >/dev/null && taskset -cp {mask} $$" if mask else ":"
        text = f"{PREAMBLE}; ({pin}) >/dev/null 2>&1; echo $$; {_PRINT_CPU_MASK}"
        answer = self.call(text, timeout_s=SHELL_TIMEOUT_S)
        found = re.search(rb"(?:^|\n)(\d+)\n([\d,-]+)\n$", answer.stdout)
        if not found:
            raise StartFileError
        self.pid = int(found[1])
        return cpu_list(found[2].decode())

    def call(self, command: str, *, timeout_s: float) -> CommandResult:
        """Run `command` (shell text, already quoted); return exit code and output, cut to MAX_OUTPUT_BYTES each."""
        deadline = clock.monotonic() + timeout_s
        mark = os.urandom(16).hex()
        # the mark is written in two parts, so that a shell that echoes its input (set -x, -v) does not print it whole
        print_mark = f"printf '%s%s %d\\n' {mark[:16]} {mark[16:]} \"$r\""
        text = f"{command}\nr=$?; {print_mark}; {print_mark} >&2\n"
        self.channel.settimeout(timeout_s)
        self.channel.sendall(text.encode("utf-8", "surrogateescape"))
        out, err = _Stream(mark), _Stream(mark)
        while out.rc is None or err.rc is None:
            self._feed(out, err, deadline)
        return CommandResult(out.rc, bytes(out.output), bytes(err.output))

    def _feed(self, out: _Stream, err: _Stream, deadline: float) -> None:
        channel = self.channel
        if channel.recv_stderr_ready():
            err.feed(channel.recv_stderr(_CHUNK_BYTES))
        elif channel.recv_ready():
            out.feed(channel.recv(_CHUNK_BYTES))
        elif channel.closed or channel.eof_received:
            raise EOFError("the shell ended")
        else:
            remaining_s = deadline - clock.monotonic()
            if remaining_s <= 0:
                raise TimeoutError
            poll = select.poll()
            poll.register(channel.fileno(), select.POLLIN)
            poll.poll(remaining_s * 1000)

    def close(self) -> None:
        """Close the channel; the shell then reads end of file and ends."""
        self.channel.close()

    @property
    def alive(self) -> bool:
        """Return whether the channel is still open."""
        return not (self.channel.closed or self.channel.eof_received)


class _Stream:
    """One output stream up to its end mark; the first MAX_OUTPUT_BYTES bytes are kept, the rest is dropped."""

    def __init__(self, mark: str) -> None:
        self._end_mark = re.compile(mark.encode() + rb" (\d+)\n")
        self._mark_bytes = len(mark) + 8
        self._tail = b""
        self.output = bytearray()
        self.rc: int | None = None

    def feed(self, data: bytes) -> None:
        window = self._tail + data
        match = self._end_mark.search(window)
        if match:
            self.rc, window, self._tail = int(match[1]), window[: match.start()], b""
        else:
            window, self._tail = window[: -self._mark_bytes], window[-self._mark_bytes :]
        self.output += window[: MAX_OUTPUT_BYTES - len(self.output)]
