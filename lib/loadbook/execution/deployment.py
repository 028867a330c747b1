"""Names of an attempt's jobs and folders, and the deployment of one treatment on the hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from loadbook.core.errors import UsageError
from loadbook.hosts.host import Host
from loadbook.hosts.inventory import HostsFile
from loadbook.hosts.rollback import cgroup_file
from loadbook.hosts.shell import cpu_list
from loadbook.services import Instance, InstanceContext, LaunchOptions, ServiceSpec, SystemInstance, render
from loadbook.store.paths import RunPaths
from loadbook.store.trial_record import TrialRecord
from loadbook.study.model import Study
from loadbook.study.plan import PlannedTrial
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


def load_job_name(stem: str) -> str:
    """Return the name of the load's job."""
    return f"{stem}-load"


def monitor_job_name(stem: str) -> str:
    """Return the name of the monitors' job."""
    return f"{stem}-monitor"


def service_job_name(stem: str, role: str) -> str:
    """Return the name of a service's job and folder."""
    return f"{stem}-{role}"


def changes_job_name(stem: str) -> str:
    """Return the name of the job that changes a host's settings and puts them back."""
    return f"{stem}-guard"


def job_names(stem: str, roles: Iterable[str]) -> list[str]:
    """Return the names of all jobs that an attempt may have on a host; the job that restores settings is last."""
    return [
        load_job_name(stem),
        monitor_job_name(stem),
        *(service_job_name(stem, role) for role in roles),
        changes_job_name(stem),
    ]


def staging_folder(paths: RunPaths, trial: str, attempt: int) -> Path:
    """Return the folder in which an attempt's files are collected until it is published."""
    return paths.raw / "staging" / f"{trial}-attempt{attempt}"


def failed_folder(paths: RunPaths, trial: str, attempt: int) -> Path:
    """Return the folder of a failed attempt."""
    return paths.failed / f"{trial}-attempt{attempt}"


def initial_record(testbed: Testbed, planned: PlannedTrial, attempt: int) -> TrialRecord:
    """Return the record of an attempt that has just begun; its status is that of a controller that died."""
    study = testbed.plan.study
    load = study.workload_of(planned.treatment)
    return TrialRecord(
        study=study.name,
        run=testbed.run,
        trial=planned.trial,
        treatment=planned.treatment,
        factors={name: str(level) for name, level in study.levels_of(planned.treatment).items()},
        block=planned.block,
        slot=planned.slot,
        attempt=attempt,
        status="lost",
        reason="the controller ended during this attempt",
        tool=load.tool,
        tool_version=next((v for (_, tool), v in testbed.tool_versions.items() if tool == load.tool), None),
        workload=load.model_dump(mode="json"),
    )


HTTP_PORT = 80
DELAY_ROLE = "line"  # the role of the delay in userspace, on the driver's own host
DELAY_SERVICE = "delay-line"


@dataclass(frozen=True, eq=False)
class Placement:
    """One service of one role on one host, and the TCP port that the role has there."""

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
    """One treatment on the hosts of a testbed; computed from study and hosts file, without contact to a host."""

    testbed: Testbed
    treatment: str

    @property
    def study(self) -> Study:
        """The study."""
        return self.testbed.plan.study

    def setting(self, role: str) -> Setting:
        """Return the setting of a role under the treatment; the delay in userspace takes that of the driver's role."""
        if role != DELAY_ROLE:
            return self._settings[role]
        delay_ms = self._settings[self.study.workload.role].delay_ms
        return Setting(service=DELAY_SERVICE, vars={"delay_ms": delay_ms}, backends=(self._target_role,))

    @cached_property
    def _settings(self) -> Mapping[str, Setting]:
        return {role: self.study.setting(self.treatment, role) for role in self.study.roles}

    @cached_property
    def _target_role(self) -> str:
        """The first role that receives the load."""
        return self.study.target_of(self.treatment)

    @cached_property
    def placements(self) -> tuple[Placement, ...]:
        """The services of this treatment, in the order of their start."""
        roles = [role for role in start_order(self.study) if self.setting(role).service]
        placements = [placement for role in roles for placement in self._placements_of(role)]
        return (*placements, *self._delay_placements)

    @cached_property
    def _delay_placements(self) -> list[Placement]:
        needs_delay = self._settings[self.study.workload.role].delay_ms > 0
        return (
            [placement for placement in self.testbed.placements if placement.role == DELAY_ROLE] if needs_delay else []
        )

    def _placements_of(self, role: str) -> list[Placement]:
        setting = self.setting(role)
        aliases = hosts_for_role(self.testbed.inventory, role, setting)
        wanted = (role, setting.service, setting.mode)
        own = {s.alias: s for s in self.testbed.placements if (s.role, s.spec.name, s.mode) == wanted}
        return [own[alias] for alias in aliases if alias in own]

    def start_groups(self) -> list[list[Placement]]:
        """Return the placements in groups that may start at the same time, one group per role."""
        roles = dict.fromkeys(placement.role for placement in self.placements)
        return [[placement for placement in self.placements if placement.role == role] for role in roles]

    @property
    def target(self) -> Target:
        """The target of the load: the delay in userspace, or the first host of the target role."""
        scheme = self.study.workload.scheme
        external = self.setting(self._target_role).external
        if external is not None and not self._delay_placements:
            address, _, port = external.partition(":")
            return Target(address, int(port or HTTP_PORT), scheme)
        placements = self._delay_placements or self._placements_of(self._target_role)
        if not placements:
            raise UsageError(f"the load's target {self._target_role!r} has neither a service nor an external address")
        return Target(self.testbed.hosts[placements[0].alias].address, placements[0].port, scheme)

    def client_host(self, placement: Placement) -> Host:
        """Return the host that probes a service: the one that will send requests to it."""
        front = next((s for s in self.placements if placement.role in self.setting(s.role).backends), None)
        alias = self.testbed.drivers[0] if front is None or front.role == DELAY_ROLE else front.alias
        return self.testbed.hosts[alias]

    def instance_context(self, placement: Placement, stem: str) -> InstanceContext:
        """Return folder, address and port of a service, and the values of other services for its templates."""
        behind = {role: self._backends(role, placement, stem) for role in self.setting(placement.role).backends}
        first = next(iter(behind.values()), [])
        extra = {"backends": first, "behind": behind, "node": placement.alias, "cpus": self.cpus(placement)}
        extra["also_at"] = self.direct_return_addresses(placement)
        return InstanceContext.for_instance(
            self.testbed.hosts[placement.alias], service_job_name(stem, placement.role), placement.port, extra
        )

    def direct_return_addresses(self, placement: Placement) -> list[str]:
        """Return the addresses of balancers whose clients this service answers directly."""
        fronts = [
            s for s in self.placements if s.spec.direct_return and placement.role in self.setting(s.role).backends
        ]
        return [self.testbed.hosts[front.alias].address for front in fronts]

    def _backends(self, role: str, front: Placement, stem: str) -> list[dict[str, Any]]:
        external = self.setting(role).external
        if external is not None:
            address, _, port = external.partition(":")
            return [_backend_entry(role, address, int(port or HTTP_PORT), "", local=False)]
        return [self._managed_backend(placement, front, stem) for placement in self._placements_of(role)]

    def _managed_backend(self, placement: Placement, front: Placement, stem: str) -> dict[str, Any]:
        host = self.testbed.hosts[placement.alias]
        folder = InstanceContext.for_instance(host, service_job_name(stem, placement.role), placement.port).dir
        here = placement.alias == front.alias or bool(
            self.testbed.lab or self.testbed.replayed_run
        )  # a lab is one machine
        return _backend_entry(placement.alias, host.address, placement.port, folder, local=here)

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
        return LaunchOptions(nofile=self.setting(self.testbed.plan.study.workload.role).nofile)

    def launch(self, placement: Placement, stem: str = "") -> LaunchOptions:
        """Return the launch options of a service in the attempt with the prefix `stem`."""
        setting = self.setting(placement.role)
        cpus = () if setting.cpus == "all" else tuple(self.cpus(placement))
        quota = (
            f"{self.testbed.hosts[placement.alias].workdir}/{cgroup_file(changes_job_name(stem), placement.role)}"
            if stem
            else ""
        )
        return LaunchOptions(cpus=cpus, nofile=setting.nofile, cgroup_file=quota if setting.cpu_quota else "")


def make_instance(
    deployment: Deployment, placement: Placement, stem: str, lease_s: float, token: str | None = None
) -> Instance:
    """Return a rendered instance of a service; its jobs and folders are named after `stem`."""
    host, setting, name = (
        deployment.testbed.hosts[placement.alias],
        deployment.setting(placement.role),
        service_job_name(stem, placement.role),
    )
    main = None if setting.config_text is None else setting.config_text.encode()
    rendered = render(placement.spec, setting.vars, deployment.instance_context(placement, stem), token, main=main)
    kind = SystemInstance if placement.spec.tree else Instance
    return kind(host, placement.spec, rendered, name=name, lease_s=lease_s, launch=deployment.launch(placement, stem))


def _backend_entry(node: str, address: str, port: int, folder: str, *, local: bool) -> dict[str, Any]:
    return {"node": node, "address": address, "port": port, "dir": folder, "local": local}


def place_services(study: Study, treatments: Iterable[str], inventory: HostsFile, specs: Mapping[str, ServiceSpec],
             drivers: Sequence[str]) -> tuple[Placement, ...]:  # fmt: skip
    """Place every service of any treatment; roles on one host get consecutive ports."""
    treatments = list(treatments)
    taken: dict[str, list[str]] = {}
    placed: dict[tuple[str, str, str, str], Placement] = {}
    for role, alias, service, mode in _needed_placements(study, treatments, inventory, drivers, DELAY_SERVICE in specs):
        roles = taken.setdefault(alias, [])
        roles += [role] if role not in roles else []
        port = inventory.hosts[alias].service_port + roles.index(role)
        if (role, alias, service, mode) not in placed:
            spec = specs[service].as_system() if mode == "system" else specs[service]
            placed[role, alias, service, mode] = Placement(role, alias, spec, port)
    return tuple(placed.values())


def _needed_placements(
    study: Study, treatments: Sequence[str], inventory: HostsFile, drivers: Sequence[str], userspace_delay: bool
) -> Iterator[tuple[str, str, str, str]]:
    for role in study.roles:
        for treatment in treatments:
            setting = study.setting(treatment, role)
            for alias in hosts_for_role(inventory, role, setting) if setting.service else ():
                yield role, alias, str(setting.service), setting.mode
    if userspace_delay:
        yield DELAY_ROLE, drivers[0], DELAY_SERVICE, "managed"
