"""Reads and checks study files, their includes and the files beside them; reports all mistakes with key paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from loadbook.core.errors import SpecProblem, StudyError, UsageError
from loadbook.core.metrics import CPU_PER_RESPONSE
from loadbook.core.toml import STUDY_KEYS, read_text, read_toml, to_present_keys
from loadbook.modes.base import all_modes, mode_of
from loadbook.study import designs, problems
from loadbook.study.limits import StoppingRule
from loadbook.study.model import Study
from loadbook.study.problems import (
    STUDY_WIDE_LOAD_KEYS,
    key_path,
    short_repr,
    suggestion,
    table_in,
    validation_problems,
)
from loadbook.study.treatments import ABSENT_VARIANT, RESERVED_ROLE_NAMES, Role, Setting, Treatment

MAX_PROBLEMS = 20
# keys for processes that loadbook itself starts, and for those of a service in any mode
PROCESS_LIMIT_KEYS = frozenset({"cpus", "cpu_quota", "nofile"})
SERVICE_KEYS = PROCESS_LIMIT_KEYS | {"mode", "config"}
DRIVER_KEYS = frozenset({"nofile"})  # keys that also affect the load generator, in the role that runs it
SYSTEM_MODE_MESSAGE = "goes without system mode: the host's own server has what its system gives it"
NETWORK_PATH_MESSAGE = "is of the way from the drivers to the target: say it of the role that drives"
IDLE_HOSTS_MESSAGE = "would change hosts on which nothing runs: this role has no service"
NO_SERVICE_MESSAGE = "is of a service's processes, and this role has no service"
DRIVER_CPUS_MESSAGE = "of a driver stand in the hosts file, where they keep its load from the servers of a lab"


def setting_problems(study: Study) -> list[SpecProblem]:
    """Return problems in the roles of a study under each treatment; the tables must be valid by themselves.

    There is at most one for each key path, and `MAX_PROBLEMS` in all.
    """
    checks = (
        *(_role_problems, _factor_problems, _process_problems, _network_problems, _stratum_problems),
        *(mode.problems for mode in all_modes()),
    )
    by_path: dict[str, SpecProblem] = {}
    for problem in [p for check in checks for p in check(study)] or _treatment_problems(study):
        by_path.setdefault(problem.path, problem)
    return list(by_path.values())[:MAX_PROBLEMS]


def _role_problems(study: Study) -> Iterator[SpecProblem]:
    for name in RESERVED_ROLE_NAMES & set(study.roles):
        yield SpecProblem(f"roles.{name}", "is loadbook's own name for one of its jobs: call the role something else")
    for name in study.roles:
        for number, other in enumerate(study.roles[name].backends):
            where = f"roles.{name}.backends.{number}"
            if other not in study.roles:
                yield SpecProblem(where, f"no role {short_repr(other)}")
            elif name in _reachable_roles(study, other):
                yield SpecProblem(where, f"requests would go round: {other} stands in front of {name}, too")
    _, _, role = study.metric.partition(".")  # the role whose CPU time is the metric
    if role in study.roles and study.setting(study.baseline, role).service is None:
        message = f"the baseline has no service of role {role}: nothing could be compared with it"
        yield SpecProblem("metric", f"{message}; {CPU_PER_RESPONSE} is that of all roles")


def _reachable_roles(study: Study, role: str, visited: frozenset[str] = frozenset()) -> set[str]:
    """Return a role and all roles to which its requests may be forwarded."""
    if role in visited or role not in study.roles:
        return set()
    return {role}.union(*(_reachable_roles(study, other, visited | {role}) for other in study.roles[role].backends))


def _factor_problems(study: Study) -> Iterator[SpecProblem]:
    for name, factor in study.factors.items():
        if factor.of == "workload" and (factor.var or name) in STUDY_WIDE_LOAD_KEYS:
            yield SpecProblem(f"factors.{name}.var", "is the same for every treatment: set it in [workload]")
        if factor.role not in study.roles:
            continue  # reported by consistency_problems, or a factor of the load
        known = {ABSENT_VARIANT, *study.roles[factor.role].variants}
        for number, level in enumerate(factor.levels if factor.of == "variant" else ()):
            if level not in known:
                message = f"role {factor.role} has no variant {short_repr(level)}; known: {', '.join(sorted(known))}"
                yield SpecProblem(f"factors.{name}.levels.{number}", message)
        if factor.of not in ("vars", "variant", "sysctls", "workload") and factor.var is not None:
            yield SpecProblem(f"factors.{name}.var", f'goes with of = "vars", "sysctls" or "workload", not {factor.of}')


def _settings_by_path(name: str, role: Role) -> dict[str, Setting]:
    """Return the settings of a role and of its variants, by key path."""
    variants = {f"roles.{name}.variants.{v}": role.variant_setting(v) for v in role.variants}
    return {f"roles.{name}": role.base_setting, **variants}


def _process_problems(study: Study) -> Iterator[SpecProblem]:
    """Check that keys for processes are in roles with a service that loadbook itself starts."""
    for name, role in study.roles.items():
        settings, drives = _settings_by_path(name, role), name == study.workload.role
        by_factor = {str(f.of): f"factors.{n}.of" for n, f in study.factors.items() if f.role == name}
        has_service = any(setting.service for setting in settings.values())
        refused, message = PROCESS_LIMIT_KEYS, SYSTEM_MODE_MESSAGE
        if not has_service:
            refused, message = SERVICE_KEYS - DRIVER_KEYS if drives else SERVICE_KEYS, NO_SERVICE_MESSAGE
        for where, setting in settings.items():
            if has_service and setting.mode != "system":
                continue
            values = {"mode": setting.mode, "config": setting.config} | setting.process_limits
            for key in sorted(key for key in refused if values[key] not in (None, "all", "managed")):
                of_driver = drives and not has_service and key == "cpus"
                yield SpecProblem(f"{where}.{key}", DRIVER_CPUS_MESSAGE if of_driver else message)
            yield from (SpecProblem(by_factor[key], message) for key in PROCESS_LIMIT_KEYS & set(by_factor))


def _network_problems(study: Study) -> Iterator[SpecProblem]:
    """Check that keys for network and kernel are in roles whose hosts a trial may change."""
    for name, role in study.roles.items():
        settings = _settings_by_path(name, role)
        refused = {} if name == study.workload.role else dict.fromkeys(("delay_ms", "loss"), NETWORK_PATH_MESSAGE)
        if name != study.workload.role and not any(setting.service for setting in settings.values()):
            refused |= dict.fromkeys(("sysctls", "rate_mbit"), IDLE_HOSTS_MESSAGE)
        stated = {
            f"{where}.{key}": key
            for where, setting in settings.items()
            for key, value in setting.host_changes.items()
            if value and key in refused
        }
        stated |= {f"factors.{n}.of": f.of for n, f in study.factors.items() if f.role == name and f.of in refused}
        yield from (SpecProblem(path, refused[key]) for path, key in stated.items())


def _stratum_problems(study: Study) -> Iterator[SpecProblem]:
    """Check that a stratified study has a baseline in each stratum, and that A/A arms repeat these baselines."""
    if study.stratify_by is None:
        return
    if (factor := study.stratify_by) not in study.factors:
        yield SpecProblem("stratify_by", f"no factor {short_repr(factor)}{suggestion(factor, study.factors)}")
        return
    for name, treatment in study.treatments.items():
        base, level = study.baseline_of(name), study.levels_of(name)[study.stratify_by]
        if study.levels_of(base)[study.stratify_by] != level:
            message = f"no treatment is like {study.baseline!r} at {study.stratify_by} = {short_repr(level)}"
            yield SpecProblem(f"treatments.{name}", f"{message}, so that nothing is its baseline")
        elif treatment.check == "aa" and treatment.same_as != base:
            message = f"an A/A arm repeats the baseline of its condition: same_as = {short_repr(base)}, and nothing set"
            yield SpecProblem(f"treatments.{name}.check", message)


def _treatment_problems(study: Study) -> Iterator[SpecProblem]:
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


ARTICLE_SUFFIX = "-article"  # ending of the names of studies at the scale of their article, for real hosts


def study_files(folder: Path) -> list[Path]:
    """Return the study files in `folder` by name, each followed by its variants."""
    return sorted(folder.glob("*.toml"), key=lambda path: path.stem)


def is_variant(path: Path) -> bool:
    """Return whether a study file is a variant: at an article's scale, or an include without a question of its own.

    A file that cannot be read is not a variant; reading it as a study reports its mistakes.
    """
    try:
        raw = read_toml(path)
    except (OSError, StudyError):
        return False
    return "include" in raw and ("question" not in raw or path.stem.endswith(ARTICLE_SUFFIX))


SMOKE_SUFFIX = "-smoke"
SMOKE_TIMES_S = (1.0, 0.3)  # load, warm-up
FILE_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
INCLUDE_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.toml\Z")


def read_study(path: Path) -> Study:
    """Read, merge and check a study file; StudyError lists all mistakes with key paths."""
    raw, study = read_study_tables(path), None
    mistakes = [*designs.expand_factorial(raw), *designs.expand_grid(raw), *_read_named_files(path.parent, raw)]
    try:
        study = Study.model_validate(raw)
    except ValidationError as error:
        mistakes += problems.validation_problems(error, Study)
    mistakes += [p for p in problems.consistency_problems(raw) if p.path not in {q.path for q in mistakes}]
    if study is not None and not mistakes:
        mistakes = setting_problems(study)
    if study is None or mistakes:
        raise StudyError(str(path), mistakes)
    return study


def _read_named_files(folder: Path, raw: dict[str, Any]) -> Iterator[SpecProblem]:
    """Store the text of JMeter plans and configurations beside their names, for the run record; yield missing files."""
    treatments, roles = table_in(raw, "treatments"), table_in(raw, "roles")
    owners = [("plan", "workload", table_in(raw, "workload"))]
    for name, treatment in treatments.items():
        owners.append(("plan", key_path(("treatments", name, "workload")), table_in(treatment, "workload")))
    for name, role in roles.items():
        variants, where = table_in(role, "variants"), ("roles", name)
        owners.append(("config", key_path(where), table_in(roles, name)))
        owners += [("config", key_path((*where, "variants", v)), table_in(variants, v)) for v in variants]
    for key, path, owner in owners:
        file = owner.get(key)
        if isinstance(file, str) and FILE_NAME_PATTERN.match(file):
            try:
                owner[f"{key}_text"] = read_text(folder / file)
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                message = f"{short_repr(file)} beside the study cannot be read: {reason}"
                yield SpecProblem(f"{path}.{key}", message)


def find_study(studies: Path, name: str) -> Study:
    """Return a study by path, by name of a file in `studies`, or the smoke variant `<name>-smoke` of one.

    A name that ends with `.toml` is a path.

    Raises
    ------
    UsageError : there is no such study.
    StudyError : its file has mistakes.
    """
    direct = Path(name)
    if direct.suffix == ".toml":
        return read_study(direct)
    path, base = studies / f"{name}.toml", studies / f"{name.removesuffix(SMOKE_SUFFIX)}.toml"
    if path.is_file():
        return read_study(path)
    if base.is_file():
        return smoke_variant(read_study(base))
    known = sorted(p.stem for p in studies.glob("*.toml"))
    raise UsageError(f"no study {problems.short_repr(name)} in {studies}{problems.suggestion(name, known)}")


def smoke_variant(study: Study) -> Study:
    """Return the smoke variant of a study: the baseline, its checks and one treatment in 6 blocks, each load for 1 s.

    The subset `smoke` of the study replaces this choice of treatments. For a factorial it is the full factorial of the
    first two switches. A mode may change more, such as the objective of a search for capacity.
    """
    treatments = study.treatments_in()
    checks = [t for t in treatments if study.treatments[t].check]
    others = [t for t in treatments if t not in checks and t != study.baseline]
    factorial, generated = designs.smoke_factorial(study) or (None, {})
    subset = study.subsets.get("smoke") or (*(generated or (study.baseline, *others[:1])), *checks)
    names = {*subset, *(study.treatments[t].same_as for t in subset if t in study.treatments)}
    published = study.published and study.published.model_copy(
        update={"claims": tuple(c for c in study.published.claims if set(c.treatments) <= names)}
    )
    connections = [study.workload_of(name).connections for name in study.treatments if name in names]
    return study.model_copy(
        update={
            "name": study.name + SMOKE_SUFFIX,
            "stopping": StoppingRule(),
            "subset": "default",
            "subsets": {"default": subset},
            "factorial": factorial,
            "treatments": generated
            | {name: _shortened_treatment(study, name) for name in study.treatments if name in names - set(generated)},
            "workload": study.workload.with_duration(*SMOKE_TIMES_S, max(connections, default=1)),
            "published": published,
            "ci": study.ci and study.ci.restricted_to(subset),
        }
        | mode_of(study).smoke_changes(study)
    )


def _shortened_treatment(study: Study, name: str) -> Treatment:
    """Return a treatment whose own changes of the load are shortened as in a smoke variant."""
    spec = study.treatments[name]
    load = study.workload_of(name).with_duration(*SMOKE_TIMES_S).model_dump()
    return spec.model_copy(update={"workload": {key: load[key] for key in spec.workload}})


def read_study_tables(path: Path, depth: int = 0) -> dict[str, Any]:
    """Return the tables of a file, merged over those of its `include` (a file beside it).

    `depth` is the number of includes that led to this file. UsageError: it cannot be read.
    """
    try:
        raw = read_toml(path)
    except OSError as error:
        raise UsageError(f"study file {path}: {error.strerror}") from error
    if doubled := list(to_present_keys(raw, STUDY_KEYS, path)):
        raise StudyError(str(path), doubled)
    include = raw.pop("include", None)
    if include is None:
        return raw
    if depth > 3 or not isinstance(include, str) or not INCLUDE_PATTERN.match(include):
        message = "must name a .toml file beside this one, four deep at most"
        raise StudyError(str(path), [SpecProblem("include", message)])
    return _merge_tables(read_study_tables(path.parent / include, depth + 1), raw)


def _merge_tables(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merge_tables(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
