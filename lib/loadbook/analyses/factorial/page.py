"""What a factorial run asks for next: a study file that takes apart what it switched or mixed together.

The page of a factorial study: what every factor and every pair does, what cannot be told apart, what next.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from loadbook.analyses.effects.page import EffectsPage
from loadbook.analyses.factorial import text as sentences
from loadbook.analyses.factorial.compute import (
    FactorialAnalysis,
    FactorialEffect,
    analyse_factorial,
    count_factorial_errors,
    effect_row,
)
from loadbook.core.errors import UsageError
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, format_p_value, format_percent, join_words
from loadbook.report import checks, palette, sections, verdicts
from loadbook.report.blocks import (
    DASH,
    Block,
    Column,
    Table,
    VerdictCell,
    clean,
    figure_markup,
    render,
    render_block,
    render_figure,
    table_markup,
    table_text,
)
from loadbook.report.page import load_run_data
from loadbook.stats.text import comparison_texts
from loadbook.study.factorial import MAX_FACTORS, alias_sentences, switched_factors
from loadbook.study.model import Study

if TYPE_CHECKING:
    from loadbook.stats.results import Analysis

RELEVANT_KINDS = ("better", "worse")
MORE_BLOCKS_HINT = "more blocks decide what is undecided, at the numbers that its sentence gives"


def follow_up_study(study: Study, found: FactorialAnalysis) -> tuple[list[str], tuple[str, str] | None]:
    """Return what to do next in words, and, if groups are to be taken apart, the name and text of the study for it."""
    if any(e.verdict.kind == "invalid" for e in found.effects):
        return ["Nothing was compared: repair what the answer names, and run again."], None
    groups = [
        e.names[0]
        for e in found.main_effects
        if e.verdict.kind in RELEVANT_KINDS and len(_group_factors(study, e.names[0])) > 1
    ]
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


class FactorialPage(EffectsPage):
    """Which factors matter, alone or in pairs; see `factorial_page`."""

    notebook = "factorial"

    @cached_property
    def result(self) -> FactorialAnalysis:
        """The effects of all factors and pairs on the page's metric."""
        found = analyse_factorial(self.data, metric=self.metric, level=self.level)
        if found is None:
            name = self.data.study.name
            other = f"its notebook is {self.data.study.notebooks[0]}: docs/factorial.md"
            raise UsageError(f"study {name!r} has no [factorial]", other)
        return found

    @property
    def answer_analysis(self) -> Analysis:
        """The analysis of the factors, not of their combinations."""
        return self.result.analysis

    def customise_answer(self, default: verdicts.AnswerSummary) -> verdicts.AnswerSummary:
        """Say what the single factors do, whether a pair acts together, and how many factors are in each class."""
        headline = sentences.factorial_headline(self.result)
        return replace(
            default,
            headline=headline,
            support=sentences.supporting_text(self.result),
            errors=self._extra_error_sentences(),
        )

    def _extra_error_sentences(self) -> tuple[str, ...]:
        found = count_factorial_errors(self.data)
        has_more = any(e.kind == "more" and len(e.names) == 1 for e in found.effects) if found else False
        return tuple(sentences.factorial_error_sentences(found, self.result.factor_labels)[1:2]) if has_more else ()

    def effects(self) -> Block:
        """Show figure 9, a sentence per effect, and both analyses side by side."""
        from loadbook.analyses.factorial import figure as factorial

        lines, table = self._effect_lines(), effect_table(self.result)
        figure = figure_markup(render_figure(factorial, self.result))
        html = render("effects.html.j2", figure=figure, lines=lines, table=table_markup(table))
        note = EFFECTS_NOTE.format(adjusted=self.result.adjustment, number=len(self.result.effects))
        text = "\n".join(f"{line.glyph} {line.name}{line.text}" for line in lines)
        return Block(
            str(html + render("note.html.j2", text=note)), str(clean(f"{text}\n\n{table_text(table)}\n{note}"))
        )

    def _effect_lines(self) -> list[verdicts.VerdictLine]:
        """Return a line per factor and per pair that acts, how the other pairs stand, and the laboratory's checks."""
        effects = [
            *self.result.main_effects,
            *(e for e in self.result.interactions if e.verdict.kind in sentences.SIGNIFICANT_KINDS),
        ]
        lines = [
            verdicts.VerdictLine(e.verdict.kind, palette.row_glyph(effect_row(e)), e.label,
                          sentences.factorial_effect_phrase(e, self.result.factor_labels))
            for e in effects
        ]  # fmt: skip
        lines += [
            verdicts.VerdictLine(kind, palette.VERDICTS[kind].glyph, name, text)
            for kind, name, text in sentences.unlisted_interactions(self.result)
        ]
        return lines + [line for line in verdicts.verdict_lines(self.result.analysis) if line.kind == "check"]

    def design(self) -> Block:
        """Show in words what this design cannot tell apart, and what it saved."""
        lines = [
            *alias_sentences(self.result.design),
            sentences.higher_order_sentence(self.result),
            sentences.cost_sentence(self.result),
        ]
        return render_block("lines.html.j2", "\n".join(f"- {line}" for line in lines), lines=lines)

    def errors(self) -> Block:
        """Show which factor or pair brings errors, above the errors of every combination."""
        lines, default = (
            sentences.factorial_error_sentences(count_factorial_errors(self.data), self.result.factor_labels),
            super().errors(),
        )
        html = str(render("lines.html.j2", lines=lines)) + default.html
        return Block(html, str(clean("\n".join([*lines, default.text]))), default.data)

    def next_step(self) -> Block:
        """Show what to run next: groups that matter taken apart, pairs that the fraction mixes, blocks that lack."""
        lines, text = follow_up_study(self.data.study, self.result)
        html = str(render("lines.html.j2", lines=lines))
        html += str(render("study.html.j2", name=text[0], text=text[1])) if text else ""
        return Block(html, str(clean("\n".join([*(f"- {line}" for line in lines), *(text or ())]))))

    @property
    def comparison_notes(self) -> list[sections.ValidityMessage]:
        """What the effects themselves make doubtful, where the two analyses disagree among it."""
        known = {flag for e in self.result.main_effects for flag in e.verdict.comparison.flags}
        own = [
            sections.ValidityMessage("comparison", e.label, "note", 0, flag)
            for e in self.result.interactions
            for flag in e.verdict.comparison.flags
            if flag not in known
        ]
        return [*checks.comparison_notes(self.result.analysis), *own]

    def sentences(self, answer: verdicts.AnswerSummary) -> list[str]:
        """Return what the command line says: the headline, and a line per effect that it tells."""
        return [answer.headline, *(f"{line.glyph} {line.name}{line.text}" for line in self._effect_lines())]


EFFECTS_NOTE = (
    "Change: one contrast per block, the analysis that the verdicts use; p is adjusted for all {number} effects "
    "({adjusted}). Pooled: least squares and analysis of variance (type 2) with one scatter for all; its p is plain. "
    "A pair’s change is that of the first factor’s effect when the second is switched."
)


def effect_table(found: FactorialAnalysis) -> Table:
    """Return every effect with its contrast and, beside it, the pooled analysis of variance."""
    level = f"{found.analysis.level * 100:g}{NBSP}%"
    columns = [
        Column("Effect"), Column("Verdict"), Column("Change, %", True), Column(f"{level} interval, %", True),
        Column("p, adj.", True), Column("Pooled, %", True), Column("its p", True),
    ]  # fmt: skip
    rows = [_effect_cells(found, effect) for effect in found.effects]
    return Table("Effects", columns, rows, frozenset({len(found.main_effects)} if found.interactions else ()))


def _effect_cells(found: FactorialAnalysis, effect: FactorialEffect) -> Sequence[Any]:
    row, texts = effect_row(effect), comparison_texts(effect.verdict)
    word = palette.row_word(row, get_metric(found.analysis.metric))
    if len(effect.names) == 2:
        word = sentences.INTERACTION_TEXTS.get(effect.verdict.kind, word)
    verdict = VerdictCell(f"v-{effect.verdict.kind}", palette.row_glyph(row), word)
    own = [texts.change_number, texts.interval_number, texts.p_adjusted]
    if effect.pooled is None or effect.verdict.kind == "invalid":
        return [effect.label, verdict, *own, DASH, DASH]
    digits = effect.verdict.decimals if effect.verdict.decimals is not None else 1
    change, *bounds = (
        format_percent(v, digits).removesuffix(f"{NBSP}%") for v in (effect.pooled.estimate, *effect.pooled.interval)
    )
    return [effect.label, verdict, *own, f"{change} ({' to '.join(bounds)})", format_p_value(effect.pooled.p)]


def factorial_page(study: str, run: str = "latest", metric: str = "", level: float = 0.95) -> FactorialPage:
    """Return the page that answers a factorial study's question from one recorded run.

    Parameters
    ----------
    study, run : names; "latest" is the newest run.
    metric : a name; empty for the study's own.
    level : of the intervals, 0.95 for 95 %.

    Raises
    ------
    UsageError : an unknown name, a study without [factorial], or a level that is not between 0.5 and 1.
    DataError : the run was not ingested, or its tables cannot be read.
    """
    return FactorialPage(load_run_data(study, run), "", metric, level)
