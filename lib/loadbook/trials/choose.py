"""Which run a command means: the unfinished one, goes on exactly as planned, or a new one. Runs are never mixed."""

from __future__ import annotations

import time
from dataclasses import dataclass

from loadbook.core.errors import UsageError
from loadbook.design.plan import Plan, make_plan, read_plan, study_sha256
from loadbook.design.study import Study
from loadbook.records.layout import Layout, RunPaths
from loadbook.records.ledger import read_ledger, states
from loadbook.records.manifest import read_json


@dataclass(frozen=True)
class Wish:
    """What the user asked for: None leaves it to the study (a new run) or to the plan (a resumed one)."""

    subset: str | None = None
    blocks: int | None = None
    new: bool = False
    resume: str | None = None


@dataclass(frozen=True)
class Chosen:
    """The run to be done: its id, plan and paths, whether it goes on from before, and a sentence that says so."""

    run: str
    plan: Plan
    paths: RunPaths
    resumed: bool
    why: str


def choose(layout: Layout, study: Study, wish: Wish) -> Chosen:
    """Return the run to do: the one named by `wish.resume`, else the latest if it is unfinished, else a new one.

    Raises
    ------
    UsageError : the run to resume is complete or unknown, or the study changed since it was planned.
    """
    runs = layout.runs(study.name)
    if wish.resume is None and (wish.new or not runs or is_complete(layout.run(study.name, runs[-1]))):
        return _new(layout, study, wish)
    run = layout.resolve_run(study.name, wish.resume or "latest")
    paths = layout.run(study.name, run)
    if is_complete(paths):
        raise UsageError(f"run {run} of {study.name} is complete", "leave --resume out to start a new run")
    plan = read_plan(read_json(paths.plan), str(paths.plan))
    _must_go_on(study, plan, run, wish)
    left = len(plan.trials) - len(_final(paths))
    return Chosen(run, plan, paths, True, f"resuming run {run}: {left} of {len(plan.trials)} trials to do")


def is_complete(paths: RunPaths) -> bool:
    """Tell whether a run was done to its end: every trial has its final state and the hosts' facts were read again."""
    return any(entry["event"] == "run-ended" for entry in read_ledger(paths.ledger))


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
    if study_sha256(study) != study_sha256(plan.study):
        changed = "the study has changed since"
    elif wish.subset is not None and wish.subset != plan.subset:
        changed = f"it was planned with the subset {plan.subset!r}, not {wish.subset!r}"
    elif wish.blocks is not None and wish.blocks != plan.blocks:
        changed = f"it was planned with {plan.blocks} blocks, not {wish.blocks}"
    else:
        return
    raise UsageError(
        f"run {run} of {study.name} is unfinished, but {changed}",
        f"undo that to go on with it, or start a new run: loadbook run {study.name} --new",
    )
