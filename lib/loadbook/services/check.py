"""A study against its services: every variable and level that a service would refuse, before anything is touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from loadbook.core.errors import SpecProblem, UsageError
from loadbook.design.role import FactorLevel, Setting
from loadbook.design.study import Factor, Study
from loadbook.services.spec import ServiceSpec, load_service

Specs = dict[str, ServiceSpec]


def check_study(study: Study, folders: Sequence[Path] = ()) -> list[SpecProblem]:
    """Return every problem between a study and the services of its roles, with key paths such as `roles.web.vars.x`.

    Raises StudyError only for a service.toml that is itself wrong.
    """
    specs: Specs = {}
    return [*_role_problems(study, folders, specs), *_factor_problems(study, specs)]


def _role_problems(study: Study, folders: Sequence[Path], specs: Specs) -> Iterator[SpecProblem]:
    """Yield what is wrong with roles and their variants, and keep every service that was found in `specs`."""
    for name, role in study.roles.items():
        settings: dict[str, Setting] = {f"roles.{name}": role.base_setting}
        settings |= {f"roles.{name}.variants.{v}": role.variant_setting(v) for v in role.variants}
        for path, setting in settings.items():
            if setting.service is None:
                continue
            try:
                spec = specs[setting.service] = load_service(setting.service, folders)
            except UsageError as error:
                yield SpecProblem(f"{path}.service", error.message)
            else:
                yield from _mode_problems(path, setting, spec)
                yield from spec.problems(f"{path}.vars", setting.vars)


def _mode_problems(path: str, setting: Setting, spec: ServiceSpec) -> Iterator[SpecProblem]:
    try:
        if setting.mode == "system":
            spec.as_system()
    except UsageError as error:
        yield SpecProblem(f"{path}.mode", f"{error.message}: {error.hint}")


def _services_of(study: Study, role: str) -> list[str]:
    """Return the names of all services that a role may have."""
    settings = [study.roles[role].base_setting, *map(study.roles[role].variant_setting, study.roles[role].variants)]
    return list(dict.fromkeys(s.service for s in settings if s.service is not None))


def _factor_problems(study: Study, specs: Specs) -> Iterator[SpecProblem]:
    for name, factor in study.factors.items():
        if factor.of != "vars":
            continue
        services = _services_of(study, factor.role)
        if not services:
            yield SpecProblem(f"factors.{name}.role", f"role {factor.role!r} has no service to set it on")
        for spec in [specs[service] for service in services if service in specs]:
            yield from _level_problems(study, name, factor, spec)


def _level_problems(study: Study, name: str, factor: Factor, spec: ServiceSpec) -> Iterator[SpecProblem]:
    var = factor.var or name
    if var not in spec.vars:
        yield SpecProblem(f"factors.{name}{'.var' if factor.var else ''}", spec.problem(var, 0) or "")
        return
    levels: dict[str, FactorLevel] = {f"factors.{name}.levels.{k}": level for k, level in enumerate(factor.levels)}
    levels |= {f"treatments.{t}.set.{name}": s.set[name] for t, s in study.treatments.items() if name in s.set}
    for path, level in levels.items():
        if message := spec.problem(var, level):
            yield SpecProblem(path, message)
