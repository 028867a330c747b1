"""What one treatment needs on the hosts: who sits where and in which order they start, what is in front of whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from loadbook.core.errors import UsageError
from loadbook.design.role import Setting
from loadbook.design.study import Study
from loadbook.hosts.guard import door
from loadbook.hosts.host import Host
from loadbook.hosts.inventory import HostsFile
from loadbook.hosts.shell import cpu_list
from loadbook.services import Instance, Launch, Place, ServiceSpec, SystemInstance, render
from loadbook.tools.base import Target
from loadbook.trials.names import guard_name, service_name

if TYPE_CHECKING:
    from loadbook.trials.bench import Bench

HTTP_PORT = 80
LINE = "line"  # the role of the delay in userspace, on the driver's own host
LINE_SERVICE = "delay-line"


@dataclass(frozen=True, eq=False)
class Seat:
    """One service of one role on one host, and the TCP port that the role has there."""

    role: str
    alias: str
    spec: ServiceSpec
    port: int

    @property
    def mode(self) -> Literal["managed", "system"]:
        """A process of our own, or the host's own server."""
        return "system" if self.spec.tree else "managed"

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables of packet rules that it makes."""
        return tuple(table.replace("{{ port }}", str(self.port)) for table in self.spec.tables)


def start_order(study: Study) -> list[str]:
    """Return the study's roles, those behind before those in front of them."""
    ordered: dict[str, None] = {}

    def visit(role: str) -> None:
        if role not in ordered:
            for other in study.roles[role].backends:
                visit(other)
            ordered[role] = None

    for role in study.roles:
        visit(role)
    return list(ordered)


def chosen_hosts(inventory: HostsFile, role: str, setting: Setting) -> list[str]:
    """Return the aliases of a role that a setting uses."""
    return inventory.with_role(role)[: setting.hosts]


@dataclass(frozen=True, eq=False)
class Stage:
    """One treatment on the hosts of a bench; everything here is computed, nothing is asked of anybody."""

    bench: Bench
    treatment: str

    @property
    def study(self) -> Study:
        """The study."""
        return self.bench.plan.study

    def setting(self, role: str) -> Setting:
        """Return what the treatment makes of a role; of the delay in userspace, what the driver's role asks for."""
        if role != LINE:
            return self._settings[role]
        delay_ms = self._settings[self.study.workload.role].delay_ms
        return Setting(service=LINE_SERVICE, vars={"delay_ms": delay_ms}, backends=(self._first,))

    @cached_property
    def _settings(self) -> Mapping[str, Setting]:
        return {role: self.study.setting(self.treatment, role) for role in self.study.roles}

    @cached_property
    def _first(self) -> str:
        """The first role that the load comes to."""
        return self.study.target_of(self.treatment)

    @cached_property
    def seats(self) -> tuple[Seat, ...]:
        """The services that run under this treatment, in the order of their start."""
        roles = [role for role in start_order(self.study) if self.setting(role).service]
        found = [seat for role in roles for seat in self._seats_of(role)]
        return (*found, *self._line)

    @cached_property
    def _line(self) -> list[Seat]:
        wanted = self._settings[self.study.workload.role].delay_ms > 0
        return [seat for seat in self.bench.seats if seat.role == LINE] if wanted else []

    def _seats_of(self, role: str) -> list[Seat]:
        setting = self.setting(role)
        aliases = chosen_hosts(self.bench.inventory, role, setting)
        wanted = (role, setting.service, setting.mode)
        own = {s.alias: s for s in self.bench.seats if (s.role, s.spec.name, s.mode) == wanted}
        return [own[alias] for alias in aliases if alias in own]

    def levels(self) -> list[list[Seat]]:
        """Return the seats in groups that may start at one time: those of one role."""
        roles = dict.fromkeys(seat.role for seat in self.seats)
        return [[seat for seat in self.seats if seat.role == role] for role in roles]

    @property
    def target(self) -> Target:
        """What the load is aimed at: the delay in userspace, or the first host of the role that gets the load."""
        scheme = self.study.workload.scheme
        external = self.setting(self._first).external
        if external is not None and not self._line:
            address, _, port = external.partition(":")
            return Target(address, int(port or HTTP_PORT), scheme)
        seats = self._line or self._seats_of(self._first)
        if not seats:
            raise UsageError(f"the load's target {self._first!r} has neither a service nor an external address")
        return Target(self.bench.hosts[seats[0].alias].address, seats[0].port, scheme)

    def asker(self, seat: Seat) -> Host:
        """Return the host that asks a service whether it is there: the one whose requests will come to it."""
        front = next((s for s in self.seats if seat.role in self.setting(s.role).backends), None)
        alias = self.bench.drivers[0] if front is None or front.role == LINE else front.alias
        return self.bench.hosts[alias]

    def place(self, seat: Seat, stem: str) -> Place:
        """Return folder, address and port of a service, and what its templates see of the others."""
        behind = {role: self._backends(role, seat, stem) for role in self.setting(seat.role).backends}
        first = next(iter(behind.values()), [])
        extra = {"backends": first, "behind": behind, "node": seat.alias, "cpus": self.cpus(seat)}
        extra["also_at"] = self.also_at(seat)
        return Place.on(self.bench.hosts[seat.alias], service_name(stem, seat.role), seat.port, extra)

    def also_at(self, seat: Seat) -> list[str]:
        """Return the addresses of those in front of a service whose clients it answers itself."""
        fronts = [s for s in self.seats if s.spec.direct_return and seat.role in self.setting(s.role).backends]
        return [self.bench.hosts[front.alias].address for front in fronts]

    def _backends(self, role: str, asked_by: Seat, stem: str) -> list[dict[str, Any]]:
        external = self.setting(role).external
        if external is not None:
            address, _, port = external.partition(":")
            return [_backend(role, address, int(port or HTTP_PORT), "", local=False)]
        return [self._backend_at(seat, asked_by, stem) for seat in self._seats_of(role)]

    def _backend_at(self, seat: Seat, asked_by: Seat, stem: str) -> dict[str, Any]:
        host = self.bench.hosts[seat.alias]
        folder = Place.on(host, service_name(stem, seat.role), seat.port).dir
        here = seat.alias == asked_by.alias or bool(self.bench.lab or self.bench.replay)  # a lab is one machine
        return _backend(seat.alias, host.address, seat.port, folder, local=here)

    def cpus(self, seat: Seat) -> list[int]:
        """Return the CPUs that a service may use; UsageError when its host has fewer than the study names."""
        own = sorted(self.bench.cpus_of(seat.alias) or self.bench.host_cpus.get(seat.alias, ()) or (0,))
        wanted = self.setting(seat.role).cpus
        if wanted == "all":
            return own
        numbers = sorted(cpu_list(wanted))
        if numbers[-1] >= len(own):
            raise UsageError(
                f"role {seat.role} of treatment {self.treatment} is to run on CPU {wanted}, counted from 0, "
                f"of host {seat.alias}, which has {len(own)}",
                "choose other levels, other hosts, or wider `cpus` in the hosts file",
            )
        return [own[number] for number in numbers]

    @property
    def load_launch(self) -> Launch:
        """How the load generator is started on every driver."""
        return Launch(nofile=self.setting(self.bench.plan.study.workload.role).nofile)

    def launch(self, seat: Seat, stem: str = "") -> Launch:
        """Return how the processes of a service are started, in the attempt whose jobs are named after `stem`."""
        setting = self.setting(seat.role)
        cpus = () if setting.cpus == "all" else tuple(self.cpus(seat))
        quota = f"{self.bench.hosts[seat.alias].workdir}/{door(guard_name(stem), seat.role)}" if stem else ""
        return Launch(cpus=cpus, nofile=setting.nofile, door=quota if setting.cpu_quota else "")


def make_instance(stage: Stage, seat: Seat, stem: str, lease_s: float, token: str | None = None) -> Instance:
    """Return the instance of a service, rendered but not touched; its jobs and folders are named after `stem`."""
    host, setting, name = stage.bench.hosts[seat.alias], stage.setting(seat.role), service_name(stem, seat.role)
    main = None if setting.config_text is None else setting.config_text.encode()
    rendered = render(seat.spec, setting.vars, stage.place(seat, stem), token, main=main)
    kind = SystemInstance if seat.spec.tree else Instance
    return kind(host, seat.spec, rendered, name=name, lease_s=lease_s, launch=stage.launch(seat, stem))


def _backend(node: str, address: str, port: int, folder: str, *, local: bool) -> dict[str, Any]:
    return {"node": node, "address": address, "port": port, "dir": folder, "local": local}


def seat_all(study: Study, treatments: Iterable[str], inventory: HostsFile, specs: Mapping[str, ServiceSpec],
             drivers: Sequence[str]) -> tuple[Seat, ...]:  # fmt: skip
    """Place every service that any treatment uses; the roles on one host get ports one apart."""
    treatments = list(treatments)
    taken: dict[str, list[str]] = {}
    found: dict[tuple[str, str, str, str], Seat] = {}
    for role, alias, service, mode in _wanted(study, treatments, inventory, drivers, LINE_SERVICE in specs):
        roles = taken.setdefault(alias, [])
        roles += [role] if role not in roles else []
        port = inventory.hosts[alias].service_port + roles.index(role)
        if (role, alias, service, mode) not in found:
            spec = specs[service].as_system() if mode == "system" else specs[service]
            found[role, alias, service, mode] = Seat(role, alias, spec, port)
    return tuple(found.values())


def _wanted(
    study: Study, treatments: Sequence[str], inventory: HostsFile, drivers: Sequence[str], lined: bool
) -> Iterator[tuple[str, str, str, str]]:
    for role in study.roles:
        for treatment in treatments:
            setting = study.setting(treatment, role)
            for alias in chosen_hosts(inventory, role, setting) if setting.service else ():
                yield role, alias, str(setting.service), setting.mode
    if lined:
        yield LINE, drivers[0], LINE_SERVICE, "managed"
