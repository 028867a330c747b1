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
from loadbook.hosts.ssh_config import host_name
from loadbook.tools import registry
from loadbook.trials.stage import chosen_hosts

# alias, entry -> the name or address that loads are aimed at
Named = Callable[[str, HostEntry], str]
HANGS = 3  # a load of so many requests is ended when it has taken so many times what it was expected to
CAPS_HINT = "change the study, or what its hosts may get in the hosts file"
EXTERNAL_HINT = 'name it in the hosts file, above the hosts: external = ["host:port"], if you may put load on it'


def must_be_allowed(
    plan: Plan, inventory: HostsFile, source: Path, *, lab: bool = False, named: Named = host_name
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
    if strange := list(_strange(plan, inventory, lab, named)):
        raise StudyError(str(source), strange, EXTERNAL_HINT)
    if over := list(_over(plan, inventory, named)):
        raise StudyError(str(source), over, CAPS_HINT)


def _strange(plan: Plan, inventory: HostsFile, lab: bool, named: Named) -> Iterator[SpecProblem]:
    """Yield the external addresses that are neither a host nor listed; each once, with its treatments."""
    found: dict[tuple[str, str], list[str]] = {}
    for treatment in plan.treatments:
        for role, setting in _reached(plan, treatment):
            if setting.external and not _known(setting.external, inventory, lab, named):
                found.setdefault((role, setting.external), []).append(treatment)
    for (role, address), treatments in found.items():
        where = "in the lab, and is not on this machine" if lab else "not in the hosts file"
        yield SpecProblem(f"roles.{role}", f"{address} is {where} ({_listed(treatments)}): no load is put on it")


def _known(external: str, inventory: HostsFile, lab: bool, named: Named) -> bool:
    address = external.rpartition(":")[0].lower()
    if lab:
        return _is_loopback(address) or bool(_aliases(address, inventory, named))
    listed = {one.lower() for one in inventory.external}
    return external.lower() in listed or bool(_aliases(address, inventory, named))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _aliases(address: str, inventory: HostsFile, named: Named) -> list[str]:
    """Return the hosts that have an address."""
    return [a for a, entry in inventory.hosts.items() if (entry.address or named(a, entry)).lower() == address.lower()]


def _reached(plan: Plan, treatment: str) -> Iterator[tuple[str, Setting]]:
    """Yield the roles that requests come to under a treatment, with their settings."""
    study = plan.study
    ahead, seen = [study.target_of(treatment)], set[str]()
    while ahead:
        role = ahead.pop(0)
        if role not in seen:
            seen.add(role)
            setting = study.setting(treatment, role)
            yield role, setting
            ahead += setting.backends


def _hosts(plan: Plan, treatment: str, inventory: HostsFile, named: Named) -> list[str]:
    """Return the aliases of the hosts that requests come to under a treatment."""
    first, found = plan.study.target_of(treatment), dict[str, None]()
    for role, setting in _reached(plan, treatment):
        aliases = chosen_hosts(inventory, role, setting) if setting.service else []
        if setting.external:
            aliases = _aliases(setting.external.rpartition(":")[0], inventory, named)
        # of the role that the load is aimed at, the first host gets it
        found |= dict.fromkeys(aliases[:1] if role == first and setting.service else aliases)
    return list(found)


def _over(plan: Plan, inventory: HostsFile, named: Named) -> Iterator[SpecProblem]:
    """Yield what is too much for a host: each cap once for every load that exceeds it, with its treatments."""
    found: dict[tuple[str, str], list[str]] = {}
    for treatment in plan.treatments:
        work = plan.study.workload_of(treatment)
        for alias in _hosts(plan, treatment, inventory, named):
            for key, said in _exceeded(work, inventory.hosts[alias]):
                found.setdefault((f"hosts.{alias}.{key}", said), []).append(treatment)
    for (path, said), treatments in found.items():
        yield SpecProblem(path, f"{said} ({_listed(treatments)})")


def _exceeded(work: Workload, entry: HostEntry) -> Iterator[tuple[str, str]]:
    """Yield the caps that a load exceeds, and by what."""
    rate, most = work.rate_per_s, entry.max_requests_per_s
    if most is not None and rate is None:
        able = "use an open load (workload.model = 'open' with rate_per_s), or take the cap away"
        yield "max_requests_per_s", f"{most:g} at most, but a closed load has no rate of its own: {able}"
    elif most is not None and rate is not None and rate > most:
        yield "max_requests_per_s", f"{most:g} at most, the load is of {rate:g} requests per second"
    if entry.max_connections is not None and _connections(work) > entry.max_connections:
        yield "max_connections", f"{entry.max_connections} at most, the load may have {_connections(work):,} open"
    if entry.max_load_s is not None and longest_s(work) > entry.max_load_s:
        yield "max_load_s", f"{entry.max_load_s:g} s at most, the load of a trial may last {longest_s(work):g} s"


def _connections(work: Workload) -> int:
    """Return how many connections a load may have open; some tools open one after the other, answered or not."""
    if not getattr(registry.load(work.tool), "opens_by_rate", False):
        return work.connections
    return math.ceil((work.rate_per_s or 0.0) * work.timeout_s)


def longest_s(work: Workload) -> float:
    """Return how long the load of one trial may last, seconds: its warm-up, and the load until it counts as hung."""
    return work.warmup_s + work.duration_s * (HANGS if work.requests is not None else 1)


def _listed(treatments: list[str]) -> str:
    return f"treatment{'s' if len(treatments) > 1 else ''} {', '.join(treatments)}"
