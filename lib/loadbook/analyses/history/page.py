"""The effects of one run, for its study's history: what its report says of each comparison, kept with its tables.

Intervals of many trials take a second or so to compute, a history has a hundred runs, and what a run found changes only
with its tables or with our statistics.

Every run of a study, read for its history: on which hosts, what it found, what changed since the one before.

A run that cannot be read or does not count is told with its reason, and the others go on.

The page of a study's history: what became of each effect from run to run, and what else changed with it.
"""

from __future__ import annotations

import calendar
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import loadbook.stats
from loadbook.analyses.history import text as words
from loadbook.analyses.history.compute import (
    ALARM_RATE,
    EffectPoint,
    EffectSeries,
    RunEffect,
    RunSummary,
    StudyHistory,
    effect_series,
)
from loadbook.core.errors import DataError, LoadbookError, UsageError
from loadbook.core.metrics import METRICS, get_metric
from loadbook.core.text import one_line
from loadbook.core.units import NBSP, format_percent, format_percent_range
from loadbook.report import checks, palette
from loadbook.report.blocks import (
    DASH,
    Block,
    Column,
    Table,
    VerdictCell,
    clean,
    figure_block,
    notebook_style,
    render,
    render_block,
    table_markup,
    table_text,
)
from loadbook.report.build import ensure_ingested
from loadbook.report.notebooks import DONE_MIME
from loadbook.report.verdicts import AnswerSummary, VerdictLine
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.text import added_blocks_text, direction, margin_text
from loadbook.store.conditions import (
    BEFORE_SUFFIX,
    BOOT_ID_FACT,
    MACHINE_FACT,
    ConditionChange,
    RunConditions,
    condition_changes,
    treatment_contrast,
)
from loadbook.store.ledger import is_run_complete
from loadbook.store.paths import Layout, RunPaths, project_layout
from loadbook.store.schema import TABLES, read_table
from loadbook.store.tables import RunData, read_run_conditions
from loadbook.store.trial_record import read_json, write_json

EFFECT_TABLES = ("trials", "measurements", "samples", "problems")  # traces are large, and no effect depends on them


def run_effects(paths: RunPaths, record: RunConditions, metric: str) -> tuple[RunEffect, ...]:
    """Return every comparison of an ingested run on a metric, checks included.

    Raises
    ------
    DataError : a table cannot be read.
    """
    cache, key = paths.processed / f".effects-{metric}.json", _cache_key(paths, record)
    records = _read_cached_effects(cache, key)
    if records is None:
        records = [asdict(effect) for effect in _compute_effects(paths, record, metric)]
        write_json(cache, {"key": key, "effects": records})
    return tuple(_effect_from_record(one) for one in records)


def _read_cached_effects(cache: Path, key: str) -> list[dict[str, Any]] | None:
    try:
        document = read_json(cache)
    except DataError:  # none yet, or torn
        return None
    found: list[dict[str, Any]] | None = (
        document["effects"] if isinstance(document, dict) and document.get("key") == key else None
    )
    return found


def _effect_from_record(record: dict[str, Any]) -> RunEffect:
    return RunEffect(**record | {"interval": tuple(record["interval"]) if record["interval"] else None})


def _cache_key(paths: RunPaths, record: RunConditions) -> str:
    """Return what tells whether tables, plan and statistics are those that were remembered."""
    tables = [found.stat() for name in EFFECT_TABLES if (found := paths.table(name)).is_file()]
    return _short_digest(
        [_stats_version(), [(table.st_size, table.st_mtime_ns) for table in tables], _short_digest(record.plan)]
    )


@cache
def _stats_version() -> str:
    """Return what tells one version of our statistics from another."""
    files = sorted(Path(loadbook.stats.__file__).parent.rglob("*.py"))
    return _short_digest([(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files])


def _short_digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _compute_effects(paths: RunPaths, record: RunConditions, metric: str) -> list[RunEffect]:
    import pandas as pd

    from loadbook.stats.analyse import analyse_strata

    frames = {name: read_table(paths.table(name), name) for name in EFFECT_TABLES}
    traces = pd.DataFrame(columns=list(TABLES["traces"]))
    data = RunData(record.study, record.plan, record.run_record, record.facts, paths.raw.name, paths,
                   traces=traces, **frames)  # fmt: skip
    found = analyse_strata(data, metric=metric, fixed=True)
    return [_row_effect(record, found, row) for row in found.rows if row.kind != "baseline"]


def _row_effect(record: RunConditions, found: Analysis, row: AnalysisRow) -> RunEffect:
    verdict = row.verdict
    comparison = verdict.comparison if verdict else None
    return RunEffect(
        treatment=row.treatment,
        label=row.label,
        kind=row.kind,
        verdict=verdict.kind if verdict else "invalid",
        effect=comparison.effect if comparison else None,
        interval=comparison.ci95 if comparison else None,
        level=comparison.level if comparison else found.level,
        blocks=comparison.blocks if comparison else 0,
        reason=None if verdict and verdict.kind != "invalid" else (verdict and verdict.reason) or "it has no values",
        passed=row.passed,
        asked=_question_parts(record, found, row.treatment, comparison.baseline if comparison else found.baseline),
    )


def _question_parts(record: RunConditions, found: Analysis, treatment: str, against: str) -> dict[str, str]:
    """Return the parts of the question that one comparison answers."""
    study = record.study
    declared = study.model_dump(mode="json", include={"workload", "roles"})
    return {
        "metric": study.metric if study.metric in METRICS else found.metric,
        "margin": f"{found.margin:g}",
        "what it is compared with": against,
        "what sets it apart": _short_digest(treatment_contrast(study, treatment, against)),
        "the load": _short_digest(declared["workload"]),
        "the set-up of the roles": _short_digest(declared["roles"]),
    }


OnProgress = Callable[[int, int], None]
HostSet = tuple[tuple[str, str], ...]
MAX_FALSE_ALARM_RATE = 0.2
IMPORTED_HOST_SET: HostSet = (("imported", "not recorded"),)
IMPORTED_HOSTS_TEXT = "not recorded (imported)"
UNMARKED_CHANGES = {
    BOOT_ID_FACT,
    "blocks",
    "blocks added",
    "replay of",
    "imported from",
}  # told in the table, and no line


@dataclass(frozen=True)
class HistoryRuns:
    """A study's history with what its figure and table say beside it.

    `changes_by_run` has run -> what is recorded otherwise than in the run before it on the same hosts; `hosts` names
    the hosts
    of each number, by their aliases; `records` are those that could be read.
    """

    history: StudyHistory
    question: str
    changes_by_run: dict[str, list[ConditionChange]]
    hosts: list[str]
    records: dict[str, RunConditions] = field(default_factory=dict)

    def marked_changes(self, run: str) -> list[ConditionChange]:
        """Return the changes that the figure marks: not a reboot, another number of blocks or another loadbook."""
        return [
            change
            for change in self.changes_by_run.get(run, [])
            if change.name not in UNMARKED_CHANGES
            and change.category != "loadbook"
            and not _adds_or_removes_treatment(change)
        ]


def _adds_or_removes_treatment(change: ConditionChange) -> bool:
    """Tell whether a treatment was added or left out: its panel shows that."""
    return change.category == "treatment" and not change.prevents_comparison


def read_history(
    layout: Layout,
    study: str,
    on_progress: OnProgress,
    metric: str = "",
    rate: float = ALARM_RATE,
    by_name: bool = False,
) -> HistoryRuns:
    """Read every run of a study, ingesting those that lack tables.

    Parameters
    ----------
    on_progress : called with the number of runs read and of all runs.
    metric : default: that of the newest run's study.
    rate : of false alarms per run, in all comparisons together.
    by_name : hosts of one name are held to be the same machine (fresh machines every night, say).

    Raises
    ------
    UsageError : no such study, run or metric, or a rate that is none.
    """
    layout.resolve_run(study)
    if not 0 < rate <= MAX_FALSE_ALARM_RATE:
        raise UsageError(
            f"a rate of {rate:g} false alarms per run is not above 0 and at most {MAX_FALSE_ALARM_RATE}", "0.01"
        )
    names = layout.runs(study)
    records, unread = _read_records(layout, study, names)
    newest = list(records.values())[-1].study if records else None
    chosen = get_metric(metric or (newest.metric if newest else "ok_per_s")).name
    order = sorted(names, key=lambda run: (_start_time_s(records, run), run))
    numbers: dict[HostSet, int] = {}
    runs = []
    for done, run in enumerate(order, 1):
        if run in records:
            paths, number = layout.run(study, run), _host_set_number(numbers, records[run], by_name)
            runs.append(_summarise_run(paths, records[run], run, number, chosen))
        else:
            runs.append(RunSummary(run, _start_time_s(records, run), -1, excluded_reason=unread[run]))
        on_progress(done, len(order))
    better, margin = direction(chosen), _history_margin(newest, chosen)
    found = StudyHistory(study, chosen, better, margin, tuple(runs), effect_series(runs, better, margin, rate), rate)
    hosts = [
        _host_set_text(key, next(records[s.run] for s in runs if s.hosts == number)) for key, number in numbers.items()
    ]
    return HistoryRuns(found, newest.question if newest else study, _changes_by_run(runs, records), hosts, records)


def _read_records(layout: Layout, study: str, names: Sequence[str]) -> tuple[dict[str, RunConditions], dict[str, str]]:
    records, unread = {}, {}
    for run in names:
        try:
            records[run] = read_run_conditions(layout.run(study, run))
            records[run].run_record.started + 0.0
        except (LoadbookError, KeyError, TypeError) as error:
            records.pop(run, None)
            unread[run] = f"cannot be read: {one_line(str(error))}"
    return records, unread


def _start_time_s(records: dict[str, RunConditions], run: str) -> float:
    """Return when a run began, epoch seconds; of one that cannot be read as its id says, 0 if it says nothing."""
    if run in records:
        return float(records[run].run_record.started)
    try:
        return float(calendar.timegm(time.strptime(run[:15], "%Y%m%d-%H%M%S")))
    except ValueError:
        return 0.0


def _host_set_number(numbers: dict[HostSet, int], record: RunConditions, by_name: bool) -> int:
    return numbers.setdefault(_host_set(record, by_name), len(numbers))


def _host_set(record: RunConditions, by_name: bool) -> HostSet:
    """Return what tells one set of hosts from another: each host's roles, and which machine it is."""
    if record.run_record.imported:
        return IMPORTED_HOST_SET
    return tuple(sorted(
        (", ".join(host["roles"]), alias if by_name else _machine_id(record, alias))
        for alias, host in record.run_record.hosts.items()
    ))  # fmt: skip


def _machine_id(record: RunConditions, alias: str) -> str:
    fact = record.facts.get(alias + BEFORE_SUFFIX, {}).get(MACHINE_FACT)
    return str(fact["value"]) if isinstance(fact, dict) and fact.get("value") else alias


def _host_set_text(hosts: HostSet, first: RunConditions) -> str:
    """Return the hosts of one number by their names in the first run on them."""
    return IMPORTED_HOSTS_TEXT if hosts == IMPORTED_HOST_SET else ", ".join(first.run_record.hosts)


def _summarise_run(paths: RunPaths, record: RunConditions, run: str, hosts: int, metric: str) -> RunSummary:
    started, out = float(record.run_record.started), ""
    try:
        out = _exclusion_reason(paths, record)
        if record.run_record.replay or _is_untimed_import(record):
            return RunSummary(run, started, hosts, excluded_reason=out)
        ensure_ingested(paths, lambda said: None)
        return RunSummary(run, started, hosts, run_effects(paths, record, metric), out)
    except LoadbookError as error:
        return RunSummary(run, started, hosts, excluded_reason=out or f"no tables: {one_line(str(error))}")


def _is_untimed_import(record: RunConditions) -> bool:
    record_of_import = record.run_record.imported
    return record_of_import is not None and not record_of_import["timed"]


def _exclusion_reason(paths: RunPaths, record: RunConditions) -> str:
    """Return why nothing of a run counts, "" where it does."""
    if record.run_record.replay:
        return f"a replay of run {record.run_record.replay}: nothing was measured anew"
    if _is_untimed_import(record):
        return "imported without times: when it was measured is not known"
    if not is_run_complete(paths):
        return "not finished"
    if record.plan.get("added"):
        return f"exploratory: {added_blocks_text(record.plan['added'])}"
    return ""


def _history_margin(study: object, metric: str) -> float:
    own = getattr(study, "metric", None) == metric
    return float(study.margin) if own else get_metric(metric).margin  # type: ignore[attr-defined]


def _changes_by_run(runs: Sequence[RunSummary], records: dict[str, RunConditions]) -> dict[str, list[ConditionChange]]:
    """Return run -> what is recorded otherwise than in the run before it on the same hosts."""
    last: dict[int, str] = {}
    found = {}
    for summary in runs:
        if summary.run in records and not summary.excluded_reason.startswith(("a replay", "imported without")):
            if summary.hosts in last:
                found[summary.run] = condition_changes(records[last[summary.hosts]], records[summary.run])
            last[summary.hosts] = summary.run
    return found


NOTEBOOK = "history"


class HistoryPage:
    """A study through all of its runs; every method returns what a cell shows. See `history_page`."""

    def __init__(self, runs: HistoryRuns) -> None:
        self.runs, self.history = runs, runs.history

    @property
    def marks(self) -> dict[str, tuple[str, ...]]:
        """Run -> what is recorded otherwise than in the run before it on the same hosts, in words."""
        found = [(run, self._describe_changes(self.runs.marked_changes(run.run))) for run in self.history.runs]
        several = len(self.runs.hosts) > 1
        return {
            run.run: (f"hosts {words.host_set_letter(run.hosts)}: {changes[0]}", *changes[1:]) if several else changes
            for run, changes in found
            if changes
        }

    def _describe_changes(self, changes: list[ConditionChange]) -> tuple[str, ...]:
        return tuple(checks.describe_change(change, self.labels) for change in changes)

    @property
    def labels(self) -> dict[str, str]:
        """Each comparison as readers see it."""
        return {course.treatment: course.label for course in self.history.series}

    def scope(self) -> Block:
        """Show the question and, in one line, what its history is made of."""
        question, line = self.runs.question, " · ".join(self._scope_parts())
        block = render_block("scope.html.j2", f"{question}\n{line}", question=question, line=line)
        return Block(notebook_style() + block.html, block.text)

    def _scope_parts(self) -> list[str]:
        found = self.history
        ends = dict.fromkeys(words.date_text(run.started) for run in (found.runs[0], found.runs[-1]))
        several = len(self.runs.hosts) > 1
        hosts = (
            [f"{words.host_set_letter(n)}: {name}" for n, name in enumerate(self.runs.hosts)]
            if several
            else self.runs.hosts
        )
        return [
            f"HISTORY of {words.run_count_text(len(found.runs))}, {found.included_runs} of which count",
            " to ".join(ends),
            f"change in {get_metric(found.metric).name} against the baseline",
            f"margin ±{margin_text(found.margin)}",
            f"hosts {'; '.join(hosts)}",
        ]

    def answer(self) -> Block:
        """Show whether the newest run is worse than its past, whether effects changed, and how sure that is."""
        kind = "worse" if self.history.alarms else "invalid"
        headline, support = words.headline(self.history), words.supporting_text(self.history)
        answer = AnswerSummary(kind, palette.VERDICTS["worse"].glyph, "", headline, support, (), ())
        return render_block("answer.html.j2", f"{headline}\n{support}", answer=answer)

    def effect_timeline(self) -> Block:
        """Show every effect by date, the levels between changes, and where recorded conditions changed."""
        from loadbook.analyses.history import figure

        if not any(course.points for course in self.history.series):
            return Block(str(render("note.html.j2", text=NO_EFFECTS_TEXT)), NO_EFFECTS_TEXT)
        return figure_block(figure, self.history, self.marks)

    def comparisons(self) -> Block:
        """Show a sentence for each comparison, then every effect of every run, which is one click away."""
        lines = [_history_line(course, words.series_sentence(course)) for course in self.history.series]
        table = self.effects_table()
        inside = render("details.html.j2", summary="The numbers behind this figure", inside=table_markup(table))
        html = render("effects.html.j2", figure="", lines=lines, table=inside)
        text = "\n".join(f"{line.glyph} {line.name}{line.text}" for line in lines)
        return Block(str(html), str(clean(f"{text}\n\n{table_text(table)}")))

    def effects_table(self) -> Table:
        """Return every effect of every run, the newest first."""
        points = [(course, point) for course in self.history.series for point in course.points]
        points.sort(key=lambda found: -found[1].started)
        columns = [Column("Run"), Column("Comparison"), Column("Verdict"), Column("Change, %", True),
                   Column("Interval, %", True), Column("Blocks", True), Column("Counts", wrap=True)]  # fmt: skip
        rows = [
            [
                point.run,
                course.label,
                _point_verdict_cell(point, self.history.metric),
                *_point_numbers(point),
                "yes" if point.is_included else f"no: {point.excluded_reason}",
            ]
            for course, point in points
        ]
        return Table("Every effect of every run", columns, rows)

    def which_count(self) -> Block:
        """Show every run, the newest first: whether it counts, and what is recorded otherwise than before."""
        table = self.runs_table()
        return Block(str(table_markup(table)), table_text(table))

    def runs_table(self) -> Table:
        """Return every run, the newest first."""
        several = len(self.runs.hosts) > 1
        columns = [Column("Run"), Column("Began (UTC)"), *([Column("Hosts")] if several else []), Column("Counts"),
                   Column(REMARKS_HEADER, wrap=True)]  # fmt: skip
        rows = [[run.run, words.datetime_text(run.started) if run.started else DASH,
                 *([words.host_set_letter(run.hosts) if run.hosts >= 0 else DASH] if several else []),
                 self._counting_text(run), self._remarks(run)]
                for run in reversed(self.history.runs)]  # fmt: skip
        return Table("Every run", columns, rows)

    def _counting_text(self, run: RunSummary) -> str:
        """Return of how many of its comparisons a run counts."""
        points = [p for course in self.history.series for p in course.points if p.run == run.run]
        counting = sum(point.is_included for point in points)
        return "no" if not counting else "yes" if counting == len(points) else f"{counting} of {len(points)}"

    def _remarks(self, run: RunSummary) -> str:
        """Return why a run does not count, which question is another one, and every condition that changed."""
        points = [
            (course, k) for course in self.history.series for k, p in enumerate(course.points) if p.run == run.run
        ]
        new_questions = {words.changed_question_text(course, k) for course, k in points if k in course.question_changes}
        reasons = (
            [] if run.excluded_reason else [words.exclusion_text(course, course.points[k]) for course, k in points]
        )
        remarks = [
            run.excluded_reason,
            *filter(None, reasons),
            *sorted(new_questions),
            *self._describe_changes(self.runs.changes_by_run.get(run.run, [])),
        ]
        first = run.hosts >= 0 and run.run not in self.runs.changes_by_run and not run.excluded_reason
        return "; ".join(filter(None, remarks)) or ("the first run on these hosts" if first else "nothing recorded")

    def doubts(self) -> Block:
        """Show in words what the history cannot tell."""
        lines = list(HISTORY_DOUBTS)
        if IMPORTED_HOSTS_TEXT in self.runs.hosts:
            lines.insert(0, "Imported runs are held together as if they were on the same hosts: nobody recorded that.")
        return render_block("lines.html.j2", "\n".join(f"- {line}" for line in lines), lines=lines)

    def provenance(self) -> Block:
        """Show where the page comes from; as the last block it also tells the runner that the end was reached."""
        newest = self.history.runs[-1]
        known = self.runs.records.get(newest.run)
        version = known.run_record.loadbook_version if known else DASH
        pairs = [("study", self.history.study), ("newest run", newest.run), ("loadbook", version)]
        block = render_block("provenance.html.j2", "\n".join(f"{k}: {v}" for k, v in pairs), pairs=pairs)
        return Block(block.html, block.text, {DONE_MIME: self.summary()})

    def summary(self) -> dict[str, Any]:
        """Return what this page says in short."""
        return {
            "notebook": NOTEBOOK,
            "study": self.history.study,
            "runs": len(self.history.runs),
            "alarms": [course.treatment for course in self.history.alarms],
            "sentences": [words.headline(self.history)],
        }


REMARKS_HEADER = "Why not; what is otherwise than in the run before on these hosts"
NO_EFFECTS_TEXT = "Nothing to draw: no run has an effect."
HISTORY_DOUBTS = (
    "Effects are ratios to the baseline of their own run: what makes everything slower moves none of them.",
    "That a condition changed together with an effect does not tell that it is the cause; two runs on the old and the "
    "new condition, one right after the other, would.",
    "What stays worse is a new level after a few runs: an alarm rings when an effect worsens, not as long as it "
    "is bad.",
    "The rate of false alarms holds for runs that scatter normally around one level; with heavy tails there are more "
    "(docs/history.md has the counts).",
)


def _history_line(course: EffectSeries, text: str) -> VerdictLine:
    alarm = bool(course.alarm and course.alarm.raised)
    glyph = palette.VERDICTS["worse"].glyph if alarm else {"aa": "○", "control": "□"}.get(course.kind, "●")
    return VerdictLine("worse" if alarm else "check", glyph, course.label, f" {text}")


def _point_verdict_cell(point: EffectPoint, metric: str) -> VerdictCell | str:
    if point.effect.kind != "treatment":
        return {True: "passed", False: "failed", None: "not judged"}[point.effect.passed]
    style = palette.VERDICTS[point.effect.verdict]
    return VerdictCell(
        f"v-{point.effect.verdict}", style.glyph, palette.verdict_word(point.effect.verdict, get_metric(metric))
    )


def _point_numbers(point: EffectPoint) -> list[str]:
    found = point.effect
    if found.effect is None or found.interval is None or found.verdict == "invalid":
        return [DASH, DASH, str(found.blocks)]
    ends = format_percent_range(found.interval, 1)
    return [_without_percent(format_percent(found.effect, 1)), _without_percent(ends), str(found.blocks)]


def _without_percent(text: str) -> str:
    return text.removesuffix(f"{NBSP}%")


def history_page(
    study: str,
    metric: str = "",
    rate: float = ALARM_RATE,
    by_name: bool = False,
    on_progress: OnProgress = lambda done, total: None,
) -> HistoryPage:
    """Return the page of a study's history.

    Parameters
    ----------
    metric : empty: that of the newest run's study.
    rate : the share of runs that raise a false alarm, in all comparisons together, while nothing changes.
    by_name : hosts of one name are held to be the same machine.
    on_progress : called with the number of runs read and of all runs.

    Raises
    ------
    UsageError : no such study, metric or rate.
    """
    return HistoryPage(read_history(project_layout(), study, on_progress, metric, rate, by_name))
