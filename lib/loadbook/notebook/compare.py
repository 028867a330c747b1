"""Comparisons in a cell: within a run by another metric, baseline, margin or group, and between two runs of a study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from loadbook.analyses.compare_runs import page
from loadbook.analyses.compare_runs.compute import EffectPair
from loadbook.analyses.compare_runs.page import ComparePage, resolve_run_pair
from loadbook.core.errors import DataError, UsageError, unknown_name_error
from loadbook.core.units import NBSP
from loadbook.notebook.display import Displayable
from loadbook.notebook.trials import column_name, resolve_metric, whole_blocks
from loadbook.report import verdicts
from loadbook.report.blocks import Block, lines_list, note, note_block
from loadbook.report.build import ensure_ingested
from loadbook.report.checks import describe_change
from loadbook.report.nodes import Group, Paragraph, Strong
from loadbook.stats.analyse import analyse
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.store.paths import project_layout
from loadbook.store.tables import RunData, load_run, restrict_to

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.study.model import Study

DECLARED_NOTE = "As the study declared it before the run."
REQUESTED_NOTE = (
    "Asked now, not declared before the run: {changed}. It explores; to confirm what it shows, declare it and run anew."
)


@dataclass(frozen=True, repr=False)
class Verdicts(Displayable):
    """The result of a comparison: one analysis per group ("" where there is one only).

    Attributes
    ----------
    groups : level of the column `by` -> its analysis (`stats.results.Analysis`).
    by : the column that made the groups, "" for none.
    changed : the differences from the question that the study declared, in words.
    """

    data: RunData
    groups: dict[str, Analysis]
    by: str
    changed: tuple[str, ...]

    @property
    def frame(self) -> pd.DataFrame:
        """The numbers as a plain pandas frame, rounded nowhere; change and bounds are ratios minus 1."""
        import pandas as pd

        rows = [({self.by: group} if self.by else {}) | _numbers(row) for group, row in self._rows()]
        return pd.DataFrame(rows)

    @property
    def sentences(self) -> list[str]:
        """A sentence per comparison, in the order of the table."""
        return [
            f"{line.glyph} {f'{self.by} {group}: ' if self.by else ''}{line.name}{line.text}"
            for group, analysis in self.groups.items()
            for line in verdicts.verdict_lines(analysis)
        ]

    def _rows(self) -> Iterator[tuple[str, AnalysisRow]]:
        return ((group, row) for group, analysis in self.groups.items() for row in analysis.rows)

    def __len__(self) -> int:
        return sum(row.kind != "baseline" for _, row in self._rows())

    def _block(self) -> Block:
        """Return the table of every group below its headline, and whether the study had declared the question."""
        labels = {name: self.data.study.label(name) for name in self.data.study.treatments}
        parts = [self._group(group, analysis, labels) for group, analysis in self.groups.items()]
        text = REQUESTED_NOTE.format(changed="; ".join(self.changed)) if self.changed else DECLARED_NOTE
        return Block(*parts, note(text))

    def _group(self, group: str, analysis: Analysis, labels: dict[str, str]) -> Group:
        name = f"{self.by} = {group}: " if self.by else ""
        answer = verdicts.summarise_answer(analysis).headline
        headline = f"{name}{answer} Margin ±{analysis.margin * 100:g}{NBSP}%."
        invalid = [f"{line.name}{line.text}" for line in verdicts.verdict_lines(analysis) if line.kind == "invalid"]
        table = verdicts.verdict_table(analysis, labels)
        return Group(Paragraph(Strong(headline)), table, lines_list(invalid) if invalid else None)


def _numbers(row: AnalysisRow) -> dict[str, Any]:
    verdict = row.verdict
    comparison = verdict.comparison if verdict else None
    low, high = (comparison.ci95 if comparison else None) or (None, None)
    return {
        "treatment": row.treatment,
        "kind": row.kind,
        "verdict": verdict.kind if verdict else None,
        "against": comparison.baseline if comparison else None,
        "change": comparison.effect if comparison else None,
        "low": low,
        "high": high,
        "p": comparison.p if comparison else None,
        "p_adjusted": comparison.p_adjusted if comparison else None,
        "blocks": comparison.blocks if comparison else None,
        "level": row.median,
        "trials": row.trials,
        "valid_trials": row.valid_trials,
        "reason": verdict.reason if verdict else None,
    }


@dataclass(frozen=True)
class ComparisonRequest:
    """The arguments of `Run.compare`; empty values select the study's own."""

    metric: str = ""
    baseline: str = ""
    treatments: Sequence[str] = ()
    by: str = ""
    margin: float | None = None
    level: float = 0.95


def compare(data: RunData, request: ComparisonRequest, selection_note: str = "") -> Verdicts:
    """Compare by the rules of the reports; `selection_note` names trials that were taken away before."""
    metric, statistic = resolve_metric(data, request.metric) if request.metric else (data.study.metric, None)
    if request.margin is not None and not 0 < request.margin < 1:
        raise UsageError(f"a margin of {request.margin:g} is not between 0 and 1", "0.02 is 2 %")
    if data.trials.empty:
        message = f"run {data.run} of {data.study.name} has no trial to compare"
        raise DataError(message, f"run.problems says why; loadbook run {data.study.name} --new measures again")
    known = data.plan["treatments"]
    for name in (*request.treatments, *filter(None, [request.baseline])):
        if name not in known:
            raise unknown_name_error("treatment", name, known, f"in run {data.run} of {data.study.name}")
    by = request.by or ("" if request.baseline else data.study.stratify_by or "")
    trials_by_group = _groups(data, by, request.treatments) if by else {"": list(data.trials["trial"])}
    groups = {group: _group_data(data, request, trials) for group, trials in trials_by_group.items()}
    analyses = {
        group: analyse(part, metric=metric, statistic=statistic, margin=request.margin, level=request.level,
                       baseline=request.baseline if request.baseline in part.study.treatments else None)
        for group, part in groups.items()
    }  # fmt: skip
    return Verdicts(data, analyses, by, tuple(_differences(data, request, selection_note)))


def _groups(data: RunData, by: str, wanted: Sequence[str]) -> dict[str, list[str]]:
    """Return level of a column -> its trials: a factor's levels in the study's order, others as they came.

    Levels without any of the `wanted` treatments (all, if it is empty) are left out.
    """
    levels = data.trials[column_name(data.trials, by)].astype(str)
    parts = data.trials.sort_values("slot").groupby(levels, sort=False)
    groups = {str(k): list(own["trial"]) for k, own in parts if not wanted or set(wanted) & set(own["treatment"])}
    factor = data.study.factors.get(by.removeprefix("factor_"))
    declared = [str(level) for level in factor.levels] if factor else []
    return {name: groups[name] for name in dict.fromkeys([*declared, *groups]) if name in groups}


def _group_data(data: RunData, request: ComparisonRequest, trials: list[str]) -> RunData:
    """Return the run with these trials of the requested treatments, of their baseline, and of their checks."""
    study = data.study
    own = data.trials[data.trials["trial"].isin(trials)]
    present = [name for name in data.plan["treatments"] if name in set(own["treatment"])]
    baseline = _baseline(study, request.baseline, present)
    checked_arms = {
        name: study.repeated_treatment(name) or study.baseline_of(name)
        for name in present
        if study.treatments[name].check
    }
    wanted = set(request.treatments or (name for name in present if name not in checked_arms)) | {baseline}
    checks = {check for check, arm in checked_arms.items() if arm in wanted and arm in present}
    part = restrict_to(data, (wanted & set(present)) | checks, baseline=baseline)
    if len(own) == len(data.trials):
        return part
    kept = part.trials[part.trials["trial"].isin(trials)].reset_index(drop=True)
    return replace(part, trials=kept, plan=part.plan | {"blocks": whole_blocks(kept)})


def _baseline(study: Study, requested: str, present: Sequence[str]) -> str:
    """Return the baseline of a group: the requested one, else the study's, else the group's first treatment."""
    candidates = (requested, study.baseline, *(study.baseline_of(name) for name in present[:1]), *present)
    return next((name for name in candidates if name in present), study.baseline)


def _differences(data: RunData, request: ComparisonRequest, selection_note: str) -> Iterator[str]:
    """Yield in words each difference from the question that the study declared."""
    study = data.study
    if selection_note:
        yield selection_note
    if request.metric:
        metric, statistic = resolve_metric(data, request.metric)
        if metric != study.metric:
            yield f"metric {request.metric} instead of {study.metric}"
        elif statistic != resolve_metric(data, study.metric)[1]:
            yield f"statistic {request.metric}"
    if request.baseline and request.baseline != study.baseline:
        yield f"baseline {request.baseline} instead of {study.baseline}"
    if request.treatments:
        yield f"treatments {', '.join(request.treatments)} only"
    if request.by and request.by != study.stratify_by:
        yield f"each {request.by} by itself"
    if request.margin is not None and request.margin != study.margin:
        yield f"margin {request.margin * 100:g}{NBSP}% instead of {study.margin * 100:g}{NBSP}%"
    if request.level != ComparisonRequest.level:
        yield f"level {request.level:g}"


def comparison_page(
    data: RunData, against: str, baseline: str = "", metric: str = "", level: float = 0.95
) -> ComparePage:
    """Return the page that compares a run with another one of its study, the older first; missing tables are made."""
    layout, study = project_layout(), data.paths.raw.parent.name
    older, newer = resolve_run_pair(layout, study, data.run, against)
    paths = layout.run(study, older if newer == data.run else newer)
    ensure_ingested(paths, lambda text: None)
    other = load_run(layout, study, paths.raw.name)
    first, second = (other, data) if older != data.run else (data, other)
    return ComparePage(first, second, baseline, metric, level)


class EffectChanges(Displayable):
    """How far each effect moved between two runs; the one that began first is the older.

    Attributes
    ----------
    page : the report of two runs, block by block (`analyses.compare_runs.page.ComparePage`).
    selection_note : the trials that were taken away by hand before, in words.
    """

    def __init__(
        self, data: RunData, against: str, baseline: str, metric: str, level: float, selection_note: str = ""
    ) -> None:
        self.page = comparison_page(data, against, baseline, metric, level)
        self.selection_note = selection_note

    @property
    def changes(self) -> list[str]:
        """Every recorded condition that differs in the newer run, in words."""
        return [describe_change(change, self.page.labels) for change in self.page.changes]

    @property
    def sentences(self) -> list[str]:
        """A sentence per comparison, in the order of the table."""
        return [f"{line.glyph} {line.name}{line.text}" for line in page.pair_lines(self.page.result)]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The numbers as a plain pandas frame, rounded nowhere; effects and bounds are ratios minus 1."""
        import pandas as pd

        return pd.DataFrame([_change_numbers(row) for row in self.page.result.rows])

    def __len__(self) -> int:
        return len(self.page.result.rows)

    def _block(self) -> Block:
        """Return the answer, what changed in the records, and the verdicts side by side."""
        blocks = [self.page.answer(), self.page.conditions(), self.page.verdicts()]
        blocks += [note_block(f"{self.selection_note}: it explores.")] if self.selection_note else []
        return Block(*blocks, data=blocks[0].data)


def _change_numbers(row: EffectPair) -> dict[str, Any]:
    change = row.change
    low, high = change.ci95 if change else (None, None)
    return {
        "treatment": row.row.treatment,
        "kind": row.row.kind,
        "word": row.kind,
        "older": _effect(row.older),
        "newer": _effect(row.newer),
        "moved": change.effect if change else None,
        "low": low,
        "high": high,
        "p": change.p if change else None,
        "p_adjusted": change.p_adjusted if change else None,
        "blocks_needed": row.blocks_needed,
        "reason": row.reason,
    }


def _effect(side: AnalysisRow | None) -> float | None:
    return side.verdict.comparison.effect if side and side.verdict else None
