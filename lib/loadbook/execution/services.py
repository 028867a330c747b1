"""The services of one trial: configuration, start and proof, counters, stop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from loadbook.execution.deployment import Deployment, Placement, make_instance, service_job_name
from loadbook.execution.host_changes import InvalidTrialError, service_record, write_trial_file
from loadbook.execution.load import remove_job_folder
from loadbook.services import Instance
from loadbook.store.trial_record import ServiceRecord

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
            token = self.testbed.hosts[placement.alias].token(service_job_name(self.stem, placement.role))
            self.instances[placement] = make_instance(self.deployment, placement, self.stem, self.lease_s, token)
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
        proof, version = instance.prove(client), self.testbed.service_versions.get(placement)
        # the host's own system chooses the CPUs of its server
        cpus = list(self.deployment.launch(placement).cpus) or (
            [] if placement.spec.tree else self.testbed.cpus_of(placement.alias)
        )
        return service_record(placement, instance, proof, self.folder, version=version, cpus=cpus)

    def check_running(self) -> None:
        """Raise InvalidTrialError when a service ended during the load, which a balancer may have hidden."""
        self._check_system_services()
        states = self.testbed.map(lambda placement: self.instances[placement].state(), self._records)
        for placement, state in states.items():
            if not state.running:
                log = self.instances[placement].log().decode(errors="replace").strip()[-LOG_TAIL_CHARS:]
                message = f"host {placement.alias}: {placement.spec.name} ended during the load"
                raise InvalidTrialError(f"{message} with exit code {state.rc}: {log or 'it printed nothing'}")

    def _check_system_services(self) -> None:
        """Raise InvalidTrialError when a host's own server was changed during the load."""
        system_placements = [placement for placement in self._records if placement.spec.tree]
        client_host, instances = self.deployment.client_host, self.instances
        proofs = self.testbed.map(lambda placed: instances[placed].prove(client_host(placed)), system_placements)
        for placement, proof in proofs.items():
            if proof.live is False:
                raise InvalidTrialError(
                    f"host {placement.alias}: {placement.spec.name} was changed during the load: {proof.evidence}"
                )

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
