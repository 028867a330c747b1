"""The page that compares two runs of a study, and the report built from its notebook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadbook.analyses.compare_runs import compute
from loadbook.analyses.compare_runs.compute import RunComparison, compare_analyses
from loadbook.core.errors import LoadbookError, UsageError
from loadbook.core.units import join_words, shorten_list
from loadbook.report import checks, html, notebooks, palette, parameters, sections
from loadbook.report.blocks import (
    DONE_MIME,
    Block,
    answer_box,
    note,
    note_block,
    provenance_line,
    scope_nodes,
    verdict_cell,
)
from loadbook.report.build import BuiltReport, OutputPaths, ensure_ingested, notebook_parameters, page_breadcrumbs
from loadbook.report.checks import HarnessCheck
from loadbook.report.nodes import DASH, Break, Column, Group, HtmlOnly, Node, Picture, Strong, Table
from loadbook.report.verdicts import VerdictLine, level_header, verdict_list
from loadbook.stats.analyse import analyse_strata
from loadbook.stats.results import Analysis, VerdictKind
from loadbook.stats.text import confidence_text, margin_text, row_texts
from loadbook.store.ledger import read_current_plan
from loadbook.store.paths import Layout, project_layout
from loadbook.store.run_record import ConditionChange, condition_changes
from loadbook.store.tables import RunData, load_run, read_run_conditions
from loadbook.store.trial_record import read_json

if TYPE_CHECKING:
    import pandas as pd


def pair_lines(comparison: RunComparison) -> list[VerdictLine]:
    """Return one sentence per row of the figure, each with the glyph of the newer run's verdict."""
    lines = []
    for pair in comparison.rows:
        row = pair.row
        text = compute.effect_change_phrase(pair, comparison.margin)
        lines.append(VerdictLine(palette.row_kind(row), palette.row_glyph(row), row.label, text))
    return lines


def verdict_pairs_table(comparison: RunComparison) -> Table:
    """Return a table of both runs' verdicts with effects and intervals; changed effects are bold."""
    family = max((pair.change.family_size for pair in comparison.rows if pair.change), default=1)
    columns = [
        Column("Treatment"), Column("The effect"), Column("Older run, %"), Column("Newer run, %"),
        Column("Moved by, %", True), Column("p, adj." if family > 1 else "p", True), Column("Blocks", True),
    ]  # fmt: skip
    rows = []
    for pair in comparison.rows:
        texts = compute.effect_change_texts(pair)
        cells: list[Node | str] = []
        for row, effect in zip(pair.sides, (texts.older, texts.newer), strict=True):
            verdict = verdict_cell(row, comparison.newer.metric) if row else DASH
            cells.append(verdict if effect == DASH else Group(verdict, Break(), effect))
        kind = Strong(pair.kind) if pair.kind == "changed" else pair.kind
        moved = f"{texts.change} ({texts.interval})" if pair.change else DASH
        rows.append([pair.row.label, kind, *cells, moved, texts.p, texts.blocks])
    checks = [k for k, pair in enumerate(comparison.rows) if pair.row.kind != "treatment"]
    caption = f"In brackets: the {confidence_text(comparison.level)} interval."
    return Table("Two runs", columns, rows, frozenset(checks[:1]), caption)


def combine_harness_checks(older: HarnessCheck, newer: HarnessCheck) -> HarnessCheck:
    """Combine one harness check of both runs into one cell, with the style and title of the worse result."""
    ranks = {"failed": 0, "doubt": 1}
    worse, which = min((newer, "newer"), (older, "older"), key=lambda entry: ranks.get(entry[0].css_class, 2))
    if older.title == newer.title:
        return replace(worse, text=f"older: {older.text}; newer: {newer.text}")
    texts = [
        f"{name}: {cell.text if cell is worse else f'{cell.glyph} {cell.title}, {cell.text}'}"
        for cell, name in ((older, "older"), (newer, "newer"))
    ]
    return replace(worse, title=f"{worse.title} ({which} run)", text="; ".join(texts))


NOTEBOOK = "compare_runs"
PREVIOUS = "previous"  # value of `against` for the run before `run`
QUESTION = "Does the newer run agree with the older one?"
MAX_CHANGES_LISTED = 3
# verdict whose colour the bar beside the answer has; an answer "changed" has no verdict and a black bar
ANSWER_KINDS: dict[str, VerdictKind] = {"agrees": "equivalent", "undecided": "undecided"}


class ComparePage:
    """The page that compares two runs of one study; each method that returns a Block is for one notebook cell.

    `metric` may be followed by a space and a statistic: "latency p99".
    """

    notebook = NOTEBOOK

    def __init__(
        self, older: RunData, newer: RunData, baseline: str = "", metric: str = "", level: float = 0.95
    ) -> None:
        compute.check_comparable(older, newer, metric, baseline)
        compute.check_not_copies(older, newer)
        self.older, self.newer, self.run_data = older, newer, newer
        self.baseline, self.level = baseline, level
        self.metric, _, self.statistic = (metric or newer.study.metric).partition(" ")

    @cached_property
    def changes(self) -> list[ConditionChange]:
        """Recorded conditions in which the newer run differs from the older one."""
        return condition_changes(self.older, self.newer)

    @cached_property
    def result(self) -> RunComparison:
        """The change of each effect from the older to the newer run."""
        older, newer = (self._analyse_run(data) for data in (self.older, self.newer))
        return compare_analyses(older, newer, self.changed_treatments, self.level)

    @property
    def tables(self) -> Path:
        """Folder that holds one folder of tables (parquet) for each run, with the run's id as its name."""
        return self.newer.paths.processed.parent

    def data(self) -> pd.DataFrame:
        """Return how far each effect moved from `older_run` to `newer_run`, not rounded: one row per treatment."""
        return compute.change_frame(self.result).assign(older_run=self.older.run, newer_run=self.newer.run)

    @cached_property
    def changed_treatments(self) -> dict[str, str]:
        """Treatment -> why it is not the same in both runs; empty if all are the same."""
        return compute.changed_treatments(self.older, self.newer, self.baseline)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Treatment -> display name, for the treatments of both runs."""
        return {name: data.study.label(name) for _, data in self._runs_by_name() for name in data.study.treatments}

    def _runs_by_name(self) -> tuple[tuple[str, RunData], tuple[str, RunData]]:
        return ("older", self.older), ("newer", self.newer)

    def _analyse_run(self, data: RunData) -> Analysis:
        """Return the analysis of one run; if the study analyses conditions separately, one part per condition.

        If a study compares treatments with the one observed best, they are compared with its baseline here, because the
        best treatment may differ between the runs.
        """
        return analyse_strata(
            data, baseline=self.baseline or None, metric=self.metric, statistic=self.statistic or None,
            level=self.level, fixed=True, limited=False,
        )  # fmt: skip

    def scope(self) -> Block:
        """Show the question and, in one line, the study and its two runs."""
        runs = [f"{which}: {data.run}, {sections.started_text(data)}" for which, data in self._runs_by_name()]
        metric, margin = f"{self.metric} {self.statistic}".strip(), f"margin ±{margin_text(self.result.margin)}"
        return Block(scope_nodes(QUESTION, " · ".join([self.newer.study.question, *runs, metric, margin])))

    def answer(self) -> Block:
        """Show in one sentence whether an effect changed, and which recorded conditions changed."""
        kinds = [row.kind for row in self.result.treatments]
        worst = next((kind for kind in ("changed", "undecided", "agrees") if kind in kinds), "not compared")
        box = answer_box(
            compute.headline(self.result), self._conditions_sentence(), compute.supporting_text(self.result),
            kind="invalid" if self.result.neutral_headline else ANSWER_KINDS.get(worst, "invalid"),
            counts=[(kinds.count(kind), kind) for kind in dict.fromkeys(kinds)],
        )  # fmt: skip
        return Block(box)

    def _conditions_sentence(self) -> str:
        """Return one sentence on the recorded conditions that changed."""
        changes = [change for change in self.changes if change.category != "treatment"]
        texts = [checks.describe_change(change, self.labels) for change in changes]
        if not texts:
            return "Every recorded condition is as it was."
        return f"Recorded conditions changed: {join_words(shorten_list(texts, MAX_CHANGES_LISTED))}."

    def trust(self) -> Block:
        """Show the harness checks of both runs: A/A arm, positive control, trials that count, doubts."""
        older = checks.harness_checks(self.older, self.result.older)
        newer = checks.harness_checks(self.newer, self.result.newer)
        return Block(checks.check_strip(list(map(combine_harness_checks, older, newer))))

    def conditions(self) -> Block:
        """Show every recorded condition that changed."""
        if not self.changes:
            text = "Nothing that was recorded: hosts, versions, facts, study and treatments are as they were."
            return note_block(text)
        return Block(checks.changes_table(self.changes, self.labels))

    def effects(self) -> Block:
        """Show both runs' intervals, one sentence per row, and the verdicts side by side."""
        from loadbook.analyses.compare_runs.figure import RunComparisonFigure

        lines = verdict_list(pair_lines(self.result))
        return Block(HtmlOnly(Picture(RunComparisonFigure(self.result))), lines, verdict_pairs_table(self.result))

    def verdicts(self) -> Block:
        """Show the verdicts of both runs side by side, without the figure."""
        return Block(verdict_pairs_table(self.result))

    def levels(self) -> Block:
        """Show every treatment's median in both runs, if the recorded conditions that affect medians are equal."""
        if reason := self.levels_refusal():
            return note_block(reason)
        older, newer = ({row.treatment: row for row in a.rows} for a in (self.result.older, self.result.newer))
        head = level_header(self.result.newer)
        columns = [Column("Treatment"), Column(f"Older run, {head}", True), Column(f"Newer run, {head}", True)]
        rows = []
        for name in (name for name in dict.fromkeys([*newer, *older]) if name not in self.changed_treatments):
            levels = [row_texts(side[name]).level if name in side else DASH for side in (older, newer)]
            rows.append([(newer.get(name) or older[name]).label, *levels])
        text = "All recorded conditions agree. Levels drift from run to run: what is compared are the effects above."
        return Block(Table("Levels", columns, rows), note(text))

    def levels_refusal(self) -> str | None:
        """Return why the medians of the two runs are not comparable; None if they are."""
        imported = [which for which, data in self._runs_by_name() if data.run_record.imported]
        if imported:
            return f"Not shown: the {' and the '.join(imported)} run was imported, so its hosts are not known."
        breaking = [change for change in self.changes if change.prevents_comparison and change.category != "treatment"]
        differing = [checks.change_name(change, self.labels) for change in breaking]
        differing += [] if self.older.facts or self.newer.facts else ["facts of the hosts, of which none were recorded"]
        if not differing:
            return None
        names = join_words(shorten_list(differing, MAX_CHANGES_LISTED))
        return f"Not shown, as conditions differ on which a level depends: {names}."

    @cached_property
    def notes(self) -> list[sections.ValidityMessage]:
        """Reasons to doubt any change between the runs."""
        analyses = (("older", self.result.older), ("newer", self.result.newer))
        void = [which for which, analysis in analyses if analysis.is_void]
        text = "it differs from the baseline that it repeats, so none of the run's effects is compared"
        caveats = [(f"A/A arm of the {which} run", text) for which in void]
        caveats += compute.comparison_caveats(self.older, self.newer, self.changes)
        return [sections.ValidityMessage("two-runs", title, "doubt", 0, text) for title, text in caveats]

    def doubts(self) -> Block:
        """Show all doubts about the two runs, one line each."""
        lines = [*self.notes]
        for which, data in self._runs_by_name():
            lines += [replace(one, title=f"{one.title}, {which} run") for one in sections.doubt_messages(data)]
        return Block(sections.doubts_list(lines))

    def provenance(self) -> Block:
        """Show where both runs' data come from; its output also marks the notebook as executed to its end."""
        pairs = [
            (f"{which} {key}", value)
            for which, data in self._runs_by_name()
            for key, value in sections.provenance_pairs(data)
        ]
        return Block(provenance_line(pairs), data={DONE_MIME: self.summary()})

    def summary(self) -> dict[str, Any]:
        """Return the answer and its sentences for the command line."""
        lines = [line.sentence for line in pair_lines(self.result)]
        return {
            "notebook": NOTEBOOK,
            "study": self.newer.study.name,
            "run": self.newer.run,
            "against": self.older.run,
            "sentences": [compute.headline(self.result), self._conditions_sentence(), *lines],
        }


def resolve_run_pair(home: Layout, study: str, run: str, against: str) -> tuple[str, str]:
    """Return the ids of two runs, the older first, whatever the order of the arguments.

    Parameters
    ----------
    run, against : run ids; "latest" is the newest run, and `against` = `PREVIOUS` is the run before `run`.

    Raises
    ------
    UsageError : a run does not exist, has no run before it, or both are the same.
    """
    one, runs = home.resolve_run(study, run), home.runs(study)
    before = [name for name in runs if name < one]
    if against == PREVIOUS and not before:
        raise UsageError(f"study {study!r} has no run before {one}", f"runs: {', '.join(runs)}; loadbook run {study}")
    other = before[-1] if against == PREVIOUS else home.resolve_run(study, against)
    if one == other:
        raise UsageError(f"run {one} cannot be compared with itself", f"runs of {study!r}: {', '.join(runs)}")
    return min(one, other), max(one, other)


def compare_runs_page(
    study: str, run: str = "latest", against: str = PREVIOUS, baseline: str = "", metric: str = "", level: float = 0.95
) -> ComparePage:
    """Return the page that compares a run with an older run of the same study.

    Parameters
    ----------
    study, run : name of the study and id of the run; "latest" is the newest run.
    against : id of the older run; "previous" is the run before `run`.
    baseline, metric : names; empty for those of the study.
    level : confidence of the intervals, 0.95 for 95 %.

    Raises
    ------
    UsageError : an unknown name, or runs that do not answer the same question.
    DataError : a run was not ingested, or its tables cannot be read.
    """
    home = project_layout()
    older, newer = resolve_run_pair(home, study, run, against)
    return ComparePage(load_run(home, study, older), load_run(home, study, newer), baseline, metric, level)


def build_comparison(
    layout: Layout,
    study: str,
    run: str,
    against: str,
    pairs: Sequence[str],
    on_message: Callable[[str], None],
    timeout_s: float | None = notebooks.TIMEOUT_S,
) -> BuiltReport:
    """Build the page that compares a run with an older one; other parameters as of `build.build_report`.

    Raises
    ------
    UsageError : no such run, or two that do not answer the same question; nothing was executed.
    DataError : a run's raw data cannot be ingested.
    """
    older, newer = resolve_run_pair(layout, study, run, against)
    values = parameters.parse_pairs(notebooks.declared_parameters(notebooks.find_notebook(layout, NOTEBOOK)), pairs)
    own = {"study": study, "run": newer, "against": older}
    given = notebook_parameters(layout, [NOTEBOOK], own, values)[NOTEBOOK]
    one, other = (read_run_conditions(layout.run(study, name)) for name in (older, newer))
    compute.check_comparable(one, other, str(given.get("metric", "")), str(given.get("baseline", "")))
    for name in (older, newer):
        ensure_ingested(layout.run(study, name), on_message)
    built = BuiltReport(study, newer, own)
    page = layout.reports / f"{study}-{newer}-against-{older}.html"
    out = layout.run(study, newer).processed / "notebooks" / f"{NOTEBOOK}-{older}.ipynb"
    on_message(f"notebook {NOTEBOOK}")
    try:
        summary = notebooks.execute_notebook(layout, NOTEBOOK, given, out, timeout_s)
        first = layout.reports / f"{study}.html"
        breadcrumbs: html.Breadcrumbs = [
            ("All studies", "index.html"), (study, first.name if first.is_file() else None),
            (f"run {newer} against {older}", None),
        ]  # fmt: skip
        html.export_html(out, page, f"{newer} against {older} · {study}", breadcrumbs)
    except LoadbookError as error:
        built.failed.append(error.message)
        on_message(error.message + (f" ({error.hint})" if error.hint else ""))
        return built
    built.pages.append(page)
    built.summary |= summary
    html.write_comparison(page, study, newer, older)
    _refresh_study_page(layout, study, on_message)
    return built


def _refresh_study_page(layout: Layout, study: str, on_message: Callable[[str], None]) -> None:
    """Export the study's first page again, if it exists, so that it links to the comparison."""
    summary = layout.reports / f"{study}{html.SUMMARY_SUFFIX}"
    if not summary.is_file():
        return
    try:
        run = read_json(summary)["run"]
        paths = layout.run(study, run)
        plan = read_current_plan(paths)
        name, place = plan.study.notebooks[0], OutputPaths(layout.reports, study, paths.processed / "notebooks")
        page, executed = place.page_path(name, True), place.executed_path(name, True)
        if page.is_file() and executed.is_file():
            html.export_html(
                executed, page, f"{plan.study.question} · {study}", page_breadcrumbs(study, plan, run, name, place)
            )
    except (LoadbookError, LookupError, TypeError) as error:  # for example, the run was deleted
        on_message(f"its own page has no link to this one: {error}")
