"""What a factorial run asks for next: a study file that takes apart what it switched or mixed together."""

from __future__ import annotations

import json

from loadbook.core.units import joined
from loadbook.design.aliases import MAX_FACTORS
from loadbook.design.factorial import factors_of
from loadbook.design.study import Study
from loadbook.stats.factorial.effects import Effect, FactorialAnalysis

MATTERS = ("better", "worse")
LETTING = "more blocks decide what is undecided, at the numbers that its sentence gives"


def next_study(study: Study, found: FactorialAnalysis) -> tuple[list[str], tuple[str, str] | None]:
    """Return what to do next in words, and, if groups are to be taken apart, the name and text of the study for it."""
    if any(e.verdict.kind == "invalid" for e in found.effects):
        return ["Nothing was compared: repair what the answer names, and run again."], None
    groups = [e.names[0] for e in found.mains if e.verdict.kind in MATTERS and len(_members(study, e.names[0])) > 1]
    lines = [_apart(study, groups)] if groups else []
    lines += [_mixed(e) for e in found.pairs if e.aliases and e.verdict.kind in MATTERS]
    lines += [_mixed(e) for e in found.mains if e.aliases and e.verdict.kind in MATTERS]
    undecided = [e.label for e in found.effects if e.verdict.kind == "undecided"]
    if undecided:
        lines.append(f"{len(undecided)} of {len(found.effects)} effects are undecided: {LETTING}.")
    if not lines:
        lines = ["Nothing has to be taken apart: every effect that matters belongs to one factor or one pair."]
    return lines, _text(study, groups) if groups else None


def _members(study: Study, name: str) -> tuple[str, ...]:
    return factors_of(study.factorial, name) if study.factorial else ()


def _apart(study: Study, groups: list[str]) -> str:
    sizes = [f"{name} ({', '.join(_members(study, name))})" for name in groups]
    return f"Run {joined(sizes)} apart: the effect of a group says nothing yet about its single directives."


def _mixed(effect: Effect) -> str:
    names = joined(effect.aliases, "or")
    return f"{effect.label} may be {names} as well: run a larger fraction, or only the factors in question."


def _text(study: Study, groups: list[str]) -> tuple[str, str]:
    """Return the follow-up's file: it includes this study, so that everything else stays as it was."""
    while len(groups) > 1 and sum(len(_members(study, name)) for name in groups) > MAX_FACTORS:
        groups = groups[:-1]
    factors = [factor for name in groups for factor in _members(study, name)]
    name, fraction = f"{study.name}-apart", "full" if len(factors) <= 5 else "half" if len(factors) == 6 else "quarter"
    what = groups[0] if len(groups) == 1 else "these groups"
    lines = [
        f'include = "{study.name}.toml"',
        f'name = "{name}"',
        f'question = "Which directive of {what} does it?"',
        "",
        "[factorial]",
        f"factors = {json.dumps(factors)}",
        f'fraction = "{fraction}"',
        *(["generators = []"] if study.factorial and study.factorial.generators else []),
        *(["", "[published]", "claims = []"] if study.published and study.published.claims else []),
    ]
    return f"studies/{name}.toml", "\n".join(lines)
