"""The plan of a run as its ledger leaves it."""

from __future__ import annotations

from typing import Any

import pytest

from loadbook.store.ledger import Ledger, all_planned_trials, current_plan, is_run_complete
from loadbook.store.paths import RunPaths

ARMS = ("a", "b")


def trials(first: int, last: int) -> list[dict[str, Any]]:
    return [{"trial": f"{arm}{block}", "block": block} for block in range(first, last + 1) for arm in ARMS]


def added(blocks: int, exploratory: bool, first: int | None = None) -> dict[str, Any]:
    drawn = trials(first, blocks) if first else []
    return {"event": "blocks-added", "blocks": blocks, "exploratory": exploratory, "trials": drawn}


PLAN = {"blocks": 4, "trials": trials(1, 4), "seed": 1}
ENDED, EARLY = {"event": "run-ended"}, {"event": "run-ended", "blocks": 2}


@pytest.mark.parametrize(
    ("entries", "blocks", "more"),
    [
        ([EARLY], 2, 0),
        ([ENDED, added(6, True, 5)], 6, 2),
        ([ENDED, added(6, True, 5), ENDED, added(7, True, 7), ENDED], 7, 3),
        ([EARLY, added(4, False), ENDED], 4, 0),
        ([EARLY, added(4, False), ENDED, added(5, True, 5)], 5, 1),
        ([ENDED, added(9, False, 5), {"event": "run-ended", "blocks": 7}], 7, 0),
    ],
)
def test_current_plan_has_the_blocks_added_or_left_out_in_the_ledger(entries, blocks, more):
    before = dict(PLAN)
    plan = current_plan(PLAN, [{"event": "run-started"}, *entries])  # type: ignore[arg-type]
    assert (plan["blocks"], plan["added"], plan["seed"]) == (blocks, more, 1)
    assert plan["trials"] == trials(1, blocks)
    assert before == PLAN


def test_plan_without_ledger_events_is_unchanged():
    assert current_plan(PLAN, [{"event": "run-started"}, ENDED]) is PLAN  # type: ignore[arg-type]
    assert all_planned_trials(PLAN, []) == PLAN["trials"]


def test_run_made_plain_has_no_trials_of_the_blocks_for_latencies_in_addition():
    interleaved = {"blocks": 4, "latency_blocks": 2, "trials": trials(1, 6), "study_spec": {"execution": "interleaved"}}
    entries = [{"event": "made-plain", "reason": "slices too long"}]
    plan = current_plan(interleaved, entries)  # type: ignore[arg-type]
    assert plan["trials"] == all_planned_trials(interleaved, entries) == trials(1, 4)  # type: ignore[arg-type]
    assert (plan["blocks"], plan["latency_blocks"], plan["plain_because"]) == (4, 0, "slices too long")
    assert plan["study_spec"]["execution"] == "plain"


def test_ended_run_is_complete_until_blocks_are_added(tmp_path):
    paths, seen = RunPaths(tmp_path, tmp_path), []
    with Ledger(paths.ledger) as ledger:
        for event in ("run-started", "run-ended", "blocks-added", "run-resumed", "run-ended"):
            ledger.append(event)
            seen.append(is_run_complete(paths))
    assert seen == [False, True, False, False, True]
