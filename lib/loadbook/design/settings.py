"""What is wrong with the roles of a study under its treatments, and the files beside it that roles name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from loadbook.core.errors import SpecProblem
from loadbook.core.toml import read_text
from loadbook.design.problems import STUDY_WIDE_LOAD_KEYS, key_path, validation_problems, short_repr, suggestion
from loadbook.design.role import ABSENT_VARIANT, RESERVED_ROLE_NAMES, Setting
from loadbook.design.study import Study

MAX_PROBLEMS = 20
# what is said of processes that loadbook starts itself, and what of those of a service in any mode
PROCESS_LIMIT_KEYS = frozenset({"cpus", "cpu_quota", "nofile"})
SERVICE_KEYS = PROCESS_LIMIT_KEYS | {"mode", "config"}
DRIVER_KEYS = frozenset({"nofile"})  # what is said of the load generator, too, where a role drives
SYSTEM_MODE_MESSAGE = "goes without system mode: the host's own server has what its system gives it"
NETWORK_PATH_MESSAGE = "is of the way from the drivers to the target: say it of the role that drives"
IDLE_HOSTS_MESSAGE = "would change hosts on which nothing runs: this role has no service"
NO_SERVICE_MESSAGE = "is of a service's processes, and this role has no service"
DRIVER_CPUS_MESSAGE = "of a driver stand in the hosts file, where they keep its load from the servers of a lab"


def read_configs(folder: Path, raw: dict[str, Any]) -> Iterator[SpecProblem]:
    """Put what the files named by `config` hold beside their names, so that a run keeps it; yield what is missing."""
    roles = raw.get("roles")
    for name, role in roles.items() if isinstance(roles, dict) else ():
        yield from _read_config(folder, role, ("roles", name))
        variants = role.get("variants") if isinstance(role, dict) else None
        for variant, setting in variants.items() if isinstance(variants, dict) else ():
            yield from _read_config(folder, setting, ("roles", name, "variants", variant))


def _read_config(folder: Path, owner: object, where: tuple[str, ...]) -> Iterator[SpecProblem]:
    file = owner.get("config") if isinstance(owner, dict) else None
    if not isinstance(owner, dict) or not isinstance(file, str) or Path(file).name != file:
        return
    try:
        owner["config_text"] = read_text(folder / file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        yield SpecProblem(key_path((*where, "config")), f"{short_repr(file)} beside the study cannot be read: {reason}")


def setting_problems(study: Study) -> list[SpecProblem]:
    """Return what is wrong with the roles of a study that is valid table by table, under each of its treatments."""
    by_path: dict[str, SpecProblem] = {}
    for problem in [
        *_reserved_name_problems(study),
        *_backend_problems(study),
        *_factor_setting_problems(study),
        *_process_problems(study),
        *_network_problems(study),
        *_condition_problems(study),
    ]:
        by_path.setdefault(problem.path, problem)
    if not by_path:
        for problem in _treatment_setting_problems(study):
            by_path.setdefault(problem.path, problem)
    return list(by_path.values())[:MAX_PROBLEMS]


def _reserved_name_problems(study: Study) -> Iterator[SpecProblem]:
    for name in RESERVED_ROLE_NAMES & set(study.roles):
        yield SpecProblem(f"roles.{name}", "is loadbook's own name for one of its jobs: call the role something else")


def _backend_problems(study: Study) -> Iterator[SpecProblem]:
    for name in study.roles:
        for number, other in enumerate(study.roles[name].backends):
            where = f"roles.{name}.backends.{number}"
            if other not in study.roles:
                yield SpecProblem(where, f"no role {short_repr(other)}")
            elif name in _reachable_roles(study, other):
                yield SpecProblem(where, f"requests would go round: {other} stands in front of {name}, too")


def _reachable_roles(study: Study, role: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """Return a role and every role that its requests may go on to."""
    if role in seen or role not in study.roles:
        return set()
    return {role}.union(*(_reachable_roles(study, other, seen | {role}) for other in study.roles[role].backends))


def _factor_setting_problems(study: Study) -> Iterator[SpecProblem]:
    for name, factor in study.factors.items():
        if factor.of == "workload" and (factor.var or name) in STUDY_WIDE_LOAD_KEYS:
            yield SpecProblem(f"factors.{name}.var", "is the same for every treatment: set it in [workload]")
        if factor.role not in study.roles:
            continue  # consistency_problems has said so, or it is of the load
        known = {ABSENT_VARIANT, *study.roles[factor.role].variants}
        for number, level in enumerate(factor.levels if factor.of == "variant" else ()):
            if level not in known:
                message = f"role {factor.role} has no variant {short_repr(level)}; known: {', '.join(sorted(known))}"
                yield SpecProblem(f"factors.{name}.levels.{number}", message)
        if factor.of not in ("vars", "variant", "sysctls", "workload") and factor.var is not None:
            yield SpecProblem(f"factors.{name}.var", f'goes with of = "vars", "sysctls" or "workload", not {factor.of}')


def _process_problems(study: Study) -> Iterator[SpecProblem]:
    """Check that what is said of a role's processes can be so: it has a service, and loadbook starts it itself."""
    for name, role in study.roles.items():
        settings = {f"roles.{name}": role.base_setting}
        settings |= {f"roles.{name}.variants.{v}": role.variant_setting(v) for v in role.variants}
        has_service = any(setting.service for setting in settings.values())
        by_factor = {str(f.of): f"factors.{n}.of" for n, f in study.factors.items() if f.role == name}
        for where, setting in settings.items():
            stated = {key for key in SERVICE_KEYS if getattr(setting, key) not in (None, "all", "managed")}
            if not has_service:
                drives = name == study.workload.role
                for key in sorted(stated - DRIVER_KEYS if drives else stated):
                    yield SpecProblem(f"{where}.{key}", DRIVER_CPUS_MESSAGE if drives and key == "cpus" else NO_SERVICE_MESSAGE)
                yield from (SpecProblem(by_factor[key], NO_SERVICE_MESSAGE) for key in PROCESS_LIMIT_KEYS & set(by_factor))
            elif setting.mode == "system":
                yield from (SpecProblem(f"{where}.{key}", SYSTEM_MODE_MESSAGE) for key in sorted(PROCESS_LIMIT_KEYS & stated))
                yield from (SpecProblem(by_factor[key], SYSTEM_MODE_MESSAGE) for key in PROCESS_LIMIT_KEYS & set(by_factor))


def _network_problems(study: Study) -> Iterator[SpecProblem]:
    """Check that what is done to the network or the kernel is said of a role whose hosts a trial changes."""
    for name, role in study.roles.items():
        variants = {f"roles.{name}.variants.{v}": role.variant_setting(v) for v in role.variants}
        settings = {f"roles.{name}": role.base_setting, **variants}
        refused = {} if name == study.workload.role else dict.fromkeys(("delay_ms", "loss"), NETWORK_PATH_MESSAGE)
        if name != study.workload.role and not any(setting.service for setting in settings.values()):
            refused |= dict.fromkeys(("sysctls", "rate_mbit"), IDLE_HOSTS_MESSAGE)
        stated = {f"{where}.{key}": key for where, setting in settings.items() for key in refused if getattr(setting, key)}
        stated |= {f"factors.{n}.of": f.of for n, f in study.factors.items() if f.role == name and f.of in refused}
        yield from (SpecProblem(path, refused[key]) for path, key in stated.items())


def _condition_problems(study: Study) -> Iterator[SpecProblem]:
    """Check that a study whose conditions are judged apart has a baseline under each, which its A/A arms repeat."""
    if study.apart is None:
        return
    if study.apart not in study.factors:
        yield SpecProblem("apart", f"no factor {short_repr(study.apart)}{suggestion(study.apart, study.factors)}")
        return
    for name, treatment in study.treatments.items():
        base, level = study.baseline_of(name), study.levels_of(name)[study.apart]
        if study.levels_of(base)[study.apart] != level:
            message = f"no treatment is like {study.baseline!r} at {study.apart} = {short_repr(level)}"
            yield SpecProblem(f"treatments.{name}", f"{message}, so that nothing is its baseline")
        elif treatment.check == "aa" and treatment.same_as != base:
            message = f"an A/A arm repeats the baseline of its condition: same_as = {short_repr(base)}, and nothing set"
            yield SpecProblem(f"treatments.{name}.check", message)


def _treatment_setting_problems(study: Study) -> Iterator[SpecProblem]:
    for treatment in study.treatments:
        where = f"treatments.{treatment}"
        try:
            study.workload_of(treatment)
            settings = {role: study.setting(treatment, role) for role in study.roles}
        except ValidationError as error:
            yield from (SpecProblem(f"{where}: {p.path}", p.message) for p in validation_problems(error, Setting))
            continue
        target = study.target_of(treatment)
        if not settings[target].is_present:
            yield SpecProblem(where, f"leaves nothing that gets the load: role {target} has no service")
