"""What a factorial run asks for next: a study file that takes apart what it switched or mixed together."""

from __future__ import annotations

import json

from loadbook.core.units import join_words
from loadbook.design.aliases import MAX_FACTORS
from loadbook.design.factorial import switched_factors
from loadbook.design.study import Study
from loadbook.stats.factorial.effects import FactorialEffect, FactorialAnalysis

RELEVANT_KINDS = ("better", "worse")
MORE_BLOCKS_HINT = "more blocks decide what is undecided, at the numbers that its sentence gives"


def follow_up_study(study: Study, found: FactorialAnalysis) -> tuple[list[str], tuple[str, str] | None]:
    """Return what to do next in words, and, if groups are to be taken apart, the name and text of the study for it."""
    if any(e.verdict.kind == "invalid" for e in found.effects):
        return ["Nothing was compared: repair what the answer names, and run again."], None
    groups = [e.names[0] for e in found.main_effects if e.verdict.kind in RELEVANT_KINDS and len(_group_factors(study, e.names[0])) > 1]
    lines = [_split_groups_text(study, groups)] if groups else []
    lines += [_aliased_effect_text(e) for e in found.interactions if e.aliases and e.verdict.kind in RELEVANT_KINDS]
    lines += [_aliased_effect_text(e) for e in found.main_effects if e.aliases and e.verdict.kind in RELEVANT_KINDS]
    undecided = [e.label for e in found.effects if e.verdict.kind == "undecided"]
    if undecided:
        lines.append(f"{len(undecided)} of {len(found.effects)} effects are undecided: {MORE_BLOCKS_HINT}.")
    if not lines:
        lines = ["Nothing has to be taken apart: every effect that matters belongs to one factor or one pair."]
    return lines, _follow_up_file(study, groups) if groups else None


def _group_factors(study: Study, name: str) -> tuple[str, ...]:
    return switched_factors(study.factorial, name) if study.factorial else ()


def _split_groups_text(study: Study, groups: list[str]) -> str:
    sizes = [f"{name} ({', '.join(_group_factors(study, name))})" for name in groups]
    return f"Run {join_words(sizes)} apart: the effect of a group says nothing yet about its single directives."


def _aliased_effect_text(effect: FactorialEffect) -> str:
    names = join_words(effect.aliases, "or")
    return f"{effect.label} may be {names} as well: run a larger fraction, or only the factors in question."


def _follow_up_file(study: Study, groups: list[str]) -> tuple[str, str]:
    """Return the follow-up's file: it includes this study, so that everything else stays as it was."""
    while len(groups) > 1 and sum(len(_group_factors(study, name)) for name in groups) > MAX_FACTORS:
        groups = groups[:-1]
    factors = [factor for name in groups for factor in _group_factors(study, name)]
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
