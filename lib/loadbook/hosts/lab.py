"""The lab: one real sshd per host alias on this machine, on loopback addresses or in network namespaces.

Newcomers, tests and CI thus use the same code as runs on real machines (SSH by Paramiko, strict host keys). Keys are
deleted with the lab's folder; every host has its own work folder, ports and CPU mask.
"""

from __future__ import annotations

import fcntl
import getpass
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from loadbook.core import clock
from loadbook.core.errors import UsageError
from loadbook.hosts.inventory import format_entry
from loadbook.hosts.jobs import LockOwner, launcher_script, parse_owners
from loadbook.hosts.keys import lookup_name
from loadbook.hosts.netns import NamespaceNetwork
from loadbook.hosts.remote import connect
from loadbook.hosts.sshd import LabNetwork, Sshd, find_program
from loadbook.store.atomic import write_atomic
from loadbook.store.paths import check_name
from loadbook.store.trial_record import read_json, write_json

DRIVER, BALANCER = "driver", "balancer"
RECORD_FILE = "lab.json"
MAX_HOSTS = 32
LAB_LOCK_TIMEOUT_S = 120.0
Roles = tuple[str, ...]


def plan_hosts(
    current: Mapping[str, Roles], exact_counts: Mapping[str, int], min_counts: Mapping[str, int]
) -> dict[str, Roles]:
    """Return alias -> roles after changing a lab to the requested number of hosts per role.

    `current` is alias -> roles, both counts are role -> number of hosts. `exact_counts` may remove hosts,
    `min_counts` only adds hosts. UsageError for a plan without a driver or with more than MAX_HOSTS hosts.

    A role's hosts are called `web`, `web-2`, `web-3`, ... Remaining hosts keep their order and new ones come last, so
    that addresses do not change.
    """
    known_roles = (*_roles_of(current), *min_counts, *exact_counts)
    counts = {role: sum(role in roles for roles in current.values()) for role in known_roles}
    for role, count in min_counts.items():
        counts[role] = max(counts[role], count)
    counts |= exact_counts
    if counts.get(DRIVER, 0) < 1 or min(counts.values()) < 0 or sum(counts.values()) > MAX_HOSTS:
        requested = ", ".join(f"{role}={count}" for role, count in counts.items())
        raise UsageError(f"a lab has a {DRIVER} and at most {MAX_HOSTS} hosts, not {requested}")
    aliases = {role: [role, *(f"{role}-{number}" for number in range(2, count + 1))] for role, count in counts.items()}
    planned_hosts = {alias: (role,) for role, count in counts.items() for alias in aliases[role][:count]}
    kept_hosts = {alias: roles for alias, roles in current.items() if alias in planned_hosts}
    return kept_hosts | {check_name("host", a): roles for a, roles in planned_hosts.items() if a not in kept_hosts}


def read_lab_record(folder: Path) -> dict[str, Any]:
    """Return the record (lab.json) of the lab in `folder`: `kind`, and `hosts`, alias -> address, ports, roles, CPUs.

    For a lab that was never started, the kind is "loopback" and `hosts` is empty.
    """
    path = folder / RECORD_FILE
    record: dict[str, Any] = read_json(path) if path.is_file() else {}
    if "hosts" not in record:  # record of an older version: only the hosts, named after their role
        hosts = {alias: {**host, "roles": [alias.partition("-")[0]]} for alias, host in record.items()}
        record = {"kind": "loopback", "hosts": hosts}
    return record


def lab_kind(hosts_file: Path) -> str:
    """Return the kind ("loopback", "netns") of the lab that a hosts file belongs to; "" if it belongs to none."""
    record = hosts_file.absolute().parent / RECORD_FILE
    return str(read_json(record).get("kind", "loopback")) if record.is_file() else ""


def _roles_of(hosts: Mapping[str, Roles]) -> list[str]:
    """Return the roles of all hosts without duplicates, in the order of the hosts."""
    return list(dict.fromkeys(role for roles in hosts.values() for role in roles))


def cpu_masks(hosts: Mapping[str, Roles], min_server_cpus: int = 1) -> dict[str, tuple[int, ...] | None]:
    """Divide the available CPUs among `hosts` (alias -> roles); drivers never share a CPU with servers.

    If there are enough CPUs, every host has its own; with fewer CPUs, every role has its own (all `web` hosts share
    theirs, `balancer` has others); with fewer still, as on two CPUs, the drivers have one and all servers share the
    rest. On a machine with one CPU there are no masks (None): driver and server then disturb each other, which a
    validity rule reports. There are no masks either if they would leave a server fewer than `min_server_cpus` CPUs
    although the machine has that many (studies of CPU placement need them).
    """
    cpus, masks = sorted(os.sched_getaffinity(0)), _distribute_cpus(hosts)
    too_few = any(mask and len(mask) < min_server_cpus for alias, mask in masks.items() if DRIVER not in hosts[alias])
    return dict.fromkeys(hosts) if too_few and min_server_cpus <= len(cpus) else masks


def _distribute_cpus(hosts: Mapping[str, Roles]) -> dict[str, tuple[int, ...] | None]:
    cpus, roles = sorted(os.sched_getaffinity(0)), _roles_of(hosts)
    if len(cpus) < 2:
        return dict.fromkeys(hosts)
    if len(cpus) >= len(hosts):
        return dict(zip(hosts, _split_cpus(cpus, len(hosts)), strict=True))
    shares = dict.fromkeys(roles, tuple(cpus[1:])) | {DRIVER: (cpus[0],)}
    if len(cpus) >= len(roles):
        shares = dict(zip(roles, _split_cpus(cpus, len(roles)), strict=True))
    return {alias: shares[DRIVER if DRIVER in own_roles else own_roles[0]] for alias, own_roles in hosts.items()}


def _split_cpus(cpus: Sequence[int], parts: int) -> list[tuple[int, ...]]:
    """Split a list of CPUs into `parts` contiguous parts of nearly equal size."""
    edges = [k * len(cpus) // parts for k in range(parts + 1)]
    return [tuple(cpus[edges[k] : edges[k + 1]]) for k in range(parts)]


OWNERS_TIMEOUT_S = 20.0


def lab_lock_file(workdir: Path) -> Path:
    """Return the lock file of a lab host; every lab host has its own lock, although all share one machine."""
    return workdir / "host.lock"


def lab_lock_owners(workdir: Path) -> list[LockOwner]:
    """Return the owners of the lock of the lab host with this work folder; empty if it is not in use."""
    if not workdir.is_dir():
        return []
    command = ["/bin/sh", "-c", launcher_script()[1].decode(), "job.sh", "owners", str(lab_lock_file(workdir))]
    done = subprocess.run(
        command, cwd=workdir, stdin=subprocess.DEVNULL, capture_output=True, timeout=OWNERS_TIMEOUT_S, check=False
    )
    return parse_owners(done.stdout)


def check_idle(servers: Sequence[Sshd]) -> None:
    """Raise UsageError if a run uses one of these hosts, which are about to be stopped."""
    for server in servers:
        if owners := lab_lock_owners(server.workdir):
            problem = f"host {server.alias} of the lab is in use by {owners[0].description}"
            hint = "wait for its end, or end it: loadbook lab down"
            raise UsageError(f"{problem}, and would have to be changed", hint)


DEFAULT_HOSTS: Mapping[str, Roles] = {DRIVER: (DRIVER,), "web": ("web",)}
LabKind = Literal["loopback", "netns"]


class LabHostStatus(NamedTuple):
    """State of one lab host: `pid` of its sshd (None if it is down); `link_cut` is True while its link is cut."""

    alias: str
    address: str
    port: int
    pid: int | None
    cpus: tuple[int, ...] | None
    link_cut: bool = False


@dataclass(frozen=True)
class Lab:
    """The lab in `folder` with `hosts` (alias -> roles); a loopback lab uses `net_prefix`.1, `net_prefix`.2, ...

    With an empty `net_prefix` the lab keeps its recorded addresses; a new one gets addresses of its own.
    `min_server_cpus` is the number of CPUs that every server must have, even if it then shares them with the driver.
    """

    folder: Path
    hosts: Mapping[str, Roles] = field(default_factory=lambda: dict(DEFAULT_HOSTS))
    net_prefix: str = ""
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
        """Return the lab in `folder` with its recorded and requested hosts; a new one has a driver and a web host.

        Parameters
        ----------
        drivers : number of drivers; None: as many as recorded.
        roles : role -> exact number of hosts; 0 removes them.
        min_hosts : role -> minimum number of hosts, as a study needs.
        kind : kind of lab; None: as recorded (`loopback` for a new lab).
        min_server_cpus : CPUs that every server must have; None: as recorded (1 for a new lab).
        """
        record = read_lab_record(folder)
        current = {alias: tuple(host["roles"]) for alias, host in record["hosts"].items()} or DEFAULT_HOSTS
        exact_counts = dict(roles or {}) | ({DRIVER: drivers} if drivers else {})
        hosts = plan_hosts(current, exact_counts, min_hosts or {})
        return cls(
            folder, hosts, kind=kind or record["kind"], min_server_cpus=min_server_cpus or record.get("least", 1)
        )

    @property
    def hosts_file(self) -> Path:
        """Return the hosts file that `up` writes; `up` writes known_hosts to the same folder."""
        return self.folder / "hosts.toml"

    @cached_property
    def _network(self) -> LabNetwork:
        if self.kind == "loopback":
            return LabNetwork(self.folder, self.net_prefix)
        balancers = frozenset(alias for alias, roles in self.hosts.items() if BALANCER in roles)
        return NamespaceNetwork(self.folder, balancers=balancers)

    def up(self) -> list[LabHostStatus]:
        """Start every host that is down, log in to each, and return their states; running hosts are left alone.

        If the set of hosts has changed, CPUs are divided anew, and hosts whose CPU mask changes are restarted. A lab
        of the other kind is stopped first. UsageError if this kind of lab is impossible on this machine, or if a run
        uses a host that would be restarted.
        """
        self._network.check()
        with self._locked():
            self._prepare_kind()
            _make_key(self.folder / "user_key")
            recorded = self._recorded_servers()
            servers = self._assigned_servers(recorded)
            check_idle([server for server in recorded if server not in servers])
            removed = [server for server in recorded if server.alias not in self.hosts]
            for server in removed:
                server.stop()
            self._network.clear([server.alias for server in removed])
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
        """Stop every host and all processes started on it, and remove its namespace; return the states."""
        if self.folder.is_dir():
            self._network.check()
            with self._locked():
                self._stop_all()
        return self.status()

    def owners(self) -> list[LockOwner]:
        """Return the runs that use hosts of the lab, without duplicates."""
        owners = [owner for server in self._recorded_servers() for owner in lab_lock_owners(server.workdir)]
        return list({owner.id: owner for owner in owners}.values())

    def status(self) -> list[LabHostStatus]:
        """Return the state of every host; nothing is changed."""
        cut = self._network.is_link_cut
        return [LabHostStatus(s.alias, s.address, s.port, s.pid(), s.cpus, cut(s)) for s in self._recorded_servers()]

    def cut_link(self, alias: str, seconds: float) -> None:
        """Disconnect a host from all others and the controller for `seconds` (at most 600).

        UsageError in a loopback lab.
        """
        self._network.cut_link(self._recorded_server(alias), seconds)

    def restore_link(self, alias: str) -> None:
        """Reconnect a host that was disconnected by `cut_link`."""
        self._network.restore_link(self._recorded_server(alias))

    def _recorded_server(self, alias: str) -> Sshd:
        servers = {server.alias: server for server in self._recorded_servers()}
        if alias not in servers:
            raise UsageError(f"the lab has no host {alias!r}", f"hosts: {', '.join(servers) or 'none yet'}")
        return servers[alias]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lab's lock, so that no other process changes it; UsageError after LAB_LOCK_TIMEOUT_S seconds."""
        if '"' in str(self.folder) or "\n" in str(self.folder):
            raise UsageError(f"the lab cannot live in {self.folder}", "sshd cannot read that path")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        with (self.folder / "lock").open("w") as handle:
            if not clock.wait_until(lambda: _takes_lock(handle), LAB_LOCK_TIMEOUT_S, 0.1):
                problem = f"the lab in {self.folder} is being changed by another command for {LAB_LOCK_TIMEOUT_S:g} s"
                raise UsageError(problem, "wait for its end, or end it")
            yield

    def _prepare_kind(self) -> None:
        """Stop a lab of the other kind; record the new kind before any host starts, so that `down` can clean up."""
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

    def _recorded_servers(self) -> list[Sshd]:
        """Return the hosts of the last start of this kind of lab; empty if the lab is of the other kind."""
        record = read_lab_record(self.folder)
        servers = []
        for alias, host in record["hosts"].items() if record["kind"] == self.kind else ():
            cpus, folder = host["cpus"] and tuple(host["cpus"]), self.folder / alias
            servers.append(Sshd(alias, host["address"], host["port"], host["service_port"], cpus, folder))
        return [self._network.with_enter_command(server) for server in servers]

    def _assigned_servers(self, recorded: Sequence[Sshd]) -> list[Sshd]:
        """Return the hosts of the lab: known hosts keep their addresses, new ones get the first free addresses."""
        subnet = self._network.subnet(recorded)
        previous = {s.alias: s for s in recorded if s.address.startswith(f"{subnet}.")}
        taken = {server.address for server in previous.values()}
        free_addresses = (address for k in range(1, 100) if (address := f"{subnet}.{k}") not in taken)
        masks = cpu_masks(self.hosts, self.min_server_cpus)
        unchanged = {server.alias for server in recorded} == set(self.hosts)
        unchanged &= read_lab_record(self.folder).get("least", 1) == self.min_server_cpus
        servers = []
        for alias in self.hosts:
            (self.folder / check_name("host", alias)).mkdir(exist_ok=True)
            server = previous.get(alias)
            if not (server and unchanged and server.pid() is not None):
                address = server.address if server else next(free_addresses)
                server = self._network.assign_server(alias, address, masks[alias], server)
            servers.append(server)
        return servers

    def _write_record(self, servers: Sequence[Sshd]) -> None:
        key_lines, hosts = [], {}
        for server in servers:
            kind, blob = (server.folder / "host_key.pub").read_text().split()[:2]
            key_lines.append(f"{lookup_name(server.address, server.port)} {kind} {blob}\n")
            place = {"address": server.address, "port": server.port, "service_port": server.service_port}
            hosts[server.alias] = {"roles": self.hosts[server.alias], **place, "cpus": server.cpus}
        write_atomic(self.folder / "known_hosts", "".join(key_lines).encode())
        write_atomic(self.hosts_file, "\n".join(map(self._hosts_file_entry, servers)).encode())
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
        if permissions := self._network.permissions:
            # below /etc, of which every namespace host has a private copy that is gone when the host stops
            values |= {"allow": list(permissions), "state": "/etc/loadbook"}
        return format_entry(server.alias, values)


def _make_key(path: Path) -> None:
    if not path.is_file():
        command = [find_program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "loadbook lab", "-f", str(path)]
        subprocess.run(command, check=True, timeout=30, stdin=subprocess.DEVNULL)


def _takes_lock(file: IO[str]) -> bool:
    """Lock a file unless another process holds its lock; return whether it is locked now."""
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
