"""The loopback lab: a real sshd per host alias on its own loopback address, as the invoking user.

The same code path as on real machines (Fabric over SSH, strict host keys) is what a newcomer, a test and CI use.
Keys are thrown away with the folder; every host has its own work folder, ports and CPU mask.
"""

from __future__ import annotations

import fcntl
import getpass
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from loadbook.core.errors import UsageError
from loadbook.hosts import connect
from loadbook.hosts.inventory import entry_text
from loadbook.hosts.sshd import Sshd, program
from loadbook.records.layout import check_name
from loadbook.records.manifest import read_json, write_atomic, write_json

DRIVER = "driver"
HOSTS: Mapping[str, tuple[str, ...]] = {DRIVER: (DRIVER,), "web": ("web",)}
FIRST_PORT, FIRST_SERVICE_PORT = 22022, 18080


class Status(NamedTuple):
    """One host of the lab; `pid` is None when it is down."""

    alias: str
    address: str
    port: int
    pid: int | None
    cpus: tuple[int, ...] | None


@dataclass(frozen=True)
class Lab:
    """The lab in `folder`: `hosts` (alias -> roles) on the addresses `net`.1, `net`.2, ... of the loopback device."""

    folder: Path
    hosts: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict(HOSTS))
    net: str = "127.0.1"

    @classmethod
    def at(cls, folder: Path, drivers: int | None = None) -> Lab:
        """Return the lab in `folder` with so many drivers; None: as many as it has, which is one in a new lab."""
        state = folder / "lab.json"
        known = read_json(state) if state.is_file() else HOSTS
        count = drivers or sum(alias.partition("-")[0] == DRIVER for alias in known)
        # drivers are added at the end, so that the others keep their addresses
        return cls(folder, dict(HOSTS) | {f"{DRIVER}-{k}": (DRIVER,) for k in range(2, count + 1)})

    @property
    def hosts_file(self) -> Path:
        """Return the hosts file that `up` writes, with known_hosts beside it."""
        return self.folder / "hosts.toml"

    def up(self) -> list[Status]:
        """Bring every host up that is not, log in to each, and return the state; a running lab is left alone.

        With other hosts than before, CPUs are shared anew, and hosts whose share changes are started again.
        """
        with self._locked():
            _make_key(self.folder / "user_key")
            recorded = self._recorded()
            for server in recorded:
                if server.alias not in self.hosts:
                    server.stop()
            servers = [self._server(number, alias, recorded) for number, alias in enumerate(self.hosts)]
            for server in servers:
                _make_key(server.folder / "host_key")
                if server not in recorded or server.pid() is None or not server.answers():
                    server.stop()
                    server.start()
            self._record(servers)
            with ThreadPoolExecutor(len(servers)) as pool:
                list(pool.map(lambda server: connect(self.hosts_file, server.alias, "lab-up").close(), servers))
        return self.status()

    def down(self) -> list[Status]:
        """End every host with everything that runs on it."""
        if self.folder.is_dir():
            with self._locked():
                for server in self._recorded():
                    server.stop()
        return self.status()

    def status(self) -> list[Status]:
        """Return what is up; nothing is changed."""
        return [Status(s.alias, s.address, s.port, s.pid(), s.cpus) for s in self._recorded()]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if '"' in str(self.folder) or "\n" in str(self.folder):
            raise UsageError(f"the lab cannot live in {self.folder}", "sshd cannot read that path")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        with (self.folder / "lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _recorded(self) -> list[Sshd]:
        path = self.folder / "lab.json"
        if not path.is_file():
            return []
        return [
            Sshd(alias, s["address"], s["port"], s["service_port"], s["cpus"] and tuple(s["cpus"]), self.folder / alias)
            for alias, s in read_json(path).items()
        ]

    def _server(self, number: int, alias: str, recorded: list[Sshd]) -> Sshd:
        """Return a host as it was recorded, if its ports can be had again, else a new choice."""
        folder = self.folder / check_name("host", alias)
        folder.mkdir(exist_ok=True)
        address, cpus = f"{self.net}.{number + 1}", cpu_masks(self.hosts)[alias]
        for old in recorded:
            if old.alias == alias and old.address == address:
                runs = old.pid() is not None
                if runs and {server.alias for server in recorded} == set(self.hosts):
                    return old
                if runs or _is_free(address, old.port):
                    return replace(old, cpus=cpus)
        port = _free_port(address, FIRST_PORT)
        # another lab on this address holds its SSH port all the time, but its service port during trials only
        service_port = _free_port(address, FIRST_SERVICE_PORT + port - FIRST_PORT)
        return Sshd(alias, address, port, service_port, cpus, folder)

    def _record(self, servers: list[Sshd]) -> None:
        keys = [_key_line(server) for server in servers]
        write_atomic(self.folder / "known_hosts", "".join(keys).encode())
        write_atomic(self.hosts_file, "\n".join(self._entry(server) for server in servers).encode())
        state = {
            s.alias: {"address": s.address, "port": s.port, "service_port": s.service_port, "cpus": s.cpus}
            for s in servers
        }
        write_json(self.folder / "lab.json", state)

    def _entry(self, server: Sshd) -> str:
        values = {
            "roles": list(self.hosts[server.alias]),
            "address": server.address,
            "host_name": server.address,
            "port": server.port,
            "user": getpass.getuser(),
            "identity_file": str(self.folder / "user_key"),
            "workdir": str(server.workdir),
            "service_port": server.service_port,
        } | ({"cpus": list(server.cpus)} if server.cpus else {})
        return entry_text(server.alias, values)


def cpu_masks(hosts: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[int, ...] | None]:
    """Share the CPUs that we may use among `hosts` (alias -> roles), disjoint; with too few, all drivers have one.

    A machine with one CPU has no masks: driver and server then disturb each other, and a gate says so.
    """
    cpus = sorted(os.sched_getaffinity(0))
    count = len(cpus)
    if count < 2:
        return dict.fromkeys(hosts)
    if count < len(hosts):
        return {alias: (cpus[0],) if DRIVER in roles else tuple(cpus[1:]) for alias, roles in hosts.items()}
    edges = [k * count // len(hosts) for k in range(len(hosts) + 1)]
    return {alias: tuple(cpus[edges[k] : edges[k + 1]]) for k, alias in enumerate(hosts)}


def _make_key(path: Path) -> None:
    if not path.is_file():
        command = [program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "loadbook lab", "-f", str(path)]
        subprocess.run(command, check=True, timeout=30, stdin=subprocess.DEVNULL)


def _key_line(server: Sshd) -> str:
    kind, blob = (server.folder / "host_key.pub").read_text().split()[:2]
    return f"[{server.address}]:{server.port} {kind} {blob}\n"


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address, port))
        except OSError:
            return False
    return True


def _free_port(address: str, first: int) -> int:
    for port in range(first, first + 500):
        if _is_free(address, port):
            return port
    raise UsageError(f"no free port on {address} from {first} to {first + 500}")
