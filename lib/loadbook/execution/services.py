"""Services of one trial: configuration, start, proof, counters, stop; and its monitors, from before to after the load.

A sampler runs on every host; the study may also have the hosts' own monitors polled over the SSH connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

from loadbook.core.errors import OversizeError
from loadbook.execution.deployment import Deployment, Placement, job_name
from loadbook.execution.host_changes import InvalidTrialError
from loadbook.execution.load import FIRST_STEP, remove_job, remove_job_folder
from loadbook.execution.testbed import Testbed
from loadbook.hosts.monitors import Poller, connect_monitor, sampler_job
from loadbook.services import Instance, Proof
from loadbook.store.atomic import explain_disk_full
from loadbook.store.trial_record import MonitorRecord, PolledRecord, ServiceRecord

LOG_TAIL_CHARS = 800


class TrialServices:
    """The services of one attempt; `folder` receives their logs and configurations.

    Parameters
    ----------
    stem : prefix of the attempt's job names.
    lease_s : seconds after which the hosts end the services by themselves.
    """

    def __init__(self, deployment: Deployment, stem: str, lease_s: float, folder: Path) -> None:
        self.deployment, self.testbed, self.folder = deployment, deployment.testbed, folder
        self.stem, self.lease_s = stem, lease_s
        self.instances: dict[Placement, Instance] = {}
        self._records: dict[Placement, ServiceRecord] = {}

    def configure(self) -> None:
        """Render every service, put it on its host and have it check its configuration."""
        for placement in self.deployment.placements:
            token = self.testbed.hosts[placement.alias].token(job_name(self.stem, placement.role))
            self.instances[placement] = self.deployment.make_instance(placement, self.stem, self.lease_s, token)
        self.testbed.map(lambda placement: self.instances[placement].check(), self.instances)

    @property
    def records(self) -> list[ServiceRecord]:
        """The records of the started services, in their order."""
        return list(self._records.values())

    def start(self) -> None:
        """Start the services, backends first, and prove each one's configuration.

        Raises
        ------
        InvalidTrialError : a service does not run this treatment's configuration.
        """
        for placements in self.deployment.start_groups():
            self._records |= self.testbed.map(self._start, placements)
        for record in self.records:
            if record.live is False:
                message = f"{record.role} does not run this treatment's configuration: {record.live_evidence}"
                raise InvalidTrialError(message)

    def _start(self, placement: Placement) -> ServiceRecord:
        instance, client = self.instances[placement], self.deployment.client_host(placement)
        instance.start()
        instance.ready(client)
        return self._make_record(placement, instance, instance.prove(client))

    def _make_record(self, placement: Placement, instance: Instance, proof: Proof) -> ServiceRecord:
        """Write a service's rendered files and its own configuration dump to the folder and return its record."""
        stem = f"{placement.alias}-{placement.role}"
        files = {f"config-{stem}/{name}": data for name, data in instance.rendered.files.items()}
        dump = {f"effective-{stem}": data for data in [instance.effective_config] if data}
        for name, data in (files | dump).items():
            write_trial_file(self.folder / name, data)
        # the host's own system chooses the CPUs of its server
        all_cpus = [] if placement.spec.tree else self.testbed.cpus_of(placement.alias)
        return ServiceRecord(
            host=placement.alias,
            role=placement.role,
            service=placement.spec.name,
            mode=placement.mode,
            version=self.testbed.service_versions.get(placement),
            config_sha256=instance.rendered.config_sha256,
            live=proof.live,
            live_evidence=proof.evidence,
            pids=proof.pids,
            config_files=list(files),
            effective=next(iter(dump), None),
            cpus=list(self.deployment.launch(placement).cpus) or all_cpus,
        )

    def check_running(self) -> None:
        """Raise InvalidTrialError when a service ended, or a host's own server was changed, during the load.

        A balancer may have hidden that from the load generator.
        """
        own_servers = [placement for placement in self._records if placement.spec.tree]
        client_host, instances = self.deployment.client_host, self.instances
        proofs = self.testbed.map(lambda placed: instances[placed].prove(client_host(placed)), own_servers)
        for placement, proof in proofs.items():
            if proof.live is False:
                where = f"host {placement.alias}: {placement.spec.name}"
                raise InvalidTrialError(f"{where} was changed during the load: {proof.evidence}")
        states = self.testbed.map(lambda placed: instances[placed].state(), self._records)
        for placement, state in states.items():
            if not state.running:
                log = instances[placement].log().decode(errors="replace").strip()[-LOG_TAIL_CHARS:]
                message = f"host {placement.alias}: {placement.spec.name} ended during the load"
                raise InvalidTrialError(f"{message} with exit code {state.rc}: {log or 'it printed nothing'}")

    @property
    def changes(self) -> dict[str, dict[str, str]]:
        """Changes that services made to their hosts outside their own folders, by host."""
        changes_by_host: dict[str, dict[str, str]] = {}
        for placement in self._records:
            if changed := self.instances[placement].changes:
                changes_by_host.setdefault(placement.alias, {}).update(changed)
        return changes_by_host

    def read_counters(self, when: Literal["before", "after"]) -> None:
        """Store the services' current counters in their records."""
        client_host, instances = self.deployment.client_host, self.instances
        counters = self.testbed.map(lambda placed: instances[placed].counters(client_host(placed)), self._records)
        for placement, counts in counters.items():
            setattr(self._records[placement], f"counters_{when}", counts)

    def stop_calls(self) -> list[Callable[[], None]]:
        """Return calls that save the end of each service's log and end the service."""
        return [partial(self._end, placement) for placement in self.instances]

    def _end(self, placement: Placement) -> None:
        instance = self.instances[placement]
        try:
            write_trial_file(self.folder / f"log-{placement.alias}-{placement.role}", instance.log())
        finally:
            with self.testbed.collecting_restore_errors():
                instance.stop()
            remove_job_folder(self.testbed.hosts[placement.alias], instance.name)


def write_trial_file(path: Path, data: bytes) -> None:
    """Write a file of the trial's folder, creating parent folders; empty data writes nothing."""
    if data:
        with explain_disk_full(path, len(data)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


SAMPLER_STOP_GRACE_S = 1.0
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
        monitors = testbed.plan.study.monitors
        self.interval_s, self.has_sampler = monitors.interval_s, "sampler" in monitors.sources
        # the hosts' own monitors that the study polls
        self.polled_sources = [source for source in monitors.sources if source != "sampler"]
        self.polled: list[PolledRecord] = []
        self._started: list[str] = []
        self._pollers: dict[tuple[str, str], Poller] = {}

    def start(self) -> None:
        """Start the samplers and the pollers."""
        hosts = self.testbed.hosts
        self.testbed.map(self._start_sampler, hosts if self.has_sampler else ())
        for source in self.polled_sources:
            self.testbed.map(partial(self._start_poller, source), [alias for alias in hosts if hosts[alias].live])

    def _start_sampler(self, alias: str) -> None:
        self._started.append(alias)
        # a job's file `step` names the process that its current step runs
        watch = [(label, f"../{file}") for file, label in self.jobs.get(alias, {}).items()]
        job = sampler_job(self.name, interval_s=self.interval_s, limit_s=self.limit_s, processes=watch)
        self.testbed.hosts[alias].start(job)

    def _start_poller(self, source: str, alias: str) -> None:
        if connection := connect_monitor(self.testbed.hosts[alias], self.testbed.inventory.hosts[alias], source):
            self._pollers[alias, source] = Poller(source, connection, self.interval_s)

    def collect(self, folder: Path, services: Sequence[ServiceRecord]) -> list[MonitorRecord]:
        """Stop the samplers and copy their output, and that of the pollers, into `folder`."""
        for source in self.polled_sources:
            self.testbed.map(partial(self._write_polled, folder, source), self.testbed.hosts)
        self.polled.sort(key=lambda record: record.file)
        return list(self.testbed.map(lambda alias: self._collect_from(alias, folder, services), self._started).values())

    def _collect_from(self, alias: str, folder: Path, services: Sequence[ServiceRecord]) -> MonitorRecord:
        host, file = self.testbed.hosts[alias], f"monitor-{alias}"
        host.stop(self.name, grace_s=SAMPLER_STOP_GRACE_S)
        output = f"{host.workdir}/jobs/{self.name}/stdout.{FIRST_STEP}"
        with suppress(OversizeError):
            host.fetch(output, folder / file, max_bytes=MAX_MONITOR_BYTES)
        pids: dict[str, list[int]] = {}  # of a service in all of its roles on the host
        for service in services:
            if service.host == alias:
                pids.setdefault(service.service, []).extend(service.pids)
        return MonitorRecord(
            host=alias,
            role=self.testbed.roles_of(alias)[0],
            file=file,
            interval_s=self.interval_s,
            pids=pids,
            cpus=self.testbed.cpus_of(alias),
        )

    def _write_polled(self, folder: Path, source: str, alias: str) -> None:
        """Write the answers of a source; a replay has the recorded ones."""
        file, poller = f"{source}-{alias}", self._pollers.get((alias, source))
        if data := poller.stop() if poller else self.testbed.hosts[alias].recorded_file(file):
            write_trial_file(folder / file, data)
            role, problem = self.testbed.roles_of(alias)[0], (poller.problem or None) if poller else None
            self.polled.append(
                PolledRecord(
                    host=alias, role=role, source=source, file=file, interval_s=self.interval_s, problem=problem
                )
            )

    def end(self) -> None:
        """End the samplers and remove their files on the hosts."""
        for poller in self._pollers.values():
            poller.stop()
        self.testbed.map(
            lambda alias: remove_job(self.testbed.hosts[alias], self.name, SAMPLER_STOP_GRACE_S), self._started
        )
