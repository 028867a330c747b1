"""The page of a factorial study: effects of factors and pairs, confounded effects, and a follow-up study."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from loadbook.analyses.effects.page import EffectsPage
from loadbook.analyses.factorial import text as sentences
from loadbook.analyses.factorial.compute import (
    FactorialAnalysis,
    analyse_factorial,
    combinations_by_sign,
    count_factorial_errors,
    effect_row,
)
from loadbook.core.errors import UsageError
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, format_p_value, format_percent, join_words
from loadbook.report import checks, palette, sections, verdicts
from loadbook.report.blocks import Block, lines_list, note
from loadbook.report.nodes import (
    DASH,
    BulletList,
    Code,
    Column,
    HtmlOnly,
    Paragraph,
    Picture,
    Preformatted,
    Table,
    VerdictCell,
)
from loadbook.report.page import load_run_data
from loadbook.stats.results import Analysis
from loadbook.stats.text import comparison_texts
from loadbook.study.designs import MAX_FACTORS, alias_sentences, switched_factors
from loadbook.study.model import Study

if TYPE_CHECKING:
    import pandas as pd

RELEVANT_KINDS = ("better", "worse")


def follow_up_study(study: Study, result: FactorialAnalysis) -> tuple[list[str], tuple[str, str] | None]:
    """Return sentences on next steps and, if a group of factors should be split, (file name, text) of that study.

    There are no sentences if nothing is open.
    """
    if any(e.verdict.kind == "invalid" for e in result.effects):
        return ["Nothing was compared: repair what the answer names, and run again."], None
    relevant = [e for e in (*result.interactions, *result.main_effects) if e.verdict.kind in RELEVANT_KINDS]
    factors = {name: switched_factors(study.factorial, name) for name in result.design.names if study.factorial}
    groups = [e.names[0] for e in relevant if len(e.names) == 1 and len(factors.get(e.names[0], ())) > 1]
    lines = []
    if groups:
        sizes = join_words([f"{name} ({', '.join(factors[name])})" for name in groups])
        lines.append(f"Run {sizes} apart: the effect of a group says nothing yet about its single directives.")
    for effect in (e for e in relevant if e.aliases):
        names = join_words(effect.aliases, "or")
        lines.append(f"{effect.label} may be {names} as well: run a larger fraction, or only the factors in question.")
    undecided = sum(e.verdict.kind == "undecided" for e in result.effects)
    if undecided:
        hint = "more blocks decide what is undecided, at the numbers that its sentence gives"
        lines.append(f"{undecided} of {len(result.effects)} effects are undecided: {hint}.")
    return lines, _follow_up_file(study, {name: factors[name] for name in groups}) if groups else None


def _follow_up_file(study: Study, groups: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Return (name, text) of the follow-up study's file, which includes this study and replaces only the factors."""
    names = list(groups)
    while len(names) > 1 and sum(len(groups[name]) for name in names) > MAX_FACTORS:
        names = names[:-1]
    factors = [factor for name in names for factor in groups[name]]
    name, fraction = f"{study.name}-apart", "full" if len(factors) <= 5 else "half" if len(factors) == 6 else "quarter"
    subject = names[0] if len(names) == 1 else "these groups"
    lines = [
        f'include = "{study.name}.toml"',
        f'name = "{name}"',
        f'question = "Which directive of {subject} does it?"',
        "",
        "[factorial]",
        f"factors = {json.dumps(factors)}",
        f'fraction = "{fraction}"',
        *(["generators = []"] if study.factorial and study.factorial.generators else []),
        *(["", "[published]", "claims = []"] if study.published and study.published.claims else []),
    ]
    return f"studies/{name}.toml", "\n".join(lines)


class FactorialPage(EffectsPage):
    """The page on the effect of every factor and pair, made by `factorial_page`."""

    notebook = "factorial"

    @cached_property
    def result(self) -> FactorialAnalysis:
        """The analysis of the effects of all factors and pairs on the page's metric."""
        result = analyse_factorial(self.run_data, metric=self.metric, level=self.level)
        if result is None:
            hint = f"its notebook is {self.run_data.study.notebooks[0]}: docs/factorial.md"
            raise UsageError(f"study {self.run_data.study.name!r} has no [factorial]", hint)
        return result

    def data(self) -> pd.DataFrame:
        """Return the effects as a tidy frame, not rounded: one row per factor, then one per pair, in the page's order.

        `plus` and `minus` are the combinations with either sign. A factor's change compares their means in one block;
        that of a pair, the change of one factor's effect by the other, is twice as large on the log scale. Changes and
        bounds are ratios minus 1; `pooled` is least squares. `aliases` cannot be separated from the effect.
        """
        frame = effect_frame(self.result)
        baseline = self.run_data.study.baseline
        signs = [combinations_by_sign(self.result.design, baseline, e.names) for e in self.result.effects]
        return frame.assign(**{k: [" ".join(s[n]) for s in signs] for k, n in (("plus", 1), ("minus", -1))})

    @property
    def answer_analysis(self) -> Analysis:
        """The analysis from which the answer is written; its rows are factors, not combinations of factors."""
        return self.result.analysis

    def customise_answer(self, default: verdicts.AnswerSummary) -> verdicts.AnswerSummary:
        """Return the answer about single factors and pairs, with the number of factors per verdict."""
        errors = count_factorial_errors(self.run_data)
        error_lines: tuple[str, ...] = ()
        if errors and any(e.kind == "more" and len(e.names) == 1 for e in errors.effects):
            error_lines = tuple(sentences.factorial_error_sentences(errors, self.result.factor_labels)[1:2])
        headline = sentences.factorial_headline(self.result)
        return replace(default, headline=headline, support=sentences.supporting_text(self.result), errors=error_lines)

    def effects(self) -> Block:
        """Show the effects as a figure, a sentence per effect, and a table of both analyses side by side."""
        from loadbook.analyses.factorial.figure import FactorialFigure

        note_text = EFFECTS_NOTE.format(adjusted=self.result.adjustment, number=len(self.result.effects))
        lines = verdicts.verdict_list(self._effect_lines())
        return Block(HtmlOnly(Picture(FactorialFigure(self.result))), lines, effect_table(self.result), note(note_text))

    def _effect_lines(self) -> list[verdicts.VerdictLine]:
        """Return a line per factor and per pair that acts together, counts of other pairs, and the harness checks."""
        acting = (e for e in self.result.interactions if e.verdict.kind in sentences.SIGNIFICANT_KINDS)
        effects, labels = [*self.result.main_effects, *acting], self.result.factor_labels
        lines = []
        for e in effects:
            glyph, text = palette.row_glyph(effect_row(e)), sentences.factorial_effect_phrase(e, labels)
            lines.append(verdicts.VerdictLine(e.verdict.kind, glyph, e.label, text))
        for kind, name, text in sentences.unlisted_interactions(self.result):
            lines.append(verdicts.VerdictLine(kind, palette.VERDICTS[kind].glyph, name, text))
        return lines + [line for line in verdicts.verdict_lines(self.result.analysis) if line.kind == "check"]

    def design(self) -> Block:
        """Show the effects that this design cannot separate, and how many trials it saves."""
        lines = [sentences.higher_order_sentence(self.result), sentences.cost_sentence(self.result)]
        return Block(lines_list([*alias_sentences(self.result.design), *lines]))

    def errors(self) -> Block:
        """Show which factors or pairs cause errors, and below that the errors of every combination."""
        errors = count_factorial_errors(self.run_data)
        lines = sentences.factorial_error_sentences(errors, self.result.factor_labels)
        default = super().errors()
        return Block(BulletList(lines, css="doubts", bullet=""), default, data=default.data)

    def next_step(self) -> Block:
        """Show proposed next runs: splitting groups with an effect, separating confounded pairs, adding blocks."""
        lines, study = follow_up_study(self.run_data.study, self.result)
        file = (Paragraph("This study does it (", Code(study[0]), "):"), Preformatted(study[1])) if study else ()
        return Block(lines_list(lines or [NOTHING_OPEN]), *file)

    def open_step(self) -> str:
        """Return the first of the next steps; "" if nothing is open."""
        return "".join(follow_up_study(self.run_data.study, self.result)[0][:1])

    @property
    def comparison_notes(self) -> list[sections.ValidityMessage]:
        """Doubts about the effects, including effects on which the two analyses disagree."""
        listed = {flag for e in self.result.main_effects for flag in e.verdict.comparison.flags}
        own = [
            sections.ValidityMessage("comparison", e.label, "note", 0, flag)
            for e in self.result.interactions
            for flag in e.verdict.comparison.flags
            if flag not in listed
        ]
        return [*checks.comparison_notes(self.result.analysis), *own]

    def sentences(self, answer: verdicts.AnswerSummary) -> list[str]:
        """Return the lines that the command line prints: the headline, and one line per effect."""
        return [answer.headline, *(line.sentence for line in self._effect_lines())]


NOTHING_OPEN = "Nothing has to be taken apart: every effect that matters belongs to one factor or one pair."
EFFECTS_NOTE = (
    "Change: one contrast per block, the analysis that the verdicts use; p is adjusted for all {number} effects "
    "({adjusted}). Pooled: least squares and analysis of variance (type 2) with one scatter for all; its p is plain. "
    "A pair’s change is that of the first factor’s effect when the second is switched."
)


def effect_frame(result: FactorialAnalysis) -> pd.DataFrame:
    """Return the numbers of `effect_table`, not rounded, with those of the tests; one row per effect.

    Columns are most of those of `verdicts.verdict_frame`, and `effect` (its name), `kind` ("factor" or "pair"),
    `aliases`, and the pooled fit: `pooled`, `pooled_low`, `pooled_high` (ratios minus 1) and `pooled_p`, NaN if none.
    """
    analysis = replace(result.analysis, rows=tuple(map(effect_row, result.effects)))
    frame = verdicts.verdict_frame(analysis).drop(columns=["against", "level", "trials", "valid_trials"])
    pooled = [(e.pooled.estimate, *e.pooled.interval, e.pooled.p) if e.pooled else (None,) * 4 for e in result.effects]
    frame[["pooled", "pooled_low", "pooled_high", "pooled_p"]] = pooled
    frame["kind"] = ["factor" if len(e.names) == 1 else "pair" for e in result.effects]
    frame["aliases"] = [", ".join(e.aliases) for e in result.effects]
    return frame.rename(columns={"treatment": "effect"})


def effect_table(result: FactorialAnalysis) -> Table:
    """Return a table with one row per effect: its change by contrasts per block, and by the pooled analysis."""
    level = f"{result.analysis.level * 100:g}{NBSP}%"
    columns = [
        Column("Effect"), Column("Verdict"), Column("Change, %", True), Column(f"{level} interval, %", True),
        Column("p, adj.", True), Column("Pooled, %", True), Column("its p", True),
    ]  # fmt: skip
    rows = []
    for effect in result.effects:
        row, texts, kind = effect_row(effect), comparison_texts(effect.verdict), effect.verdict.kind
        word = palette.row_word(row, get_metric(result.analysis.metric))
        if len(effect.names) == 2:
            word = sentences.INTERACTION_TEXTS.get(kind, word)
        verdict, pooled = VerdictCell(f"v-{kind}", palette.row_glyph(row), word), [DASH, DASH]
        if effect.pooled is not None and kind != "invalid":
            digits = effect.verdict.decimals if effect.verdict.decimals is not None else 1
            numbers = (effect.pooled.estimate, *effect.pooled.interval)
            change, low, high = (format_percent(v, digits, unit="") for v in numbers)
            pooled = [f"{change} ({low} to {high})", format_p_value(effect.pooled.p)]
        cells = [effect.label, verdict, texts.change_number, texts.interval_number, texts.p_adjusted]
        rows.append([*cells, *pooled])
    return Table("Effects", columns, rows, frozenset({len(result.main_effects)} if result.interactions else ()))


def factorial_page(study: str, run: str = "latest", metric: str = "", level: float = 0.95) -> FactorialPage:
    """Return the page that answers a factorial study's question from one recorded run.

    Parameters
    ----------
    study, run : name of the study and id of the run; "latest" is the newest run.
    metric : name of the metric; empty for that of the study.
    level : confidence of the intervals, 0.95 for 95 %.

    Raises
    ------
    UsageError : an unknown name, a study without [factorial], or a level that is not between 0.5 and 1.
    DataError : the run was not ingested, or its tables cannot be read.
    """
    return FactorialPage(load_run_data(study, run), "", metric, level)
