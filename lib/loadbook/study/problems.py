"""Mistakes in a study file as messages with key paths: wrong values, unknown names, contradictions between tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from loadbook.core.errors import SpecProblem
from loadbook.core.metrics import CPU_PER_RESPONSE, METRICS, get_metric, metric_names
from loadbook.core.text import did_you_mean
from loadbook.core.units import TIME_UNITS_S
from loadbook.core.validity_rules import RULE_INFO
from loadbook.modes.base import all_modes
from loadbook.study.limits import ALL_RULES
from loadbook.study.treatments import one_or_more
from loadbook.study.workload import Workload

_PLAIN_NAME = re.compile(r"[\w.-]{1,80}\Z", re.ASCII)
_UNION_TAGS = frozenset({"str", "int", "float", "bool"})
# keys of the load that must be the same in all treatments
STUDY_WIDE_LOAD_KEYS = frozenset({"role", "target", "model"})
# characters of texts in a study file; longer texts in recorded runs are accepted
MAX_LABEL_CHARS, MAX_TEXT_CHARS = 200, 10_000
# keys of a claim that name a treatment, a metric or a factor
CLAIM_NAME_KEYS = frozenset({"treatment", "against", "among", "further", "metric", "factors"})

# pydantic's type of a mistake -> what the value must be, or how many parts it must have
_MUST_BE = {
    "greater_than": "greater than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of at most 19 digits",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text in quotes",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "union_tag_not_found": "a table with the key {discriminator}",
    "union_tag_invalid": "a table whose {discriminator} is one of {expected_tags}",
    "path_type": "a path",
    "literal_error": "{expected}",
}
_COUNTED = {
    "string_too_short": "must have {min_length} or more characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have {min_length} or more entries",
    "too_long": "must have at most {max_length} entries",
}
# ending of a key -> units that people write with its number, in the unit of the key
_UNITS: dict[str, dict[str, float]] = {
    "_per_s": {"/s": 1, "k": 1000, "k/s": 1000},
    "_s": {**TIME_UNITS_S, "sec": 1, "min": 60},
    "_ms": {unit: seconds * 1000 for unit, seconds in TIME_UNITS_S.items()},
    "_mbit": {"mbit": 1, "mbit/s": 1, "gbit": 1000, "gbit/s": 1000},
    "_bytes": {"b": 1, "kib": 1024, "mib": 1024**2, "gib": 1024**3},
    "": {"%": 0.01, "k": 1000},
}
_WITH_UNIT = re.compile(r"\s*([+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z%/]{1,6})\s*\Z")


def validation_problems(error: ValidationError, model: type[BaseModel]) -> list[SpecProblem]:
    """Return pydantic's errors on `model` as problems in pydantic's order, the first one of each key path."""
    messages: dict[str, str] = {}
    for detail in error.errors():
        loc = [p for p in detail["loc"] if p != "[key]"]
        if len(loc) > 1 and loc[-1] in _UNION_TAGS:
            loc.pop()
            message = with_value("must be a text, a finite number, true or false", detail["input"])
        else:
            message = _problem_message(detail, loc, model)
        messages.setdefault(key_path(loc), message)
    return [SpecProblem(path, message) for path, message in messages.items()]


def key_path(loc: Iterable[int | str]) -> str:
    """Return the key path `a.b.0.c`; `file` if there are no parts.

    Parts that are not plain names are quoted, so no control character is printed.
    """
    parts = (str(part) if _PLAIN_NAME.match(str(part)) else json.dumps(str(part)[:80]) for part in loc)
    return ".".join(parts) or "file"


def short_repr(value: object) -> str:
    """Return a short `repr` of any value that a TOML file can contain."""
    try:
        text = repr(value)
    except ValueError:  # an integer with too many digits for Python to print
        return "a huge number"
    return text if len(text) <= 60 else f"{text[:57]}..."


def with_value(message: str, value: object) -> str:
    """Return a message about a wrong value, with the value: `must be a number, not 'x'`.

    A message that does not begin with "must" ends with ` (is 'x')`.
    """
    return message + (f", not {short_repr(value)}" if message.startswith("must ") else f" (is {short_repr(value)})")


def suggestion(name: object, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` with the most similar known name, or `; known: x, y`."""
    names = list(map(str, known))
    return did_you_mean(name, names) or f"; known: {', '.join(key_path([n]) for n in names) or 'none'}"


def _problem_message(detail: Any, loc: list[int | str], model: type[BaseModel]) -> str:
    if detail["type"] == "extra_forbidden":
        fields = _model_at(model, loc[:-1]).model_fields
        return f"unknown key{suggestion(loc[-1], [field.alias or name for name, field in fields.items()])}"
    if detail["type"] == "missing":
        required = _model_at(model, loc[:-1]).model_fields.get(str(loc[-1]))
        return f"is required: {required.description}" if required and required.description else "is required"
    value, values = detail["input"], detail.get("ctx", {})
    if detail["type"] in ("tuple_type", "list_type"):
        return f"must be a list: [{short_repr(value)}]"
    if detail["type"] in _COUNTED:
        return f"{_COUNTED[detail['type']].format(**values)}, not {values.get('actual_length') or len(value)}"
    if detail["type"] not in _MUST_BE:
        message = str(detail["msg"]).removeprefix("Value error, ")
        return message if isinstance(value, dict) else with_value(message, value)
    message = with_value(f"must be {_MUST_BE[detail['type']].format(**values)}", value)
    if detail["type"] == "literal_error":
        return message + did_you_mean(value, re.findall(r"'([^']*)'", values["expected"]))
    number = _number_with_unit(str(loc[-1]) if loc else "", value)
    whole = detail["type"].startswith("int_")
    return message if number is None or (whole and number % 1) else f"{message}: write {number:.12g}"


def _number_with_unit(key: str, value: object) -> float | None:
    """Return a text such as "5 s" as a number in the unit of its key; None if it is none, or of another unit."""
    match = _WITH_UNIT.match(value) if isinstance(value, str) else None
    units = next(units for ending, units in _UNITS.items() if key.endswith(ending))
    factor = units.get(match[2].lower()) if match else None
    return float(match[1]) * factor if match and factor else None


def _model_at(model: type[BaseModel], loc: Iterable[int | str]) -> type[BaseModel]:
    for part in loc:
        field = next((f for n, f in model.model_fields.items() if part in (n, f.alias)), None)
        if field is not None:  # other parts of the path are keys or indices within the same table
            model = _model_in(field.annotation) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for a in get_args(annotation) if (m := _model_in(a))), None)


def consistency_problems(raw: dict[str, Any]) -> list[SpecProblem]:
    """Return contradictions between the tables of a study; wrong types are left to `validation_problems`."""
    checks = (_reference_problems, _rule_problems, _role_problems, _factor_problems, _treatment_problems,
              _load_problems, _subset_problems, _claim_problems, _length_problems, _ci_problems,
              *(mode.key_problems for mode in all_modes()))  # fmt: skip
    return [SpecProblem(path, message) for check in checks for path, message in check(raw)]


PathMessages = Iterator[tuple[str, str]]


def last_declared_look(raw: dict[str, Any]) -> int | None:
    """Return the last entry of `stopping.looks` in the tables of a study file, a number of blocks.

    None if it is missing or not a whole number.
    """
    looks = table_in(raw, "stopping").get("looks")
    last = looks[-1] if isinstance(looks, (list, tuple)) and looks else None
    return last if isinstance(last, int) else None


def table_in(raw: object, key: str) -> dict[str, Any]:
    """Return the table called `key`; an empty one if it is missing or not a table."""
    value = raw.get(key) if isinstance(raw, dict) else None
    return value if isinstance(value, dict) else {}


def _list(raw: object, key: str) -> list[Any]:
    value = raw.get(key) if isinstance(raw, dict) else None
    return value if isinstance(value, list) else []


def _unknown_message(kind: str, name: object, known: Iterable[str]) -> str | None:
    names = list(known)
    if not isinstance(name, str) or name in names:
        return None
    return f"no {kind} {short_repr(name)}{suggestion(name, names)}"


def _reference_problems(raw: dict[str, Any]) -> PathMessages:
    workload, roles = table_in(raw, "workload"), table_in(raw, "roles")
    served = [name for name in roles if any(map(table_in(roles, name).get, ("service", "variants")))]
    references = (
        ("baseline", "treatment", raw.get("baseline"), table_in(raw, "treatments")),
        ("metric", "metric", raw.get("metric"), metric_names(served)),
        ("subset", "subset", raw.get("subset"), {"default": 0, "all": 0, **table_in(raw, "subsets")}),
        ("workload.role", "role", workload.get("role", "driver"), roles),
        ("workload.target", "role", workload.get("target", "web"), roles),
    )
    for path, kind, name, known in references:
        if message := _unknown_message(kind, name, known):
            yield path, message
    if raw.get("metric") == CPU_PER_RESPONSE and not served:
        yield "metric", "no role has a service whose CPU time could be measured"


def _rule_problems(raw: dict[str, Any]) -> PathMessages:
    if raw.get("factorial") and table_in(raw, "stopping").get("rule", "fixed") != "fixed":
        yield "stopping.rule", "a factorial has a fixed number of blocks: its effects are not judged at looks"
    last = last_declared_look(raw)
    if last is not None and raw.get("blocks", last) != last:
        yield "blocks", with_value(f"must be {last}, the last of stopping.looks, or be left out", raw["blocks"])
    if raw.get("factorial") and raw.get("stratify_by"):
        yield "stratify_by", "a factorial has its conditions among its factors: leave stratify_by out"
    if raw.get("hypothesis") == "non-inferiority" and "margin" not in raw:
        message = 'is required with hypothesis = "non-inferiority": the largest loss that is accepted, 0.02 for 2 %'
        yield "margin", message
    if raw.get("hypothesis") == "non-inferiority" and raw.get("contrasts") == "best":
        yield "contrasts", 'cannot be "best" with hypothesis = "non-inferiority": against the best, everything loses'


def _role_problems(raw: dict[str, Any]) -> PathMessages:
    roles = table_in(raw, "roles")
    for name, role in roles.items():
        if isinstance(role, dict) and "external" in role and ("service" in role or "vars" in role):
            yield key_path(("roles", name)), "an external address is measured, not configured: no service, no vars"
    target = table_in(raw, "workload").get("target", "web")
    role = roles.get(target) if isinstance(target, str) else None
    if isinstance(role, dict) and not any(map(role.get, ("service", "external", "variants", "backends"))):
        yield key_path(("roles", target)), "gets the load, so it needs a service or an external address"


def _factor_problems(raw: dict[str, Any]) -> PathMessages:
    roles = table_in(raw, "roles")
    for name, factor in table_in(raw, "factors").items():
        role = factor.get("role", "web") if isinstance(factor, dict) else None
        of_load = isinstance(factor, dict) and factor.get("of") == "workload" and "role" not in factor
        if not of_load and (message := _unknown_message("role", role, roles)):
            yield key_path(("factors", name, "role")), message
        if not isinstance(role, str):
            continue
        where, usual = _usual_level(raw, role, factor, name)
        levels = _list(factor, "levels")
        if usual is not None and levels and usual not in levels:
            yield key_path(("factors", name, "levels")), f"lacks {short_repr(usual)}, which {where} gives it"


def _usual_level(raw: dict[str, Any], role: str, factor: dict[str, Any], name: str) -> tuple[str, object]:
    """Return the key path and the value of a factor's default level; the value is None if there is none."""
    of, var = factor.get("of", "vars"), factor.get("var", name)
    table = raw if of == "workload" else table_in(table_in(raw, "roles"), role)
    if of in ("vars", "sysctls", "workload"):
        path = ("workload",) if of == "workload" else ("roles", role, of)
        return key_path(path), table_in(table, of).get(var) if isinstance(var, str) else None
    return key_path(("roles", role)), table.get(of) if isinstance(of, str) and of != "variant" else None


def _treatment_problems(raw: dict[str, Any]) -> PathMessages:
    treatments, factors = table_in(raw, "treatments"), table_in(raw, "factors")
    # with strata, each stratum has its own baseline; an unknown baseline is a mistake by itself
    baseline = None if raw.get("stratify_by") or raw.get("baseline") not in [*treatments] else raw["baseline"]
    for name, treatment in treatments.items():
        path = key_path(("treatments", name))
        for factor, level in table_in(treatment, "set").items():
            levels, where = _list(factors.get(factor), "levels"), key_path(("treatments", name, "set", factor))
            if message := _unknown_message("factor", factor, factors):
                yield where, message
            elif levels and level not in levels:
                yield where, f"{short_repr(level)} is not one of its levels {short_repr(levels)}"
        if not isinstance(treatment, dict):
            continue
        same_as, check = treatment.get("same_as"), treatment.get("check")
        if isinstance(same_as, str):
            other = treatments.get(same_as)
            if same_as == name or not isinstance(other, dict) or "same_as" in other:
                yield f"{path}.same_as", f"{short_repr(same_as)} is no other treatment with levels of its own"
        if same_as is not None and treatment.get("workload"):
            yield f"{path}.workload", "goes without same_as, which repeats the other treatment's load, too"
        if check == "aa" and (baseline not in (None, same_as) or treatment.get("set")):
            yield f"{path}.check", "an A/A arm repeats the baseline: same_as = the baseline, and nothing set"
        if check == "control" and "expect" not in treatment:
            yield f"{path}.expect", 'a control needs the sign that is known: expect = "worse" or "better"'


def _load_problems(raw: dict[str, Any]) -> PathMessages:
    """Check the loads that treatments change; loads that are wrong by themselves are left to `validation_problems`."""
    common = table_in(raw, "workload")
    for name, treatment in table_in(raw, "treatments").items():
        changed, path = table_in(treatment, "workload"), ("treatments", name, "workload")
        for key in STUDY_WIDE_LOAD_KEYS & set(changed):
            yield key_path((*path, key)), "is the same for every treatment: set it in [workload]"
        for problem in _workload_problems(common | changed) if changed and not _workload_problems(common) else []:
            where = key_path(path) if problem.path == "file" else f"{key_path(path)}.{problem.path}"
            yield where, problem.message


def _workload_problems(raw: dict[str, Any]) -> list[SpecProblem]:
    try:
        Workload.model_validate(raw)
    except ValidationError as error:
        return validation_problems(error, Workload)
    return []


def _subset_problems(raw: dict[str, Any]) -> PathMessages:
    treatments, baseline = table_in(raw, "treatments"), raw.get("baseline")
    for name, listed in table_in(raw, "subsets").items():
        members, path = _list(raw["subsets"], name), key_path(("subsets", name))
        if name == "all":
            yield path, "the name 'all' means every treatment"
        for number, member in enumerate(members):
            if message := _unknown_message("treatment", member, treatments):
                yield f"{path}.{number}", message
            elif member in members[:number]:
                yield f"{path}.{number}", f"{short_repr(member)} stands there twice"
        if baseline in [*treatments] and isinstance(listed, list) and baseline not in members:
            yield path, f"lacks the baseline {short_repr(baseline)}"


def _claim_problems(raw: dict[str, Any]) -> PathMessages:
    treatments, factors = table_in(raw, "treatments"), table_in(raw, "factors")
    kinds = {"metric": ("metric", METRICS), "factors": ("factor", factors)}
    for number, claim in enumerate(_list(table_in(raw, "published"), "claims")):
        for key in [k for k in claim if k in CLAIM_NAME_KEYS] if isinstance(claim, dict) else []:
            for path, name in _nested_names(f"published.claims.{number}.{key}", claim[key]):
                kind, known = kinds.get(key, ("treatment", treatments))
                if message := _unknown_message(kind, name, known):
                    yield path, message


def _length_problems(raw: dict[str, Any]) -> PathMessages:
    """Check the lengths of labels and other texts."""
    texts: list[tuple[tuple[str, ...], object, int]] = [(("background",), raw.get("background"), MAX_TEXT_CHARS)]
    texts.append((("grid", "label"), table_in(raw, "grid").get("label"), MAX_LABEL_CHARS))
    texts += [
        (("factorial", "labels", name), label, MAX_LABEL_CHARS)
        for name, label in table_in(table_in(raw, "factorial"), "labels").items()
    ]
    for name in table_in(raw, "treatments"):
        treatment = table_in(raw["treatments"], name)
        texts.append((("treatments", name, "label"), treatment.get("label"), MAX_LABEL_CHARS))
        texts.append((("treatments", name, "note"), treatment.get("note"), MAX_TEXT_CHARS))
    for path, text, limit in texts:
        if isinstance(text, str) and len(text) > limit:
            yield key_path(path), f"has {len(text):,} characters, {limit:,} at most"


def _nested_names(path: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield names with their key paths, from a single name or from nested lists."""
    for number, part in enumerate(value) if isinstance(value, list) else ():
        yield from _nested_names(f"{path}.{number}", part)
    if not isinstance(value, list):
        yield path, value


def _ci_problems(raw: dict[str, Any]) -> PathMessages:
    policy, treatments = table_in(raw, "ci"), table_in(raw, "treatments")
    only, doubts = (_list({key: one_or_more(policy.get(key))}, key) for key in ("only", "doubts"))
    if isinstance(raw.get("ci"), dict) and raw.get("contrasts") == "best":
        yield "ci", 'goes without contrasts = "best": against the best, everything loses'
    named = [(f"ci.only.{k}", name) for k, name in enumerate(only)]
    named += [(key_path(("ci", "treatments", name)), name) for name in table_in(policy, "treatments")]
    for path, name in named:
        if message := _unknown_message("treatment", name, treatments):
            yield path, message
        elif isinstance(name, str) and name == raw.get("baseline"):
            yield path, "is the baseline: the others are compared with it"
        elif isinstance(name, str) and table_in(treatments, name).get("check"):
            yield path, "is a check of the laboratory, which must pass in any case"
    for name in table_in(policy, "metrics"):
        metric, path = name.partition(" ")[0], key_path(("ci", "metrics", name))
        if message := _unknown_message("metric", metric, metric_names(table_in(raw, "roles"))):
            yield path, message
        elif name == raw.get("metric", "ok_per_s"):
            yield path, "is the study's own: what is said in [ci] is of it"
        elif get_metric(metric).better is None:
            yield path, "neither more nor less of it is better"
    for number, name in enumerate(doubts):
        if isinstance(name, str) and name not in (ALL_RULES, *RULE_INFO):
            nearest = suggestion(name, (ALL_RULES, *RULE_INFO))
            names = '; docs/validity-rules.md has their names, "all" is any of them'
            hint = nearest if "did you mean" in nearest else names
            yield f"ci.doubts.{number}", f"no validity rule {short_repr(name)}{hint}"
