"""data/raw of one run -> its five tables in data/processed. No network, no clock: rebuilt tables are byte-identical.

Conditions come only from trial.json, never from folder names. Every planned trial is accounted for: by a row, or by
a problem that says why there is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadbook.core.errors import DataError
from loadbook.design.plan import Plan, PlannedTrial, read_plan
from loadbook.gates.base import Hit
from loadbook.gates.run import check_run
from loadbook.gates.trial import check_trial
from loadbook.records import manifest
from loadbook.records.layout import RunPaths
from loadbook.records.manifest import TrialRecord, read_json
from loadbook.records.schema import TABLES, write_table
from loadbook.trials.trial_rows import Row, TrialRows, rows_of


@dataclass(frozen=True)
class Ingested:
    """What an ingest found: numbers of planned, recorded and valid trials, of problems by level, and causes.

    `causes` says why recorded trials are not valid (how they ended, else their gates), with how many, most frequent
    first.
    """

    planned: int
    trials: int
    valid: int
    problems: dict[str, int]
    causes: list[tuple[str, int]]


def ingest(paths: RunPaths, on_trial: Callable[[int, int], None] = lambda done, total: None) -> Ingested:
    """Rebuild the five tables of one run; `on_trial(done, total)` is told of progress.

    Raises
    ------
    DataError : the plan cannot be read, or rows do not fit the declared schema.
    """
    plan = read_plan(read_json(paths.plan), str(paths.plan))
    notes: list[Row] = []
    found: list[TrialRows] = []
    for done, planned in enumerate(plan.trials, 1):
        rows = _read(paths, plan, planned, notes)
        if rows is not None:
            found.append(rows)
        on_trial(done, len(plan.trials))
    hits = _gates(plan, found, _facts(paths))
    trials = [_trial_row(plan, rows, hits.get(rows.record.trial, [])) for rows in found]
    problems = notes + [_keyed(rows.record, p) for rows in found for p in rows.problems] + _hit_rows(plan, paths, hits)
    tables = {"trials": trials, "problems": _sorted("problems", problems)}
    for name in ("measurements", "samples", "traces"):
        tables[name] = _sorted(name, [_keyed(r.record, row) for r in found for row in getattr(r, name)])
    for name, table in tables.items():
        write_table(paths.table(name), name, table, tuple(plan.study.factors) if name == "trials" else ())
    levels = sorted({p["level"] for p in problems})
    counts = {level: sum(p["level"] == level for p in problems) for level in levels}
    return Ingested(len(plan.trials), len(trials), sum(t["valid"] for t in trials), counts, _causes(trials, problems))


def _causes(trials: list[Row], problems: list[Row]) -> list[tuple[str, int]]:
    """Count why trials are not valid: how they ended (their names in it do not count), else what made them invalid."""
    named: dict[str, set[str]] = {}
    for problem in problems:
        if problem["level"] == "invalid" and problem["trial"]:
            named.setdefault(problem["trial"], set()).add(problem["name"])
    return Counter(
        ", ".join(sorted(named[t["trial"]]))
        if t["status"] == "ok"
        else f"{t['status']}, {str(t['reason']).replace(t['trial'], '...')}"
        for t in trials
        if not t["valid"]
    ).most_common()


def _read(paths: RunPaths, plan: Plan, planned: PlannedTrial, notes: list[Row]) -> TrialRows | None:
    """Return the rows of a planned trial, or None with a note of why there are none."""
    folder = _folder(paths, planned.trial)
    if folder is None:
        notes.append(_note(plan, paths, planned.trial, "not-executed", "note", "planned, not executed"))
        return None
    try:
        record = manifest.read(folder)
        _must_be(planned, record, plan, paths)
    except DataError as error:
        notes.append(_note(plan, paths, planned.trial, "damaged-record", "invalid", error.message))
        return None
    return rows_of(folder, record)


def _folder(paths: RunPaths, trial: str) -> Path | None:
    """Return the published folder of a trial, else that of its last failed attempt."""
    if paths.trial(trial).is_dir():
        return paths.trial(trial)
    attempts = {int(p.name.rpartition("-attempt")[2]): p for p in paths.failed.glob(f"{trial}-attempt*")}
    return attempts[max(attempts)] if attempts else None


def _must_be(planned: PlannedTrial, record: TrialRecord, plan: Plan, paths: RunPaths) -> None:
    """Refuse a record that is not of this run's planned trial (a folder copied from elsewhere)."""
    wanted = (plan.study.name, paths.raw.name, planned.trial, planned.treatment, planned.block, planned.slot)
    given = (record.study, record.run, record.trial, record.treatment, record.block, record.slot)
    if given != wanted:
        raise DataError(f"trial {planned.trial} is recorded as {given}, planned as {wanted}; it was not used")


def _facts(paths: RunPaths) -> dict[str, Any]:
    """Return what the hosts told before and after the run; a file that cannot be read is as one that is not there."""
    facts: dict[str, Any] = {}
    for path in sorted(paths.facts.glob("*.json")):
        with suppress(DataError):
            facts[path.stem] = read_json(path)
    return facts


def _gates(plan: Plan, found: list[TrialRows], facts: dict[str, Any]) -> dict[str | None, list[Hit]]:
    """Return the hits of every gate by trial; None holds those of the whole run."""
    hits: list[Hit] = []
    for rows in found:
        hits += check_trial(rows.record, rows.measurements, rows.traces, rows.doubts, plan.study.gates)
    measured = [{"trial": r.record.trial, "treatment": r.record.treatment} | m for r in found for m in r.measurements]
    excluded = {hit.trial for hit in hits if hit.trial and hit.level == "invalid"}
    hits += check_run(plan.study, [r.record for r in found], measured, excluded, facts)
    by_trial: dict[str | None, list[Hit]] = {}
    for hit in hits:
        by_trial.setdefault(hit.trial, []).append(hit)
    return by_trial


def _trial_row(plan: Plan, rows: TrialRows, hits: list[Hit]) -> Row:
    record, answer, work = rows.record, rows.record.response_before, plan.study.workload_of(rows.record.treatment)
    named = [(h.name, h.level) for h in hits] + [(p["name"], p["level"]) for p in rows.problems]
    lives = [s.live for s in record.services]
    return {
        "study": record.study,
        "run": record.run,
        "trial": record.trial,
        "treatment": record.treatment,
        "block": record.block,
        "slot": record.slot,
        "status": record.status,
        "attempt": record.attempt,
        "started": record.started,
        "duration_s": record.duration_s,
        "tool": record.tool,
        "tool_version": record.tool_version,
        "load_model": work.model,
        "offered_per_s": work.rate_per_s,
        "concurrency": work.connections if work.model == "closed" else None,
        "drivers": len(record.drivers),
        "valid": record.status == "ok" and not any(level == "invalid" for _, level in named),
        "gates": sorted({name for name, level in named if level in ("invalid", "doubt")}),
        "reason": record.reason,
        "response_status": answer.status if answer else None,
        "response_bytes": answer.bytes if answer else None,
        "response_sha256": answer.sha256 if answer else None,
        "config_live": None if not lives or None in lives else all(lives),
    } | {f"factor_{name}": record.factors.get(name) for name in plan.study.factors}


def _hit_rows(plan: Plan, paths: RunPaths, hits: dict[str | None, list[Hit]]) -> list[Row]:
    return [
        _note(plan, paths, trial, hit.name, hit.level, hit.message) | {"host": hit.host}
        for trial, group in hits.items()
        for hit in group
    ]


def _note(plan: Plan, paths: RunPaths, trial: str | None, name: str, level: str, message: str) -> Row:
    keys = {"study": plan.study.name, "run": paths.raw.name, "trial": trial, "host": None, "file": None, "line": None}
    return keys | {"name": name, "level": level, "message": message}


def _keyed(record: TrialRecord, row: Row) -> Row:
    return {"study": record.study, "run": record.run, "trial": record.trial} | row


def _sorted(table: str, rows: list[Row]) -> list[Row]:
    """Return rows in an order that depends on nothing but their text and numbers."""
    columns = [c for c in TABLES[table] if c not in ("study", "run")]
    return sorted(rows, key=lambda row: [(row[c] is not None, row[c]) for c in columns])
