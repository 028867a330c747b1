"""A small study of the lab with interleaved blocks."""

from __future__ import annotations

from pathlib import Path

from lab_study import ON_A_BUSY_MACHINE
from loadbook.store import trial_record
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


def records_of(layout: Layout, run: str) -> list[trial_record.TrialRecord]:
    """Return the records of the trials of a run."""
    return [trial_record.read_trial(folder) for folder in sorted(layout.run("small", run).trials.iterdir())]
