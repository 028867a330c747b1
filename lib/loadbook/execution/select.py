"""The run that a command resumes, extends or starts; blocks added to a run; and the interim analyses of a run.

A command resumes the unfinished run exactly as planned, adds blocks to a finished one, or starts a new one. Added
blocks that the study's stopping rule does not provide for make a run exploratory, since the user may know the results.
Interim analyses are recorded in the ledger, so that a resumed run neither repeats nor ignores their decisions.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from loadbook.core.errors import LoadbookError, UsageError
from loadbook.core.units import format_duration, pluralize
from loadbook.execution.progress import LockPolicy, OnEvent, Progress
from loadbook.execution.studies import plan_study
from loadbook.store.ledger import (
    Ledger,
    all_planned_trials,
    current_plan,
    is_run_complete,
    read_current_plan,
    read_ledger,
    read_plan,
    trial_states,
)
from loadbook.store.paths import Layout, RunPaths
from loadbook.study.model import Study
from loadbook.study.plan import Plan, additional_trials, as_planned, left_out_text, study_sha256

DECISIVE_VERDICTS = ("better", "worse", "small", "no-loss", "equivalent")


def stopping_points(plan: Plan, entries: Iterable[dict[str, Any]]) -> list[int]:
    """Return the numbers of blocks after which a run may end, in ascending order; the last is the end of its plan.

    `entries` are the events of its ledger. If an interim analysis has ended the run, only its number of blocks is
    returned. If the user added blocks after that, all of them are run.
    """
    changes = [e for e in entries if e["event"] in ("looked", "blocks-added")]
    analyses = [e for e in changes if e["event"] == "looked"]
    if analyses and analyses[-1]["decided"]:
        return [analyses[-1]["blocks"] if changes[-1] is analyses[-1] else plan.blocks]
    since = analyses[-1]["blocks"] if analyses else 0
    interim = plan.study.stopping.interim_blocks(plan.blocks)
    return sorted({*(blocks for blocks in interim if since < blocks < plan.blocks), plan.blocks})


def interim_analysis(layout: Layout, plan: Plan, run: str, blocks: int, ledger: Ledger, on_event: OnEvent) -> bool:
    """Analyse a run after `blocks` blocks, if the study plans it; return whether every comparison is decided.

    The result is False as long as a harness check is too noisy to allow a verdict, which further blocks may change,
    and if no analysis is planned here. If the analysis fails, False is returned, and an event reports it.
    """
    earlier = [e for e in ledger.entries if e["event"] == "looked" and e["blocks"] == blocks]
    if earlier or not plan.study.stopping.allows_interim(blocks):
        return bool(earlier) and bool(earlier[-1]["decided"])
    try:
        title, undecided = _undecided_treatments(layout, plan, run)
    except LoadbookError as error:
        on_event(Progress("note", f"no look after {blocks} blocks: {error.message}"))
        return False
    ledger.append("looked", blocks=blocks, decided=not undecided, undecided=undecided)
    message = f"undecided: {', '.join(undecided)}" if undecided else "every comparison is decided"
    on_event(Progress("note", f"{title}: {message}"))
    return not undecided


def _undecided_treatments(layout: Layout, plan: Plan, run: str) -> tuple[str, list[str]]:
    """Analyse the run so far; return a title for the analysis and the names of undecided treatments and checks."""
    from loadbook.ingestion.ingest import ingest
    from loadbook.stats.analyse import analyse_strata
    from loadbook.stats.text import evidence_text
    from loadbook.store.tables import load_run

    ingest(layout.run(plan.study.name, run))
    analysis = analyse_strata(load_run(layout, plan.study.name, run))
    rows = analysis.of_kind("treatment")
    undecided = [row.treatment for row in rows if row.verdict is None or row.verdict.kind not in DECISIVE_VERDICTS]
    check, state = analysis.demoting_check, analysis.stopping_state
    undecided += [check.treatment] if check and check.check_state == "inconclusive" else []
    undecided += [row.treatment for row in analysis.wide_arms if undecided and not row.is_narrow]
    title = evidence_text(state.blocks or 0, state.interim_analysis, state.added_blocks)
    return title, undecided or ([] if rows else ["no treatment to compare"])


def add_blocks(paths: RunPaths, more: int) -> tuple[dict[str, Any], Plan]:
    """Return the ledger's entry for adding `more` blocks to a run, and the extended plan; nothing is written.

    Raises
    ------
    UsageError : the study plans later analyses, but not at that number of blocks; the run was imported; `more` < 1.
    """
    if more < 1:
        raise UsageError(f"{more} blocks cannot be added", "give a number of blocks, 1 or more")
    begun, entries = read_plan(paths), read_ledger(paths.ledger)
    before = current_plan(begun, entries)
    plan = replace(before, trials=all_planned_trials(begun, entries))
    total = before.blocks + more
    later = [look for look in plan.study.stopping.looks if look > before.blocks]
    if later and total < later[-1] and total not in later:
        raise UsageError(
            f"{total} blocks are no planned look: study {plan.study.name!r} {plan.study.stopping.describe()}",
            f"go on to its next look: --more {later[0] - before.blocks}",
        )
    added = {
        "blocks": total,
        "more": more,
        "exploratory": not plan.study.stopping.allows_interim(total),
        "trials": [asdict(trial) for trial in additional_trials(plan, total)],
    }
    return added, current_plan(begun, [*entries, {"event": "blocks-added"} | added])


def resumes_added_blocks(paths: RunPaths, more: int) -> bool:
    """Return whether a run is unfinished because exactly `more` blocks were added to it."""
    changes = [e for e in read_ledger(paths.ledger) if e["event"] in ("blocks-added", "run-ended")]
    return bool(changes) and changes[-1].get("more") == more


@dataclass(frozen=True)
class RunRequest:
    """A run as the user asks for it.

    Attributes
    ----------
    study : a name in studies/, a path to a .toml file, or `<name>-smoke`.
    hosts : hosts file; None uses the loopback lab, which is started if it is down.
    subset, blocks : subset and number of blocks of a new run; None takes the study's own (resumed run: the plan's).
    new : start a new run although the last one is unfinished.
    resume : id of the unfinished run to resume; None is the latest.
    more : number of blocks to add to the latest complete run, or to the run `resume`; the run becomes exploratory
        unless the study plans an analysis at the new number of blocks.
    lock_policy : reaction to hosts that another run uses; the default raises InUseError.
    """

    study: str
    hosts: Path | None = None
    subset: str | None = None
    blocks: int | None = None
    new: bool = False
    resume: str | None = None
    more: int | None = None
    lock_policy: LockPolicy = field(default_factory=LockPolicy)


@dataclass(frozen=True)
class RunSelection:
    """The selected run: its id, plan and paths, whether it is resumed, and a message for the user.

    `added_blocks` is the ledger's entry for blocks that this command adds; None if it adds none.
    """

    run: str
    plan: Plan
    paths: RunPaths
    resumed: bool
    message: str
    added_blocks: dict[str, Any] | None = None


def select_run(layout: Layout, study: Study, request: RunRequest) -> RunSelection:
    """Return the run named by `request.resume`, else the latest unfinished run, else a new one.

    With `request.more`, that number of blocks is added to the latest or named run.

    Raises
    ------
    UsageError : the run to resume is complete or unknown; the study changed since it was planned; blocks are added to
        an unfinished run, or where the study plans no analysis.
    """
    if request.more is not None:
        return _select_extended(layout, study, request)
    runs = layout.runs(study.name)
    if request.resume is None and (request.new or not runs or is_run_complete(layout.run(study.name, runs[-1]))):
        plan, run = plan_study(layout, study, request.subset, request.blocks), new_run_id(layout, study.name)
        blocks = f"{plan.blocks_text} of {len(plan.treatments)}"
        took = format_duration(round(plan.hours * 3600))
        message = f"new run {run}: {len(plan.trials)} trials in {blocks}, about {took}"
        message = "; ".join(filter(None, (message, left_out_text(plan.left_out))))
        return RunSelection(run, plan, layout.run(study.name, run), False, message)
    run = layout.resolve_run(study.name, request.resume or "latest")
    paths = layout.run(study.name, run)
    if is_run_complete(paths):
        raise UsageError(f"run {run} of {study.name} is complete", "leave --resume out to start a new run")
    return _select_unfinished(study, paths, request)


def _select_unfinished(study: Study, paths: RunPaths, request: RunRequest) -> RunSelection:
    run = paths.raw.name
    plan = read_current_plan(paths)
    _check_same_plan(study, plan, run, request)
    final = [state for state in trial_states(read_ledger(paths.ledger)).values() if state.final]
    trials_left = len(plan.trials) - len(final)
    return RunSelection(run, plan, paths, True, f"resuming run {run}: {trials_left} of {len(plan.trials)} trials to do")


def _select_extended(layout: Layout, study: Study, request: RunRequest) -> RunSelection:
    """Return a finished run with added blocks, or an unfinished run to which these blocks were added before."""
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
    message = f"adding {pluralize(more, 'block')} to run {run}: {plan.blocks} in all"
    if added["exploratory"]:
        message += f", which makes it exploratory: its study declared {study.stopping.describe()}"
    return RunSelection(run, plan, paths, True, message, added)


def new_run_id(layout: Layout, study: str) -> str:
    """Return the id of a run that begins now: its UTC time, so that ids sort by time, and a number if it is taken."""
    run = stem = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    number = 1
    while layout.run(study, run).raw.exists():
        number += 1
        run = f"{stem}-{number}"
    return run


def _check_same_plan(study: Study, plan: Plan, run: str, request: RunRequest) -> None:
    """Raise UsageError if study, subset or number of blocks differ from the plan of the run to resume."""
    _check_same_study(study, plan, run)
    if request.subset is not None and request.subset != plan.subset:
        difference = f"it was planned with the subset {plan.subset!r}, not {request.subset!r}"
    elif request.blocks is not None and request.blocks != plan.blocks:
        difference = f"it was planned with {plan.blocks} blocks, not {request.blocks}"
    else:
        return
    raise _mismatch_error(study, f"run {run} of {study.name} is unfinished, but {difference}")


def _check_same_study(study: Study, plan: Plan, run: str) -> None:
    if study_sha256(as_planned(study, plan)) != study_sha256(plan.study):
        raise _mismatch_error(study, f"run {run} of {study.name} cannot go on: the study has changed since")


def _mismatch_error(study: Study, message: str) -> UsageError:
    return UsageError(message, f"undo that to go on with it, or start a new run: loadbook run {study.name} --new")
