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

MAX_FACTORS, MAX_FULL = 9, 7
ROMAN = ("0", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")


def spanned(words: Iterable[int]) -> frozenset[int]:
    """Return all products of `words` but the empty one: the defining relation. It holds 0 if they are dependent."""
    products = {0}
    found: set[int] = set()
    for word in words:
        found |= {word ^ product for product in products}
        products |= found
    return frozenset(found)


def resolution(words: Iterable[int]) -> int | None:
    """Return the length of the shortest word of the defining relation, None for a whole factorial."""
    return min((word.bit_count() for word in spanned(words)), default=None)


def cells(factors: int, words: Sequence[int]) -> tuple[int, ...]:
    """Return the combinations of a design in standard order, "all low" first."""
    return tuple(c for c in range(2**factors) if not any((c & word).bit_count() % 2 for word in words))


def sign(effect: int, cell: int) -> int:
    """Return the sign, +1 or -1, with which a combination enters an effect."""
    return -1 if (effect.bit_count() - (effect & cell).bit_count()) % 2 else 1


def effects(factors: int) -> list[int]:
    """Return the main effects, then the interactions of two factors, in the factors' order."""
    mains = [1 << i for i in range(factors)]
    return mains + [a | b for a, b in combinations(mains, 2)]


def aliased(factors: int, words: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the sets of main effects and two-factor interactions that a design cannot tell apart, each once.

    The first of a set is the one that it is named by: a main effect where it holds one. Products of three and more
    factors are left out: they are taken to be negligible, as is usual.
    """
    relation, left = spanned(words), effects(factors)
    found = []
    while left:
        alike = tuple(e for e in left if e == left[0] or e ^ left[0] in relation)
        found.append(alike)
        left = [e for e in left if e not in alike]
    return found


def higher(factors: int, words: Sequence[int]) -> list[int]:
    """Return the effects of three and more factors that no main effect and no pair is mixed with, aliases only once."""
    relation = spanned(words)
    taken = {0, *relation, *(e ^ word for e in effects(factors) for word in (0, *relation))}
    found = []
    for effect in sorted(range(2**factors), key=lambda e: (e.bit_count(), e)):
        if effect not in taken:
            found.append(effect)
            taken |= {effect ^ word for word in (0, *relation)}
    return found


@cache
def best_words(factors: int, words: int) -> tuple[int, ...]:
    """Return the words of the fraction 1 / 2 ** `words` that aliases least (highest resolution, fewest short words).

    The last factors are made from products of the first ones.
    """
    base = factors - words
    products = [p for p in range(2 ** max(base, 0)) if p.bit_count() > 1]
    products.sort(key=lambda p: (-p.bit_count(), p))
    made = [1 << (base + i) for i in range(words)]
    choices = (tuple(p | own for p, own in zip(chosen, made, strict=True)) for chosen in combinations(products, words))
    return min(choices, key=_shortness, default=())


def _shortness(words: tuple[int, ...]) -> tuple[int, ...]:
    lengths = [word.bit_count() for word in spanned(words)]
    return tuple(lengths.count(length) for length in range(1, MAX_FACTORS + 1))
