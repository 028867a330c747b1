"""Load of an interleaved block on its drivers: measured latencies, warm-ups, and generators that take turns.

Several drivers alternate by one schedule: each slice begins on all of them at one instant of their corrected clocks.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from loadbook.core import clock
from loadbook.core.errors import CommandError, ToolError
from loadbook.execution.arms_load import Arms, ArmsLoad, arm_files
from loadbook.execution.attempt import Attempt
from loadbook.execution.load import (
    GRACE_S,
    LEASE_EXTRA_S,
    common_start,
    fetch_tool_files,
    fetch_truncated,
)
from loadbook.execution.services import CpuTimes, write_trial_file
from loadbook.execution.testbed import Testbed
from loadbook.hosts.host import Host, Job
from loadbook.hosts.jobs import CALIBRATION_SUFFIX, INTERLEAVE_PROGRAM, perl_program_files
from loadbook.modes.interleaved.read import SliceLog, apart_share, read_slices
from loadbook.modes.interleaved.spec import (
    TAIL_S,
    ScheduledService,
    SliceLengths,
    block_seconds,
    draw_rounds,
    schedule_text,
    timeout_with_pauses_s,
)
from loadbook.store.trial_record import ClockRecord, DriverRecord
from loadbook.tools.base import MAX_REPORT_BYTES, ToolOutput, parse_output

SCHEDULE, CALIBRATION, SLICES = "schedule", "calibration", "slices"  # files
# once in a run, the arms take these turns, each for so many seconds, to choose slice and gap by the latency
CALIBRATION_TURNS, CALIBRATION_S = SliceLengths(0.1, 0.01), 0.5
REQUESTS = ("requests", "count")


class Turns(NamedTuple):
    """Turns that the generators of a block took: lengths, and the seconds for which each was started (`load_s`).

    `outputs` and `logs` lead from each driver to the output of `interleave.pl`, and to the slices in it.
    """

    lengths: SliceLengths
    load_s: int
    outputs: dict[str, bytes]
    logs: dict[str, SliceLog]


class BlockLoad(ArmsLoad):
    """The load jobs of one interleaved block; `all_arms` is the number of treatments.

    After `run_slices`, `turns` holds the slices of each driver. The first driver also reads the CPU time of the
    services at every slice.
    """

    turns: Turns

    def __init__(self, testbed: Testbed, name: str, all_arms: int) -> None:
        super().__init__(testbed, name)
        self.all_arms = all_arms
        self.calibration_name = f"{name}{CALIBRATION_SUFFIX}"

    @property
    def slice_log(self) -> SliceLog:
        """Slices of the first driver."""
        return self.turns.logs[self.first.alias]

    def slices_file(self, alias: str) -> str:
        """Return the name of the file with a driver's slices in the folder of a trial."""
        return SLICES if len(self.drivers) == 1 else f"{SLICES}-{alias}"

    def measure_latency(self, arms: Arms, clocks: Mapping[str, ClockRecord]) -> float:
        """Return the slowest arm's mean latency (s), which is connections over rate; 0 in a dry run.

        The arms take turns for CALIBRATION_S each, so that a host that changes its speed slows all of them alike.
        Requests that are under way when a slice ends are answered before the next one and count in it; therefore one
        for each connection and slice is taken off.
        """
        turns = self._take_turns(self.calibration_name, arms, CALIBRATION_TURNS, CALIBRATION_S, clocks)
        if not self.first.live:
            return 0.0
        rates = self.testbed.map(lambda host: self._calibrated_rates(arms, host, turns), self.drivers)
        return max(a.workload.connections / sum(own[arm] for own in rates.values()) for arm, a in arms.items())

    def _calibrated_rates(self, arms: Arms, host: Host, turns: Turns) -> dict[int, float]:
        """Return arm -> requests per active second from one driver."""
        rates: dict[int, float] = {}
        for arm, attempt in arms.items():
            folder, tool = f"{host.workdir}/jobs/{self.calibration_name}/arm{arm}", attempt.load.tool
            stdout = host.get(f"{folder}/stdout", max_bytes=MAX_REPORT_BYTES)
            # tools whose report is a file print nothing
            names = [] if stdout.strip() else tool.expected_files(attempt.load.shares[host.alias])
            files = {name: host.get(f"{folder}/{name}", max_bytes=MAX_REPORT_BYTES) for name in names}
            argv = self._command(attempt, host.alias, turns.lengths, turns.load_s)
            report = parse_output(tool, ToolOutput(stdout, exit_code=0, argv=argv, files=files))
            requests = next((m.value for m in report.measurements if (m.metric, m.statistic) == REQUESTS), 0.0)
            if not requests:
                treatment = attempt.planned.treatment
                raise ToolError(f"{treatment}: {tool.name} completed no request in {CALIBRATION_S} s")
            connections, log = attempt.load.shares[host.alias].connections, turns.logs[host.alias]
            under_way = connections * len(log.slices_of(arm))
            rates[arm] = max(requests - under_way, connections) / log.active_s(arm)
        return rates

    def run_slices(
        self, arms: Arms, lengths: SliceLengths, cpu_times: CpuTimes, clocks: Mapping[str, ClockRecord]
    ) -> None:
        """Run the jobs in which the generators take turns; outputs stay on the drivers until they are collected.

        `cpu_times`: services whose CPU time the first driver reads at every slice. `clocks` are those by which several
        drivers start at one instant.
        """
        services = [ScheduledService(arm, cpu.machine, cpu.leader) for (arm, _), cpu in cpu_times.items()]
        for attempt in arms.values():
            attempt.load.started |= {host.alias: (clock.now(), clock.monotonic()) for host in self.drivers}
        duration_s = next(iter(arms.values())).workload.duration_s
        self.turns = self._take_turns(self.name, arms, lengths, duration_s, clocks, services)

    def _take_turns(
        self,
        name: str,
        arms: Arms,
        lengths: SliceLengths,
        duration_s: float,
        clocks: Mapping[str, ClockRecord],
        services: Sequence[ScheduledService] = (),
    ) -> Turns:
        """Let the generators of the arms take turns until each has had `duration_s` of load."""
        numbers, block = list(arms), next(iter(arms.values())).planned.block
        load_s = math.ceil(block_seconds(lengths, len(arms), duration_s))
        self.testbed.on_phase("load" if name == self.name else "measuring latency", load_s)
        rounds = math.ceil(load_s / (len(arms) * (lengths.slice_s + lengths.gap_s)))
        drawn = draw_rounds(len(arms), rounds, f"loadbook slices {self.testbed.plan.seed} {block}")
        orders = [[numbers[k] for k in order] for order in drawn]
        schedule = SCHEDULE if name == self.name else CALIBRATION
        lead_s, start_times = common_start(self.testbed.drivers, clocks)
        timeout_s = lead_s + load_s + len(arms) * TAIL_S + GRACE_S
        jobs: dict[str, Job] = {}
        for host in self.drivers:
            at = start_times.get(host.alias)
            own_services = services if host is self.first else ()
            job_files = perl_program_files(INTERLEAVE_PROGRAM) | arm_files(arms, host.alias)
            for arm, attempt in arms.items():
                argv = self._command(attempt, host.alias, lengths, load_s)
                job_files[f"arm{arm}/cmd"] = f"exec {shlex.join(argv)}\n".encode()
            job_files[schedule] = schedule_text(lengths, numbers, orders, load_s, own_services, at).encode()
            steps = (("perl", INTERLEAVE_PROGRAM, schedule),)
            jobs[host.alias] = Job(name, steps, timeout_s + LEASE_EXTRA_S, job_files)
        self.run_jobs(jobs, timeout_s, lead_s + load_s)
        outputs = self.testbed.map(partial(self._fetch_slices, name), jobs)
        return Turns(lengths, load_s, outputs, {alias: _read_slices(alias, own) for alias, own in outputs.items()})

    def _fetch_slices(self, name: str, alias: str) -> bytes:
        host = self.testbed.hosts[alias]
        return host.get(f"{host.workdir}/jobs/{name}/stdout.1", max_bytes=MAX_REPORT_BYTES)

    def _command(self, attempt: Attempt, alias: str, lengths: SliceLengths, load_s: int) -> tuple[str, ...]:
        """Return the command of an arm's generator, whose time-out, if it has one, no pause can exceed."""
        tool, workload = attempt.load.tool, attempt.load.shares[alias].with_duration(load_s, 0)
        if tool.has_timeout:
            # before the last slices of several drivers, all generators are stopped for up to this time
            waiting_s = lengths.slice_s + lengths.first_s if len(self.drivers) > 1 else 0.0
            timeout_s = timeout_with_pauses_s(workload.timeout_s + waiting_s, lengths, self.all_arms)
            workload = workload.model_copy(update={"timeout_s": timeout_s})
        return attempt.load.launch.wrap(tuple(tool.command(workload, attempt.deployment.target, load_s)))

    def collect(self, arm: int, attempt: Attempt) -> list[DriverRecord]:
        """Copy one arm's outputs, and the slices of all arms, of every driver into the arm's folder."""
        records = self.testbed.map(lambda alias: self._collect_from(arm, attempt, alias), self.testbed.drivers)
        return list(records.values())

    def _collect_from(self, arm: int, attempt: Attempt, alias: str) -> DriverRecord:
        host, slice_log = self.testbed.hosts[alias], self.turns.logs[alias]
        own, slices = f"{host.workdir}/jobs/{self.name}/arm{arm}", slice_log.slices_of(arm)
        record = DriverRecord(
            host=alias,
            argv=list(self._command(attempt, alias, self.turns.lengths, self.turns.load_s)),
            rc=slice_log.exit_codes.get(arm),
            started_ours=attempt.load.started[alias][0],
            ended_ours=clock.now(),
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
        fetch_tool_files(
            host, own, attempt.load.tool.expected_files(attempt.load.shares[alias]), attempt.folder, record
        )
        write_trial_file(attempt.folder / self.slices_file(alias), self.turns.outputs[alias])
        return record

    def late_share(self, arm: int, slice_s: float) -> float | None:
        """Return the share of an arm's slices that were longer than 1.5 x `slice_s`, of the driver with most.

        `slice_s` is the planned length of a slice. None if the share is not known of every driver.
        """
        shares = [slice_log.late_share(arm, slice_s) for slice_log in self.turns.logs.values()]
        known = [share for share in shares if share is not None]
        return max(known) if len(known) == len(shares) else None

    def apart_share(self, arm: int, clocks: Mapping[str, ClockRecord]) -> float | None:
        """Return the share of an arm's slices in which not all drivers put load on it; None for a single driver."""
        if len(self.drivers) == 1:
            return None
        spans = []
        for alias, slice_log in self.turns.logs.items():
            ours_s = slice_log.clock_offset_s - clocks[alias].offset_before_s
            spans.append([(turn.start_s + ours_s, turn.end_s + ours_s) for turn in slice_log.slices_of(arm)])
        return apart_share(spans)

    def is_hung(self, arm: int) -> bool:
        """Return whether an arm's generator did not end by itself on some driver."""
        return any(arm in slice_log.hung for slice_log in self.turns.logs.values())


def _read_slices(alias: str, output: bytes) -> SliceLog:
    try:
        return read_slices(output.decode(errors="replace"))
    except (ValueError, LookupError) as error:
        raise CommandError(alias, f"{INTERLEAVE_PROGRAM} printed something else than slices: {error}") from error
