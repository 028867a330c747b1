"""Comparison of the commands that a run sent to its hosts (its transcripts) with those that the dry run shows."""

from __future__ import annotations

import json
from pathlib import Path

from loadbook.execution.dry_run import RUN, TRIAL, dry_run
from loadbook.execution.studies import load_study
from loadbook.hosts.dry import CLOCK_COMMAND, DryRunStep
from loadbook.hosts.replay import call_key
from loadbook.modes.interleaved.run_dry import block_phases
from loadbook.store.paths import Layout, RunPaths
from loadbook.study.plan import make_plan

MAKING = ("env", "go")
CALLS = {"script": "script", "run": "run", "job": "start", "http": "http_get"}
# what is done only where it was not done before
BUILDING = (": loadbook builds", ": loadbook unpacks", ": loadbook places")


def run_held_to_dry_run(layout: Layout, study: str, paths: RunPaths) -> None:
    """Assert that each host received the commands that the dry run shows, once per run and in each trial."""
    plan = make_plan(load_study(layout, study))
    run, parts = dry_run(layout, plan, paths.hosts_toml)
    assert run is not None
    assert not [part.missing for part in parts if part.missing]
    for alias, host in run.hosts.items():
        once = [phase for part in (parts[0], parts[-1]) for phase in part.phases]
        hold(questions(once, alias, host.workdir), tape(paths.raw / f"answers-{alias}"), f"{alias}, once")
        if plan.mode.name == "interleaved":
            first = next(trial for trial in plan.trials if trial.block == 1)
            seen = tape(paths.trial(first.trial) / f"answers-{alias}")
            hold(questions(block_phases(run), alias, host.workdir), seen, f"{alias}, block 1")
            continue
        for trial in plan.trials:
            phases = [
                (
                    title,
                    [step._replace(args=tuple(w.replace(TRIAL, trial.trial) for w in step.args)) for step in steps],
                )
                for title, steps in run.attempt_phases(trial.treatment)
            ]
            seen = tape(paths.trial(trial.trial) / f"answers-{alias}")
            hold(questions(phases, alias, host.workdir), seen, f"{alias}, {trial.treatment}")


def hold(displayed: set[tuple[str, ...]], seen: set[tuple[str, ...]], where: str) -> None:
    """Assert that the shown commands equal the executed ones; of a job, a transcript has only the last step."""
    extra = {words for words in seen - displayed if not any(word.startswith(BUILDING) for word in words)}
    assert not extra, f"{where}: asked and not shown: {extra}"
    lacking = {words for words in displayed - seen if words[0] != "start" and not set(MAKING) & set(words)}
    assert not lacking, f"{where}: shown and not asked: {lacking}"


def questions(phases: list[tuple[str, list[DryRunStep]]], alias: str, workdir: str) -> set[tuple[str, ...]]:
    """Return the commands for a host in these phases of a dry run, in the form of a transcript."""
    own = [step for _, steps in phases for step in steps if step.alias == alias]
    return {words for step in own if (words := requested(step, workdir))}


def requested(step: DryRunStep, workdir: str) -> tuple[str, ...] | None:
    """Return a step of a dry run in the form of a transcript; None if transcripts do not record it."""
    words = step.args
    if words == CLOCK_COMMAND:
        return ("clock",)
    if step.action not in CALLS:
        return None
    if step.action == "http":
        words = (words[0].partition("://")[2],)
    return plain(call_key(CALLS[step.action], words, workdir, RUN))


def plain(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command with its process ids replaced by LEADER."""
    only_pids = words[:2] == ("script", ": loadbook reads the CPU time of services")
    return tuple(
        "LEADER" if word == "LEADER" or (k >= 2 and (only_pids or (k == 2 and word.isdigit()))) else word
        for k, word in enumerate(words)
    )


def tape(path: Path) -> set[tuple[str, ...]]:
    """Return the commands in a host's transcript."""
    entries = [tuple(json.loads(line)["asked"]) for line in path.read_text().splitlines()]
    return {plain(entry) for entry in entries if entry[0] != "token"}
