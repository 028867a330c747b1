"""Services of one trial (configure, start, prove, read counters, stop), and the monitors that record host metrics.

A sampler runs on every host; if the study says so, the hosts' own monitors are polled over the SSH connection, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from loadbook.core.errors import OversizeError
from loadbook.core.text import host_port
from loadbook.execution.deployment import Deployment
from loadbook.execution.host_changes import InvalidTrialError, ServerFailedError
from loadbook.execution.load import FIRST_STEP, remove_job, remove_job_folder
from loadbook.execution.placement import Placement, job_name
from loadbook.execution.testbed import Testbed
from loadbook.hosts.monitors import Poller, connect_monitor, sampler_job
from loadbook.services import Instance, Proof
from loadbook.services.cpu_time import read_cpu_time
from loadbook.store.atomic import explain_disk_full
from loadbook.store.trial_record import MonitorRecord, PolledRecord, ServiceRecord, WorkersRecord

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
        """Render every service's files, put them on its host, and run the service's own check of its configuration."""
        for placement in self.deployment.placements:
            token = self.testbed.hosts[placement.alias].token(job_name(self.stem, placement.role))
            self.instances[placement] = self.deployment.make_instance(placement, self.stem, self.lease_s, token)
        self.testbed.map(lambda placement: self.instances[placement].check(), self.instances)

    @property
    def records(self) -> list[ServiceRecord]:
        """The records of the started services, in the order of their start."""
        return list(self._records.values())

    def start(self) -> None:
        """Start the services, backends first, and prove each one's configuration.

        Raises
        ------
        InvalidTrialError : a running service does not have this treatment's configuration.
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
        """Write a service's rendered files and its own configuration dump to the trial's folder; return its record."""
        stem = f"{placement.alias}-{placement.role}"
        files = {f"config-{stem}/{name}": data for name, data in instance.rendered.files.items()}
        dump = {f"effective-{stem}": data for data in [instance.effective_config] if data}
        for name, data in (files | dump).items():
            write_trial_file(self.folder / name, data)
        # the CPUs of a host's own server are not chosen by loadbook
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
            listens=host_port(instance.address, instance.port),
            backlog=instance.backlog,
            pids=proof.pids,
            config_files=list(files),
            effective=next(iter(dump), None),
            cpus=list(self.deployment.launch(placement).cpus) or all_cpus,
            workers=self._workers_record(placement, instance, proof.workers),
        )

    def _workers_record(self, placement: Placement, instance: Instance, count: int | None) -> WorkersRecord | None:
        """Return the record of a service's workers; the study has chosen their number if it is in its file or vars."""
        spec, setting = placement.spec, self.deployment.setting(placement.role)
        if spec.workers is None or count is None:
            return None
        name = spec.workers.setting
        if spec.main is not None and setting.config_text is not None:
            text = instance.rendered.files[spec.main].decode(errors="replace")
            chosen = re.search(rf"^\s*{name}\s+\d", text, re.MULTILINE) is not None
        else:
            chosen = isinstance(spec.values(setting.vars)[name], int)
        return WorkersRecord(count=count, setting=name, automatic=not chosen)

    def _known_warnings(self, placement: Placement) -> list[str]:
        """Return the warnings of a service's configuration that the checks before the run found."""
        known = self.testbed.configuration_warnings.items()
        key, treatment = (placement.role, placement.spec.name), self.deployment.treatment
        return [line for (*place, line), treatments in known if tuple(place) == key and treatment in treatments]

    def check_running(self) -> None:
        """Raise ServerFailedError if a service ended, InvalidTrialError if a host's own server changed, in the load.

        The load generator may not have noticed, since a balancer uses the remaining services.
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
                raise ServerFailedError(f"{message} with exit code {state.rc}: {log or 'it printed nothing'}")

    @property
    def changes(self) -> dict[str, dict[str, str]]:
        """Host alias -> changes that services made to the host outside their own folders."""
        changes_by_host: dict[str, dict[str, str]] = {}
        for placement in self._records:
            if changed := self.instances[placement].changes:
                changes_by_host.setdefault(placement.alias, {}).update(changed)
        return changes_by_host

    def leaders(self) -> list[tuple[str, int | None]]:
        """Return (host alias, id of the leading process) of every started service, in the order of `records`.

        The process id is None if the service has ended.
        """
        return [(placement.alias, self.instances[placement].session_leader()) for placement in self._records]

    def read_counters(self, when: Literal["before", "after"]) -> None:
        """Store the services' current counters in their records."""
        client_host, instances = self.deployment.client_host, self.instances
        counters = self.testbed.map(lambda placed: instances[placed].counters(client_host(placed)), self._records)
        for placement, counts in counters.items():
            record = self._records[placement]
            if when == "before":
                record.counters_before = counts
            else:
                record.counters_after = counts

    def stop_calls(self) -> list[Callable[[], None]]:
        """Return a function for each configured service that saves the end of its log and stops the service.

        It also stores the warnings in the log in the service's record, if the service was started.
        """
        return [partial(self._end, placement) for placement in self.instances]

    def _end(self, placement: Placement) -> None:
        instance = self.instances[placement]
        try:
            log = instance.log()
            write_trial_file(self.folder / f"log-{placement.alias}-{placement.role}", log)
            if record := self._records.get(placement):
                record.warnings = list(dict.fromkeys([*self._known_warnings(placement), *instance.log_warnings(log)]))
        finally:
            with self.testbed.collecting_restore_errors():
                instance.stop()
            remove_job_folder(self.testbed.hosts[placement.alias], instance.name)


class ServiceCpu(NamedTuple):
    """CPU time (ns) used so far by a service, its leading process (`Instance.session_leader`), and its machine."""

    used_ns: int
    leader: int
    machine: str


# arm (0 for a plain trial) and number of the service in it
ServiceKey = tuple[int, int]
CpuTimes = dict[ServiceKey, ServiceCpu]


def read_cpu_times(testbed: Testbed, arms: Mapping[int, TrialServices]) -> CpuTimes:
    """Return (arm, number of the service in its order of start, from 0) -> CPU time used so far by the service.

    `arms` maps an arm's number (0 for a plain trial) to its services; a service that has ended is left out.
    """
    by_host: dict[str, dict[ServiceKey, int]] = {}
    for arm, services in arms.items():
        for number, (alias, leader) in enumerate(services.leaders()):
            if leader is not None:
                by_host.setdefault(alias, {})[arm, number] = leader
    readings = testbed.map(
        lambda alias: read_cpu_time(testbed.hosts[alias], list(by_host[alias].values())), list(by_host)
    )
    return {
        key: ServiceCpu(used_ns, leader, reading.machine)
        for alias, reading in readings.items()
        for (key, leader), used_ns in zip(by_host[alias].items(), reading.used_ns, strict=True)
    }


def cpu_seconds(before: CpuTimes, after: CpuTimes) -> dict[ServiceKey, float]:
    """Return (arm, number of the service) -> CPU seconds used between two readings, for services that are in both."""
    both = before.keys() & after.keys()
    return {key: round((after[key].used_ns - before[key].used_ns) / 1e9, 6) for key in both}


def write_trial_file(path: Path, data: bytes) -> None:
    """Write a file in the trial's folder, creating parent folders; no file is written for empty data."""
    if data:
        with explain_disk_full(path, len(data)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


SAMPLER_STOP_GRACE_S = 1.0
MAX_MONITOR_BYTES = 20_000_000  # 2 kB per sample; later samples are lost


class TrialMonitors:
    """The samplers (loadbook's own) and pollers (of the hosts' own monitors) of one trial.

    `collect` fills `polled` with records of the polled answers.

    Parameters
    ----------
    name : name of the sampler's job on every host.
    limit_s : seconds after which a sampler ends by itself.
    jobs : host -> file below jobs/ that holds the id of a process to sample -> label of that process.
    """

    def __init__(self, testbed: Testbed, name: str, limit_s: float, jobs: Mapping[str, Mapping[str, str]]) -> None:
        self.testbed, self.name, self.limit_s, self.jobs = testbed, name, limit_s, jobs
        monitors = testbed.plan.study.monitors
        self.interval_s, self.has_sampler = monitors.interval_s, "sampler" in monitors.sources
        # the hosts' own monitors that are polled
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
        # a job's file `step` holds the process id of its current step
        watch = [(label, f"../{file}") for file, label in self.jobs.get(alias, {}).items()]
        job = sampler_job(self.name, interval_s=self.interval_s, limit_s=self.limit_s, processes=watch)
        self.testbed.hosts[alias].start(job)

    def _start_poller(self, source: str, alias: str) -> None:
        if connection := connect_monitor(self.testbed.hosts[alias], self.testbed.inventory.hosts[alias], source):
            self._pollers[alias, source] = Poller(source, connection, self.interval_s)

    def collect(self, folder: Path, services: Sequence[ServiceRecord]) -> list[MonitorRecord]:
        """Stop samplers and pollers, write their outputs into `folder`, and return the samplers' records.

        The process ids in `services` (records of the trial's services) are copied into these records.
        """
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
        pids: dict[str, list[int]] = {}  # service -> its process ids in all of its roles on the host
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
        """Write the polled answers of one monitor of a host into `folder`; a replay writes the recorded ones."""
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
        """Stop pollers and samplers and remove the samplers' files on the hosts."""
        for poller in self._pollers.values():
            poller.stop()
        self.testbed.map(
            lambda alias: remove_job(self.testbed.hosts[alias], self.name, SAMPLER_STOP_GRACE_S), self._started
        )
