"""The attempts of a run on the controller: entries in the ledger, staging folders, and folders of ended attempts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from loadbook.core.errors import DataError
from loadbook.execution.attempt import initial_record
from loadbook.execution.testbed import Testbed
from loadbook.store import trial_record
from loadbook.store.ledger import Ledger, TrialState, trial_states
from loadbook.store.paths import RunPaths
from loadbook.store.trial_record import TrialRecord
from loadbook.study.plan import PlannedTrial

PUBLISHED_STATUSES = ("ok", "partial", "invalid")
# status -> maximum number of attempts: an unstable network may break two attempts; a tool that hung twice hangs again
MAX_ATTEMPTS = {"lost": 3, "timeout": 2}


class AttemptStore:
    """The attempts of one run: their events in the ledger, and their folders, which one rename makes visible."""

    def __init__(self, testbed: Testbed, paths: RunPaths, ledger: Ledger) -> None:
        self.testbed, self.paths, self.ledger = testbed, paths, ledger

    def staging_folder(self, trial: str, attempt: int) -> Path:
        """Return the temporary folder in which an attempt's files are collected."""
        return self.paths.raw / "staging" / f"{trial}-attempt{attempt}"

    def failed_folder(self, trial: str, attempt: int) -> Path:
        """Return the final folder of a failed attempt."""
        return self.paths.failed / f"{trial}-attempt{attempt}"

    def states(self) -> dict[str, TrialState]:
        """Return trial -> state (last attempt and its status) for every trial that was started."""
        return trial_states(self.ledger.entries)

    def begin(self, planned: PlannedTrial) -> tuple[int, Path]:
        """Record a new attempt in the ledger; return its number and an empty temporary folder for its files."""
        state = self.states().get(planned.trial)
        attempt = state.attempt + 1 if state else 1
        self.ledger.append("started", trial=planned.trial, attempt=attempt)
        folder = self.staging_folder(planned.trial, attempt)
        folder.mkdir(parents=True)
        return attempt, folder

    def end(self, record: TrialRecord, folder: Path, *, final: bool) -> None:
        """Write checksums into an attempt's record, move its folder to its final place, and record its end.

        `final` is False if the trial will be attempted again. The folder of an attempt whose load ran to its end is
        moved to trials/, others to failed/.
        """
        self._file(trial_record.seal_trial(folder, record), folder, final=final)

    def end_block(self, ended: Sequence[tuple[TrialRecord, Path]]) -> None:
        """Record the final end of all arms of a block, given as record and folder.

        If the controller dies meanwhile, a resumed run finds all of them complete, or repeats all of them.
        """
        sealed = [(trial_record.seal_trial(folder, record), folder) for record, folder in ended]
        for record, folder in sealed:
            self._file(record, folder, final=True)

    def _file(self, sealed: TrialRecord, folder: Path, *, final: bool) -> None:
        whole = sealed.status in PUBLISHED_STATUSES and sealed.drivers
        place = self.paths.trial(sealed.trial) if whole else self.failed_folder(sealed.trial, sealed.attempt)
        trial_record.publish_trial(folder, place)
        self._record_end(sealed, place, final=final)

    def _record_end(self, record: TrialRecord, folder: Path, *, final: bool) -> None:
        fields = {"trial": record.trial, "attempt": record.attempt, "status": record.status, "reason": record.reason}
        sha256 = trial_record.sha256_file(folder / trial_record.RECORD_NAME)
        self.ledger.append("ended", **fields, final=final, sha256=sha256)

    def pending(self) -> Iterator[PlannedTrial]:
        """Yield the planned trials without a final status, in the plan's order."""
        for planned in self.testbed.plan.trials:
            state = self.states().get(planned.trial)
            if state is None or not state.final:
                yield planned

    def unfinished(self) -> list[tuple[PlannedTrial, int]]:
        """Return (planned trial, number of the attempt) of attempts without a recorded end, whose controller died."""
        open_ = {trial: state.attempt for trial, state in self.states().items() if state.status is None}
        return [(planned, open_[planned.trial]) for planned in self.testbed.plan.trials if planned.trial in open_]

    def lost(self) -> list[tuple[str, int]]:
        """Return trial and number of each attempt that lost a host, on which its jobs may still exist."""
        ended = [entry for entry in self.ledger.entries if entry["event"] == "ended"]
        return [(entry["trial"], entry["attempt"]) for entry in ended if entry["status"] == "lost"]

    def recover(self, planned: PlannedTrial, attempt: int) -> TrialRecord:
        """Record the end of an attempt whose controller died, and return its record.

        A complete attempt counts; an incomplete one is stored as a failed attempt, and its trial is repeated. An arm of
        a block that runs together is complete if all of its arms are.

        Raises
        ------
        DataError : the attempt is already in its final folder, but its record is missing or damaged.
        """
        is_arm = self.testbed.plan.mode.runs_together(self.testbed.plan, planned.block)
        is_whole_block = is_arm and self._is_block_complete(planned.block)
        for place in (self.paths.trial(planned.trial), self.failed_folder(planned.trial, attempt)):
            if place.is_dir():
                try:
                    record = trial_record.read_trial(place)
                except DataError as error:
                    hint = f"move {place} away, then resume: {planned.trial} is repeated; or restore it from a backup"
                    raise DataError(error.message, hint) from error
                self._record_end(record, place, final=is_whole_block or place == self.paths.trial(planned.trial))
                return record
        folder = self.staging_folder(planned.trial, attempt)
        folder.mkdir(parents=True, exist_ok=True)
        sealed = _read_sealed(folder) if is_whole_block or not is_arm else None
        record = sealed or initial_record(self.testbed, planned, attempt)
        self.end(record, folder, final=is_whole_block or record.status in PUBLISHED_STATUSES)
        return record

    def _is_block_complete(self, block: int) -> bool:
        """Return whether each arm of a block has its final end or a complete folder."""
        states = self.states()

        def is_complete(trial: str) -> bool:
            state = states.get(trial)
            if state is None:
                return False
            if state.status is not None:
                return state.final
            places = (self.paths.trial(trial), self.failed_folder(trial, state.attempt))
            return any(map(Path.is_dir, places)) or _read_sealed(self.staging_folder(trial, state.attempt)) is not None

        return all(is_complete(planned.trial) for planned in self.testbed.plan.trials if planned.block == block)


def _read_sealed(folder: Path) -> TrialRecord | None:
    """Return the record in a staging folder if it is complete, else None."""
    try:
        record = trial_record.read_trial(folder)
    except DataError:
        return None
    return None if trial_record.changed_files(folder, record) else record
