"""Which run a command means: the unfinished one, exactly as planned, a finished one with more blocks, or a new one.

Runs are never mixed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from loadbook.core.errors import UsageError
from loadbook.design.plan import Plan, make_plan, read_plan, study_sha256
from loadbook.design.study import Study
from loadbook.records.layout import Layout, RunPaths
from loadbook.records.ledger import read_ledger, states
from loadbook.records.planned import is_complete, plan_of
from loadbook.trials.adding import add_blocks, is_what_was_added


@dataclass(frozen=True)
class Wish:
    """What the user asked for: None leaves it to the study (a new run) or to the plan (a resumed one)."""

    subset: str | None = None
    blocks: int | None = None
    new: bool = False
    resume: str | None = None
    more: int | None = None


@dataclass(frozen=True)
class Chosen:
    """The run to be done: its id, plan and paths, whether it goes on from before, and a sentence that says so.

    `added` is what its ledger keeps of blocks that are added now.
    """

    run: str
    plan: Plan
    paths: RunPaths
    resumed: bool
    why: str
    added: dict[str, Any] | None = None


def choose(layout: Layout, study: Study, wish: Wish) -> Chosen:
    """Return the run to do: the one named by `wish.resume`, else the latest if it is unfinished, else a new one.

    With `wish.more` it is the latest, or the one named, that gets so many blocks more.

    Raises
    ------
    UsageError : the run to resume is complete or unknown, or the study changed since it was planned; blocks are added
        to a run that is unfinished, or to where its study does not look.
    """
    if wish.more is not None:
        return _longer(layout, study, wish)
    runs = layout.runs(study.name)
    if wish.resume is None and (wish.new or not runs or is_complete(layout.run(study.name, runs[-1]))):
        return _new(layout, study, wish)
    run = layout.resolve_run(study.name, wish.resume or "latest")
    paths = layout.run(study.name, run)
    if is_complete(paths):
        raise UsageError(f"run {run} of {study.name} is complete", "leave --resume out to start a new run")
    return _unfinished(study, paths, wish)


def _unfinished(study: Study, paths: RunPaths, wish: Wish) -> Chosen:
    run = paths.raw.name
    plan = read_plan(plan_of(paths), str(paths.plan))
    _must_go_on(study, plan, run, wish)
    left = len(plan.trials) - len(_final(paths))
    return Chosen(run, plan, paths, True, f"resuming run {run}: {left} of {len(plan.trials)} trials to do")


def _longer(layout: Layout, study: Study, wish: Wish) -> Chosen:
    """Return a finished run with more blocks, or the one whose added blocks are not done yet."""
    run, more = layout.resolve_run(study.name, wish.resume or "latest"), wish.more or 0
    paths = layout.run(study.name, run)
    if wish.new or wish.blocks or wish.subset:
        raise UsageError("--more adds blocks to a run as it was planned", "leave --new, --blocks and --subset out")
    if not is_complete(paths):
        if is_what_was_added(paths, more):
            return _unfinished(study, paths, wish)
        hint = f"finish it first: loadbook run {study.name}"
        raise UsageError(f"run {run} of {study.name} is unfinished: blocks are added when it is done", hint)
    added, plan = add_blocks(paths, more)
    _must_be_its_own(study, plan, run)
    why = f"adding {more} block{'s' if more > 1 else ''} to run {run}: {plan.blocks} in all"
    if added["exploratory"]:
        why += f", which makes it exploratory: its study declared {study.stopping.said()}"
    return Chosen(run, plan, paths, True, why, added)


def _final(paths: RunPaths) -> set[str]:
    return {trial for trial, state in states(read_ledger(paths.ledger)).items() if state.final}


def new_run_id(layout: Layout, study: str) -> str:
    """Return the id of a run that begins now; ids sort by time."""
    run = stem = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    number = 1
    while layout.run(study, run).raw.exists():
        number += 1
        run = f"{stem}-{number}"
    return run


def _new(layout: Layout, study: Study, wish: Wish) -> Chosen:
    plan = make_plan(study, wish.subset, wish.blocks)
    run = new_run_id(layout, study.name)
    blocks = f"{plan.blocks} block{'s' if plan.blocks > 1 else ''} of {len(plan.treatments)}"
    why = f"new run {run}: {len(plan.trials)} trials in {blocks}, about {plan.hours * 60:.0f} min"
    return Chosen(run, plan, layout.run(study.name, run), False, why)


def _must_go_on(study: Study, plan: Plan, run: str, wish: Wish) -> None:
    """Refuse to mix what was planned with something else."""
    _must_be_its_own(study, plan, run)
    if wish.subset is not None and wish.subset != plan.subset:
        changed = f"it was planned with the subset {plan.subset!r}, not {wish.subset!r}"
    elif wish.blocks is not None and wish.blocks != plan.blocks:
        changed = f"it was planned with {plan.blocks} blocks, not {wish.blocks}"
    else:
        return
    raise _refused(study, f"run {run} of {study.name} is unfinished, but {changed}")


def _must_be_its_own(study: Study, plan: Plan, run: str) -> None:
    if study_sha256(study) != study_sha256(plan.study):
        raise _refused(study, f"run {run} of {study.name} cannot go on: the study has changed since")


def _refused(study: Study, why: str) -> UsageError:
    return UsageError(why, f"undo that to go on with it, or start a new run: loadbook run {study.name} --new")
