"""What `ingest` writes of trials once all are read: rows of `trials` and `problems`, and why trials do not count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from loadbook.design.plan import Plan
from loadbook.gates.base import RuleHit
from loadbook.gates.trial import MEASURED_STATUSES
from loadbook.records.manifest import TrialRecord
from loadbook.records.schema import TABLES
from loadbook.trials.reading import IngestedTrial, sorted_rows
from loadbook.trials.trial_rows import Row

Keys = Mapping[str, str]
HIT_COLUMNS = ("host", "name", "level", "message")


def trial_row(plan: Plan, record: TrialRecord, problems: Sequence[Row], hits: Sequence[RuleHit]) -> Row:
    """Return a trial's row: its conditions, how it ended, and whether it counts."""
    response, workload = record.response_before, record.workload
    named = [(hit.name, hit.level) for hit in hits] + [(p["name"], p["level"]) for p in problems]
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
        "load_model": workload["model"],
        "offered_per_s": workload.get("rate_per_s"),
        "concurrency": workload.get("connections") if workload["model"] == "closed" else None,
        "drivers": len(record.drivers),
        "valid": record.status == "ok" and not any(level == "invalid" for _, level in named),
        "gates": sorted({name for name, level in named if level in ("invalid", "doubt")}),
        "reason": record.reason,
        "response_status": response.status if response else None,
        "response_bytes": response.bytes if response else None,
        "response_sha256": response.sha256 if response else None,
        "config_live": None if not lives or None in lives else all(lives),
    } | {f"factor_{name}": record.factors.get(name) for name in plan.study.factors}


def problem_rows(
    plan: Plan, keys: Keys, ingested: Mapping[str, IngestedTrial], hits: Iterable[RuleHit], unplanned: Iterable[str], run_problems: Iterable[Row]
) -> list[Row]:
    """Return the table of problems: of reading, of gates, of planned trials that are not there and folders too many.

    `run_problems` are those of files that belong to no trial.
    """
    blank = dict.fromkeys(TABLES["problems"]) | dict(keys)
    rows = [blank | {"trial": trial} | problem for trial, trial_ingested in ingested.items() for problem in trial_ingested.problems]
    rows += [blank | {"trial": hit.trial} | {name: getattr(hit, name) for name in HIT_COLUMNS} for hit in hits]
    for planned in plan.trials:
        if planned.trial not in ingested:
            rows.append(blank | {"trial": planned.trial} | _note_fields("not-executed", "planned, not executed"))
    for name in unplanned:
        rows.append(blank | {"file": name} | _note_fields("not-planned", f"trials/{name} is no trial of the plan; not used"))
    rows += [blank | row for row in run_problems]
    return sorted_rows(rows, "problems", [name for name in blank if name not in keys])


def _note_fields(name: str, message: str) -> Row:
    return {"name": name, "level": "note", "message": message}


def invalid_causes(trials: Sequence[Row], problems: Sequence[Row]) -> list[tuple[str, int]]:
    """Count why trials are not valid: what made them invalid, else how they ended (their names in it do not count)."""
    named: dict[str, set[str]] = {}
    for problem in problems:
        if problem["level"] == "invalid" and problem["trial"]:
            named.setdefault(problem["trial"], set()).add(problem["name"])
    return Counter(
        ", ".join(sorted(named[t["trial"]]))
        if t["status"] == "ok" or (t["status"] in MEASURED_STATUSES and t["trial"] in named)
        else f"{t['status']}, {str(t['reason']).replace(t['trial'], '...')}"
        for t in trials
        if not t["valid"]
    ).most_common()
