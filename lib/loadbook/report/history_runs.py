"""Every run of a study, read for its history: on which hosts, what it found, what changed since the one before.

A run that cannot be read or does not count is told with its reason, and the others go on.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from loadbook.core.errors import LoadbookError, UsageError
from loadbook.core.metrics import metric as metric_of
from loadbook.core.text import one_line
from loadbook.records.conditions import BEFORE, MACHINE, REBOOTED, Change, Record, changes
from loadbook.records.layout import Layout, RunPaths
from loadbook.records.planned import is_complete
from loadbook.records.rundata import read_record
from loadbook.report.build import refresh
from loadbook.report.run_effects import effects
from loadbook.stats.history.course import courses
from loadbook.stats.history.result import ALARM_RATE, History, Seen
from loadbook.stats.wording.sentences import added_after
from loadbook.stats.wording.words import direction

Tick = Callable[[int, int], None]
Hosts = tuple[tuple[str, str], ...]
MOST_FALSE = 0.2
IMPORTED: Hosts = (("imported", "not recorded"),)
IMPORTED_HOSTS = "not recorded (imported)"
QUIET = {REBOOTED, "blocks", "blocks added", "replay of", "imported from"}  # told in the table, and no line


@dataclass(frozen=True)
class Runs:
    """A study's history with what its figure and table say beside it.

    `changed` has run -> what is recorded otherwise than in the run before it on the same hosts; `hosts` names the hosts
    of each number, by their aliases; `records` are those that could be read.
    """

    history: History
    question: str
    changed: dict[str, list[Change]]
    hosts: list[str]
    records: dict[str, Record] = field(default_factory=dict)

    def marked(self, run: str) -> list[Change]:
        """Return the changes that the figure marks: not a reboot, another number of blocks or another loadbook."""
        return [
            change
            for change in self.changed.get(run, [])
            if change.name not in QUIET and change.about != "loadbook" and not _arm(change)
        ]


def _arm(change: Change) -> bool:
    """Tell whether a treatment was added or left out: its panel shows that."""
    return change.about == "treatment" and not change.identity


def read_history(
    layout: Layout, study: str, tick: Tick, metric: str = "", rate: float = ALARM_RATE, by_name: bool = False
) -> Runs:
    """Read every run of a study, ingesting those that lack tables.

    Parameters
    ----------
    tick : is told how many of how many runs are read.
    metric : default: that of the newest run's study.
    rate : of false alarms per run, in all comparisons together.
    by_name : hosts of one name are held to be the same machine (fresh machines every night, say).

    Raises
    ------
    UsageError : no such study, run or metric, or a rate that is none.
    """
    layout.resolve_run(study)
    if not 0 < rate <= MOST_FALSE:
        raise UsageError(f"a rate of {rate:g} false alarms per run is not above 0 and at most {MOST_FALSE}", "0.01")
    names = layout.runs(study)
    records, unread = _records(layout, study, names)
    newest = list(records.values())[-1].study if records else None
    chosen = metric_of(metric or (newest.metric if newest else "ok_per_s")).name
    order = sorted(names, key=lambda run: (_started(records, run), run))
    numbers: dict[Hosts, int] = {}
    runs = []
    for done, run in enumerate(order, 1):
        if run in records:
            paths, number = layout.run(study, run), _number(numbers, records[run], by_name)
            runs.append(_seen(paths, records[run], run, number, chosen))
        else:
            runs.append(Seen(run, _started(records, run), -1, left_out=unread[run]))
        tick(done, len(order))
    better, margin = direction(chosen), _margin(newest, chosen)
    found = History(study, chosen, better, margin, tuple(runs), courses(runs, better, margin, rate), rate)
    hosts = [_named(key, next(records[s.run] for s in runs if s.hosts == number)) for key, number in numbers.items()]
    return Runs(found, newest.question if newest else study, _changed(runs, records), hosts, records)


def _records(layout: Layout, study: str, names: Sequence[str]) -> tuple[dict[str, Record], dict[str, str]]:
    records, unread = {}, {}
    for run in names:
        try:
            records[run] = read_record(layout.run(study, run))
            records[run].run_json["started"] + 0.0
        except (LoadbookError, KeyError, TypeError) as error:
            records.pop(run, None)
            unread[run] = f"cannot be read: {one_line(str(error))}"
    return records, unread


def _started(records: dict[str, Record], run: str) -> float:
    """Return when a run began, epoch seconds; of one that cannot be read as its id says, 0 if it says nothing."""
    if run in records:
        return float(records[run].run_json["started"])
    try:
        return float(calendar.timegm(time.strptime(run[:15], "%Y%m%d-%H%M%S")))
    except ValueError:
        return 0.0


def _number(numbers: dict[Hosts, int], record: Record, by_name: bool) -> int:
    return numbers.setdefault(_hosts(record, by_name), len(numbers))


def _hosts(record: Record, by_name: bool) -> Hosts:
    """Return what tells one set of hosts from another: each host's roles, and which machine it is."""
    if record.run_json.get("imported"):
        return IMPORTED
    return tuple(sorted(
        (", ".join(host["roles"]), alias if by_name else _machine(record, alias))
        for alias, host in record.run_json["hosts"].items()
    ))  # fmt: skip


def _machine(record: Record, alias: str) -> str:
    fact = record.facts.get(alias + BEFORE, {}).get(MACHINE)
    return str(fact["value"]) if isinstance(fact, dict) and fact.get("value") else alias


def _named(hosts: Hosts, first: Record) -> str:
    """Return the hosts of one number by their names in the first run on them."""
    return IMPORTED_HOSTS if hosts == IMPORTED else ", ".join(first.run_json["hosts"])


def _seen(paths: RunPaths, record: Record, run: str, hosts: int, metric: str) -> Seen:
    started, out = float(record.run_json["started"]), ""
    try:
        out = _left_out(paths, record)
        if record.run_json.get("replay") or _untimed(record):
            return Seen(run, started, hosts, left_out=out)
        refresh(paths, lambda said: None)
        return Seen(run, started, hosts, effects(paths, record, metric), out)
    except LoadbookError as error:
        return Seen(run, started, hosts, left_out=out or f"no tables: {one_line(str(error))}")


def _untimed(record: Record) -> bool:
    told = record.run_json.get("imported")
    return told is not None and not told["timed"]


def _left_out(paths: RunPaths, record: Record) -> str:
    """Return why nothing of a run counts, "" where it does."""
    if record.run_json.get("replay"):
        return f"a replay of run {record.run_json['replay']}: nothing was measured anew"
    if _untimed(record):
        return "imported without times: when it was measured is not known"
    if not is_complete(paths):
        return "not finished"
    if record.plan.get("added"):
        return f"exploratory: {added_after(record.plan['added'])}"
    return ""


def _margin(study: object, metric: str) -> float:
    own = getattr(study, "metric", None) == metric
    return float(study.margin) if own else metric_of(metric).margin  # type: ignore[attr-defined]


def _changed(runs: Sequence[Seen], records: dict[str, Record]) -> dict[str, list[Change]]:
    """Return run -> what is recorded otherwise than in the run before it on the same hosts."""
    last: dict[int, str] = {}
    found = {}
    for seen in runs:
        if seen.run in records and not seen.left_out.startswith(("a replay", "imported without")):
            if seen.hosts in last:
                found[seen.run] = changes(records[last[seen.hosts]], records[seen.run])
            last[seen.hosts] = seen.run
    return found
