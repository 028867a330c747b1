"""One attempt at a block whose treatments are measured together: all services run at once.

Every arm (treatment in a block) is an attempt at its own trial, with its own services, record and files; if one fails,
the others go on. The arms share the reset, the monitors and the load, which a subclass makes.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from loadbook.core import clock
from loadbook.core.errors import LoadbookError
from loadbook.execution.attempt import CANCEL_S, RESTORE_S, Attempt
from loadbook.execution.block_runner import Begun
from loadbook.execution.host_state import Connectivity
from loadbook.execution.placement import LOAD, MONITOR, job_name
from loadbook.execution.progress import PHASE_TEXTS
from loadbook.execution.services import CpuTimes, TrialMonitors, cpu_seconds, read_cpu_times, write_trial_file
from loadbook.execution.testbed import Testbed
from loadbook.hosts.host import Host
from loadbook.hosts.replay import transcript_name
from loadbook.store.trial_record import ClockRecord, MonitorRecord

QUIET_S = 0.2  # seconds without load, to measure the CPU time that services use without requests


def attempts_at(testbed: Testbed, begun: Sequence[Begun], others_s: float) -> list[Attempt]:
    """Return the attempts at the trials of a block that were just begun; the load of all takes at most `others_s`."""
    return [
        Attempt(testbed, planned, number, folder, arm, others_s) for arm, (planned, number, folder) in enumerate(begun)
    ]


class ArmsBlock(ABC):
    """One attempt at all trials of one block; `attempts` are its arms, in the order of the plan.

    `longest_s` is the time after which the load of the block counts as hung. `load_name` is the name of its job on
    every driver, and `generators` leads from files below the jobs of a driver, with process ids of load generators,
    to their labels, which end with the number of the arm if an arm has its own.
    """

    def __init__(
        self, testbed: Testbed, attempts: Sequence[Attempt], longest_s: float, generators: Mapping[str, str]
    ) -> None:
        self.testbed, self.attempts, self.longest_s = testbed, attempts, longest_s
        self._alive = dict(enumerate(attempts))
        self._monitor_records: list[MonitorRecord] = []
        self.load_name = job_name(attempts[0].stem, LOAD)
        watched = _watched_processes(testbed, attempts, generators)
        self.monitors = TrialMonitors(testbed, job_name(attempts[0].stem, MONITOR), longest_s, watched)

    @property
    def driver(self) -> Host:
        """The first driver."""
        return self.testbed.hosts[self.testbed.drivers[0]]

    def run(self) -> None:
        """Run the block and fill in every attempt's record.

        Raises
        ------
        PlainTrialsError : these hosts or loads do not allow the mode.
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
            "collect": self.collect,
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
                    self.collect(next(arm for arm, other in self._alive.items() if other is attempt), attempt)
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

    @abstractmethod
    def run_load(self) -> None:
        """Warm up every arm, then put the load on all of them."""

    @abstractmethod
    def collect(self, arm: int, attempt: Attempt) -> None:
        """Copy one arm's outputs and the monitors' files into the arm's folder, and complete its record."""

    @abstractmethod
    def jobs_to_stop(self) -> list[Callable[[], None]]:
        """Return the calls that end the jobs of the load on all hosts, and what was started beside them."""

    def read_cpu(self) -> CpuTimes:
        """Return the CPU time used by every service so far."""
        return read_cpu_times(self.testbed, {arm: attempt.services for arm, attempt in self._alive.items()})

    def read_idle_cpu(self) -> tuple[CpuTimes, CpuTimes, float]:
        """Return the CPU time of services before and after some time without load, and the seconds between."""
        from_s, before = clock.monotonic(), self.read_cpu()
        self.testbed.pause(QUIET_S if self.driver.live else 0.0)
        return before, self.read_cpu(), clock.monotonic() - from_s

    def record_cpu(self, idle: tuple[CpuTimes, CpuTimes, float], after: CpuTimes) -> None:
        """Record the CPU time of services during the load, and without load just before (`read_idle_cpu`)."""
        idle_from, before, idle_s = idle
        used_s, used_idle_s = cpu_seconds(before, after), cpu_seconds(idle_from, before)
        for arm, number in used_s.keys() & used_idle_s.keys():
            service = self._alive[arm].record.services[number]
            service.cpu_s = used_s[arm, number]
            service.idle_cpu_share = round(used_idle_s[arm, number] / idle_s, 6)

    def common_clocks(self) -> dict[str, ClockRecord]:
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

    def collect_monitors(self) -> None:
        """Stop the monitors, which watch all arms, and fetch their files into the folder of the first arm."""
        self._monitor_records = self.monitors.collect(self.attempts[0].folder, [])

    def monitors_of(self, attempt: Attempt) -> list[MonitorRecord]:
        """Copy the files of the monitors into one arm's folder and return the arm's records of them."""
        return [self._monitor_of(attempt, monitor) for monitor in self._monitor_records]

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
        services = [call for attempt in self.attempts for call in attempt.services.stop_calls()]
        self.testbed.run_within([*self.jobs_to_stop(), *services, self.monitors.end], limit_s)
        self.testbed.run_within([attempt.host_changes.restore for attempt in self.attempts], restore_s)


def _watched_processes(
    testbed: Testbed, attempts: Sequence[Attempt], generators: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return host -> file below jobs/ -> label of the monitored processes; labels end with the number of the arm."""
    jobs = {alias: dict(generators) for alias in testbed.drivers}
    for arm, attempt in enumerate(attempts):
        for placement in attempt.deployment.placements:
            file = f"{job_name(attempt.stem, placement.role)}/step"
            jobs.setdefault(placement.alias, {})[file] = f"{placement.spec.name}.{arm}"
    return jobs
