"""[factorial] of a study as a design: its combinations, its effects, and what it cannot tell apart, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from loadbook.core.units import join_words
from loadbook.design import aliases
from loadbook.design.study import Factorial, FactorLevel, Study, Treatment

FRACTION_EXPONENTS = {"full": 0, "half": 1, "quarter": 2, "eighth": 3, "sixteenth": 4}
FACTOR_LETTERS = "abcdefghi"


@dataclass(frozen=True)
class FactorialDesign:
    """Names of the switches (factors or groups of them) and the words that define the fraction."""

    names: tuple[str, ...]
    words: tuple[int, ...]

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """The combinations that are run, "all low" first."""
        return aliases.design_cells(len(self.names), self.words)

    @property
    def resolution(self) -> int | None:
        """Length of the shortest word; None for a whole factorial."""
        return aliases.resolution(self.words)

    @cached_property
    def alias_sets(self) -> list[tuple[int, ...]]:
        """Sets of effects that cannot be told apart, main effects first."""
        return aliases.alias_sets(len(self.names), self.words)

    @cached_property
    def higher_order_effects(self) -> list[int]:
        """Effects of three and more factors that can be seen in this design: it takes them to be negligible."""
        return aliases.higher_order_effects(len(self.names), self.words)

    def switch_names(self, effect: int) -> tuple[str, ...]:
        """Return the names of the switches whose signs an effect multiplies."""
        return tuple(name for i, name in enumerate(self.names) if effect >> i & 1)

    def effect_name(self, effect: int) -> str:
        """Return an effect as readers see it: tcp_nopush, or tcp_nopush x sendfile."""
        return " x ".join(self.switch_names(effect))

    def shortest_alias_names(self, effect: int) -> str:
        """Return an effect with those of as few factors that cannot be told from it: a x b x c or d x e x f."""
        aliased = {effect, *(effect ^ word for word in aliases.defining_relation(self.words))}
        fewest = min(e.bit_count() for e in aliased)
        return " or ".join(self.effect_name(e) for e in sorted(aliased) if e.bit_count() == fewest)

    def cell_by_treatment(self, baseline: str) -> dict[str, int]:
        """Return treatment -> combination; each is named by the letters of what is high, "all low" is the baseline."""
        return {"".join(FACTOR_LETTERS[i] for i in range(len(self.names)) if c >> i & 1) or baseline: c for c in self.cells}


def factorial_design(spec: Factorial) -> FactorialDesign:
    """Return the design of a [factorial] in which `expand_factorial` found nothing wrong."""
    words = tuple(_generator_word(spec, text) for text in spec.generators)
    return FactorialDesign(spec.factors, words or aliases.minimum_aberration_words(len(spec.factors), FRACTION_EXPONENTS[spec.fraction]))


def alias_sentences(design: FactorialDesign) -> list[str]:
    """Return what the design cannot tell apart, one sentence each; the first says how good it is as a whole."""
    sentences = [_resolution_sentence(design)]
    for effects in design.alias_sets:
        first, *others = map(design.effect_name, effects)
        if others:
            sentences.append(f"{first} cannot be told apart from {join_words(others, 'or')}.")
    return sentences


def _resolution_sentence(design: FactorialDesign) -> str:
    resolution = design.resolution
    runs = f"{len(design.cells)} of {2 ** len(design.names)} combinations"
    if resolution is None:
        return f"All {len(design.cells)} combinations are run, so every effect can be told from every other."
    if resolution >= 5:
        meaning = "every main effect and every pair can be told apart, if no three factors act together"
    elif resolution == 4:
        meaning = "every main effect stands alone, if no three factors act together; pairs come in sets"
    else:
        meaning = "this is a screening: a main effect cannot be told from the pairs named with it"
    return f"{runs} are run, a fraction of resolution {aliases.ROMAN_NUMERALS[resolution]}: {meaning}."


def switch_label(study: Study, name: str) -> str:
    """Return what the high level of a switch is called: tcp_nopush on, worker_processes 1, sending group on."""
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
    spec, low = study.factorial, _baseline_levels(study)
    factors = switched_factors(spec, name) if spec else ()
    high = {f: next(t.set[f] for t in _factorial_treatments(study) if t.set[f] != low[f]) for f in factors}
    return {factor: (low[factor], high[factor]) for factor in factors}


def _baseline_levels(study: Study) -> Mapping[str, FactorLevel]:
    return study.treatments[study.baseline].set


def _factorial_treatments(study: Study) -> Iterator[Treatment]:
    if study.factorial:
        for name in factorial_design(study.factorial).cell_by_treatment(study.baseline):
            yield study.treatments[name]


def level_text(level: FactorLevel) -> str:
    """Return a level as readers see it."""
    return {True: "on", False: "off"}[level] if isinstance(level, bool) else str(level)


def switched_factors(spec: Factorial, name: str) -> tuple[str, ...]:
    """Return the factors that a name switches: its group's, or itself."""
    return spec.groups.get(name, (name,))


def _generator_word(spec: Factorial, text: str) -> int:
    left, _, right = text.partition("=")
    return sum(1 << spec.factors.index(name) for name in [left.strip(), *right.split()])
