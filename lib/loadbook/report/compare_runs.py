"""The page that compares two runs of one study: what changed around them first, then how far each effect moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from loadbook.core.errors import UsageError
from loadbook.core.units import joined
from loadbook.records.conditions import Change, changes
from loadbook.records.layout import Layout, layout
from loadbook.records.rundata import RunData, load_run, read_record
from loadbook.report import changed, setup, side_by_side, trials, trust
from loadbook.report.blocks import Block, block, clean, notebook_style, render
from loadbook.report.notebooks import DONE
from loadbook.report.page import note
from loadbook.report.show import drawn, markup
from loadbook.report.tables import plain, safe_table
from loadbook.stats import comparable
from loadbook.stats.parts import analyse_parts
from loadbook.stats.result import Analysis, VerdictKind
from loadbook.stats.two_runs import TwoRuns, two_runs
from loadbook.stats.wording import two_runs as wording
from loadbook.stats.wording.sentences import margin_text

NOTEBOOK = "compare_runs"
PREVIOUS = "previous"  # names the run before the one that is looked at
QUESTION = "Does the newer run agree with the older one?"
MAX_SAID = 3
# the bar of the answer has the colour of a verdict class; a change is none of them, so it is ink
KINDS: dict[str, VerdictKind] = {"agrees": "equivalent", "undecided": "undecided"}


class ComparePage:
    """Two runs of one study, the older one first; every method returns what a cell shows.

    `metric` may have a statistic after a space: "latency p99".
    """

    notebook = NOTEBOOK

    def __init__(
        self, older: RunData, newer: RunData, baseline: str = "", metric: str = "", level: float = 0.95
    ) -> None:
        comparable.refuse(older, newer, metric, baseline)
        comparable.refuse_copies(older, newer)
        self.older, self.newer, self.data = older, newer, newer
        self.baseline, self.level = baseline, level
        self.metric, _, self.statistic = (metric or newer.study.metric).partition(" ")

    @cached_property
    def changes(self) -> list[Change]:
        """What is recorded otherwise of the newer run."""
        return changes(self.older, self.newer)

    @cached_property
    def found(self) -> TwoRuns:
        """How far each effect moved."""
        older, newer = (self._analysis(data) for data in (self.older, self.newer))
        return two_runs(older, newer, self.unlike, self.level)

    @cached_property
    def unlike(self) -> dict[str, str]:
        """Treatments that are not one thing in both runs, each with the reason."""
        return comparable.unlike(self.older, self.newer, self.baseline)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Each treatment of either run as readers see it."""
        return {name: data.study.label(name) for _, data in self._named() for name in data.study.treatments}

    def _named(self) -> tuple[tuple[str, RunData], tuple[str, RunData]]:
        return ("older", self.older), ("newer", self.newer)

    def _analysis(self, data: RunData) -> Analysis:
        """Return what one run found, part by part where conditions are judged apart.

        Where a study holds everything against the arm observed best, that may be another arm in each run: here it is
        the study's baseline.
        """
        return analyse_parts(
            data, baseline=self.baseline or None, metric=self.metric, statistic=self.statistic or None,
            level=self.level, fixed=True,
        )  # fmt: skip

    def scope(self) -> Block:
        """Show the question and, in one line, of which study and which runs it is asked."""
        runs = [f"{which}: {data.run}, {setup.started_text(data)}" for which, data in self._named()]
        line = " · ".join(
            [
                self.newer.study.question,
                *runs,
                f"{self.metric} {self.statistic}".strip(),
                f"margin ±{margin_text(self.found.margin)}",
            ]
        )
        shown = block("scope.html.j2", f"{QUESTION}\n{line}", question=QUESTION, line=line)
        return Block(notebook_style() + shown.html, shown.text)

    def answer(self) -> Block:
        """Show in one sentence whether an effect changed, and what else did."""
        words = [row.word for row in self.found.treatments]
        worst = next((word for word in ("changed", "undecided", "agrees") if word in words), "not compared")
        headline, lines = wording.headline(self.found), [self._around(), wording.supporting(self.found)]
        counts = [(words.count(word), word) for word in dict.fromkeys(words)]
        return block("moved.html.j2", "\n".join([headline, *filter(None, lines)]), headline=headline, counts=counts,
                     lines=[line for line in lines if line], kind=KINDS.get(worst, "invalid"))  # fmt: skip

    def _around(self) -> str:
        """Return in one sentence what changed around the runs."""
        told = [changed.said(change, self.labels) for change in self.changes if change.about != "treatment"]
        return f"Recorded conditions changed: {_some(told)}." if told else "Every recorded condition is as it was."

    def trust(self) -> Block:
        """Show of both runs whether the instrument worked: A/A arm, known effect, trials that count, doubts."""
        older, newer = trust.trust(self.older, self.found.older), trust.trust(self.newer, self.found.newer)
        cells = side_by_side.trust(older, newer)
        text = "\n".join(f"{c.glyph} {c.title}: {c.text}" for c in cells)
        return block("trust.html.j2", text, cells=cells, gate=None)

    def conditions(self) -> Block:
        """Show every recorded condition that is not as it was."""
        if not self.changes:
            return note("Nothing that was recorded: hosts, versions, facts, study and treatments are as they were.")
        table = changed.table(self.changes, self.labels)
        return Block(str(safe_table(table)), plain(table))

    def effects(self) -> Block:
        """Show both runs' intervals (figure 12), a sentence per comparison, and the verdicts side by side."""
        from loadbook.report.figures import two_runs as figure

        lines, table = side_by_side.lines(self.found), side_by_side.verdicts(self.found)
        html = render("effects.html.j2", figure=markup(drawn(figure, self.found)), said=lines, table=safe_table(table))
        text = "\n".join(f"{line.glyph} {line.name}{line.text}" for line in lines)
        return Block(str(html), str(clean(f"{text}\n\n{plain(table)}")))

    def verdicts(self) -> Block:
        """Show the verdicts of both runs side by side, without the figure."""
        table = side_by_side.verdicts(self.found)
        return Block(str(safe_table(table)), plain(table))

    def levels(self) -> Block:
        """Show the levels of both runs side by side where all that makes a level agrees."""
        why = self.not_shown()
        if why:
            return note(why)
        table = side_by_side.levels(self.found, self.unlike)
        text = "All recorded conditions agree. Levels drift from run to run: what is compared are the effects above."
        return Block(str(safe_table(table) + render("note.html.j2", text=text)), f"{plain(table)}\n{text}")

    def not_shown(self) -> str | None:
        """Return why the levels of the two runs may not stand side by side; None where they may."""
        foreign = [which for which, data in self._named() if data.run_json.get("imported")]
        if foreign:
            return f"Not shown: the {' and the '.join(foreign)} run was imported, so its hosts are not known."
        breaking = [change for change in self.changes if change.identity and change.about != "treatment"]
        differing = [changed.name(change, self.labels) for change in breaking]
        differing += [] if self.older.facts or self.newer.facts else ["facts of the hosts, of which none were recorded"]
        if not differing:
            return None
        return f"Not shown, as conditions differ on which a level depends: {_some(differing)}."

    @cached_property
    def notes(self) -> list[comparable.Doubt]:
        """What a reader must know before a change is believed."""
        analyses = (("older", self.found.older), ("newer", self.found.newer))
        void = [which for which, analysis in analyses if analysis.laboratory]
        told = "its A/A arm differs from the baseline that it repeats, so none of its effects is compared"
        more = comparable.doubts(self.older, self.newer, self.changes)
        return [*(comparable.Doubt(f"The {which} run contradicts itself", told) for which in void), *more]

    def doubts(self) -> Block:
        """Show in words what could still be wrong, one line each."""
        lines = [trials.Spoken("two-runs", doubt.title, "doubt", 0, doubt.text) for doubt in self.notes]
        for which, data in self._named():
            lines += [replace(one, title=f"{one.title}, {which} run") for one in trials.doubts(data)]
        return block("doubts.html.j2", "\n".join(f"- {d.title}: {d.text}" for d in lines), doubts=lines)

    def provenance(self) -> Block:
        """Show where both runs come from; as the last block it also tells the runner that the end was reached."""
        pairs = [(f"{which} {key}", value) for which, data in self._named() for key, value in setup.provenance(data)]
        shown = block("provenance.html.j2", "\n".join(f"{k}: {v}" for k, v in pairs), pairs=pairs)
        return Block(shown.html, shown.text, {DONE: self.summary()})

    def summary(self) -> dict[str, Any]:
        """Return what the command line says of the two runs."""
        lines = [f"{line.glyph} {line.name}{line.text}" for line in side_by_side.lines(self.found)]
        return {
            "notebook": NOTEBOOK,
            "study": self.newer.study.name,
            "run": self.newer.run,
            "against": self.older.run,
            "sentences": [wording.headline(self.found), self._around(), *lines],
        }


def _some(told: list[str]) -> str:
    more = len(told) - MAX_SAID
    return joined(told if more < 1 else [*told[:MAX_SAID], f"{more} more"])


def two_of(home: Layout, study: str, run: str, against: str) -> tuple[str, str]:
    """Return the ids of two runs, the older one first whichever was named first.

    Parameters
    ----------
    run, against : ids; "latest" is the newest run, `PREVIOUS` as `against` the one before `run`.

    Raises
    ------
    UsageError : there is no such run, or none before it, or both are one.
    """
    one, known = home.resolve_run(study, run), home.runs(study)
    before = [name for name in known if name < one]
    if against == PREVIOUS and not before:
        raise UsageError(f"study {study!r} has no run before {one}", f"runs: {', '.join(known)}; loadbook run {study}")
    other = before[-1] if against == PREVIOUS else home.resolve_run(study, against)
    if one == other:
        raise UsageError(f"run {one} cannot be compared with itself", f"runs of {study!r}: {', '.join(known)}")
    return min(one, other), max(one, other)


def refuse_early(home: Layout, study: str, older: str, newer: str, given: Mapping[str, Any]) -> None:
    """Raise UsageError, before anything is executed, where two runs cannot be compared; `given` are parameters."""
    one, other = (read_record(home.run(study, name)) for name in (older, newer))
    comparable.refuse(one, other, str(given.get("metric", "")), str(given.get("baseline", "")))


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
    home = layout()
    older, newer = two_of(home, study, run, against)
    return ComparePage(load_run(home, study, older), load_run(home, study, newer), baseline, metric, level)
