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
from loadbook.trials.attempts import Keeper
from loadbook.trials.bench import Bench
from loadbook.trials.leftovers import clear
from loadbook.trials.names import job_stem
from loadbook.trials.progress import Kind, OnEvent, Progress
from loadbook.trials.reach import come_back
from loadbook.trials.room import FULL, must_have_room_here
from loadbook.trials.trial import Attempt

# a network that comes and goes may meet two attempts in a row; a tool that hung twice will hang again
TRIES = {"lost": 3, "timeout": 2}
MAX_LOST_IN_A_ROW = 3
HOST_REASONS = ("lost", "timeout")


def execute(bench: Bench, keeper: Keeper, on_event: OnEvent, until: int | None = None) -> None:
    """Do every trial of the plan that has no final end yet, up to the block `until`.

    Raises
    ------
    LoadbookError : three trials in a row were lost; they are open again for whoever resumes the run.
    NotRestoredError : a host is not as it was found, and nothing more is measured before somebody has seen to it.
    KeyboardInterrupt : the trial under way is recorded as cancelled first.
    """
    lost: list[TrialRecord] = []
    clock = _Clock(bench, len(list(keeper.pending())))
    for planned in keeper.pending():
        if until is not None and planned.block > until:
            return
        on_event(clock.event(planned, "trial-started", "running"))
        record = _do(bench, keeper, planned, on_event)
        clock.left -= 1
        on_event(clock.event(planned, "trial-ended", _said(record), record))
        lost = [*lost, record] if _fault_of_host(record) else []
        if len(lost) == MAX_LOST_IN_A_ROW:
            raise _stopped(keeper, lost)


def _do(bench: Bench, keeper: Keeper, planned: PlannedTrial, on_event: OnEvent) -> TrialRecord:
    """Attempt one trial until it ends or may not be tried again, and return its last record."""
    tried = 0
    while True:
        tried += 1
        must_have_room_here(keeper.paths.raw, bench.plan)
        number, folder = keeper.begin(planned)
        attempt = Attempt(bench, planned, number, folder)
        try:
            record = attempt.run()
            # nobody tries a host again that stayed away for as long as it may
            back = not attempt.retry or come_back(bench)
        except KeyboardInterrupt:
            # whatever it was about to be: it was interrupted, and is repeated
            attempt.record.status, attempt.record.reason = "cancelled", "interrupted by the user"
            keeper.end(attempt.record, folder, final=False)
            for error in bench.not_restored:
                on_event(Progress("note", f"{error.message}\n{error.hint}"))
            raise
        again = attempt.retry and back and tried < TRIES.get(record.status, 1)
        keeper.end(record, folder, final=not again)
        bench.must_be_restored()
        if attempt.retry and back:
            with contextlib.suppress(HostError):  # gone again: whoever resumes the run clears it
                clear(bench, [job_stem(bench.run, planned.trial, number)])
        if not again:
            return record
        on_event(Progress("note", f"{planned.trial}: {record.status} ({record.reason}); trying again"))


def _fault_of_host(record: TrialRecord) -> bool:
    """Tell whether a host, not the treatment, spoiled a trial: it was lost, or its disk was full."""
    return record.status in HOST_REASONS or FULL in (record.reason or "")


def _stopped(keeper: Keeper, lost: list[TrialRecord]) -> LoadbookError:
    for record in lost:
        keeper.ledger.append("reopened", trial=record.trial)
    return LoadbookError(
        f"stopped: {len(lost)} trials in a row were lost, the last because {lost[-1].reason}",
        "see to the host (loadbook doctor), then give the same command again: it goes on from here",
    )


def _said(record: TrialRecord) -> str:
    return record.status if record.status == "ok" else f"{record.status}: {record.reason}"


class _Clock:
    """Estimates the time that is left from what trials took so far."""

    def __init__(self, bench: Bench, left: int) -> None:
        self.plan, self.left = bench.plan, left
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
