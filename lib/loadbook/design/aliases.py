"""Designs of factors at two levels: which combinations are run, and which effects they cannot tell apart.

Factor i is bit i of a number. A combination is the set of factors that are at their high level; an effect is the set
of factors whose signs are multiplied (one factor: a main effect, two: an interaction). A fraction is defined by words,
effects that are constant over it; it is the fraction in which every word holds an even number of high factors, so that
"all low" is always one of its combinations (Box, Hunter & Hunter, Statistics for Experimenters, chapter 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import combinations

MAX_FACTORS, MAX_FULL_FACTORS = 9, 7
ROMAN_NUMERALS = ("0", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")


def defining_relation(words: Iterable[int]) -> frozenset[int]:
    """Return all products of `words` but the empty one: the defining relation. It holds 0 if they are dependent."""
    products = {0}
    new_products: set[int] = set()
    for word in words:
        new_products |= {word ^ product for product in products}
        products |= new_products
    return frozenset(new_products)


def resolution(words: Iterable[int]) -> int | None:
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

    It has the highest resolution, then the fewest short words.
    The last factors are made from products of the first ones.
    """
    base = factor_count - word_count
    products = [p for p in range(2 ** max(base, 0)) if p.bit_count() > 1]
    products.sort(key=lambda p: (-p.bit_count(), p))
    added_factors = [1 << (base + i) for i in range(word_count)]
    choices = (tuple(p | added for p, added in zip(combination, added_factors, strict=True)) for combination in combinations(products, word_count))
    return min(choices, key=_word_length_pattern, default=())


def _word_length_pattern(words: tuple[int, ...]) -> tuple[int, ...]:
    lengths = [word.bit_count() for word in defining_relation(words)]
    return tuple(lengths.count(length) for length in range(1, MAX_FACTORS + 1))
