"""Placement of a run's services on hosts, with their ports, and the names of an attempt's jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from loadbook.core.errors import UsageError
from loadbook.hosts import rollback
from loadbook.hosts.host import Host
from loadbook.hosts.inventory import HostsFile
from loadbook.services import ServiceSpec
from loadbook.study.model import Study
from loadbook.study.plan import Plan
from loadbook.study.treatments import Setting

DELAY_ROLE = "line"  # role of the proxy on the driver that delays packets if the kernel cannot
DELAY_SERVICE = "delay-line"


def job_stem(run: str, trial: str, attempt: int) -> str:
    """Return the prefix of all job names of one attempt."""
    return f"{run}-{trial}-a{attempt}"


def preflight_stem(run: str) -> str:
    """Return the name prefix of jobs and folders that are used by the checks before a run's first trial."""
    return f"{run}-preflight"


# last parts of the job names of an attempt; the job of a service ends with the name of its role
LOAD, MONITOR, CHANGES = "load", "monitor", "guard"


def job_name(stem: str, part: str) -> str:
    """Return the name of a job: the attempt's prefix `stem`, and the kind of job or the role of its service."""
    return f"{stem}-{part}"


def job_names(stem: str, roles: Iterable[str]) -> list[str]:
    """Return the names of all jobs that an attempt may have on a host; the job that restores settings is last."""
    return [job_name(stem, part) for part in (LOAD, MONITOR, *roles, CHANGES)]


@dataclass(frozen=True, eq=False)
class Placement:
    """A service in a role on a host, and the TCP port of that role on that host (equal for all treatments)."""

    role: str
    alias: str
    spec: ServiceSpec
    port: int

    @property
    def mode(self) -> Literal["managed", "system"]:
        """Whether the service is "managed" (a process that loadbook starts) or "system" (the host's own server)."""
        return "system" if self.spec.tree else "managed"

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the nftables tables that the service creates."""
        return tuple(table.replace("{{ port }}", str(self.port)) for table in self.spec.tables)

    @property
    def changes_host(self) -> bool:
        """Whether the service changes kernel settings or packet rules of its whole host."""
        return bool(self.spec.tree or self.spec.sysctls or self.spec.tables or self.spec.direct_return)


def start_order(study: Study) -> list[str]:
    """Return the study's roles in the order of starting their services: backends before the roles that use them."""
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
    """Return the aliases of the first `setting.hosts` hosts with a role, in the order of the hosts file."""
    return inventory.with_role(role)[: setting.hosts]


def place_services(
    study: Study,
    treatments: Iterable[str],
    inventory: HostsFile,
    specs: Mapping[str, ServiceSpec],
    drivers: Sequence[str],
) -> tuple[Placement, ...]:
    """Return the placements of the services of all treatments; roles on one host get consecutive ports.

    `specs` maps service names to services; if it contains DELAY_SERVICE, the first of `drivers` (aliases) gets that
    proxy.
    """
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


def needs_userspace_delay(plan: Plan, hosts: Mapping[str, Host], inventory: HostsFile, drivers: Iterable[str]) -> bool:
    """Return whether delays must be made by a proxy on the driver, because its kernel cannot delay packets.

    Raises
    ------
    UsageError : the proxy cannot do it, because there are several drivers, or because packets are to be lost.
    """
    study, drivers = plan.study, list(drivers)
    settings = [study.setting(treatment, study.workload.role) for treatment in plan.treatments]
    if not uses_delay(study, plan.treatments):
        return False
    if all("tc" in inventory.hosts[alias].allow and rollback.has_netem(hosts[alias]) for alias in drivers):
        return False
    how = f'netem in the kernel of {", ".join(drivers)} and allow = ["tc"] in the hosts file'
    if any(setting.loss for setting in settings):
        raise UsageError("a share of lost packets can only be made by the kernel", f"it needs {how}")
    if len(drivers) > 1:
        raise UsageError("a delay in userspace is made for one driver only", f"use one driver, or {how}")
    return True


def uses_delay(study: Study, treatments: Iterable[str]) -> bool:
    """Return whether any of the treatments delays or drops packets on the way to the target."""
    settings = [study.setting(treatment, study.workload.role) for treatment in treatments]
    return any(setting.delay_ms or setting.loss for setting in settings)
