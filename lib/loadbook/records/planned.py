"""The plan of a run as it stands: plan.json, which never changes, with what its ledger says was added or left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loadbook.records.layout import RunPaths
from loadbook.records.ledger import read_ledger
from loadbook.records.manifest import read_json

Entries = Iterable[dict[str, Any]]


def plan_of(paths: RunPaths) -> dict[str, Any]:
    """Return the content of plan.json, brought up to date by `as_it_stands`.

    Raises
    ------
    DataError : plan.json cannot be read, or the ledger is damaged.
    """
    return as_it_stands(read_json(paths.plan), read_ledger(paths.ledger))


def as_it_stands(plan: dict[str, Any], entries: Entries) -> dict[str, Any]:
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
    trials = [trial for trial in known_trials(plan, changes) if trial["block"] <= blocks]
    return plan | {"blocks": blocks, "trials": trials, "added": added}


def known_trials(plan: dict[str, Any], entries: Entries) -> list[dict[str, Any]]:
    """Return every trial that was ever drawn for a run, in order."""
    return [*plan["trials"], *(trial for e in entries if e["event"] == "blocks-added" for trial in e["trials"])]


def is_complete(paths: RunPaths) -> bool:
    """Tell whether a run was done to its end: nothing of its plan is left, the hosts' facts were read again."""
    ends = [e["event"] for e in read_ledger(paths.ledger) if e["event"] in ("run-ended", "blocks-added")]
    return bool(ends) and ends[-1] == "run-ended"
