"""A small study of the lab with interleaved blocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from lab_study import ON_A_BUSY_MACHINE
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.store import trial_record
from loadbook.store.ledger import read_current_plan
from loadbook.store.paths import Layout
from recorded_run import with_studies

SMALL = (
    """
include = "aa.toml"
name = "small"
blocks = 1
execution = "interleaved"
"""
    + ON_A_BUSY_MACHINE
    + "stall = 0.9\n"
)  # stalls: test_stall_lab


def project_of_small(root: Path) -> Layout:
    """Make a project with the study."""
    made = with_studies(root)
    (made.studies / "small.toml").write_text(SMALL)
    return made


def run_in_turns(layout: Layout, request: RunRequest, **options: Any) -> str:
    """Run a study until its blocks are interleaved, 3 times at most: a busy machine answers too slowly for slices."""
    for _ in range(3):
        run = run_study(layout, request, **options)
        if not read_current_plan(layout.run(request.study, run)).plain_because:
            return run
        request = replace(request, new=True)
    raise AssertionError("the machine is too slow for interleaved blocks")


def records_of(layout: Layout, run: str, study: str = "small") -> list[trial_record.TrialRecord]:
    """Return the records of the trials of a run."""
    return [trial_record.read_trial(folder) for folder in sorted(layout.run(study, run).trials.iterdir())]
