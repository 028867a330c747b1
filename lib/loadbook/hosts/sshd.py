"""One sshd of the lab: its configuration, its process, and ending all processes that it started.

`LabNetwork` assigns addresses on the loopback device; its subclass in `netns` uses network namespaces.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from loadbook.core import clock
from loadbook.core.errors import HostError, UsageError
from loadbook.hosts.inventory import Permission
from loadbook.hosts.jobs import launcher_script
from loadbook.hosts.shell import search_path
from loadbook.store.atomic import write_atomic

SSHD_START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 2.0

# SHLVL: below 1, bash under sshd would run the user's ~/.bashrc in each session, which may be slow or change PATH
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
SetEnv "JMETER_HOME={jmeter}" SHLVL=1
Subsystem sftp internal-sftp
"""


@dataclass(frozen=True)
class Sshd:
    """One sshd of the lab: address and ports, CPUs (None: no mask), and its folder below the lab's folder.

    `enter_command` is put before a command to run it in the host's namespaces; empty in the loopback lab.
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
        """Return the configuration file, whose path in the command line identifies the process."""
        return self.folder / "sshd_config"

    @property
    def workdir(self) -> Path:
        """Return the folder that runs use as the host's work folder."""
        return self.folder / "work"

    def pid(self) -> int | None:
        """Return the id of the listening process, found by its command line; None if it is not running."""
        config_path = os.fsencode(self.config_file)
        parents = {pid: parent for pid, parent, line in _processes() if config_path in line and b"sshd" in line}
        listeners = [pid for pid, parent in parents.items() if parent not in parents]
        return listeners[0] if listeners else None

    def responds(self) -> bool:
        """Return whether an SSH server sends its banner at this address and port."""
        with suppress(OSError), socket.create_connection((self.address, self.port), timeout=1.0) as sock:
            return sock.recv(8) == b"SSH-2.0-"
        return False

    def start(self) -> None:
        """Start the sshd under its CPU mask and wait for its banner; HostError contains the end of its log."""
        self.workdir.mkdir(mode=0o700, exist_ok=True)
        text = CONFIG_TEMPLATE.format(
            port=self.port,
            address=self.address,
            folder=self.folder,
            keys=self.folder.parent,
            pam=_use_pam(),
            # `make jmeter` installs it beside the lab's folder, perhaps later
            jmeter=os.environ.get("JMETER_HOME") or self.folder.parent.parent / "jmeter",
        )
        write_atomic(self.config_file, text.encode())
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        log = self.folder / "sshd.log"
        log.unlink(missing_ok=True)
        command = [*self.enter_command, find_program("sshd"), "-f", str(self.config_file), "-E", str(log)]
        own_cpus = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self.cpus or own_cpus)  # inherited by processes that this thread starts
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SSHD_START_TIMEOUT_S, check=False,
                env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            )  # fmt: skip
        finally:
            os.sched_setaffinity(0, own_cpus)
        if done.returncode or not clock.wait_until(self.responds, SSHD_START_TIMEOUT_S):
            output = (done.stderr.decode(errors="replace") + _read_text(log))[-1000:]
            raise HostError(self.alias, f"sshd did not start on {self.address}:{self.port}: {output}", f"see {log}")

    def stop(self) -> None:
        """End the listening process, its sessions, and the jobs and watcher processes that they started."""
        listener = self.pid()
        if listener:
            with suppress(ProcessLookupError):
                os.kill(listener, signal.SIGSTOP)  # so that no client reconnects before it is ended
            status, stopped = Path(f"/proc/{listener}/status"), "\nState:\tT"
            clock.wait_until(lambda: stopped in _read_text(status, stopped), STOP_TIMEOUT_S, 0.001)
            descendants = _descendants(listener)
            with suppress(ProcessLookupError):
                os.kill(listener, signal.SIGKILL)
            end_processes([listener, *descendants])
        script = self.workdir / launcher_script()[0]
        if script.is_file():
            command = ["/bin/sh", str(script), "sweep", "all"]
            subprocess.run(command, cwd=self.workdir, stdin=subprocess.DEVNULL, timeout=30, check=False)


def find_program(name: str) -> str:
    """Return the absolute path of an OpenSSH program, from PATH or the sbin folders; HostError if it is missing."""
    path = shutil.which(name, path=search_path())
    if path is None:
        raise HostError("lab", f"{name} is not installed here", "apt install openssh-server openssh-client")
    return path


def end_processes(pids: list[int]) -> None:
    """Send TERM (and CONT, for stopped processes), and KILL to those still running after STOP_TIMEOUT_S seconds."""
    for signal_number in (signal.SIGTERM, signal.SIGCONT):
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal_number)
    clock.wait_until(lambda: not any(map(_is_running, pids)), STOP_TIMEOUT_S)
    for pid in filter(_is_running, pids):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _is_running(pid: int) -> bool:
    return "\nState:\tZ" not in _read_text(Path(f"/proc/{pid}/status"), "\nState:\tZ")


def _processes() -> Iterator[tuple[int, int, bytes]]:
    """Yield (pid, parent's pid, command line) of every readable process."""
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
    """Return sshd's UsePAM: "yes" if root's password is locked (as on Ubuntu), which sshd refuses without PAM."""
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
    """The network of a loopback lab: addresses `net_prefix`.1, `net_prefix`.2, ... of the loopback device.

    With an empty `net_prefix` the lab keeps its recorded addresses; a new one gets addresses of its own.
    `netns.NamespaceNetwork` overrides it for network namespaces. `permissions` are the changes allowed on its hosts.
    """

    folder: Path
    net_prefix: str = ""
    permissions: tuple[Permission, ...] = ()

    def check(self) -> None:
        """Raise UsageError if this kind of lab is impossible on this machine; never for a loopback lab."""

    def subnet(self, recorded: Sequence[Sshd]) -> str:
        """Return what all host addresses begin with, such as "127.5.17"; `recorded` are the hosts of the last start.

        The recorded one is kept, except where no host is running and another program listens on such an address: it
        may be another lab, whose servers would answer for those of this one.
        """
        known = [recorded[0].address.rpartition(".")[0]] if recorded else []
        if self.net_prefix or any(server.pid() is not None for server in recorded):
            return self.net_prefix or known[0]
        taken = listening_subnets()
        for candidate in (*known, *loopback_subnets(self.folder)):
            if candidate not in taken:
                return candidate
        raise UsageError("programs listen in every net of 127.0.0.0/8: none is left for the lab", "ss -ltn")

    def assign_server(self, alias: str, address: str, cpus: tuple[int, ...] | None, previous: Sshd | None) -> Sshd:
        """Return a host at an address, with the ports of `previous` if they are free, else with new ones.

        `previous` is the same host at the last start (None: it is new), `cpus` its CPU mask (None: no mask).
        """
        if previous and (previous.pid() is not None or _port_is_free(address, previous.port)):
            return Sshd(alias, address, previous.port, previous.service_port, cpus, previous.folder)
        port = _free_port(address, FIRST_SSH_PORT)
        # derived from the SSH port, as another lab at this address uses its service port only during trials
        service_port = _free_port(address, FIRST_SERVICE_PORT + port - FIRST_SSH_PORT)
        return Sshd(alias, address, port, service_port, cpus, self.folder / alias)

    def with_enter_command(self, server: Sshd) -> Sshd:
        """Return a recorded host with its `enter_command` set; unchanged in a loopback lab."""
        return server

    def service_address(self, server: Sshd) -> str:
        """Return the address at which a host's services listen."""
        return server.address

    def build(self, servers: Sequence[Sshd]) -> None:
        """Create the hosts' namespaces and links that do not exist yet; nothing to do in a loopback lab."""

    def clear(self, aliases: Sequence[str] | None = None) -> None:
        """Remove the namespaces of these hosts (None: all of this lab); nothing to do in a loopback lab."""

    def cut_link(self, server: Sshd, seconds: float) -> None:
        """Disconnect a host for `seconds`; UsageError in a loopback lab, which has no links."""
        raise UsageError(*_NO_LINKS)

    def restore_link(self, server: Sshd) -> None:
        """Reconnect a host that was disconnected; UsageError in a loopback lab."""
        raise UsageError(*_NO_LINKS)

    def is_link_cut(self, server: Sshd) -> bool:
        """Return whether a host is disconnected; always False in a loopback lab."""
        return False


def loopback_subnets(folder: Path) -> Iterator[str]:
    """Yield starts of loopback addresses, such as "127.5.17", in an order that depends on user and folder of a lab.

    127.0 and 127.255 are left out: distributions use addresses of 127.0 themselves.
    """
    digest = hashlib.sha256(os.fsencode(f"{os.getuid()}:{folder.resolve()}")).hexdigest()
    for k in range(254 * 256):
        number = (int(digest[:8], 16) + k) % (254 * 256)
        yield f"127.{1 + number // 256}.{number % 256}"


def listening_subnets(table: Path = Path("/proc/net/tcp")) -> set[str]:
    """Return the first three bytes ("127.5.17") of every IPv4 address on which a program of any user listens.

    Read from the kernel's table, because a bind test would have to know the ports.
    """
    subnets = set()
    for line in _read_text(table).splitlines()[1:]:
        local, _, state = line.split()[1:4]
        if state == "0A":
            address = socket.inet_ntoa(int(local.partition(":")[0], 16).to_bytes(4, sys.byteorder))
            subnets.add(address.rpartition(".")[0])
    return subnets


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
