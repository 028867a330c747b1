"""Changes of hosts for a trial: kernel settings, network, CPU quotas.

Each changed host has one job that makes and verifies all changes, and undoes them when it ends for any reason
(`hosts.rollback`). Only changes that the hosts file allows are made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from loadbook.core.errors import HostError, LoadbookError, UsageError
from loadbook.core.units import first_names
from loadbook.execution.deployment import Deployment
from loadbook.execution.load import remove_job_folder
from loadbook.execution.placement import DELAY_ROLE
from loadbook.hosts import rollback
from loadbook.hosts.inventory import Permission

MAX_REASONS = 3


class InvalidTrialError(LoadbookError):
    """The server or the load differs from the study, so the trial is invalid; a retry would not help."""


class ServerFailedError(InvalidTrialError):
    """A service ended, or no longer answers."""


def missing_permissions(deployments: Iterable[Deployment]) -> list[str]:
    """Return a message per host about permissions that treatments need and that the hosts file does not grant."""
    allowed: dict[str, Sequence[Permission]] = {}
    needed: dict[str, dict[Permission, None]] = {}
    reasons: dict[str, dict[str, None]] = {}
    for deployment in deployments:
        needs = [(p.alias, f"service {p.spec.name}", p.spec.needs) for p in deployment.placements]
        for alias, changes in host_changes_of(deployment).items():
            needs.append((alias, f"treatment {deployment.treatment}", tuple(changes.required_permissions())))
        for alias, why, permits in needs:
            allowed[alias] = deployment.testbed.inventory.hosts[alias].allow
            if lacking := [permit for permit in permits if permit not in allowed[alias]]:
                needed.setdefault(alias, {}).update(dict.fromkeys(lacking))
                reasons.setdefault(alias, {})[why] = None
    messages = []
    for alias, lacking_permits in needed.items():
        why = first_names(list(reasons[alias]), MAX_REASONS)
        messages.append(rollback.permission_problem(alias, allowed[alias], list(lacking_permits), why))
    return [message for message in messages if message]


def host_changes_of(deployment: Deployment) -> dict[str, rollback.HostChanges]:
    """Return host alias -> changes that the treatment makes; unchanged hosts are left out.

    Raises UsageError if roles on the same host need different values of a setting.
    """
    changes_by_host: dict[str, rollback.HostChanges] = {}
    for alias, needed in (*_service_changes(deployment), *_driver_changes(deployment)):
        known = changes_by_host.get(alias, rollback.HostChanges())
        _check_agree(deployment, alias, known, needed)
        changes_by_host[alias] = known | needed
    return {alias: changes for alias, changes in changes_by_host.items() if changes.required_permissions()}


def _check_agree(deployment: Deployment, alias: str, first: rollback.HostChanges, second: rollback.HostChanges) -> None:
    both: dict[str, tuple[object, object]] = {
        name: (value, second.sysctls.get(name, value)) for name, value in first.sysctls.items()
    }
    if "tc" in first.required_permissions() and "tc" in second.required_permissions():
        both |= {"rate_mbit": (first.rate_mbit, second.rate_mbit), "toward": (first.destination, second.destination)}
    for name, (value, other) in both.items():
        if str(value) != str(other):
            raise UsageError(
                f"host {alias} is to have {name} = {value} and {other} under treatment {deployment.treatment}",
                "roles on one host share its kernel and its network: give them one value, or hosts of their own",
            )


def _service_changes(deployment: Deployment) -> Iterator[tuple[str, rollback.HostChanges]]:
    for placement in deployment.placements:
        setting, spec = deployment.setting(placement.role), placement.spec
        # the rate applies to all addresses, since requests may come from another address of the driver
        yield (
            placement.alias,
            rollback.HostChanges(
                sysctls={**spec.sysctls, **setting.sysctls},
                rate_mbit=setting.rate_mbit,
                quotas={placement.role: setting.cpu_quota} if setting.cpu_quota else {},
                accepted_addresses=tuple(deployment.direct_return_addresses(placement)),
                tables=placement.tables,
            ),
        )


def _driver_changes(deployment: Deployment) -> Iterator[tuple[str, rollback.HostChanges]]:
    setting = deployment.setting(deployment.study.workload.role)
    by_kernel = 0.0 if any(placement.role == DELAY_ROLE for placement in deployment.placements) else setting.delay_ms
    shaped = by_kernel or setting.loss or setting.rate_mbit
    for alias in deployment.testbed.drivers:
        yield (
            alias,
            rollback.HostChanges(
                sysctls=setting.sysctls,
                delay_ms=by_kernel,
                loss=setting.loss,
                rate_mbit=setting.rate_mbit,
                destination=deployment.target.address if shaped else "",
            ),
        )


@dataclass
class HostChangeJobs:
    """The jobs that change the hosts for one trial; the job has the same `name` on every host.

    A host undoes its changes by itself after `lease_s` seconds.
    """

    deployment: Deployment
    name: str
    lease_s: float
    _changed: list[str] = field(default_factory=list)

    def apply(self) -> dict[str, dict[str, Any]]:
        """Make the changes and return them by host for the trial record; HostError if a host refuses one."""
        changes = host_changes_of(self.deployment)
        for alias, host_changes in changes.items():
            self._changed.append(alias)
            rollback.apply_changes(self.deployment.testbed.hosts[alias], self.name, host_changes, self.lease_s)
        # a host whose job only deletes a killed service's tables has an empty record, and is left out
        return {alias: record for alias, host_changes in changes.items() if (record := host_changes.to_record())}

    def check_in_effect(self) -> None:
        """Raise InvalidTrialError if changes were undone before the load was over."""
        for alias in self._changed:
            if not self.deployment.testbed.hosts[alias].state(self.name).running:
                raise InvalidTrialError(f"host {alias}: what was changed for the trial was put back during the load")

    def restore(self) -> None:
        """Undo all changes; an unreachable host undoes them by itself.

        Failures are collected in the testbed, whose `check_restored` raises them.
        """
        for alias in self._changed:
            host = self.deployment.testbed.hosts[alias]
            with contextlib.suppress(HostError):
                with self.deployment.testbed.collecting_restore_errors():
                    rollback.end_job(host, self.name)
                remove_job_folder(host, self.name)
        self._changed.clear()
