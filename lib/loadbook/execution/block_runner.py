"""Runs blocks whose treatments are measured together, and repeats a block as a whole after a transient failure."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from loadbook.core.errors import HostError
from loadbook.execution.attempt import initial_record
from loadbook.execution.attempt_store import MAX_ATTEMPTS, AttemptStore
from loadbook.execution.host_state import check_local_space, remove_stale_jobs
from loadbook.execution.progress import OnEvent, Progress
from loadbook.execution.testbed import Testbed
from loadbook.modes.base import PlainTrialsError
from loadbook.store.trial_record import TrialRecord
from loadbook.study.plan import PlannedTrial

Begun = tuple[PlannedTrial, int, Path]  # a trial, the number of the attempt, and its folder


class Arm(Protocol):
    """One attempt at the trial of one treatment in a block; `stem` begins the names of its jobs."""

    stem: str
    folder: Path
    record: TrialRecord
    retry: bool


class Block(Protocol):
    """One attempt at all trials of a block."""

    @property
    def attempts(self) -> Sequence[Arm]:
        """The attempts at its trials, in the order of the plan."""

    def run(self) -> None:
        """Run the block and fill in the record of every arm."""


BlockKind = TypeVar("BlockKind", bound=Block)


class BlockRunner(ABC, Generic[BlockKind]):
    """Runs the blocks of a run; a subclass makes the blocks of one kind."""

    def __init__(self, testbed: Testbed, store: AttemptStore, on_event: OnEvent) -> None:
        self.testbed, self.store, self.on_event = testbed, store, on_event

    @abstractmethod
    def make_block(self, begun: Sequence[Begun]) -> BlockKind:
        """Return the block of trials whose attempts were just begun."""

    @abstractmethod
    def use_results(self, block: BlockKind) -> None:
        """Store those results of a block that the next blocks use; called after each attempt at a block."""

    def run(self, together: Sequence[PlannedTrial]) -> list[TrialRecord]:
        """Attempt a block until no arm needs a retry or no further attempt is possible; return its arms' records.

        `together` are the trials of one block. If only some of its trials are given, as in a resumed run whose other
        arms are recorded, each is recorded as cancelled, since arms of a block are measured together.
        """
        planned_arms = [planned for planned in self.testbed.plan.trials if planned.block == together[0].block]
        if len(planned_arms) != len(together):
            return [self._end_alone(planned) for planned in together]
        for tries in count(1):
            check_local_space(self.store.paths.raw, self.testbed.plan)
            block = self.make_block([(planned, *self.store.begin(planned)) for planned in together])
            arms = block.attempts
            try:
                block.run()
                wants_retry = any(arm.retry for arm in arms)
                reconnected = not wants_retry or self.testbed.reconnect()
            except KeyboardInterrupt:
                self._cancel(arms, "interrupted by the user")
                for error in self.testbed.not_restored:
                    self.on_event(Progress("note", f"{error.message}\n{error.hint}"))
                raise
            except PlainTrialsError as error:
                self._cancel(arms, f"plain trials follow: {error}")
                self.testbed.check_restored()
                raise
            self.use_results(block)
            failed = next((arm.record for arm in arms if arm.retry), None)
            if failed is None or not reconnected or tries >= MAX_ATTEMPTS.get(failed.status, 1):
                self.store.end_block([(arm.record, arm.folder) for arm in arms])
                self.testbed.check_restored()
                return [arm.record for arm in arms]
            self._cancel(
                [arm for arm in arms if not arm.retry], f"its block is repeated: {failed.trial} was {failed.status}"
            )
            for arm in arms:
                if arm.retry:
                    self.store.end(arm.record, arm.folder, final=False)
            self.testbed.check_restored()
            with contextlib.suppress(HostError):  # out of reach again: a resumed run removes them
                remove_stale_jobs(self.testbed, [arm.stem for arm in arms])
            self.on_event(
                Progress("note", f"{failed.trial}: {failed.status} ({failed.reason}); trying its block again")
            )
        raise AssertionError

    def _cancel(self, arms: Sequence[Arm], reason: str) -> None:
        """Record attempts as cancelled, because they will be repeated."""
        for arm in arms:
            arm.record.status, arm.record.reason = "cancelled", reason
            self.store.end(arm.record, arm.folder, final=False)

    def _end_alone(self, planned: PlannedTrial) -> TrialRecord:
        """Record an arm as cancelled, because its block's other arms are recorded and it cannot be measured alone."""
        number, folder = self.store.begin(planned)
        record = initial_record(self.testbed, planned, number)
        record.status = "cancelled"
        record.reason = "the run was interrupted while its block was recorded; arms of a block are measured together"
        self.store.end(record, folder, final=True)
        return record
