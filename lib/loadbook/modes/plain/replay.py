"""Plain trials of a recorded run, played back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from loadbook.core.errors import UsageError
from loadbook.hosts.host import Job
from loadbook.hosts.replay import RecordedRun
from loadbook.modes.base import PLAIN, mode_of
from loadbook.store.trial_record import TrialRecord
from loadbook.study.model import Study
from loadbook.study.plan import Plan


class PlainReplay:
    """How a mode plays recorded trials back; the methods of this class are those of plain trials."""

    def check(self, plan: Plan, recording: RecordedRun, hosts_file: Path) -> None:
        """Raise UsageError if a recorded run cannot be played back in this mode."""
        if others := sorted(recording.executions(plan.trials) - {PLAIN}):
            raise UsageError(
                f"{hosts_file} plays run {recording.id} back, whose blocks are {others[0]}, and the study asks for "
                f"{plan.study.execution} trials",
                f'set execution = "auto" or "{others[0]}" in the study',
            )

    def measured_trial(self, recording: RecordedRun, folder: Path, record: TrialRecord) -> tuple[Path, TrialRecord]:
        """Return folder and record of the trial whose files are played back for this one: here its own."""
        return folder, record

    def job_files(
        self, recording: RecordedRun, job: Job, record: TrialRecord, alias: str
    ) -> Iterator[tuple[str, bytes]] | None:
        """Return name and content of each file of a job that only this mode has; None for any other job."""
        return None


FACET = PlainReplay()


def replay_of(study: Study) -> PlainReplay:
    """Return how the mode of a study plays recorded trials back."""
    return cast("PlainReplay", mode_of(study).facet("replay"))
