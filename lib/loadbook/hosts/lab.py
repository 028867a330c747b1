"""The lab: a real sshd per host alias on one machine, on loopback addresses or in network namespaces.

The same code path as on real machines (Fabric over SSH, strict host keys) is what a newcomer, a test and CI use.
Keys are thrown away with the folder; every host has its own work folder, ports and CPU mask.
"""

from __future__ import annotations

import getpass
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from loadbook.core.errors import UsageError
from loadbook.hosts import connect
from loadbook.hosts.ground import Ground, Loopback
from loadbook.hosts.in_use import lock_at, must_be_idle
from loadbook.hosts.inventory import entry_text
from loadbook.hosts.known_hosts import lookup_name
from loadbook.hosts.lab_plan import BALANCER, DRIVER, RECORD, Roles, cpu_masks, hosts_by_need, read_record, take_lock
from loadbook.hosts.netns import Namespaces
from loadbook.hosts.sshd import Sshd, program
from loadbook.records.atomic import write_atomic
from loadbook.records.layout import check_name
from loadbook.records.manifest import write_json

HOSTS: Mapping[str, Roles] = {DRIVER: (DRIVER,), "web": ("web",)}
Kind = Literal["loopback", "netns"]


class Status(NamedTuple):
    """One host of the lab; `pid` is None when it is down, `cut` is True while its link is."""

    alias: str
    address: str
    port: int
    pid: int | None
    cpus: tuple[int, ...] | None
    cut: bool = False


@dataclass(frozen=True)
class Lab:
    """The lab in `folder`: `hosts` (alias -> roles), for the loopback lab on `net`.1, `net`.2, ...

    `least` is how many CPUs every server must have, even if they are then the driver's, too.
    """

    folder: Path
    hosts: Mapping[str, Roles] = field(default_factory=lambda: dict(HOSTS))
    net: str = "127.0.1"
    kind: Kind = "loopback"
    least: int = 1

    @classmethod
    def at(
        cls,
        folder: Path,
        drivers: int | None = None,
        roles: Mapping[str, int] | None = None,
        *,
        needs: Mapping[str, int] | None = None,
        kind: Kind | None = None,
        least: int | None = None,
    ) -> Lab:
        """Return the lab in `folder` with what it had and is to have; a new one has a driver and a web host.

        Parameters
        ----------
        drivers : how many drivers it is to have; None: as many as it had.
        roles : role -> how many hosts it is to have exactly; 0 takes them away.
        needs : role -> how many hosts it is to have at least, as a study asks.
        kind : None: the kind it had, which is `loopback` in a new lab.
        least : CPUs that every server must have; None: as before, which is 1 in a new lab.
        """
        record = read_record(folder)
        known = {alias: tuple(host["roles"]) for alias, host in record["hosts"].items()} or HOSTS
        exactly = dict(roles or {}) | ({DRIVER: drivers} if drivers else {})
        wanted = hosts_by_need(known, exactly, needs or {})
        return cls(folder, wanted, kind=kind or record["kind"], least=least or record.get("least", 1))

    @property
    def hosts_file(self) -> Path:
        """Return the hosts file that `up` writes, with known_hosts beside it."""
        return self.folder / "hosts.toml"

    @cached_property
    def _ground(self) -> Ground:
        fronts = frozenset(alias for alias, roles in self.hosts.items() if BALANCER in roles)
        return Namespaces(self.folder, fronts) if self.kind == "netns" else Loopback(self.folder, self.net)

    def up(self) -> list[Status]:
        """Bring every host up that is not, log in to each, and return the state; a running lab is left alone.

        With other hosts than before, CPUs are shared anew, and hosts whose share changes are started again. A lab of
        the other kind goes down first. UsageError: this kind of lab cannot be here, or a run is under way on a host
        that would be changed.
        """
        self._ground.check()
        with self._locked():
            self._begin()
            _make_key(self.folder / "user_key")
            recorded = self._recorded()
            servers = self._placed(recorded)
            must_be_idle([server for server in recorded if server not in servers])
            self._take_away([server for server in recorded if server.alias not in self.hosts])
            self._ground.build(servers)
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
        """End every host with everything that runs on it, and remove what they stood in."""
        if self.folder.is_dir():
            self._ground.check()
            with self._locked():
                self._end()
        return self.status()

    def status(self) -> list[Status]:
        """Return what is up; nothing is changed."""
        cut = self._ground.is_cut
        return [Status(s.alias, s.address, s.port, s.pid(), s.cpus, cut(s)) for s in self._recorded()]

    def cut(self, alias: str, seconds: float) -> None:
        """Cut a host off from all others and from us, for so many seconds at most; UsageError without links."""
        self._ground.cut(self._known(alias), seconds)

    def join(self, alias: str) -> None:
        """Give a host that was cut off its link back."""
        self._ground.join(self._known(alias))

    def _known(self, alias: str) -> Sshd:
        servers = {server.alias: server for server in self._recorded()}
        if alias not in servers:
            raise UsageError(f"the lab has no host {alias!r}", f"hosts: {', '.join(servers) or 'none yet'}")
        return servers[alias]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if '"' in str(self.folder) or "\n" in str(self.folder):
            raise UsageError(f"the lab cannot live in {self.folder}", "sshd cannot read that path")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        with (self.folder / "lock").open("w") as handle:
            take_lock(handle, self.folder)
            yield

    def _begin(self) -> None:
        """Take a lab of the other kind down; keep the kind first, so that `down` finds what a crash leaves."""
        record, path = read_record(self.folder), self.folder / RECORD
        if path.is_file() and record["kind"] != self.kind:
            other = replace(self, kind=record["kind"])
            other._ground.check()
            must_be_idle(other._recorded())
            other._end()
            path.unlink()
        if not path.is_file():
            write_json(path, {"kind": self.kind, "hosts": {}})

    def _end(self) -> None:
        for server in self._recorded():
            server.stop()
        self._ground.clear()

    def _take_away(self, servers: Sequence[Sshd]) -> None:
        for server in servers:
            server.stop()
        self._ground.clear([server.alias for server in servers])

    def _recorded(self) -> list[Sshd]:
        """Return the hosts as they were when this kind of lab was last brought up."""
        record = read_record(self.folder)
        hosts = record["hosts"] if record["kind"] == self.kind else {}
        return [self._ground.entered(self._server(alias, host)) for alias, host in hosts.items()]

    def _server(self, alias: str, host: Mapping[str, Any]) -> Sshd:
        cpus = host["cpus"] and tuple(host["cpus"])
        return Sshd(alias, host["address"], host["port"], host["service_port"], cpus, self.folder / alias)

    def _placed(self, recorded: Sequence[Sshd]) -> list[Sshd]:
        """Return every host where it was, new ones at the first addresses that are left."""
        net = self._ground.net([server.address for server in recorded])
        before = {s.alias: s for s in recorded if s.address.startswith(f"{net}.")}
        left = iter(sorted({f"{net}.{k}" for k in range(1, 100)} - {s.address for s in before.values()}, key=_last))
        masks = cpu_masks(self.hosts, self.least)
        alike = {server.alias for server in recorded} == set(self.hosts)
        alike &= read_record(self.folder).get("least", 1) == self.least
        servers = []
        for alias in self.hosts:
            (self.folder / check_name("host", alias)).mkdir(exist_ok=True)
            old = before.get(alias)
            if old and alike and old.pid() is not None:
                servers.append(old)
            else:
                servers.append(self._ground.place(alias, old.address if old else next(left), masks[alias], old))
        return servers

    def _record(self, servers: Sequence[Sshd]) -> None:
        keys = [_key_line(server) for server in servers]
        write_atomic(self.folder / "known_hosts", "".join(keys).encode())
        write_atomic(self.hosts_file, "\n".join(self._entry(server) for server in servers).encode())
        hosts = {
            s.alias: {
                "roles": self.hosts[s.alias],
                "address": s.address,
                "port": s.port,
                "service_port": s.service_port,
                "cpus": s.cpus,
            }
            for s in servers
        }
        write_json(self.folder / RECORD, {"kind": self.kind, "least": self.least, "hosts": hosts})

    def _entry(self, server: Sshd) -> str:
        values = {
            "roles": list(self.hosts[server.alias]),
            "address": self._ground.serves_at(server),
            "host_name": server.address,
            "port": server.port,
            "user": getpass.getuser(),
            "identity_file": str(self.folder / "user_key"),
            "workdir": str(server.workdir),
            "lock": str(lock_at(server.workdir)),
            "service_port": server.service_port,
        }
        values |= {"cpus": list(server.cpus)} if server.cpus else {}
        # below /etc, which these hosts have to themselves, and which ends with them
        values |= {"may": list(self._ground.may), "state": "/etc/loadbook"} if self._ground.may else {}
        return entry_text(server.alias, values)


def _make_key(path: Path) -> None:
    if not path.is_file():
        command = [program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "loadbook lab", "-f", str(path)]
        subprocess.run(command, check=True, timeout=30, stdin=subprocess.DEVNULL)


def _key_line(server: Sshd) -> str:
    kind, blob = (server.folder / "host_key.pub").read_text().split()[:2]
    return f"{lookup_name(server.address, server.port)} {kind} {blob}\n"


def _last(address: str) -> int:
    return int(address.rpartition(".")[2])
