"""The load of a block whose treatments are measured together: its jobs on the drivers."""

from __future__ import annotations

from collections.abc import Mapping

from loadbook.core import clock
from loadbook.execution.attempt import Attempt
from loadbook.execution.load import GRACE_S, LEASE_EXTRA_S, STOP_GRACE_S, check_load_ended, remove_job
from loadbook.execution.testbed import Testbed
from loadbook.hosts.host import Host, Job
from loadbook.hosts.jobs import WARMUP_SUFFIX

Arms = Mapping[int, Attempt]  # number of an arm -> its attempt


class ArmsLoad:
    """The load jobs of one block; every driver has a job of the same name, with its share of the load.

    `name` is that of the job that puts the load on the arms.
    """

    def __init__(self, testbed: Testbed, name: str) -> None:
        self.testbed, self.name = testbed, name
        self.warmup_name = f"{name}{WARMUP_SUFFIX}"
        self.drivers: list[Host] = [testbed.hosts[alias] for alias in testbed.drivers]
        self.begun: list[str] = []  # names of the jobs that were started

    @property
    def first(self) -> Host:
        """The first driver."""
        return self.drivers[0]

    def warm_up(self, arms: Arms) -> None:
        """Warm up every arm in turn, if the study has a warm-up."""
        warm = {arm: attempt for arm, attempt in arms.items() if attempt.workload.warmup_s}
        if not warm:
            return
        planned_s = sum(attempt.workload.warmup_s for attempt in arms.values())
        self.testbed.on_phase("warm-up", planned_s)
        in_folder = ("/bin/sh", "-c", 'mkdir -p "$0" && cd "$0" && exec "$@"')  # $0: the arm's folder
        jobs: dict[str, Job] = {}
        for host in self.drivers:
            steps = tuple(
                (*in_folder, f"arm{arm}", *attempt.load.warmup_step(attempt.load.shares[host.alias]))
                for arm, attempt in warm.items()
            )
            lease_s = planned_s + GRACE_S + LEASE_EXTRA_S
            jobs[host.alias] = Job(self.warmup_name, steps, lease_s, arm_files(warm, host.alias))
        self.run_jobs(jobs, planned_s + GRACE_S, planned_s)

    def run_jobs(self, jobs: Mapping[str, Job], timeout_s: float, planned_s: float) -> None:
        """Run a job on every driver until all have ended; LostError if a host ended its job early."""
        name, begun_s = next(iter(jobs.values())).name, clock.monotonic()
        self.begun.append(name)
        self.testbed.map(lambda alias: self.testbed.hosts[alias].start(jobs[alias]), jobs)
        self.testbed.pause(planned_s if self.first.live else 0.0)

        def wait(alias: str) -> None:
            host = self.testbed.hosts[alias]
            host.wait(name, timeout_s=max(1.0, begun_s + timeout_s - clock.monotonic()))
            check_load_ended(host, f"{host.workdir}/jobs/{name}", len(jobs[alias].steps))

        self.testbed.map(wait, jobs)

    def stop(self, name: str) -> None:
        """Stop a job on every driver and remove its folder there."""
        self.testbed.map(lambda host: remove_job(host, name, STOP_GRACE_S), self.drivers)


def arm_files(arms: Arms, alias: str) -> dict[str, bytes]:
    """Return path -> content of the files that the arms' load generators need, each below its arm's folder of a job."""
    return {
        f"arm{arm}/{name}": data
        for arm, attempt in arms.items()
        for name, data in attempt.load.tool.extra_files(attempt.load.shares[alias]).items()
    }
