"""One attempt at one shared block: all services run at once, and one load generator sends the requests of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from loadbook.execution.arms import ArmsBlock
from loadbook.execution.attempt import Attempt
from loadbook.execution.load import GRACE_S
from loadbook.execution.placement import LOAD, job_name
from loadbook.execution.testbed import Testbed
from loadbook.modes.shared.run_load import SharedLoad
from loadbook.modes.shared.spec import turns_of_block
from loadbook.store.trial_record import SharedRecord, window_fields
from loadbook.study.plan import Plan


def longest_block_s(plan: Plan) -> float:
    """Return the seconds after which a block counts as hung: warm-ups and the load of all treatments."""
    workload = plan.study.workload_of(plan.treatments[0])
    return len(plan.treatments) * (workload.warmup_s + workload.duration_s) + workload.timeout_s + 5 * GRACE_S


class SharedBlock(ArmsBlock):
    """One attempt at all trials of one block, whose arms share one load generator on each driver."""

    def __init__(self, testbed: Testbed, attempts: Sequence[Attempt]) -> None:
        first = attempts[0]
        name = job_name(first.stem, LOAD)
        super().__init__(testbed, attempts, longest_block_s(testbed.plan), {f"{name}/step": first.workload.tool})
        self.lengths = turns_of_block(testbed.plan.study, first.planned.block, first.workload)
        self.load = SharedLoad(testbed, name, self.lengths, len(attempts))

    def run_load(self) -> None:
        """Warm up every arm, then send the requests of all arms by turns."""
        clocks = self.common_clocks()
        self.load.warm_up(self._alive)
        self.monitors.start()
        for attempt in self._alive.values():
            attempt.services.read_counters("before")
        idle = self.read_idle_cpu()
        self.load.run(self._alive, clocks)
        after = self.read_cpu()
        self.collect_monitors()
        self.record_cpu(idle, after)

    def collect(self, arm: int, attempt: Attempt) -> None:
        """Copy one arm's results and the monitors' files into the arm's folder, and complete its record."""
        record = attempt.record
        record.drivers = self.load.collect(arm, attempt)
        record.monitors = self.monitors_of(attempt)
        record.shared = SharedRecord(
            arm=arm,
            beside=[other.planned.treatment for other in self.attempts],
            slice_s=self.lengths.slice_s,
            rate_per_s=self.load.own_rate_per_s,
            active_s=self.load.active_s,
        )
        times = window_fields(record.drivers, record.clocks)
        record.window, record.start_skew_s = times["window"], times["start_skew_s"]

    def jobs_to_stop(self) -> list[Callable[[], None]]:
        """Return the calls that end the jobs of the load."""
        return [partial(self.load.stop, name) for name in self.load.begun]
