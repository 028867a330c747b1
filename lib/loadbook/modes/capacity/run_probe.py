"""One attempt at one probe: a load at a constant rate from a fresh service, and whether it met the objective.

The load generator is judged first. A probe whose generator was at its limit, or late, does not count, and is repeated;
it is never a miss of the server. Errors, time-outs and the end of the server are misses.
"""

from __future__ import annotations

from pathlib import Path

from loadbook.core.errors import LoadbookError
from loadbook.execution.attempt import Attempt, response_problem
from loadbook.execution.host_changes import ServerFailedError
from loadbook.execution.host_state import Connectivity
from loadbook.execution.load import OUTPUT_RULES
from loadbook.execution.testbed import Testbed
from loadbook.ingestion.trial_rows import VALIDITY_SOURCES, TrialRows, read_trial_rows
from loadbook.modes.capacity.read import is_driver_late, probe_outcome
from loadbook.modes.capacity.stats_objective import JUST_MISSED
from loadbook.store.trial_record import CapacityRecord, ProbeRecord, SearchPhase, seal_trial
from loadbook.study.plan import PlannedTrial
from loadbook.study.workload import Workload
from loadbook.validity.rules import SERVER_RULES, check_trial


class Probe(Attempt):
    """One attempt at one probe of a search, with its files in a folder below that of the trial."""

    output_rules = tuple(rule for rule in OUTPUT_RULES if rule not in SERVER_RULES)

    def __init__(
        self,
        testbed: Testbed,
        planned: PlannedTrial,
        attempt: int,
        folder: Path,
        workload: Workload,
        capacity: CapacityRecord,
    ) -> None:
        super().__init__(testbed, planned, attempt, folder, workload=workload)
        self.capacity = capacity
        self.server_failure: str | None = None

    def fail(self, raised: LoadbookError, connectivity: Connectivity) -> None:
        """Set the status that fits an error's cause, and `server_failure` if the server did not survive the load."""
        if isinstance(raised, ServerFailedError) and self._phase == "ask_after":
            self.server_failure = raised.message
        super().fail(raised, connectivity)

    def assess(self, connectivity: Connectivity, clock_step_s: float) -> None:
        """Set the status, and `server_failure` if the server answers the page in another way after the load."""
        super().assess(connectivity, clock_step_s)
        if self.record.response_after and (problem := response_problem(self.workload, self.record.response_after)):
            self.server_failure = f"after the load {problem}"

    def result(self, phase: SearchPhase) -> ProbeRecord:
        """Return the record of the probe that has run, and complete the files in its folder."""
        assert self.workload.rate_per_s is not None
        probe = ProbeRecord(
            folder=self.folder.name, phase=phase, rate_per_s=self.workload.rate_per_s, status=self.record.status,
            reason=self.record.reason,
        )  # fmt: skip
        if self.server_failure:
            probe.missed, probe.margin = "server", JUST_MISSED
        elif self.record.status == "ok":
            self._judge(probe)
        self.record.status, self.record.reason = probe.status, probe.reason
        seal_trial(self.folder, self.record)
        return probe

    def _judge(self, probe: ProbeRecord) -> None:
        """Set the outcome of a probe, or the reason why it does not count."""
        rows = read_trial_rows(self.folder, self.record, with_times=True)
        outcome = probe_outcome(rows, self.capacity)
        if reason := self._generator_problem(rows):
            probe.status, probe.reason = "invalid", reason
        elif outcome is None:
            tool = self.record.tool
            probe.status, probe.reason = "tool_failed", f"{tool} did not tell the time and the errors of every request"
        else:
            probe.share_within, probe.margin, probe.missed = outcome

    def _generator_problem(self, rows: TrialRows) -> str | None:
        """Return the reason why the load was not as asked for, or the measurement is invalid otherwise; else None."""
        traces = [row for row in rows.traces if row["source"] in VALIDITY_SOURCES]
        hits = check_trial(rows.record, rows.measurements, traces, rows.doubts, self.study.validity, rows.samples)
        if messages := [hit.message for hit in hits if hit.level == "invalid" and hit.name not in SERVER_RULES]:
            return " ".join(messages)
        if is_driver_late(rows, self.capacity):
            late = f"{self.record.tool} started requests late; from their actual start, they met the objective"
            return f"{late} (raise workload.max_connections, or give the load generator more CPUs)"
        return None
