"""[factorial] of a study file: factors at two levels each -> treatments, or every mistake with its key path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from loadbook.core.errors import SpecProblem
from loadbook.design import aliases
from loadbook.design.factorial import SHARES, Design, design_of, factors_of, members, text
from loadbook.design.problems import shown, suggest
from loadbook.design.study import Factor, Factorial, Ident, Level, Role, Study, Treatment

Found = Iterator[tuple[str, str]]
# what belongs to comparisons of single treatments
GOES_WITHOUT = {"contrasts": "baseline", "asks": "difference"}


def shortened(study: Study) -> tuple[Factorial, dict[str, Treatment]] | None:
    """Return the whole factorial of the first two switches and its treatments, for a smoke variant."""
    if study.factorial is None:
        return None
    spec = study.factorial.model_copy(update={"factors": study.factorial.factors[:2], "fraction": "full"})
    spec = spec.model_copy(update={"generators": ()})
    levels = {f: pair for name in spec.factors for f, pair in members(study, name).items()}
    made = _made(spec, levels, study.baseline)
    base = study.treatments[study.baseline].label
    return spec, {n: Treatment.model_validate(t | ({"label": base} if n == study.baseline else {})) for n, t in made}


class _Parts(BaseModel):
    roles: dict[Ident, Role]
    factors: dict[Ident, Factor]
    factorial: Factorial


def expand(raw: dict[str, Any]) -> list[SpecProblem]:
    """Add the treatments of [factorial] to a study as it was read from its file; return what is wrong with it.

    Tables of the wrong shape are left as they are, to be named when the study is validated.
    """
    baseline, given = raw.get("baseline"), raw.get("treatments", {})
    if "factorial" not in raw or not isinstance(baseline, str) or not isinstance(given, dict):
        return []
    raw["treatments"] = {baseline: {}, **given}
    if not isinstance(raw["treatments"][baseline], dict):
        return []
    try:
        parts = _Parts.model_validate({name: raw.get(name, {}) for name in ("roles", "factors", "factorial")})
    except ValidationError:
        return []
    found = [SpecProblem(path, message) for path, message in _problems(parts)]
    found += [SpecProblem(key, "goes without [factorial], whose effects are judged after all blocks")
              for key, plain in GOES_WITHOUT.items() if raw.get(key, plain) != plain]  # fmt: skip
    if found:
        return found
    levels = {f: _levels(parts, f) for name in parts.factorial.factors for f in factors_of(parts.factorial, name)}
    made = dict(_made(parts.factorial, levels, baseline))
    own = given.get(baseline, {})
    found = [SpecProblem(f"treatments.{n}", "is a combination of [factorial]: label it in factorial.labels")
             for n in made if n in given and n != baseline]  # fmt: skip
    if "set" in own:
        found.append(SpecProblem(f"treatments.{baseline}.set", "is what [factorial] sets: leave it out"))
    raw["treatments"] = made | {n: treatment for n, treatment in given.items() if n not in made}
    raw["treatments"][baseline] = made[baseline] | own
    return found


def _made(
    spec: Factorial, levels: Mapping[str, tuple[Level, Level]], baseline: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each combination, its label and its levels."""
    for treatment, cell in design_of(spec).treatments(baseline).items():
        high = {name for i, name in enumerate(spec.factors) if cell >> i & 1}
        chosen = {f: levels[f][name in high] for name in spec.factors for f in factors_of(spec, name)}
        said = [_short(spec, name, levels) for name in spec.factors if name in high]
        label = spec.labels.get(treatment) or " + ".join(said) or "baseline"
        yield treatment, {"label": label, "set": chosen}


def _short(spec: Factorial, name: str, levels: Mapping[str, tuple[Level, Level]]) -> str:
    return name if name in spec.groups or text(levels[name][1]) == "on" else f"{name} {text(levels[name][1])}"


def _levels(parts: _Parts, name: str) -> tuple[Level, Level]:
    """Return low and high of a factor: as stated, else the role's own value (or the first level) and the other one."""
    factor = parts.factors[name]
    if name in parts.factorial.levels:
        return parts.factorial.levels[name]
    role = parts.roles.get(factor.role)
    low = (role.vars if role else {}).get(factor.var or name, factor.levels[0])
    return low, next(level for level in factor.levels if level != low)


def _problems(parts: _Parts) -> Found:
    found = [*_name_problems(parts), *_level_problems(parts)]
    yield from found or _design_problems(parts.factorial)


def _name_problems(parts: _Parts) -> Found:
    spec, seen = parts.factorial, dict[str, str]()
    for group, factors in spec.groups.items():
        if group in parts.factors:
            yield f"factorial.groups.{group}", "is the name of a factor, too"
        for i, factor in enumerate(factors):
            if factor not in parts.factors:
                yield f"factorial.groups.{group}.{i}", f"no factor {shown(factor)}{suggest(factor, parts.factors)}"
    for i, name in enumerate(spec.factors):
        known = [*spec.groups, *parts.factors]
        if name not in known:
            yield f"factorial.factors.{i}", f"no factor or group {shown(name)}{suggest(name, known)}"
        for factor in factors_of(spec, name):
            if factor in seen:
                yield f"factorial.factors.{i}", f"sets {factor}, which {seen[factor]} sets already"
            seen.setdefault(factor, name)


def _level_problems(parts: _Parts) -> Found:
    spec = parts.factorial
    for name, (low, high) in spec.levels.items():
        known = parts.factors[name].levels if name in parts.factors else ()
        if name not in parts.factors:
            yield f"factorial.levels.{name}", f"no factor {shown(name)}{suggest(name, parts.factors)}"
        elif low == high or low not in known or high not in known:
            yield f"factorial.levels.{name}", f"must be two different ones of its levels {shown(list(known))}"
    wanted = {f for name in spec.factors for f in factors_of(spec, name)} & set(parts.factors)
    for name in sorted(wanted - set(spec.levels)):
        levels = parts.factors[name].levels
        if len(levels) > 2:
            yield f"factorial.levels.{name}", f"is required: which two, low and high, of {shown(list(levels))}?"
        elif len(set(levels)) < 2:
            yield f"factors.{name}.levels", "must be two different ones"


def _design_problems(spec: Factorial) -> Found:
    count, where = len(spec.factors), "factorial.generators" if spec.generators else "factorial.fraction"
    if spec.generators and spec.fraction != "full":
        yield "factorial.generators", f"goes without fraction = {shown(spec.fraction)}: state one of them"
        return
    found = [(f"{where}.{i}", message) for i, text in enumerate(spec.generators) if (message := _unread(spec, text))]
    if found:
        yield from found
        return
    design = design_of(spec)
    if len(design.words) < SHARES[spec.fraction]:
        yield where, f"{count} factors are too few for fraction = {shown(spec.fraction)}"
    elif not design.words and count > aliases.MAX_FULL:
        treatments = 2**count
        yield where, f'is required: {count} factors make {treatments} treatments; "sixteenth" makes {treatments // 16}'
    else:
        yield from _alias_problems(spec, design, where)


def _alias_problems(spec: Factorial, design: Design, where: str) -> Found:
    shortest = min((word for word in aliases.spanned(design.words)), key=int.bit_count, default=None)
    if shortest is None:
        return
    parts = [name for i, name in enumerate(design.names) if shortest >> i & 1]
    if shortest == 0:
        yield where, "one of them follows from the others"
    elif len(parts) == 1:
        yield where, f"{parts[0]} would never change"
    elif len(parts) == 2:
        yield where, f"the main effects of {parts[0]} and {parts[1]} could not be told apart"
    elif len(parts) == 3 and not spec.screening:
        said = f"the main effect of {parts[0]} cannot be told apart from {parts[1]} x {parts[2]} (resolution III)"
        yield where, f"{said}: run more combinations, or state screening = true"


def _unread(spec: Factorial, text: str) -> str | None:
    """Return what is wrong with a generator, None for one that can be read."""
    left, equals, right = text.partition("=")
    names = [left.strip(), *right.split()]
    unknown = [name for name in names if name not in spec.factors]
    if not equals or len(names) < 2:
        return f"{shown(text)} must be like 'd = a b c', of names in factorial.factors"
    if unknown:
        return f"no {shown(unknown[0])} among the factors{suggest(unknown[0], spec.factors)}"
    return None if len(set(names)) == len(names) else f"{shown(text)} names a factor twice"
