"""A study by its name, checked against its services and tools; needs no host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loadbook.core.errors import LoadbookError, SpecProblem, StudyError, ToolError
from loadbook.services import check_study, load_service
from loadbook.store.paths import Layout
from loadbook.study.model import Study
from loadbook.study.reader import SMOKE_SUFFIX, find_study, read_study_tables
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
    problems = [*check_study(study, folders), *_load_problems(study)]
    if problems:
        raise StudyError(str(file), problems)
    return study


def _load_problems(study: Study) -> list[SpecProblem]:
    """Return the loads that tools would refuse."""
    changed = [name for name in study.treatments if study.workload_of(name) != study.workload]
    places = {"workload": study.workload} | {f"treatments.{name}.workload": study.workload_of(name) for name in changed}
    return [problem for place, load in places.items() for problem in _tool_problems(load, place)]


def _tool_problems(load: Workload, place: str) -> list[SpecProblem]:
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
        service, values = _service_and_vars(role)
        try:
            yield from load_service(service, folders).problems(f"roles.{name}.vars", values) if service else []
        except LoadbookError as error:
            yield SpecProblem(f"roles.{name}.service", error.message)


def _service_and_vars(role: Any) -> tuple[str, dict[str, Any]]:
    """Return service and variables of a raw role; empty for values of a wrong type."""
    service, values = (role.get("service"), role.get("vars")) if isinstance(role, dict) else (None, None)
    return service if isinstance(service, str) else "", values if isinstance(values, dict) else {}
