"""Shared blocks of a recorded run, played back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loadbook.hosts.host import Job
from loadbook.hosts.jobs import WARMUP_SUFFIX
from loadbook.hosts.replay import RecordedRun, load_job_files
from loadbook.modes.plain.replay import PlainReplay
from loadbook.modes.shared.spec import SCHEDULE_FILE
from loadbook.store.trial_record import SharedRecord, TrialRecord
from loadbook.study.plan import Plan


class SharedReplay(PlainReplay):
    """How shared blocks are played back."""

    def check(self, plan: Plan, recording: RecordedRun, hosts_file: Path) -> None:
        """Accept any run: one of plain trials is a reason against shared blocks."""

    def measured_trial(self, recording: RecordedRun, folder: Path, record: TrialRecord) -> tuple[Path, TrialRecord]:
        """Return an arm of the block whose load ran to its end, in place of one that failed."""
        arms = _arms_of_block(recording, record.block)
        return arms[0][:2] if arms and record.shared is None else (folder, record)

    def job_files(
        self, recording: RecordedRun, job: Job, record: TrialRecord, alias: str
    ) -> Iterator[tuple[str, bytes]] | None:
        """Return the files of the job in which one load generator sends the requests of all arms."""
        if job.name.endswith(WARMUP_SUFFIX) or SCHEDULE_FILE not in job.files:
            return None
        return _load_files(recording, record, alias)


def _arms_of_block(recording: RecordedRun, block: int) -> list[tuple[Path, TrialRecord, SharedRecord]]:
    """Return the recorded arms of a block whose load ran to its end."""
    return [(folder, record, record.shared) for folder, record in recording.trials_of_block(block) if record.shared]


def _load_files(recording: RecordedRun, record: TrialRecord, alias: str) -> Iterator[tuple[str, bytes]]:
    for folder, arm_record, shared in _arms_of_block(recording, record.block):
        for driver in [one for one in arm_record.drivers if one.host == alias]:
            for name, data in load_job_files(driver, folder, 1):
                yield f"arm{shared.arm}/{name}" if name in driver.files else name, data


FACET = SharedReplay()
