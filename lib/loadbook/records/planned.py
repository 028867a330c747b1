"""The plan of a run as it stands: plan.json, which never changes, with what its ledger says was added or left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loadbook.records.layout import RunPaths
from loadbook.records.ledger import read_ledger
from loadbook.records.manifest import read_json

LedgerEntries = Iterable[dict[str, Any]]


def read_current_plan(paths: RunPaths) -> dict[str, Any]:
    """Return the content of plan.json, brought up to date by `current_plan`.

    Raises
    ------
    DataError : plan.json cannot be read, or the ledger is damaged.
    """
    return current_plan(read_json(paths.plan_json), read_ledger(paths.ledger))


def current_plan(plan: dict[str, Any], entries: LedgerEntries) -> dict[str, Any]:
    """Return a plan with the blocks that are to be done.

    A run that a look ended has no blocks after it, one to which blocks were added has those, too. `added` says how many
    of them its study did not provide for: with any, the run is exploratory.
    """
    changes = [e for e in entries if e["event"] == "blocks-added" or (e["event"] == "run-ended" and "blocks" in e)]
    if not changes:
        return plan
    blocks, added = plan["blocks"], 0
    for change in changes:
        added += change["blocks"] - blocks if change.get("exploratory") else 0
        blocks = change["blocks"]
    trials = [trial for trial in all_planned_trials(plan, changes) if trial["block"] <= blocks]
    return plan | {"blocks": blocks, "trials": trials, "added": added}


def all_planned_trials(plan: dict[str, Any], entries: LedgerEntries) -> list[dict[str, Any]]:
    """Return every trial that was ever drawn for a run, in order."""
    return [*plan["trials"], *(trial for e in entries if e["event"] == "blocks-added" for trial in e["trials"])]


def is_run_complete(paths: RunPaths) -> bool:
    """Tell whether a run was done to its end: nothing of its plan is left, the hosts' facts were read again."""
    ends = [e["event"] for e in read_ledger(paths.ledger) if e["event"] in ("run-ended", "blocks-added")]
    return bool(ends) and ends[-1] == "run-ended"
