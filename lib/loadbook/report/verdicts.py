"""An analysis as texts and tables. Numbers come only from `stats.wording.shown`, sentences only from its neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from loadbook.core.metrics import metric as metric_of
from loadbook.core.units import NBSP, p_value, percent
from loadbook.report import palette
from loadbook.report.tables import DASH, Column, Said, Table, said
from loadbook.stats.result import VERDICT_ORDER, Analysis, ErrorSummary, Row, Stand, VerdictKind
from loadbook.stats.wording import headline as first
from loadbook.stats.wording.errors import CLASS_WORDS, errors_sentence
from loadbook.stats.wording.sentences import aa_sentence, control_sentence, row_phrase
from loadbook.stats.wording.shown import numbers

if TYPE_CHECKING:
    import pandas as pd

LEVEL_HEADS = {"ok_per_s": "ok/s", "requests_per_s": "requests/s", "bytes_per_s": "B/s"}
MAX_ERROR_LINES = 2
ERROR_GLYPHS = {"more": ("v-worse", "▼"), "fewer": ("v-better", "▲"), "undecided": ("v-undecided", "●")}
Panels = Mapping[str, tuple["pd.DataFrame", Analysis]]


@dataclass(frozen=True)
class Count:
    """How many treatments have one class of verdict."""

    kind: VerdictKind
    glyph: str
    number: int
    word: str


@dataclass(frozen=True)
class Answer:
    """The answer block: `kind` gives the bar its colour; `errors` are said first, the headline is given them.

    `blind` says that the positive control failed, "" where it did not: whoever reads the headline must know.
    """

    kind: str
    glyph: str
    word: str
    headline: str
    support: str
    errors: tuple[str, ...]
    counts: tuple[Count, ...]
    blind: str = ""

    @property
    def text(self) -> str:
        """The block as plain text."""
        return "\n".join(filter(None, [*self.errors, self.headline, self.blind, self.support]))


@dataclass(frozen=True)
class Line:
    """One verdict sentence: glyph, the treatment's name (set in bold), and what is said of it."""

    kind: str
    glyph: str
    name: str
    text: str


def answer(analysis: Analysis) -> Answer:
    """Return the answer block; a laboratory that contradicts itself replaces every verdict."""
    metric = metric_of(analysis.metric)
    found: dict[VerdictKind, int] = {} if analysis.laboratory else first.counts(analysis)
    word_of = partial(palette.verdict_word, metric=metric, asks=analysis.asks)
    counts = tuple(Count(k, palette.VERDICTS[k].glyph, n, word_of(k)) for k, n in found.items())
    kind: VerdictKind = next((k for k in VERDICT_ORDER if k in found), "invalid")
    if "undecided" in found and kind in ("small", "no-loss", "equivalent"):
        kind = "undecided"
    word = "no verdict" if analysis.laboratory else word_of(kind)
    if not analysis.laboratory and first.checks_alone(analysis):
        glyph, blind = palette.BASELINE.glyph, first.blind(analysis)
        return Answer(kind, glyph, "none seen", first.headline(analysis), "", (), counts, blind)
    headline = first.headline(analysis)
    support = first.supporting(analysis).removeprefix(headline).strip()
    glyph, errors = palette.VERDICTS[kind].glyph, _errors_first(analysis)
    return Answer(kind, glyph, word, headline, support, errors, counts, first.blind(analysis))


def as_it_stands(answer: Answer, stand: Stand) -> Answer:
    """Return an answer that says that it is exploratory, if it is."""
    word = f"exploratory: {answer.word}" if stand.added else answer.word
    return replace(answer, headline=first.as_it_stands(answer.headline, stand), word=word)


def _errors_first(analysis: Analysis) -> tuple[str, ...]:
    """Return the verdicts on errors, more before fewer: what is said of the rate is said given these."""
    shown = [row for kind in ("more", "fewer") for row in analysis.of_kind("treatment") if row.errors.kind == kind]
    return tuple(
        f"{row.label}: {errors_sentence(row.errors, _errors_beside(analysis, row), row.against)}"
        for row in shown[:MAX_ERROR_LINES]
    )


def _errors_beside(analysis: Analysis, row: Row) -> ErrorSummary:
    """Return the errors of what a row is compared with."""
    return analysis.row(row.verdict.comparison.baseline if row.verdict else analysis.baseline).errors


def sentences(analysis: Analysis) -> list[Line]:
    """Return one line per treatment, then the checks of the laboratory, in the order of the figure."""
    return [_line(analysis, row) for row in analysis.rows if row.kind != "baseline"]


def _line(analysis: Analysis, row: Row) -> Line:
    glyph = palette.glyph_of(row)
    if row.kind == "treatment" and row.verdict:
        return Line(row.verdict.kind, glyph, row.label, row_phrase(row, _errors_beside(analysis, row)))
    if row.kind == "aa":
        twin = analysis.row(row.verdict.comparison.baseline if row.verdict else analysis.baseline)
        return Line("check", glyph, row.label, _after(row, aa_sentence(row, twin.label)))
    return Line("check", glyph, row.label, _after(row, control_sentence(row)))


def _after(row: Row, sentence: str) -> str:
    return sentence.removeprefix(row.label)


def table(analysis: Analysis, labels: Mapping[str, str]) -> Table:
    """Return the table behind the effect plot: verdict second, checks below a rule, both p-values of a family.

    The bound at worst stands in place of the p-values where that is what was asked: they answer another question.
    """
    named, one_sided = analysis.contrasts == "adjacent", analysis.asks == "no-loss"
    ps = [] if one_sided else ["p", "p, adj."] if _is_family(analysis) else ["p"]
    unit = metric_of(analysis.metric).unit
    head = LEVEL_HEADS.get(analysis.metric, f"{analysis.metric} {analysis.statistic}, {'ms' if unit == 's' else unit}")
    columns = [
        Column("Treatment"), Column("Verdict"), *([Column("Against", wrap=True)] if named else []),
        *([Column("At worst, %", True)] if one_sided else []), Column("Change, %", True),
        Column(f"{analysis.level * 100:g} % interval, %", True), Column("Blocks", True),
        *(Column(p, True) for p in ps), Column(head, True), Column("With errors", True),
    ]  # fmt: skip
    rows = [*analysis.of_kind("baseline"), *(r for r in analysis.rows if r.kind != "baseline")]
    name = shown_names(analysis, labels)
    checks = [k for k, row in enumerate(rows) if row.kind in ("aa", "control")]
    cells = [
        [name[r.treatment], said(r, analysis.metric), *([_against(analysis, r)] if named else []),
         *([_at_worst(r)] if one_sided else []), *_numbers(r, len(ps), unit)]
        for r in rows
    ]  # fmt: skip
    return Table("Effects", columns, cells, frozenset(checks[:1]))


def shown_names(analysis: Analysis, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels, each with its key beside it where figures use the key (letters that their font lacks)."""
    from loadbook.report.figures.common import names

    drawn = names(analysis)
    found = {row.treatment: labels.get(row.treatment, row.label) for row in analysis.rows}
    return {key: text if drawn[key] == " ".join(text.split()) else f"{text} ({key})" for key, text in found.items()}


def _is_family(analysis: Analysis) -> bool:
    return any(r.verdict and r.verdict.comparison.p_adjusted is not None for r in analysis.rows)


def _numbers(row: Row, number_of_ps: int, unit: str) -> list[str]:
    shown = numbers(row)
    ps = [shown.p, "check" if row.kind in ("aa", "control") else shown.p_adjusted][:number_of_ps]
    level = milliseconds(row.level) if unit == "s" else shown.level
    return [shown.change_number, shown.interval_number, shown.blocks, *ps, level, shown.trials_with_errors]


def _against(analysis: Analysis, row: Row) -> str:
    return analysis.row(row.verdict.comparison.baseline).label if row.verdict else DASH


def _at_worst(row: Row) -> str:
    return numbers(row).worst.removesuffix(f"{NBSP}%") if row.verdict and row.verdict.loss else DASH


def milliseconds(value_s: float | None) -> str:
    """Return seconds as milliseconds with three significant digits, for a column whose head has the unit."""
    return DASH if value_s is None else f"{value_s * 1e3:.3g}"


def errors_matter(analysis: Analysis) -> bool:
    """Tell whether any treatment is shown to have errors in more trials than the baseline."""
    return any(row.errors.kind == "more" for row in analysis.of_kind("treatment"))


def no_errors(analysis: Analysis) -> str:
    """Return the sentence for a run without any error."""
    measured = [row for row in analysis.rows if row.errors.trials]
    if not measured:
        return "Errors were not measured: no trial has a count of them."
    least = min(measured, key=lambda row: row.errors.trials)
    total = sum(row.errors.trials for row in measured)
    share = percent(least.errors.upper_share or 0, 0, signed=False)
    return f"No errors in {total} of {total} trials (up to {share} of a treatment’s trials could still have some)."


def error_table(analysis: Analysis, labels: Mapping[str, str]) -> Table:
    """Return errors by treatment and class, the error verdict second."""
    columns = [Column("Treatment"), Column("Errors"), Column("Trials with errors", True), Column("p", True),
               Column("p, by blocks", True), Column("Failed", True), Column("Responses", True),
               Column("Classes", wrap=True)]  # fmt: skip
    name = shown_names(analysis, labels)
    rows = [
        [name[r.treatment], _error_said(r), numbers(r).trials_with_errors, p_value(r.errors.p),
         p_value(r.errors.p_blocks), f"{r.errors.errors:,}", f"{r.errors.requests:,}", _classes(r)]
        for r in analysis.rows
    ]  # fmt: skip
    return Table("Errors", columns, rows)


def _classes(row: Row) -> str:
    return ", ".join(f"{n:,} {CLASS_WORDS[c][n != 1]}" for c, n in row.errors.by_class.items()) or DASH


def _error_said(row: Row) -> Said | str:
    if row.errors.kind not in ERROR_GLYPHS:
        return "(reference)" if row.errors.kind == "baseline" else "none" if row.errors.trials else "not measured"
    css, glyph = ERROR_GLYPHS[row.errors.kind]
    return Said(css, glyph, row.errors.kind)


def latency_table(panels: Panels, labels: Mapping[str, str]) -> Table:
    """Return the level (ms, median over trials) and the change of every percentile, treatments down."""
    columns: list[Column] = [Column("Treatment")]
    cells: dict[str, list[str]] = {}
    for statistic, (_, analysis) in panels.items():
        columns += [Column(f"{statistic}, ms", True), Column("Change, %", True)]
        name = shown_names(analysis, labels)
        for row in analysis.rows:
            shown = numbers(row)
            change = shown.change_number if shown.change == DASH else f"{shown.change_number} ({shown.interval_number})"
            cells.setdefault(row.treatment, [name[row.treatment]]).extend([milliseconds(row.level), change])
    order = [row.treatment for row in next(iter(panels.values()))[1].rows]
    return Table("Latency", columns, [cells[name] for name in order])
