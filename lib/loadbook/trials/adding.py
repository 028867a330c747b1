"""Blocks added to a finished run: where its study looks again they belong to the plan, else they make it exploratory.

Whoever adds blocks has seen the results, or could have; only a rule that was declared before allows for that
(statistics.md 3.8).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from loadbook.core.errors import UsageError
from loadbook.design.plan import Plan, additional_trials, parse_plan
from loadbook.records.layout import RunPaths
from loadbook.records.ledger import read_ledger
from loadbook.records.manifest import read_json
from loadbook.records.planned import current_plan, all_planned_trials


def add_blocks(paths: RunPaths, more: int) -> tuple[dict[str, Any], Plan]:
    """Return what the ledger is to keep of `more` blocks added to a run, and the plan that comes of it.

    Raises
    ------
    UsageError : the study has a look later, but not there; the run was imported; no block is to be added.
    """
    if more < 1:
        raise UsageError(f"{more} blocks cannot be added", "give a number of blocks, 1 or more")
    raw, entries, source = read_json(paths.plan_json), read_ledger(paths.ledger), str(paths.plan_json)
    before, trials = current_plan(raw, entries), all_planned_trials(raw, entries)
    plan = parse_plan(raw | {"trials": trials}, source)
    total = before["blocks"] + more
    _check_planned_look(plan, before["blocks"], total)
    added = {
        "blocks": total,
        "more": more,
        "exploratory": not plan.study.stopping.allows_interim(total),
        "trials": [asdict(trial) for trial in additional_trials(plan, total)],
    }
    after = current_plan(raw, [*entries, {"event": "blocks-added"} | added])
    return added, parse_plan(after, source)


def _check_planned_look(plan: Plan, blocks: int, total: int) -> None:
    later = [look for look in plan.study.stopping.looks if look > blocks]
    if later and total < later[-1] and total not in later:
        raise UsageError(
            f"{total} blocks are no planned look: study {plan.study.name!r} {plan.study.stopping.describe()}",
            f"go on to its next look: --more {later[0] - blocks}",
        )


def resumes_added_blocks(paths: RunPaths, more: int) -> bool:
    """Tell whether a run is unfinished because just so many blocks were added: the same command goes on with them."""
    changes = [e for e in read_ledger(paths.ledger) if e["event"] in ("blocks-added", "run-ended")]
    return bool(changes) and changes[-1].get("more") == more
