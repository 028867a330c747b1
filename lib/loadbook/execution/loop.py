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
from loadbook.core.errors import LoadbookError
from loadbook.execution.attempt_store import AttemptStore
from loadbook.execution.host_state import REMOTE_DISK_FULL
from loadbook.execution.progress import Kind, OnEvent, Progress
from loadbook.execution.testbed import Testbed
from loadbook.modes.base import PLAIN, PlainTrialsError
from loadbook.modes.plain.run import FACET, run_of, run_of_record
from loadbook.store.trial_record import TrialRecord
from loadbook.study.plan import PlannedTrial

MAX_LOST_IN_A_ROW = 3
HOST_REASONS = ("lost", "timeout")


def execute_plan(testbed: Testbed, store: AttemptStore, on_event: OnEvent, until: int | None = None) -> None:
    """Run every trial of the plan without a final status; with `until`, only up to that number of blocks.

    Blocks that only measure latencies come first and are not counted.

    Raises
    ------
    LoadbookError : three trials in a row were lost, timed out or met a full disk of a host; a resumed run repeats
    them.
    NotRestoredError : changes of a host could not be undone.
    KeyboardInterrupt : the current trial was recorded as cancelled.
    """
    try:
        _execute_pending(testbed, store, on_event, until)
    except PlainTrialsError as error:
        reason, execution = str(error), testbed.plan.study.execution
        store.ledger.append("made-plain", reason=reason)
        testbed.plan = testbed.plan.with_plain_trials(reason)
        on_event(Progress("note", f"plain trials in place of {execution} blocks: {reason}"))
        _execute_pending(testbed, store, on_event, until)


def _execute_pending(testbed: Testbed, store: AttemptStore, on_event: OnEvent, until: int | None) -> None:
    lost: list[TrialRecord] = []
    estimate = _TimeEstimate(testbed, len(list(store.pending())), on_event)
    testbed.on_phase = estimate.on_phase
    plan, mode = testbed.plan, run_of(testbed.plan.study)
    runners = {
        PLAIN: FACET.runner(testbed, store, on_event),
        plan.mode.execution: mode.runner(testbed, store, on_event),
    }
    # the trials of a block that runs together are one group, every other trial is a group of its own
    groups = groupby(store.pending(), lambda p: (p.block, 0 if plan.mode.runs_together(plan, p.block) else p.slot))
    for _, group in groups:
        together = list(group)
        if until is not None and together[0].block > plan.latency_blocks + until:
            return
        estimate.begin(together)
        on_event(estimate.event(together[0], "trial-started", "running", beside=len(together) - 1))
        records = runners[plan.execution_of(together[0].block)].run(together)
        estimate.end(records)
        for number, (planned, record) in enumerate(zip(together, records, strict=True), 1):
            if found := run_of_record(record).ended_note(record):
                on_event(Progress("note", f"{planned.trial}  {planned.treatment}: {found}"))
            text = record.status if record.status == "ok" else f"{record.status}: {record.reason}"
            on_event(estimate.event(planned, "trial-ended", text, record.status, len(records) - number))
            # a lost host or a full disk is not the fault of the treatment
            host_fault = record.status in HOST_REASONS or REMOTE_DISK_FULL in (record.reason or "")
            lost = [*lost, record] if host_fault else []
            if len(lost) == MAX_LOST_IN_A_ROW:
                raise _too_many_host_faults(store, lost)


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
        each_s = (clock.monotonic() - self.begun_s) / len(records)
        self.took += [each_s] * len(records)
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
