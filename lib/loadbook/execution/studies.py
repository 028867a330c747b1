"""A study by its name, checked against services and tools; its plan, checked against the hosts file; needs no host.

No plan puts load on targets that the hosts file does not name, or more than it allows. A limit holds for every host
that receives requests, since a balancer may send everything to one backend. Workloads are totals of all drivers, and so
are limits.
"""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

from loadbook.core.errors import LoadbookError, PreflightError, SpecProblem, StudyError, ToolError
from loadbook.execution.deployment import hosts_for_role
from loadbook.hosts.inventory import HostEntry, HostsFile
from loadbook.hosts.keys import resolve_host_name
from loadbook.hosts.shell import cpu_list
from loadbook.services import check_study, load_service
from loadbook.store.paths import Layout
from loadbook.study.model import Study
from loadbook.study.plan import Plan
from loadbook.study.reader import SMOKE_SUFFIX, find_study, read_study_tables
from loadbook.study.treatments import Role, Setting
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target


def load_study(layout: Layout, name: str) -> Study:
    """Return a study that its services accept; StudyError lists every problem."""
    folders, file = service_folders(layout), study_file(layout, name)
    try:
        study = find_study(layout.studies, name)
    except StudyError as error:
        reported_paths = {problem.path for problem in error.problems}
        vars_problems = [p for p in _vars_problems(file, folders) if p.path not in reported_paths]
        raise StudyError(error.source, [*error.problems, *vars_problems], error.hint) from error
    loads = {f"treatments.{name}.workload": study.workload_of(name) for name in study.treatments}
    loads = {"workload": study.workload} | {place: load for place, load in loads.items() if load != study.workload}
    problems = [
        *check_study(study, folders),
        *(p for place, load in loads.items() for p in _tool_problems(load, place)),
    ]
    if problems:
        raise StudyError(str(file), problems)
    return study


def _tool_problems(load: Workload, place: str) -> list[SpecProblem]:
    """Return why the tool of a load would refuse it."""
    try:
        tool = base.load_tool(load.tool)
    except ToolError as error:
        return [SpecProblem(f"{place}.tool", f"{error.message}; {error.hint}")]
    target = Target("192.0.2.1", 80, load.scheme)
    try:
        tool.command(load, target, load.duration_s)
    except ToolError as error:
        able = ", ".join(base.capable_tools(load, target)) or "none yet"
        hints = [error.hint] if error.hint and "tools that can: " not in error.hint else []
        return [SpecProblem(place, "; ".join([error.message, *hints, f"tools that can: {able}"]))]
    return []


def study_file(layout: Layout, name: str) -> Path:
    """Return the file of a study; a smoke variant has its study's."""
    if name.endswith(".toml"):
        return Path(name)
    path = layout.studies / f"{name}.toml"
    return path if path.is_file() else layout.studies / f"{name.removesuffix(SMOKE_SUFFIX)}.toml"


def service_folders(layout: Layout) -> list[Path]:
    """Return the folders that are searched for services before the built-in ones."""
    return [layout.studies / "services"]


def _vars_problems(file: Path, folders: list[Path]) -> Iterator[SpecProblem]:
    """Yield the services' problems with a study file that has other problems, so that all are listed at once."""
    try:
        roles = read_study_tables(file).get("roles")
    except LoadbookError:
        return
    for name, role in roles.items() if isinstance(roles, dict) else []:
        service, values = (role.get("service"), role.get("vars")) if isinstance(role, dict) else (None, None)
        if not service or not isinstance(service, str):
            continue
        values = values if isinstance(values, dict) else {}
        try:
            yield from load_service(service, folders).problems(f"roles.{name}.vars", values)
        except LoadbookError as error:
            yield SpecProblem(f"roles.{name}.service", error.message)


# alias, entry -> the name or address of the host on the network
NameResolver = Callable[[str, HostEntry], str]
HANG_FACTOR = 3  # multiple of its expected time after which a load of a fixed number of requests is ended
LIMITS_HINT = "change the study, or what its hosts may get in the hosts file"
EXTERNAL_HINT = 'name it in the hosts file, above the hosts: external = ["host:port"], if you may put load on it'


def check_load_allowed(
    plan: Plan, inventory: HostsFile, source: Path, *, lab: bool = False, resolve_name: NameResolver = resolve_host_name
) -> None:
    """Refuse a plan that loads targets outside the hosts file, or more than it allows.

    Parameters
    ----------
    source : the hosts file.
    lab : whether it is a lab's; an external target must then be on this machine.
    resolve_name : network name of a host, by default from ~/.ssh/config.

    Raises
    ------
    StudyError : lists every refused host, key and treatment.
    """
    if inventory.replay is not None:  # no load is generated
        return
    if unlisted := list(_unlisted_targets(plan, inventory, lab, resolve_name)):
        raise StudyError(str(source), unlisted, EXTERNAL_HINT)
    if exceeded := list(_exceeded_limits(plan, inventory, resolve_name)):
        raise StudyError(str(source), exceeded, LIMITS_HINT)


def _unlisted_targets(plan: Plan, inventory: HostsFile, lab: bool, resolve_name: NameResolver) -> Iterator[SpecProblem]:
    """Yield the external addresses that are neither a host nor listed, with their treatments."""
    targets: dict[tuple[str, str], list[str]] = {}
    for treatment in plan.treatments:
        for role, setting in _loaded_roles(plan, treatment):
            if setting.external and not _is_listed(setting.external, inventory, lab, resolve_name):
                targets.setdefault((role, setting.external), []).append(treatment)
    for (role, address), treatments in targets.items():
        where = "in the lab, and is not on this machine" if lab else "not in the hosts file"
        message = f"{address} is {where} ({_treatments_text(treatments)}): no load is put on it"
        yield SpecProblem(f"roles.{role}", message)


def _is_listed(external: str, inventory: HostsFile, lab: bool, resolve_name: NameResolver) -> bool:
    address = external.rpartition(":")[0].lower()
    if _aliases_of_address(address, inventory, resolve_name):
        return True
    if not lab:
        return external.lower() in {target.lower() for target in inventory.external}
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _aliases_of_address(address: str, inventory: HostsFile, resolve_name: NameResolver) -> list[str]:
    names = {alias: entry.address or resolve_name(alias, entry) for alias, entry in inventory.hosts.items()}
    return [alias for alias, name in names.items() if name.lower() == address.lower()]


def _loaded_roles(plan: Plan, treatment: str) -> Iterator[tuple[str, Setting]]:
    """Yield the roles that receive requests under a treatment, with their settings."""
    study = plan.study
    roles = [study.target_of(treatment)]
    for role in roles:  # grows meanwhile
        setting = study.setting(treatment, role)
        yield role, setting
        roles += [backend for backend in dict.fromkeys(setting.backends) if backend not in roles]


def _loaded_hosts(plan: Plan, treatment: str, inventory: HostsFile, resolve_name: NameResolver) -> list[str]:
    """Return the aliases of the hosts that receive requests under a treatment."""
    first, loaded = plan.study.target_of(treatment), dict[str, None]()
    for role, setting in _loaded_roles(plan, treatment):
        aliases = hosts_for_role(inventory, role, setting) if setting.service else []
        if setting.external:
            aliases = _aliases_of_address(setting.external.rpartition(":")[0], inventory, resolve_name)
        # the first host of the target role gets the load
        loaded |= dict.fromkeys(aliases[:1] if role == first and setting.service else aliases)
    return list(loaded)


def _exceeded_limits(plan: Plan, inventory: HostsFile, resolve_name: NameResolver) -> Iterator[SpecProblem]:
    """Yield exceeded limits of hosts, each once for every load, with its treatments."""
    exceeded: dict[tuple[str, str], list[str]] = {}
    for treatment in plan.treatments:
        work = plan.study.workload_of(treatment)
        for alias in _loaded_hosts(plan, treatment, inventory, resolve_name):
            for key, message in _limits_exceeded_by(work, inventory.hosts[alias]):
                exceeded.setdefault((f"hosts.{alias}.{key}", message), []).append(treatment)
    for (path, message), treatments in exceeded.items():
        yield SpecProblem(path, f"{message} ({_treatments_text(treatments)})")


def _limits_exceeded_by(work: Workload, entry: HostEntry) -> Iterator[tuple[str, str]]:
    """Yield the limits that a load exceeds, with a message."""
    rate, max_rate = work.rate_per_s, entry.max_requests_per_s
    if max_rate is not None and rate is None:
        remedy = "use an open load (workload.model = 'open' with rate_per_s), or take the cap away"
        yield "max_requests_per_s", f"{max_rate:g} at most, but a closed load has no rate of its own: {remedy}"
    elif max_rate is not None and rate is not None and rate > max_rate:
        yield "max_requests_per_s", f"{max_rate:g} at most, the load is of {rate:g} requests per second"
    if entry.max_connections is not None and _max_connections(work) > entry.max_connections:
        yield "max_connections", f"{entry.max_connections} at most, the load may have {_max_connections(work):,} open"
    if entry.max_load_s is not None and longest_load_s(work) > entry.max_load_s:
        yield "max_load_s", f"{entry.max_load_s:g} s at most, the load of a trial may last {longest_load_s(work):g} s"


def _max_connections(work: Workload) -> int:
    """Return the largest number of open connections of a load."""
    if not base.load_tool(work.tool).opens_connections_at_rate:
        return work.connections
    return math.ceil((work.rate_per_s or 0.0) * work.timeout_s)


def longest_load_s(work: Workload) -> float:
    """Return the longest duration of a trial's load, seconds: warm-up, and load until it counts as hung."""
    return work.warmup_s + work.duration_s * (HANG_FACTOR if work.requests is not None else 1)


def _treatments_text(treatments: list[str]) -> str:
    return f"treatment{'s' if len(treatments) > 1 else ''} {', '.join(treatments)}"


MAX_NAMED_TREATMENTS = 3


def _role_settings(plan: Plan, role: str) -> list[Setting]:
    return [plan.study.setting(treatment, role) for treatment in plan.treatments]


def needed_hosts(plan: Plan) -> dict[str, int]:
    """Return the number of hosts that each role of a plan needs."""
    counts = {}
    for role, spec in plan.study.roles.items():
        served = [setting.hosts for setting in _role_settings(plan, role) if setting.service]
        counts[role] = 1 if _is_only_monitored(spec) else max(served, default=0)
    return {role: count for role, count in counts.items() if count}


def needed_cpus(plan: Plan) -> int:
    """Return how many CPUs each host must have for the CPU numbers in a plan."""
    named = [setting.cpus for role in plan.study.roles for setting in _role_settings(plan, role) if setting.service]
    return max((max(cpu_list(cpus)) + 1 for cpus in named if cpus != "all"), default=1)


def _is_only_monitored(role: Role) -> bool:
    """Return whether no service runs in a role (drivers, monitored hosts)."""
    return not any(setting.is_present for setting in (role, *map(role.variant_setting, role.variants)))


def used_hosts(plan: Plan, inventory: HostsFile) -> list[str]:
    """Return the aliases of the hosts that the plan uses, in the order of the hosts file."""
    used: set[str] = set()
    for role, spec in plan.study.roles.items():
        if _is_only_monitored(spec):
            used.update(inventory.with_role(role))
        for setting in _role_settings(plan, role):
            used.update(hosts_for_role(inventory, role, setting) if setting.service else ())
    return [alias for alias in inventory.hosts if alias in used]


def check_roles(plan: Plan, inventory: HostsFile) -> None:
    """Raise PreflightError when a role has too few hosts; it lists every such role."""
    if missing := missing_roles(plan, inventory):
        roles_by_host = "; ".join(f"{a}: {', '.join(entry.roles)}" for a, entry in inventory.hosts.items()) or "no host"
        raise PreflightError(
            [f"{message} (hosts file: {roles_by_host})" for message in missing.values()],
            f"give a host the role in the hosts file: roles = [{', '.join(map(json.dumps, missing))}]",
        )


def missing_roles(plan: Plan, inventory: HostsFile) -> dict[str, str]:
    """Return role -> the requirements that the hosts file does not meet."""
    missing = {}
    for role, count in needed_hosts(plan).items():
        available = len(inventory.with_role(role))
        if not available:
            missing[role] = f"no host has the role {role!r}"
        elif available < count:
            hosts = "host has" if available == 1 else "hosts have"
            missing[role] = f"{available} {hosts} the role {role!r}, {count} are needed"
    return missing


def unloaded_hosts(plan: Plan, inventory: HostsFile | None = None) -> Iterator[str]:
    """Yield notes on hosts that get no load; `inventory`: hosts that are no lab of ours."""
    alone: dict[str, list[str]] = {}
    for name in plan.treatments:
        target = plan.study.target_of(name)
        if plan.study.setting(name, target).service and plan.study.setting(name, target).hosts > 1:
            alone.setdefault(target, []).append(name)
    for role, names in alone.items():
        more = f" and {len(names) - MAX_NAMED_TREATMENTS} more" if names[MAX_NAMED_TREATMENTS:] else ""
        of = ", ".join(names[:MAX_NAMED_TREATMENTS]) + more
        yield f"all load goes to the first host of the role {role!r}, as nothing stands in front of them: {of}"
    for role, count in needed_hosts(plan).items() if inventory else ():
        spare = inventory.with_role(role)[count:] if inventory else []
        if spare and not _is_only_monitored(plan.study.roles[role]):
            yield f"of the role {role!r} the study takes {count} (its key `hosts`): {', '.join(spare)} left out"
