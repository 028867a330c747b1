"""A study against its services: every variable and level that a service would refuse, before anything is touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from loadbook.core.errors import SpecProblem, UsageError
from loadbook.design.study import Study
from loadbook.services.spec import ServiceSpec, load_service


def check_study(study: Study, folders: Sequence[Path] = ()) -> list[SpecProblem]:
    """Return every problem between a study and the services of its roles, with key paths such as `roles.web.vars.x`.

    Raises StudyError only for a service.toml that is itself wrong.
    """
    return list(_problems(study, folders))


def _problems(study: Study, folders: Sequence[Path]) -> Iterator[SpecProblem]:
    specs: dict[str, ServiceSpec] = {}
    for name, role in study.roles.items():
        if role.service is None:
            continue
        try:
            specs[name] = load_service(role.service, folders)
        except UsageError as error:
            yield SpecProblem(f"roles.{name}.service", error.message)
        else:
            yield from specs[name].problems(f"roles.{name}.vars", role.vars)
    yield from _factor_problems(study, specs)


def _factor_problems(study: Study, specs: dict[str, ServiceSpec]) -> Iterator[SpecProblem]:
    for name, factor in study.factors.items():
        spec, var = specs.get(factor.role), factor.var or name
        if spec is None:
            if study.roles[factor.role].service is None:
                yield SpecProblem(f"factors.{name}.role", f"role {factor.role!r} has no service to set it on")
            continue
        if var not in spec.vars:
            yield SpecProblem(f"factors.{name}{'.var' if factor.var else ''}", spec.problem(var, 0) or "")
            continue
        for number, level in enumerate(factor.levels):
            message = spec.problem(var, level)
            if message:
                yield SpecProblem(f"factors.{name}.levels.{number}", message)
        for treatment, spec_of in study.treatments.items():
            message = spec.problem(var, spec_of.set[name]) if name in spec_of.set else None
            if message:
                yield SpecProblem(f"treatments.{treatment}.set.{name}", message)
