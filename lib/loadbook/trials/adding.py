"""Blocks added to a finished run: where its study looks again they belong to the plan, else they make it exploratory.

Whoever adds blocks has seen the results, or could have; only a rule that was declared before allows for that
(statistics.md 3.8).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from loadbook.core.errors import UsageError
from loadbook.design.plan import Plan, more_trials, read_plan
from loadbook.records.layout import RunPaths
from loadbook.records.ledger import read_ledger
from loadbook.records.manifest import read_json
from loadbook.records.planned import as_it_stands, known_trials


def add_blocks(paths: RunPaths, more: int) -> tuple[dict[str, Any], Plan]:
    """Return what the ledger is to keep of `more` blocks added to a run, and the plan that comes of it.

    Raises
    ------
    UsageError : the study has a look later, but not there; the run was imported; no block is to be added.
    """
    if more < 1:
        raise UsageError(f"{more} blocks cannot be added", "give a number of blocks, 1 or more")
    raw, entries, source = read_json(paths.plan), read_ledger(paths.ledger), str(paths.plan)
    before, known = as_it_stands(raw, entries), known_trials(raw, entries)
    plan = read_plan(raw | {"trials": known}, source)
    total = before["blocks"] + more
    _must_not_fall_between_looks(plan, before["blocks"], total)
    added = {
        "blocks": total,
        "more": more,
        "exploratory": not plan.study.stopping.allows(total),
        "trials": [asdict(trial) for trial in more_trials(plan, total)],
    }
    after = as_it_stands(raw, [*entries, {"event": "blocks-added"} | added])
    return added, read_plan(after, source)


def _must_not_fall_between_looks(plan: Plan, blocks: int, total: int) -> None:
    later = [look for look in plan.study.stopping.looks if look > blocks]
    if later and total < later[-1] and total not in later:
        raise UsageError(
            f"{total} blocks are no planned look: study {plan.study.name!r} {plan.study.stopping.said()}",
            f"go on to its next look: --more {later[0] - blocks}",
        )


def is_what_was_added(paths: RunPaths, more: int) -> bool:
    """Tell whether a run is unfinished because just so many blocks were added: the same command goes on with them."""
    changes = [e for e in read_ledger(paths.ledger) if e["event"] in ("blocks-added", "run-ended")]
    return bool(changes) and changes[-1].get("more") == more
