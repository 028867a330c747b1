"""Monitors of one trial, from just before the load until just after it: a sampler on every host of the bench.

Where the study says so, the hosts' own monitors are asked as well, over the SSH connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from loadbook.core.errors import OversizeError
from loadbook.hosts.host import Job
from loadbook.hosts.monitors import sampler_job
from loadbook.hosts.polling import Poller, asker
from loadbook.records.manifest import MonitorRecord, PolledRecord, ServiceRecord
from loadbook.trials.bench import Bench
from loadbook.trials.evidence import keep
from loadbook.trials.load import FIRST_STEP, forget_job

STOP_GRACE_S = 1.0
MAX_BYTES = 20_000_000  # 2 kB a sample; what lies beyond is a gap in the trace, as every other


class Watch:
    """The samplers of one trial, and who is asked beside them; `polled` is filled when they are collected.

    Parameters
    ----------
    name : of the sampler's job on every host.
    limit_s : seconds after which a sampler ends by itself.
    jobs : host -> file below jobs/ that names a process which is watched (of the load, of a service) -> its label.
    """

    def __init__(self, bench: Bench, name: str, limit_s: float, jobs: Mapping[str, Mapping[str, str]]) -> None:
        self.bench, self.name, self.limit_s, self.jobs = bench, name, limit_s, jobs
        self.interval_s = bench.plan.study.monitors.interval_s
        self.sources = bench.plan.study.monitors.sources
        self.polled: list[PolledRecord] = []
        self._started: list[str] = []
        self._pollers: dict[tuple[str, str], Poller] = {}

    def start(self) -> None:
        """Start the sampler on every host, and to ask the other sources."""
        self.bench.each(self._start_on, self.bench.hosts if "sampler" in self.sources else ())
        for source in self._others:
            self.bench.each(partial(self._ask, source), self._live)

    @property
    def _others(self) -> list[str]:
        return [source for source in self.sources if source != "sampler"]

    @property
    def _live(self) -> list[str]:
        return [alias for alias, host in self.bench.hosts.items() if host.live]

    def _start_on(self, alias: str) -> None:
        self._started.append(alias)
        self.bench.hosts[alias].start(self.job_on(alias))

    def _ask(self, source: str, alias: str) -> None:
        asked = asker(self.bench.hosts[alias], self.bench.inventory.hosts[alias], source)
        if asked:
            self._pollers[alias, source] = Poller(source, asked, self.interval_s)

    def job_on(self, alias: str) -> Job:
        """Return the job that samples a host."""
        # a job's file `step` names the process that its current step runs
        watch = [(label, f"../{file}") for file, label in self.jobs.get(alias, {}).items()]
        return sampler_job(self.name, interval_s=self.interval_s, limit_s=self.limit_s, watch=watch)

    def collect(self, folder: Path, services: Sequence[ServiceRecord]) -> list[MonitorRecord]:
        """Stop the samplers and copy what they saw, and what the others said, into `folder`."""
        for source in self._others:
            self.bench.each(partial(self._keep_polled, folder, source), self.bench.hosts)
        self.polled.sort(key=lambda record: record.file)
        return list(self.bench.each(lambda alias: self._collect_from(alias, folder, services), self._started).values())

    def _collect_from(self, alias: str, folder: Path, services: Sequence[ServiceRecord]) -> MonitorRecord:
        host, file = self.bench.hosts[alias], f"monitor-{alias}"
        host.stop(self.name, grace_s=STOP_GRACE_S)
        output = f"{host.workdir}/jobs/{self.name}/stdout.{FIRST_STEP}"
        with suppress(OversizeError):
            host.fetch(output, folder / file, max_bytes=MAX_BYTES)
        return MonitorRecord(
            host=alias,
            role=self.bench.roles_of(alias)[0],
            file=file,
            interval_s=self.interval_s,
            pids={s.service: _pids(alias, s.service, services) for s in services if s.host == alias},
            cpus=self.bench.cpus_of(alias),
        )

    def _keep_polled(self, folder: Path, source: str, alias: str) -> None:
        """Keep what a source said; a replay has what it said then."""
        file, poller = f"{source}-{alias}", self._pollers.get((alias, source))
        if data := poller.stop() if poller else self.bench.hosts[alias].kept(file):
            keep(folder / file, data)
            problem = (poller.problem or None) if poller else None
            role, interval_s = self.bench.roles_of(alias)[0], self.interval_s
            known = PolledRecord(
                host=alias, role=role, source=source, file=file, interval_s=interval_s, problem=problem
            )
            self.polled.append(known)

    def end(self) -> None:
        """End the samplers, whether they still run or not, and remove what they left on the hosts."""
        for poller in self._pollers.values():
            poller.stop()
        self.bench.each(self._end_on, self._started)

    def _end_on(self, alias: str) -> None:
        host = self.bench.hosts[alias]
        host.stop(self.name, grace_s=STOP_GRACE_S)
        forget_job(host, self.name)


def _pids(alias: str, service: str, services: Sequence[ServiceRecord]) -> list[int]:
    """Return the processes of a service on a host, whichever roles it has there."""
    return [pid for s in services if (s.host, s.service) == (alias, service) for pid in s.pids]
