"""The loop over a plan: attempts, retries, and the published record of each trial.

Every trial ends in exactly one recorded status, and a failed trial does not end the run. Only transient failures (a
lost connection, a time-out) are retried. If several trials in a row are lost or find a host's disk full, the run stops,
and a resumed run repeats these trials.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import count, groupby
from pathlib import Path

from loadbook.core.errors import DataError, HostError, LoadbookError
from loadbook.core.units import join_words
from loadbook.execution.attempt import Attempt, initial_record
from loadbook.execution.deployment import job_stem
from loadbook.execution.host_state import REMOTE_DISK_FULL, check_local_space, remove_stale_jobs
from loadbook.execution.interleaved import InterleavedBlock, SlicesTooLongError, longest_block_s
from loadbook.execution.progress import Kind, OnEvent, Progress
from loadbook.execution.testbed import Testbed
from loadbook.store import trial_record
from loadbook.store.ledger import Ledger, TrialState, trial_states
from loadbook.store.paths import RunPaths
from loadbook.store.trial_record import TrialRecord
from loadbook.study.interleaving import SliceLengths, lengths_of_run
from loadbook.study.plan import Plan, PlannedTrial

PUBLISHED_STATUSES = ("ok", "partial", "invalid")


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

        The folder of an attempt whose load ran to its end is moved to trials/, others to failed/.
        """
        self._file(trial_record.seal_trial(folder, record), folder, final=final)

    def end_block(self, attempts: Sequence[Attempt]) -> None:
        """Record the final end of all arms of an interleaved block.

        If the controller dies meanwhile, a resumed run finds all of them complete, or repeats all of them.
        """
        sealed = [(trial_record.seal_trial(attempt.folder, attempt.record), attempt.folder) for attempt in attempts]
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
        """Return the attempts that were started by a controller that died before it recorded their end."""
        open_ = {trial: state.attempt for trial, state in self.states().items() if state.status is None}
        return [(planned, open_[planned.trial]) for planned in self.testbed.plan.trials if planned.trial in open_]

    def lost(self) -> list[tuple[str, int]]:
        """Return trial and number of each attempt that lost a host, on which its jobs may still exist."""
        ended = [entry for entry in self.ledger.entries if entry["event"] == "ended"]
        return [(entry["trial"], entry["attempt"]) for entry in ended if entry["status"] == "lost"]

    def recover(self, planned: PlannedTrial, attempt: int) -> TrialRecord:
        """Record the end of an attempt whose controller died, and return its record.

        A complete attempt counts; an incomplete one is stored as a failed attempt, and its trial is repeated. An arm of
        an interleaved block is complete if all arms of the block are.

        Raises
        ------
        DataError : the attempt is already in its final folder, but its record is missing or damaged.
        """
        is_arm = self.testbed.plan.execution_of(planned.block) == "interleaved"
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
        """Return whether each arm of an interleaved block has its final end or a complete folder."""
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


# status -> maximum number of attempts: an unstable network may break two attempts; a tool that hung twice hangs again
MAX_ATTEMPTS = {"lost": 3, "timeout": 2}
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
    clock = _TimeEstimate(testbed, len(list(store.pending())))
    plan = testbed.plan
    blocks = _BlockRunner(testbed, store, on_event) if plan.interleaved else None
    for _, group in groupby(store.pending(), key=lambda planned: _executed_together(plan, planned)):
        together = list(group)
        if until is not None and together[0].block > plan.latency_blocks + until:
            return
        on_event(clock.event(together[0], "trial-started", "running"))
        if blocks is not None and plan.execution_of(together[0].block) == "interleaved":
            records = blocks.run(together)
        else:
            records = [_run_trial(testbed, store, together[0], on_event)]
        for planned, record in zip(together, records, strict=True):
            clock.left -= 1
            text = record.status if record.status == "ok" else f"{record.status}: {record.reason}"
            on_event(clock.event(planned, "trial-ended", text, record))
            # a lost host or a full disk is not the fault of the treatment
            host_fault = record.status in HOST_REASONS or REMOTE_DISK_FULL in (record.reason or "")
            lost = [*lost, record] if host_fault else []
            if len(lost) == MAX_LOST_IN_A_ROW:
                raise _too_many_host_faults(store, lost)


def _executed_together(plan: Plan, planned: PlannedTrial) -> tuple[int, int]:
    """Return the same value for all trials of an interleaved block, and one of its own for each plain trial."""
    return planned.block, 0 if plan.execution_of(planned.block) == "interleaved" else planned.slot


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


class _BlockRunner:
    """Runs interleaved blocks; the latency that sets slice and gap is measured in the first block of a run only."""

    def __init__(self, testbed: Testbed, store: AttemptStore, on_event: OnEvent) -> None:
        self.testbed, self.store, self.on_event = testbed, store, on_event
        self.by_latency = _recorded_lengths(store)

    def run(self, together: Sequence[PlannedTrial]) -> list[TrialRecord]:
        """Attempt a block until no host is lost or it may not be retried, and return the records of its arms."""
        planned_arms = [planned for planned in self.testbed.plan.trials if planned.block == together[0].block]
        if len(planned_arms) != len(together):
            return [self._end_alone(planned) for planned in together]
        for tries in count(1):
            check_local_space(self.store.paths.raw, self.testbed.plan)
            begun = [(planned, *self.store.begin(planned)) for planned in together]
            others_s = longest_block_s(self.testbed.plan)
            attempts = [
                Attempt(self.testbed, planned, number, folder, arm, others_s)
                for arm, (planned, number, folder) in enumerate(begun)
            ]
            block = InterleavedBlock(self.testbed, attempts, self.by_latency)
            try:
                block.run()
                wants_retry = any(attempt.retry for attempt in attempts)
                reconnected = not wants_retry or self.testbed.reconnect()
            except KeyboardInterrupt:
                self._cancel(attempts, "interrupted by the user")
                for error in self.testbed.not_restored:
                    self.on_event(Progress("note", f"{error.message}\n{error.hint}"))
                raise
            except SlicesTooLongError as error:
                self._cancel(attempts, f"plain trials follow: {error}")
                self.testbed.check_restored()
                raise
            if self.by_latency is None and block.by_latency:
                self.by_latency = block.by_latency
                self.on_event(Progress("note", _turns_text(block)))
            failed = next((attempt.record for attempt in attempts if attempt.retry), None)
            if failed is None or not reconnected or tries >= MAX_ATTEMPTS.get(failed.status, 1):
                self.store.end_block(attempts)
                self.testbed.check_restored()
                return [attempt.record for attempt in attempts]
            others = [attempt for attempt in attempts if not attempt.retry]
            self._cancel(others, f"its block is repeated: {failed.trial} was {failed.status}")
            for attempt in attempts:
                if attempt.retry:
                    self.store.end(attempt.record, attempt.folder, final=False)
            self.testbed.check_restored()
            with contextlib.suppress(HostError):  # out of reach again: a resumed run removes them
                remove_stale_jobs(self.testbed, [attempt.stem for attempt in attempts])
            self.on_event(
                Progress("note", f"{failed.trial}: {failed.status} ({failed.reason}); trying its block again")
            )
        raise AssertionError

    def _cancel(self, attempts: Sequence[Attempt], reason: str) -> None:
        """Record attempts as cancelled, because they will be repeated."""
        for attempt in attempts:
            attempt.record.status, attempt.record.reason = "cancelled", reason
            self.store.end(attempt.record, attempt.folder, final=False)

    def _end_alone(self, planned: PlannedTrial) -> TrialRecord:
        """Record an arm as cancelled, because its block's other arms are recorded and it cannot be measured alone."""
        number, folder = self.store.begin(planned)
        record = initial_record(self.testbed, planned, number)
        record.status = "cancelled"
        record.reason = "the run was interrupted while its block was recorded; arms of a block are measured together"
        self.store.end(record, folder, final=True)
        return record


def _recorded_lengths(store: AttemptStore) -> SliceLengths | None:
    """Return the lengths of slice and gap in the first block of this run that is done; None if there is none.

    Where the study sets the slices, only the gap is that for the latency.
    """
    for trial, state in store.states().items():
        folder = store.paths.trial(trial)
        is_published = state.final and state.status in PUBLISHED_STATUSES and folder.is_dir()
        if is_published and (record := trial_record.read_trial(folder).interleaved) is not None:
            return SliceLengths(record.slice_s, record.gap_s)
    return None


def _turns_text(block: InterleavedBlock) -> str:
    assert block.by_latency is not None
    latency_ms, study = 1000 * (block.latency_s or 0.0), block.testbed.plan.study
    slices_ms = dict.fromkeys(f"{1000 * lengths.slice_s:g}" for lengths in lengths_of_run(study, block.by_latency))
    return (
        f"interleaved: slices of {join_words(list(slices_ms))} ms with gaps of {1000 * block.by_latency.gap_s:g} ms, "
        f"as the slowest of {len(block.attempts)} arms answers in {latency_ms:.2g} ms on average"
    )


def _too_many_host_faults(store: AttemptStore, lost: list[TrialRecord]) -> LoadbookError:
    for record in lost:
        store.ledger.append("reopened", trial=record.trial)
    return LoadbookError(
        f"stopped: {len(lost)} trials in a row were lost, the last because {lost[-1].reason}",
        f"see to the host (loadbook doctor), then resume: loadbook run {store.testbed.plan.study.name}, with the same "
        "--hosts",
    )


class _TimeEstimate:
    """Estimates the remaining time from the durations of the trials so far."""

    def __init__(self, testbed: Testbed, left: int) -> None:
        self.plan, self.left = testbed.plan, left
        self.took: list[float] = []

    def event(self, planned: PlannedTrial, kind: Kind, message: str, record: TrialRecord | None = None) -> Progress:
        """Return an event about one trial, with the remaining time; `record` is given once the trial has ended."""
        if record and record.duration_s is not None:
            self.took.append(record.duration_s)
        each_s = sum(self.took) / len(self.took) if self.took else self.plan.trial_s
        place = (planned.trial, planned.treatment, planned.block, self.plan.latency_blocks + self.plan.blocks)
        total, status = len(self.plan.trials), record.status if record else None
        return Progress(kind, message, *place, total - self.left, total, status, self.left * each_s)
