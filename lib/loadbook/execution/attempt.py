"""One attempt at one trial: reset, configure, start, check the page, load, check again, collect, stop.

All started jobs are stopped in any case, and every attempt ends in exactly one status with a reason. Work on different
hosts is done in parallel. During the load no host is contacted, because in the lab controller, driver and server share
one machine.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from loadbook.core import clock
from loadbook.core.errors import (
    HostError,
    HostFullError,
    HostTimeoutError,
    LoadbookError,
    LostError,
    ToolError,
    UnreachableError,
)
from loadbook.core.metrics import get_metric
from loadbook.execution import host_state
from loadbook.execution.deployment import Deployment
from loadbook.execution.host_changes import HostChangeJobs, InvalidTrialError, ServerFailedError
from loadbook.execution.load import OUTPUT_RULES, LoadJobs, assess_outputs, truncated_outputs
from loadbook.execution.placement import CHANGES, LOAD, MONITOR, job_name, job_stem
from loadbook.execution.progress import PHASE_TEXTS
from loadbook.execution.services import TrialMonitors, TrialServices, cpu_seconds, read_cpu_times, write_trial_file
from loadbook.execution.testbed import Testbed
from loadbook.hosts.host import Host
from loadbook.hosts.replay import transcript_name
from loadbook.store.trial_record import (
    ClockRecord,
    MonitorRecord,
    ResponseRecord,
    Status,
    TrialRecord,
    window_fields,
)
from loadbook.study.plan import PlannedTrial
from loadbook.study.workload import Workload, split_load
from loadbook.tools.base import Target

SERVICE_LEASE_EXTRA_S = 60.0
# largest step of the wall clock against the monotonic clock during a valid trial, seconds
MAX_CLOCK_STEP_S = 1.0
# seconds that an interrupted attempt waits for load and services to end (TERM, 5 s, KILL), and then for rollbacks
CANCEL_S = 7.0
RESTORE_S = 5.0
PAGE_TIMEOUT_S = 10.0


class Attempt:
    """One attempt at a trial, with its jobs on the hosts, its record, and the files in `folder`.

    `load`, `services`, `monitors` and `host_changes` are its jobs. After `run`, `retry` is True if another attempt may
    succeed. In an interleaved block, `arm` is its number, and the load of all other arms takes at most `others_s`.
    `workload` replaces the load of the study, as for a probe of a search for capacity.
    """

    output_rules: tuple[str, ...] = OUTPUT_RULES  # validity rules on the outputs that decide the status

    def __init__(
        self,
        testbed: Testbed,
        planned: PlannedTrial,
        attempt: int,
        folder: Path,
        arm: int = 0,
        others_s: float = 0.0,
        *,
        workload: Workload | None = None,
    ) -> None:
        self.testbed, self.planned, self.folder = testbed, planned, folder
        self.study = testbed.plan.study
        self.stem = job_stem(testbed.run, planned.trial, attempt)
        self.record = initial_record(testbed, planned, attempt)
        self.workload = workload or self.study.workload_of(planned.treatment)
        self.record.workload = self.workload.model_dump(mode="json")
        self.deployment = Deployment(testbed, planned.treatment, arm)
        tool, shares = testbed.tools[self.workload.tool], split_load(self.workload, testbed.drivers)
        target, launch = self.deployment.target, self.deployment.load_launch
        self._measures_cpu = get_metric(self.study.metric).kind == "cost" or testbed.plan.mode.measures_cpu
        name, warmup_first = job_name(self.stem, LOAD), self._measures_cpu and self.workload.warmup_s > 0
        self.load = LoadJobs(tool, shares, target, name, launch, warmup_first)
        self.monitors = TrialMonitors(
            testbed, job_name(self.stem, MONITOR), self.load.timeout_s, self._watched_processes()
        )
        lease_s = self.load.timeout_s + others_s + SERVICE_LEASE_EXTRA_S
        self.host_changes = HostChangeJobs(self.deployment, job_name(self.stem, CHANGES), lease_s)
        self.services = TrialServices(self.deployment, self.stem, lease_s, folder)
        self.retry = False
        self._phase = "reset"
        self._monitored: Future[list[MonitorRecord]]

    def _watched_processes(self) -> dict[str, dict[str, str]]:
        """Return host -> file below jobs/ -> label of the monitored processes: load generator and services."""
        jobs = {alias: {f"{self.load.name}/step": self.workload.tool} for alias in self.testbed.drivers}
        for placement in self.deployment.placements:
            # the host's own server is not a child process of our job, which writes the server's process id to `main`
            file = f"{job_name(self.stem, placement.role)}/{'main' if placement.spec.tree else 'step'}"
            jobs.setdefault(placement.alias, {})[file] = placement.spec.name
        return jobs

    def run(self) -> TrialRecord:
        """Run the attempt and return its record; raises only KeyboardInterrupt and errors of the controller."""
        begun_s, self.record.started = clock.monotonic(), clock.now()
        limits_s: tuple[float | None, float | None] = (None, None)
        connectivity = host_state.Connectivity(self.testbed)
        try:
            self._run_and_assess(connectivity, begun_s)
        except KeyboardInterrupt:
            limits_s = CANCEL_S, RESTORE_S
            raise
        finally:
            with self.timed("stop"):
                self._say("stop")
                self.stop(*limits_s)
            for alias, host in self.testbed.hosts.items():
                write_trial_file(self.folder / transcript_name(alias), host.take_transcript())
            self.record.reconnects = connectivity.reconnects
            self.record.duration_s = round(clock.monotonic() - begun_s, 4)
        return self.record

    def _run_and_assess(self, connectivity: host_state.Connectivity, begun_s: float) -> None:
        """Run the phases and set the status."""
        try:
            for name, run_phase in self.phases().items():
                with self.timed(name):
                    self._say(name)
                    run_phase()
            self.assess(connectivity, clock.now() - (self.record.started or 0) - (clock.monotonic() - begun_s))
        except LoadbookError as error:
            self.fail(error, connectivity)

    def fail(self, raised: LoadbookError, connectivity: host_state.Connectivity) -> None:
        """Set the status that fits an error's cause, and collect the load generators' outputs if possible.

        `retry` is set if the error is transient, such as a lost connection.
        """
        phase, cause = self._phase, connectivity.root_cause(raised, self.record.boot_ids)
        error = host_state.prefer_full_disk_error(self.testbed, cause)
        status, cause_of_hang = _status_of(error, phase), self.load.tool.hang_cause
        hung = f"; {cause_of_hang}" if status == "timeout" and cause_of_hang else ""
        self._end(status, f"{phase}: {error.message}{hung}")
        self.retry = isinstance(error, HostError) and error.transient
        if error is raised and isinstance(error, LostError | UnreachableError):
            # drop the connection, as every further call would wait for the lost host; its jobs then end
            if error.host in self.testbed.hosts:
                with contextlib.suppress(HostError):
                    self.testbed.hosts[error.host].close()
            return
        for alias in self.load.started:
            with contextlib.suppress(LoadbookError):
                self.testbed.hosts[alias].stop(self.load.name, grace_s=1.0)
                self.record.drivers.append(self.load.collect(self.testbed.hosts[alias], self.folder))
        # after a failed page check, add the reason found in the outputs, such as a driver without free ports
        outcome = (
            assess_outputs(self.folder, self.record, self.study.validity, self.output_rules)
            if phase == "ask_after"
            else None
        )
        if outcome and outcome.status == self.record.status == "invalid":
            self._end("invalid", f"{self.record.reason}; {outcome.reason}")

    def phases(self) -> dict[str, Callable[[], None]]:
        """Return phase name -> function, in order of execution; `stop` is always called after them."""
        # the names appear in trial.json (phases_s) and at the start of a failure's reason
        return {
            "reset": self._reset,
            "configure": self._configure,
            "start": self._start,
            "ask_before": self._check_page,
            "load": self._run_load,
            "ask_after": self._check_after_load,
            "collect": self._collect,
        }

    def _say(self, name: str) -> None:
        """Report the begin of a phase; the load, whose duration is planned, does so itself."""
        if text := PHASE_TEXTS.get(name):
            self.testbed.on_phase(text, trial=self.planned)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Record the duration of a phase, and its name for the reason of a failure."""
        begun, self._phase = clock.monotonic(), name
        try:
            yield
        finally:
            self.record.phases_s[name] = round(clock.monotonic() - begun, 4)

    def _end(self, status: Status, reason: str | None) -> None:
        self.record.status, self.record.reason = status, reason

    def _reset(self) -> None:
        hosts, known = self.testbed.hosts, self.testbed.boot_ids
        self.testbed.set_trial(self.planned)
        states = self.testbed.map(
            lambda alias: host_state.wait_for_rest(hosts[alias], self.study.reset, self.testbed.pause), hosts
        )
        self.record.reset = {alias: state.state for alias, state in states.items()}
        self.record.boot_ids = {alias: state.boot_id for alias, state in states.items()}
        self.record.other_runs = {
            alias: [run.description for run in state.other_runs] for alias, state in states.items() if state.other_runs
        }
        for alias, boot_id in self.record.boot_ids.items():
            before, known[alias] = known.get(alias, boot_id), boot_id
            if before != boot_id:
                raise LostError(alias, "was rebooted since the last trial")
        for alias, state in states.items():
            host_state.check_free_space(hosts[alias], state.state, host_state.HOST_TRIAL_BYTES)

    def _configure(self) -> None:
        self.record.changes = self.host_changes.apply()
        self.services.configure()

    def _start(self) -> None:
        """Start the services, and read the hosts' clocks at the same time."""
        clocks = self.testbed.submit_clocks()
        try:
            self.services.start()
        finally:
            self.record.services = self.services.records
            for alias, changed in self.services.changes.items():
                self.record.changes.setdefault(alias, {}).update(changed)
        for alias, offset in self.testbed.results(clocks).items():
            self.record.clocks[alias] = ClockRecord(offset_before_s=offset.offset_s, rtt_before_s=offset.rtt_s)

    def _check_page(self) -> None:
        """Check the page and start the monitors at the same time."""
        page = self.testbed.pool.submit(self.check_page)
        try:
            self.monitors.start()
        finally:
            page.result()

    def check_page(self) -> None:
        """Fetch the page from every driver; InvalidTrialError unless status and size are as the workload expects."""
        self.record.response_before = self._fetch_page_from_drivers()
        if problem := response_problem(self.workload, self.record.response_before):
            raise InvalidTrialError(f"before the load {problem}", "correct workload.path or workload.expect_*")

    def _fetch_page_from_drivers(self) -> ResponseRecord:
        """Fetch the page from every driver and return the first response; InvalidTrialError if responses differ."""
        hosts = [self.testbed.hosts[alias] for alias in self.testbed.drivers]
        responses = self.testbed.map(lambda host: fetch_page(host, self.deployment.target, self.workload.path), hosts)
        first, *others = [(host.alias, page.status, page.bytes) for host, page in responses.items()]
        for other in others:
            if other[1:] != first[1:]:
                listed = " and ".join(f"{alias} {status} with {size} bytes" for alias, status, size in (first, other))
                raise InvalidTrialError(
                    f"drivers get different answers: {listed}", "the target must serve all drivers alike"
                )
        return responses[hosts[0]]

    def _run_load(self) -> None:
        drivers = [self.testbed.hosts[alias] for alias in self.testbed.drivers]
        self.services.read_counters("before")
        if self.load.warmup_first:
            self.testbed.on_phase("warm-up", self.workload.warmup_s, self.planned)
            self.testbed.map(self.load.warm_up, drivers)
        self.testbed.on_phase(self.load.phase, self.load.planned_s, self.planned)
        before = read_cpu_times(self.testbed, {0: self.services}) if self._measures_cpu else None
        self.load.schedule_start(self.record.clocks)
        self.testbed.map(self.load.start, drivers)
        self.testbed.map(self.load.wait, drivers)
        if before is not None:
            after = read_cpu_times(self.testbed, {0: self.services})
            for (_, number), used_s in cpu_seconds(before, after).items():
                self.record.services[number].cpu_s = used_s

    def _check_after_load(self) -> None:
        self._monitored = self.testbed.pool.submit(self.monitors.collect, self.folder, self.record.services)
        self.check_after_load()

    def check_after_load(self) -> None:
        """After the load, check services, host changes and disks; read counters and clocks; fetch the page again."""
        self.services.check_running()
        self.host_changes.check_in_effect()
        host_state.check_disks_not_full(self.testbed)
        self.services.read_counters("after")
        clocks = self.testbed.submit_clocks()
        self.record.response_after = self._fetch_page_from_drivers()
        for alias, offset in self.testbed.results(clocks).items():
            ours = self.record.clocks[alias]
            ours.offset_after_s, ours.rtt_after_s = offset.offset_s, offset.rtt_s

    def _collect(self) -> None:
        hosts = self.testbed.hosts
        drivers = self.testbed.map(lambda alias: self.load.collect(hosts[alias], self.folder), self.testbed.drivers)
        self.record.drivers = list(drivers.values())
        self.record.monitors, self.record.polled = self._monitored.result(), self.monitors.polled
        times = window_fields(self.record.drivers, self.record.clocks)
        self.record.window, self.record.start_skew_s = times["window"], times["start_skew_s"]

    def assess(self, connectivity: host_state.Connectivity, clock_step_s: float) -> None:
        """Set the status of a finished attempt from reboots, the controller's clock, the page and the tool's output.

        `clock_step_s` is the time by which the controller's wall clock moved more than its monotonic clock (s).
        """
        connectivity.check_not_rebooted(self.record.boot_ids)
        self._end("ok", None)
        if abs(clock_step_s) > MAX_CLOCK_STEP_S:
            self._end("partial", f"the controller's clock jumped by {clock_step_s:.1f} s during the trial")
        response = self.record.response_after
        problem = response_problem(self.workload, response) if response else None
        if problem:
            self._end("invalid", f"after the load {problem}")
        outcome = assess_outputs(self.folder, self.record, self.study.validity, self.output_rules)
        if outcome and not (outcome.status == "partial" and problem):
            self._end(outcome.status, outcome.reason)
        if truncated := truncated_outputs(self.folder, self.record.drivers):
            self._end("tool_failed", truncated)
        if self.record.status != "ok":
            connectivity.check_connected(self.record.reason or "")

    def stop(self, limit_s: float | None = None, restore_s: float | None = None) -> None:
        """End load, services and monitors within `limit_s` s, and undo host changes within `restore_s` s.

        None is no limit. Jobs that have not ended by then are ended by their hosts when their lease is over.
        """
        self.load.cancel()
        loads = [partial(self.load.end, self.testbed.hosts[alias]) for alias in self.load.begun]
        self.testbed.run_within([*self.services.stop_calls(), *loads, self.monitors.end], limit_s)
        self.testbed.run_within([self.host_changes.restore], restore_s)


def initial_record(testbed: Testbed, planned: PlannedTrial, attempt: int) -> TrialRecord:
    """Return the record of an attempt that has just begun, with the status "lost", which is right until it ends."""
    study = testbed.plan.study
    load = study.workload_of(planned.treatment)
    return TrialRecord(
        study=study.name,
        run=testbed.run,
        trial=planned.trial,
        treatment=planned.treatment,
        factors={name: str(level) for name, level in study.levels_of(planned.treatment).items()},
        block=planned.block,
        slot=planned.slot,
        attempt=attempt,
        execution=testbed.plan.execution_of(planned.block),
        status="lost",
        reason="the controller ended during this attempt",
        tool=load.tool,
        tool_version=next((v for (_, tool), v in testbed.tool_versions.items() if tool == load.tool), None),
        workload=load.model_dump(mode="json"),
    )


def _status_of(error: LoadbookError, phase: str) -> Status:
    """Return the status of an attempt that failed with `error` in `phase`."""
    if isinstance(error, ToolError | HostFullError):
        return "tool_failed"
    if isinstance(error, HostTimeoutError) and phase == "load":
        return "timeout"
    return "lost" if isinstance(error, HostError) and error.transient else "invalid"


def fetch_page(host: Host, target: Target, path: str) -> ResponseRecord:
    """Fetch the page once, through `host`; ServerFailedError if `host` is reachable but the server does not answer."""
    try:
        response = host.http_get(target.address, target.port, path, timeout_s=PAGE_TIMEOUT_S, scheme=target.scheme)
    except (UnreachableError, HostTimeoutError) as error:
        host.run(["true"], timeout_s=PAGE_TIMEOUT_S)
        raise ServerFailedError(error.message, "the service's log is in the trial's folder") from error
    return ResponseRecord(
        status=response.status,
        bytes=len(response.body),
        sha256=hashlib.sha256(response.body).hexdigest(),
        server=response.headers.get("server"),
    )


def response_problem(workload: Workload, response: ResponseRecord) -> str | None:
    """Return a message if status or size of a response differ from those that the workload expects, else None."""
    expected = (workload.expect_status, response.bytes if workload.expect_bytes is None else workload.expect_bytes)
    if (response.status, response.bytes) == expected:
        return None
    return (
        f"{workload.path} answered {response.status} with {response.bytes} bytes, not {expected[0]} with {expected[1]}"
    )
