"""Which programs a study needs on which role's hosts: its load generators, its services, and what builds them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from loadbook.design.study import Study
from loadbook.hosts.checkup import Program
from loadbook.services import ServiceSpec, load_service
from loadbook.tools import registry
from loadbook.trials.changes import asks_for_delay
from loadbook.trials.stage import LINE_SERVICE

APT = "apt-get install "
ELSE = " (there, or here: what is built is carried)"


def programs(study: Study, folders: Sequence[Path]) -> dict[str, list[Program]]:
    """Return role -> the programs that any treatment of the study's subset needs on its hosts, each once.

    Raises UsageError for an unknown service, ToolError for an unknown tool.
    """
    treatments = study.in_subset()
    tools = [registry.load(name) for name in study.tools_of(treatments)]
    found = {role: dict[str, Program]() for role in (study.workload.role, *study.roles)}
    found[study.workload.role] |= {tool.binary: Program(tool.binary, tool.get) for tool in tools}
    if asks_for_delay(study, treatments):
        line = of_service(load_service(LINE_SERVICE, folders))
        found[study.workload.role] |= {p.binary: p._replace(needed=False) for p in line}
    for role in study.roles:
        for service in services_of(study, treatments, role):
            found[role] |= {p.binary: p for p in of_service(load_service(service, folders))}
    return {role: list(those.values()) for role, those in found.items()}


def services_of(study: Study, treatments: Iterable[str], role: str) -> list[str]:
    """Return the names of the services that a role has under any of the treatments, each once."""
    settings = (study.setting(treatment, role) for treatment in treatments)
    return list(dict.fromkeys(setting.service for setting in settings if setting.service))


def of_service(spec: ServiceSpec) -> list[Program]:
    """Return the programs of a service: its own, and what builds it, which a host may lack where we have it."""
    own = [Program(spec.binary, APT + spec.package)] if spec.version else []
    makers = spec.build.needs if spec.build else ()
    get = spec.build.get + ELSE if spec.build else ""
    return own + [Program(name, get, needed=shutil.which(name) is None) for name in makers]


def packages(found: Iterable[Program]) -> list[str]:
    """Return `command=package[,package]` for each program that comes as a package, as scripts/setup.sh takes them."""
    named = {p.binary: p.get.removesuffix(ELSE) for p in found}
    return [f"{name}={','.join(get.removeprefix(APT).split())}" for name, get in named.items() if get.startswith(APT)]
