"""One attempt at one trial: reset, configure, start, prove, ask, load, ask again, collect, stop.

Whatever happens, everything that was started is stopped and the attempt ends in exactly one status with a reason.
Web hosts and drivers are served at the same time where neither needs the other; while the load runs nothing is asked
of anybody, because in the lab controller, driver and server share one machine.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
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
from loadbook.design.plan import PlannedTrial
from loadbook.design.sharing import share
from loadbook.hosts.host import Host
from loadbook.hosts.tape import tape_name
from loadbook.records.manifest import ClockRecord, ResponseRecord, Status, TrialRecord
from loadbook.records.spans import measured
from loadbook.trials.bench import Bench
from loadbook.trials.changes import Guards
from loadbook.trials.evidence import InvalidTrial, ask, keep, wrong_answer
from loadbook.trials.judged import judged
from loadbook.trials.load import Load, cut_of
from loadbook.trials.names import blank_record, guard_name, job_stem, load_name, monitor_name, service_name
from loadbook.trials.reach import Reach, in_time
from loadbook.trials.reset import reset
from loadbook.trials.room import HOST_TRIAL_BYTES, must_have_room, must_not_be_full, or_full_disk
from loadbook.trials.servers import Servers
from loadbook.trials.watch import Watch

SERVICE_LEASE_EXTRA_S = 60.0
# a wall clock that moved against the monotonic one by more than this spoils the trial's times
MAX_CLOCK_STEP_S = 1.0
# an interrupted attempt waits so long for load and services to end (TERM, 5 s, KILL), then for settings to be put back
CANCEL_S = 7.0
RESTORE_S = 5.0


class Attempt:
    """One attempt; `folder` receives its files. `retry` tells, after `run`, whether another may do better."""

    def __init__(self, bench: Bench, planned: PlannedTrial, attempt: int, folder: Path) -> None:
        self.bench, self.planned, self.folder = bench, planned, folder
        self.study = bench.plan.study
        self.stem = job_stem(bench.run, planned.trial, attempt)
        self.record = blank_record(bench, planned, attempt)
        self.workload = self.study.workload_of(planned.treatment)
        self.stage = bench.stage(planned.treatment)
        tool, shares = bench.tools[self.workload.tool], share(self.workload, bench.drivers)
        self.load = Load(tool, shares, self.stage.target, load_name(self.stem), self.stage.load_launch)
        self.watch = Watch(bench, monitor_name(self.stem), self.load.patience_s, self._watched_jobs())
        lease_s = self.load.patience_s + SERVICE_LEASE_EXTRA_S
        self.guards = Guards(self.stage, guard_name(self.stem), lease_s)
        self.servers = Servers(self.stage, self.stem, lease_s, folder)
        self.retry = False
        self._phase = "reset"

    def _watched_jobs(self) -> dict[str, dict[str, str]]:
        """Return host -> file below jobs/ -> label of the processes that count as ours: load generator and services."""
        jobs = {alias: {f"{self.load.name}/step": self.workload.tool} for alias in self.bench.drivers}
        for seat in self.stage.seats:
            # the host's own server is no child of the job that replaces its files, which says where it is
            file = f"{service_name(self.stem, seat.role)}/{'main' if seat.spec.tree else 'step'}"
            jobs.setdefault(seat.alias, {})[file] = seat.spec.name
        return jobs

    @property
    def asker(self) -> Host:
        """The driver that asks for the page before and after the load."""
        return self.bench.hosts[self.bench.drivers[0]]

    def run(self) -> TrialRecord:
        """Do everything and return the record, not yet sealed; only KeyboardInterrupt and local errors get out."""
        begun_s, self.record.started = time.monotonic(), time.time()
        hurried, reach = False, Reach(self.bench)
        try:
            self._try(reach, begun_s)
        except KeyboardInterrupt:
            hurried = True
            raise
        finally:
            with self._timed("stop"):
                self._stop(*((CANCEL_S, RESTORE_S) if hurried else (None, None)))
            for alias, host in self.bench.hosts.items():
                keep(self.folder / tape_name(alias), host.take())
            self.record.reconnects = reach.reconnects
            self.record.duration_s = round(time.monotonic() - begun_s, 4)
        return self.record

    def _try(self, reach: Reach, begun_s: float) -> None:
        """Run the phases and say how they ended."""
        try:
            self._run_phases()
            reach.must_not_have_rebooted(self.record.boot_ids)
            self._end("ok", None)
            self._judge(time.time() - (self.record.started or 0) - (time.monotonic() - begun_s))
            if self.record.status != "ok":
                reach.must_have_held(self.record.reason or "")
        except LoadbookError as seen:
            phase, error = self._phase, or_full_disk(self.bench, reach.behind(seen, self.record.boot_ids))
            self._end(_status_of(error, phase), f"{phase}: {error.message}")
            self.retry = isinstance(error, HostError) and error.transient
            if error is seen and isinstance(error, LostError | UnreachableError):
                self._give_up(error.host)
            else:
                self._keep_outputs()
                self._explain(phase)

    def _run_phases(self) -> None:
        phases = (self._reset, self._configure, self._start, self._ask_before, self._load, self._ask_after)
        for phase in (*phases, self._collect):
            with self._timed(phase.__name__.strip("_")):
                phase()

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
        self.bench.scene(self.planned)
        pause = self.bench.pause
        rests = self.bench.each(lambda a: reset(self.bench.hosts[a], self.study.reset, pause), self.bench.hosts)
        self.record.reset = {alias: rest.state for alias, rest in rests.items()}
        self.record.boot_ids = {alias: rest.boot_id for alias, rest in rests.items()}
        for alias, boot_id in self.record.boot_ids.items():
            before, self.bench.boot_ids[alias] = self.bench.boot_ids.get(alias, boot_id), boot_id
            if before != boot_id:
                raise LostError(alias, "was rebooted since the last trial")
        for alias, rest in rests.items():
            must_have_room(self.bench.hosts[alias], rest.state, HOST_TRIAL_BYTES)

    def _configure(self) -> None:
        self.record.changes = self.guards.set_up()
        self.servers.configure()

    def _start(self) -> None:
        """Start the services; the clocks are read meanwhile."""
        clocks = self.bench.begin(lambda alias: self.bench.hosts[alias].clock(), self.bench.hosts)
        try:
            self.servers.start()
        finally:
            self.record.services = self.servers.records
            for alias, changed in self.servers.changes.items():
                self.record.changes.setdefault(alias, {}).update(changed)
        for alias, clock in self.bench.results(clocks).items():
            self.record.clocks[alias] = ClockRecord(offset_before_s=clock.offset_s, rtt_before_s=clock.rtt_s)

    def _ask_before(self) -> None:
        """See that the page is right while the monitors start."""
        started = self.bench.pool.submit(self.watch.start)
        try:
            self.record.response_before = self._answer()
        finally:
            started.result()
        wrong = wrong_answer(self.workload, self.record.response_before)
        if wrong:
            raise InvalidTrial(f"before the load {wrong}", "correct workload.path or workload.expect_*")

    def _answer(self) -> ResponseRecord:
        """Ask for the page from every driver; what the first one gets stands for all, since they must agree."""
        hosts = [self.bench.hosts[alias] for alias in self.bench.drivers]
        answers = self.bench.each(lambda host: ask(host, self.stage.target, self.workload.path), hosts)
        first, *others = answers.items()
        for host, answer in others:
            if (answer.status, answer.bytes) != (first[1].status, first[1].bytes):
                seen = " and ".join(f"{h.alias} {a.status} with {a.bytes} bytes" for h, a in (first, (host, answer)))
                raise InvalidTrial(f"drivers get different answers: {seen}", "the target must serve all drivers alike")
        return first[1]

    def _load(self) -> None:
        drivers = [self.bench.hosts[alias] for alias in self.bench.drivers]
        self.servers.count("before")
        self.load.aim(self.record.clocks)
        self.bench.each(self.load.start, drivers)
        self.bench.each(self.load.wait, drivers)

    def _ask_after(self) -> None:
        self._watched = self.bench.pool.submit(self.watch.collect, self.folder, self.record.services)
        self.servers.must_run()
        self.guards.must_hold()
        must_not_be_full(self.bench)
        self.servers.count("after")
        clocks = self.bench.begin(lambda alias: self.bench.hosts[alias].clock(), self.bench.hosts)
        self.record.response_after = self._answer()
        for alias, clock in self.bench.results(clocks).items():
            ours = self.record.clocks[alias]
            ours.offset_after_s, ours.rtt_after_s = clock.offset_s, clock.rtt_s

    def _collect(self) -> None:
        drivers = self.bench.each(lambda a: self.load.collect(self.bench.hosts[a], self.folder), self.bench.drivers)
        self.record.drivers = list(drivers.values())
        self.record.monitors, self.record.polled = self._watched.result(), self.watch.polled
        times = measured(self.record.drivers, self.record.clocks)
        self.record.window, self.record.start_skew_s = times["window"], times["start_skew_s"]

    def _judge(self, clock_step_s: float) -> None:
        """Lower the status of a whole trial whose clock, page or tool was not right."""
        if abs(clock_step_s) > MAX_CLOCK_STEP_S:
            self._end("partial", f"the controller's clock jumped by {clock_step_s:.1f} s during the trial")
        answer = self.record.response_after
        wrong = wrong_answer(self.workload, answer) if answer else None
        if wrong:
            self._end("invalid", f"after the load {wrong}")
        found = judged(self.folder, self.record, self.study.gates)
        if found and not (found.status == "partial" and wrong):
            self._end(found.status, found.reason)
        if cut := cut_of(self.folder, self.record.drivers):
            self._end("tool_failed", cut)

    def _give_up(self, alias: str) -> None:
        """Ask nothing more of a host that is lost, every question would wait for it; its jobs end with the line."""
        if alias in self.bench.hosts:
            with contextlib.suppress(HostError):
                self.bench.hosts[alias].close()

    def _keep_outputs(self) -> None:
        """Keep what a failed attempt left on its drivers, as far as they can still be reached."""
        for alias in self.load.started:
            with contextlib.suppress(LoadbookError):
                self.bench.hosts[alias].stop(self.load.name, grace_s=1.0)
                self.record.drivers.append(self.load.collect(self.bench.hosts[alias], self.folder))

    def _explain(self, phase: str) -> None:
        """Add what the load generators say: a driver that ran out of ports, say, could not ask for the page either."""
        found = judged(self.folder, self.record, self.study.gates) if phase == "ask_after" else None
        if found and found.status == self.record.status == "invalid":
            self._end("invalid", f"{self.record.reason}; {found.reason}")

    def _stop(self, limit_s: float | None, restore_s: float | None) -> None:
        """End everything that was started; what cannot be reached any more, or in time, ends by its lease."""
        self.load.cancel()
        ends = self.servers.ends()
        ends += [partial(self.load.end, self.bench.hosts[alias]) for alias in self.load.started]
        in_time(self.bench, [*ends, self.watch.end], limit_s)
        in_time(self.bench, [self.guards.restore], restore_s)


def _status_of(error: LoadbookError, phase: str) -> Status:
    """Return how an attempt ended that this error ended."""
    if isinstance(error, ToolError | HostFullError):
        return "tool_failed"
    if isinstance(error, HostTimeoutError) and phase == "load":
        return "timeout"
    return "lost" if isinstance(error, HostError) and error.transient else "invalid"
