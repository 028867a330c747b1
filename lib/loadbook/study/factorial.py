"""Designs of factors at two levels: the combinations that run, and the effects that are confounded.

Factor i is bit i of a number. A combination is the set of factors at their high level; an effect is the set of
factors whose signs are multiplied (one factor: a main effect, two: an interaction). A fraction is defined by words,
effects that are constant over it; it is the fraction in which every word holds an even number of high factors, so that
"all low" is always one of its combinations (Box, Hunter & Hunter, Statistics for Experimenters, chapter 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations

from loadbook.core.units import join_words
from loadbook.study.model import Study
from loadbook.study.treatments import Factorial, FactorLevel

MAX_FACTORS, MAX_FULL_FACTORS = 9, 7
ROMAN_NUMERALS = ("0", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
FRACTION_EXPONENTS = {"full": 0, "half": 1, "quarter": 2, "eighth": 3, "sixteenth": 4}
FACTOR_LETTERS = "abcdefghi"


def defining_relation(words: Iterable[int]) -> frozenset[int]:
    """Return all products of `words` but the empty one: the defining relation. It holds 0 if they are dependent."""
    products = {0}
    new_products: set[int] = set()
    for word in words:
        new_products |= {word ^ product for product in products}
        products |= new_products
    return frozenset(new_products)


def aliases_resolution(words: Iterable[int]) -> int | None:
    """Return the length of the shortest word of the defining relation, None for a whole factorial."""
    return min((word.bit_count() for word in defining_relation(words)), default=None)


def design_cells(factor_count: int, words: Sequence[int]) -> tuple[int, ...]:
    """Return the combinations of a design in standard order, "all low" first."""
    return tuple(c for c in range(2**factor_count) if not any((c & word).bit_count() % 2 for word in words))


def effect_sign(effect: int, cell: int) -> int:
    """Return the sign, +1 or -1, with which a combination enters an effect."""
    return -1 if (effect.bit_count() - (effect & cell).bit_count()) % 2 else 1


def main_and_pair_effects(factor_count: int) -> list[int]:
    """Return the main effects, then the interactions of two factors, in the factors' order."""
    mains = [1 << i for i in range(factor_count)]
    return mains + [a | b for a, b in combinations(mains, 2)]


def alias_sets(factor_count: int, words: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the sets of main effects and two-factor interactions that a design cannot tell apart, each once.

    The first of a set is the one that it is named by: a main effect where it holds one. Products of three and more
    factors are left out: they are taken to be negligible, as is usual.
    """
    relation, remaining = defining_relation(words), main_and_pair_effects(factor_count)
    sets = []
    while remaining:
        aliases = tuple(e for e in remaining if e == remaining[0] or e ^ remaining[0] in relation)
        sets.append(aliases)
        remaining = [e for e in remaining if e not in aliases]
    return sets


def higher_order_effects(factor_count: int, words: Sequence[int]) -> list[int]:
    """Return the effects of three and more factors that no main effect and no pair is mixed with, aliases only once."""
    relation = defining_relation(words)
    excluded = {0, *relation, *(e ^ word for e in main_and_pair_effects(factor_count) for word in (0, *relation))}
    effects = []
    for effect in sorted(range(2**factor_count), key=lambda e: (e.bit_count(), e)):
        if effect not in excluded:
            effects.append(effect)
            excluded |= {effect ^ word for word in (0, *relation)}
    return effects


@cache
def minimum_aberration_words(factor_count: int, word_count: int) -> tuple[int, ...]:
    """Return the words of the fraction 1 / 2 ** `word_count` of minimum aberration.

    It has the highest resolution, then the fewest short words; its last factors are products of the first ones.
    """
    base = factor_count - word_count
    products = [p for p in range(2 ** max(base, 0)) if p.bit_count() > 1]
    products.sort(key=lambda p: (-p.bit_count(), p))
    added_factors = [1 << (base + i) for i in range(word_count)]
    choices = (
        tuple(p | added for p, added in zip(combination, added_factors, strict=True))
        for combination in combinations(products, word_count)
    )

    def word_length_pattern(words: tuple[int, ...]) -> tuple[int, ...]:
        lengths = [word.bit_count() for word in defining_relation(words)]
        return tuple(lengths.count(length) for length in range(1, MAX_FACTORS + 1))

    return min(choices, key=word_length_pattern, default=())


@dataclass(frozen=True)
class FactorialDesign:
    """Names of the switches (factors or groups of them) and the words that define the fraction."""

    names: tuple[str, ...]
    words: tuple[int, ...]

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """The combinations that are run, "all low" first."""
        return design_cells(len(self.names), self.words)

    @property
    def resolution(self) -> int | None:
        """Length of the shortest word; None for a whole factorial."""
        return aliases_resolution(self.words)

    @cached_property
    def alias_sets(self) -> list[tuple[int, ...]]:
        """Sets of indistinguishable effects, main effects first."""
        return alias_sets(len(self.names), self.words)

    @cached_property
    def higher_order_effects(self) -> list[int]:
        """Effects of three and more factors that this design can estimate; it takes them to be negligible."""
        return higher_order_effects(len(self.names), self.words)

    def switch_names(self, effect: int) -> tuple[str, ...]:
        """Return the names of the switches whose signs an effect multiplies."""
        return tuple(name for i, name in enumerate(self.names) if effect >> i & 1)

    def effect_name(self, effect: int) -> str:
        """Return an effect as readers see it: tcp_nopush, or tcp_nopush x sendfile."""
        return " x ".join(self.switch_names(effect))

    def shortest_alias_names(self, effect: int) -> str:
        """Return an effect with its aliases of the fewest factors: a x b x c or d x e x f."""
        aliased = {effect, *(effect ^ word for word in defining_relation(self.words))}
        fewest = min(e.bit_count() for e in aliased)
        return " or ".join(self.effect_name(e) for e in sorted(aliased) if e.bit_count() == fewest)

    def cell_by_treatment(self, baseline: str) -> dict[str, int]:
        """Return treatment -> combination; the letters of its high factors name it, "all low" is the baseline."""
        return {
            "".join(FACTOR_LETTERS[i] for i in range(len(self.names)) if c >> i & 1) or baseline: c for c in self.cells
        }


def factorial_design(spec: Factorial) -> FactorialDesign:
    """Return the design of a [factorial] without mistakes."""
    words = []
    for text in spec.generators:
        left, _, right = text.partition("=")
        words.append(sum(1 << spec.factors.index(name) for name in [left.strip(), *right.split()]))
    usual = minimum_aberration_words(len(spec.factors), FRACTION_EXPONENTS[spec.fraction])
    return FactorialDesign(spec.factors, tuple(words) or usual)


def alias_sentences(design: FactorialDesign) -> list[str]:
    """Return the confounded effects, one sentence each; the first sentence is about the whole design."""
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
    """Return the label of a switch at its high level: tcp_nopush on, worker_processes 1, sending group on."""
    group_suffix = " group" if study.factorial and name in study.factorial.groups else ""
    return f"{name}{group_suffix} {level_labels(study, name)[1]}"


def level_labels(study: Study, name: str) -> tuple[str, str]:
    """Return low and high of a switch as an axis writes them; a group is off or on as a whole."""
    if study.factorial and name in study.factorial.groups:
        return "off", "on"
    low, high = switch_levels(study, name)[name]
    return level_text(low), level_text(high)


def switch_levels(study: Study, name: str) -> dict[str, tuple[FactorLevel, FactorLevel]]:
    """Return the factors that a switch sets, each with its low and its high level."""
    spec, low = study.factorial, study.treatments[study.baseline].set
    if spec is None:
        return {}
    treatments = [study.treatments[t] for t in factorial_design(spec).cell_by_treatment(study.baseline)]
    factors = switched_factors(spec, name)
    return {f: (low[f], next(t.set[f] for t in treatments if t.set[f] != low[f])) for f in factors}


def level_text(level: FactorLevel) -> str:
    """Return a level as readers see it."""
    return {True: "on", False: "off"}[level] if isinstance(level, bool) else str(level)


def switched_factors(spec: Factorial, name: str) -> tuple[str, ...]:
    """Return the factors that a name switches: its group's, or itself."""
    return spec.groups.get(name, (name,))
