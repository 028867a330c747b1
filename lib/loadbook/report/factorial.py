"""The page of a factorial study: what every factor and every pair does, what cannot be told apart, what next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from loadbook.core.errors import UsageError
from loadbook.core.metrics import metric as metric_of
from loadbook.core.units import NBSP, p_value, percent
from loadbook.design.factorial import aliasing
from loadbook.report import palette, trials, trust, verdicts
from loadbook.report.blocks import Block, block, clean, render
from loadbook.report.effects import EffectsPage
from loadbook.report.follow_up import next_study
from loadbook.report.page import run_data
from loadbook.report.show import drawn, markup
from loadbook.report.tables import DASH, Column, Said, Table, plain, safe_table
from loadbook.stats.factorial import sentences
from loadbook.stats.factorial.effects import Effect, FactorialAnalysis, analyse_factorial, as_row
from loadbook.stats.factorial.errors import error_findings
from loadbook.stats.wording.shown import comparison_texts

if TYPE_CHECKING:
    from loadbook.stats.result import Analysis


class FactorialPage(EffectsPage):
    """Which factors matter, alone or in pairs; see `factorial_page`."""

    notebook = "factorial"

    @cached_property
    def found(self) -> FactorialAnalysis:
        """The effects of all factors and pairs on the page's metric."""
        found = analyse_factorial(self.data, metric=self.metric, level=self.level)
        if found is None:
            name = self.data.study.name
            other = f"its notebook is {self.data.study.notebooks[0]}: docs/factorial.md"
            raise UsageError(f"study {name!r} has no [factorial]", other)
        return found

    @property
    def judged(self) -> Analysis:
        """The analysis of the factors, not of their combinations."""
        return self.found.analysis

    def own_words(self, usual: verdicts.Answer) -> verdicts.Answer:
        """Say what the single factors do, whether a pair acts together, and how many factors are in each class."""
        headline = sentences.headline(self.found)
        return replace(usual, headline=headline, support=sentences.support(self.found), errors=self._more_errors())

    def _more_errors(self) -> tuple[str, ...]:
        found = error_findings(self.data)
        more = any(e.kind == "more" and len(e.names) == 1 for e in found.effects) if found else False
        return tuple(sentences.errors(found, self.found.switches)[1:2]) if more else ()

    def effects(self) -> Block:
        """Show figure 9, a sentence per effect, and both analyses side by side."""
        from loadbook.report.figures import factorial

        said, table = self._lines(), effect_table(self.found)
        shown = markup(drawn(factorial, self.found))
        html = render("effects.html.j2", figure=shown, said=said, table=safe_table(table))
        note = TABLE_NOTE.format(adjusted=self.found.adjusted, number=len(self.found.effects))
        text = "\n".join(f"{line.glyph} {line.name}{line.text}" for line in said)
        return Block(str(html + render("note.html.j2", text=note)), str(clean(f"{text}\n\n{plain(table)}\n{note}")))

    def _lines(self) -> list[verdicts.Line]:
        """Return a line per factor and per pair that acts, how the other pairs stand, and the laboratory's checks."""
        told = [*self.found.mains, *(e for e in self.found.pairs if e.verdict.kind in sentences.ACTING)]
        lines = [
            verdicts.Line(e.verdict.kind, palette.glyph_of(as_row(e)), e.label,
                          sentences.effect_phrase(e, self.found.switches))
            for e in told
        ]  # fmt: skip
        lines += [
            verdicts.Line(kind, palette.VERDICTS[kind].glyph, name, text)
            for kind, name, text in sentences.quiet_pairs(self.found)
        ]
        return lines + [line for line in verdicts.sentences(self.found.analysis) if line.kind == "check"]

    def design(self) -> Block:
        """Show in words what this design cannot tell apart, and what it saved."""
        lines = [*aliasing(self.found.design), sentences.three(self.found), sentences.cost(self.found)]
        return block("lines.html.j2", "\n".join(f"- {line}" for line in lines), lines=lines)

    def errors(self) -> Block:
        """Show which factor or pair brings errors, above the errors of every combination."""
        lines, usual = sentences.errors(error_findings(self.data), self.found.switches), super().errors()
        html = str(render("lines.html.j2", lines=lines)) + usual.html
        return Block(html, str(clean("\n".join([*lines, usual.text]))), usual.data)

    def next_step(self) -> Block:
        """Show what to run next: groups that matter taken apart, pairs that the fraction mixes, blocks that lack."""
        lines, text = next_study(self.data.study, self.found)
        html = str(render("lines.html.j2", lines=lines))
        html += str(render("study.html.j2", name=text[0], text=text[1])) if text else ""
        return Block(html, str(clean("\n".join([*(f"- {line}" for line in lines), *(text or ())]))))

    @property
    def flags(self) -> list[trials.Spoken]:
        """What the effects themselves make doubtful, where the two analyses disagree among it."""
        known = {flag for e in self.found.mains for flag in e.verdict.comparison.flags}
        own = [
            trials.Spoken("comparison", e.label, "note", 0, flag)
            for e in self.found.pairs
            for flag in e.verdict.comparison.flags
            if flag not in known
        ]
        return [*trust.notes(self.found.analysis), *own]

    def sentences(self, said: verdicts.Answer) -> list[str]:
        """Return what the command line says: the headline, and a line per effect that it tells."""
        return [said.headline, *(f"{line.glyph} {line.name}{line.text}" for line in self._lines())]


TABLE_NOTE = (
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
    rows = [_cells(found, effect) for effect in found.effects]
    return Table("Effects", columns, rows, frozenset({len(found.mains)} if found.pairs else ()))


def _cells(found: FactorialAnalysis, effect: Effect) -> Sequence[Any]:
    row, texts = as_row(effect), comparison_texts(effect.verdict)
    word = palette.word_of(row, metric_of(found.analysis.metric))
    if len(effect.names) == 2:
        word = sentences.PAIR_WORDS.get(effect.verdict.kind, word)
    said = Said(f"v-{effect.verdict.kind}", palette.glyph_of(row), word)
    own = [texts.change_number, texts.interval_number, texts.p_adjusted]
    if effect.pooled is None or effect.verdict.kind == "invalid":
        return [effect.label, said, *own, DASH, DASH]
    digits = effect.verdict.decimals if effect.verdict.decimals is not None else 1
    change, *bounds = (
        percent(v, digits).removesuffix(f"{NBSP}%") for v in (effect.pooled.estimate, *effect.pooled.interval)
    )
    return [effect.label, said, *own, f"{change} ({' to '.join(bounds)})", p_value(effect.pooled.p)]


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
    return FactorialPage(run_data(study, run), "", metric, level)
