"""Monitors of one trial: a sampler on every host of the bench, from just before the load until just after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from loadbook.hosts.host import Job
from loadbook.hosts.monitors import sampler_job
from loadbook.records.manifest import MonitorRecord, ServiceRecord
from loadbook.trials.bench import Bench
from loadbook.trials.load import FIRST_STEP, forget_job

STOP_GRACE_S = 1.0
MAX_BYTES = 100_000_000


class Watch:
    """The samplers of one trial.

    Parameters
    ----------
    name : of the sampler's job on every host.
    limit_s : seconds after which a sampler ends by itself.
    jobs : host -> label -> name of the job whose processes are watched (the load's, the services').
    """

    def __init__(self, bench: Bench, name: str, limit_s: float, jobs: Mapping[str, Mapping[str, str]]) -> None:
        self.bench, self.name, self.limit_s, self.jobs = bench, name, limit_s, jobs
        self.interval_s = bench.plan.study.monitors.interval_s
        self._started: list[str] = []

    def start(self) -> None:
        """Start the sampler on every host."""
        self.bench.each(self._start_on, self.bench.hosts)

    def _start_on(self, alias: str) -> None:
        self._started.append(alias)
        self.bench.hosts[alias].start(self.job_on(alias))

    def job_on(self, alias: str) -> Job:
        """Return the job that samples a host."""
        # a job's file `step` names the process that its current step runs
        watch = {label: f"../{job}/step" for label, job in self.jobs.get(alias, {}).items()}
        return sampler_job(self.name, interval_s=self.interval_s, limit_s=self.limit_s, watch=watch)

    def collect(self, folder: Path, services: Sequence[ServiceRecord]) -> list[MonitorRecord]:
        """Stop the samplers and copy what they saw into `folder`."""
        return list(self.bench.each(lambda alias: self._collect_from(alias, folder, services), self._started).values())

    def _collect_from(self, alias: str, folder: Path, services: Sequence[ServiceRecord]) -> MonitorRecord:
        host, file = self.bench.hosts[alias], f"monitor-{alias}"
        host.stop(self.name, grace_s=STOP_GRACE_S)
        output = f"{host.workdir}/jobs/{self.name}/stdout.{FIRST_STEP}"
        host.fetch(output, folder / file, max_bytes=MAX_BYTES)
        return MonitorRecord(
            host=alias,
            role=self.bench.roles_of(alias)[0],
            file=file,
            interval_s=self.interval_s,
            pids={s.service: s.pids for s in services if s.host == alias},
            cpus=self.bench.cpus_of(alias),
        )

    def end(self) -> None:
        """End the samplers, whether they still run or not, and remove what they left on the hosts."""
        self.bench.each(self._end_on, self._started)

    def _end_on(self, alias: str) -> None:
        host = self.bench.hosts[alias]
        host.stop(self.name, grace_s=STOP_GRACE_S)
        forget_job(host, self.name)
