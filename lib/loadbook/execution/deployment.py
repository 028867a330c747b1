"""The deployment of one treatment: services, hosts, ports, CPUs, load target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from loadbook.core.errors import UsageError
from loadbook.execution.placement import (
    CHANGES,
    DELAY_ROLE,
    DELAY_SERVICE,
    Placement,
    hosts_for_role,
    job_name,
    start_order,
)
from loadbook.execution.testbed import Testbed
from loadbook.hosts.host import Host
from loadbook.hosts.rollback import cgroup_file
from loadbook.hosts.shell import cpu_list
from loadbook.services import Instance, InstanceContext, LaunchOptions, SystemInstance, render
from loadbook.study.model import Study
from loadbook.study.treatments import Setting
from loadbook.tools.base import Target

HTTP_PORT = 80


@dataclass(frozen=True, eq=False)
class Deployment:
    """Services, ports, CPUs and load target of one treatment; computed from study and hosts file, without any host.

    `arm` is the number of the treatment in an interleaved block, in which every treatment has ports of its own.
    """

    testbed: Testbed
    treatment: str
    arm: int = 0

    @property
    def study(self) -> Study:
        """The study of the run."""
        return self.testbed.plan.study

    def setting(self, role: str) -> Setting:
        """Return the setting of a role under this treatment; that of DELAY_ROLE is made from the driver's setting.

        DELAY_ROLE is the proxy on the driver that delays packets if the kernel cannot.
        """
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
        """The target of the load: the first host of the target role, or its external address.

        If a proxy on the driver delays packets (userspace delay), the target is the proxy.
        """
        scheme, role = self.study.workload_of(self.treatment).scheme, self.study.target_of(self.treatment)
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
        """Return the host that checks a service: the host that sends requests to it during the load."""
        front = next((s for s in self.placements if placement.role in self.setting(s.role).backends), None)
        alias = self.testbed.drivers[0] if front is None or front.role == DELAY_ROLE else front.alias
        return self.testbed.hosts[alias]

    def instance_context(self, placement: Placement, stem: str) -> InstanceContext:
        """Return folder, address and port of a service, and the addresses of its backends for its templates.

        `stem` is the prefix of the attempt's job names, with which the folder's name begins.
        """
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
        """Return the addresses of balancers whose responses this service sends to the clients directly."""
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
        """Return the host's numbers of the CPUs that a service may use.

        The study counts from 0 among the CPUs that may be used on the host. UsageError: the host has too few.
        """
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
        """Launch options (limit of open files) of the load generator on every driver."""
        return LaunchOptions(nofile=self.setting(self.study.workload.role).nofile)

    def launch(self, placement: Placement, stem: str = "") -> LaunchOptions:
        """Return the launch options of a service: CPUs and limit of open files.

        With `stem`, the prefix of the attempt's job names, they include the study's CPU quota (a control group).
        """
        setting = self.setting(placement.role)
        cpus = () if setting.cpus == "all" else tuple(self.cpus(placement))
        group = ""
        if stem and setting.cpu_quota:
            folder = self.testbed.hosts[placement.alias].workdir
            group = f"{folder}/{cgroup_file(job_name(stem, CHANGES), placement.role)}"
        return LaunchOptions(cpus=cpus, nofile=setting.nofile, cgroup_file=group)

    def make_instance(self, placement: Placement, stem: str, lease_s: float, token: str | None = None) -> Instance:
        """Return a service with its rendered configuration; names of its jobs and folders begin with `stem`.

        The host ends the service `lease_s` seconds after its start. `token` makes the id unique by which the running
        configuration is recognised; None uses a random one.
        """
        host, name = self.testbed.hosts[placement.alias], job_name(stem, placement.role)
        setting, launch = self.setting(placement.role), self.launch(placement, stem)
        main = None if setting.config_text is None else setting.config_text.encode()
        rendered = render(placement.spec, setting.vars, self.instance_context(placement, stem), token, main=main)
        kind = SystemInstance if placement.spec.tree else Instance
        return kind(host, placement.spec, rendered, name=name, lease_s=lease_s, launch=launch)


def _address_and_port(external: str) -> tuple[str, int]:
    address, _, port = external.partition(":")
    return address, int(port or HTTP_PORT)


def all_deployments(testbed: Testbed) -> list[Deployment]:
    """Return the deployments of the plan's treatments as plain trials, in the plan's order."""
    return [Deployment(testbed, treatment) for treatment in testbed.plan.treatments]
