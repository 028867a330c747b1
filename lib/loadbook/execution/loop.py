"""The loop over a plan: attempts, retries, and the published record of each trial.

Every trial ends in exactly one recorded status, and a failed trial does not end the run. Only transient failures (a
lost connection, a time-out) are retried. If several trials in a row are lost or find a host's disk full, the run stops,
and a resumed run repeats these trials.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from loadbook.core import clock
from loadbook.core.errors import HostError, LoadbookError
from loadbook.execution.attempt import Attempt
from loadbook.execution.attempt_store import AttemptStore
from loadbook.execution.block_runner import MAX_ATTEMPTS, InterleavedBlocks
from loadbook.execution.host_state import REMOTE_DISK_FULL, check_local_space, remove_stale_jobs
from loadbook.execution.placement import job_stem
from loadbook.execution.progress import Kind, OnEvent, Progress
from loadbook.execution.testbed import Testbed
from loadbook.modes.capacity.run import CapacityBlocks
from loadbook.modes.interleaved.run_block import SlicesTooLongError
from loadbook.store.trial_record import TrialRecord
from loadbook.study.plan import Plan, PlannedTrial

MAX_LOST_IN_A_ROW = 3
HOST_REASONS = ("lost", "timeout")


def execute_plan(testbed: Testbed, store: AttemptStore, on_event: OnEvent, until: int | None = None) -> None:
    """Run every trial of the plan without a final status, in all blocks or those for latencies and `until` others.

    Raises
    ------
    LoadbookError : three trials in a row were lost; a resumed run repeats them.
    NotRestoredError : changes of a host could not be undone.
    KeyboardInterrupt : the current trial was recorded as cancelled.
    """
    try:
        _execute_pending(testbed, store, on_event, until)
    except SlicesTooLongError as error:
        _make_plain(testbed, store, on_event, str(error))
        _execute_pending(testbed, store, on_event, until)


def _make_plain(testbed: Testbed, store: AttemptStore, on_event: OnEvent, reason: str) -> None:
    """Go on with plain trials in place of interleaved blocks; the ledger says so, and why."""
    store.ledger.append("made-plain", reason=reason)
    testbed.plan = testbed.plan.with_plain_trials(reason)
    on_event(Progress("note", f"plain trials in place of interleaved blocks: {reason}"))


def _execute_pending(testbed: Testbed, store: AttemptStore, on_event: OnEvent, until: int | None) -> None:
    lost: list[TrialRecord] = []
    estimate = _TimeEstimate(testbed, len(list(store.pending())), on_event)
    testbed.on_phase = estimate.on_phase
    plan = testbed.plan
    blocks: CapacityBlocks | InterleavedBlocks | None = None
    if plan.study.capacity:
        blocks = CapacityBlocks(testbed, store, on_event)
    elif plan.interleaved:
        blocks = InterleavedBlocks(testbed, store, on_event)
    for _, group in groupby(store.pending(), key=lambda planned: _executed_together(plan, planned)):
        together = list(group)
        if until is not None and together[0].block > plan.latency_blocks + until:
            return
        estimate.begin(together)
        on_event(estimate.event(together[0], "trial-started", "running", beside=len(together) - 1))
        if blocks is not None and plan.runs_together(together[0].block):
            records = blocks.run(together)
        else:
            records = [_run_trial(testbed, store, together[0], on_event)]
        estimate.end(records)
        for number, (planned, record) in enumerate(zip(together, records, strict=True), 1):
            if record.capacity and (found := record.capacity.capacity_per_s) is not None:
                on_event(Progress("note", f"{planned.trial}  {planned.treatment}: capacity {found:,.0f}/s"))
            text = record.status if record.status == "ok" else f"{record.status}: {record.reason}"
            on_event(estimate.event(planned, "trial-ended", text, record.status, len(records) - number))
            # a lost host or a full disk is not the fault of the treatment
            host_fault = record.status in HOST_REASONS or REMOTE_DISK_FULL in (record.reason or "")
            lost = [*lost, record] if host_fault else []
            if len(lost) == MAX_LOST_IN_A_ROW:
                raise _too_many_host_faults(store, lost)


def _executed_together(plan: Plan, planned: PlannedTrial) -> tuple[int, int]:
    """Return the same value for all trials of a block that runs together, and one of its own for each other trial."""
    return planned.block, 0 if plan.runs_together(planned.block) else planned.slot


def _run_trial(testbed: Testbed, store: AttemptStore, planned: PlannedTrial, on_event: OnEvent) -> TrialRecord:
    """Attempt one trial until it succeeds or may not be retried, and return the record of the last attempt."""
    tries = 0
    while True:
        tries += 1
        check_local_space(store.paths.raw, testbed.plan)
        number, folder = store.begin(planned)
        attempt = Attempt(testbed, planned, number, folder)
        try:
            record = attempt.run()
            # no retry if a host could not be reconnected
            reconnected = not attempt.retry or testbed.reconnect()
        except KeyboardInterrupt:
            # an interrupted attempt is repeated, so its own status does not matter
            attempt.record.status, attempt.record.reason = "cancelled", "interrupted by the user"
            store.end(attempt.record, folder, final=False)
            for error in testbed.not_restored:
                on_event(Progress("note", f"{error.message}\n{error.hint}"))
            raise
        retry = attempt.retry and reconnected and tries < MAX_ATTEMPTS.get(record.status, 1)
        store.end(record, folder, final=not retry)
        testbed.check_restored()
        if attempt.retry and reconnected:
            with contextlib.suppress(HostError):  # out of reach again: a resumed run removes them
                remove_stale_jobs(testbed, [job_stem(testbed.run, planned.trial, number)])
        if not retry:
            return record
        on_event(Progress("note", f"{planned.trial}: {record.status} ({record.reason}); trying again"))


def _too_many_host_faults(store: AttemptStore, lost: list[TrialRecord]) -> LoadbookError:
    for record in lost:
        store.ledger.append("reopened", trial=record.trial)
    return LoadbookError(
        f"stopped: {len(lost)} trials in a row were lost, the last because {lost[-1].reason}",
        f"see to the host (loadbook doctor), then resume: loadbook run {store.testbed.plan.study.name}, with the same "
        "--hosts",
    )


class _TimeEstimate:
    """Makes the events about trials, with the remaining time by the durations of the last block's trials.

    Trials that were measured together have the same time left when they end.
    """

    def __init__(self, testbed: Testbed, left: int, on_event: OnEvent) -> None:
        self.plan, self.left, self.report = testbed.plan, left, on_event
        self.took: list[float] = []
        self.together: Sequence[PlannedTrial] = ()
        self.begun_s = 0.0

    def begin(self, together: Sequence[PlannedTrial]) -> None:
        """Take the trials that begin now."""
        self.together, self.begun_s = together, clock.monotonic()

    def end(self, records: Sequence[TrialRecord]) -> None:
        """Take the records of the trials that have ended."""
        self.took += [record.duration_s for record in records if record.duration_s is not None]
        self.left -= len(records)
        self.together = ()

    @property
    def remaining_s(self) -> float:
        """Expected seconds to the end of the plan."""
        newest = self.took[-len(self.plan.treatments) :]  # the first block alone explores, or measures latencies
        each_s = sum(newest) / len(newest) if newest else self.plan.trial_s
        spent_s = clock.monotonic() - self.begun_s if self.together else 0.0
        now = len(self.together)
        return (self.left - now) * each_s + max(0.0, now * each_s - spent_s)

    def event(
        self, planned: PlannedTrial, kind: Kind, message: str, status: str | None = None, beside: int = 0
    ) -> Progress:
        """Return an event about one trial, `beside` others of its block; `status` is given once it has ended."""
        own = self._block_event(planned, kind, message, self.left + (beside if status else 0))
        return replace(own, trial=planned.trial, treatment=planned.treatment, status=status, beside=beside)

    def on_phase(self, phase: str, planned_s: float | None = None, trial: PlannedTrial | None = None) -> None:
        """Report the begin of a phase of the trials that run."""
        if not self.together:
            return
        event = replace(self._block_event(self.together[0], "phase", phase, self.left), phase_s=planned_s)
        if trial is not None:
            event = replace(event, trial=trial.trial, treatment=trial.treatment)
        with contextlib.suppress(OSError):  # a stream that is closed ends the run between trials, not within one
            self.report(event)

    def _block_event(self, planned: PlannedTrial, kind: Kind, message: str, left: int) -> Progress:
        blocks, total = self.plan.latency_blocks + self.plan.blocks, len(self.plan.trials)
        return Progress(
            kind, message, block=planned.block, blocks=blocks, done=total - left, total=total,
            remaining_s=self.remaining_s,
        )  # fmt: skip
