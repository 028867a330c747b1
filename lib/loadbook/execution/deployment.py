"""The deployment of one treatment on the hosts, and the names of an attempt's jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from loadbook.core.errors import UsageError
from loadbook.hosts.host import Host
from loadbook.hosts.inventory import HostsFile
from loadbook.hosts.rollback import cgroup_file
from loadbook.hosts.shell import cpu_list
from loadbook.services import Instance, InstanceContext, LaunchOptions, ServiceSpec, SystemInstance, render
from loadbook.study.model import Study
from loadbook.study.treatments import Setting
from loadbook.tools.base import Target

if TYPE_CHECKING:
    from loadbook.execution.testbed import Testbed


def job_stem(run: str, trial: str, attempt: int) -> str:
    """Return the prefix of all job names of one attempt."""
    return f"{run}-{trial}-a{attempt}"


def preflight_stem(run: str) -> str:
    """Return the prefix of the jobs and folders of a run's checks."""
    return f"{run}-preflight"


# parts of an attempt that have jobs; each service is a part with the name of its role
LOAD, MONITOR, CHANGES = "load", "monitor", "guard"


def job_name(stem: str, part: str) -> str:
    """Return the name of a job of the attempt with the prefix `stem`; a service's folder has the name of its job."""
    return f"{stem}-{part}"


def job_names(stem: str, roles: Iterable[str]) -> list[str]:
    """Return the names of all jobs that an attempt may have on a host; the job that restores settings is last."""
    return [job_name(stem, part) for part in (LOAD, MONITOR, *roles, CHANGES)]


HTTP_PORT = 80
DELAY_ROLE = "line"  # the role of the delay in userspace, on the driver's own host
DELAY_SERVICE = "delay-line"


@dataclass(frozen=True, eq=False)
class Placement:
    """One service of one role on one host, and the TCP port that the role has there under every treatment."""

    role: str
    alias: str
    spec: ServiceSpec
    port: int

    @property
    def mode(self) -> Literal["managed", "system"]:
        """managed: a process of our own; system: the host's own server."""
        return "system" if self.spec.tree else "managed"

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables of packet rules that it creates."""
        return tuple(table.replace("{{ port }}", str(self.port)) for table in self.spec.tables)

    @property
    def changes_host(self) -> bool:
        """Whether the service changes kernel settings or packet rules of its whole host."""
        return bool(self.spec.tree or self.spec.sysctls or self.spec.tables or self.spec.direct_return)


def start_order(study: Study) -> list[str]:
    """Return the study's roles, backends first."""
    ordered: dict[str, None] = {}

    def visit(role: str) -> None:
        if role not in ordered:
            for other in study.roles[role].backends:
                visit(other)
            ordered[role] = None

    for role in study.roles:
        visit(role)
    return list(ordered)


def hosts_for_role(inventory: HostsFile, role: str, setting: Setting) -> list[str]:
    """Return the aliases of a role that a setting uses."""
    return inventory.with_role(role)[: setting.hosts]


@dataclass(frozen=True, eq=False)
class Deployment:
    """One treatment on the hosts of a testbed; computed from study and hosts file, without contact to a host.

    `arm` is its number among the treatments that are up at once; each has ports of its own.
    """

    testbed: Testbed
    treatment: str
    arm: int = 0

    @property
    def study(self) -> Study:
        """The study."""
        return self.testbed.plan.study

    def setting(self, role: str) -> Setting:
        """Return the setting of a role under the treatment; the delay in userspace takes that of the driver's role."""
        if role != DELAY_ROLE:
            return self._settings[role]
        delay_ms, target = self._settings[self.study.workload.role].delay_ms, self.study.target_of(self.treatment)
        return Setting(service=DELAY_SERVICE, vars={"delay_ms": delay_ms}, backends=(target,))

    @cached_property
    def _settings(self) -> Mapping[str, Setting]:
        return {role: self.study.setting(self.treatment, role) for role in self.study.roles}

    @cached_property
    def placements(self) -> tuple[Placement, ...]:
        """The services of this treatment, in the order of their start."""
        roles = [role for role in start_order(self.study) if self.setting(role).service]
        placements = [placement for role in roles for placement in self._placements_of(role)]
        return (*placements, *self._delay_placements)

    @cached_property
    def _delay_placements(self) -> list[Placement]:
        if self._settings[self.study.workload.role].delay_ms <= 0:
            return []
        return [placement for placement in self.testbed.placements if placement.role == DELAY_ROLE]

    def _placements_of(self, role: str) -> list[Placement]:
        setting = self.setting(role)
        wanted = (role, setting.service, setting.mode)
        own = {s.alias: s for s in self.testbed.placements if (s.role, s.spec.name, s.mode) == wanted}
        return [own[alias] for alias in hosts_for_role(self.testbed.inventory, role, setting) if alias in own]

    def start_groups(self) -> list[list[Placement]]:
        """Return the placements in groups that may start at the same time, one group per role."""
        roles = dict.fromkeys(placement.role for placement in self.placements)
        return [[placement for placement in self.placements if placement.role == role] for role in roles]

    @property
    def target(self) -> Target:
        """The target of the load: the delay in userspace, or the first host of the target role."""
        scheme, role = self.study.workload.scheme, self.study.target_of(self.treatment)
        external = self.setting(role).external
        if external is not None and not self._delay_placements:
            return Target(*_address_and_port(external), scheme)
        placements = self._delay_placements or self._placements_of(role)
        if not placements:
            raise UsageError(f"the load's target {role!r} has neither a service nor an external address")
        return Target(self.testbed.hosts[placements[0].alias].address, self.port(placements[0]), scheme)

    def port(self, placement: Placement) -> int:
        """Return the TCP port of a service under this treatment."""
        return placement.port + self.arm * (len(self.study.roles) + 1)

    def client_host(self, placement: Placement) -> Host:
        """Return the host that probes a service: the one that will send requests to it."""
        front = next((s for s in self.placements if placement.role in self.setting(s.role).backends), None)
        alias = self.testbed.drivers[0] if front is None or front.role == DELAY_ROLE else front.alias
        return self.testbed.hosts[alias]

    def instance_context(self, placement: Placement, stem: str) -> InstanceContext:
        """Return folder, address and port of a service, and the values of other services for its templates."""
        behind = {role: self._backends(role, placement, stem) for role in self.setting(placement.role).backends}
        extra = {
            "backends": next(iter(behind.values()), []),
            "behind": behind,
            "node": placement.alias,
            "cpus": self.cpus(placement),
            "also_at": self.direct_return_addresses(placement),
        }
        return self._own_context(placement, stem, extra)

    def _own_context(self, placement: Placement, stem: str, extra: Mapping[str, Any] | None = None) -> InstanceContext:
        host, name = self.testbed.hosts[placement.alias], job_name(stem, placement.role)
        return InstanceContext.for_instance(host, name, self.port(placement), extra)

    def direct_return_addresses(self, placement: Placement) -> list[str]:
        """Return the addresses of balancers whose clients this service answers directly."""
        fronts = [front for front in self.placements if placement.role in self.setting(front.role).backends]
        return [self.testbed.hosts[front.alias].address for front in fronts if front.spec.direct_return]

    def _backends(self, role: str, front: Placement, stem: str) -> list[dict[str, Any]]:
        external = self.setting(role).external
        if external is not None:
            address, port = _address_and_port(external)
            return [{"node": role, "address": address, "port": port, "dir": "", "local": False}]
        one_machine = bool(self.testbed.lab or self.testbed.replayed_run)
        return [
            {
                "node": placement.alias,
                "address": self.testbed.hosts[placement.alias].address,
                "port": self.port(placement),
                "dir": self._own_context(placement, stem).dir,
                "local": one_machine or placement.alias == front.alias,
            }
            for placement in self._placements_of(role)
        ]

    def cpus(self, placement: Placement) -> list[int]:
        """Return the CPUs that a service may use; UsageError when its host has fewer than the study names."""
        own = sorted(self.testbed.cpus_of(placement.alias) or self.testbed.host_cpus.get(placement.alias, ()) or (0,))
        wanted = self.setting(placement.role).cpus
        if wanted == "all":
            return own
        numbers = sorted(cpu_list(wanted))
        if numbers[-1] >= len(own):
            raise UsageError(
                f"role {placement.role} of treatment {self.treatment} is to run on CPU {wanted}, counted from 0, "
                f"of host {placement.alias}, which has {len(own)}",
                "choose other levels, other hosts, or wider `cpus` in the hosts file",
            )
        return [own[number] for number in numbers]

    @property
    def load_launch(self) -> LaunchOptions:
        """Launch options of the load generator on every driver."""
        return LaunchOptions(nofile=self.setting(self.study.workload.role).nofile)

    def launch(self, placement: Placement, stem: str = "") -> LaunchOptions:
        """Return the launch options of a service in the attempt with the prefix `stem`."""
        setting = self.setting(placement.role)
        cpus = () if setting.cpus == "all" else tuple(self.cpus(placement))
        group = ""
        if stem and setting.cpu_quota:
            folder = self.testbed.hosts[placement.alias].workdir
            group = f"{folder}/{cgroup_file(job_name(stem, CHANGES), placement.role)}"
        return LaunchOptions(cpus=cpus, nofile=setting.nofile, cgroup_file=group)

    def make_instance(self, placement: Placement, stem: str, lease_s: float, token: str | None = None) -> Instance:
        """Return a rendered instance of a service; its jobs and folders are named after `stem`."""
        host, name = self.testbed.hosts[placement.alias], job_name(stem, placement.role)
        setting, launch = self.setting(placement.role), self.launch(placement, stem)
        main = None if setting.config_text is None else setting.config_text.encode()
        rendered = render(placement.spec, setting.vars, self.instance_context(placement, stem), token, main=main)
        kind = SystemInstance if placement.spec.tree else Instance
        return kind(host, placement.spec, rendered, name=name, lease_s=lease_s, launch=launch)


def _address_and_port(external: str) -> tuple[str, int]:
    address, _, port = external.partition(":")
    return address, int(port or HTTP_PORT)


def place_services(
    study: Study,
    treatments: Iterable[str],
    inventory: HostsFile,
    specs: Mapping[str, ServiceSpec],
    drivers: Sequence[str],
) -> tuple[Placement, ...]:
    """Place every service of any treatment; roles on one host get consecutive ports."""
    treatments = list(treatments)
    needed = [
        (role, alias, str(setting.service), setting.mode)
        for role in study.roles
        for setting in [study.setting(treatment, role) for treatment in treatments]
        for alias in (hosts_for_role(inventory, role, setting) if setting.service else ())
    ]
    if DELAY_SERVICE in specs:
        needed.append((DELAY_ROLE, drivers[0], DELAY_SERVICE, "managed"))
    roles_on: dict[str, list[str]] = {}
    placed = []
    for role, alias, service, mode in dict.fromkeys(needed):
        roles = roles_on.setdefault(alias, [])
        roles += [role] if role not in roles else []
        spec = specs[service].as_system() if mode == "system" else specs[service]
        placed.append(Placement(role, alias, spec, inventory.hosts[alias].service_port + roles.index(role)))
    return tuple(placed)
