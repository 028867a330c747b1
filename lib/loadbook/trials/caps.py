"""What a study may put on hosts: never more than the caps of the hosts file, and never on anything that is not in it.

Everything is known from study and hosts file, so that it is refused before anything is touched. A cap holds for every
host that requests come to: the one that the load is aimed at, and all that stand behind it, since a balancer may send
everything to one of them. Workloads are totals of all drivers (`design.sharing`), and so are caps.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Iterator
from pathlib import Path

from loadbook.core.errors import SpecProblem, StudyError
from loadbook.design.plan import Plan
from loadbook.design.role import Setting
from loadbook.design.workload import Workload
from loadbook.hosts.inventory import HostEntry, HostsFile
from loadbook.hosts.ssh_config import resolve_host_name
from loadbook.tools import registry
from loadbook.trials.stage import hosts_for_role

# alias, entry -> the name or address that loads are aimed at
NameResolver = Callable[[str, HostEntry], str]
HANG_FACTOR = 3  # a load of so many requests is ended when it has taken so many times what it was expected to
LIMITS_HINT = "change the study, or what its hosts may get in the hosts file"
EXTERNAL_HINT = 'name it in the hosts file, above the hosts: external = ["host:port"], if you may put load on it'


def check_load_allowed(
    plan: Plan, inventory: HostsFile, source: Path, *, lab: bool = False, resolve_name: NameResolver = resolve_host_name
) -> None:
    """Refuse a plan that puts load on what the hosts file does not name, or more than it allows.

    Parameters
    ----------
    source : the hosts file.
    lab : it is a lab's: everything there is on this machine, so an external target must be, too.
    named : what the hosts are called on the network, by default as ~/.ssh/config has it; nothing is asked of anybody.

    Raises
    ------
    StudyError : with all that is refused: host, key, treatment, and what to do.
    """
    if inventory.replay is not None:  # nothing is sent to anybody
        return
    if unlisted := list(_unlisted_targets(plan, inventory, lab, resolve_name)):
        raise StudyError(str(source), unlisted, EXTERNAL_HINT)
    if exceeded := list(_exceeded_limits(plan, inventory, resolve_name)):
        raise StudyError(str(source), exceeded, LIMITS_HINT)


def _unlisted_targets(plan: Plan, inventory: HostsFile, lab: bool, resolve_name: NameResolver) -> Iterator[SpecProblem]:
    """Yield the external addresses that are neither a host nor listed; each once, with its treatments."""
    targets: dict[tuple[str, str], list[str]] = {}
    for treatment in plan.treatments:
        for role, setting in _loaded_roles(plan, treatment):
            if setting.external and not _is_listed(setting.external, inventory, lab, resolve_name):
                targets.setdefault((role, setting.external), []).append(treatment)
    for (role, address), treatments in targets.items():
        where = "in the lab, and is not on this machine" if lab else "not in the hosts file"
        yield SpecProblem(f"roles.{role}", f"{address} is {where} ({_treatments_text(treatments)}): no load is put on it")


def _is_listed(external: str, inventory: HostsFile, lab: bool, resolve_name: NameResolver) -> bool:
    address = external.rpartition(":")[0].lower()
    if lab:
        return _is_loopback(address) or bool(_aliases_of_address(address, inventory, resolve_name))
    listed = {target.lower() for target in inventory.external}
    return external.lower() in listed or bool(_aliases_of_address(address, inventory, resolve_name))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _aliases_of_address(address: str, inventory: HostsFile, resolve_name: NameResolver) -> list[str]:
    """Return the hosts that have an address."""
    return [a for a, entry in inventory.hosts.items() if (entry.address or resolve_name(a, entry)).lower() == address.lower()]


def _loaded_roles(plan: Plan, treatment: str) -> Iterator[tuple[str, Setting]]:
    """Yield the roles that requests come to under a treatment, with their settings."""
    study = plan.study
    pending, visited = [study.target_of(treatment)], set[str]()
    while pending:
        role = pending.pop(0)
        if role not in visited:
            visited.add(role)
            setting = study.setting(treatment, role)
            yield role, setting
            pending += setting.backends


def _loaded_hosts(plan: Plan, treatment: str, inventory: HostsFile, resolve_name: NameResolver) -> list[str]:
    """Return the aliases of the hosts that requests come to under a treatment."""
    first, loaded = plan.study.target_of(treatment), dict[str, None]()
    for role, setting in _loaded_roles(plan, treatment):
        aliases = hosts_for_role(inventory, role, setting) if setting.service else []
        if setting.external:
            aliases = _aliases_of_address(setting.external.rpartition(":")[0], inventory, resolve_name)
        # of the role that the load is aimed at, the first host gets it
        loaded |= dict.fromkeys(aliases[:1] if role == first and setting.service else aliases)
    return list(loaded)


def _exceeded_limits(plan: Plan, inventory: HostsFile, resolve_name: NameResolver) -> Iterator[SpecProblem]:
    """Yield what is too much for a host: each cap once for every load that exceeds it, with its treatments."""
    exceeded: dict[tuple[str, str], list[str]] = {}
    for treatment in plan.treatments:
        work = plan.study.workload_of(treatment)
        for alias in _loaded_hosts(plan, treatment, inventory, resolve_name):
            for key, message in _limits_exceeded_by(work, inventory.hosts[alias]):
                exceeded.setdefault((f"hosts.{alias}.{key}", message), []).append(treatment)
    for (path, message), treatments in exceeded.items():
        yield SpecProblem(path, f"{message} ({_treatments_text(treatments)})")


def _limits_exceeded_by(work: Workload, entry: HostEntry) -> Iterator[tuple[str, str]]:
    """Yield the caps that a load exceeds, and by what."""
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
    """Return how many connections a load may have open; some tools open one after the other, answered or not."""
    if not getattr(registry.load_tool(work.tool), "opens_connections_at_rate", False):
        return work.connections
    return math.ceil((work.rate_per_s or 0.0) * work.timeout_s)


def longest_load_s(work: Workload) -> float:
    """Return how long the load of one trial may last, seconds: its warm-up, and the load until it counts as hung."""
    return work.warmup_s + work.duration_s * (HANG_FACTOR if work.requests is not None else 1)


def _treatments_text(treatments: list[str]) -> str:
    return f"treatment{'s' if len(treatments) > 1 else ''} {', '.join(treatments)}"
