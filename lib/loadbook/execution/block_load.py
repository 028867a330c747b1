"""Load of an interleaved block on its drivers: measured latencies, warm-ups, and generators that take turns.

Several drivers alternate by one schedule: each slice begins on all of them at one instant of their corrected clocks.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from loadbook.core.errors import CommandError, LostError, ToolError
from loadbook.execution.attempt import Attempt
from loadbook.execution.load import (
    GRACE_S,
    LEASE_EXTRA_S,
    MAX_FILE_BYTES,
    STOP_GRACE_S,
    fetch_truncated,
    remove_job,
    start_lead_s,
)
from loadbook.execution.services import CpuTimes, write_trial_file
from loadbook.execution.testbed import Testbed
from loadbook.hosts.host import Host, Job
from loadbook.hosts.jobs import INTERLEAVE_PROGRAM, PROBE_SUFFIX, WARMUP_SUFFIX, perl_program_files
from loadbook.ingestion.interleaved import SliceLog, apart_share, read_slices
from loadbook.store.trial_record import ClockRecord, DriverRecord
from loadbook.study.interleaving import (
    TAIL_S,
    ScheduledService,
    SliceLengths,
    block_seconds,
    draw_rounds,
    schedule_text,
    timeout_with_pauses_s,
)
from loadbook.tools.base import MAX_REPORT_BYTES, ToolOutput, parse_output

SCHEDULE, SLICES = "schedule", "slices"
CALIBRATION_S = 1  # duration of a load on each arm, once in a run, to choose slice and gap by the latency

Arms = Mapping[int, Attempt]  # number of an arm -> its attempt


class BlockLoad:
    """The load jobs of one interleaved block; every driver has a job of the same name, with its share of the load.

    `name` is that of the job in which the generators take turns; `all_arms` is the number of treatments. After
    `run_slices`, `slice_logs` holds the slices of each driver.
    """

    def __init__(self, testbed: Testbed, name: str, all_arms: int) -> None:
        self.testbed, self.name, self.all_arms = testbed, name, all_arms
        self.calibration_name, self.warmup_name = f"{name}{PROBE_SUFFIX}", f"{name}{WARMUP_SUFFIX}"
        self.drivers: list[Host] = [testbed.hosts[alias] for alias in testbed.drivers]
        self.slice_logs: dict[str, SliceLog] = {}
        self._outputs: dict[str, bytes] = {}
        self._begun: list[str] = []
        self._load_s = 0
        self._lengths: SliceLengths | None = None

    @property
    def first(self) -> Host:
        """The first driver, whose slices tell what the services did in them."""
        return self.drivers[0]

    @property
    def slice_log(self) -> SliceLog:
        """Slices of the first driver."""
        return self.slice_logs[self.first.alias]

    def slices_file(self, alias: str) -> str:
        """Return the name of the file with a driver's slices in the folder of a trial."""
        return SLICES if len(self.drivers) == 1 else f"{SLICES}-{alias}"

    def measure_latency(self, arms: Arms) -> float:
        """Load each arm alone for CALIBRATION_S; return the slowest arm's mean latency (s), connections over rate.

        In a dry run, it is 0.
        """
        jobs = {host.alias: self._calibration_steps(arms, host.alias) for host in self.drivers}
        files = {host.alias: _all_files(arms, host.alias) for host in self.drivers}
        self._run_steps(
            self.calibration_name, jobs, files, len(arms) * (CALIBRATION_S + GRACE_S), len(arms) * CALIBRATION_S
        )
        if not self.first.live:
            return 0.0
        rates = self.testbed.map(lambda host: self._calibrated_rates(arms, host), self.drivers)
        return max(a.workload.connections / sum(own[arm] for own in rates.values()) for arm, a in arms.items())

    def _calibration_command(self, attempt: Attempt, alias: str) -> tuple[str, ...]:
        share = attempt.load.shares[alias].with_duration(CALIBRATION_S, 0)
        return tuple(attempt.load.tool.command(share, attempt.deployment.target, CALIBRATION_S))

    def _calibration_steps(self, arms: Arms, alias: str) -> tuple[tuple[str, ...], ...]:
        return tuple(
            _step_in_folder(arm, attempt.load.launch.wrap(self._calibration_command(attempt, alias)))
            for arm, attempt in arms.items()
        )

    def _calibrated_rates(self, arms: Arms, host: Host) -> dict[int, float]:
        """Return arm -> requests per second from one driver."""
        rates: dict[int, float] = {}
        for step, (arm, attempt) in enumerate(arms.items(), 1):
            folder = f"{host.workdir}/jobs/{self.calibration_name}"
            stdout = host.get(f"{folder}/stdout.{step}", max_bytes=MAX_REPORT_BYTES)
            argv = self._calibration_command(attempt, host.alias)
            report = parse_output(attempt.load.tool, ToolOutput(stdout, exit_code=0, argv=argv))
            values = {(m.metric, m.statistic): m.value for m in report.measurements}
            requests = values.get(("requests", "count"), 0.0)
            if not requests:
                tool, seconds = attempt.load.tool.name, CALIBRATION_S
                raise ToolError(f"{attempt.planned.treatment}: {tool} completed no request in {seconds} s")
            rates[arm] = requests / values.get(("duration", "value"), CALIBRATION_S)
        return rates

    def warm_up(self, arms: Arms) -> None:
        """Warm up every arm in turn, if the study has a warm-up."""
        warm = {arm: attempt for arm, attempt in arms.items() if attempt.workload.warmup_s}
        if not warm:
            return
        jobs = {
            host.alias: tuple(
                _step_in_folder(arm, attempt.load.warmup_step(attempt.load.shares[host.alias]))
                for arm, attempt in warm.items()
            )
            for host in self.drivers
        }
        files = {host.alias: _all_files(warm, host.alias) for host in self.drivers}
        planned_s = sum(attempt.workload.warmup_s for attempt in arms.values())
        self._run_steps(self.warmup_name, jobs, files, planned_s + GRACE_S, planned_s)

    def run_slices(
        self, arms: Arms, lengths: SliceLengths, cpu_times: CpuTimes, clocks: Mapping[str, ClockRecord]
    ) -> None:
        """Run the jobs in which the generators take turns; outputs stay on the drivers until they are collected.

        `cpu_times`: services whose CPU time the first driver reads at every slice. `clocks` are those by which several
        drivers start at one instant.
        """
        first, numbers = next(iter(arms.values())), list(arms)
        self._lengths = lengths
        self._load_s = load_s = math.ceil(block_seconds(lengths, len(arms), first.workload.duration_s))
        rounds = math.ceil(load_s / (len(arms) * (lengths.slice_s + lengths.gap_s)))
        seed = f"loadbook slices {self.testbed.plan.seed} {first.planned.block}"
        orders = [[numbers[k] for k in order] for order in draw_rounds(len(arms), rounds, seed)]
        services = [ScheduledService(arm, cpu.machine, cpu.leader) for (arm, _), cpu in cpu_times.items()]
        lead_s = (
            start_lead_s(clocks[host.alias].rtt_before_s for host in self.drivers) if len(self.drivers) > 1 else 0.0
        )
        begins = time.time() + lead_s
        timeout_s = lead_s + load_s + len(arms) * TAIL_S + GRACE_S
        jobs: dict[str, Job] = {}
        for host in self.drivers:
            at = begins + clocks[host.alias].offset_before_s if len(self.drivers) > 1 else None
            own_services = services if host is self.first else ()
            job_files = perl_program_files(INTERLEAVE_PROGRAM) | _all_files(arms, host.alias)
            for arm, attempt in arms.items():
                attempt.load.started[host.alias] = time.time(), time.monotonic()
                argv = self._measurement(attempt, host.alias)
                job_files[f"arm{arm}/cmd"] = f"exec {shlex.join(argv)}\n".encode()
            job_files[SCHEDULE] = schedule_text(lengths, numbers, orders, load_s, own_services, at).encode()
            steps = (("perl", INTERLEAVE_PROGRAM, SCHEDULE),)
            jobs[host.alias] = Job(self.name, steps, timeout_s + LEASE_EXTRA_S, job_files)
        self._run_jobs(jobs, timeout_s, lead_s + load_s)
        self.slice_logs = self.testbed.map(self._read_slices, [host.alias for host in self.drivers])

    def _read_slices(self, alias: str) -> SliceLog:
        host = self.testbed.hosts[alias]
        self._outputs[alias] = output = host.get(
            f"{host.workdir}/jobs/{self.name}/stdout.1", max_bytes=MAX_REPORT_BYTES
        )
        try:
            return read_slices(output.decode(errors="replace"))
        except (ValueError, LookupError) as error:
            raise CommandError(alias, f"{INTERLEAVE_PROGRAM} printed something else than slices: {error}") from error

    def _measurement(self, attempt: Attempt, alias: str) -> tuple[str, ...]:
        """Return the command of an arm's generator, whose time-out, if it has one, no pause can exceed."""
        assert self._lengths is not None
        tool, workload = attempt.load.tool, attempt.load.shares[alias].with_duration(self._load_s, 0)
        if tool.has_timeout:
            # before the last slices of several drivers, all generators are stopped for up to this time
            waiting_s = self._lengths.slice_s + self._lengths.first_s if len(self.drivers) > 1 else 0.0
            timeout_s = timeout_with_pauses_s(workload.timeout_s + waiting_s, self._lengths, self.all_arms)
            workload = workload.model_copy(update={"timeout_s": timeout_s})
        return attempt.load.launch.wrap(tuple(tool.command(workload, attempt.deployment.target, self._load_s)))

    def _run_steps(
        self,
        name: str,
        steps: Mapping[str, tuple[tuple[str, ...], ...]],
        files: Mapping[str, Mapping[str, bytes]],
        timeout_s: float,
        planned_s: float,
    ) -> None:
        """Run a job of these steps on every driver (alias -> steps, files)."""
        jobs = {alias: Job(name, own, timeout_s + LEASE_EXTRA_S, dict(files[alias])) for alias, own in steps.items()}
        self._run_jobs(jobs, timeout_s, planned_s)

    def _run_jobs(self, jobs: Mapping[str, Job], timeout_s: float, planned_s: float) -> None:
        """Run a job on every driver until all have ended; LostError if a host ended its job early."""
        name, begun_s = next(iter(jobs.values())).name, time.monotonic()
        self._begun.append(name)
        self.testbed.map(lambda alias: self.testbed.hosts[alias].start(jobs[alias]), jobs)
        self.testbed.pause(planned_s if self.first.live else 0.0)

        def wait(alias: str) -> None:
            host = self.testbed.hosts[alias]
            host.wait(name, timeout_s=max(1.0, begun_s + timeout_s - time.monotonic()))
            if not host.exists(f"{host.workdir}/jobs/{name}/rc.{len(jobs[alias].steps)}"):
                raise LostError(alias, "the load was ended before its measurement was over", "was the host stopped?")

        self.testbed.map(wait, jobs)

    def collect(self, arm: int, attempt: Attempt) -> list[DriverRecord]:
        """Copy one arm's outputs, and the slices of all arms, of every driver into the arm's folder."""
        records = self.testbed.map(lambda alias: self._collect_from(arm, attempt, alias), self.testbed.drivers)
        return list(records.values())

    def _collect_from(self, arm: int, attempt: Attempt, alias: str) -> DriverRecord:
        host, slice_log = self.testbed.hosts[alias], self.slice_logs[alias]
        own, slices = f"{host.workdir}/jobs/{self.name}/arm{arm}", slice_log.slices_of(arm)
        record = DriverRecord(
            host=alias,
            argv=list(self._measurement(attempt, alias)),
            rc=slice_log.exit_codes.get(arm),
            started_ours=attempt.load.started[alias][0],
            ended_ours=time.time(),
            stdout=f"stdout-{alias}",
            stderr=f"stderr-{alias}",
        )
        if slices:
            offset_s = slice_log.clock_offset_s
            record.started_host, record.ended_host = slices[0].start_s + offset_s, slices[-1].end_s + offset_s
        if len(self.drivers) > 1:
            record.slices, record.active_s = self.slices_file(alias), round(slice_log.active_s(arm), 6)
        for stream in ("stdout", "stderr"):
            record.cut |= fetch_truncated(
                host, f"{own}/{stream}", attempt.folder / f"{stream}-{alias}", MAX_REPORT_BYTES
            )
        for name in attempt.load.tool.expected_files(attempt.load.shares[alias]):
            if host.exists(f"{own}/{name}"):
                local_name = f"{alias}-{Path(name).name}"
                record.cut |= fetch_truncated(host, f"{own}/{name}", attempt.folder / local_name, MAX_FILE_BYTES)
                record.files[name] = local_name
        write_trial_file(attempt.folder / self.slices_file(alias), self._outputs[alias])
        return record

    def late_share(self, arm: int, slice_s: float) -> float | None:
        """Return the share of an arm's slices that lasted too long, of the driver with most of them."""
        shares = [slice_log.late_share(arm, slice_s) for slice_log in self.slice_logs.values()]
        known = [share for share in shares if share is not None]
        return max(known) if len(known) == len(shares) else None

    def apart_share(self, arm: int, clocks: Mapping[str, ClockRecord]) -> float | None:
        """Return the share of an arm's slices in which not all drivers put load on it; None for a single driver."""
        if len(self.drivers) == 1:
            return None
        spans = []
        for alias, slice_log in self.slice_logs.items():
            ours_s = slice_log.clock_offset_s - clocks[alias].offset_before_s
            spans.append([(turn.start_s + ours_s, turn.end_s + ours_s) for turn in slice_log.slices_of(arm)])
        return apart_share(spans)

    def is_hung(self, arm: int) -> bool:
        """Return whether an arm's generator did not end by itself on some driver."""
        return any(arm in slice_log.hung for slice_log in self.slice_logs.values())

    def stop(self, name: str) -> None:
        """Stop a job on every driver and remove its folder there."""
        self.testbed.map(lambda host: remove_job(host, name, STOP_GRACE_S), self.drivers)

    @property
    def begun(self) -> Sequence[str]:
        """Names of the jobs that were started."""
        return self._begun


def _all_files(arms: Arms, alias: str) -> dict[str, bytes]:
    """Return path -> content of the files that the arms' load generators need, each below its arm's folder of a job."""
    return {
        f"arm{arm}/{name}": data
        for arm, attempt in arms.items()
        for name, data in attempt.load.tool.extra_files(attempt.load.shares[alias]).items()
    }


def _step_in_folder(arm: int, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return a job step that runs a command in the arm's folder."""
    return ("/bin/sh", "-c", 'mkdir -p "$0" && cd "$0" && exec "$@"', f"arm{arm}", *argv)
