"""One attempt at one trial: reset, configure, start, check the page, load, check again, collect, stop.

Everything that was started is stopped in any case, and every attempt ends in exactly one status with a reason. Work on
independent hosts is done at the same time. During the load no host is contacted, because in the lab controller, driver
and server share one machine.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from loadbook.core.errors import (
    HostError,
    HostFullError,
    HostTimeoutError,
    LoadbookError,
    LostError,
    ToolError,
    UnreachableError,
)
from loadbook.execution.deployment import (
    changes_job_name,
    initial_record,
    job_stem,
    load_job_name,
    monitor_job_name,
    service_job_name,
)
from loadbook.execution.host_changes import (
    HostChangeJobs,
    InvalidTrialError,
    fetch_page,
    response_problem,
    write_trial_file,
)
from loadbook.execution.host_state import (
    HOST_TRIAL_BYTES,
    Connectivity,
    check_disks_not_full,
    check_free_space,
    prefer_full_disk_error,
    run_within,
    wait_for_rest,
)
from loadbook.execution.load import LoadJobs, assess_outputs, truncated_outputs
from loadbook.execution.monitors import TrialMonitors
from loadbook.execution.services import TrialServices
from loadbook.execution.testbed import Testbed
from loadbook.hosts.replay import transcript_name
from loadbook.store.trial_record import ClockRecord, ResponseRecord, Status, TrialRecord, window_fields
from loadbook.study.plan import PlannedTrial
from loadbook.study.workload import split_load

SERVICE_LEASE_EXTRA_S = 60.0
# largest step of the wall clock against the monotonic clock during a valid trial, seconds
MAX_CLOCK_STEP_S = 1.0
# longest wait of an interrupted attempt for load and services to end (TERM, 5 s, KILL), then for rollbacks, seconds
CANCEL_S = 7.0
RESTORE_S = 5.0


class Attempt:
    """One attempt; its files are in `folder`. After `run`, `retry` is True if another attempt may succeed."""

    def __init__(self, testbed: Testbed, planned: PlannedTrial, attempt: int, folder: Path) -> None:
        self.testbed, self.planned, self.folder = testbed, planned, folder
        self.study = testbed.plan.study
        self.stem = job_stem(testbed.run, planned.trial, attempt)
        self.record = initial_record(testbed, planned, attempt)
        self.workload = self.study.workload_of(planned.treatment)
        self.deployment = testbed.deployment(planned.treatment)
        tool, shares = testbed.tools[self.workload.tool], split_load(self.workload, testbed.drivers)
        self.load = LoadJobs(
            tool, shares, self.deployment.target, load_job_name(self.stem), self.deployment.load_launch
        )
        self.monitors = TrialMonitors(testbed, monitor_job_name(self.stem), self.load.timeout_s, self._watched_jobs())
        lease_s = self.load.timeout_s + SERVICE_LEASE_EXTRA_S
        self.host_changes = HostChangeJobs(self.deployment, changes_job_name(self.stem), lease_s)
        self.services = TrialServices(self.deployment, self.stem, lease_s, folder)
        self.retry = False
        self._phase = "reset"

    def _watched_jobs(self) -> dict[str, dict[str, str]]:
        """Return host -> file below jobs/ -> label of the monitored processes: load generator and services."""
        jobs = {alias: {f"{self.load.name}/step": self.workload.tool} for alias in self.testbed.drivers}
        for placement in self.deployment.placements:
            # the host's own server is no child of our job, which writes its process id to a file instead
            file = f"{service_job_name(self.stem, placement.role)}/{'main' if placement.spec.tree else 'step'}"
            jobs.setdefault(placement.alias, {})[file] = placement.spec.name
        return jobs

    def run(self) -> TrialRecord:
        """Run the whole attempt and return its unsealed record; raises only KeyboardInterrupt and local errors."""
        begun_s, self.record.started = time.monotonic(), time.time()
        interrupted, connectivity = False, Connectivity(self.testbed)
        try:
            self._run_and_assess(connectivity, begun_s)
        except KeyboardInterrupt:
            interrupted = True
            raise
        finally:
            with self._timed("stop"):
                self.stop(*((CANCEL_S, RESTORE_S) if interrupted else (None, None)))
            for alias, host in self.testbed.hosts.items():
                write_trial_file(self.folder / transcript_name(alias), host.take_transcript())
            self.record.reconnects = connectivity.reconnects
            self.record.duration_s = round(time.monotonic() - begun_s, 4)
        return self.record

    def _run_and_assess(self, connectivity: Connectivity, begun_s: float) -> None:
        """Run the phases and set the status."""
        try:
            for name, run_phase in self.phases().items():
                with self._timed(name):
                    run_phase()
            connectivity.check_not_rebooted(self.record.boot_ids)
            self._end("ok", None)
            self._assess(time.time() - (self.record.started or 0) - (time.monotonic() - begun_s))
            if self.record.status != "ok":
                connectivity.check_connected(self.record.reason or "")
        except LoadbookError as raised:
            phase, error = (
                self._phase,
                prefer_full_disk_error(self.testbed, connectivity.root_cause(raised, self.record.boot_ids)),
            )
            self._end(_status_of(error, phase), f"{phase}: {error.message}")
            self.retry = isinstance(error, HostError) and error.transient
            if error is raised and isinstance(error, LostError | UnreachableError):
                self._close_lost_host(error.host)
            else:
                self._collect_failed_outputs()
                self._add_output_reason(phase)

    def phases(self) -> dict[str, Callable[[], None]]:
        """Return the phases by name, in order; `stop` follows them, whatever happens."""
        # trial.json has these names (phases_s), and the reason of a failure begins with one
        return {
            "reset": self._reset,
            "configure": self._configure,
            "start": self._start,
            "ask_before": self._check_page,
            "load": self._run_load,
            "ask_after": self._check_after_load,
            "collect": self._collect,
        }

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begun, self._phase = time.monotonic(), name
        try:
            yield
        finally:
            self.record.phases_s[name] = round(time.monotonic() - begun, 4)

    def _end(self, status: Status, reason: str | None) -> None:
        self.record.status, self.record.reason = status, reason

    def _reset(self) -> None:
        self.testbed.set_trial(self.planned)
        pause = self.testbed.pause
        states = self.testbed.map(
            lambda a: wait_for_rest(self.testbed.hosts[a], self.study.reset, pause), self.testbed.hosts
        )
        self.record.reset = {alias: state.state for alias, state in states.items()}
        self.record.boot_ids = {alias: state.boot_id for alias, state in states.items()}
        for alias, boot_id in self.record.boot_ids.items():
            before, self.testbed.boot_ids[alias] = self.testbed.boot_ids.get(alias, boot_id), boot_id
            if before != boot_id:
                raise LostError(alias, "was rebooted since the last trial")
        for alias, state in states.items():
            check_free_space(self.testbed.hosts[alias], state.state, HOST_TRIAL_BYTES)

    def _configure(self) -> None:
        self.record.changes = self.host_changes.apply()
        self.services.configure()

    def _start(self) -> None:
        """Start the services and read the hosts' clocks meanwhile."""
        clocks = self.testbed.submit(lambda alias: self.testbed.hosts[alias].clock(), self.testbed.hosts)
        try:
            self.services.start()
        finally:
            self.record.services = self.services.records
            for alias, changed in self.services.changes.items():
                self.record.changes.setdefault(alias, {}).update(changed)
        for alias, clock in self.testbed.results(clocks).items():
            self.record.clocks[alias] = ClockRecord(offset_before_s=clock.offset_s, rtt_before_s=clock.rtt_s)

    def _check_page(self) -> None:
        """Check the page while the monitors start."""
        page = self.testbed.pool.submit(self._fetch_page_from_drivers)
        try:
            self.monitors.start()
        finally:
            self.record.response_before = page.result()
        problem = response_problem(self.workload, self.record.response_before)
        if problem:
            raise InvalidTrialError(f"before the load {problem}", "correct workload.path or workload.expect_*")

    def _fetch_page_from_drivers(self) -> ResponseRecord:
        """Fetch the page from every driver; all must get the same, so the first response is returned."""
        hosts = [self.testbed.hosts[alias] for alias in self.testbed.drivers]
        responses = self.testbed.map(lambda host: fetch_page(host, self.deployment.target, self.workload.path), hosts)
        first, *others = responses.items()
        for host, response in others:
            if (response.status, response.bytes) != (first[1].status, first[1].bytes):
                listed = " and ".join(
                    f"{h.alias} {a.status} with {a.bytes} bytes" for h, a in (first, (host, response))
                )
                raise InvalidTrialError(
                    f"drivers get different answers: {listed}", "the target must serve all drivers alike"
                )
        return first[1]

    def _run_load(self) -> None:
        drivers = [self.testbed.hosts[alias] for alias in self.testbed.drivers]
        self.services.read_counters("before")
        self.load.schedule_start(self.record.clocks)
        self.testbed.map(self.load.start, drivers)
        self.testbed.map(self.load.wait, drivers)

    def _check_after_load(self) -> None:
        self._watched = self.testbed.pool.submit(self.monitors.collect, self.folder, self.record.services)
        self.services.check_running()
        self.host_changes.check_in_effect()
        check_disks_not_full(self.testbed)
        self.services.read_counters("after")
        clocks = self.testbed.submit(lambda alias: self.testbed.hosts[alias].clock(), self.testbed.hosts)
        self.record.response_after = self._fetch_page_from_drivers()
        for alias, clock in self.testbed.results(clocks).items():
            ours = self.record.clocks[alias]
            ours.offset_after_s, ours.rtt_after_s = clock.offset_s, clock.rtt_s

    def _collect(self) -> None:
        drivers = self.testbed.map(
            lambda a: self.load.collect(self.testbed.hosts[a], self.folder), self.testbed.drivers
        )
        self.record.drivers = list(drivers.values())
        self.record.monitors, self.record.polled = self._watched.result(), self.monitors.polled
        times = window_fields(self.record.drivers, self.record.clocks)
        self.record.window, self.record.start_skew_s = times["window"], times["start_skew_s"]

    def _assess(self, clock_step_s: float) -> None:
        """Lower the status of a finished attempt whose clock, page or tool output was wrong."""
        if abs(clock_step_s) > MAX_CLOCK_STEP_S:
            self._end("partial", f"the controller's clock jumped by {clock_step_s:.1f} s during the trial")
        response = self.record.response_after
        problem = response_problem(self.workload, response) if response else None
        if problem:
            self._end("invalid", f"after the load {problem}")
        outcome = assess_outputs(self.folder, self.record, self.study.validity)
        if outcome and not (outcome.status == "partial" and problem):
            self._end(outcome.status, outcome.reason)
        if truncated := truncated_outputs(self.folder, self.record.drivers):
            self._end("tool_failed", truncated)

    def _close_lost_host(self, alias: str) -> None:
        """Close a lost host, since every further call would wait for it; its jobs end with the connection."""
        if alias in self.testbed.hosts:
            with contextlib.suppress(HostError):
                self.testbed.hosts[alias].close()

    def _collect_failed_outputs(self) -> None:
        """Copy the outputs of a failed attempt from the drivers that can be reached."""
        for alias in self.load.started:
            with contextlib.suppress(LoadbookError):
                self.testbed.hosts[alias].stop(self.load.name, grace_s=1.0)
                self.record.drivers.append(self.load.collect(self.testbed.hosts[alias], self.folder))

    def _add_output_reason(self, phase: str) -> None:
        """Add the load generators' reason, such as a driver without free ports, to that of the failed page."""
        outcome = assess_outputs(self.folder, self.record, self.study.validity) if phase == "ask_after" else None
        if outcome and outcome.status == self.record.status == "invalid":
            self._end("invalid", f"{self.record.reason}; {outcome.reason}")

    def stop(self, limit_s: float | None = None, restore_s: float | None = None) -> None:
        """End everything that was started; a job on a host out of reach, or too slow, ends by its lease."""
        self.load.cancel()
        ends = self.services.stop_calls()
        ends += [partial(self.load.end, self.testbed.hosts[alias]) for alias in self.load.started]
        run_within(self.testbed, [*ends, self.monitors.end], limit_s)
        run_within(self.testbed, [self.host_changes.restore], restore_s)


def _status_of(error: LoadbookError, phase: str) -> Status:
    """Return the status of an attempt that ended with this error in this phase."""
    if isinstance(error, ToolError | HostFullError):
        return "tool_failed"
    if isinstance(error, HostTimeoutError) and phase == "load":
        return "timeout"
    return "lost" if isinstance(error, HostError) and error.transient else "invalid"
