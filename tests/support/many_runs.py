"""A study with many nightly runs, made from the simulated run of mock_project, with varying effects and hosts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loadbook.store.ledger import Ledger
from loadbook.store.paths import Layout
from loadbook.store.tables import TABLES
from loadbook.store.trial_record import read_json, write_json
from mock_project import Arm, make_project

STUDY, DAY = "nginx-directives", 86400.0
BEGIN = 1_767_229_200.0  # 2026-01-01 01:00 UTC
Change = Callable[[dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]], None]


def arms(effect: float = 0.03) -> dict[str, Arm]:
    """Return a baseline, an A/A arm and one treatment with this effect (log)."""
    return {
        "baseline": Arm(label="baseline", scatter=0.006),
        "aa": Arm(check="aa", label="A/A: baseline again", scatter=0.006),
        "tcp-nopush": Arm(effect, {"tcp_nopush": True}, "tcp_nopush on", scatter=0.006),
    }


def add(
    root: Path, at: float, effect: float = 0.03, machine: str = "one", change: Change | None = None, ended: bool = True
) -> str:
    """Make one run that began at `at` (epoch s); the function `change` may edit run.json, plan.json and host facts.

    Returns the run's id.
    """
    run = time.strftime("%Y%m%d-%H%M%S", time.gmtime(at))
    layout = make_project(root, arms(effect), run=run, blocks=8, traces=False, doubt=None, dice=round(at) % 9973)
    paths = layout.run(STUDY, run)
    reported, plan = read_json(paths.run_json), read_json(paths.plan_json)
    facts = {path: read_json(path) for path in paths.facts.glob("*.json")}
    reported |= {"started": at, "ended": at + 600}
    for fact in facts.values():
        fact["machine"] = {"value": machine, "kind": "identity"}
    if change:
        change(reported, plan, {path.stem: fact for path, fact in facts.items()})
    for path, content in [(paths.run_json, reported), (paths.plan_json, plan), *facts.items()]:
        write_json(path, content)
    if ended:
        with Ledger(paths.ledger) as ledger:
            ledger.append("run-ended", files={})
    for name in TABLES:  # as if they had been made of what is recorded now
        os.utime(paths.table(name))
    return run


def nights(root: Path, number: int, effect: Callable[[int], float] = lambda k: 0.03, **other: Any) -> Layout:
    """Make `number` runs, one per night."""
    for night in range(number):
        add(root, BEGIN + night * DAY, effect(night), **other)
    return Layout(root)


def kernel(reported: dict[str, Any], plan: dict[str, Any], facts: dict[str, dict[str, Any]]) -> None:
    """Edit a run's facts: another kernel on every host."""
    for fact in facts.values():
        fact["kernel"]["value"] = "6.12.0"


def margin(reported: dict[str, Any], plan: dict[str, Any], facts: dict[str, dict[str, Any]]) -> None:
    """Edit a run's plan: another margin."""
    plan["study_spec"]["margin"] = 0.05


def replay(reported: dict[str, Any], plan: dict[str, Any], facts: dict[str, dict[str, Any]]) -> None:
    """Edit a run's record: a replay of recorded answers, without new measurements."""
    reported["replay"] = "20260101-010000"


def imported(reported: dict[str, Any], plan: dict[str, Any], facts: dict[str, dict[str, Any]]) -> None:
    """Edit a run's record: imported results without times."""
    reported["imported"] = {
        "at": reported["started"],
        "timed": False,
        "folder": "theirs",
        "conditions": "conditions.csv",
    }
