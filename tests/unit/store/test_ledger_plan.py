"""The plan of a run as its ledger leaves it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from loadbook.core.errors import DataError
from loadbook.store.ledger import Ledger, all_planned_trials, current_plan, is_run_complete
from loadbook.store.paths import RunPaths
from loadbook.study.plan import PlannedTrial
from run_records import STUDY, plan_of

ARMS = ("a", "b")


def trials(first: int, last: int) -> tuple[PlannedTrial, ...]:
    arms = [(arm, block) for block in range(first, last + 1) for arm in ARMS]
    return tuple(PlannedTrial(f"{arm}{block}", arm, block, 2 * block) for arm, block in arms)


def added(blocks: int, exploratory: bool, first: int | None = None) -> dict[str, Any]:
    drawn = [asdict(planned) for planned in trials(first, blocks)] if first else []
    return {"event": "blocks-added", "blocks": blocks, "exploratory": exploratory, "trials": drawn}


PLAN = plan_of(blocks=4, trials=trials(1, 4), seed=1)
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
    plan = current_plan(PLAN, [{"event": "run-started"}, *entries])
    assert (plan.blocks, plan.added, plan.seed) == (blocks, more, 1)
    assert plan.trials == trials(1, blocks)


def test_plan_without_ledger_events_is_unchanged():
    assert current_plan(PLAN, [{"event": "run-started"}, ENDED]) is PLAN
    assert all_planned_trials(PLAN, []) == PLAN.trials


def test_run_made_plain_has_no_trials_of_the_blocks_for_latencies_in_addition():
    study = STUDY.model_copy(update={"execution": "interleaved"})
    interleaved = plan_of(study, blocks=4, latency_blocks=2, trials=trials(1, 6))
    entries = [{"event": "made-plain", "reason": "slices too long"}]
    plan = current_plan(interleaved, entries)
    assert plan.trials == all_planned_trials(interleaved, entries) == trials(1, 4)
    assert (plan.blocks, plan.latency_blocks, plan.plain_because) == (4, 0, "slices too long")
    assert plan.study.execution == "plain"


def test_ended_run_is_complete_until_blocks_are_added(tmp_path):
    paths, seen = RunPaths(tmp_path, tmp_path), []
    with Ledger(paths.ledger) as ledger:
        for event in ("run-started", "run-ended", "blocks-added", "run-resumed", "run-ended"):
            ledger.append(event)
            seen.append(is_run_complete(paths))
    assert seen == [False, True, False, False, True]


@pytest.mark.parametrize(
    "entry", [{}, {"trials": [{"trial": "t9"}]}, {"trials": [vars(PlannedTrial("t9", "a", 5, 9)) | {"x": 2}]}]
)
def test_added_blocks_without_a_plan_that_this_version_knows_are_refused(entry):
    with pytest.raises(DataError, match="the ledger has no plan of the blocks that were added"):
        current_plan(PLAN, [{"event": "blocks-added", "blocks": 5} | entry])
