"""Which programs a study needs on which role's hosts: its load generators, its services, and what builds them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from loadbook.design.study import Study
from loadbook.hosts.checkup import RequiredProgram
from loadbook.services import ServiceSpec, load_service
from loadbook.tools import registry
from loadbook.trials.changes import uses_delay
from loadbook.trials.stage import DELAY_SERVICE

APT_INSTALL = "apt-get install "
BUILT_HERE_NOTE = " (there, or here: what is built is carried)"


def required_programs(study: Study, folders: Sequence[Path]) -> dict[str, list[RequiredProgram]]:
    """Return role -> the programs that any treatment of the study's subset needs on its hosts, each once.

    Raises UsageError for an unknown service, ToolError for an unknown tool.
    """
    treatments = study.treatments_in()
    tools = [registry.load_tool(name) for name in study.tools_of(treatments)]
    by_role = {role: dict[str, RequiredProgram]() for role in (study.workload.role, *study.roles)}
    by_role[study.workload.role] |= {tool.binary: RequiredProgram(tool.binary, tool.install_hint) for tool in tools}
    if uses_delay(study, treatments):
        line = service_programs(load_service(DELAY_SERVICE, folders))
        by_role[study.workload.role] |= {p.binary: p._replace(required=False) for p in line}
    for role in study.roles:
        for service in role_services(study, treatments, role):
            by_role[role] |= {p.binary: p for p in service_programs(load_service(service, folders))}
    return {role: list(needed.values()) for role, needed in by_role.items()}


def role_services(study: Study, treatments: Iterable[str], role: str) -> list[str]:
    """Return the names of the services that a role has under any of the treatments, each once."""
    settings = (study.setting(treatment, role) for treatment in treatments)
    return list(dict.fromkeys(setting.service for setting in settings if setting.service))


def service_programs(spec: ServiceSpec) -> list[RequiredProgram]:
    """Return the programs of a service: its own, and what builds it, which a host may lack where we have it."""
    programs = [RequiredProgram(spec.binary, APT_INSTALL + spec.package)] if spec.version else []
    builders = spec.build.needs if spec.build else ()
    get = spec.build.get + BUILT_HERE_NOTE if spec.build else ""
    return programs + [RequiredProgram(name, get, required=shutil.which(name) is None) for name in builders]


def package_arguments(programs: Iterable[RequiredProgram]) -> list[str]:
    """Return `command=package[,package]` for each program that comes as a package, as scripts/setup.sh takes them."""
    named = {p.binary: p.install.removesuffix(BUILT_HERE_NOTE) for p in programs}
    return [f"{name}={','.join(get.removeprefix(APT_INSTALL).split())}" for name, get in named.items() if get.startswith(APT_INSTALL)]
