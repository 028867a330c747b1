"""One sshd of the lab: its configuration, its process, and the end of everything that it started.

`LabNetwork` has the addresses of such servers on the loopback device; `netns` those in network namespaces.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from loadbook.core.errors import HostError, UsageError
from loadbook.hosts.inventory import Permission
from loadbook.hosts.jobs import launcher_script
from loadbook.hosts.shell import search_path
from loadbook.store.atomic import write_atomic

SSHD_START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 2.0

CONFIG_TEMPLATE = """\
Port {port}
ListenAddress {address}
HostKey "{folder}/host_key"
PidFile none
AuthorizedKeysFile "{keys}/user_key.pub"
StrictModes no
UsePAM {pam}
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
PrintLastLog no
UseDNS no
X11Forwarding no
AllowTcpForwarding yes
MaxSessions 100
MaxStartups 100
SetEnv "JMETER_HOME={jmeter}"
Subsystem sftp internal-sftp
"""


@dataclass(frozen=True)
class Sshd:
    """One server: where it listens, its CPUs (None: no mask), and its folder below the lab's.

    `enter_command` runs another command inside the host's namespaces; empty on the loopback device.
    """

    alias: str
    address: str
    port: int
    service_port: int
    cpus: tuple[int, ...] | None
    folder: Path
    enter_command: tuple[str, ...] = ()

    @property
    def config_file(self) -> Path:
        """Return its configuration file, whose path tells its process from all others."""
        return self.folder / "sshd_config"

    @property
    def workdir(self) -> Path:
        """Return the work folder that runs use."""
        return self.folder / "work"

    def pid(self) -> int | None:
        """Return the process that listens, found by its command line: nothing recorded that could be stale."""
        config_path = os.fsencode(self.config_file)
        parents = {pid: parent for pid, parent, line in _processes() if config_path in line and b"sshd" in line}
        listeners = [pid for pid, parent in parents.items() if parent not in parents]
        return listeners[0] if listeners else None

    def responds(self) -> bool:
        """Tell whether an SSH server greets at its address."""
        with suppress(OSError), socket.create_connection((self.address, self.port), timeout=1.0) as sock:
            return sock.recv(8) == b"SSH-2.0-"
        return False

    def start(self) -> None:
        """Start it under its CPU mask and wait for its greeting; HostError tells what its log says."""
        self.workdir.mkdir(mode=0o700, exist_ok=True)
        text = CONFIG_TEMPLATE.format(
            port=self.port,
            address=self.address,
            folder=self.folder,
            keys=self.folder.parent,
            pam=_use_pam(),
            # beside the lab is where `make jmeter` puts it, whether it is there yet or not
            jmeter=os.environ.get("JMETER_HOME") or self.folder.parent.parent / "jmeter",
        )
        write_atomic(self.config_file, text.encode())
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        log = self.folder / "sshd.log"
        log.unlink(missing_ok=True)
        command = [*self.enter_command, find_program("sshd"), "-f", str(self.config_file), "-E", str(log)]
        own_cpus = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self.cpus or own_cpus)  # what this thread starts inherits it
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SSHD_START_TIMEOUT_S, check=False,
                env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            )  # fmt: skip
        finally:
            os.sched_setaffinity(0, own_cpus)
        deadline = time.monotonic() + SSHD_START_TIMEOUT_S
        while not self.responds():
            if done.returncode or time.monotonic() > deadline:
                output = (done.stderr.decode(errors="replace") + _read_text(log))[-1000:]
                raise HostError(self.alias, f"sshd did not start on {self.address}:{self.port}: {output}", f"see {log}")
            time.sleep(0.01)

    def stop(self) -> None:
        """End the listener, its sessions, and the jobs and watchers that those left behind."""
        listener = self.pid()
        if listener:
            _suspend(listener)
            descendants = _descendants(listener)
            with suppress(ProcessLookupError):
                os.kill(listener, signal.SIGKILL)
            end_processes([listener, *descendants])
        script = self.workdir / launcher_script()[0]
        if script.is_file():
            command = ["/bin/sh", str(script), "sweep", "all"]
            subprocess.run(command, cwd=self.workdir, stdin=subprocess.DEVNULL, timeout=30, check=False)


def find_program(name: str) -> str:
    """Return the absolute path of a program (sshd insists on one), also from the sbin folders."""
    path = shutil.which(name, path=search_path())
    if path is None:
        raise HostError("lab", f"{name} is not installed here", "apt install openssh-server openssh-client")
    return path


def end_processes(pids: list[int]) -> None:
    """TERM, and KILL for those that are left after STOP_TIMEOUT_S seconds; stopped ones are woken for it."""
    for signal_number in (signal.SIGTERM, signal.SIGCONT):
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal_number)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while any(map(_is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    for pid in filter(_is_running, pids):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _suspend(listener: int) -> None:
    """Make a listener accept no more clients, so that none reconnects before the listener has ended."""
    with suppress(ProcessLookupError):
        os.kill(listener, signal.SIGSTOP)
    deadline, stopped = time.monotonic() + STOP_TIMEOUT_S, "\nState:\tT"
    while stopped not in _read_text(Path(f"/proc/{listener}/status"), stopped) and time.monotonic() < deadline:
        time.sleep(0.001)


def _is_running(pid: int) -> bool:
    return "\nState:\tZ" not in _read_text(Path(f"/proc/{pid}/status"), "\nState:\tZ")


def _processes() -> Iterator[tuple[int, int, bytes]]:
    """Yield (pid, parent, command line) of every process that can be read."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                line = (folder / "cmdline").read_bytes()
                stat = (folder / "stat").read_text(errors="replace")
                yield int(folder.name), int(stat.rpartition(")")[2].split()[1]), line


def _descendants(pid: int) -> list[int]:
    parents = {child: parent for child, parent, _ in _processes()}
    descendants, level = [], {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level}
        descendants += sorted(level)
    return descendants


def _use_pam() -> str:
    """Return "yes" where only PAM allows the login: without it sshd refuses a locked password (root of Ubuntu)."""
    if os.geteuid() != 0 or not Path("/etc/pam.d/sshd").is_file():
        return "no"
    lines = _read_text(Path("/etc/shadow")).splitlines()
    return "yes" if any(line.startswith("root:!") for line in lines) else "no"


def _read_text(path: Path, default: str = "") -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return default


FIRST_SSH_PORT, FIRST_SERVICE_PORT = 22022, 18080
_NO_LINKS = ("the loopback lab has no links that could be cut", "as root: loadbook lab up --kind netns")


@dataclass(frozen=True)
class LabNetwork:
    """The network of a lab: `net_prefix`.1, `net_prefix`.2, ... of the loopback device, as the invoking user.

    `netns.NamespaceNetwork` is the other kind. `permissions` are what loadbook may change on its hosts.
    """

    folder: Path
    net_prefix: str = ""
    permissions: tuple[Permission, ...] = ()

    def check(self) -> None:
        """Raise UsageError where such a lab cannot be: every machine has a loopback device."""

    def subnet(self, known_addresses: Sequence[str]) -> str:
        """Return the first three parts of its hosts' addresses; `known_addresses` are the addresses that it had."""
        return self.net_prefix

    def assign_server(self, alias: str, address: str, cpus: tuple[int, ...] | None, previous: Sshd | None) -> Sshd:
        """Return a host at an address, with the ports that it had there (`previous`) if they can be had again."""
        if previous and (previous.pid() is not None or _port_is_free(address, previous.port)):
            return Sshd(alias, address, previous.port, previous.service_port, cpus, previous.folder)
        port = _free_port(address, FIRST_SSH_PORT)
        # another lab on this address holds its SSH port all the time, but its service port during trials only
        service_port = _free_port(address, FIRST_SERVICE_PORT + port - FIRST_SSH_PORT)
        return Sshd(alias, address, port, service_port, cpus, self.folder / alias)

    def with_enter_command(self, server: Sshd) -> Sshd:
        """Return a recorded host with the way into it."""
        return server

    def service_address(self, server: Sshd) -> str:
        """Return the address that a host's services have."""
        return server.address

    def build(self, servers: Sequence[Sshd]) -> None:
        """Make whatever the hosts stand in, as far as it is not there."""

    def clear(self, aliases: Sequence[str] | None = None) -> None:
        """Remove what these hosts stand in; None: everything of this lab, whoever left it there."""

    def cut_link(self, server: Sshd, seconds: float) -> None:
        """Cut a host off; its link is there again after so many seconds, whatever becomes of us."""
        raise UsageError(*_NO_LINKS)

    def restore_link(self, server: Sshd) -> None:
        """Give a host its link back."""
        raise UsageError(*_NO_LINKS)

    def is_link_cut(self, server: Sshd) -> bool:
        """Tell whether a host is cut off."""
        return False


def _port_is_free(address: str, port: int) -> bool:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address, port))
        except OSError:
            return False
    return True


def _free_port(address: str, first: int) -> int:
    for port in range(first, first + 500):
        if _port_is_free(address, port):
            return port
    raise UsageError(f"no free port on {address} from {first} to {first + 500}")
