"""Monitors of one trial, from just before the load until just after it.

A sampler runs on every host; the study may also have the hosts' own monitors polled over the SSH connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from loadbook.core.errors import OversizeError
from loadbook.execution.host_changes import write_trial_file
from loadbook.execution.load import FIRST_STEP, remove_job_folder
from loadbook.execution.testbed import Testbed
from loadbook.hosts.host import Job
from loadbook.hosts.monitors import Poller, connect_monitor, sampler_job
from loadbook.store.trial_record import MonitorRecord, PolledRecord, ServiceRecord

STOP_GRACE_S = 1.0
MAX_MONITOR_BYTES = 20_000_000  # 2 kB a sample; the rest is a gap in the trace


class TrialMonitors:
    """The samplers and pollers of one trial; `polled` is filled by `collect`.

    Parameters
    ----------
    name : name of the sampler's job on every host.
    limit_s : seconds after which a sampler ends by itself.
    jobs : host -> file below jobs/ with the id of a process to watch -> its label.
    """

    def __init__(self, testbed: Testbed, name: str, limit_s: float, jobs: Mapping[str, Mapping[str, str]]) -> None:
        self.testbed, self.name, self.limit_s, self.jobs = testbed, name, limit_s, jobs
        self.interval_s = testbed.plan.study.monitors.interval_s
        self.sources = testbed.plan.study.monitors.sources
        self.polled: list[PolledRecord] = []
        self._started: list[str] = []
        self._pollers: dict[tuple[str, str], Poller] = {}

    def start(self) -> None:
        """Start the samplers and the pollers."""
        self.testbed.map(self._start_on, self.testbed.hosts if "sampler" in self.sources else ())
        for source in self.polled_sources:
            self.testbed.map(partial(self._start_poller, source), self._live_hosts)

    @property
    def polled_sources(self) -> list[str]:
        """The hosts' own monitors that the study polls."""
        return [source for source in self.sources if source != "sampler"]

    @property
    def _live_hosts(self) -> list[str]:
        return [alias for alias, host in self.testbed.hosts.items() if host.live]

    def _start_on(self, alias: str) -> None:
        self._started.append(alias)
        self.testbed.hosts[alias].start(self.job_on(alias))

    def _start_poller(self, source: str, alias: str) -> None:
        source_poller = connect_monitor(self.testbed.hosts[alias], self.testbed.inventory.hosts[alias], source)
        if source_poller:
            self._pollers[alias, source] = Poller(source, source_poller, self.interval_s)

    def job_on(self, alias: str) -> Job:
        """Return the job that samples a host."""
        # a job's file `step` names the process that its current step runs
        watch = [(label, f"../{file}") for file, label in self.jobs.get(alias, {}).items()]
        return sampler_job(self.name, interval_s=self.interval_s, limit_s=self.limit_s, processes=watch)

    def collect(self, folder: Path, services: Sequence[ServiceRecord]) -> list[MonitorRecord]:
        """Stop the samplers and copy their output, and that of the pollers, into `folder`."""
        for source in self.polled_sources:
            self.testbed.map(partial(self._write_polled, folder, source), self.testbed.hosts)
        self.polled.sort(key=lambda record: record.file)
        return list(self.testbed.map(lambda alias: self._collect_from(alias, folder, services), self._started).values())

    def _collect_from(self, alias: str, folder: Path, services: Sequence[ServiceRecord]) -> MonitorRecord:
        host, file = self.testbed.hosts[alias], f"monitor-{alias}"
        host.stop(self.name, grace_s=STOP_GRACE_S)
        output = f"{host.workdir}/jobs/{self.name}/stdout.{FIRST_STEP}"
        with suppress(OversizeError):
            host.fetch(output, folder / file, max_bytes=MAX_MONITOR_BYTES)
        return MonitorRecord(
            host=alias,
            role=self.testbed.roles_of(alias)[0],
            file=file,
            interval_s=self.interval_s,
            pids={s.service: _service_pids(alias, s.service, services) for s in services if s.host == alias},
            cpus=self.testbed.cpus_of(alias),
        )

    def _write_polled(self, folder: Path, source: str, alias: str) -> None:
        """Write the answers of a source; a replay has the recorded ones."""
        file, poller = f"{source}-{alias}", self._pollers.get((alias, source))
        if data := poller.stop() if poller else self.testbed.hosts[alias].recorded_file(file):
            write_trial_file(folder / file, data)
            problem = (poller.problem or None) if poller else None
            role, interval_s = self.testbed.roles_of(alias)[0], self.interval_s
            polled = PolledRecord(
                host=alias, role=role, source=source, file=file, interval_s=interval_s, problem=problem
            )
            self.polled.append(polled)

    def end(self) -> None:
        """End the samplers and remove their files on the hosts."""
        for poller in self._pollers.values():
            poller.stop()
        self.testbed.map(self._end_on, self._started)

    def _end_on(self, alias: str) -> None:
        host = self.testbed.hosts[alias]
        host.stop(self.name, grace_s=STOP_GRACE_S)
        remove_job_folder(host, self.name)


def _service_pids(alias: str, service: str, services: Sequence[ServiceRecord]) -> list[int]:
    """Return the processes of a service on a host, in all of its roles there."""
    return [pid for s in services if (s.host, s.service) == (alias, service) for pid in s.pids]
