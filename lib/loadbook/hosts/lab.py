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
from loadbook.hosts.ground import LabNetwork, LoopbackNetwork
from loadbook.hosts.in_use import lab_lock_file, check_idle
from loadbook.hosts.inventory import format_entry
from loadbook.hosts.known_hosts import lookup_name
from loadbook.hosts.lab_plan import BALANCER, DRIVER, RECORD_FILE, Roles, cpu_masks, plan_hosts, read_lab_record, acquire_lab_lock
from loadbook.hosts.netns import NamespaceNetwork
from loadbook.hosts.sshd import Sshd, find_program
from loadbook.records.atomic import write_atomic
from loadbook.records.layout import check_name
from loadbook.records.manifest import write_json

DEFAULT_HOSTS: Mapping[str, Roles] = {DRIVER: (DRIVER,), "web": ("web",)}
LabKind = Literal["loopback", "netns"]


class LabHostStatus(NamedTuple):
    """One host of the lab; `pid` is None when it is down, `link_cut` is True while its link is."""

    alias: str
    address: str
    port: int
    pid: int | None
    cpus: tuple[int, ...] | None
    link_cut: bool = False


@dataclass(frozen=True)
class Lab:
    """The lab in `folder`: `hosts` (alias -> roles), for the loopback lab on `net_prefix`.1, `net_prefix`.2, ...

    `min_server_cpus` is how many CPUs every server must have, even if they are then the driver's, too.
    """

    folder: Path
    hosts: Mapping[str, Roles] = field(default_factory=lambda: dict(DEFAULT_HOSTS))
    net_prefix: str = "127.0.1"
    kind: LabKind = "loopback"
    min_server_cpus: int = 1

    @classmethod
    def load(
        cls,
        folder: Path,
        drivers: int | None = None,
        roles: Mapping[str, int] | None = None,
        *,
        min_hosts: Mapping[str, int] | None = None,
        kind: LabKind | None = None,
        min_server_cpus: int | None = None,
    ) -> Lab:
        """Return the lab in `folder` with what it had and is to have; a new one has a driver and a web host.

        Parameters
        ----------
        drivers : how many drivers it is to have; None: as many as it had.
        roles : role -> how many hosts it is to have exactly; 0 takes them away.
        min_hosts : role -> how many hosts it is to have at least, as a study asks.
        kind : None: the kind it had, which is `loopback` in a new lab.
        min_server_cpus : CPUs that every server must have; None: as before, which is 1 in a new lab.
        """
        record = read_lab_record(folder)
        current = {alias: tuple(host["roles"]) for alias, host in record["hosts"].items()} or DEFAULT_HOSTS
        exact_counts = dict(roles or {}) | ({DRIVER: drivers} if drivers else {})
        hosts = plan_hosts(current, exact_counts, min_hosts or {})
        return cls(folder, hosts, kind=kind or record["kind"], min_server_cpus=min_server_cpus or record.get("least", 1))

    @property
    def hosts_file(self) -> Path:
        """Return the hosts file that `up` writes, with known_hosts beside it."""
        return self.folder / "hosts.toml"

    @cached_property
    def _network(self) -> LabNetwork:
        balancers = frozenset(alias for alias, roles in self.hosts.items() if BALANCER in roles)
        return NamespaceNetwork(self.folder, balancers) if self.kind == "netns" else LoopbackNetwork(self.folder, self.net_prefix)

    def up(self) -> list[LabHostStatus]:
        """Bring every host up that is not, log in to each, and return the state; a running lab is left alone.

        With other hosts than before, CPUs are shared anew, and hosts whose share changes are started again. A lab of
        the other kind goes down first. UsageError: this kind of lab cannot be here, or a run is under way on a host
        that would be changed.
        """
        self._network.check()
        with self._locked():
            self._prepare_kind()
            _make_key(self.folder / "user_key")
            recorded = self._recorded_servers()
            servers = self._assigned_servers(recorded)
            check_idle([server for server in recorded if server not in servers])
            self._remove_servers([server for server in recorded if server.alias not in self.hosts])
            self._network.build(servers)
            for server in servers:
                _make_key(server.folder / "host_key")
                if server not in recorded or server.pid() is None or not server.responds():
                    server.stop()
                    server.start()
            self._write_record(servers)
            with ThreadPoolExecutor(len(servers)) as pool:
                list(pool.map(lambda server: connect(self.hosts_file, server.alias, "lab-up").close(), servers))
        return self.status()

    def down(self) -> list[LabHostStatus]:
        """End every host with everything that runs on it, and remove what they stood in."""
        if self.folder.is_dir():
            self._network.check()
            with self._locked():
                self._stop_all()
        return self.status()

    def status(self) -> list[LabHostStatus]:
        """Return what is up; nothing is changed."""
        cut = self._network.is_link_cut
        return [LabHostStatus(s.alias, s.address, s.port, s.pid(), s.cpus, cut(s)) for s in self._recorded_servers()]

    def cut_link(self, alias: str, seconds: float) -> None:
        """Cut a host off from all others and from us, for so many seconds at most; UsageError without links."""
        self._network.cut_link(self._recorded_server(alias), seconds)

    def restore_link(self, alias: str) -> None:
        """Give a host that was cut off its link back."""
        self._network.restore_link(self._recorded_server(alias))

    def _recorded_server(self, alias: str) -> Sshd:
        servers = {server.alias: server for server in self._recorded_servers()}
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
            acquire_lab_lock(handle, self.folder)
            yield

    def _prepare_kind(self) -> None:
        """Take a lab of the other kind down; keep the kind first, so that `down` finds what a crash leaves."""
        record, path = read_lab_record(self.folder), self.folder / RECORD_FILE
        if path.is_file() and record["kind"] != self.kind:
            other = replace(self, kind=record["kind"])
            other._network.check()
            check_idle(other._recorded_servers())
            other._stop_all()
            path.unlink()
        if not path.is_file():
            write_json(path, {"kind": self.kind, "hosts": {}})

    def _stop_all(self) -> None:
        for server in self._recorded_servers():
            server.stop()
        self._network.clear()

    def _remove_servers(self, servers: Sequence[Sshd]) -> None:
        for server in servers:
            server.stop()
        self._network.clear([server.alias for server in servers])

    def _recorded_servers(self) -> list[Sshd]:
        """Return the hosts as they were when this kind of lab was last brought up."""
        record = read_lab_record(self.folder)
        hosts = record["hosts"] if record["kind"] == self.kind else {}
        return [self._network.with_enter_command(self._server_from_record(alias, host)) for alias, host in hosts.items()]

    def _server_from_record(self, alias: str, host: Mapping[str, Any]) -> Sshd:
        cpus = host["cpus"] and tuple(host["cpus"])
        return Sshd(alias, host["address"], host["port"], host["service_port"], cpus, self.folder / alias)

    def _assigned_servers(self, recorded: Sequence[Sshd]) -> list[Sshd]:
        """Return every host where it was, new ones at the first addresses that are left."""
        subnet = self._network.subnet([server.address for server in recorded])
        previous = {s.alias: s for s in recorded if s.address.startswith(f"{subnet}.")}
        free_addresses = iter(sorted({f"{subnet}.{k}" for k in range(1, 100)} - {s.address for s in previous.values()}, key=_last_octet))
        masks = cpu_masks(self.hosts, self.min_server_cpus)
        unchanged = {server.alias for server in recorded} == set(self.hosts)
        unchanged &= read_lab_record(self.folder).get("least", 1) == self.min_server_cpus
        servers = []
        for alias in self.hosts:
            (self.folder / check_name("host", alias)).mkdir(exist_ok=True)
            previous_server = previous.get(alias)
            if previous_server and unchanged and previous_server.pid() is not None:
                servers.append(previous_server)
            else:
                servers.append(self._network.assign_server(alias, previous_server.address if previous_server else next(free_addresses), masks[alias], previous_server))
        return servers

    def _write_record(self, servers: Sequence[Sshd]) -> None:
        keys = [_key_line(server) for server in servers]
        write_atomic(self.folder / "known_hosts", "".join(keys).encode())
        write_atomic(self.hosts_file, "\n".join(self._hosts_file_entry(server) for server in servers).encode())
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
        write_json(self.folder / RECORD_FILE, {"kind": self.kind, "least": self.min_server_cpus, "hosts": hosts})

    def _hosts_file_entry(self, server: Sshd) -> str:
        values = {
            "roles": list(self.hosts[server.alias]),
            "address": self._network.service_address(server),
            "host_name": server.address,
            "port": server.port,
            "user": getpass.getuser(),
            "identity_file": str(self.folder / "user_key"),
            "workdir": str(server.workdir),
            "lock": str(lab_lock_file(server.workdir)),
            "service_port": server.service_port,
        }
        values |= {"cpus": list(server.cpus)} if server.cpus else {}
        # below /etc, which these hosts have to themselves, and which ends with them
        values |= {"may": list(self._network.permissions), "state": "/etc/loadbook"} if self._network.permissions else {}
        return format_entry(server.alias, values)


def _make_key(path: Path) -> None:
    if not path.is_file():
        command = [find_program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "loadbook lab", "-f", str(path)]
        subprocess.run(command, check=True, timeout=30, stdin=subprocess.DEVNULL)


def _key_line(server: Sshd) -> str:
    kind, blob = (server.folder / "host_key.pub").read_text().split()[:2]
    return f"{lookup_name(server.address, server.port)} {kind} {blob}\n"


def _last_octet(address: str) -> int:
    return int(address.rpartition(".")[2])
