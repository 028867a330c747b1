"""Two runs side by side: their verdicts, their levels, their checks, as tables and cells.

The page that compares two runs of one study: what changed around them first, then how far each effect moved.

The page that compares two runs of a study, made from its notebook and linked from the study's own page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from loadbook.analyses.compare_runs import compute
from loadbook.analyses.compare_runs import text as wording
from loadbook.analyses.compare_runs.compute import EffectPair, RunComparison, compare_analyses
from loadbook.core.errors import LoadbookError, UsageError
from loadbook.core.units import join_words
from loadbook.report import checks, html, links, notebooks, palette, sections
from loadbook.report import notebooks as parameters
from loadbook.report.blocks import (
    DASH,
    Block,
    Column,
    Table,
    VerdictCell,
    clean,
    figure_markup,
    note_block,
    notebook_style,
    render,
    render_block,
    render_figure,
    table_markup,
    table_text,
    verdict_cell,
)
from loadbook.report.build import BuiltReport, OutputPaths, ensure_ingested, notebook_parameters, page_breadcrumbs
from loadbook.report.checks import HarnessCheck
from loadbook.report.notebooks import DONE_MIME
from loadbook.report.verdicts import LEVEL_HEADERS, VerdictLine
from loadbook.stats.analyse import analyse_strata
from loadbook.stats.results import Analysis, AnalysisRow, VerdictKind
from loadbook.stats.text import confidence_text, margin_text, row_texts
from loadbook.store.conditions import ConditionChange, condition_changes
from loadbook.store.ledger import read_current_plan
from loadbook.store.paths import Layout, project_layout
from loadbook.store.tables import RunData, load_run, read_run_conditions
from loadbook.store.trial_record import read_json
from loadbook.study.plan import parse_plan


@dataclass(frozen=True)
class BoldCell:
    """A cell in bold."""

    text: str

    def __html__(self) -> str:
        return str(render("bold.html.j2", text=self.text))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class EffectCell:
    """A cell of what one run found: its verdict, below it the effect with its interval."""

    verdict: VerdictCell | str
    effect: str

    def __html__(self) -> str:
        return str(render("found.html.j2", found=self))

    def __str__(self) -> str:
        return f"{self.verdict} {self.effect}" if self.effect != DASH else str(self.verdict)


def pair_lines(found: RunComparison) -> list[VerdictLine]:
    """Return a sentence per comparison, in the order of the figure, each with the mark of the newer run's verdict."""
    return [_pair_line(row, found.margin) for row in found.rows]


def _pair_line(row: EffectPair, margin: float) -> VerdictLine:
    side = row.row
    kind = side.verdict.kind if side.verdict and side.kind == "treatment" else "check"
    return VerdictLine(kind, palette.row_glyph(side), side.label, wording.effect_change_phrase(row, margin))


def verdict_pairs_table(found: RunComparison) -> Table:
    """Return the verdicts of both runs side by side, with what changed in bold."""
    family = max((row.change.family_size for row in found.rows if row.change), default=1)
    interval = f"{confidence_text(found.level)} interval"
    columns = [
        Column("Treatment"), Column("The effect"), Column("Older run, %"), Column("Newer run, %"),
        Column("Moved by, %", True), Column("p, adj." if family > 1 else "p", True), Column("Blocks", True),
    ]  # fmt: skip
    checks = [k for k, row in enumerate(found.rows) if row.row.kind != "treatment"]
    cells = [_pair_cells(row, found.newer.metric) for row in found.rows]
    return Table("Two runs", columns, cells, frozenset(checks[:1]), f"In brackets: the {interval}.")


def _pair_cells(row: EffectPair, metric: str) -> list[Any]:
    word = BoldCell(row.kind) if row.kind == "changed" else row.kind
    verdict_cells = [verdict_cell(side, metric) if side else DASH for side in row.sides]
    texts = wording.effect_change_texts(row)
    older, newer = (
        EffectCell(verdict, effect) for verdict, effect in zip(verdict_cells, (texts.older, texts.newer), strict=True)
    )
    moved = f"{texts.change} ({texts.interval})" if row.change else DASH
    return [row.row.label, word, older, newer, moved, texts.p, texts.blocks]


def level_pairs_table(found: RunComparison, changed_treatments: Collection[str]) -> Table:
    """Return the level of every arm in both runs, the median over trials, but of those in `changed_treatments`."""
    older_rows, newer_rows = ({row.treatment: row for row in analysis.rows} for analysis in (found.older, found.newer))
    head = LEVEL_HEADERS.get(found.newer.metric, found.newer.metric)
    columns = [Column("Treatment"), Column(f"Older run, {head}", True), Column(f"Newer run, {head}", True)]
    rows = [
        [
            (newer_rows.get(name) or older_rows[name]).label,
            _row_level_text(older_rows.get(name)),
            _row_level_text(newer_rows.get(name)),
        ]
        for name in dict.fromkeys([*newer_rows, *older_rows])
        if name not in changed_treatments
    ]
    return Table("Levels", columns, rows)


def _row_level_text(row: AnalysisRow | None) -> str:
    return row_texts(row).level if row else DASH


def combine_harness_checks(older: Sequence[HarnessCheck], newer: Sequence[HarnessCheck]) -> list[HarnessCheck]:
    """Return one trust strip of two; each cell has the look and the title of the run that gives less trust."""
    return [_combine_checks(one, other) for one, other in zip(older, newer, strict=True)]


def _combine_checks(older: HarnessCheck, newer: HarnessCheck) -> HarnessCheck:
    worse, which = next(
        ((cell, name) for css in ("failed", "doubt") for cell, name in ((newer, "newer"), (older, "older"))
         if cell.css_class == css), (newer, "newer"))  # fmt: skip
    if older.title == newer.title:
        return HarnessCheck(
            worse.css_class, worse.glyph, worse.title, f"older: {older.text}; newer: {newer.text}", worse.link
        )
    texts = [f"{name}: {cell.text if cell is worse else f'{cell.glyph} {cell.title}, {cell.text}'}"
            for cell, name in ((older, "older"), (newer, "newer"))]  # fmt: skip
    return HarnessCheck(worse.css_class, worse.glyph, f"{worse.title} ({which} run)", "; ".join(texts), worse.link)


NOTEBOOK = "compare_runs"
PREVIOUS = "previous"  # names the run before the one that is looked at
QUESTION = "Does the newer run agree with the older one?"
MAX_CHANGES_SHOWN = 3
# the bar of the answer has the colour of a verdict class; a change is none of them, so it is ink
ANSWER_KINDS: dict[str, VerdictKind] = {"agrees": "equivalent", "undecided": "undecided"}


class ComparePage:
    """Two runs of one study, the older one first; every method returns what a cell shows.

    `metric` may have a statistic after a space: "latency p99".
    """

    notebook = NOTEBOOK

    def __init__(
        self, older: RunData, newer: RunData, baseline: str = "", metric: str = "", level: float = 0.95
    ) -> None:
        compute.check_comparable(older, newer, metric, baseline)
        compute.check_not_copies(older, newer)
        self.older, self.newer, self.data = older, newer, newer
        self.baseline, self.level = baseline, level
        self.metric, _, self.statistic = (metric or newer.study.metric).partition(" ")

    @cached_property
    def changes(self) -> list[ConditionChange]:
        """What is recorded otherwise of the newer run."""
        return condition_changes(self.older, self.newer)

    @cached_property
    def result(self) -> RunComparison:
        """How far each effect moved."""
        older, newer = (self._analyse_run(data) for data in (self.older, self.newer))
        return compare_analyses(older, newer, self.changed_treatments, self.level)

    @cached_property
    def changed_treatments(self) -> dict[str, str]:
        """Treatments that are not one thing in both runs, each with the reason."""
        return compute.changed_treatments(self.older, self.newer, self.baseline)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Each treatment of either run as readers see it."""
        return {name: data.study.label(name) for _, data in self._runs_by_name() for name in data.study.treatments}

    def _runs_by_name(self) -> tuple[tuple[str, RunData], tuple[str, RunData]]:
        return ("older", self.older), ("newer", self.newer)

    def _analyse_run(self, data: RunData) -> Analysis:
        """Return what one run found, part by part where conditions are judged apart.

        Where a study holds everything against the arm observed best, that may be another arm in each run: here it is
        the study's baseline.
        """
        return analyse_strata(
            data, baseline=self.baseline or None, metric=self.metric, statistic=self.statistic or None,
            level=self.level, fixed=True,
        )  # fmt: skip

    def scope(self) -> Block:
        """Show the question and, in one line, of which study and which runs it is asked."""
        runs = [f"{which}: {data.run}, {sections.started_text(data)}" for which, data in self._runs_by_name()]
        line = " · ".join(
            [
                self.newer.study.question,
                *runs,
                f"{self.metric} {self.statistic}".strip(),
                f"margin ±{margin_text(self.result.margin)}",
            ]
        )
        block = render_block("scope.html.j2", f"{QUESTION}\n{line}", question=QUESTION, line=line)
        return Block(notebook_style() + block.html, block.text)

    def answer(self) -> Block:
        """Show in one sentence whether an effect changed, and what else did."""
        words = [row.kind for row in self.result.treatments]
        worst = next((word for word in ("changed", "undecided", "agrees") if word in words), "not compared")
        headline, lines = (
            wording.headline(self.result),
            [self._conditions_sentence(), wording.supporting_text(self.result)],
        )
        counts = [(words.count(word), word) for word in dict.fromkeys(words)]
        return render_block(
            "moved.html.j2",
            "\n".join([headline, *filter(None, lines)]),
            headline=headline,
            counts=counts,
            lines=[line for line in lines if line],
            kind=ANSWER_KINDS.get(worst, "invalid"),
        )

    def _conditions_sentence(self) -> str:
        """Return in one sentence what changed around the runs."""
        texts = [
            checks.describe_change(change, self.labels) for change in self.changes if change.category != "treatment"
        ]
        return (
            f"Recorded conditions changed: {_join_some(texts)}." if texts else "Every recorded condition is as it was."
        )

    def trust(self) -> Block:
        """Show of both runs whether the instrument worked: A/A arm, known effect, trials that count, doubts."""
        older, newer = (
            checks.harness_checks(self.older, self.result.older),
            checks.harness_checks(self.newer, self.result.newer),
        )
        cells = combine_harness_checks(older, newer)
        text = "\n".join(f"{c.glyph} {c.title}: {c.text}" for c in cells)
        return render_block("trust.html.j2", text, cells=cells, gate=None)

    def conditions(self) -> Block:
        """Show every recorded condition that is not as it was."""
        if not self.changes:
            return note_block(
                "Nothing that was recorded: hosts, versions, facts, study and treatments are as they were."
            )
        table = checks.changes_table(self.changes, self.labels)
        return Block(str(table_markup(table)), table_text(table))

    def effects(self) -> Block:
        """Show both runs' intervals, a sentence per comparison, and the verdicts side by side."""
        from loadbook.analyses.compare_runs.figure import RunComparisonFigure

        lines, table = pair_lines(self.result), verdict_pairs_table(self.result)
        html = render(
            "effects.html.j2",
            figure=figure_markup(render_figure(RunComparisonFigure(self.result))),
            lines=lines,
            table=table_markup(table),
        )
        text = "\n".join(f"{line.glyph} {line.name}{line.text}" for line in lines)
        return Block(str(html), str(clean(f"{text}\n\n{table_text(table)}")))

    def verdicts(self) -> Block:
        """Show the verdicts of both runs side by side, without the figure."""
        table = verdict_pairs_table(self.result)
        return Block(str(table_markup(table)), table_text(table))

    def levels(self) -> Block:
        """Show the levels of both runs side by side where all that makes a level agrees."""
        why = self.levels_refusal()
        if why:
            return note_block(why)
        table = level_pairs_table(self.result, self.changed_treatments)
        text = "All recorded conditions agree. Levels drift from run to run: what is compared are the effects above."
        return Block(str(table_markup(table) + render("note.html.j2", text=text)), f"{table_text(table)}\n{text}")

    def levels_refusal(self) -> str | None:
        """Return why the levels of the two runs may not stand side by side; None where they may."""
        foreign = [which for which, data in self._runs_by_name() if data.run_record.imported]
        if foreign:
            return f"Not shown: the {' and the '.join(foreign)} run was imported, so its hosts are not known."
        breaking = [change for change in self.changes if change.prevents_comparison and change.category != "treatment"]
        differing = [checks.change_name(change, self.labels) for change in breaking]
        differing += [] if self.older.facts or self.newer.facts else ["facts of the hosts, of which none were recorded"]
        if not differing:
            return None
        return f"Not shown, as conditions differ on which a level depends: {_join_some(differing)}."

    @cached_property
    def notes(self) -> list[compute.Caveat]:
        """What a reader must know before a change is believed."""
        analyses = (("older", self.result.older), ("newer", self.result.newer))
        void = [which for which, analysis in analyses if analysis.aa_failure]
        text = "its A/A arm differs from the baseline that it repeats, so none of its effects is compared"
        more = compute.comparison_caveats(self.older, self.newer, self.changes)
        return [*(compute.Caveat(f"The {which} run contradicts itself", text) for which in void), *more]

    def doubts(self) -> Block:
        """Show in words what could still be wrong, one line each."""
        lines = [sections.ValidityMessage("two-runs", doubt.title, "doubt", 0, doubt.text) for doubt in self.notes]
        for which, data in self._runs_by_name():
            lines += [replace(one, title=f"{one.title}, {which} run") for one in sections.doubt_messages(data)]
        return render_block("doubts.html.j2", "\n".join(f"- {d.title}: {d.text}" for d in lines), doubts=lines)

    def provenance(self) -> Block:
        """Show where both runs come from; as the last block it also tells the runner that the end was reached."""
        pairs = [
            (f"{which} {key}", value)
            for which, data in self._runs_by_name()
            for key, value in sections.provenance_pairs(data)
        ]
        block = render_block("provenance.html.j2", "\n".join(f"{k}: {v}" for k, v in pairs), pairs=pairs)
        return Block(block.html, block.text, {DONE_MIME: self.summary()})

    def summary(self) -> dict[str, Any]:
        """Return what the command line says of the two runs."""
        lines = [f"{line.glyph} {line.name}{line.text}" for line in pair_lines(self.result)]
        return {
            "notebook": NOTEBOOK,
            "study": self.newer.study.name,
            "run": self.newer.run,
            "against": self.older.run,
            "sentences": [wording.headline(self.result), self._conditions_sentence(), *lines],
        }


def _join_some(texts: list[str]) -> str:
    more = len(texts) - MAX_CHANGES_SHOWN
    return join_words(texts if more < 1 else [*texts[:MAX_CHANGES_SHOWN], f"{more} more"])


def resolve_run_pair(home: Layout, study: str, run: str, against: str) -> tuple[str, str]:
    """Return the ids of two runs, the older one first whichever was named first.

    Parameters
    ----------
    run, against : ids; "latest" is the newest run, `PREVIOUS` as `against` the one before `run`.

    Raises
    ------
    UsageError : there is no such run, or none before it, or both are one.
    """
    one, runs = home.resolve_run(study, run), home.runs(study)
    before = [name for name in runs if name < one]
    if against == PREVIOUS and not before:
        raise UsageError(f"study {study!r} has no run before {one}", f"runs: {', '.join(runs)}; loadbook run {study}")
    other = before[-1] if against == PREVIOUS else home.resolve_run(study, against)
    if one == other:
        raise UsageError(f"run {one} cannot be compared with itself", f"runs of {study!r}: {', '.join(runs)}")
    return min(one, other), max(one, other)


def check_comparable_early(home: Layout, study: str, older: str, newer: str, given: Mapping[str, Any]) -> None:
    """Raise UsageError, before anything is executed, where two runs cannot be compared; `given` are parameters."""
    one, other = (read_run_conditions(home.run(study, name)) for name in (older, newer))
    compute.check_comparable(one, other, str(given.get("metric", "")), str(given.get("baseline", "")))


def compare_runs_page(
    study: str, run: str = "latest", against: str = PREVIOUS, baseline: str = "", metric: str = "", level: float = 0.95
) -> ComparePage:
    """Return the page that compares a run with an older one of its study.

    Parameters
    ----------
    study, run : names; "latest" is the newest run.
    against : id of the older run; "previous" is the one before `run`.
    baseline, metric : names; empty for the study's own.
    level : of the intervals, 0.95 for 95 %.

    Raises
    ------
    UsageError : an unknown name, or runs that hold no two answers to one question.
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
    """Make the page that compares a run with an older one; see `build.build_report` for the other parameters.

    Raises
    ------
    UsageError : no such run, or two that hold no two answers to one question; nothing was executed.
    DataError : raw data of a run cannot be ingested.
    """
    older, newer = resolve_run_pair(layout, study, run, against)
    given = _comparison_parameters(layout, study, newer, older, pairs)
    check_comparable_early(layout, study, older, newer, given)
    for one in (older, newer):
        ensure_ingested(layout.run(study, one), on_message)
    built = BuiltReport(study, newer, {"study": study, "run": newer, "against": older})
    page = layout.reports / f"{study}-{newer}-against-{older}.html"
    out = layout.run(study, newer).processed / "notebooks" / f"{NOTEBOOK}-{older}.ipynb"
    on_message(f"{study}: notebook {NOTEBOOK}")
    try:
        executed = notebooks.execute_notebook(layout, NOTEBOOK, given, out, timeout_s)
        html.export_html(
            executed.path,
            page,
            f"{newer} against {older} · {study}",
            _comparison_breadcrumbs(layout, study, newer, older),
        )
    except LoadbookError as error:
        built.failed.append(error.message)
        on_message(f"{study}: {error.message}" + (f" ({error.hint})" if error.hint else ""))
        return built
    built.pages.append(page)
    built.summary |= executed.summary
    links.write_comparison(page, study, newer, older)
    _refresh_study_page(layout, study, on_message)
    return built


def _comparison_parameters(layout: Layout, study: str, newer: str, older: str, pairs: Sequence[str]) -> dict[str, Any]:
    values = parameters.parse_pairs(notebooks.declared_parameters(notebooks.find_notebook(layout, NOTEBOOK)), pairs)
    return notebook_parameters(layout, [NOTEBOOK], {"study": study, "run": newer, "against": older}, values)[NOTEBOOK]


def _comparison_breadcrumbs(layout: Layout, study: str, newer: str, older: str) -> html.Breadcrumbs:
    page = layout.reports / f"{study}.html"
    return [
        ("All studies", "index.html"),
        (study, page.name if page.is_file() else None),
        (f"run {newer} against {older}", None),
    ]


def _refresh_study_page(layout: Layout, study: str, on_message: Callable[[str], None]) -> None:
    """Export the study's first page again, if it is there, so that it links what was links."""
    summary = layout.reports / f"{study}{links.SUMMARY_SUFFIX}"
    if not summary.is_file():
        return
    try:
        run = read_json(summary)["run"]
        paths = layout.run(study, run)
        plan = parse_plan(read_current_plan(paths), str(paths.plan_json))
        name, place = plan.study.notebooks[0], OutputPaths(layout.reports, study, paths.processed / "notebooks")
        page, executed = place.page_path(name, True), place.executed_path(name, True)
        if page.is_file() and executed.is_file():
            html.export_html(
                executed, page, f"{plan.study.question} · {study}", page_breadcrumbs(plan, run, name, place)
            )
    except (LoadbookError, LookupError, TypeError) as error:  # a run that is no longer here, say
        on_message(f"{study}: its own page has no link to this one: {error}")
