"""[factorial] of a study: factors at two levels each -> treatments, with what the design cannot tell apart in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ValidationError

from loadbook.core.errors import SpecProblem
from loadbook.design import aliases
from loadbook.design.problems import shown, suggest
from loadbook.design.study import Factor, Factorial, Ident, Level, Role, Study, Treatment

SHARES = {"full": 0, "half": 1, "quarter": 2, "eighth": 3, "sixteenth": 4}
LETTERS = "abcdefghi"
Found = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class Design:
    """Names of the switches (factors or groups of them) and the words that define the fraction."""

    names: tuple[str, ...]
    words: tuple[int, ...]

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """The combinations that are run, "all low" first."""
        return aliases.cells(len(self.names), self.words)

    @property
    def resolution(self) -> int | None:
        """Length of the shortest word; None for a whole factorial."""
        return aliases.resolution(self.words)

    @cached_property
    def effects(self) -> list[tuple[int, ...]]:
        """Sets of effects that cannot be told apart, main effects first."""
        return aliases.aliased(len(self.names), self.words)

    def name(self, effect: int) -> str:
        """Return an effect as readers see it: tcp_nopush, or tcp_nopush x sendfile."""
        return " x ".join(name for i, name in enumerate(self.names) if effect >> i & 1)

    def treatments(self, baseline: str) -> dict[str, int]:
        """Return treatment -> combination; each is named by the letters of what is high, "all low" is the baseline."""
        return {"".join(LETTERS[i] for i in range(len(self.names)) if c >> i & 1) or baseline: c for c in self.cells}


def design_of(spec: Factorial) -> Design:
    """Return the design of a [factorial] in which `expand` found nothing wrong."""
    words = tuple(_word(spec, text) for text in spec.generators)
    return Design(spec.factors, words or aliases.best_words(len(spec.factors), SHARES[spec.fraction]))


def aliasing(design: Design) -> list[str]:
    """Return what the design cannot tell apart, one sentence each; the first says how good it is as a whole."""
    said = [_quality(design)]
    for alike in design.effects:
        first, *others = map(design.name, alike)
        if others:
            said.append(f"{first} cannot be told apart from {_listed(others)}.")
    return said


def _quality(design: Design) -> str:
    found = design.resolution
    runs = f"{len(design.cells)} of {2 ** len(design.names)} combinations"
    if found is None:
        return f"All {len(design.cells)} combinations are run, so every effect can be told from every other."
    if found >= 5:
        told = "every main effect and every pair can be told apart, if no three factors act together"
    elif found == 4:
        told = "every main effect stands alone, if no three factors act together; pairs come in sets"
    else:
        told = "this is a screening: a main effect cannot be told from the pairs named with it"
    return f"{runs} are run, a fraction of resolution {aliases.ROMAN[found]}: {told}."


def switch_label(study: Study, name: str) -> str:
    """Return what the high level of a switch is called: tcp_nopush on, worker_processes 1, send group."""
    spec = study.factorial
    if spec is None or name in spec.groups:
        return f"{name} group"
    high = next(t.set[name] for t in _combinations(study) if t.set[name] != _low(study)[name])
    return f"{name} {_text(high)}"


def members(study: Study, name: str) -> dict[str, tuple[Level, Level]]:
    """Return the factors that a switch sets, each with its low and its high level."""
    spec, low = study.factorial, _low(study)
    own = spec.groups.get(name, (name,)) if spec else ()
    high = {f: next(t.set[f] for t in _combinations(study) if t.set[f] != low[f]) for f in own}
    return {factor: (low[factor], high[factor]) for factor in own}


def _low(study: Study) -> Mapping[str, Level]:
    return study.treatments[study.baseline].set


def _combinations(study: Study) -> Iterator[Treatment]:
    if study.factorial:
        for name in design_of(study.factorial).treatments(study.baseline):
            yield study.treatments[name]


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

    Tables of the wrong shape are left as they are, to be named when the study is validated. A treatment that the file
    names itself keeps its label and note.
    """
    baseline, given = raw.get("baseline"), raw.get("treatments", {})
    if "factorial" not in raw or not isinstance(baseline, str) or not isinstance(given, dict):
        return []
    raw["treatments"] = {baseline: {}, **given}
    try:
        parts = _Parts.model_validate({name: raw.get(name, {}) for name in ("roles", "factors", "factorial")})
    except ValidationError:
        return []
    found = [SpecProblem(path, message) for path, message in _problems(parts)]
    if found:
        return found
    levels = {f: _levels(parts, f) for name in parts.factorial.factors for f in _factors_of(parts.factorial, name)}
    made = dict(_made(parts.factorial, levels, baseline))
    found = [SpecProblem(f"treatments.{name}.{key}", "is what [factorial] sets: give it another name, or leave it out")
             for name in made for key in ("set", "same_as") if key in _own(given, name)]  # fmt: skip
    raw["treatments"] = {name: {**made[name], **_own(given, name)} for name in made} | {
        name: treatment for name, treatment in given.items() if name not in made
    }
    return found


def _own(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    own = given.get(name)
    return own if isinstance(own, dict) else {}


def _made(
    spec: Factorial, levels: Mapping[str, tuple[Level, Level]], baseline: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each combination, its label and its levels."""
    for treatment, cell in design_of(spec).treatments(baseline).items():
        high = {name for i, name in enumerate(spec.factors) if cell >> i & 1}
        chosen = {f: levels[f][name in high] for name in spec.factors for f in _factors_of(spec, name)}
        said = [_short(spec, name, levels) for name in spec.factors if name in high]
        yield treatment, {"label": " + ".join(said) or "baseline", "set": chosen}


def _short(spec: Factorial, name: str, levels: Mapping[str, tuple[Level, Level]]) -> str:
    return name if name in spec.groups or _text(levels[name][1]) == "on" else f"{name} {_text(levels[name][1])}"


def _text(level: Level) -> str:
    return {True: "on", False: "off"}[level] if isinstance(level, bool) else str(level)


def _factors_of(spec: Factorial, name: str) -> tuple[str, ...]:
    return spec.groups.get(name, (name,))


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
        for factor in _factors_of(spec, name):
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
    wanted = {f for name in spec.factors for f in _factors_of(spec, name)} & set(parts.factors)
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


def _word(spec: Factorial, text: str) -> int:
    left, _, right = text.partition("=")
    return sum(1 << spec.factors.index(name) for name in [left.strip(), *right.split()])


def _listed(names: list[str]) -> str:
    return ", ".join(names[:-1]) + f" or {names[-1]}" if len(names) > 1 else names[0]
