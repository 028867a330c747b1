"""From an attempt to the kept record: seal, publish by one rename, account for it; and the same after a crash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from loadbook.core.errors import DataError
from loadbook.design.plan import PlannedTrial
from loadbook.records import manifest
from loadbook.records.layout import RunPaths
from loadbook.records.ledger import Ledger, trial_states
from loadbook.records.manifest import TrialRecord
from loadbook.trials.bench import Testbed
from loadbook.trials.names import initial_record, failed_folder, staging_folder

PUBLISHED_STATUSES = ("ok", "partial", "invalid")


class AttemptStore:
    """Keeps the attempts of one run: the ledger says what was begun and how it ended, folders hold what was seen."""

    def __init__(self, testbed: Testbed, paths: RunPaths, ledger: Ledger) -> None:
        self.testbed, self.paths, self.ledger = testbed, paths, ledger

    def begin(self, planned: PlannedTrial) -> tuple[int, Path]:
        """Account for a new attempt and return its number and its empty staging folder."""
        state = trial_states(self.ledger.entries).get(planned.trial)
        attempt = state.attempt + 1 if state else 1
        self.ledger.append("started", trial=planned.trial, attempt=attempt)
        folder = staging_folder(self.paths, planned.trial, attempt)
        folder.mkdir(parents=True)
        return attempt, folder

    def end(self, record: TrialRecord, folder: Path, *, final: bool) -> None:
        """Seal and publish an attempt, whole or failed, then account for it."""
        sealed = manifest.seal_trial(folder, record)
        manifest.publish_trial(folder, self._final_folder(sealed))
        self._record_end(sealed, self._final_folder(sealed), final=final)

    def _final_folder(self, record: TrialRecord) -> Path:
        """Return where an attempt belongs: among the trials when its load ran to its end, else among the failed."""
        whole = record.status in PUBLISHED_STATUSES and record.drivers
        return self.paths.trial(record.trial) if whole else failed_folder(self.paths, record.trial, record.attempt)

    def _record_end(self, record: TrialRecord, folder: Path, *, final: bool) -> None:
        fields = {"trial": record.trial, "attempt": record.attempt, "status": record.status, "reason": record.reason}
        self.ledger.append("ended", **fields, final=final, sha256=manifest.sha256_file(folder / manifest.RECORD_NAME))

    def pending(self) -> Iterator[PlannedTrial]:
        """Yield the planned trials that have no final end, in the plan's order."""
        for planned in self.testbed.plan.trials:
            state = trial_states(self.ledger.entries).get(planned.trial)
            if state is None or not state.final:
                yield planned

    def unfinished(self) -> list[tuple[PlannedTrial, int]]:
        """Return the attempts that a dead controller left without a recorded end."""
        states_by_trial = trial_states(self.ledger.entries)
        open_ = {trial: s.attempt for trial, s in states_by_trial.items() if s.status is None}
        return [(p, open_[p.trial]) for p in self.testbed.plan.trials if p.trial in open_]

    def recover(self, planned: PlannedTrial, attempt: int) -> TrialRecord:
        """Give an attempt of a dead controller its one recorded end.

        What was already sealed counts as it is; anything else is kept as a failed attempt, and the trial is repeated.
        """
        for place in (self.paths.trial(planned.trial), failed_folder(self.paths, planned.trial, attempt)):
            if place.is_dir():
                record = manifest.read_trial(place)
                self._record_end(record, place, final=place == self.paths.trial(planned.trial))
                return record
        folder = staging_folder(self.paths, planned.trial, attempt)
        folder.mkdir(parents=True, exist_ok=True)
        record = _read_sealed(folder) or initial_record(self.testbed, planned, attempt)
        self.end(record, folder, final=record.status in PUBLISHED_STATUSES)
        return record


def lost_attempts(entries: Iterable[dict[str, Any]]) -> list[tuple[str, int]]:
    """Return trial and number of the attempts that lost a host, on which something of them may still be."""
    return [(e["trial"], e["attempt"]) for e in entries if e["event"] == "ended" and e["status"] == "lost"]


def _read_sealed(folder: Path) -> TrialRecord | None:
    """Return the record of a staging folder that was complete when its controller died."""
    try:
        record = manifest.read_trial(folder)
    except DataError:
        return None
    return None if manifest.changed_files(folder, record) else record
