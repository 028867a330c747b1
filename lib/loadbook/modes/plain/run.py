"""Plain trials on hosts: attempts one after the other, until one succeeds or may not be repeated."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from loadbook.core.errors import HostError
from loadbook.execution.attempt import Attempt
from loadbook.execution.attempt_store import MAX_ATTEMPTS, AttemptStore
from loadbook.execution.deployment import Deployment
from loadbook.execution.host_state import check_local_space, remove_stale_jobs
from loadbook.execution.placement import job_stem
from loadbook.execution.progress import OnEvent, Progress
from loadbook.execution.testbed import Testbed
from loadbook.hosts.doctor import CheckResult
from loadbook.hosts.host import Host
from loadbook.modes.base import mode_of, mode_of_record
from loadbook.store.trial_record import TrialRecord
from loadbook.study.model import Study
from loadbook.study.plan import PlannedTrial

if TYPE_CHECKING:
    from loadbook.execution.dry_run import DryRun, DryRunPart
    from loadbook.hosts.dry import DryRunStep


class TrialRunner(Protocol):
    """Runs trials that are measured together; of plain trials, one at a time."""

    def run(self, together: Sequence[PlannedTrial]) -> list[TrialRecord]:
        """Attempt trials until they succeed or may not be repeated, and return the records of the last attempts.

        Raises
        ------
        PlainTrialsError : these hosts or loads do not allow the mode; plain trials can follow.
        """


class PlainTrials:
    """Runs plain trials of a run."""

    def __init__(self, testbed: Testbed, store: AttemptStore, on_event: OnEvent) -> None:
        self.testbed, self.store, self.on_event = testbed, store, on_event

    def run(self, together: Sequence[PlannedTrial]) -> list[TrialRecord]:
        """Attempt each trial until it succeeds or may not be retried, and return the records of the last attempts."""
        return [self._run_trial(planned) for planned in together]

    def _run_trial(self, planned: PlannedTrial) -> TrialRecord:
        testbed, store, tries = self.testbed, self.store, 0
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
                    self.on_event(Progress("note", f"{error.message}\n{error.hint}"))
                raise
            retry = attempt.retry and reconnected and tries < MAX_ATTEMPTS.get(record.status, 1)
            store.end(record, folder, final=not retry)
            testbed.check_restored()
            if attempt.retry and reconnected:
                with contextlib.suppress(HostError):  # out of reach again: a resumed run removes them
                    remove_stale_jobs(testbed, [job_stem(testbed.run, planned.trial, number)])
            if not retry:
                return record
            self.on_event(Progress("note", f"{planned.trial}: {record.status} ({record.reason}); trying again"))


class PlainRun:
    """What a mode does on hosts; the methods of this class are those of plain trials."""

    def reasons_against(self, testbed: Testbed) -> Iterator[str]:
        """Yield reasons in the hosts and the hosts file for which the mode is not possible."""
        yield from ()

    def check_hosts(self, testbed: Testbed, hosts: Mapping[str, Host]) -> Iterator[CheckResult]:
        """Check what the mode requires of connected hosts, for `loadbook doctor`."""
        yield from ()

    def deployments(self, testbed: Testbed) -> list[Deployment]:
        """Return the deployments that are up at once, besides those of single treatments."""
        return []

    def check_steps(self, run: DryRun) -> Iterator[DryRunStep]:
        """Yield the steps of a dry run that check what the mode requires of hosts."""
        yield from ()

    def block_part(self, run: DryRun) -> DryRunPart | None:
        """Return the part of a dry run with the steps of a block that runs together; None: trials run by themselves."""
        return None

    def runner(self, testbed: Testbed, store: AttemptStore, on_event: OnEvent) -> TrialRunner:
        """Return what runs the trials of this mode."""
        return PlainTrials(testbed, store, on_event)

    def ended_note(self, record: TrialRecord) -> str | None:
        """Return what a trial has found, printed before its status ("capacity 4,200/s"); None: nothing to add."""
        return None


FACET = PlainRun()


def run_of(study: Study) -> PlainRun:
    """Return what the mode of a study does on hosts."""
    return cast("PlainRun", mode_of(study).facet("run"))


def run_of_record(record: TrialRecord) -> PlainRun:
    """Return what the mode whose trial has this record does on hosts."""
    return cast("PlainRun", mode_of_record(record).facet("run"))
