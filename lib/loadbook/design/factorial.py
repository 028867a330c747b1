"""[factorial] of a study as a design: its combinations, its effects, and what it cannot tell apart, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from loadbook.core.units import joined
from loadbook.design import aliases
from loadbook.design.study import Factorial, Level, Study, Treatment

SHARES = {"full": 0, "half": 1, "quarter": 2, "eighth": 3, "sixteenth": 4}
LETTERS = "abcdefghi"


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

    @cached_property
    def higher(self) -> list[int]:
        """Effects of three and more factors that can be seen in this design: it takes them to be negligible."""
        return aliases.higher(len(self.names), self.words)

    def switches(self, effect: int) -> tuple[str, ...]:
        """Return the names of the switches whose signs an effect multiplies."""
        return tuple(name for i, name in enumerate(self.names) if effect >> i & 1)

    def name(self, effect: int) -> str:
        """Return an effect as readers see it: tcp_nopush, or tcp_nopush x sendfile."""
        return " x ".join(self.switches(effect))

    def alternatives(self, effect: int) -> str:
        """Return an effect with those of as few factors that cannot be told from it: a x b x c or d x e x f."""
        alike = {effect, *(effect ^ word for word in aliases.spanned(self.words))}
        fewest = min(e.bit_count() for e in alike)
        return " or ".join(self.name(e) for e in sorted(alike) if e.bit_count() == fewest)

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
            said.append(f"{first} cannot be told apart from {joined(others, 'or')}.")
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
    """Return what the high level of a switch is called: tcp_nopush on, worker_processes 1, sending group on."""
    grouped = " group" if study.factorial and name in study.factorial.groups else ""
    return f"{name}{grouped} {level_texts(study, name)[1]}"


def level_texts(study: Study, name: str) -> tuple[str, str]:
    """Return low and high of a switch as an axis writes them; a group is off or on as a whole."""
    if study.factorial and name in study.factorial.groups:
        return "off", "on"
    low, high = members(study, name)[name]
    return text(low), text(high)


def members(study: Study, name: str) -> dict[str, tuple[Level, Level]]:
    """Return the factors that a switch sets, each with its low and its high level."""
    spec, low = study.factorial, _low(study)
    own = factors_of(spec, name) if spec else ()
    high = {f: next(t.set[f] for t in _combinations(study) if t.set[f] != low[f]) for f in own}
    return {factor: (low[factor], high[factor]) for factor in own}


def _low(study: Study) -> Mapping[str, Level]:
    return study.treatments[study.baseline].set


def _combinations(study: Study) -> Iterator[Treatment]:
    if study.factorial:
        for name in design_of(study.factorial).treatments(study.baseline):
            yield study.treatments[name]


def text(level: Level) -> str:
    """Return a level as readers see it."""
    return {True: "on", False: "off"}[level] if isinstance(level, bool) else str(level)


def factors_of(spec: Factorial, name: str) -> tuple[str, ...]:
    """Return the factors that a name switches: its group's, or itself."""
    return spec.groups.get(name, (name,))


def _word(spec: Factorial, text: str) -> int:
    left, _, right = text.partition("=")
    return sum(1 << spec.factors.index(name) for name in [left.strip(), *right.split()])
