"""The page that compares two runs of one study: what changed around them first, then how far each effect moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from loadbook.core.errors import UsageError
from loadbook.core.units import join_words
from loadbook.records.conditions import ConditionChange, condition_changes
from loadbook.records.layout import Layout, project_layout
from loadbook.records.rundata import RunData, load_run, read_run_record
from loadbook.report import changed, setup, side_by_side, trials, trust
from loadbook.report.blocks import Block, render_block, clean, notebook_style, render
from loadbook.report.notebooks import DONE_MIME
from loadbook.report.page import note_block
from loadbook.report.show import render_figure, figure_markup
from loadbook.report.tables import table_text, table_markup
from loadbook.stats import comparable
from loadbook.stats.parts import analyse_strata
from loadbook.stats.result import Analysis, VerdictKind
from loadbook.stats.two_runs import RunComparison, compare_analyses
from loadbook.stats.wording import two_runs as wording
from loadbook.stats.wording.sentences import margin_text

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
        comparable.check_comparable(older, newer, metric, baseline)
        comparable.check_not_copies(older, newer)
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
        return comparable.changed_treatments(self.older, self.newer, self.baseline)

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
        runs = [f"{which}: {data.run}, {setup.started_text(data)}" for which, data in self._runs_by_name()]
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
        headline, lines = wording.headline(self.result), [self._conditions_sentence(), wording.supporting_text(self.result)]
        counts = [(words.count(word), word) for word in dict.fromkeys(words)]
        return render_block("moved.html.j2", "\n".join([headline, *filter(None, lines)]), headline=headline, counts=counts,
                     lines=[line for line in lines if line], kind=ANSWER_KINDS.get(worst, "invalid"))  # fmt: skip

    def _conditions_sentence(self) -> str:
        """Return in one sentence what changed around the runs."""
        texts = [changed.describe_change(change, self.labels) for change in self.changes if change.category != "treatment"]
        return f"Recorded conditions changed: {_join_some(texts)}." if texts else "Every recorded condition is as it was."

    def trust(self) -> Block:
        """Show of both runs whether the instrument worked: A/A arm, known effect, trials that count, doubts."""
        older, newer = trust.harness_checks(self.older, self.result.older), trust.harness_checks(self.newer, self.result.newer)
        cells = side_by_side.combine_harness_checks(older, newer)
        text = "\n".join(f"{c.glyph} {c.title}: {c.text}" for c in cells)
        return render_block("trust.html.j2", text, cells=cells, gate=None)

    def conditions(self) -> Block:
        """Show every recorded condition that is not as it was."""
        if not self.changes:
            return note_block("Nothing that was recorded: hosts, versions, facts, study and treatments are as they were.")
        table = changed.changes_table(self.changes, self.labels)
        return Block(str(table_markup(table)), table_text(table))

    def effects(self) -> Block:
        """Show both runs' intervals (figure 12), a sentence per comparison, and the verdicts side by side."""
        from loadbook.report.figures import two_runs as figure

        lines, table = side_by_side.pair_lines(self.result), side_by_side.verdict_pairs_table(self.result)
        html = render("effects.html.j2", figure=figure_markup(render_figure(figure, self.result)), lines=lines, table=table_markup(table))
        text = "\n".join(f"{line.glyph} {line.name}{line.text}" for line in lines)
        return Block(str(html), str(clean(f"{text}\n\n{table_text(table)}")))

    def verdicts(self) -> Block:
        """Show the verdicts of both runs side by side, without the figure."""
        table = side_by_side.verdict_pairs_table(self.result)
        return Block(str(table_markup(table)), table_text(table))

    def levels(self) -> Block:
        """Show the levels of both runs side by side where all that makes a level agrees."""
        why = self.levels_refusal()
        if why:
            return note_block(why)
        table = side_by_side.level_pairs_table(self.result, self.changed_treatments)
        text = "All recorded conditions agree. Levels drift from run to run: what is compared are the effects above."
        return Block(str(table_markup(table) + render("note.html.j2", text=text)), f"{table_text(table)}\n{text}")

    def levels_refusal(self) -> str | None:
        """Return why the levels of the two runs may not stand side by side; None where they may."""
        foreign = [which for which, data in self._runs_by_name() if data.run_json.get("imported")]
        if foreign:
            return f"Not shown: the {' and the '.join(foreign)} run was imported, so its hosts are not known."
        breaking = [change for change in self.changes if change.prevents_comparison and change.category != "treatment"]
        differing = [changed.change_name(change, self.labels) for change in breaking]
        differing += [] if self.older.facts or self.newer.facts else ["facts of the hosts, of which none were recorded"]
        if not differing:
            return None
        return f"Not shown, as conditions differ on which a level depends: {_join_some(differing)}."

    @cached_property
    def notes(self) -> list[comparable.Caveat]:
        """What a reader must know before a change is believed."""
        analyses = (("older", self.result.older), ("newer", self.result.newer))
        void = [which for which, analysis in analyses if analysis.aa_failure]
        text = "its A/A arm differs from the baseline that it repeats, so none of its effects is compared"
        more = comparable.comparison_caveats(self.older, self.newer, self.changes)
        return [*(comparable.Caveat(f"The {which} run contradicts itself", text) for which in void), *more]

    def doubts(self) -> Block:
        """Show in words what could still be wrong, one line each."""
        lines = [trials.ValidityMessage("two-runs", doubt.title, "doubt", 0, doubt.text) for doubt in self.notes]
        for which, data in self._runs_by_name():
            lines += [replace(one, title=f"{one.title}, {which} run") for one in trials.doubt_messages(data)]
        return render_block("doubts.html.j2", "\n".join(f"- {d.title}: {d.text}" for d in lines), doubts=lines)

    def provenance(self) -> Block:
        """Show where both runs come from; as the last block it also tells the runner that the end was reached."""
        pairs = [(f"{which} {key}", value) for which, data in self._runs_by_name() for key, value in setup.provenance_pairs(data)]
        block = render_block("provenance.html.j2", "\n".join(f"{k}: {v}" for k, v in pairs), pairs=pairs)
        return Block(block.html, block.text, {DONE_MIME: self.summary()})

    def summary(self) -> dict[str, Any]:
        """Return what the command line says of the two runs."""
        lines = [f"{line.glyph} {line.name}{line.text}" for line in side_by_side.pair_lines(self.result)]
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
    one, other = (read_run_record(home.run(study, name)) for name in (older, newer))
    comparable.check_comparable(one, other, str(given.get("metric", "")), str(given.get("baseline", "")))


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
