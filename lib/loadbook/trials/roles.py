"""Which hosts a plan takes: every role has enough of them, and nobody else is asked anything."""

from __future__ import annotations

import json
from collections.abc import Iterator

from loadbook.design.plan import Plan
from loadbook.design.role import Role, Setting
from loadbook.hosts.inventory import HostsFile
from loadbook.hosts.shell import cpu_list
from loadbook.trials.preflight import PreflightError
from loadbook.trials.stage import hosts_for_role

MAX_NAMED_TREATMENTS = 3


def _role_settings(plan: Plan, role: str) -> list[Setting]:
    return [plan.study.setting(treatment, role) for treatment in plan.treatments]


def needed_hosts(plan: Plan) -> dict[str, int]:
    """Return how many hosts each role of a plan takes; a role without a service (a driver) takes what there is."""
    return {role: count for role in plan.study.roles if (count := _needed_host_count(plan, role))}


def needed_cpus(plan: Plan) -> int:
    """Return how many CPUs each host must have for the CPUs that a plan names."""
    named = [setting.cpus for role in plan.study.roles for setting in _role_settings(plan, role) if setting.service]
    return max((max(cpu_list(cpus)) + 1 for cpus in named if cpus != "all"), default=1)


def _needed_host_count(plan: Plan, role: str) -> int:
    if _is_only_monitored(plan.study.roles[role]):
        return 1
    counts = [setting.hosts for setting in _role_settings(plan, role) if setting.service]
    return max(counts, default=0)


def _is_only_monitored(role: Role) -> bool:
    """Tell whether nothing runs in a role: it drives, or is looked at."""
    return not any(setting.is_present for setting in (role, *map(role.variant_setting, role.variants)))


def used_hosts(plan: Plan, inventory: HostsFile) -> list[str]:
    """Return the aliases that the plan takes, in the order of the hosts file."""
    used: set[str] = set()
    for role, spec in plan.study.roles.items():
        if _is_only_monitored(spec):
            used.update(inventory.with_role(role))
        for setting in _role_settings(plan, role):
            used.update(hosts_for_role(inventory, role, setting) if setting.service else ())
    return [alias for alias in inventory.hosts if alias in used]


def check_roles(plan: Plan, inventory: HostsFile) -> None:
    """See that every role of the study has the hosts that it takes; PreflightError names all that have too few."""
    missing = missing_roles(plan, inventory)
    if missing:
        roles_by_host = "; ".join(f"{a}: {', '.join(entry.roles)}" for a, entry in inventory.hosts.items()) or "no host"
        raise PreflightError(
            [f"{message} (hosts file: {roles_by_host})" for message in missing.values()],
            f"give a host the role in the hosts file: roles = [{', '.join(map(json.dumps, missing))}]",
        )


def missing_roles(plan: Plan, inventory: HostsFile) -> dict[str, str]:
    """Return role -> what the hosts file lacks of it for a plan, in words."""
    return dict(_missing_roles(plan, inventory))


def _missing_roles(plan: Plan, inventory: HostsFile) -> Iterator[tuple[str, str]]:
    for role, count in needed_hosts(plan).items():
        available = len(inventory.with_role(role))
        if not available:
            yield role, f"no host has the role {role!r}"
        elif available < count:
            yield role, f"{available} {'host has' if available == 1 else 'hosts have'} the role {role!r}, {count} are needed"


def unloaded_hosts(plan: Plan, inventory: HostsFile | None = None) -> Iterator[str]:
    """Yield which hosts get no load although one might think so; `inventory`: those that are no lab of ours."""
    alone: dict[str, list[str]] = {}
    for name in plan.treatments:
        target = plan.study.target_of(name)
        if plan.study.setting(name, target).service and plan.study.setting(name, target).hosts > 1:
            alone.setdefault(target, []).append(name)
    for role, names in alone.items():
        of = ", ".join(names[:MAX_NAMED_TREATMENTS]) + (f" and {len(names) - MAX_NAMED_TREATMENTS} more" if names[MAX_NAMED_TREATMENTS:] else "")
        yield f"all load goes to the first host of the role {role!r}, as nothing stands in front of them: {of}"
    for role, count in needed_hosts(plan).items() if inventory else ():
        spare = inventory.with_role(role)[count:] if inventory and not _is_only_monitored(plan.study.roles[role]) else []
        if spare:
            yield f"of the role {role!r} the study takes {count} (its key `hosts`): {', '.join(spare)} left out"
