"""One attempt at one interleaved block: all services run at once, and the load generators take turns in slices.

The job in which they take turns (`hosts/interleave.pl`) is one for all arms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from loadbook.core.errors import ToolError
from loadbook.execution.arms import ArmsBlock
from loadbook.execution.attempt import Attempt
from loadbook.execution.load import GRACE_S
from loadbook.execution.placement import LOAD, job_name
from loadbook.execution.services import CpuTimes, ServiceKey
from loadbook.execution.testbed import Testbed
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
    TrialRecord,
    clock_error_s,
    window_fields,
)
from loadbook.study.plan import Plan


def longest_block_s(plan: Plan) -> float:
    """Return the seconds after which a block counts as hung: calibration, warm-ups and slices of all treatments."""
    workload = plan.study.workload_of(plan.treatments[0])
    each_s = CALIBRATION_S + workload.warmup_s + 2 * workload.duration_s + TAIL_S
    return len(plan.treatments) * each_s + 3 * GRACE_S


class InterleavedBlock(ArmsBlock):
    """One attempt at all trials of one block, whose load generators take turns in slices.

    `by_latency` holds the lengths of slice and gap for the latency of all arms; None measures it first. `lengths` are
    those of this block, which the study may set.
    """

    def __init__(self, testbed: Testbed, attempts: Sequence[Attempt], by_latency: SliceLengths | None) -> None:
        name = job_name(attempts[0].stem, LOAD)
        generators = {f"{name}/arm{arm}/pid": f"{own.workload.tool}.{arm}" for arm, own in enumerate(attempts)}
        super().__init__(testbed, attempts, longest_block_s(testbed.plan), generators)
        self.by_latency = by_latency
        self.lengths: SliceLengths | None = None
        self.latency_s: float | None = None
        self.load = BlockLoad(testbed, name, len(attempts))
        self.cpu_samplers = CpuSamplers(testbed, f"{name}-cpu")

    def run_load(self) -> None:
        """Choose lengths of slice and gap if not known, warm up every arm, then let the generators take turns."""
        clocks = self.common_clocks()
        if self.by_latency is None:
            self.latency_s = self.load.measure_latency(self._alive, clocks)
            self.by_latency = self._choose_lengths(self.latency_s, clocks)
            self._check_idle_timeouts(self.by_latency)
        self.lengths = slices_of_block(self.testbed.plan.study, self.attempts[0].planned.block, self.by_latency)
        self.load.warm_up(self._alive)
        self.monitors.start()
        for attempt in self._alive.values():
            attempt.services.read_counters("before")
        idle = self.read_idle_cpu()
        leaders = self._leaders_elsewhere(idle[1])
        self.cpu_samplers.start(leaders, self.lengths.slice_s, self.longest_s)
        self.load.run_slices(self._alive, self.lengths, idle[1], clocks)
        self.cpu_samplers.collect(self.attempts[0].folder)
        after = self.read_cpu()
        self.collect_monitors()
        self.record_cpu(idle, after)

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

    def collect(self, arm: int, attempt: Attempt) -> None:
        """Copy one arm's outputs, the times of its slices, and the monitors' files into the arm's folder."""
        record, log = attempt.record, self.load.slice_log
        record.drivers = self.load.collect(arm, attempt)
        record.monitors = self.monitors_of(attempt)
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

    def jobs_to_stop(self) -> list[Callable[[], None]]:
        """Return the calls that end the jobs in which generators ran, and the readings of CPU time."""
        return [*(partial(self.load.stop, name) for name in self.load.begun), self.cpu_samplers.end]
