"""The loop over a plan: every trial ends in exactly one recorded state, and a trial that fails does not end the run.

Only transient failures (a lost connection, a time-out) are tried again. Several trials lost in a row, or spoiled by a
full disk, are the fault of a host, not of a treatment: the run stops, and the same command later repeats them and goes
on.
"""

from __future__ import annotations

import contextlib

from loadbook.core.errors import HostError, LoadbookError
from loadbook.design.plan import PlannedTrial
from loadbook.records.manifest import TrialRecord
from loadbook.trials.attempts import AttemptStore
from loadbook.trials.bench import Testbed
from loadbook.trials.leftovers import remove_stale_jobs
from loadbook.trials.names import job_stem
from loadbook.trials.progress import Kind, OnEvent, Progress
from loadbook.trials.reach import reconnect_all
from loadbook.trials.room import REMOTE_DISK_FULL, check_local_space
from loadbook.trials.trial import Attempt

# a network that comes and goes may meet two attempts in a row; a tool that hung twice will hang again
TRIES = {"lost": 3, "timeout": 2}
MAX_LOST_IN_A_ROW = 3
HOST_REASONS = ("lost", "timeout")


def execute_plan(testbed: Testbed, store: AttemptStore, on_event: OnEvent, until: int | None = None) -> None:
    """Do every trial of the plan that has no final end yet, up to the block `until`.

    Raises
    ------
    LoadbookError : three trials in a row were lost; they are open again for whoever resumes the run.
    NotRestoredError : a host is not as it was found, and nothing more is measured before somebody has seen to it.
    KeyboardInterrupt : the trial under way is recorded as cancelled first.
    """
    lost: list[TrialRecord] = []
    clock = _TimeEstimate(testbed, len(list(store.pending())))
    for planned in store.pending():
        if until is not None and planned.block > until:
            return
        on_event(clock.event(planned, "trial-started", "running"))
        record = _run_trial(testbed, store, planned, on_event)
        clock.left -= 1
        on_event(clock.event(planned, "trial-ended", _status_text(record), record))
        lost = [*lost, record] if _is_host_fault(record) else []
        if len(lost) == MAX_LOST_IN_A_ROW:
            raise _too_many_lost(store, lost)


def _run_trial(testbed: Testbed, store: AttemptStore, planned: PlannedTrial, on_event: OnEvent) -> TrialRecord:
    """Attempt one trial until it ends or may not be tried again, and return its last record."""
    tries = 0
    while True:
        tries += 1
        check_local_space(store.paths.raw, testbed.plan)
        number, folder = store.begin(planned)
        attempt = Attempt(testbed, planned, number, folder)
        try:
            record = attempt.run()
            # nobody tries a host again that stayed away for as long as it may
            reconnected = not attempt.retry or reconnect_all(testbed)
        except KeyboardInterrupt:
            # whatever it was about to be: it was interrupted, and is repeated
            attempt.record.status, attempt.record.reason = "cancelled", "interrupted by the user"
            store.end(attempt.record, folder, final=False)
            for error in testbed.not_restored:
                on_event(Progress("note", f"{error.message}\n{error.hint}"))
            raise
        retry = attempt.retry and reconnected and tries < TRIES.get(record.status, 1)
        store.end(record, folder, final=not retry)
        testbed.check_restored()
        if attempt.retry and reconnected:
            with contextlib.suppress(HostError):  # gone again: whoever resumes the run clears it
                remove_stale_jobs(testbed, [job_stem(testbed.run, planned.trial, number)])
        if not retry:
            return record
        on_event(Progress("note", f"{planned.trial}: {record.status} ({record.reason}); trying again"))


def _is_host_fault(record: TrialRecord) -> bool:
    """Tell whether a host, not the treatment, spoiled a trial: it was lost, or its disk was full."""
    return record.status in HOST_REASONS or REMOTE_DISK_FULL in (record.reason or "")


def _too_many_lost(store: AttemptStore, lost: list[TrialRecord]) -> LoadbookError:
    for record in lost:
        store.ledger.append("reopened", trial=record.trial)
    return LoadbookError(
        f"stopped: {len(lost)} trials in a row were lost, the last because {lost[-1].reason}",
        "see to the host (loadbook doctor), then give the same command again: it goes on from here",
    )


def _status_text(record: TrialRecord) -> str:
    return record.status if record.status == "ok" else f"{record.status}: {record.reason}"


class _TimeEstimate:
    """Estimates the time that is left from what trials took so far."""

    def __init__(self, testbed: Testbed, left: int) -> None:
        self.plan, self.left = testbed.plan, left
        self.took: list[float] = []

    def event(self, planned: PlannedTrial, kind: Kind, message: str, record: TrialRecord | None = None) -> Progress:
        """Return the event of one trial."""
        if record and record.duration_s is not None:
            self.took.append(record.duration_s)
        each_s = sum(self.took) / len(self.took) if self.took else self.plan.trial_s
        total = len(self.plan.trials)
        return Progress(
            kind,
            message,
            planned.trial,
            planned.treatment,
            planned.block,
            self.plan.blocks,
            total - self.left,
            total,
            record.status if record else None,
            self.left * each_s,
        )
