"""One attempt at one interleaved block: all services run at once, and the load generators take turns in slices.

Every arm (treatment in a block) is an attempt at its own trial, with its own services, record and files; if one fails,
the others go on. The arms share the reset, the monitors, and the job in which the generators take turns
(`hosts/interleave.pl`).
"""

from __future__ import annotations

import math
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from loadbook.core.errors import CommandError, LoadbookError, LostError, ToolError
from loadbook.execution.attempt import CANCEL_S, RESTORE_S, Attempt
from loadbook.execution.cpu_samplers import CpuSamplers
from loadbook.execution.deployment import LOAD, MONITOR, job_name
from loadbook.execution.host_state import Connectivity
from loadbook.execution.load import (
    GRACE_S,
    LEASE_EXTRA_S,
    MAX_FILE_BYTES,
    STOP_GRACE_S,
    fetch_truncated,
    remove_job,
)
from loadbook.execution.services import (
    CpuTimes,
    ServiceKey,
    TrialMonitors,
    cpu_seconds,
    read_cpu_times,
    write_trial_file,
)
from loadbook.execution.testbed import Testbed
from loadbook.hosts.host import Host, Job
from loadbook.hosts.jobs import INTERLEAVE_PROGRAM, PROBE_SUFFIX, WARMUP_SUFFIX, perl_program_files
from loadbook.hosts.replay import transcript_name
from loadbook.ingestion.interleaved import read_slices
from loadbook.services.check import idle_timeout_reasons
from loadbook.services.cpu_time import read_cpu_time
from loadbook.store.trial_record import (
    RECORD_NAME,
    DriverRecord,
    InterleavedRecord,
    MonitorRecord,
    TrialRecord,
    window_fields,
)
from loadbook.study.interleaving import (
    MAX_SLICE_S,
    SLICE_LATENCIES,
    TAIL_S,
    ScheduledService,
    SliceLengths,
    block_seconds,
    draw_rounds,
    schedule_text,
    slices_for_latency,
    slices_of_block,
    timeout_with_pauses_s,
)
from loadbook.study.plan import Plan
from loadbook.tools.base import MAX_REPORT_BYTES, ToolOutput, parse_output

SCHEDULE, SLICES = "schedule", "slices"
CALIBRATION_S = 1.0  # duration of a load on each arm, once in a run, to choose slice and gap by the latency
QUIET_S = 0.2  # seconds without load, to measure the CPU time that services use without requests


class SlicesTooLongError(Exception):
    """A treatment answers so slowly that its slices would be longer than trials; the run goes on with plain trials."""


def longest_block_s(plan: Plan) -> float:
    """Return the seconds after which a block counts as hung: calibration, warm-ups and slices of all treatments."""
    workload = plan.study.workload_of(plan.treatments[0])
    each_s = CALIBRATION_S + workload.warmup_s + 2 * workload.duration_s + TAIL_S
    return len(plan.treatments) * each_s + 3 * GRACE_S


class InterleavedBlock:
    """One attempt at all trials of one block; `attempts` are its arms, in the order of the plan.

    `by_latency` holds the lengths of slice and gap for the latency of all arms; None measures it first. `lengths` are
    those of this block, which the study may set.
    """

    def __init__(self, testbed: Testbed, attempts: Sequence[Attempt], by_latency: SliceLengths | None) -> None:
        self.testbed, self.attempts, self.by_latency = testbed, attempts, by_latency
        self.lengths: SliceLengths | None = None
        self.latency_s: float | None = None
        self.driver: Host = testbed.hosts[testbed.drivers[0]]
        self.jobs: list[str] = []
        self._alive = dict(enumerate(attempts))
        first = attempts[0]
        self._job = job_name(first.stem, LOAD)
        self.calibration_job, self.warmup_job = f"{self._job}{PROBE_SUFFIX}", f"{self._job}{WARMUP_SUFFIX}"
        self.cpu_samplers = CpuSamplers(testbed, f"{self._job}-cpu")
        watched = _watched_processes(testbed, attempts, self._job)
        self.monitors = TrialMonitors(testbed, job_name(first.stem, MONITOR), longest_block_s(testbed.plan), watched)

    def run(self) -> None:
        """Run the block and fill in every attempt's record.

        Raises
        ------
        SlicesTooLongError : the latency, measured first, asks for slices above MAX_SLICE_S.
        KeyboardInterrupt : the user ended the run. Errors of the controller are raised, too.
        """
        begun_s, connectivity = time.monotonic(), Connectivity(self.testbed)
        started = time.time()
        for attempt in self.attempts:
            attempt.record.started = started
        limits_s: tuple[float | None, float | None] = (None, None)
        try:
            self._run_phases(connectivity, begun_s)
        except KeyboardInterrupt:
            limits_s = CANCEL_S, RESTORE_S
            raise
        finally:
            self.stop(*limits_s)
            for alias, host in self.testbed.hosts.items():
                write_trial_file(self.attempts[0].folder / transcript_name(alias), host.take_transcript())
            for attempt in self.attempts:
                attempt.record.reconnects = connectivity.reconnects
                attempt.record.duration_s = round((time.monotonic() - begun_s) / len(self.attempts), 4)

    def _run_phases(self, connectivity: Connectivity, begun_s: float) -> None:
        self._together("reset", self.reset, connectivity)
        for name in ("configure", "start", "ask_before"):
            self._each(name, connectivity)
        self._together("load", self.run_load, connectivity)
        for name in ("ask_after", "collect"):
            self._each(name, connectivity)
        for attempt in list(self._alive.values()):
            step_s = time.time() - (attempt.record.started or 0) - (time.monotonic() - begun_s)
            self._guarded(attempt, "assess", partial(attempt.assess, connectivity, step_s), connectivity)

    def arm_phases(self) -> dict[str, Callable[[int, Attempt], None]]:
        """Return phase name -> function for the phases of single arms; `reset`, `run_load` and `stop` are of all arms.

        The order is reset, configure, start, ask_before, load, ask_after, collect, stop.
        """
        return {
            "configure": lambda arm, attempt: attempt.phases()["configure"](),
            "start": lambda arm, attempt: attempt.phases()["start"](),
            "ask_before": lambda arm, attempt: attempt.check_page(),
            "ask_after": lambda arm, attempt: attempt.check_after_load(),
            "collect": self._collect,
        }

    def _each(self, phase: str, connectivity: Connectivity) -> None:
        """Run a phase for every arm that has not failed yet, one arm after the other."""
        run_phase = self.arm_phases()[phase]
        for arm, attempt in list(self._alive.items()):
            self._guarded(attempt, phase, partial(run_phase, arm, attempt), connectivity)

    def _guarded(self, attempt: Attempt, phase: str, call: Callable[[], None], connectivity: Connectivity) -> None:
        """Make a call for one arm; an error ends this arm only."""
        try:
            with attempt.timed(phase):
                call()
        except LoadbookError as error:
            attempt.fail(error, connectivity)
            if phase == "ask_after":
                with suppress(LoadbookError):
                    self._collect(next(arm for arm, other in self._alive.items() if other is attempt), attempt)
            self._alive = {arm: other for arm, other in self._alive.items() if other is not attempt}

    def _together(self, phase: str, call: Callable[[], None], connectivity: Connectivity) -> None:
        """Make one call for all arms together; an error ends all of them."""
        if not self._alive:
            return
        begun_s = time.monotonic()
        try:
            call()
        except LoadbookError as error:
            for attempt in self._alive.values():
                with attempt.timed(phase):
                    attempt.fail(error, connectivity)
            self._alive = {}
        for attempt in self._alive.values():
            attempt.record.phases_s[phase] = round(time.monotonic() - begun_s, 4)

    def reset(self) -> None:
        """Wait until the hosts are at rest, once for all arms."""
        first, *others = self.attempts
        first.phases()["reset"]()
        for other in others:
            other.record.reset, other.record.boot_ids = first.record.reset, first.record.boot_ids

    def run_load(self) -> None:
        """Choose lengths of slice and gap if not known, warm up every arm, then let the generators take turns."""
        if self.by_latency is None:
            self.latency_s = self._measure_latency()
            self.by_latency = self._replayed_lengths() or slices_for_latency(self.latency_s)
            if self.by_latency is None:
                slices = f"slices of {SLICE_LATENCIES} latencies would be longer than {MAX_SLICE_S:g} s"
                raise SlicesTooLongError(f"the slowest arm answers in {self.latency_s:.3f} s on average: {slices}")
            self._check_idle_timeouts(self.by_latency)
        self.lengths = slices_of_block(self.testbed.plan.study, self.attempts[0].planned.block, self.by_latency)
        self._warm_up()
        self.monitors.start()
        for attempt in self._alive.values():
            attempt.services.read_counters("before")
        idle_from, idle = time.monotonic(), self._read_cpu()
        self.testbed.pause(QUIET_S if self.driver.live else 0.0)
        before, idle_s = self._read_cpu(), time.monotonic() - idle_from
        leaders = self._leaders_elsewhere(before)
        self.cpu_samplers.start(leaders, self.lengths.slice_s, longest_block_s(self.testbed.plan))
        self._run_slices(self.lengths, before)
        self.cpu_samplers.collect(self.attempts[0].folder)
        after = self._read_cpu()
        self._monitor_records = self.monitors.collect(self.attempts[0].folder, [])
        used_s, used_idle_s = cpu_seconds(before, after), cpu_seconds(idle, before)
        for arm, number in used_s.keys() & used_idle_s.keys():
            service = self._alive[arm].record.services[number]
            service.cpu_s = used_s[arm, number]
            service.idle_cpu_share = round(used_idle_s[arm, number] / idle_s, 6)

    def _leaders_elsewhere(self, services: CpuTimes) -> dict[str, dict[ServiceKey, int]]:
        """Return host -> service -> leading process, of arms with a service on another machine than the driver's."""
        here = read_cpu_time(self.driver, []).machine
        arms = {arm for (arm, _), cpu in services.items() if cpu.machine != here}
        leaders: dict[str, dict[ServiceKey, int]] = {}
        for (arm, number), cpu in services.items():
            if arm in arms:
                leaders.setdefault(self._alive[arm].record.services[number].host, {})[arm, number] = cpu.leader
        return leaders

    def _measure_latency(self) -> float:
        """Load each arm alone for CALIBRATION_S; return the slowest arm's mean latency (s), connections over rate.

        In a dry run, it is 0.
        """
        name, latencies = self.calibration_job, list[float]()
        seconds = math.ceil(CALIBRATION_S)
        steps: list[tuple[str, ...]] = []
        job_files: dict[str, bytes] = {}
        for arm, attempt in self._alive.items():
            share = attempt.workload.with_duration(seconds, 0)
            argv = attempt.load.launch.wrap(tuple(attempt.load.tool.command(share, attempt.deployment.target, seconds)))
            job_files |= _files_of(attempt, arm)
            steps.append(_step_in_folder(arm, argv))
        self._run_job(name, tuple(steps), job_files, len(steps) * (seconds + GRACE_S), len(steps) * float(seconds))
        if not self.driver.live:
            return 0.0
        for step, attempt in enumerate(self._alive.values(), 1):
            folder = f"{self.driver.workdir}/jobs/{name}"
            stdout = self.driver.get(f"{folder}/stdout.{step}", max_bytes=MAX_REPORT_BYTES)
            argv = tuple(
                attempt.load.tool.command(
                    attempt.workload.with_duration(seconds, 0), attempt.deployment.target, seconds
                )
            )
            report = parse_output(attempt.load.tool, ToolOutput(stdout, exit_code=0, argv=argv))
            values = {(m.metric, m.statistic): m.value for m in report.measurements}
            requests, duration_s = values.get(("requests", "count"), 0.0), values.get(("duration", "value"), seconds)
            if not requests:
                raise ToolError(
                    f"{attempt.planned.treatment}: {attempt.load.tool.name} completed no request in {seconds} s"
                )
            latencies.append(attempt.workload.connections * duration_s / requests)
        return max(latencies)

    def _replayed_lengths(self) -> SliceLengths | None:
        """Return the lengths of the block that is played back, and take its latency over; None for live hosts."""
        recorded = self.driver.recorded_file(RECORD_NAME)
        replayed = TrialRecord.model_validate_json(recorded).interleaved if recorded else None
        if replayed is None:
            return None
        self.latency_s = replayed.latency_s
        return SliceLengths(replayed.slice_s, replayed.gap_s)

    def _check_idle_timeouts(self, by_latency: SliceLengths) -> None:
        """Raise SlicesTooLongError if a service would close connections while their load generator is stopped."""
        treatments = [attempt.planned.treatment for attempt in self.attempts]
        specs = {placement.spec.folder.name: placement.spec for placement in self.testbed.placements}
        if reasons := idle_timeout_reasons(self.testbed.plan.study, treatments, by_latency, specs):
            raise SlicesTooLongError("; ".join(reasons))

    def _warm_up(self) -> None:
        steps: list[tuple[str, ...]] = []
        job_files: dict[str, bytes] = {}
        for arm, attempt in self._alive.items():
            if attempt.workload.warmup_s:
                job_files |= _files_of(attempt, arm)
                steps.append(_step_in_folder(arm, attempt.load.warmup_step(attempt.workload)))
        if steps:
            planned_s = sum(attempt.workload.warmup_s for attempt in self._alive.values())
            self._run_job(self.warmup_job, tuple(steps), job_files, planned_s + GRACE_S, planned_s)

    def _run_slices(self, lengths: SliceLengths, cpu_times: CpuTimes) -> None:
        """Run the job in which the generators take turns; outputs stay on the driver until they are collected."""
        arms = list(self._alive)
        workload = self.attempts[0].workload
        load_s = math.ceil(block_seconds(lengths, len(arms), workload.duration_s))
        rounds = math.ceil(load_s / (len(arms) * (lengths.slice_s + lengths.gap_s)))
        seed = f"loadbook slices {self.testbed.plan.seed} {self.attempts[0].planned.block}"
        orders = [[arms[k] for k in order] for order in draw_rounds(len(arms), rounds, seed)]
        job_files = perl_program_files(INTERLEAVE_PROGRAM)
        for arm, attempt in self._alive.items():
            attempt.load.started[self.driver.alias] = time.time(), time.monotonic()
            argv = self._measurement(attempt, load_s)
            job_files |= _files_of(attempt, arm) | {f"arm{arm}/cmd": f"exec {shlex.join(argv)}\n".encode()}
        services = [ScheduledService(arm, cpu.machine, cpu.leader) for (arm, _), cpu in cpu_times.items()]
        job_files[SCHEDULE] = schedule_text(lengths, arms, orders, load_s, services).encode()
        self._tool_s = load_s
        timeout_s = load_s + len(arms) * TAIL_S + GRACE_S
        self._run_job(self._job, (("perl", INTERLEAVE_PROGRAM, SCHEDULE),), job_files, timeout_s, float(load_s))
        output = self.driver.get(f"{self._folder}/stdout.1", max_bytes=MAX_REPORT_BYTES).decode(errors="replace")
        try:
            self.slice_log = read_slices(output)
        except (ValueError, LookupError) as error:
            raise CommandError(
                self.driver.alias, f"{INTERLEAVE_PROGRAM} printed something else than slices: {error}"
            ) from error
        self._slices_text = output

    def _measurement(self, attempt: Attempt, load_s: int) -> tuple[str, ...]:
        """Return the command of an arm's generator, whose time-out, if it has one, no pause can exceed."""
        assert self.lengths is not None
        tool, workload = attempt.load.tool, attempt.workload.with_duration(load_s, 0)
        if tool.has_timeout:
            timeout_s = timeout_with_pauses_s(workload.timeout_s, self.lengths, len(self.attempts))
            workload = workload.model_copy(update={"timeout_s": timeout_s})
        return attempt.load.launch.wrap(tuple(tool.command(workload, attempt.deployment.target, load_s)))

    @property
    def _folder(self) -> str:
        return f"{self.driver.workdir}/jobs/{self._job}"

    def _run_job(
        self,
        name: str,
        steps: tuple[tuple[str, ...], ...],
        job_files: Mapping[str, bytes],
        timeout_s: float,
        planned_s: float,
    ) -> None:
        """Run a job on the driver until it ends; LostError if the host ended it early."""
        self.jobs.append(name)
        begun_s = time.monotonic()
        self.driver.start(Job(name, steps, timeout_s + LEASE_EXTRA_S, dict(job_files)))
        self.testbed.pause(planned_s if self.driver.live else 0.0)
        self.driver.wait(name, timeout_s=max(1.0, begun_s + timeout_s - time.monotonic()))
        if not self.driver.exists(f"{self.driver.workdir}/jobs/{name}/rc.{len(steps)}"):
            raise LostError(
                self.driver.alias, "the load was ended before its measurement was over", "was the host stopped?"
            )

    def _read_cpu(self) -> CpuTimes:
        """Return the CPU time used by every service so far."""
        return read_cpu_times(self.testbed, {arm: attempt.services for arm, attempt in self._alive.items()})

    def _collect(self, arm: int, attempt: Attempt) -> None:
        """Copy one arm's outputs, the times of its slices, and the monitors' files into the arm's folder."""
        alias, own = self.driver.alias, f"{self._folder}/arm{arm}"
        code = self.slice_log.exit_codes.get(arm)
        slices = self.slice_log.slices_of(arm)
        record = DriverRecord(
            host=alias,
            argv=list(self._measurement(attempt, self._tool_s)),
            rc=code,
            started_ours=attempt.load.started[alias][0],
            ended_ours=time.time(),
            stdout=f"stdout-{alias}",
            stderr=f"stderr-{alias}",
        )
        if slices:
            offset_s = self.slice_log.clock_offset_s
            record.started_host, record.ended_host = slices[0].start_s + offset_s, slices[-1].end_s + offset_s
        for stream in ("stdout", "stderr"):
            record.cut |= fetch_truncated(
                self.driver, f"{own}/{stream}", attempt.folder / f"{stream}-{alias}", MAX_REPORT_BYTES
            )
        for name in attempt.load.tool.expected_files(attempt.workload):
            if self.driver.exists(f"{own}/{name}"):
                local_name = f"{alias}-{Path(name).name}"
                record.cut |= fetch_truncated(self.driver, f"{own}/{name}", attempt.folder / local_name, MAX_FILE_BYTES)
                record.files[name] = local_name
        write_trial_file(attempt.folder / SLICES, self._slices_text.encode())
        attempt.record.drivers = [record]
        attempt.record.monitors = [self._monitor_of(attempt, monitor) for monitor in self._monitor_records]
        assert self.lengths is not None
        outside_cpu_s = self.slice_log.outside_cpu_s(arm)
        if outside_cpu_s is None:
            outside_cpu_s = self.cpu_samplers.outside_cpu_s(
                arm, self.slice_log, self.lengths.gap_s, alias, attempt.record.clocks
            )
        attempt.record.interleaved = InterleavedRecord(
            arm=arm,
            beside=[other.planned.treatment for other in self.attempts],
            slice_s=self.lengths.slice_s,
            gap_s=self.lengths.gap_s,
            slices=SLICES,
            active_s=round(self.slice_log.active_s(arm), 6),
            late_share=self.slice_log.late_share(arm, self.lengths.slice_s),
            latency_s=self.latency_s,
            outside_cpu_s=outside_cpu_s,
        )
        attempt.record.window = window_fields([record], attempt.record.clocks)["window"]
        if arm in self.slice_log.hung:
            raise ToolError(f"{attempt.load.tool.name} did not end within {TAIL_S:g} s of its time and was killed")

    def _monitor_of(self, attempt: Attempt, monitor: MonitorRecord) -> MonitorRecord:
        """Copy the file of a sampler, which watched all arms, into one arm's folder and return the arm's record."""
        source = self.attempts[0].folder / monitor.file
        if attempt is not self.attempts[0] and source.is_file():
            shutil.copyfile(source, attempt.folder / monitor.file)
        pids: dict[str, list[int]] = {}
        for service in attempt.record.services:
            if service.host == monitor.host:
                pids.setdefault(service.service, []).extend(service.pids)
        return monitor.model_copy(update={"pids": pids})

    def stop(self, limit_s: float | None = None, restore_s: float | None = None) -> None:
        """End the load, services, monitors and host changes of all arms."""
        jobs = [partial(remove_job, self.driver, name, STOP_GRACE_S) for name in self.jobs]
        services = [call for attempt in self.attempts for call in attempt.services.stop_calls()]
        self.testbed.run_within([*jobs, *services, self.monitors.end, self.cpu_samplers.end], limit_s)
        self.testbed.run_within([attempt.host_changes.restore for attempt in self.attempts], restore_s)


def _files_of(attempt: Attempt, arm: int) -> dict[str, bytes]:
    """Return path -> content of the files that an arm's load generator needs, below the arm's folder of a job."""
    return {f"arm{arm}/{name}": data for name, data in attempt.load.tool.extra_files(attempt.workload).items()}


def _step_in_folder(arm: int, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return a job step that runs a command in the arm's folder."""
    return ("/bin/sh", "-c", 'mkdir -p "$0" && cd "$0" && exec "$@"', f"arm{arm}", *argv)


def _watched_processes(testbed: Testbed, attempts: Sequence[Attempt], load_job: str) -> dict[str, dict[str, str]]:
    """Return host -> file below jobs/ -> label of the monitored processes; labels end with the number of the arm."""
    driver = testbed.drivers[0]
    jobs = {driver: {f"{load_job}/arm{k}/pid": f"{a.workload.tool}.{k}" for k, a in enumerate(attempts)}}
    for arm, attempt in enumerate(attempts):
        for placement in attempt.deployment.placements:
            file = f"{job_name(attempt.stem, placement.role)}/step"
            jobs.setdefault(placement.alias, {})[file] = f"{placement.spec.name}.{arm}"
    return jobs
