"""Comparisons asked for in a cell: another metric, baseline or margin, some treatments, group by group.

Two runs of a study in a cell: what changed around them, how far each effect moved, the numbers as a frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from loadbook.analyses.compare_runs import page
from loadbook.analyses.compare_runs.compute import EffectPair
from loadbook.analyses.compare_runs.page import ComparePage, resolve_run_pair
from loadbook.core.errors import DataError, UsageError, unknown_name_error
from loadbook.core.units import NBSP
from loadbook.notebook.display import Card, column, which
from loadbook.report import verdicts
from loadbook.report.blocks import Block, clean, render, table_markup, table_text
from loadbook.report.build import ensure_ingested
from loadbook.report.checks import describe_change
from loadbook.report.page import note_block
from loadbook.stats.analyse import analyse, restrict_to
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.store.paths import project_layout
from loadbook.store.tables import RunData, load_run

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.study.model import Study

DECLARED = "As the study declared it before the run."
ASKED = (
    "Asked now, not declared before the run: {changed}. It explores; to confirm what it shows, declare it and run anew."
)


@dataclass(frozen=True, repr=False)
class Verdicts(Card):
    """What a comparison came to: one analysis per group ("" where there is one only).

    Attributes
    ----------
    groups : level of the column `by` -> its analysis (`stats.results.Analysis`).
    by : the column that made the groups, "" for none.
    changed : what was asked otherwise than the study declared it, in words; nothing: its own question.
    """

    data: RunData
    groups: dict[str, Analysis]
    by: str
    changed: tuple[str, ...]

    @property
    def frame(self) -> pd.DataFrame:
        """The numbers as a plain pandas frame, rounded nowhere; change and bounds are ratios minus 1."""
        import pandas as pd

        found = [{self.by: group} if self.by else {} for group, _ in self._rows()]
        return pd.DataFrame([own | _numbers(row) for own, (_, row) in zip(found, self._rows(), strict=True)])

    @property
    def sentences(self) -> list[str]:
        """A sentence per comparison, in the order of the table."""
        named = {group: f"{self.by} {group}: " if self.by else "" for group in self.groups}
        return [
            f"{line.glyph} {named[group]}{line.name}{line.text}"
            for group, found in self.groups.items()
            for line in verdicts.verdict_lines(found)
        ]

    def _rows(self) -> Iterator[tuple[str, AnalysisRow]]:
        return ((group, row) for group, found in self.groups.items() for row in found.rows)

    def __len__(self) -> int:
        return sum(row.kind != "baseline" for _, row in self._rows())

    def _shown(self) -> Block:
        """Return the table of every group below its headline, and whether the study had declared the question."""
        labels = {name: self.data.study.label(name) for name in self.data.study.treatments}
        shown = [self._group(group, found, labels) for group, found in self.groups.items()]
        told = ASKED.format(changed="; ".join(self.changed)) if self.changed else DECLARED
        html = Markup("").join(html for html, _ in shown) + render("note.html.j2", text=told)
        return Block(str(html), str(clean("\n\n".join([*(text for _, text in shown), told]))))

    def _group(self, group: str, found: Analysis, labels: dict[str, str]) -> tuple[Markup, str]:
        table, said = verdicts.verdict_table(found, labels), verdicts.summarise_answer(found)
        name = f"{self.by} = {group}: " if self.by else ""
        headline = f"{name}{said.headline} Margin ±{found.margin * 100:g}{NBSP}%."
        why = [f"{line.name}{line.text}" for line in verdicts.verdict_lines(found) if line.kind == "invalid"]
        html = render("verdicts.html.j2", headline=headline, table=table_markup(table), why=why)
        return html, "\n".join([headline, table_text(table), *why])


def _numbers(row: AnalysisRow) -> dict[str, Any]:
    verdict = row.verdict
    found = verdict.comparison if verdict else None
    low, high = (found.ci95 if found else None) or (None, None)
    return {
        "treatment": row.treatment,
        "kind": row.kind,
        "verdict": verdict.kind if verdict else None,
        "against": found.baseline if found else None,
        "change": found.effect if found else None,
        "low": low,
        "high": high,
        "p": found.p if found else None,
        "p_adjusted": found.p_adjusted if found else None,
        "blocks": found.blocks if found else None,
        "level": row.median,
        "trials": row.trials,
        "valid_trials": row.valid_trials,
        "reason": verdict.reason if verdict else None,
    }


@dataclass(frozen=True)
class Asked:
    """What `Run.compare` was asked; empty values are the study's own."""

    metric: str = ""
    baseline: str = ""
    treatments: Sequence[str] = ()
    by: str = ""
    margin: float | None = None
    level: float = 0.95


def compare(data: RunData, asked: Asked, left_out: str = "") -> Verdicts:
    """Answer what was asked by the rules of the reports; `left_out` says which trials were taken away before."""
    metric, statistic = which(data, asked.metric) if asked.metric else (data.study.metric, None)
    if asked.margin is not None and not 0 < asked.margin < 1:
        raise UsageError(f"a margin of {asked.margin:g} is not between 0 and 1", "0.02 is 2 %")
    if data.trials.empty:
        said = f"run {data.run} of {data.study.name} has no trial to compare"
        raise DataError(said, f"run.problems says why; loadbook run {data.study.name} --new measures again")
    known = data.plan["treatments"]
    for name in (*asked.treatments, *filter(None, [asked.baseline])):
        if name not in known:
            raise unknown_name_error("treatment", name, known, f"in run {data.run} of {data.study.name}")
    by = asked.by or ("" if asked.baseline else data.study.stratify_by or "")
    part_of = _groups(data, by, asked.treatments) if by else {"": list(data.trials["trial"])}
    groups = {group: _part(data, asked, trials) for group, trials in part_of.items()}
    found = {
        group: analyse(part, metric=metric, statistic=statistic, margin=asked.margin, level=asked.level,
                       baseline=asked.baseline if asked.baseline in part.study.treatments else None)
        for group, part in groups.items()
    }  # fmt: skip
    return Verdicts(data, found, by, tuple(_changed(data, asked, left_out)))


def _groups(data: RunData, by: str, wanted: Sequence[str]) -> dict[str, list[str]]:
    """Return level of a column -> its trials: factors' levels as the study has them, others as they came.

    Levels without any of the `wanted` treatments (all, if it is empty) are left out.
    """
    level = data.trials[column(data.trials, by)].astype(str)
    parts = data.trials.sort_values("slot").groupby(level, sort=False)
    found = {str(k): list(own["trial"]) for k, own in parts if not wanted or set(wanted) & set(own["treatment"])}
    declared = [str(level) for level in _levels(data.study, by)]
    return {one: found[one] for one in [*(d for d in declared if d in found), *(f for f in found if f not in declared)]}


def _levels(study: Study, by: str) -> Sequence[Any]:
    factor = study.factors.get(by.removeprefix("factor_"))
    return factor.levels if factor else ()


def _part(data: RunData, asked: Asked, trials: list[str]) -> RunData:
    """Return the run with these trials of the treatments asked for, what they are compared with, and their checks."""
    study = data.study
    own = data.trials[data.trials["trial"].isin(trials)]
    there = [name for name in data.plan["treatments"] if name in set(own["treatment"])]
    base = _baseline(study, asked.baseline, there)
    twins = {
        name: study.repeated_treatment(name) or study.baseline_of(name)
        for name in there
        if study.treatments[name].check
    }
    chosen = {*asked.treatments, base} if asked.treatments else {name for name in there if name not in twins} | {base}
    kept = {*(chosen & set(there)), *(check for check, twin in twins.items() if twin in chosen and twin in there)}
    whole = restrict_to(data, kept, baseline=base)
    mine = whole.trials[whole.trials["trial"].isin(trials)].reset_index(drop=True)
    if len(own) == len(data.trials):
        return whole
    return replace(whole, trials=mine, plan=whole.plan | {"blocks": whole_blocks(mine)})


def whole_blocks(trials: pd.DataFrame) -> int:
    """Return how many blocks hold every treatment that is among these trials, whether or not they count."""
    there = trials.groupby("block")["treatment"].nunique()
    return int((there == trials["treatment"].nunique()).sum())


def _baseline(study: Study, wished: str, there: Sequence[str]) -> str:
    """Return what a group is compared with: as asked, else the study's, else the first treatment that it has."""
    declared = [study.baseline_of(name) for name in there[:1]]
    found = (name for name in (wished, study.baseline, *declared, *there) if name in there)
    return next(found, study.baseline)


def _changed(data: RunData, asked: Asked, left_out: str) -> Iterator[str]:
    """Yield in words what is not as the study declared it."""
    study = data.study
    if left_out:
        yield left_out
    if asked.metric and which(data, asked.metric)[0] != study.metric:
        yield f"metric {asked.metric} instead of {study.metric}"
    elif asked.metric and which(data, asked.metric) != (study.metric, which(data, study.metric)[1]):
        yield f"statistic {asked.metric}"
    if asked.baseline and asked.baseline != study.baseline:
        yield f"baseline {asked.baseline} instead of {study.baseline}"
    if asked.treatments:
        yield f"treatments {', '.join(asked.treatments)} only"
    if asked.by and asked.by != study.stratify_by:
        yield f"each {asked.by} by itself"
    if asked.margin is not None and asked.margin != study.margin:
        yield f"margin {asked.margin * 100:g}{NBSP}% instead of {study.margin * 100:g}{NBSP}%"
    if asked.level != Asked.level:
        yield f"level {asked.level:g}"


def other_run(data: RunData, against: str) -> RunData:
    """Load another run of a run's study, its tables made first where they are missing or old."""
    home, study = project_layout(), data.paths.raw.parent.name
    older, newer = resolve_run_pair(home, study, data.run, against)
    paths = home.run(study, older if newer == data.run else newer)
    ensure_ingested(paths, lambda said: None)
    return load_run(home, study, paths.raw.name)


def page_with(data: RunData, against: str, baseline: str = "", metric: str = "", level: float = 0.95) -> ComparePage:
    """Return the page of a run and another one of its study, the older first."""
    older, newer = sorted((other_run(data, against), data), key=lambda one: one.run)
    return ComparePage(older, newer, baseline, metric, level)


class Moves(Card):
    """How far each effect moved between two runs; the one that began first is the older.

    Attributes
    ----------
    page : what the report of two runs shows, block by block (`analyses.compare_runs.page.ComparePage`).
    left_out : which trials were taken away by hand before, in words.
    """

    def __init__(
        self, data: RunData, against: str, baseline: str, metric: str, level: float, left_out: str = ""
    ) -> None:
        self.page = page_with(data, against, baseline, metric, level)
        self.left_out = left_out

    @property
    def changes(self) -> list[str]:
        """What is recorded otherwise of the newer run, in words."""
        return [describe_change(change, self.page.labels) for change in self.page.changes]

    @property
    def sentences(self) -> list[str]:
        """A sentence per comparison, in the order of the table."""
        return [f"{line.glyph} {line.name}{line.text}" for line in page.pair_lines(self.page.result)]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The numbers as a plain pandas frame, rounded nowhere; effects and bounds are ratios minus 1."""
        import pandas as pd

        return pd.DataFrame([_against_numbers(row) for row in self.page.result.rows])

    def __len__(self) -> int:
        return len(self.page.result.rows)

    def _shown(self) -> Block:
        """Return the answer, what changed in the records, and the verdicts side by side."""
        blocks = [self.page.answer(), self.page.conditions(), self.page.verdicts()]
        blocks += [note_block(f"{self.left_out}: it explores.")] if self.left_out else []
        first = blocks[0]
        html, text = "".join(one.html for one in blocks), "\n\n".join(one.text for one in blocks)
        return replace(first, html=html, text=text)


def _against_numbers(row: EffectPair) -> dict[str, Any]:
    shift = row.change
    low, high = shift.ci95 if shift else (None, None)
    return {
        "treatment": row.row.treatment,
        "kind": row.row.kind,
        "word": row.kind,
        "older": _effect(row.older),
        "newer": _effect(row.newer),
        "moved": shift.effect if shift else None,
        "low": low,
        "high": high,
        "p": shift.p if shift else None,
        "p_adjusted": shift.p_adjusted if shift else None,
        "blocks_needed": row.blocks_needed,
        "reason": row.reason,
    }


def _effect(side: AnalysisRow | None) -> float | None:
    return side.verdict.comparison.effect if side and side.verdict else None
