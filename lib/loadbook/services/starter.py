"""A study to begin with: a commented file, made of what its services declare, ready to be planned and run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from loadbook.core.errors import SpecProblem, StudyError, UsageError
from loadbook.core.names import unknown
from loadbook.design.role import Level
from loadbook.services.spec import ServiceSpec

LONGEST_QUESTION = 90
COLUMN = 36  # where comments begin


class Wish(NamedTuple):
    """A value that a variable of a role's service is to have."""

    role: str
    var: str
    value: Level


def wish(text: str, services: Mapping[str, ServiceSpec]) -> Wish:
    """Read `[ROLE.]VARIABLE=VALUE`; the role may be left out where only one has the variable.

    UsageError for what is no such text or names what there is not, StudyError for a value that is not allowed.
    """
    place, sign, value = text.partition("=")
    role, _, var = place.rpartition(".")
    if not sign or not var:
        raise UsageError(f"{text!r} sets nothing", "for example sendfile=on, or web.sendfile=on")
    if role and role not in services:
        raise unknown("role", role, services)
    has = [name for name, spec in services.items() if var in spec.vars and role in ("", name)]
    if not has:
        known = [name for each, spec in services.items() if role in ("", each) for name in spec.vars]
        raise unknown("variable", var, dict.fromkeys(known), "(docs/services.md tells what each does)")
    if len(has) > 1:
        raise UsageError(f"{' and '.join(has)} both have {var}", f"say which: {has[0]}.{var}={value}")
    level: Level = int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value
    if wrong := services[has[0]].problem(var, level):
        spec = services[has[0]]
        raise StudyError(f"service {spec.name}", [SpecProblem(f"{has[0]}.{var}", wrong)], spec.vars[var].about)
    return Wish(has[0], var, level)


def starter(
    name: str,
    services: Mapping[str, ServiceSpec],
    tried: Sequence[Wish],
    fixed: Sequence[Wish] = (),
    control: Sequence[Wish] = (),
) -> str:
    """Return the text of a study file.

    Parameters
    ----------
    name : the study's.
    services : role -> its service, in the order in which a request passes them.
    tried : what is compared with the baseline, a treatment each.
    fixed : what every treatment has.
    control : what makes up the treatment whose cost is known.

    Raises
    ------
    UsageError : nothing is tried, or something that the baseline has already.
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
        _head(name, services, tried),
        *_roles(list(services), services),
        _load(next(iter(services))),
        _factors(usual, tried, control),
        *_treatments(tried, control),
        *_variables(services, fixed),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _head(name: str, services: Mapping[str, ServiceSpec], tried: Sequence[Wish]) -> list[str]:
    of = list(dict.fromkeys(services[one.role].name for one in tried))
    asked = f"Which setting of {' or '.join(of)} is faster?"
    if len(tried) == 1:
        asked = f"Is {of[0]} faster with {tried[0].var} {tried[0].value}?"
    return [
        f"# Made by `loadbook new`, yours to change. Every key: docs/study-file.md. Is it right? loadbook plan {name}",
        "schema = 1",
        _said(f"name = {_toml(name)}", "the file's name"),
        _said(
            f"question = {_toml(asked[:LONGEST_QUESTION])}", f"the report's title, {LONGEST_QUESTION} letters at most"
        ),
        _said('baseline = "as-is"', "what the other treatments are compared with"),
        _said("margin = 0.02", "2 %: the smallest difference that matters to you"),
        _said("blocks = 10", "every treatment once in each, in random order"),
    ]


def _roles(names: Sequence[str], services: Mapping[str, ServiceSpec]) -> Iterator[list[str]]:
    yield ["# A role is what a host does. Which hosts have it stands in the hosts file.", "[roles.driver]"]
    for role, behind in zip(names, [*names[1:], ""], strict=True):
        on = [_said(f"backends = {_toml(behind)}", "the role that its requests go on to")] if behind else []
        yield [f"[roles.{role}]", f"service = {_toml(services[role].name)}", *on]


def _variables(services: Mapping[str, ServiceSpec], fixed: Sequence[Wish]) -> Iterator[list[str]]:
    told = dict[str, str]()
    yield [
        "# What every treatment has. A line that begins with # shows the default; without the # it sets another value."
    ]
    for role, spec in services.items():
        own = {wish.var: wish.value for wish in fixed if wish.role == role}
        before = told.setdefault(spec.name, role)
        yield [f"[roles.{role}.vars]", *_vars(spec, own, "" if before == role else before)]


def _vars(spec: ServiceSpec, own: Mapping[str, Level], told_at: str) -> Iterator[str]:
    """Yield what every treatment has, then each variable that it could have; only once for each service."""
    for name, value in own.items():
        yield _said(f"{name} = {_toml(value)}", spec.vars[name].about)
    if told_at:
        yield f"# its variables are those of [roles.{told_at}.vars]"
        return
    for name, var in spec.vars.items():
        if name not in own:
            yield _said(f"# {name} = {_toml(var.default)}", f"{var.allowed}: {var.about}")


def _load(target: str) -> list[str]:
    return [
        "[workload]",
        _said('tool = "wrk"', "docs/tools.md: which one for which question"),
        _said(f"target = {_toml(target)}", "the role that gets the load"),
        'path = "/index.html"',
        _said("connections = 50", "each asks again when it is answered"),
        _said("warmup_s = 1", "seconds of load that are not measured"),
        _said("duration_s = 5", "seconds of load that are"),
        "",
        "[reset]",
        _said("max_time_wait = 60_000", "sockets in TIME-WAIT that a host may have before a trial"),
    ]


def _factors(usual: Mapping[tuple[str, str], Level], tried: Sequence[Wish], control: Sequence[Wish]) -> list[str]:
    levels: dict[tuple[str, str], list[Level]] = {}
    for role, var, value in (*tried, *control):
        known = levels.setdefault((role, var), [usual[role, var]])
        known += [] if value in known else [value]
    lines = ["# A factor is what treatments change, with all the values that it may have; the first is the baseline's."]
    names = _factor_names([*tried, *control])
    for (role, var), values in levels.items():
        keys = [f"role = {_toml(role)}", *([f"var = {_toml(var)}"] if names[role, var] != var else [])]
        listed = f"levels = [{', '.join(map(_toml, values))}]"
        lines.append(f"{names[role, var]} = {{ {', '.join([*keys, listed])} }}")
    return [lines[0], "[factors]", *lines[1:]]


def _factor_names(wishes: Sequence[Wish]) -> dict[tuple[str, str], str]:
    """Return what the factor of each variable is called: like it, unless two roles' are called alike."""
    roles: dict[str, set[str]] = {}
    for one in wishes:
        roles.setdefault(one.var, set()).add(one.role)
    return {(w.role, w.var): w.var if len(roles[w.var]) == 1 else f"{w.role}_{w.var}" for w in wishes}


def _treatments(tried: Sequence[Wish], control: Sequence[Wish]) -> Iterator[list[str]]:
    names = _factor_names([*tried, *control])
    yield ["[treatments.as-is]"]
    for one in tried:
        factor = names[one.role, one.var]
        key = re.sub(r"[^A-Za-z0-9.]+", "-", f"{factor}-{one.value}").strip("-.")[:60]
        label = f"label = {_toml(f'{factor} {one.value}')}"
        yield [f"[treatments.{_toml(key) if '.' in key else key}]", label, f"set = {{ {factor} = {_toml(one.value)} }}"]
    yield [
        "# the baseline under another name: where this differs, the laboratory is not to be trusted",
        *("[treatments.again]", 'label = "as-is, again"', 'same_as = "as-is"', 'check = "aa"'),
    ]
    if control:
        changes = ", ".join(f"{names[w.role, w.var]} = {_toml(w.value)}" for w in control)
        yield [
            "# a cost that is known to be real: where this is not found, smaller ones would not be either",
            *("[treatments.control]", f"set = {{ {changes} }}", 'check = "control"', 'expect = "worse"'),
        ]


def _toml(value: Level) -> str:
    return json.dumps(value, ensure_ascii=False)


def _said(code: str, comment: str) -> str:
    return f"{code:<{COLUMN}}# {comment}" if len(code) < COLUMN else f"{code}   # {comment}"
