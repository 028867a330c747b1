"""Checks of a study's values against its services, settings without effect, and the text of a new study file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from loadbook.core.errors import SpecProblem, StudyError, UsageError, unknown_name_error
from loadbook.services.render import template_environment
from loadbook.services.spec import ServiceSpec, load_service
from loadbook.services.variables import OFF, UNSET
from loadbook.study.model import Study
from loadbook.study.treatments import Factor, FactorLevel, Setting

MAX_QUESTION_CHARS = 90
LARGE_PAGE_BYTES = 32_768
# of a new study: what its blocks for latencies may take together, and what one of its plain trials takes
LATENCIES_S, STARTER_TRIAL_S = 60.0, 7.0
COMMENT_COLUMN = 36  # column in which comments begin


class VariableSetting(NamedTuple):
    """A value for a variable of a role's service."""

    role: str
    var: str
    value: FactorLevel


def parse_setting(text: str, services: Mapping[str, ServiceSpec]) -> VariableSetting:
    """Parse `[ROLE.]VARIABLE=VALUE`; the role may be omitted if only one role has the variable.

    `services`: role -> its service. A value of digits becomes a whole number.
    Raises UsageError for other texts and unknown names, StudyError for a value that is not allowed.
    """
    target, separator, value = text.partition("=")
    role, _, var = target.rpartition(".")
    if not separator or not var:
        raise UsageError(f"{text!r} sets nothing", "for example sendfile=on, or web.sendfile=on")
    if role and role not in services:
        raise unknown_name_error("role", role, services)
    roles = [name for name, spec in services.items() if var in spec.vars and role in ("", name)]
    if not roles:
        variables = [name for each, spec in services.items() if role in ("", each) for name in spec.vars]
        raise unknown_name_error("variable", var, dict.fromkeys(variables), listed_in="docs/services.md")
    if len(roles) > 1:
        raise UsageError(f"{' and '.join(roles)} both have {var}", f"say which: {roles[0]}.{var}={value}")
    level: FactorLevel = int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value
    if problem := services[roles[0]].problem(var, level):
        spec = services[roles[0]]
        known = spec.vars[var]
        hint = f"{var}: {known.about}" if known.type in ("text", "path") else f"{var} may be: {known.allowed}"
        raise StudyError(f"service {spec.name}", [SpecProblem(f"{roles[0]}.{var}", problem)], hint)
    return VariableSetting(roles[0], var, level)


def control_settings(
    services: Mapping[str, ServiceSpec], tried: Sequence[VariableSetting], fixed: Sequence[VariableSetting]
) -> list[VariableSetting]:
    """Return the settings of known cost that a new study has as its positive control; [] if no service offers any.

    They belong to the first role whose service has some, roles with tried settings first. A role is left out if the
    study sets one of the variables itself, or if a precondition of the settings is not met.

    Parameters
    ----------
    services : role -> its service, in the order in which a request passes them.
    tried, fixed : settings compared with the baseline, and settings of every treatment.
    """
    own = {(role, var): value for role, var, value in (*fixed, *tried)}
    roles = [*(role for role in services if any(role == setting.role for setting in tried)), *services]
    for role in dict.fromkeys(roles):
        spec = services[role]
        if spec.control is None:
            continue
        values = {var: own.get((role, var), known.default) for var, known in spec.vars.items()}
        has_backends = role != list(services)[-1]
        page_bytes = values.get("page_bytes")
        large = isinstance(page_bytes, int) and page_bytes >= LARGE_PAGE_BYTES
        heavy = has_backends or large or values.get("tls") == "on"
        settings = (heavy and spec.control.heavy) or spec.control.vars
        needs = [spec.vars[var].needs for var in settings]
        if any((role, var) in own for var in settings):
            continue
        if not any(need and need.unmet(values, (), has_backends=has_backends) for need in needs):
            return [VariableSetting(role, var, value) for var, value in settings.items()]
    return []


def starter_study(
    name: str,
    services: Mapping[str, ServiceSpec],
    tried: Sequence[VariableSetting],
    fixed: Sequence[VariableSetting] = (),
    control: Sequence[VariableSetting] = (),
) -> str:
    """Return the text of a new, commented study file.

    Parameters
    ----------
    name : name of the study.
    services : role -> its service, in the order in which a request passes them.
    tried : settings compared with the baseline, one treatment each.
    fixed : settings of every treatment.
    control : settings of the positive control, whose cost is known.

    Raises
    ------
    UsageError : `tried` is empty, or the baseline already has one of its values.
    """
    baseline_values = {
        (role, var): services[role].vars[var].default for role in services for var in services[role].vars
    }
    baseline_values |= {(role, var): value for role, var, value in fixed}
    if not tried:
        names = ", ".join(dict.fromkeys(var for spec in services.values() for var in spec.vars))
        raise UsageError("nothing is compared", f"--try VARIABLE=VALUE (docs/services.md); variables: {names}")
    for role, var, value in (*tried, *control):
        if value == baseline_values[role, var]:
            raise UsageError(f"{role}.{var} is {value} already, in every treatment", "try another value")
    settings = [*tried, *control]
    roles_by_var = {var: {s.role for s in settings if s.var == var} for _, var, _ in settings}
    # a factor has the name of its variable, preceded by the role if several roles have that variable
    factor_names = {(s.role, s.var): s.var if len(roles_by_var[s.var]) == 1 else f"{s.role}_{s.var}" for s in settings}
    levels = {key: [baseline_values[key]] for key in factor_names}
    for role, var, value in settings:
        levels[role, var] += [] if value in levels[role, var] else [value]
    factors = {}
    for (role, var), factor in factor_names.items():
        keys = [f"role = {_toml(role)}", *([f"var = {_toml(var)}"] if factor != var else [])]
        factors[factor] = ", ".join([*keys, f"levels = [{', '.join(map(_toml, levels[role, var]))}]"])
    tried_services = list(dict.fromkeys(services[setting.role].name for setting in tried))
    question = f"Which setting of {' or '.join(tried_services)} is faster?"
    if len(tried) == 1:
        question = f"Is {tried_services[0]} faster with {tried[0].var} {tried[0].value}?"
    return template_environment(Path(__file__).parent).get_template("starter.toml.j2").render(
        name=name, question=question[:MAX_QUESTION_CHARS], max_chars=MAX_QUESTION_CHARS, services=services,
        factors=factors, factor_names=factor_names, tried=tried,
        latency_blocks=int(LATENCIES_S / STARTER_TRIAL_S / (2 + len(tried) + bool(control))),
        control=", ".join(f"{factor_names[s.role, s.var]} = {_toml(s.value)}" for s in control),
        fixed={role: {s.var: s.value for s in fixed if s.role == role} for role in services},
        documented_at={services[role].name: role for role in reversed(list(services))},
        toml=_toml, commented=_commented, treatment_key=_treatment_key,
    )  # fmt: skip


def _toml(value: FactorLevel) -> str:
    return json.dumps(value, ensure_ascii=False)


def _commented(code: str, comment: str) -> str:
    return f"{code:<{COMMENT_COLUMN}}# {comment}" if len(code) < COMMENT_COLUMN else f"{code}   # {comment}"


def _treatment_key(text: str) -> str:
    key = re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")[:60]
    return _toml(key) if "." in key else key


def version_defaults(study: Study, role: str, version: str, folders: Sequence[Path] = ()) -> dict[str, str]:
    """Return variable -> the meaning of "unset" in `version` of a role's service.

    Only variables that a treatment leaves unset, whose default differs between versions, and that have an effect.
    `version` is that of the software, such as "1.22.1"; `folders` are searched before the services of loadbook.
    """
    meanings: dict[str, str] = {}
    services = cache(partial(load_service, folders=folders))
    for treatment in study.treatments:
        setting = study.setting(treatment, role)
        if setting.service is None or setting.config_text is not None:
            continue
        spec = services(setting.service)
        values = {name: var.default for name, var in spec.vars.items()} | setting.vars
        headers = study.workload_of(treatment).headers
        for name, var in spec.vars.items():
            meaning = var.unset_meaning(version) if values[name] == UNSET else None
            needs = var.needs.unmet(values, headers, has_backends=True) if var.needs else []
            if meaning and not needs:
                meanings[name] = meaning
    return meanings


def ineffective_settings(study: Study, folders: Sequence[Path] = ()) -> dict[str, list[str]]:
    """Return sentence -> treatments for each setting without any effect; the sentence names the missing precondition.

    Only settings that differ from the baseline and are neither "off" nor "unset" are checked. Roles with the user's own
    configuration file are left out, since the content of that file is not known.
    """
    treatments: dict[str, list[str]] = {}
    services = cache(partial(load_service, folders=folders))
    for treatment in study.treatments:
        headers = study.workload_of(treatment).headers
        for role in study.roles:
            setting, before = study.setting(treatment, role), study.vars_of(study.baseline, role)
            if setting.service is None or setting.config_text is not None:
                continue
            spec = services(setting.service)
            values = {name: var.default for name, var in spec.vars.items()} | setting.vars
            known = {name: value for name, value in setting.vars.items() if name in spec.vars}  # others: of old runs
            for name, value in known.items():
                need = spec.vars[name].needs
                if need is None or value in (OFF, UNSET) or value == before.get(name, spec.vars[name].default):
                    continue
                if missing := need.unmet(values, headers, has_backends=bool(setting.backends)):
                    text = f"{role}.{name} = {value} has no effect: it needs {' and '.join(missing)}"
                    treatments.setdefault(text, []).append(treatment)
    return treatments


def check_study(study: Study, folders: Sequence[Path] = ()) -> list[SpecProblem]:
    """Return the errors in a study's services and their variables, with key paths such as `roles.web.vars.x`.

    Raises StudyError only for a bad service.toml.
    """
    specs: dict[str, ServiceSpec] = {}
    return [*_role_problems(study, folders, specs), *_factor_problems(study, specs)]


def _role_problems(study: Study, folders: Sequence[Path], specs: dict[str, ServiceSpec]) -> Iterator[SpecProblem]:
    """Yield the errors of roles and their variants, and add the specs of their services to `specs`."""
    for name, role in study.roles.items():
        settings: dict[str, tuple[Setting, Setting]] = {f"roles.{name}": (role.base_setting, role)}
        settings |= {f"roles.{name}.variants.{v}": (role.variant_setting(v), role.variants[v]) for v in role.variants}
        for path, (setting, stated_keys) in settings.items():
            stated = stated_keys.model_dump(exclude_unset=True)  # what a variant has of its role is reported there
            if setting.service is None:
                continue
            try:
                spec = specs[setting.service] = load_service(setting.service, folders)
            except UsageError as error:
                if "service" in stated:
                    yield SpecProblem(f"{path}.service", error.message)
                continue
            try:
                if setting.mode == "system" and {"service", "mode"} & set(stated):
                    spec.as_system()
            except UsageError as error:
                yield SpecProblem(f"{path}.mode", f"{error.message}: {error.hint}")
            yield from spec.problems(f"{path}.vars", stated.get("vars", {}))


def _factor_problems(study: Study, specs: Mapping[str, ServiceSpec]) -> Iterator[SpecProblem]:
    for name, factor in study.factors.items():
        if factor.of != "vars":
            continue
        role = study.roles[factor.role]
        settings = [role.base_setting, *map(role.variant_setting, role.variants)]
        services = dict.fromkeys(s.service for s in settings if s.service is not None)
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
