"""One attempt at one interleaved block: all services run at once, and the load generators take turns in slices.

Every arm (treatment in a block) is an attempt at its own trial, with its own services, record and files; if one fails,
the others go on. The arms share the reset, the monitors, and the job in which the generators take turns
(`hosts/interleave.pl`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from loadbook.core import clock
from loadbook.core.errors import LoadbookError, ToolError
from loadbook.execution.attempt import CANCEL_S, RESTORE_S, Attempt
from loadbook.execution.host_state import Connectivity
from loadbook.execution.load import GRACE_S
from loadbook.execution.placement import LOAD, MONITOR, job_name
from loadbook.execution.progress import PHASE_TEXTS
from loadbook.execution.services import (
    CpuTimes,
    ServiceKey,
    TrialMonitors,
    cpu_seconds,
    read_cpu_times,
    write_trial_file,
)
from loadbook.execution.testbed import Testbed
from loadbook.hosts.replay import transcript_name
from loadbook.modes.base import PlainTrialsError
from loadbook.modes.interleaved.run_cpu import CpuSamplers
from loadbook.modes.interleaved.run_load import CALIBRATION_S, BlockLoad
from loadbook.modes.interleaved.services import idle_timeout_reasons
from loadbook.modes.interleaved.spec import (
    MAX_SLICE_S,
    SLICE_CLOCK_ERRORS,
    SLICE_LATENCIES,
    TAIL_S,
    SliceLengths,
    slices_for_latency,
    slices_of_block,
)
from loadbook.services.cpu_time import read_cpu_time
from loadbook.store.trial_record import (
    RECORD_NAME,
    ClockRecord,
    InterleavedRecord,
    MonitorRecord,
    TrialRecord,
    clock_error_s,
    window_fields,
)
from loadbook.study.plan import Plan

QUIET_S = 0.2  # seconds without load, to measure the CPU time that services use without requests


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
        self._alive = dict(enumerate(attempts))
        first = attempts[0]
        self.load = BlockLoad(testbed, job_name(first.stem, LOAD), len(attempts))
        self.driver = self.load.first
        self.cpu_samplers = CpuSamplers(testbed, f"{self.load.name}-cpu")
        watched = _watched_processes(testbed, attempts, self.load.name)
        self.monitors = TrialMonitors(testbed, job_name(first.stem, MONITOR), longest_block_s(testbed.plan), watched)

    def run(self) -> None:
        """Run the block and fill in every attempt's record.

        Raises
        ------
        PlainTrialsError : the latency, measured first, or the error of the drivers' clocks asks for slices above
            MAX_SLICE_S; or a service would close the connections of a stopped load generator.
        KeyboardInterrupt : the user ended the run. Errors of the controller are raised, too.
        """
        begun_s, connectivity = clock.monotonic(), Connectivity(self.testbed)
        started = clock.now()
        for attempt in self.attempts:
            attempt.record.started = started
        limits_s: tuple[float | None, float | None] = (None, None)
        try:
            self._run_phases(connectivity, begun_s)
        except KeyboardInterrupt:
            limits_s = CANCEL_S, RESTORE_S
            raise
        finally:
            self.testbed.on_phase(PHASE_TEXTS["stop"])
            self.stop(*limits_s)
            for alias, host in self.testbed.hosts.items():
                write_trial_file(self.attempts[0].folder / transcript_name(alias), host.take_transcript())
            for attempt in self.attempts:
                attempt.record.reconnects = connectivity.reconnects
                attempt.record.duration_s = round((clock.monotonic() - begun_s) / len(self.attempts), 4)

    def _run_phases(self, connectivity: Connectivity, begun_s: float) -> None:
        self._together("reset", self.reset, connectivity)
        for name in ("configure", "start", "ask_before"):
            self._each(name, connectivity)
        self._together("load", self.run_load, connectivity)
        for name in ("ask_after", "collect"):
            self._each(name, connectivity)
        for attempt in list(self._alive.values()):
            step_s = clock.now() - (attempt.record.started or 0) - (clock.monotonic() - begun_s)
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
        self.testbed.on_phase(PHASE_TEXTS[phase])
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
        begun_s = clock.monotonic()
        if text := PHASE_TEXTS.get(phase):  # the load, whose parts have planned durations, reports them itself
            self.testbed.on_phase(text)
        try:
            call()
        except LoadbookError as error:
            for attempt in self._alive.values():
                with attempt.timed(phase):
                    attempt.fail(error, connectivity)
            self._alive = {}
        for attempt in self._alive.values():
            attempt.record.phases_s[phase] = round(clock.monotonic() - begun_s, 4)

    def reset(self) -> None:
        """Wait until the hosts are at rest, once for all arms."""
        first, *others = self.attempts
        first.phases()["reset"]()
        for other in others:
            other.record.reset, other.record.boot_ids = first.record.reset, first.record.boot_ids
            other.record.other_runs = first.record.other_runs

    def run_load(self) -> None:
        """Choose lengths of slice and gap if not known, warm up every arm, then let the generators take turns."""
        clocks = self._common_clocks()
        if self.by_latency is None:
            self.latency_s = self.load.measure_latency(self._alive, clocks)
            self.by_latency = self._choose_lengths(self.latency_s, clocks)
            self._check_idle_timeouts(self.by_latency)
        self.lengths = slices_of_block(self.testbed.plan.study, self.attempts[0].planned.block, self.by_latency)
        self.load.warm_up(self._alive)
        self.monitors.start()
        for attempt in self._alive.values():
            attempt.services.read_counters("before")
        idle_from, idle = clock.monotonic(), self._read_cpu()
        self.testbed.pause(QUIET_S if self.driver.live else 0.0)
        before, idle_s = self._read_cpu(), clock.monotonic() - idle_from
        leaders = self._leaders_elsewhere(before)
        self.cpu_samplers.start(leaders, self.lengths.slice_s, longest_block_s(self.testbed.plan))
        self.load.run_slices(self._alive, self.lengths, before, clocks)
        self.cpu_samplers.collect(self.attempts[0].folder)
        after = self._read_cpu()
        self._monitor_records = self.monitors.collect(self.attempts[0].folder, [])
        used_s, used_idle_s = cpu_seconds(before, after), cpu_seconds(idle, before)
        for arm, number in used_s.keys() & used_idle_s.keys():
            service = self._alive[arm].record.services[number]
            service.cpu_s = used_s[arm, number]
            service.idle_cpu_share = round(used_idle_s[arm, number] / idle_s, 6)

    def _common_clocks(self) -> dict[str, ClockRecord]:
        """Return the clocks by which several drivers start together, which then are those of all arms.

        The arms read the clocks of all hosts one after the other; the best reading of each host has the shortest round
        trip.
        """
        read = [attempt.record.clocks for attempt in self._alive.values()]
        if len(self.testbed.drivers) == 1:
            return read[0]
        best = {alias: min((own[alias] for own in read), key=lambda c: c.rtt_before_s) for alias in read[0]}
        for attempt in self._alive.values():
            attempt.record.clocks = {alias: offset.model_copy() for alias, offset in best.items()}
        return best

    def _choose_lengths(self, latency_s: float, clocks: Mapping[str, ClockRecord]) -> SliceLengths:
        """Return the lengths for a latency and the drivers' clocks.

        Of a block that is played back they are the recorded ones, and its latency is taken over.
        """
        recorded = self.driver.recorded_file(RECORD_NAME)
        replayed = TrialRecord.model_validate_json(recorded).interleaved if recorded else None
        if replayed is not None:
            self.latency_s = replayed.latency_s
            return SliceLengths(replayed.slice_s, replayed.gap_s)
        error_s = clock_error_s(self.testbed.drivers, clocks)
        if lengths := slices_for_latency(latency_s, error_s):
            return lengths
        cause = f"the slowest arm answers in {latency_s:.3f} s on average: slices of {SLICE_LATENCIES} latencies"
        if SLICE_CLOCK_ERRORS * error_s > MAX_SLICE_S:
            cause = f"the drivers' clocks are known to {error_s:.3f} s: slices of {SLICE_CLOCK_ERRORS} times that"
        raise PlainTrialsError(f"{cause} would be longer than {MAX_SLICE_S:g} s")

    def _leaders_elsewhere(self, services: CpuTimes) -> dict[str, dict[ServiceKey, int]]:
        """Return host -> service -> leading process, of arms with a service on another machine than the driver's."""
        here = read_cpu_time(self.driver, []).machine
        arms = {arm for (arm, _), cpu in services.items() if cpu.machine != here}
        leaders: dict[str, dict[ServiceKey, int]] = {}
        for (arm, number), cpu in services.items():
            if arm in arms:
                leaders.setdefault(self._alive[arm].record.services[number].host, {})[arm, number] = cpu.leader
        return leaders

    def _check_idle_timeouts(self, by_latency: SliceLengths) -> None:
        """Raise PlainTrialsError if a service would close connections while their load generator is stopped."""
        treatments = [attempt.planned.treatment for attempt in self.attempts]
        specs = {placement.spec.folder.name: placement.spec for placement in self.testbed.placements}
        if reasons := idle_timeout_reasons(self.testbed.plan.study, treatments, by_latency, specs):
            raise PlainTrialsError("; ".join(reasons))

    def _read_cpu(self) -> CpuTimes:
        """Return the CPU time used by every service so far."""
        return read_cpu_times(self.testbed, {arm: attempt.services for arm, attempt in self._alive.items()})

    def _collect(self, arm: int, attempt: Attempt) -> None:
        """Copy one arm's outputs, the times of its slices, and the monitors' files into the arm's folder."""
        record, log = attempt.record, self.load.slice_log
        record.drivers = self.load.collect(arm, attempt)
        record.monitors = [self._monitor_of(attempt, monitor) for monitor in self._monitor_records]
        assert self.lengths is not None
        outside_cpu_s = log.outside_cpu_s(arm)
        if outside_cpu_s is None:
            outside_cpu_s = self.cpu_samplers.outside_cpu_s(
                arm, log, self.lengths.gap_s, self.driver.alias, record.clocks
            )
        record.interleaved = InterleavedRecord(
            arm=arm,
            beside=[other.planned.treatment for other in self.attempts],
            slice_s=self.lengths.slice_s,
            gap_s=self.lengths.gap_s,
            slices=self.load.slices_file(self.driver.alias),
            active_s=round(log.active_s(arm), 6),
            late_share=self.load.late_share(arm, self.lengths.slice_s),
            latency_s=self.latency_s,
            outside_cpu_s=outside_cpu_s,
            apart_share=self.load.apart_share(arm, record.clocks),
        )
        times = window_fields(record.drivers, record.clocks)
        record.window, record.start_skew_s = times["window"], times["start_skew_s"]
        if self.load.is_hung(arm):
            tool = attempt.load.tool
            cause = f"; {tool.hang_cause}" if tool.hang_cause else ""
            raise ToolError(f"{tool.name} did not end within {TAIL_S:g} s of its time and was killed{cause}")

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
        """End the load, services and monitors of all arms, then their host changes.

        These take at most `limit_s` and `restore_s` seconds, after which all connections are dropped; None: no limit.
        """
        jobs = [partial(self.load.stop, name) for name in self.load.begun]
        services = [call for attempt in self.attempts for call in attempt.services.stop_calls()]
        self.testbed.run_within([*jobs, *services, self.monitors.end, self.cpu_samplers.end], limit_s)
        self.testbed.run_within([attempt.host_changes.restore for attempt in self.attempts], restore_s)


def _watched_processes(testbed: Testbed, attempts: Sequence[Attempt], load_job: str) -> dict[str, dict[str, str]]:
    """Return host -> file below jobs/ -> label of the monitored processes; labels end with the number of the arm."""
    generators = {f"{load_job}/arm{k}/pid": f"{a.workload.tool}.{k}" for k, a in enumerate(attempts)}
    jobs = {alias: dict(generators) for alias in testbed.drivers}
    for arm, attempt in enumerate(attempts):
        for placement in attempt.deployment.placements:
            file = f"{job_name(attempt.stem, placement.role)}/step"
            jobs.setdefault(placement.alias, {})[file] = f"{placement.spec.name}.{arm}"
    return jobs
