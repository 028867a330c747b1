"""An analysis as texts and tables; numbers and sentences come from the modules of `stats`, not from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from loadbook.core.metrics import get_metric
from loadbook.core.units import format_p_value, format_percent
from loadbook.report import palette
from loadbook.report.blocks import verdict_cell
from loadbook.report.nodes import (
    DASH,
    BulletList,
    Column,
    Division,
    Group,
    HtmlOnly,
    Paragraph,
    Span,
    Strong,
    Table,
    VerdictCell,
)
from loadbook.stats import headline as first
from loadbook.stats.error_text import ERROR_CLASS_NOUNS, errors_sentence, refusal_text
from loadbook.stats.headline import aa_result, control_result
from loadbook.stats.no_comparison import no_comparison_reason, refusal_headline
from loadbook.stats.phrases import row_phrase
from loadbook.stats.results import VERDICT_ORDER, Analysis, AnalysisRow, StoppingState, VerdictKind
from loadbook.stats.text import row_texts
from loadbook.store.tables import metric_keys

if TYPE_CHECKING:
    import pandas as pd

PER_SECOND = {"ms": 1e3, "µs": 1e6}
LEVEL_HEADERS = {"ok_per_s": "ok/s", "requests_per_s": "requests/s", "bytes_per_s": "B/s"}
MAX_ERROR_LINES = 2
ERROR_GLYPHS = {"more": ("v-worse", "▼"), "fewer": ("v-better", "▲"), "undecided": ("v-undecided", "●")}
LatencyPanels = Mapping[str, tuple["pd.DataFrame", Analysis]]


@dataclass(frozen=True)
class AnswerSummary:
    """The answer of a page: `kind` sets the bar's colour; sentences on more or fewer `errors` precede the headline.

    `word` is the verdict in a few words, `support` the paragraph below the headline. `counts` are texts with the
    number of treatments per verdict. `step` is the next step that would decide open comparisons, "" for none.
    """

    kind: str
    glyph: str
    word: str
    headline: str
    support: str
    errors: tuple[str, ...]
    counts: tuple[Span, ...]
    step: str = ""

    @property
    def nodes(self) -> Division:
        """The box with the answer; in HTML also the number of treatments per verdict."""
        return Division(
            *(Paragraph(Strong(line)) for line in self.errors),
            Paragraph("Given that: " if self.errors else None, self.headline, css="headline"),
            Paragraph(self.support) if self.support else None,
            HtmlOnly(BulletList(self.counts, css="counts")),
            Paragraph(f"Next: {self.step}", css="soft") if self.step and self.step not in self.headline else None,
            css=f"answer bar-{self.kind}",
        )


@dataclass(frozen=True)
class VerdictLine:
    """One verdict sentence: glyph, the treatment's name (set in bold), and the verdict text.

    `kind` is that of the verdict, "check" for a harness check; it sets the colour.
    """

    kind: str
    glyph: str
    name: str
    text: str

    @property
    def sentence(self) -> str:
        """The line as plain text."""
        return f"{self.glyph} {self.name}{self.text}"

    @property
    def nodes(self) -> Group:
        """The line as nodes, with the glyph in the colour of the verdict."""
        return Group(Span(self.glyph, css=f"g v-{self.kind}"), " ", Strong(self.name), self.text)


def verdict_list(lines: Sequence[VerdictLine]) -> BulletList:
    """Return verdict sentences as a bullet list."""
    return BulletList([line.nodes for line in lines], css="verdicts", bullet="")


def summarise_answer(analysis: Analysis) -> AnswerSummary:
    """Return the answer of a page; if the A/A arm failed, it says so in place of any verdict."""
    metric = get_metric(analysis.metric)
    verdict_counts: dict[VerdictKind, int] = {} if analysis.is_void else first.verdict_counts(analysis)
    word_of = partial(palette.verdict_word, metric=metric, hypothesis=analysis.hypothesis)
    counts = tuple(
        Span(f"{palette.VERDICTS[each].glyph} ", Strong(str(number)), f" {word_of(each)}", css=f"v v-{each}")
        for each, number in verdict_counts.items()
    )
    kind: VerdictKind = next((k for k in VERDICT_ORDER if k in verdict_counts), "invalid")
    if "undecided" in verdict_counts and kind in ("small", "no-loss", "equivalent"):
        kind = "undecided"
    word = "no verdict" if analysis.is_void else word_of(kind)
    if not analysis.is_void and first.aa_only_headline(analysis):
        check = analysis.demoting_check
        word = "none seen" if check is None else "not compared"
        glyph, word = (palette.DOUBT_GLYPH, "too noisy") if analysis.resolution else (palette.BASELINE.glyph, word)
        return AnswerSummary(kind, glyph, word, first.headline(analysis), "", (), counts)
    glyph = palette.VERDICTS[kind].glyph
    errors = tuple(_error_lines(analysis))
    if not analysis.is_void and refusal_headline(analysis):
        support = " ".join(filter(None, [*errors, no_comparison_reason(analysis.of_kind("treatment"))]))
        return AnswerSummary(kind, glyph, "errors", first.headline(analysis), support, (), counts)
    if first.neutral_headline(analysis):
        kind, word, glyph = "invalid", "no verdict", glyph if analysis.is_void else palette.DOUBT_GLYPH
    headline = first.headline(analysis)
    return AnswerSummary(kind, glyph, word, headline, first.supporting_text(analysis), errors, counts)


def _error_lines(analysis: Analysis) -> list[str]:
    """Return sentences on the first treatments with more or fewer errors."""
    rows = [r for each in ("more", "fewer") for r in analysis.of_kind("treatment") if r.errors.kind == each]
    refused = bool(refusal_headline(analysis))
    return [
        f"{refusal_text(row)}."
        if row.errors.refusal and not refused
        else f"{row.label}: {errors_sentence(row.errors, _reference(analysis, row).errors, row.reference_label)}"
        for row in rows[:MAX_ERROR_LINES]
    ]


def mark_exploratory(answer: AnswerSummary, state: StoppingState) -> AnswerSummary:
    """Return the answer, marked as exploratory if blocks were added after a look at the results."""
    word = f"exploratory: {answer.word}" if state.added_blocks else answer.word
    return replace(answer, headline=first.mark_exploratory(answer.headline, state), word=word)


def _reference(analysis: Analysis, row: AnalysisRow) -> AnalysisRow:
    """Return the row of the treatment that a row is compared with."""
    return analysis.row(row.verdict.comparison.baseline if row.verdict else analysis.baseline)


def verdict_lines(analysis: Analysis) -> list[VerdictLine]:
    """Return one line per treatment, then one per harness check, in the order of the figure."""
    lines = []
    for row in analysis.rows:
        if row.kind == "baseline":
            continue
        kind, reference = "check", _reference(analysis, row)
        if row.kind == "treatment" and row.verdict:
            kind, text = row.verdict.kind, row_phrase(row, reference.errors)
        else:
            text = f": {aa_result(row, reference.label) if row.kind == 'aa' else control_result(row)}"
        lines.append(VerdictLine(kind, palette.row_glyph(row), row.label, text))
    return lines


def level_unit(metric: str) -> str:
    """Return the unit in which tables show a metric: "µs" for costs, "ms" for other times, else its base unit."""
    known = get_metric(metric)
    return "µs" if known.kind == "cost" else "ms" if known.unit == "s" else known.unit


def level_header(analysis: Analysis) -> str:
    """Return the heading of a column with the metric's values: "ok/s", "capacity, 1/s" or "latency p99, ms"."""
    metric, statistic = get_metric(analysis.metric), analysis.statistic
    name = metric.noun or metric.name if statistic == "value" else f"{metric.name} {statistic}"
    unit = level_unit(analysis.metric)
    return LEVEL_HEADERS.get(analysis.metric, name if unit == "1" else f"{name}, {unit}")


def verdict_table(analysis: Analysis, labels: Mapping[str, str]) -> Table:
    """Return the table behind the effect plot, with plain and adjusted p-values; harness checks below a line.

    For a non-inferiority question a column with the worst-case bound replaces the p-values, which test something else.
    """
    named, one_sided = analysis.contrasts == "adjacent", analysis.hypothesis == "non-inferiority"
    adjusted = any(r.verdict and r.verdict.comparison.p_adjusted is not None for r in analysis.rows)
    ps = [] if one_sided else ["p", "p, adj."] if adjusted else ["p"]
    head, unit = level_header(analysis), level_unit(analysis.metric)
    columns = [
        Column("Treatment"), Column("Verdict"), *([Column("Against", wrap=True)] if named else []),
        *([Column("At worst, %", True)] if one_sided else []), Column("Change, %", True),
        Column(f"{analysis.level * 100:g} % interval, %", True), Column("Blocks", True),
        *(Column(p, True) for p in ps), Column(head, True), Column("With errors", True),
    ]  # fmt: skip
    rows = [*analysis.of_kind("baseline"), *(r for r in analysis.rows if r.kind != "baseline")]
    name = display_names(analysis, labels)
    checks = [k for k, row in enumerate(rows) if row.kind in ("aa", "control")]
    cells = [
        [name[r.treatment], verdict_cell(r, analysis.metric),
         *([_reference(analysis, r).label if r.verdict else DASH] if named else []),
         *([row_texts(r).worst_number] if one_sided else []), *_number_cells(r, len(ps), unit)]
        for r in rows
    ]  # fmt: skip
    return Table("Effects", columns, cells, frozenset(checks[:1]))


LEVEL_TOLERANCE = 0.01  # between a change and the ratio of medians


def level_note(analysis: Analysis) -> str:
    """Return a note if a change in the table is far from the ratio of the medians shown, else "".

    The two differ if the host changed its speed from block to block, as a change compares trials of one block.
    """
    rows = [row for row in analysis.rows if row.verdict and row.verdict.comparison.effect is not None]
    for row in rows:
        assert row.verdict is not None
        comparison, own, other = row.verdict.comparison, row.median, _reference(analysis, row).median
        limit = max(LEVEL_TOLERANCE, analysis.margin / 2)
        if not (own and other) or abs(own / other - 1 - (comparison.effect or 0.0)) <= limit:
            continue
        return (
            f"{level_header(analysis)}: median over all trials of a treatment. A change compares trials of one block, "
            "so where the host changed its speed from block to block, the medians alone do not give it."
        )
    return ""


def display_names(analysis: Analysis, labels: Mapping[str, str]) -> dict[str, str]:
    """Return treatment -> label, with the treatment's key added if figures write the key (their font lacks letters)."""
    from loadbook.report.figures.base import treatment_names

    names = {row.treatment: labels.get(row.treatment, row.label) for row in analysis.rows}
    drawn = treatment_names(analysis)
    return {key: text if drawn[key] == " ".join(text.split()) else f"{text} ({key})" for key, text in names.items()}


def _number_cells(row: AnalysisRow, number_of_ps: int, unit: str) -> list[str]:
    texts = row_texts(row)
    ps = [texts.p, "check" if row.kind in ("aa", "control") else texts.p_adjusted][:number_of_ps]
    level = scaled_text(row.median, unit) if unit in PER_SECOND else texts.level
    return [texts.change_number, texts.interval_number, texts.blocks, *ps, level, texts.trials_with_errors]


def milliseconds_text(value_s: float | None) -> str:
    """Return seconds as milliseconds with three significant digits and without unit; a dash for None."""
    return scaled_text(value_s, "ms")


def scaled_text(value_s: float | None, unit: str) -> str:
    """Return seconds in `unit` ("ms" or "µs") with three significant digits and without unit; a dash for None."""
    return DASH if value_s is None else f"{value_s * PER_SECOND[unit]:.3g}"


def no_errors_sentence(analysis: Analysis) -> str:
    """Return the sentence for a run in which no request failed."""
    measured = [row for row in analysis.rows if row.errors.trials]
    if not measured:
        return "Errors were not measured: no trial has a count of them."
    least = min(measured, key=lambda row: row.errors.trials)
    total = sum(row.errors.trials for row in measured)
    share = format_percent(least.errors.upper_share or 0, 0, signed=False)
    return f"No errors in {total} of {total} trials (up to {share} of a treatment’s trials could still have some)."


def error_table(analysis: Analysis, labels: Mapping[str, str]) -> Table:
    """Return the table of errors by treatment: verdict on errors, trials with errors, errors by class."""
    columns = [Column("Treatment"), Column("Errors"), Column("Trials with errors", True), Column("p", True),
               Column("p, by blocks", True), Column("Failed", True), Column("Responses", True),
               Column("Classes", wrap=True)]  # fmt: skip
    name = display_names(analysis, labels)
    rows = [
        [name[r.treatment], _error_verdict_cell(r), row_texts(r).trials_with_errors, format_p_value(r.errors.p),
         format_p_value(r.errors.p_blocks), f"{r.errors.errors:,}", f"{r.errors.requests:,}",
         ", ".join(f"{n:,} {ERROR_CLASS_NOUNS[c][n != 1]}" for c, n in r.errors.by_class.items()) or DASH]
        for r in analysis.rows
    ]  # fmt: skip
    return Table("Errors", columns, rows)


def _error_verdict_cell(row: AnalysisRow) -> VerdictCell | str:
    if row.errors.kind not in ERROR_GLYPHS:
        return "(reference)" if row.errors.kind == "baseline" else "none" if row.errors.trials else "not measured"
    css, glyph = ERROR_GLYPHS[row.errors.kind]
    return VerdictCell(css, glyph, row.errors.kind)


def latency_table(panels: LatencyPanels, labels: Mapping[str, str]) -> Table:
    """Return a table by treatment with the median over trials (ms) and the change of every percentile.

    `panels` maps a percentile such as "p99" to its `RunData.values` and its analysis. A percentile that only some of
    a treatment's trials have is followed by their number.
    """
    import pandas as pd

    columns: list[Column] = [Column("Treatment")]
    cells: dict[str, list[str]] = {}
    counts = {s: own[own["valid"]].groupby("treatment")["value"].count() for s, (own, _) in panels.items()}
    most = pd.concat(counts.values(), axis=1).max(axis=1)
    for statistic, (_, analysis) in panels.items():
        columns += [Column(f"{statistic}, ms", True), Column("Change, %", True)]
        name = display_names(analysis, labels)
        for row in analysis.rows:
            texts = row_texts(row)
            change = texts.change_number if texts.change == DASH else f"{texts.change_number} ({texts.interval_number})"
            number, median = int(counts[statistic].get(row.treatment, 0)), milliseconds_text(row.median)
            if 0 < number < most[row.treatment]:
                median += f" ({number} of {most[row.treatment]:.0f} trials)"
            cells.setdefault(row.treatment, [name[row.treatment]]).extend([median, change])
    order = [row.treatment for row in next(iter(panels.values()))[1].rows]
    return Table("Latency", columns, [cells[name] for name in order])


def verdict_frame(analysis: Analysis) -> pd.DataFrame:
    """Return the numbers of an analysis, not rounded: one row per treatment; change and bounds are ratios minus 1.

    `against` is the treatment that the row is compared with, `level` the row's own median in base units. `low` and
    `high` are the ends of the interval of `confidence`; those with `_both` decide equivalence or no loss by one bound
    each. `method` is the test: "blocked-rank", "paired-t" of less than 8 blocks, "signed-rank" of arms that scatter
    differently, or "always-valid-t". The metric is compared among trials whose own `measures` is "all" or that of the
    row. A row without a comparison, such as the baseline, lacks its numbers.
    """
    import pandas as pd

    keys = metric_keys(analysis.metric, analysis.statistic)
    return pd.DataFrame([_row_numbers(row) | keys for row in analysis.rows])


def _row_numbers(row: AnalysisRow) -> dict[str, Any]:
    verdict = row.verdict
    comparison = verdict.comparison if verdict else None
    low, high = (comparison.ci95 if comparison else None) or (None, None)
    low_both, high_both = (comparison.ci90 if comparison else None) or (None, None)
    return {
        "treatment": row.treatment, "kind": row.kind, "verdict": verdict.kind if verdict else None,
        "against": comparison.baseline if comparison else None,
        "change": comparison.effect if comparison else None, "low": low, "high": high,
        "p": comparison.p if comparison else None, "p_adjusted": comparison.p_adjusted if comparison else None,
        "blocks": comparison.blocks if comparison else None, "level": row.median,
        "trials": row.trials, "valid_trials": row.valid_trials, "reason": verdict.reason if verdict else None,
        "low_both": low_both, "high_both": high_both, "confidence": comparison.level if comparison else None,
        "method": comparison.method if comparison else None,
    }  # fmt: skip
