"""Treatments made by rule: [grid] and [factorial] of a study file, or every mistake in them with its key path.

[grid] takes every combination of the levels of some factors, named by its levels; [factorial] takes factors at two
levels each, or a fraction of their combinations (`study.factorial`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from loadbook.core.errors import SpecProblem
from loadbook.study.factorial import (
    FRACTION_EXPONENTS,
    MAX_FULL_FACTORS,
    FactorialDesign,
    defining_relation,
    factorial_design,
    level_text,
    switch_levels,
    switched_factors,
)
from loadbook.study.model import Study
from loadbook.study.problems import PathMessages, short_repr, suggestion
from loadbook.study.treatments import Factor, Factorial, FactorLevel, Grid, Ident, Role, Treatment

MAX_TREATMENTS = 200
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._]+")


class _GridTables(BaseModel):
    factors: dict[Ident, Factor]
    grid: Grid


def expand_grid(raw: dict[str, Any]) -> list[SpecProblem]:
    """Add the treatments of [grid] to a study read from its file; return the problems.

    A treatment that the file spells out under the name of a combination keeps its other keys (a label, a note).
    Tables of the wrong shape are left as they are, to be named when the study is validated.
    """
    explicit = raw.get("treatments", {})
    if "grid" not in raw or not isinstance(explicit, dict) or not all(isinstance(t, dict) for t in explicit.values()):
        return []
    try:
        parts = _GridTables.model_validate({"factors": raw.get("factors", {}), "grid": raw["grid"]})
    except ValidationError:
        return []
    if problems := [SpecProblem(path, message) for path, message in _grid_problems(parts)]:
        return problems
    generated = dict(_grid_treatments(parts))
    conflicts = [SpecProblem(f"treatments.{n}.set", "is what [grid] sets: leave it out") for n in generated
                 if "set" in explicit.get(n, {})]  # fmt: skip
    raw["treatments"] = {n: t | explicit.get(n, {}) for n, t in generated.items()} | {
        n: t for n, t in explicit.items() if n not in generated
    }
    return conflicts


def _grid_treatments(parts: _GridTables) -> Iterator[tuple[str, dict[str, Any]]]:
    grid = parts.grid
    for combination in itertools.product(*(grid.only.get(n, parts.factors[n].levels) for n in grid.factors)):
        levels = dict(zip(grid.factors, combination, strict=True))
        label = grid.label
        if label is None:
            label = ", ".join(f"{name} {level}" for name, level in levels.items())
        for name, level in levels.items():
            label = label.replace(f"{{{name}}}", str(level))
        yield combination_name(combination), {"label": label, "set": levels}


def combination_name(levels: tuple[FactorLevel, ...]) -> str:
    """Return the name of a combination: its levels, joined by dashes."""
    return "-".join(_NOT_IN_NAMES.sub("_", str(level)).strip("._") for level in levels)


def _grid_problems(parts: _GridTables) -> Iterator[tuple[str, str]]:
    grid, count = parts.grid, 1
    for number, name in enumerate(grid.factors):
        if name not in parts.factors:
            yield f"grid.factors.{number}", f"no factor {short_repr(name)}{suggestion(name, parts.factors)}"
            return
        count *= len(grid.only.get(name, parts.factors[name].levels))
    for name, levels in grid.only.items():
        known = parts.factors[name].levels if name in grid.factors else ()
        for level in levels:
            if level not in known:
                yield f"grid.only.{name}", f"{short_repr(level)} is not one of its levels {short_repr(list(known))}"
    if count > MAX_TREATMENTS:
        yield "grid.factors", f"make {count} treatments, {MAX_TREATMENTS} at most"
    elif len({name for name, _ in _grid_treatments(parts)}) < count:
        yield "grid.factors", "two combinations have one name: their levels differ in signs only"


# keys of comparisons of single treatments
REQUIRED_VALUES = {"contrasts": "baseline", "hypothesis": "difference"}


def smoke_factorial(study: Study) -> tuple[Factorial, dict[str, Treatment]] | None:
    """Return the whole factorial of the first two switches and its treatments, for a smoke variant."""
    if study.factorial is None:
        return None
    spec = study.factorial.model_copy(update={"factors": study.factorial.factors[:2], "fraction": "full"})
    spec = spec.model_copy(update={"generators": ()})
    levels = {f: pair for name in spec.factors for f, pair in switch_levels(study, name).items()}
    tables = _factorial_treatment_tables(spec, levels, study.baseline)
    base = study.treatments[study.baseline].label
    return spec, {n: Treatment.model_validate(t | ({"label": base} if n == study.baseline else {})) for n, t in tables}


class _FactorialTables(BaseModel):
    roles: dict[Ident, Role]
    factors: dict[Ident, Factor]
    factorial: Factorial


def expand_factorial(raw: dict[str, Any]) -> list[SpecProblem]:
    """Add the treatments of [factorial] to a study read from its file; return the problems.

    Tables of the wrong shape are left as they are, to be named when the study is validated.
    """
    baseline, explicit = raw.get("baseline"), raw.get("treatments", {})
    if "factorial" not in raw or not isinstance(baseline, str) or not isinstance(explicit, dict):
        return []
    raw["treatments"] = {baseline: {}, **explicit}
    if not isinstance(raw["treatments"][baseline], dict):
        return []
    try:
        parts = _FactorialTables.model_validate({name: raw.get(name, {}) for name in ("roles", "factors", "factorial")})
    except ValidationError:
        return []
    problems = [SpecProblem(path, message) for path, message in _factorial_problems(parts)]
    problems += [SpecProblem(key, "goes without [factorial], whose effects are judged after all blocks")
                 for key, plain in REQUIRED_VALUES.items() if raw.get(key, plain) != plain]  # fmt: skip
    if problems:
        return problems
    levels = {
        f: _low_and_high(parts, f) for name in parts.factorial.factors for f in switched_factors(parts.factorial, name)
    }
    generated = dict(_factorial_treatment_tables(parts.factorial, levels, baseline))
    stated = explicit.get(baseline, {})
    problems = [SpecProblem(f"treatments.{n}", "is a combination of [factorial]: label it in factorial.labels")
                for n in generated if n in explicit and n != baseline]  # fmt: skip
    if "set" in stated:
        problems.append(SpecProblem(f"treatments.{baseline}.set", "is what [factorial] sets: leave it out"))
    raw["treatments"] = generated | {n: treatment for n, treatment in explicit.items() if n not in generated}
    raw["treatments"][baseline] = generated[baseline] | stated
    return problems


def _factorial_treatment_tables(
    spec: Factorial, levels: Mapping[str, tuple[FactorLevel, FactorLevel]], baseline: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each combination, its label and its levels."""
    for treatment, cell in factorial_design(spec).cell_by_treatment(baseline).items():
        high = {name for i, name in enumerate(spec.factors) if cell >> i & 1}
        chosen_levels = {f: levels[f][name in high] for name in spec.factors for f in switched_factors(spec, name)}
        high_levels = {n: "on" if n in spec.groups else level_text(levels[n][1]) for n in spec.factors if n in high}
        high_labels = [name if level == "on" else f"{name} {level}" for name, level in high_levels.items()]
        label = spec.labels.get(treatment) or " + ".join(high_labels) or "baseline"
        yield treatment, {"label": label, "set": chosen_levels}


def _low_and_high(parts: _FactorialTables, name: str) -> tuple[FactorLevel, FactorLevel]:
    """Return low and high of a factor: as stated, else the role's own value (or the first level) and the other one."""
    factor = parts.factors[name]
    if name in parts.factorial.levels:
        return parts.factorial.levels[name]
    role = parts.roles.get(factor.role)
    low = (role.vars if role else {}).get(factor.var or name, factor.levels[0])
    return low, next(level for level in factor.levels if level != low)


def _factorial_problems(parts: _FactorialTables) -> PathMessages:
    messages = [*_name_problems(parts), *_level_problems(parts)]
    yield from messages or _design_problems(parts.factorial)


def _name_problems(parts: _FactorialTables) -> PathMessages:
    spec, set_by = parts.factorial, dict[str, str]()
    for group, factors in spec.groups.items():
        if group in parts.factors:
            yield f"factorial.groups.{group}", "is the name of a factor, too"
        for i, factor in enumerate(factors):
            if factor not in parts.factors:
                where = f"factorial.groups.{group}.{i}"
                yield where, f"no factor {short_repr(factor)}{suggestion(factor, parts.factors)}"
    for i, name in enumerate(spec.factors):
        known = [*spec.groups, *parts.factors]
        if name not in known:
            yield f"factorial.factors.{i}", f"no factor or group {short_repr(name)}{suggestion(name, known)}"
        for factor in switched_factors(spec, name):
            if factor in set_by:
                yield f"factorial.factors.{i}", f"sets {factor}, which {set_by[factor]} sets already"
            set_by.setdefault(factor, name)


def _level_problems(parts: _FactorialTables) -> PathMessages:
    spec = parts.factorial
    for name, (low, high) in spec.levels.items():
        known = parts.factors[name].levels if name in parts.factors else ()
        if name not in parts.factors:
            yield f"factorial.levels.{name}", f"no factor {short_repr(name)}{suggestion(name, parts.factors)}"
        elif low == high or low not in known or high not in known:
            yield f"factorial.levels.{name}", f"must be two different ones of its levels {short_repr(list(known))}"
    used_factors = {f for name in spec.factors for f in switched_factors(spec, name)} & set(parts.factors)
    for name in sorted(used_factors - set(spec.levels)):
        levels = parts.factors[name].levels
        if len(levels) > 2:
            yield f"factorial.levels.{name}", f"is required: which two, low and high, of {short_repr(list(levels))}?"
        elif len(set(levels)) < 2:
            yield f"factors.{name}.levels", "must be two different ones"


def _design_problems(spec: Factorial) -> PathMessages:
    count, where = len(spec.factors), "factorial.generators" if spec.generators else "factorial.fraction"
    if spec.generators and spec.fraction != "full":
        yield "factorial.generators", f"goes without fraction = {short_repr(spec.fraction)}: state one of them"
        return
    messages = [(f"{where}.{i}", _generator_problem(spec, text)) for i, text in enumerate(spec.generators)]
    if wrong := [(path, message) for path, message in messages if message]:
        yield from wrong
        return
    design = factorial_design(spec)
    if len(design.words) < FRACTION_EXPONENTS[spec.fraction]:
        yield where, f"{count} factors are too few for fraction = {short_repr(spec.fraction)}"
    elif not design.words and count > MAX_FULL_FACTORS:
        treatments = 2**count
        yield where, f'is required: {count} factors make {treatments} treatments; "sixteenth" makes {treatments // 16}'
    else:
        yield from _alias_problems(spec, design, where)


def _alias_problems(spec: Factorial, design: FactorialDesign, where: str) -> PathMessages:
    shortest = min((word for word in defining_relation(design.words)), key=int.bit_count, default=None)
    if shortest is None:
        return
    parts = [name for i, name in enumerate(design.names) if shortest >> i & 1]
    if shortest == 0:
        yield where, "one of them follows from the others"
    elif len(parts) == 1:
        yield where, f"{parts[0]} would never change"
    elif len(parts) == 2:
        yield where, f"the main effects of {parts[0]} and {parts[1]} would be confounded"
    elif len(parts) == 3 and not spec.screening:
        message = f"the main effect of {parts[0]} is confounded with {parts[1]} x {parts[2]} (resolution III)"
        yield where, f"{message}: run more combinations, or state screening = true"


def _generator_problem(spec: Factorial, text: str) -> str | None:
    """Return the problem of a generator, None if it is valid."""
    left, equals, right = text.partition("=")
    names = [left.strip(), *right.split()]
    unknown = [name for name in names if name not in spec.factors]
    if not equals or len(names) < 2:
        return f"{short_repr(text)} must be like 'd = a b c', of names in factorial.factors"
    if unknown:
        return f"no {short_repr(unknown[0])} among the factors{suggestion(unknown[0], spec.factors)}"
    return None if len(set(names)) == len(names) else f"{short_repr(text)} names a factor twice"
