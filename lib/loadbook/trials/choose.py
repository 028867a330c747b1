"""Which run a command means: the unfinished one, exactly as planned, a finished one with more blocks, or a new one.

Runs are never mixed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from loadbook.core.errors import UsageError
from loadbook.design.plan import Plan, make_plan, parse_plan, study_sha256
from loadbook.design.study import Study
from loadbook.records.layout import Layout, RunPaths
from loadbook.records.ledger import read_ledger, trial_states
from loadbook.records.planned import is_run_complete, read_current_plan
from loadbook.trials.adding import add_blocks, resumes_added_blocks


@dataclass(frozen=True)
class RunRequest:
    """What the user asked for: None leaves it to the study (a new run) or to the plan (a resumed one)."""

    subset: str | None = None
    blocks: int | None = None
    new: bool = False
    resume: str | None = None
    more: int | None = None


@dataclass(frozen=True)
class RunSelection:
    """The run to be done: its id, plan and paths, whether it goes on from before, and a sentence that says so.

    `added` is what its ledger keeps of blocks that are added now.
    """

    run: str
    plan: Plan
    paths: RunPaths
    resumed: bool
    message: str
    added_blocks: dict[str, Any] | None = None


def select_run(layout: Layout, study: Study, request: RunRequest) -> RunSelection:
    """Return the run to do: the one named by `wish.resume`, else the latest if it is unfinished, else a new one.

    With `wish.more` it is the latest, or the one named, that gets so many blocks more.

    Raises
    ------
    UsageError : the run to resume is complete or unknown, or the study changed since it was planned; blocks are added
        to a run that is unfinished, or to where its study does not look.
    """
    if request.more is not None:
        return _select_extended(layout, study, request)
    runs = layout.runs(study.name)
    if request.resume is None and (request.new or not runs or is_run_complete(layout.run(study.name, runs[-1]))):
        return _select_new(layout, study, request)
    run = layout.resolve_run(study.name, request.resume or "latest")
    paths = layout.run(study.name, run)
    if is_run_complete(paths):
        raise UsageError(f"run {run} of {study.name} is complete", "leave --resume out to start a new run")
    return _select_unfinished(study, paths, request)


def _select_unfinished(study: Study, paths: RunPaths, request: RunRequest) -> RunSelection:
    run = paths.raw.name
    plan = parse_plan(read_current_plan(paths), str(paths.plan_json))
    _check_same_plan(study, plan, run, request)
    trials_left = len(plan.trials) - len(_final_trials(paths))
    return RunSelection(run, plan, paths, True, f"resuming run {run}: {trials_left} of {len(plan.trials)} trials to do")


def _select_extended(layout: Layout, study: Study, request: RunRequest) -> RunSelection:
    """Return a finished run with more blocks, or the one whose added blocks are not done yet."""
    run, more = layout.resolve_run(study.name, request.resume or "latest"), request.more or 0
    paths = layout.run(study.name, run)
    if request.new or request.blocks or request.subset:
        raise UsageError("--more adds blocks to a run as it was planned", "leave --new, --blocks and --subset out")
    if not is_run_complete(paths):
        if resumes_added_blocks(paths, more):
            return _select_unfinished(study, paths, request)
        hint = f"finish it first: loadbook run {study.name}"
        raise UsageError(f"run {run} of {study.name} is unfinished: blocks are added when it is done", hint)
    added, plan = add_blocks(paths, more)
    _check_same_study(study, plan, run)
    message = f"adding {more} block{'s' if more > 1 else ''} to run {run}: {plan.blocks} in all"
    if added["exploratory"]:
        message += f", which makes it exploratory: its study declared {study.stopping.describe()}"
    return RunSelection(run, plan, paths, True, message, added)


def _final_trials(paths: RunPaths) -> set[str]:
    return {trial for trial, state in trial_states(read_ledger(paths.ledger)).items() if state.final}


def new_run_id(layout: Layout, study: str) -> str:
    """Return the id of a run that begins now; ids sort by time."""
    run = stem = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    number = 1
    while layout.run(study, run).raw.exists():
        number += 1
        run = f"{stem}-{number}"
    return run


def _select_new(layout: Layout, study: Study, request: RunRequest) -> RunSelection:
    plan = make_plan(study, request.subset, request.blocks)
    run = new_run_id(layout, study.name)
    blocks = f"{plan.blocks} block{'s' if plan.blocks > 1 else ''} of {len(plan.treatments)}"
    message = f"new run {run}: {len(plan.trials)} trials in {blocks}, about {plan.hours * 60:.0f} min"
    return RunSelection(run, plan, layout.run(study.name, run), False, message)


def _check_same_plan(study: Study, plan: Plan, run: str, request: RunRequest) -> None:
    """Refuse to mix what was planned with something else."""
    _check_same_study(study, plan, run)
    if request.subset is not None and request.subset != plan.subset:
        difference = f"it was planned with the subset {plan.subset!r}, not {request.subset!r}"
    elif request.blocks is not None and request.blocks != plan.blocks:
        difference = f"it was planned with {plan.blocks} blocks, not {request.blocks}"
    else:
        return
    raise _mismatch_error(study, f"run {run} of {study.name} is unfinished, but {difference}")


def _check_same_study(study: Study, plan: Plan, run: str) -> None:
    if study_sha256(study) != study_sha256(plan.study):
        raise _mismatch_error(study, f"run {run} of {study.name} cannot go on: the study has changed since")


def _mismatch_error(study: Study, message: str) -> UsageError:
    return UsageError(message, f"undo that to go on with it, or start a new run: loadbook run {study.name} --new")
