"""Designs: treatments generated from `[grid]` or `[factorial]`, and the mistakes in these tables with key paths.

[grid] generates every combination of the levels of some factors; levels make up its name. [factorial] generates all
combinations of factors with two levels each, or a fraction of them.

Sets of factors are integers, with bit i for factor i. A combination is the set of factors at their high level; an
effect is the set of factors whose signs are multiplied (one factor: main effect, two: interaction). A fraction is
defined by words, effects that are constant in it: it has the combinations in which every word contains an even number
of high factors, so it includes "all low" (Box, Hunter & Hunter, Statistics for Experimenters, chapter 6).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from pydantic import BaseModel, ValidationError

from loadbook.core.errors import SpecProblem
from loadbook.core.units import join_words
from loadbook.study.model import Study
from loadbook.study.problems import PathMessages, short_repr, suggestion
from loadbook.study.treatments import Factor, Factorial, FactorLevel, Grid, Ident, Role, Treatment

MAX_TREATMENTS = 200
MAX_FACTORS, MAX_FULL_FACTORS = 9, 7
ROMAN_NUMERALS = ("0", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
FRACTION_EXPONENTS = {"full": 0, "half": 1, "quarter": 2, "eighth": 3, "sixteenth": 4}
FACTOR_LETTERS = "abcdefghi"


def defining_relation(words: Iterable[int]) -> frozenset[int]:
    """Return all products of one or more words (sets of factors, bit i for factor i): the defining relation.

    It contains 0 if the words are dependent.
    """
    products = {0}
    new_products: set[int] = set()
    for word in words:
        new_products |= {word ^ product for product in products}
        products |= new_products
    return frozenset(new_products)


def effect_sign(effect: int, cell: int) -> int:
    """Return the sign, +1 or -1, with which the response of a combination (`cell`) enters an effect.

    Bit i stands for factor i: set in `cell` if it is at its high level, in `effect` if its sign is multiplied.
    """
    return -1 if (effect.bit_count() - (effect & cell).bit_count()) % 2 else 1


@cache
def minimum_aberration_words(factor_count: int, word_count: int) -> tuple[int, ...]:
    """Return the words of the fraction 1 / 2 ** `word_count` with minimum aberration.

    It has the highest resolution, then the fewest shortest words; its last factors are products of the first ones.
    Words are sets of factors, bit i for factor i; there are none for a full factorial, or if factors are too few.
    """
    base = factor_count - word_count
    products = [p for p in range(2 ** max(base, 0)) if p.bit_count() > 1]
    products.sort(key=lambda p: (-p.bit_count(), p))
    added_factors = [1 << (base + i) for i in range(word_count)]
    choices = (
        tuple(p | added for p, added in zip(combination, added_factors, strict=True))
        for combination in itertools.combinations(products, word_count)
    )

    def word_length_pattern(words: tuple[int, ...]) -> tuple[int, ...]:
        lengths = [word.bit_count() for word in defining_relation(words)]
        return tuple(lengths.count(length) for length in range(1, MAX_FACTORS + 1))

    return min(choices, key=word_length_pattern, default=())


@dataclass(frozen=True)
class FactorialDesign:
    """Names of the switches (factors, or groups of factors set together) and the words that define the fraction."""

    names: tuple[str, ...]
    words: tuple[int, ...]

    @cached_property
    def relation(self) -> frozenset[int]:
        """Return the defining relation: all products of the words."""
        return defining_relation(self.words)

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """Return the combinations that are run, in standard order, "all low" first."""
        every = range(2 ** len(self.names))
        return tuple(cell for cell in every if not any((cell & word).bit_count() % 2 for word in self.words))

    @property
    def resolution(self) -> int | None:
        """Return the number of factors in the shortest word of the defining relation; None for a full factorial."""
        return min((word.bit_count() for word in self.relation), default=None)

    @property
    def main_and_pair_effects(self) -> list[int]:
        """Return the main effects, then the interactions of two factors, in the order of the factors."""
        mains = [1 << i for i in range(len(self.names))]
        return mains + [a | b for a, b in itertools.combinations(mains, 2)]

    @cached_property
    def alias_sets(self) -> list[tuple[int, ...]]:
        """Return the sets of confounded main effects and two-factor interactions; an effect on its own is a set, too.

        The first effect of a set gives its name: a main effect if the set has one. Interactions of three or more
        factors are left out, since they are usually negligible.
        """
        remaining, sets = self.main_and_pair_effects, []
        while remaining:
            aliases = tuple(e for e in remaining if e == remaining[0] or e ^ remaining[0] in self.relation)
            sets.append(aliases)
            remaining = [e for e in remaining if e not in aliases]
        return sets

    @property
    def effects(self) -> list[int]:
        """Return the effects that name the alias sets: main effects first, then pairs."""
        return [alias_set[0] for alias_set in self.alias_sets]

    @cached_property
    def higher_order_effects(self) -> list[int]:
        """Return effects of three or more factors not confounded with main effects or pairs, one per set of aliases."""
        products = (0, *self.relation)
        excluded = {e ^ word for e in (0, *self.main_and_pair_effects) for word in products}
        effects = []
        for effect in sorted(range(2 ** len(self.names)), key=lambda e: (e.bit_count(), e)):
            if effect not in excluded:
                effects.append(effect)
                excluded |= {effect ^ word for word in products}
        return effects

    def switch_names(self, effect: int) -> tuple[str, ...]:
        """Return the names of the switches whose signs are multiplied in an effect."""
        return tuple(name for i, name in enumerate(self.names) if effect >> i & 1)

    def effect_name(self, effect: int) -> str:
        """Return the name of an effect: tcp_nopush, or tcp_nopush x sendfile."""
        return " x ".join(self.switch_names(effect))

    def shortest_alias_names(self, effect: int) -> str:
        """Return the names of those aliases of an effect that have the fewest factors: a x b x c or d x e x f."""
        aliased = {effect ^ word for word in (0, *self.relation)}
        fewest = min(e.bit_count() for e in aliased)
        return " or ".join(self.effect_name(e) for e in sorted(aliased) if e.bit_count() == fewest)

    def cell_by_treatment(self, baseline: str) -> dict[str, int]:
        """Return treatment -> combination, bit i for a high factor i; "all low" is the baseline.

        The name of another treatment is the letters of its high factors: "ac" for the first and the third.
        """
        return {
            "".join(FACTOR_LETTERS[i] for i in range(len(self.names)) if c >> i & 1) or baseline: c for c in self.cells
        }


def factorial_design(spec: Factorial) -> FactorialDesign:
    """Return the design of a [factorial] table that has no mistakes."""
    words = []
    for text in spec.generators:
        left, _, right = text.partition("=")
        words.append(sum(1 << spec.factors.index(name) for name in [left.strip(), *right.split()]))
    usual = minimum_aberration_words(len(spec.factors), FRACTION_EXPONENTS[spec.fraction])
    return FactorialDesign(spec.factors, tuple(words) or usual)


def alias_sentences(design: FactorialDesign) -> list[str]:
    """Return sentences on the design: first on the number of runs and resolution, then one per confounded effect."""
    resolution, count = design.resolution, len(design.cells)
    if resolution is None:
        first = f"All {count} combinations are run, so every effect stands alone."
    else:
        meaning = (
            "every main effect and every pair stands alone, if no three factors act together"
            if resolution >= 5
            else "every main effect stands alone, if no three factors act together; pairs come in sets"
            if resolution == 4
            else "this is a screening: a main effect is confounded with the pairs named with it"
        )
        runs = f"{count} of {2 ** len(design.names)} combinations are run"
        first = f"{runs}, a fraction of resolution {ROMAN_NUMERALS[resolution]}: {meaning}."
    aliased = (list(map(design.effect_name, effects)) for effects in design.alias_sets if len(effects) > 1)
    return [first, *(f"{name} is confounded with {join_words(others)}." for name, *others in aliased)]


def switch_label(study: Study, name: str) -> str:
    """Return the label of a switch (factor or group) at its high level: tcp_nopush on, sending group on."""
    group_suffix = " group" if study.factorial and name in study.factorial.groups else ""
    return f"{name}{group_suffix} {level_labels(study, name)[1]}"


def level_labels(study: Study, name: str) -> tuple[str, str]:
    """Return the labels of the low and high level of a switch; "off" and "on" for a group of factors."""
    if study.factorial and name in study.factorial.groups:
        return "off", "on"
    low, high = switch_levels(study, name)[name]
    return level_text(low), level_text(high)


def switch_levels(study: Study, name: str) -> dict[str, tuple[FactorLevel, FactorLevel]]:
    """Return factor -> low and high level, of the factors that a switch sets; empty if the study is no factorial."""
    spec, low = study.factorial, study.treatments[study.baseline].set
    if spec is None:
        return {}
    treatments = [study.treatments[t] for t in factorial_design(spec).cell_by_treatment(study.baseline)]
    factors = switched_factors(spec, name)
    return {f: (low[f], next(t.set[f] for t in treatments if t.set[f] != low[f])) for f in factors}


def level_text(level: FactorLevel) -> str:
    """Return the label of a level: on and off for booleans."""
    return {True: "on", False: "off"}[level] if isinstance(level, bool) else str(level)


def switched_factors(spec: Factorial, name: str) -> tuple[str, ...]:
    """Return the factors of a group, or the factor itself if the name is no group."""
    return spec.groups.get(name, (name,))


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._]+")


class _GridTables(BaseModel):
    factors: dict[Ident, Factor]
    grid: Grid


def expand_grid(raw: dict[str, Any]) -> list[SpecProblem]:
    """Add the treatments of [grid] to the tables of a study file, in place; return the problems.

    A treatment that the file itself defines under the name of a combination keeps its other keys (label, note). Tables
    of the wrong type are left unchanged; validation of the study reports them.
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
        label = ", ".join(f"{name} {level}" for name, level in levels.items()) if grid.label is None else grid.label
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


# keys that concern comparisons of single treatments
REQUIRED_VALUES = {"contrasts": "baseline", "hypothesis": "difference"}


def smoke_factorial(study: Study) -> tuple[Factorial, dict[str, Treatment]] | None:
    """Return a full factorial of the first two switches and its treatments; None if the study is no factorial."""
    if study.factorial is None:
        return None
    changes = {"factors": study.factorial.factors[:2], "fraction": "full", "generators": ()}
    spec = study.factorial.model_copy(update=changes)
    levels = {f: pair for name in spec.factors for f, pair in switch_levels(study, name).items()}
    tables = _factorial_treatment_tables(spec, levels, study.baseline)
    base = study.treatments[study.baseline].label
    return spec, {n: Treatment.model_validate(t | ({"label": base} if n == study.baseline else {})) for n, t in tables}


class _FactorialTables(BaseModel):
    roles: dict[Ident, Role]
    factors: dict[Ident, Factor]
    factorial: Factorial


def expand_factorial(raw: dict[str, Any]) -> list[SpecProblem]:
    """Add the treatments of [factorial] to the tables of a study file, in place; return the problems.

    Tables of the wrong type are left unchanged; validation of the study reports them.
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
    messages = [*_name_problems(parts), *_level_problems(parts)] or _design_problems(parts.factorial)
    problems = [SpecProblem(path, message) for path, message in messages]
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
    """Yield the name of each combination, and its table with label and levels."""
    for treatment, cell in factorial_design(spec).cell_by_treatment(baseline).items():
        high = {name for i, name in enumerate(spec.factors) if cell >> i & 1}
        chosen_levels = {f: levels[f][name in high] for name in spec.factors for f in switched_factors(spec, name)}
        high_levels = {n: "on" if n in spec.groups else level_text(levels[n][1]) for n in spec.factors if n in high}
        high_labels = [name if level == "on" else f"{name} {level}" for name, level in high_levels.items()]
        label = spec.labels.get(treatment) or " + ".join(high_labels) or "baseline"
        yield treatment, {"label": label, "set": chosen_levels}


def _low_and_high(parts: _FactorialTables, name: str) -> tuple[FactorLevel, FactorLevel]:
    """Return a factor's low and high: as stated, else the role's own value (or the first level) and the other level."""
    factor = parts.factors[name]
    if name in parts.factorial.levels:
        return parts.factorial.levels[name]
    role = parts.roles.get(factor.role)
    low = (role.vars if role else {}).get(factor.var or name, factor.levels[0])
    return low, next(level for level in factor.levels if level != low)


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
    shortest = min(design.relation, key=int.bit_count, default=None)
    parts = design.switch_names(shortest or 0)
    if len(design.words) < FRACTION_EXPONENTS[spec.fraction]:
        yield where, f"{count} factors are too few for fraction = {short_repr(spec.fraction)}"
    elif not design.words and count > MAX_FULL_FACTORS:
        treatments = 2**count
        yield where, f'is required: {count} factors make {treatments} treatments; "sixteenth" makes {treatments // 16}'
    elif shortest == 0:
        yield where, "one of them follows from the others"
    elif len(parts) == 1:
        yield where, f"{parts[0]} would never change"
    elif len(parts) == 2:
        yield where, f"the main effects of {parts[0]} and {parts[1]} would be confounded"
    elif len(parts) == 3 and not spec.screening:
        message = f"the main effect of {parts[0]} is confounded with {parts[1]} x {parts[2]} (resolution III)"
        yield where, f"{message}: run more combinations, or state screening = true"


def _generator_problem(spec: Factorial, text: str) -> str | None:
    """Return the problem of a generator such as "d = a b c"; None if it is valid."""
    left, equals, right = text.partition("=")
    names = [left.strip(), *right.split()]
    unknown = [name for name in names if name not in spec.factors]
    if not equals or len(names) < 2:
        return f"{short_repr(text)} must be like 'd = a b c', of names in factorial.factors"
    if unknown:
        return f"no {short_repr(unknown[0])} among the factors{suggestion(unknown[0], spec.factors)}"
    return None if len(set(names)) == len(names) else f"{short_repr(text)} names a factor twice"
