"""Objects that a notebook cell displays; tables of trials and comparisons.

It finds metrics by the names that users type, makes tables of trials, restricts runs to some of their trials, and
compares treatments within a run (with any metric, baseline, margin or group) and effects between two runs of a study.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from loadbook.analyses.compare_runs import page
from loadbook.analyses.compare_runs.page import ComparePage, resolve_run_pair
from loadbook.core.errors import DataError, UsageError, unknown_name_error
from loadbook.core.metrics import METRICS, find_metric, get_metric
from loadbook.core.text import nearest_names
from loadbook.core.units import NBSP
from loadbook.report import verdicts
from loadbook.report.blocks import Block, lines_list, note, note_block
from loadbook.report.build import ensure_ingested
from loadbook.report.checks import describe_change
from loadbook.report.nodes import Group, Paragraph, Picture, Strong, Stylesheet
from loadbook.stats.analyse import analyse
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.store.paths import project_layout
from loadbook.store.tables import RunData, load_run, restrict_to

if TYPE_CHECKING:
    from loadbook.report.figures.base import ReportFigure


class Displayable:
    """Base class of results that JupyterLab displays as HTML of a report, and a terminal as text.

    A subclass defines `_block()`. Jupyter calls the `_repr_` methods (IPython's rich display), users call none of them.
    """

    def _block(self) -> Block:
        """Return the block to display."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._block().text

    def _repr_html_(self) -> str:
        return str(self._repr_mimebundle_()["text/html"])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        """Return MIME type -> content of the block, from which Jupyter chooses."""
        return styled(self._block())._repr_mimebundle_()


def styled(block: Block) -> Block:
    """Return a block together with the reports' style sheet, which a cell outside of a report needs."""
    return Block(Stylesheet(), block, data=block.data)


class FigureView(Displayable):
    """A figure of a run with its caption; `figure()` is matplotlib's object, `save(path)` writes it to a file."""

    def __init__(self, figure: ReportFigure) -> None:
        self._figure, self._picture = figure, Block(Picture(figure))

    def _block(self) -> Block:
        """Return the picture with its caption and its text for screen readers."""
        return self._picture

    @property
    def answer(self) -> str:
        """The conclusion of the figure, which is its caption."""
        return self._figure.caption

    def figure(self) -> Any:
        """Return the figure as a matplotlib Figure that can be changed."""
        return self._figure.draw()

    def save(self, path: str) -> Path:
        """Write the figure to a file in the format of its suffix (.svg, .png, .pdf) and return the path.

        Raises UsageError for a suffix that matplotlib cannot write.
        """
        out = Path(path)
        figure = self.figure()
        kinds = sorted(figure.canvas.get_supported_filetypes())
        if out.suffix.removeprefix(".") not in kinds:
            raise unknown_name_error("kind of picture", out.suffix, kinds, plural="kinds")
        figure.savefig(out)
        return out


FIRST_COLUMNS = ("trial", "treatment", "block", "slot", "status", "valid")
DECLARED_NOTE = "As the study declared it before the run."
REQUESTED_NOTE = (
    "Asked now, not declared before the run: {changed}. It explores; to confirm what it shows, declare it and run anew."
)


def available_metrics(data: RunData) -> dict[str, tuple[str, str]]:
    """Return name, as users type it ("ok_per_s", "latency p99") -> metric and statistic, for all measured metrics.

    The name has no statistic if it is the metric's default ("latency" is "latency p50").
    """
    totals = data.measurements[data.measurements["driver"] == "*"]
    measured = set(map(tuple, totals[["metric", "statistic"]].drop_duplicates().to_numpy().tolist()))
    metrics = {}
    order = list(METRICS)
    for metric, statistic in sorted(measured, key=lambda pair: (order.index(pair[0].partition(".")[0]), *pair)):
        is_default = get_metric(metric).default_statistic == statistic
        metrics[metric if is_default else f"{metric} {statistic}"] = (metric, statistic)
    return metrics


def resolve_metric(data: RunData, name: str) -> tuple[str, str]:
    """Return (metric, statistic) of a name such as "latency p99"; without statistic it is the metric's default.

    Raises UsageError for a name that was not measured; it lists the most similar names first.
    """
    known, name = available_metrics(data), str(name)
    metric, _, statistic = name.partition(" ")
    wanted = find_metric(metric)
    default = wanted.default_statistic if wanted else None
    resolved = known.get(metric if statistic == default else name)
    if resolved is None:
        raise unknown_name_error("metric", name, known, f"in run {data.run} of {data.study.name}", "measured there")
    return resolved


def trials_table(data: RunData, names: tuple[str, ...]) -> pd.DataFrame:
    """Return the trials in order of execution, with a column for each named metric, in base units (s, bytes, 1/s).

    `names` are keys of `available_metrics`. A trial without a value has NaN.
    """
    columns = [*FIRST_COLUMNS, *(c for c in data.trials.columns if c not in FIRST_COLUMNS)]
    frame = data.trials[columns].sort_values("slot", ignore_index=True)
    for name in names:
        values = data.values(*resolve_metric(data, name)).set_index("trial")["value"]
        frame[name] = frame["trial"].map(values)
    return frame[[*FIRST_COLUMNS, *names, *(c for c in columns if c not in FIRST_COLUMNS)]]


def slowest_trials(data: RunData, metric: str = "") -> pd.DataFrame:
    """Return all trials with `away` (ratio to the median of the treatment, minus 1), sorted from worst to best.

    `metric` is a key of `available_metrics`, "" the study's metric. The median is that of valid trials. Trials
    without a value have NaN and are last.
    """
    name = metric or data.study.metric
    frame = trials_table(data, (name,))
    median = frame[name].where(frame["valid"]).groupby(frame["treatment"]).transform("median")
    frame["away"] = frame[name] / median - 1
    higher_is_better = get_metric(name.partition(" ")[0]).better != "lower"
    table = frame[["trial", "treatment", "block", "slot", name, "away", "status", "valid", "gates"]]
    return table.sort_values("away", ascending=higher_is_better, kind="stable", ignore_index=True)


def select_trials(trials: pd.DataFrame, query: Any) -> pd.DataFrame:
    """Return the trials selected by a pandas query on their columns, or by a mask.

    A mask is a sequence of truth values, one for each row of `trials`. Raises UsageError if query or mask is invalid.
    """
    if not isinstance(query, str):
        mask = list(query)
        if len(mask) == len(trials) and all(value in (True, False) for value in mask):
            return trials[[bool(value) for value in mask]]
        raise UsageError(
            f"a mask has a truth value for each of the {len(trials)} trials, in the order of run.trials",
            'or ask by a query, "block > 2", or take some away: run.without("t0007")',
        )
    try:
        return trials.query(query)
    except Exception as error:  # pandas raises many types: an undefined name, a syntax error, a wrong type
        columns = nearest_names(getattr(error, "name", "") or query, map(str, trials.columns))
        message = f"{query!r} is no query of the trials: {error}"
        raise UsageError(message[:300], f"columns: {', '.join(columns)}") from None


def check_trials(data: RunData, names: Iterable[str]) -> None:
    """Raise UsageError for a name that no trial of the run has; it lists the most similar names first."""
    known = set(data.trials["trial"])
    for name in names:
        if name not in known:
            raise unknown_name_error("trial", name, data.trials["trial"], f"in run {data.run}")


def restrict_to_trials(data: RunData, kept: pd.DataFrame) -> RunData:
    """Return the run with these trials only (rows of `data.trials`); problems that are not about a trial are kept.

    Raises UsageError if `kept` is empty.
    """
    if kept.empty:
        raise UsageError("no trial is left", "run.trials has all of them")
    names = set(kept["trial"])
    frames: dict[str, Any] = {"measurements": data.measurements, "samples": data.samples, "traces": data.traces}
    return replace(
        data,
        trials=kept.reset_index(drop=True),
        plan=replace(data.plan, blocks=whole_blocks(kept)),
        problems=data.problems[data.problems["trial"].isin(names) | data.problems["trial"].isna()],
        **{name: frame[frame["trial"].isin(names)] for name, frame in frames.items()},
    )


def whole_blocks(trials: pd.DataFrame) -> int:
    """Return the number of blocks with a trial (valid or not) of every treatment that occurs in these trials."""
    treatments = trials.groupby("block")["treatment"].nunique()
    return int((treatments == trials["treatment"].nunique()).sum())


@dataclass(frozen=True, repr=False)
class Verdicts(Displayable):
    """The result of a comparison: one analysis per group of trials.

    Attributes
    ----------
    groups : level of the column `by` -> its analysis (`stats.results.Analysis`); "" is the key if there are no groups.
    by : the column by which trials were grouped, "" for none.
    changed : texts on how the comparison differs from the one that the study declared.
    """

    data: RunData
    groups: dict[str, Analysis]
    by: str
    changed: tuple[str, ...]

    @property
    def frame(self) -> pd.DataFrame:
        """One row per treatment and group, not rounded; change and bounds are ratios minus 1.

        The first column is `by`, if trials were grouped. `report.verdicts.verdict_frame` describes the others.
        """
        frames = {group: verdicts.verdict_frame(analysis) for group, analysis in self.groups.items()}
        frame = pd.concat(frames, names=[self.by]).reset_index(level=0).reset_index(drop=True)
        return frame if self.by else frame.drop(columns=self.by)

    @property
    def sentences(self) -> list[str]:
        """One sentence per comparison, in the order of the table."""
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
        """Return headline and table of every group, and how the comparison differs from the one that was declared."""
        labels = self.data.study.labels
        parts = []
        for group, analysis in self.groups.items():
            answer = verdicts.summarise_answer(analysis).headline
            name = f"{self.by} = {group}: " if self.by else ""
            headline = f"{name}{answer} Margin ±{analysis.margin * 100:g}{NBSP}%."
            invalid = [f"{line.name}{line.text}" for line in verdicts.verdict_lines(analysis) if line.kind == "invalid"]
            table = verdicts.verdict_table(analysis, labels)
            parts.append(Group(Paragraph(Strong(headline)), table, lines_list(invalid) if invalid else None))
        text = REQUESTED_NOTE.format(changed="; ".join(self.changed)) if self.changed else DECLARED_NOTE
        return Block(*parts, note(text))


@dataclass(frozen=True)
class ComparisonRequest:
    """The arguments of `Run.compare`; empty values stand for those of the study."""

    metric: str = ""
    baseline: str = ""
    treatments: Sequence[str] = ()
    by: str = ""
    margin: float | None = None
    level: float = 0.95


def compare(data: RunData, request: ComparisonRequest, selection_note: str = "") -> Verdicts:
    """Compare treatments as the reports do; `selection_note` is a text on trials that the user has left out."""
    metric, statistic = resolve_metric(data, request.metric) if request.metric else (data.study.metric, None)
    if request.margin is not None and not 0 < request.margin < 1:
        raise UsageError(f"a margin of {request.margin:g} is not between 0 and 1", "0.02 is 2 %")
    if data.trials.empty:
        message = f"run {data.run} of {data.study.name} has no trial to compare"
        raise DataError(message, f"run.problems says why; loadbook run {data.study.name} --new measures again")
    known = data.plan.treatments
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
    """Return level of a column -> its trials: levels of a factor in the study's order, others in order of occurrence.

    Levels without trials of the `wanted` treatments are left out, unless `wanted` is empty.
    """
    columns = list(map(str, data.trials.columns))
    column = next((name for name in (by, f"factor_{by}") if name in columns), None)
    if column is None:
        raise unknown_name_error("column", by, [c.removeprefix("factor_") for c in columns], "among the trials")
    levels = data.trials[column].map(_level_name)
    parts = data.trials.sort_values("slot").groupby(levels, sort=False)
    groups = {str(k): list(own["trial"]) for k, own in parts if not wanted or set(wanted) & set(own["treatment"])}
    factor = data.study.factors.get(by.removeprefix("factor_"))
    declared = [_level_name(level) for level in factor.levels] if factor else []
    return {name: groups[name] for name in dict.fromkeys([*declared, *groups]) if name in groups}


def _level_name(level: object) -> str:
    """Return a level as the study has it: 2 for 2.0, which a column with missing levels contains."""
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)


def _group_data(data: RunData, request: ComparisonRequest, trials: list[str]) -> RunData:
    """Return the run with only those of `trials` that belong to the requested treatments, baseline, or their checks."""
    study = data.study
    own = data.trials[data.trials["trial"].isin(trials)]
    present = [name for name in data.plan.treatments if name in set(own["treatment"])]
    # the requested baseline, else the study's, else the group's first treatment
    candidates = (request.baseline, study.baseline, *(study.baseline_of(name) for name in present[:1]), *present)
    baseline = next((name for name in candidates if name in present), study.baseline)
    checks = {name for name in present if study.treatments[name].check}
    checked_arms = {name: study.repeated_treatment(name) or study.baseline_of(name) for name in checks}
    wanted = set(request.treatments or (name for name in present if name not in checks)) | {baseline}
    kept_checks = {check for check, arm in checked_arms.items() if arm in wanted and arm in present}
    part = restrict_to(data, (wanted & set(present)) | kept_checks, baseline=baseline)
    if len(own) == len(data.trials):
        return part
    kept = part.trials[part.trials["trial"].isin(trials)].reset_index(drop=True)
    return replace(part, trials=kept, plan=replace(part.plan, blocks=whole_blocks(kept)))


def _differences(data: RunData, request: ComparisonRequest, selection_note: str) -> Iterator[str]:
    """Yield a text for each difference between this comparison and the one that the study declared."""
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
    """Return the page that compares two runs of a study, after making missing tables; the older run is first.

    `against` is the id of the other run, or `PREVIOUS`. "" for `baseline` or `metric` stands for the study's.
    """
    layout, study = project_layout(), data.paths.raw.parent.name
    older, newer = resolve_run_pair(layout, study, data.run, against)
    paths = layout.run(study, older if newer == data.run else newer)
    ensure_ingested(paths, lambda text: None)
    other = load_run(layout, study, paths.raw.name)
    first, second = (other, data) if older != data.run else (data, other)
    return ComparePage(first, second, baseline, metric, level)


class EffectChanges(Displayable):
    """Change of each effect from the older to the newer of two runs; the older is the one that began first.

    Attributes
    ----------
    page : the sections of the report on two runs (`analyses.compare_runs.page.ComparePage`).
    selection_note : text on trials that the user has left out; "" for none.
    """

    def __init__(
        self, data: RunData, against: str, baseline: str, metric: str, level: float, selection_note: str = ""
    ) -> None:
        self.page = comparison_page(data, against, baseline, metric, level)
        self.selection_note = selection_note

    @property
    def changes(self) -> list[str]:
        """A text for each recorded condition (host facts, versions, settings) that differs in the newer run."""
        return [describe_change(change, self.page.labels) for change in self.page.changes]

    @property
    def sentences(self) -> list[str]:
        """One sentence per comparison, in the order of the table."""
        return [line.sentence for line in page.pair_lines(self.page.result)]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per treatment and harness check, not rounded; effects and bounds are ratios minus 1.

        `older` and `newer` are the effects in the two runs, `moved` is (1 + newer) / (1 + older) - 1, and `low` and
        `high` are the bounds of `moved`.
        """
        return self.page.data()

    def __len__(self) -> int:
        return len(self.page.result.rows)

    def _block(self) -> Block:
        """Return the answer, the recorded conditions that changed, and the verdicts of both runs side by side."""
        blocks = [self.page.answer(), self.page.conditions(), self.page.verdicts()]
        blocks += [note_block(f"{self.selection_note}: it explores.")] if self.selection_note else []
        return Block(*blocks, data=blocks[0].data)
