"""From an attempt to the kept record: seal, publish by one rename, account for it; and the same after a crash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from loadbook.core.errors import DataError
from loadbook.design.plan import PlannedTrial
from loadbook.records import manifest
from loadbook.records.layout import RunPaths
from loadbook.records.ledger import Ledger, states
from loadbook.records.manifest import TrialRecord
from loadbook.trials.bench import Bench
from loadbook.trials.names import blank_record, failed, staging

WHOLE = ("ok", "partial", "invalid")


class Keeper:
    """Keeps the attempts of one run: the ledger says what was begun and how it ended, folders hold what was seen."""

    def __init__(self, bench: Bench, paths: RunPaths, ledger: Ledger) -> None:
        self.bench, self.paths, self.ledger = bench, paths, ledger

    def begin(self, planned: PlannedTrial) -> tuple[int, Path]:
        """Account for a new attempt and return its number and its empty staging folder."""
        state = states(self.ledger.entries).get(planned.trial)
        attempt = state.attempt + 1 if state else 1
        self.ledger.append("started", trial=planned.trial, attempt=attempt)
        folder = staging(self.paths, planned.trial, attempt)
        folder.mkdir(parents=True)
        return attempt, folder

    def end(self, record: TrialRecord, folder: Path, *, final: bool) -> None:
        """Seal and publish an attempt, whole or failed, then account for it."""
        sealed = manifest.seal(folder, record)
        manifest.publish(folder, self._place(sealed))
        self._account(sealed, self._place(sealed), final=final)

    def _place(self, record: TrialRecord) -> Path:
        """Return where an attempt belongs: among the trials when its load ran to its end, else among the failed."""
        whole = record.status in WHOLE and record.drivers
        return self.paths.trial(record.trial) if whole else failed(self.paths, record.trial, record.attempt)

    def _account(self, record: TrialRecord, folder: Path, *, final: bool) -> None:
        fields = {"trial": record.trial, "attempt": record.attempt, "status": record.status, "reason": record.reason}
        self.ledger.append("ended", **fields, final=final, sha256=manifest.sha256_file(folder / manifest.NAME))

    def pending(self) -> Iterator[PlannedTrial]:
        """Yield the planned trials that have no final end, in the plan's order."""
        for planned in self.bench.plan.trials:
            state = states(self.ledger.entries).get(planned.trial)
            if state is None or not state.final:
                yield planned

    def unfinished(self) -> list[tuple[PlannedTrial, int]]:
        """Return the attempts that a dead controller left without a recorded end."""
        known = states(self.ledger.entries)
        open_ = {trial: s.attempt for trial, s in known.items() if s.status is None}
        return [(p, open_[p.trial]) for p in self.bench.plan.trials if p.trial in open_]

    def settle(self, planned: PlannedTrial, attempt: int) -> TrialRecord:
        """Give an attempt of a dead controller its one recorded end.

        What was already sealed counts as it is; anything else is kept as a failed attempt, and the trial is repeated.
        """
        for place in (self.paths.trial(planned.trial), failed(self.paths, planned.trial, attempt)):
            if place.is_dir():
                record = manifest.read(place)
                self._account(record, place, final=place == self.paths.trial(planned.trial))
                return record
        folder = staging(self.paths, planned.trial, attempt)
        folder.mkdir(parents=True, exist_ok=True)
        record = _sealed(folder) or blank_record(self.bench, planned, attempt)
        self.end(record, folder, final=record.status in WHOLE)
        return record


def lost_attempts(entries: Iterable[dict[str, Any]]) -> list[tuple[str, int]]:
    """Return trial and number of the attempts that lost a host, on which something of them may still be."""
    return [(e["trial"], e["attempt"]) for e in entries if e["event"] == "ended" and e["status"] == "lost"]


def _sealed(folder: Path) -> TrialRecord | None:
    """Return the record of a staging folder that was complete when its controller died."""
    try:
        record = manifest.read(folder)
    except DataError:
        return None
    return None if manifest.changed_files(folder, record) else record
