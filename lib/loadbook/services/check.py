"""Problems of a study with its services, settings without effect, and a commented starter study."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from loadbook.core.errors import SpecProblem, StudyError, UsageError, unknown_name_error
from loadbook.services.spec import OFF, UNSET, ServiceSpec, load_service
from loadbook.study.model import Study
from loadbook.study.treatments import Factor, FactorLevel, Setting

MAX_QUESTION_CHARS = 90
COMMENT_COLUMN = 36  # where comments begin


class VariableSetting(NamedTuple):
    """A value for a variable of a role's service."""

    role: str
    var: str
    value: FactorLevel


def parse_setting(text: str, services: Mapping[str, ServiceSpec]) -> VariableSetting:
    """Read `[ROLE.]VARIABLE=VALUE`; the role may be left out where only one has the variable.

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
        raise unknown_name_error("variable", var, dict.fromkeys(variables), "(docs/services.md tells what each does)")
    if len(roles) > 1:
        raise UsageError(f"{' and '.join(roles)} both have {var}", f"say which: {roles[0]}.{var}={value}")
    level: FactorLevel = int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value
    if problem := services[roles[0]].problem(var, level):
        spec = services[roles[0]]
        raise StudyError(f"service {spec.name}", [SpecProblem(f"{roles[0]}.{var}", problem)], spec.vars[var].about)
    return VariableSetting(roles[0], var, level)


def starter_study(
    name: str,
    services: Mapping[str, ServiceSpec],
    tried: Sequence[VariableSetting],
    fixed: Sequence[VariableSetting] = (),
    control: Sequence[VariableSetting] = (),
) -> str:
    """Return the text of a study file.

    Parameters
    ----------
    name : of the study.
    services : role -> its service, in the order in which a request passes them.
    tried : settings compared with the baseline, one treatment each.
    fixed : settings of every treatment.
    control : settings of the positive control, whose cost is known.

    Raises
    ------
    UsageError : nothing is tried, or a setting that the baseline has already.
    """
    usual = {(role, var): services[role].vars[var].default for role in services for var in services[role].vars}
    usual |= {(role, var): value for role, var, value in fixed}
    if not tried:
        names = ", ".join(dict.fromkeys(var for spec in services.values() for var in spec.vars))
        raise UsageError("nothing is compared", f"--try VARIABLE=VALUE (docs/services.md); variables: {names}")
    for role, var, value in (*tried, *control):
        if value == usual[role, var]:
            raise UsageError(f"{role}.{var} is {value} already, in every treatment", "try another value")
    parts = [
        _header_lines(name, services, tried),
        *_role_tables(list(services), services),
        _workload_lines(next(iter(services))),
        _factor_lines(usual, tried, control),
        *_treatment_tables(tried, control),
        *_vars_tables(services, fixed),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _header_lines(name: str, services: Mapping[str, ServiceSpec], tried: Sequence[VariableSetting]) -> list[str]:
    service_names = list(dict.fromkeys(services[setting.role].name for setting in tried))
    question = f"Which setting of {' or '.join(service_names)} is faster?"
    if len(tried) == 1:
        question = f"Is {service_names[0]} faster with {tried[0].var} {tried[0].value}?"
    return [
        f"# Made by `loadbook new`, yours to change. Every key: docs/reference/study-file.md. Is it right? loadbook plan {name}",
        "schema = 1",
        _with_comment(f"name = {_toml(name)}", "the file's name"),
        _with_comment(
            f"question = {_toml(question[:MAX_QUESTION_CHARS])}",
            f"the report's title, {MAX_QUESTION_CHARS} letters at most",
        ),
        _with_comment('baseline = "as-is"', "what the other treatments are compared with"),
        _with_comment("margin = 0.02", "2 %: the smallest difference that matters to you"),
        _with_comment("blocks = 10", "every treatment once in each, in random order"),
    ]


def _role_tables(roles: Sequence[str], services: Mapping[str, ServiceSpec]) -> Iterator[list[str]]:
    yield ["# A role is what a host does. Which hosts have it stands in the hosts file.", "[roles.driver]"]
    for role, backend in zip(roles, [*roles[1:], ""], strict=True):
        backend_line = (
            [_with_comment(f"backends = {_toml(backend)}", "the role that its requests go on to")] if backend else []
        )
        yield [f"[roles.{role}]", f"service = {_toml(services[role].name)}", *backend_line]


def _vars_tables(services: Mapping[str, ServiceSpec], fixed: Sequence[VariableSetting]) -> Iterator[list[str]]:
    first_roles = dict[str, str]()
    yield [
        "# What every treatment has. A line that begins with # shows the default; without the # it sets another value."
    ]
    for role, spec in services.items():
        values = {setting.var: setting.value for setting in fixed if setting.role == role}
        first_role = first_roles.setdefault(spec.name, role)
        yield [f"[roles.{role}.vars]", *_var_lines(spec, values, "" if first_role == role else first_role)]


def _var_lines(spec: ServiceSpec, values: Mapping[str, FactorLevel], documented_role: str) -> Iterator[str]:
    """Yield the common settings, then each variable that could be set; once per service."""
    for name, value in values.items():
        yield _with_comment(f"{name} = {_toml(value)}", spec.vars[name].about)
    if documented_role:
        yield f"# its variables are those of [roles.{documented_role}.vars]"
        return
    for name, var in spec.vars.items():
        if name not in values:
            yield _with_comment(f"# {name} = {_toml(var.default)}", f"{var.allowed}: {var.about}")


def _workload_lines(target: str) -> list[str]:
    return [
        "[workload]",
        _with_comment('tool = "wrk"', "docs/tools.md: which one for which question"),
        _with_comment(f"target = {_toml(target)}", "the role that gets the load"),
        'path = "/index.html"',
        _with_comment("connections = 50", "each asks again when it is answered"),
        _with_comment("warmup_s = 1", "seconds of load that are not measured"),
        _with_comment("duration_s = 5", "seconds of load that are"),
        "",
        "[reset]",
        _with_comment("time_wait_sockets = 60_000", "sockets in TIME-WAIT that a host may have before a trial"),
    ]


def _factor_lines(
    usual: Mapping[tuple[str, str], FactorLevel], tried: Sequence[VariableSetting], control: Sequence[VariableSetting]
) -> list[str]:
    levels: dict[tuple[str, str], list[FactorLevel]] = {}
    for role, var, value in (*tried, *control):
        values_so_far = levels.setdefault((role, var), [usual[role, var]])
        values_so_far += [] if value in values_so_far else [value]
    lines = ["# A factor is what treatments change, with all the values that it may have; the first is the baseline's."]
    names = _factor_names([*tried, *control])
    for (role, var), values in levels.items():
        keys = [f"role = {_toml(role)}", *([f"var = {_toml(var)}"] if names[role, var] != var else [])]
        listed = f"levels = [{', '.join(map(_toml, values))}]"
        lines.append(f"{names[role, var]} = {{ {', '.join([*keys, listed])} }}")
    return [lines[0], "[factors]", *lines[1:]]


def _factor_names(settings: Sequence[VariableSetting]) -> dict[tuple[str, str], str]:
    """Return the factor name of each variable: its own name, with the role if two roles share it."""
    roles: dict[str, set[str]] = {}
    for setting in settings:
        roles.setdefault(setting.var, set()).add(setting.role)
    return {(s.role, s.var): s.var if len(roles[s.var]) == 1 else f"{s.role}_{s.var}" for s in settings}


def _treatment_tables(tried: Sequence[VariableSetting], control: Sequence[VariableSetting]) -> Iterator[list[str]]:
    names = _factor_names([*tried, *control])
    yield ["[treatments.as-is]"]
    for setting in tried:
        factor = names[setting.role, setting.var]
        key = re.sub(r"[^A-Za-z0-9.]+", "-", f"{factor}-{setting.value}").strip("-.")[:60]
        label = f"label = {_toml(f'{factor} {setting.value}')}"
        yield [
            f"[treatments.{_toml(key) if '.' in key else key}]",
            label,
            f"set = {{ {factor} = {_toml(setting.value)} }}",
        ]
    yield [
        "# the baseline under another name: where this differs, the laboratory is not to be trusted",
        *("[treatments.again]", 'label = "as-is, again"', 'same_as = "as-is"', 'check = "aa"'),
    ]
    if control:
        changes = ", ".join(f"{names[s.role, s.var]} = {_toml(s.value)}" for s in control)
        yield [
            "# a cost that is known to be real: where this is not found, smaller ones would not be either",
            *("[treatments.control]", f"set = {{ {changes} }}", 'check = "control"', 'expect = "worse"'),
        ]


def _toml(value: FactorLevel) -> str:
    return json.dumps(value, ensure_ascii=False)


def _with_comment(code: str, comment: str) -> str:
    return f"{code:<{COMMENT_COLUMN}}# {comment}" if len(code) < COMMENT_COLUMN else f"{code}   # {comment}"


def version_defaults(study: Study, role: str, version: str, folders: Sequence[Path] = ()) -> dict[str, str]:
    """Return variable -> meaning of "unset" in `version` of a role's service.

    Only variables whose default changed between versions, that a treatment leaves unset, and that have an effect there.
    """
    found: dict[str, str] = {}
    for treatment in study.treatments:
        setting = study.setting(treatment, role)
        if setting.service is None or setting.config_text is not None:
            continue
        spec = load_service(setting.service, folders)
        values = {name: var.default for name, var in spec.vars.items()} | setting.vars
        for name, var in spec.vars.items():
            meaning = var.unset_meaning(version) if values[name] == UNSET else None
            needs = var.needs.unmet(values, (), has_backends=True) if var.needs else []
            if meaning and not needs:
                found[name] = meaning
    return found


Specs = dict[str, ServiceSpec]


def ineffective_settings(study: Study, folders: Sequence[Path] = ()) -> list[str]:
    """Return the settings of treatments that can have no effect, one sentence each with the missing precondition.

    A setting counts where it differs from the baseline's and is neither "off" nor "unset". Roles with a configuration
    file of their own are left out: the content of that file is not known.
    """
    treatments: dict[str, list[str]] = {}
    for treatment in study.treatments:
        headers = study.workload_of(treatment).headers
        for role in study.roles:
            setting, before = study.setting(treatment, role), study.vars_of(study.baseline, role)
            if setting.service is None or setting.config_text is not None:
                continue
            spec = load_service(setting.service, folders)
            values = {name: var.default for name, var in spec.vars.items()} | setting.vars
            for name, value in setting.vars.items():
                need = spec.vars[name].needs
                if need is None or value in (OFF, UNSET) or value == before.get(name, spec.vars[name].default):
                    continue
                if missing := need.unmet(values, headers, has_backends=bool(setting.backends)):
                    text = f"{role}.{name} = {value} has no effect: it needs {' and '.join(missing)}"
                    treatments.setdefault(text, []).append(treatment)
    return [
        f"{text} (treatment {names[0]}{f' and {len(names) - 1} more' if names[1:] else ''})"
        for text, names in treatments.items()
    ]


def check_study(study: Study, folders: Sequence[Path] = ()) -> list[SpecProblem]:
    """Return every problem between a study and the services of its roles, with key paths such as `roles.web.vars.x`.

    Raises StudyError only for a bad service.toml.
    """
    specs: Specs = {}
    return [*_role_problems(study, folders, specs), *_factor_problems(study, specs)]


def _role_problems(study: Study, folders: Sequence[Path], specs: Specs) -> Iterator[SpecProblem]:
    """Yield the problems of roles and their variants, and collect the specs of their services in `specs`."""
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
