"""Every run of a study, read for its history: on which hosts, what it found, what changed since the one before.

A run that cannot be read or does not count is told with its reason, and the others go on.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from loadbook.core.errors import LoadbookError, UsageError
from loadbook.core.metrics import get_metric
from loadbook.core.text import one_line
from loadbook.records.conditions import BEFORE_SUFFIX, MACHINE_FACT, BOOT_ID_FACT, ConditionChange, RunRecord, condition_changes
from loadbook.records.layout import Layout, RunPaths
from loadbook.records.planned import is_run_complete
from loadbook.records.rundata import read_run_record
from loadbook.report.build import ensure_ingested
from loadbook.report.run_effects import run_effects
from loadbook.stats.history.course import effect_series
from loadbook.stats.history.result import ALARM_RATE, StudyHistory, RunSummary
from loadbook.stats.wording.sentences import added_blocks_text
from loadbook.stats.wording.words import direction

OnProgress = Callable[[int, int], None]
HostSet = tuple[tuple[str, str], ...]
MAX_FALSE_ALARM_RATE = 0.2
IMPORTED_HOST_SET: HostSet = (("imported", "not recorded"),)
IMPORTED_HOSTS_TEXT = "not recorded (imported)"
UNMARKED_CHANGES = {BOOT_ID_FACT, "blocks", "blocks added", "replay of", "imported from"}  # told in the table, and no line


@dataclass(frozen=True)
class HistoryRuns:
    """A study's history with what its figure and table say beside it.

    `changes_by_run` has run -> what is recorded otherwise than in the run before it on the same hosts; `hosts` names the hosts
    of each number, by their aliases; `records` are those that could be read.
    """

    history: StudyHistory
    question: str
    changes_by_run: dict[str, list[ConditionChange]]
    hosts: list[str]
    records: dict[str, RunRecord] = field(default_factory=dict)

    def marked_changes(self, run: str) -> list[ConditionChange]:
        """Return the changes that the figure marks: not a reboot, another number of blocks or another loadbook."""
        return [
            change
            for change in self.changes_by_run.get(run, [])
            if change.name not in UNMARKED_CHANGES and change.category != "loadbook" and not _adds_or_removes_treatment(change)
        ]


def _adds_or_removes_treatment(change: ConditionChange) -> bool:
    """Tell whether a treatment was added or left out: its panel shows that."""
    return change.category == "treatment" and not change.prevents_comparison


def read_history(
    layout: Layout, study: str, on_progress: OnProgress, metric: str = "", rate: float = ALARM_RATE, by_name: bool = False
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
        raise UsageError(f"a rate of {rate:g} false alarms per run is not above 0 and at most {MAX_FALSE_ALARM_RATE}", "0.01")
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
    hosts = [_host_set_text(key, next(records[s.run] for s in runs if s.hosts == number)) for key, number in numbers.items()]
    return HistoryRuns(found, newest.question if newest else study, _changes_by_run(runs, records), hosts, records)


def _read_records(layout: Layout, study: str, names: Sequence[str]) -> tuple[dict[str, RunRecord], dict[str, str]]:
    records, unread = {}, {}
    for run in names:
        try:
            records[run] = read_run_record(layout.run(study, run))
            records[run].run_json["started"] + 0.0
        except (LoadbookError, KeyError, TypeError) as error:
            records.pop(run, None)
            unread[run] = f"cannot be read: {one_line(str(error))}"
    return records, unread


def _start_time_s(records: dict[str, RunRecord], run: str) -> float:
    """Return when a run began, epoch seconds; of one that cannot be read as its id says, 0 if it says nothing."""
    if run in records:
        return float(records[run].run_json["started"])
    try:
        return float(calendar.timegm(time.strptime(run[:15], "%Y%m%d-%H%M%S")))
    except ValueError:
        return 0.0


def _host_set_number(numbers: dict[HostSet, int], record: RunRecord, by_name: bool) -> int:
    return numbers.setdefault(_host_set(record, by_name), len(numbers))


def _host_set(record: RunRecord, by_name: bool) -> HostSet:
    """Return what tells one set of hosts from another: each host's roles, and which machine it is."""
    if record.run_json.get("imported"):
        return IMPORTED_HOST_SET
    return tuple(sorted(
        (", ".join(host["roles"]), alias if by_name else _machine_id(record, alias))
        for alias, host in record.run_json["hosts"].items()
    ))  # fmt: skip


def _machine_id(record: RunRecord, alias: str) -> str:
    fact = record.facts.get(alias + BEFORE_SUFFIX, {}).get(MACHINE_FACT)
    return str(fact["value"]) if isinstance(fact, dict) and fact.get("value") else alias


def _host_set_text(hosts: HostSet, first: RunRecord) -> str:
    """Return the hosts of one number by their names in the first run on them."""
    return IMPORTED_HOSTS_TEXT if hosts == IMPORTED_HOST_SET else ", ".join(first.run_json["hosts"])


def _summarise_run(paths: RunPaths, record: RunRecord, run: str, hosts: int, metric: str) -> RunSummary:
    started, out = float(record.run_json["started"]), ""
    try:
        out = _exclusion_reason(paths, record)
        if record.run_json.get("replay") or _is_untimed_import(record):
            return RunSummary(run, started, hosts, excluded_reason=out)
        ensure_ingested(paths, lambda said: None)
        return RunSummary(run, started, hosts, run_effects(paths, record, metric), out)
    except LoadbookError as error:
        return RunSummary(run, started, hosts, excluded_reason=out or f"no tables: {one_line(str(error))}")


def _is_untimed_import(record: RunRecord) -> bool:
    record_of_import = record.run_json.get("imported")
    return record_of_import is not None and not record_of_import["timed"]


def _exclusion_reason(paths: RunPaths, record: RunRecord) -> str:
    """Return why nothing of a run counts, "" where it does."""
    if record.run_json.get("replay"):
        return f"a replay of run {record.run_json['replay']}: nothing was measured anew"
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


def _changes_by_run(runs: Sequence[RunSummary], records: dict[str, RunRecord]) -> dict[str, list[ConditionChange]]:
    """Return run -> what is recorded otherwise than in the run before it on the same hosts."""
    last: dict[int, str] = {}
    found = {}
    for summary in runs:
        if summary.run in records and not summary.excluded_reason.startswith(("a replay", "imported without")):
            if summary.hosts in last:
                found[summary.run] = condition_changes(records[last[summary.hosts]], records[summary.run])
            last[summary.hosts] = summary.run
    return found
