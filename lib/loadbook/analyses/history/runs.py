"""Reads every run of a study for its history: hosts, effects, and conditions that changed since the previous run.

The effects of a run are computed once and cached beside its tables, because intervals of many trials take about a
second; the cache is renewed if the tables or the statistics code change. A run that cannot be read or does not count
is listed with the reason, and the other runs are still read.
"""

from __future__ import annotations

import calendar
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

import loadbook.modes
import loadbook.stats
from loadbook.analyses.history.compute import ALARM_RATE, RunEffect, RunSummary, StudyHistory, effect_series
from loadbook.core.errors import DataError, LoadbookError, UsageError
from loadbook.core.metrics import find_metric, get_metric
from loadbook.core.text import one_line
from loadbook.report.build import ensure_ingested
from loadbook.stats.analyse import analyse_strata
from loadbook.stats.text import added_blocks_text, direction
from loadbook.store.ledger import is_run_complete
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.run_record import (
    BEFORE_SUFFIX,
    BOOT_ID_FACT,
    MACHINE_FACT,
    ConditionChange,
    RunConditions,
    condition_changes,
    treatment_contrast,
)
from loadbook.store.tables import TABLES, RunData, compared_execution, read_run_conditions, read_table
from loadbook.store.trial_record import read_json, write_json

EFFECT_TABLES = ("trials", "measurements", "samples", "problems")  # without traces: large, not needed for effects
EFFECTS_FORMAT = 3  # version of the format of cached effects


def run_effects(paths: RunPaths, record: RunConditions, metric: str) -> tuple[RunEffect, ...]:
    """Return the effect of every treatment and harness check of an ingested run on a metric, from the cache if valid.

    Raises
    ------
    DataError : a table cannot be read.
    """
    tables = [table.stat() for name in EFFECT_TABLES if (table := paths.table(name)).is_file()]
    stamps = [(table.st_size, table.st_mtime_ns) for table in tables]
    key = _short_digest([EFFECTS_FORMAT, _stats_version(), stamps, _short_digest(record.plan.to_json())])
    stored = paths.processed / f".effects-{metric}.json"
    try:
        document = read_json(stored)
    except DataError:  # missing or truncated
        document = None
    if isinstance(document, dict) and document.get("key") == key:
        records = document["effects"]
    else:
        records = [asdict(effect) for effect in _compute_effects(paths, record, metric)]
        write_json(stored, {"key": key, "effects": records})
    return tuple(
        RunEffect(**one | {"interval": tuple(one["interval"]) if one["interval"] else None}) for one in records
    )


@cache
def _stats_version() -> str:
    """Return a digest of the source files of the statistics and of modes (names, sizes, modification times)."""
    folders = [Path(str(package.__file__)).parent for package in (loadbook.stats, loadbook.modes)]
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    return _short_digest([(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files])


def _short_digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _compute_effects(paths: RunPaths, record: RunConditions, metric: str) -> list[RunEffect]:
    frames = {name: read_table(paths.table(name), name) for name in EFFECT_TABLES}
    traces = pd.DataFrame(columns=list(TABLES["traces"]))
    data = RunData(record.study, record.plan, record.run_record, record.facts, paths.raw.name, paths,
                   traces=traces, **frames)  # fmt: skip
    study, analysis = record.study, analyse_strata(data, metric=metric, fixed=True, limited=False)
    declared, effects = study.model_dump(mode="json", include={"workload", "roles"}), []
    for row in (row for row in analysis.rows if row.kind != "baseline"):
        verdict, comparison = row.verdict, row.verdict.comparison if row.verdict else None
        baseline = comparison.baseline if comparison else analysis.baseline
        question = {
            "metric": study.metric if find_metric(study.metric) else analysis.metric,
            "margin": f"{analysis.margin:g}",
            "what it is compared with": baseline,
            "what sets it apart": _short_digest(treatment_contrast(study, row.treatment, baseline)),
            "the load": _short_digest(declared["workload"]),
            "the set-up of the roles": _short_digest(declared["roles"]),
        }
        if (execution := compared_execution(record, metric)) != "plain":
            question["the execution"] = execution
        effect = RunEffect(row.treatment, row.label, row.kind, "invalid", None, None, analysis.level, 0,
                           "it has no values", row.check_state, question)  # fmt: skip
        if verdict and comparison:
            reason = (verdict.reason or "it has no values") if verdict.kind == "invalid" else None
            effect = replace(effect, verdict=verdict.kind, effect=comparison.effect, interval=comparison.ci95,
                             level=comparison.level, blocks=comparison.blocks, reason=reason)  # fmt: skip
        effects.append(effect)
    return effects


OnProgress = Callable[[int, int], None]
HostSet = tuple[tuple[str, str], ...]  # (roles, machine id) of each host
MAX_FALSE_ALARM_RATE = 0.2
IMPORTED_HOST_SET: HostSet = (("imported", "not recorded"),)
IMPORTED_HOSTS_TEXT = "not recorded (imported)"
# changes that are listed in the table but not marked in the figure
UNMARKED_CHANGES = {BOOT_ID_FACT, "blocks", "blocks added", "replay of", "imported from"}


@dataclass(frozen=True)
class HistoryRuns:
    """A study's history with the recorded conditions and the hosts of its runs.

    `changes_by_run`: run -> recorded conditions that differ from the previous run on the same hosts. `hosts`: aliases
    of each set of hosts, at the index that is its number. `records`: run -> record, for the runs that could be read.
    `tables`: folder that has a folder of parquet tables for each run.
    """

    history: StudyHistory
    question: str
    changes_by_run: dict[str, list[ConditionChange]]
    hosts: list[str]
    records: dict[str, RunConditions] = field(default_factory=dict)
    tables: Path = field(default_factory=Path)

    def marked_changes(self, run: str) -> list[ConditionChange]:
        """Return the changed conditions of a run that the figure marks.

        Reboots, a different number of blocks or version of loadbook, and added or removed treatments are not marked.
        """
        return [
            change
            for change in self.changes_by_run.get(run, [])
            if change.name not in UNMARKED_CHANGES
            and change.category != "loadbook"
            and (change.category != "treatment" or change.prevents_comparison)
        ]


def read_history(
    layout: Layout,
    study: str,
    on_progress: OnProgress,
    metric: str = "",
    rate: float = ALARM_RATE,
    by_name: bool = False,
) -> HistoryRuns:
    """Read every run of a study, ingesting runs without tables; parameters and errors as of `history_page`."""
    layout.resolve_run(study)
    if not 0 < rate <= MAX_FALSE_ALARM_RATE:
        raise UsageError(
            f"a rate of {rate:g} false alarms per run is not above 0 and at most {MAX_FALSE_ALARM_RATE}", "0.01"
        )
    names, records, unread = layout.runs(study), dict[str, RunConditions](), dict[str, str]()
    for run in names:
        try:
            record = read_run_conditions(layout.run(study, run))
            record.run_record.started + 0.0
            records[run] = record
        except (LoadbookError, KeyError, TypeError) as error:
            unread[run] = f"cannot be read: {one_line(str(error))}"
    newest = [*records.values()][-1].study if records else None
    chosen = get_metric(metric or (newest.metric if newest else "ok_per_s")).name
    started = {run: _start_time_s(records.get(run), run) for run in names}
    host_sets: dict[HostSet, str] = {}
    runs = []
    for done, run in enumerate(sorted(names, key=lambda run: (started[run], run)), 1):
        if run in records:
            hosts, aliases = _host_set(records[run], by_name), ", ".join(records[run].run_record.hosts)
            host_sets.setdefault(hosts, IMPORTED_HOSTS_TEXT if hosts == IMPORTED_HOST_SET else aliases)
            number = list(host_sets).index(hosts)
            runs.append(_summarise_run(layout.run(study, run), records[run], run, number, chosen))
        else:
            runs.append(RunSummary(run, started[run], -1, excluded_reason=unread[run]))
        on_progress(done, len(names))
    margin = newest.margin if newest and newest.metric == chosen else get_metric(chosen).margin
    better = direction(chosen)
    history = StudyHistory(study, chosen, better, margin, tuple(runs), effect_series(runs, better, margin, rate), rate)
    changes, tables = _changes_by_run(runs, records), layout.run(study, names[0]).processed.parent
    question = newest.question if newest else study
    return HistoryRuns(history, question, changes, list(host_sets.values()), records, tables)


def _start_time_s(record: RunConditions | None, run: str) -> float:
    """Return the start of a run in epoch seconds, from its record or else its id; 0 if the id contains no time."""
    if record:
        return float(record.run_record.started)
    try:
        return float(calendar.timegm(time.strptime(run[:15], "%Y%m%d-%H%M%S")))
    except ValueError:
        return 0.0


def _host_set(record: RunConditions, by_name: bool) -> HostSet:
    """Return (roles, machine id) of each host; `by_name` uses aliases in place of machine ids."""
    if record.run_record.imported:
        return IMPORTED_HOST_SET

    def machine(alias: str) -> str:
        fact = record.facts.get(alias + BEFORE_SUFFIX, {}).get(MACHINE_FACT)
        return str(fact["value"]) if not by_name and isinstance(fact, dict) and fact.get("value") else alias

    hosts = record.run_record.hosts.items()
    return tuple(sorted((", ".join(host.roles), machine(alias)) for alias, host in hosts))


def _summarise_run(paths: RunPaths, record: RunConditions, run: str, hosts: int, metric: str) -> RunSummary:
    start_s, imported, reason = float(record.run_record.started), record.run_record.imported, ""
    if record.run_record.replay:
        reason = f"a replay of run {record.run_record.replay}: nothing was measured anew"
    elif imported and not imported.timed:
        reason = "imported without times: when it was measured is not known"
    if reason:
        return RunSummary(run, start_s, hosts, excluded_reason=reason)
    try:
        if not is_run_complete(paths):
            reason = "not finished"
        elif record.plan.added:
            reason = f"exploratory: {added_blocks_text(record.plan.added)}"
        ensure_ingested(paths, lambda message: None)
        return RunSummary(run, start_s, hosts, run_effects(paths, record, metric), reason)
    except LoadbookError as error:
        return RunSummary(run, start_s, hosts, excluded_reason=reason or f"no tables: {one_line(str(error))}")


def _changes_by_run(runs: list[RunSummary], records: dict[str, RunConditions]) -> dict[str, list[ConditionChange]]:
    """Return run -> the recorded conditions that differ from the previous run on the same hosts."""
    last: dict[int, str] = {}
    changes = {}
    for summary in runs:
        if summary.run in records and not summary.excluded_reason.startswith(("a replay", "imported without")):
            if summary.hosts in last:
                changes[summary.run] = condition_changes(records[last[summary.hosts]], records[summary.run])
            last[summary.hosts] = summary.run
    return changes
