"""Loads a study by its name and checks it against services, tools and the hosts file; no host is contacted.

A plan is refused if it loads targets that are not in the hosts file, or exceeds the limits there. A limit holds for
every host that receives requests, since a balancer may send all of them to one backend. Workloads and limits are totals
of all drivers.
"""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from loadbook.core.errors import LoadbookError, PreflightError, SpecProblem, StudyError, ToolError
from loadbook.core.text import did_you_mean
from loadbook.core.units import first_names
from loadbook.execution.placement import hosts_for_role
from loadbook.hosts.inventory import HostEntry, HostsFile
from loadbook.hosts.keys import resolve_host_name
from loadbook.hosts.shell import cpu_list
from loadbook.modes.base import mode_of
from loadbook.services import ServiceSpec, check_study, load_service
from loadbook.store.paths import Layout
from loadbook.study.model import Study
from loadbook.study.plan import Plan, make_plan
from loadbook.study.reader import SMOKE_SUFFIX, find_study, read_study, read_study_tables
from loadbook.study.treatments import Role, Setting
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target


def load_study(layout: Layout, name: str) -> Study:
    """Return the study `name`, checked against its services and tools; StudyError lists every problem."""
    folders, file = service_folders(layout), study_file(layout, name)
    try:
        study = find_study(layout.studies, name)
    except StudyError as error:
        reported_paths = {problem.path for problem in error.problems}
        vars_problems = [p for p in _vars_problems(file, folders) if p.path not in reported_paths]
        raise StudyError(error.source, [*error.problems, *vars_problems], error.hint) from error
    loads = {f"treatments.{name}.workload": study.workload_of(name) for name in study.treatments}
    loads = {"workload": study.workload} | {place: load for place, load in loads.items() if load != study.workload}
    tool_problems = [
        p for place, load in loads.items() for p in _tool_problems(mode_of(study).first_load(study, load), place)
    ]
    first_by_message = {
        p.message: p for p in reversed(tool_problems)
    }  # a mistake in [workload] is in every treatment's
    problems = [*check_study(study, folders), *reversed(first_by_message.values())]
    if problems:
        raise StudyError(str(file), problems)
    return study


def plan_study(layout: Layout, study: Study, subset: str | None = None, blocks: int | None = None) -> Plan:
    """Return the plan of a study as `make_plan` does; None takes the study's own subset or number of blocks.

    Its trials are plain if a service does not allow the study's mode (interleaved, for example).
    """
    treatments = study.treatments_in(subset)
    reasons = mode_of(study).reasons_in_services(study, treatments, services_of(layout, study, treatments))
    plan = make_plan(study, subset, blocks, reasons_in_services=reasons)
    return replace(plan, left_out=_left_out(layout, study))


def _left_out(layout: Layout, study: Study) -> tuple[str, ...]:
    """Return the treatments of a study that `study`, its smoke variant, leaves out; none if it is no smoke variant."""
    whole = study_file(layout, study.name)
    if not study.name.endswith(SMOKE_SUFFIX) or whole.stem == study.name or not whole.is_file():
        return ()
    return tuple(name for name in read_study(whole).treatments_in() if name not in study.treatments)


def services_of(layout: Layout, study: Study, treatments: Sequence[str]) -> dict[str, ServiceSpec]:
    """Return service name -> service, for the services that any role has in these treatments."""
    names = {study.setting(treatment, role).service for treatment in treatments for role in study.roles}
    return {name: load_service(name, service_folders(layout)) for name in sorted(filter(None, names))}


def _tool_problems(load: Workload, place: str) -> list[SpecProblem]:
    """Return the reasons for which the tool of a workload cannot generate it; empty if it can."""
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
    """Return the path of a study's file, which need not exist; `<name>-smoke` has the same file as `<name>`.

    A name that ends with ".toml" is itself the path.
    """
    if name.endswith(".toml"):
        return Path(name)
    path = layout.studies / f"{name}.toml"
    return path if path.is_file() else layout.studies / f"{name.removesuffix(SMOKE_SUFFIX)}.toml"


def service_folders(layout: Layout) -> list[Path]:
    """Return the folders that are searched for services before those that come with loadbook."""
    return [layout.studies / "services"]


def _vars_problems(file: Path, folders: list[Path]) -> Iterator[SpecProblem]:
    """Yield invalid variables of services in a study file that has other errors, so that all are listed at once."""
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


# (alias, entry) -> network name or address of the host
NameResolver = Callable[[str, HostEntry], str]
HANG_FACTOR = 3  # a load with a fixed number of requests is ended after this multiple of its expected duration
LIMITS_HINT = "change the study, or what its hosts may get in the hosts file"
EXTERNAL_HINT = 'name it in the hosts file, above the hosts: external = ["host:port"], if you may put load on it'


def check_load_allowed(
    plan: Plan, inventory: HostsFile, source: Path, *, lab: bool = False, resolve_name: NameResolver = resolve_host_name
) -> None:
    """Raise StudyError if a plan loads targets that are not in the hosts file, or exceeds the limits there.

    Parameters
    ----------
    source : path of the hosts file, for messages.
    lab : whether the hosts file is that of a lab; external targets must then be on this machine.
    resolve_name : function that returns the network name of a host; by default it reads ~/.ssh/config.

    Raises
    ------
    StudyError : the plan is refused; it lists every such host, limit and treatment.
    """
    if inventory.replay is not None:  # a replay generates no load
        return
    if unlisted := list(_unlisted_targets(plan, inventory, lab, resolve_name)):
        raise StudyError(str(source), unlisted, EXTERNAL_HINT)
    if exceeded := list(_exceeded_limits(plan, inventory, resolve_name)):
        raise StudyError(str(source), exceeded, LIMITS_HINT)


def _unlisted_targets(plan: Plan, inventory: HostsFile, lab: bool, resolve_name: NameResolver) -> Iterator[SpecProblem]:
    """Yield a problem for each external target that the hosts file neither has as a host nor lists in `external`."""
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
    for role in roles:  # backends are appended in the loop
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
        # only the first host of the target role gets the load
        loaded |= dict.fromkeys(aliases[:1] if role == first and setting.service else aliases)
    return list(loaded)


def _exceeded_limits(plan: Plan, inventory: HostsFile, resolve_name: NameResolver) -> Iterator[SpecProblem]:
    """Yield a problem for each limit of a host that a workload exceeds, with the treatments that have it."""
    exceeded: dict[tuple[str, str], list[str]] = {}
    for treatment in plan.treatments:
        for limit in limits_exceeded_by(plan, treatment, plan.study.workload_of(treatment), inventory, resolve_name):
            exceeded.setdefault(limit, []).append(treatment)
    for (path, message), treatments in exceeded.items():
        yield SpecProblem(path, f"{message} ({_treatments_text(treatments)})")


def limits_exceeded_by(
    plan: Plan,
    treatment: str,
    work: Workload,
    inventory: HostsFile,
    resolve_name: NameResolver = resolve_host_name,
) -> Iterator[tuple[str, str]]:
    """Yield key and message of each limit in the hosts file that a workload exceeds under a treatment.

    The key is the limit's place in that file, such as ``hosts.web1.max_connections``.
    """
    for alias in _loaded_hosts(plan, treatment, inventory, resolve_name):
        for key, message in _exceeded_on_host(work, inventory.hosts[alias]):
            yield f"hosts.{alias}.{key}", message


def _exceeded_on_host(work: Workload, entry: HostEntry) -> Iterator[tuple[str, str]]:
    """Yield key and message of each limit of a host that a workload exceeds."""
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
    """Return the largest number of connections that a workload may have open at the same time."""
    if not base.load_tool(work.tool).opens_connections_at_rate:
        return work.connections
    most = work.max_connections or math.ceil((work.rate_per_s or 0.0) * work.timeout_s)
    return max(work.connections, most) if work.model == "open" else work.connections


def longest_load_s(work: Workload) -> float:
    """Return the longest duration (s) of a trial's load: warm-up, and load (thrice its duration if it has `requests`).

    A tool that hangs is ended some seconds later: after the time-out of a request and the tool's own extra time.
    """
    return work.warmup_s + work.duration_s * (HANG_FACTOR if work.requests is not None else 1)


def _treatments_text(treatments: list[str]) -> str:
    return f"{'treatments' if treatments[1:] else 'treatment'} {', '.join(treatments)}"


MAX_NAMED_TREATMENTS = 3


def _role_settings(plan: Plan, role: str) -> list[Setting]:
    return [plan.study.setting(treatment, role) for treatment in plan.treatments]


def needed_hosts(plan: Plan) -> dict[str, int]:
    """Return role -> number of hosts that a plan needs with that role."""
    counts = {}
    for role, spec in plan.study.roles.items():
        served = [setting.hosts for setting in _role_settings(plan, role) if setting.service]
        counts[role] = 1 if _is_only_monitored(spec) else max(served, default=0)
    return {role: count for role, count in counts.items() if count}


def needed_cpus(plan: Plan) -> int:
    """Return the number of CPUs that each host must have: the highest CPU number (from 0) in a plan, plus 1.

    It is 1 if the plan names no CPU.
    """
    named = [setting.cpus for role in plan.study.roles for setting in _role_settings(plan, role) if setting.service]
    return max((max(cpu_list(cpus)) + 1 for cpus in named if cpus != "all"), default=1)


def _is_only_monitored(role: Role) -> bool:
    """Return whether a role has no service in any variant, as for drivers and hosts that are only monitored."""
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
    """Raise PreflightError if roles have too few hosts in the hosts file; it lists every such role."""
    if missing := missing_roles(plan, inventory):
        roles_by_host = "; ".join(f"{a}: {', '.join(entry.roles)}" for a, entry in inventory.hosts.items()) or "no host"
        raise PreflightError(
            [f"{message} (hosts file: {roles_by_host})" for message in missing.values()],
            f"give a host the role in the hosts file: roles = [{', '.join(map(json.dumps, missing))}]",
        )


def missing_roles(plan: Plan, inventory: HostsFile) -> dict[str, str]:
    """Return role -> message for each role that has too few hosts in the hosts file."""
    missing = {}
    for role, count in needed_hosts(plan).items():
        available = len(inventory.with_role(role))
        if not available:
            missing[role] = f"no host has the role {role!r}{_similar_role(role, plan, inventory)}"
        elif available < count:
            hosts = "host has" if available == 1 else "hosts have"
            missing[role] = f"{available} {hosts} the role {role!r}, {count} are needed"
    return missing


def _similar_role(role: str, plan: Plan, inventory: HostsFile) -> str:
    """Return which host has a mistyped `role`, as far as one is similar to it and of no role of the study."""
    for alias, entry in inventory.hosts.items():
        for other in entry.roles:
            if other not in plan.study.roles and (similar := did_you_mean(other, [role])):
                return f" (host {alias} has {other!r}{similar})"
    return ""


def unloaded_hosts(plan: Plan, inventory: HostsFile | None = None) -> Iterator[str]:
    """Yield notes on hosts of a loaded role that get no load, as the load goes to the role's first host only.

    With `inventory` (the hosts file; None for the lab), also notes on hosts beyond the number that the study uses.
    """
    alone: dict[str, list[str]] = {}
    for name in plan.treatments:
        target = plan.study.target_of(name)
        if plan.study.setting(name, target).service and plan.study.setting(name, target).hosts > 1:
            alone.setdefault(target, []).append(name)
    for role, names in alone.items():
        of = first_names(names, MAX_NAMED_TREATMENTS)
        yield f"all load goes to the first host of the role {role!r}, as nothing stands in front of them: {of}"
    for role, count in needed_hosts(plan).items() if inventory else ():
        spare = inventory.with_role(role)[count:] if inventory else []
        if spare and not _is_only_monitored(plan.study.roles[role]):
            yield f"of the role {role!r} the study takes {count} (its key `hosts`): {', '.join(spare)} left out"
