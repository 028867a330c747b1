"""Interleaved blocks of a recorded run, played back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loadbook.hosts.host import Job
from loadbook.hosts.jobs import INTERLEAVE_PROGRAM
from loadbook.hosts.replay import RecordedRun
from loadbook.modes.plain.replay import PlainReplay
from loadbook.store.trial_record import InterleavedRecord, TrialRecord
from loadbook.study.plan import Plan


class InterleavedReplay(PlainReplay):
    """How interleaved blocks are played back."""

    def check(self, plan: Plan, recording: RecordedRun, hosts_file: Path) -> None:
        """Accept any run: one of plain trials is a reason against interleaved blocks."""

    def measured_trial(self, recording: RecordedRun, folder: Path, record: TrialRecord) -> tuple[Path, TrialRecord]:
        """Return an arm of the block whose load ran to its end, in place of one that failed."""
        arms = _arms_of_block(recording, record.block)
        return arms[0][:2] if arms and record.interleaved is None else (folder, record)

    def job_files(
        self, recording: RecordedRun, job: Job, record: TrialRecord, alias: str
    ) -> Iterator[tuple[str, bytes]] | None:
        """Return the files of the job in which load generators take turns."""
        if INTERLEAVE_PROGRAM not in job.steps[-1]:
            return None
        return _turns_files(recording, job, record, alias)


def _arms_of_block(recording: RecordedRun, block: int) -> list[tuple[Path, TrialRecord, InterleavedRecord]]:
    """Return the recorded arms of a block whose load ran to its end."""
    of_block = recording.trials_of_block(block)
    return [(folder, record, record.interleaved) for folder, record in of_block if record.interleaved]


def _turns_files(recording: RecordedRun, job: Job, record: TrialRecord, alias: str) -> Iterator[tuple[str, bytes]]:
    for folder, arm_record, arm in _arms_of_block(recording, record.block):
        yield from _arm_files(folder, arm_record, arm, alias)
    yield f"rc.{len(job.steps)}", b"0\n"
    yield "rc", b"0\n"


def _arm_files(folder: Path, record: TrialRecord, arm: InterleavedRecord, alias: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of one driver's files of one arm, and of its slices."""
    for driver in record.drivers:
        if driver.host != alias:
            continue
        yield "stdout.1", (folder / (driver.slices or arm.slices)).read_bytes()
        outputs = {"stdout": driver.stdout, "stderr": driver.stderr} | driver.files
        for name, file_name in outputs.items():
            yield f"arm{arm.arm}/{name}", (folder / file_name).read_bytes()


FACET = InterleavedReplay()
