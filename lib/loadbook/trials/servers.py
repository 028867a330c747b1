"""The services of one trial: put and checked, started from the back to the front and proven, counted, stopped."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from loadbook.hosts.host import JobState
from loadbook.records.manifest import ServiceRecord
from loadbook.services import Instance, Proof
from loadbook.trials.evidence import InvalidTrial, keep, service_record
from loadbook.trials.load import forget_job
from loadbook.trials.names import service_name
from loadbook.trials.stage import Seat, Stage, make_instance

LAST_WORDS = 800


class Servers:
    """The services that a treatment needs, for one attempt; `folder` receives what they leave behind.

    Parameters
    ----------
    stem : what the names of the attempt's jobs begin with.
    lease_s : seconds after which the hosts end them by themselves.
    """

    def __init__(self, stage: Stage, stem: str, lease_s: float, folder: Path) -> None:
        self.stage, self.bench, self.folder = stage, stage.bench, folder
        self.stem, self.lease_s = stem, lease_s
        self._instances: dict[Seat, Instance] = {}
        self._records: dict[Seat, ServiceRecord] = {}

    def configure(self) -> None:
        """Render every service, put it on its host and let it check its configuration."""
        for seat in self.stage.seats:
            token = self.bench.hosts[seat.alias].token(service_name(self.stem, seat.role))
            self._instances[seat] = make_instance(self.stage, seat, self.stem, self.lease_s, token)
        self.bench.each(lambda seat: self._instances[seat].check(), self._instances)

    @property
    def records(self) -> list[ServiceRecord]:
        """The records of those that were started, in their order."""
        return list(self._records.values())

    def start(self) -> None:
        """Start those behind before those in front of them, and prove each.

        Raises
        ------
        InvalidTrial : one does not run this treatment's configuration.
        """
        for seats in self.stage.levels():
            self._records |= self.bench.each(self._start, seats)
        for record in self.records:
            if record.live is False:
                words = f"{record.role} does not run this treatment's configuration: {record.live_evidence}"
                raise InvalidTrial(words)

    def _start(self, seat: Seat) -> ServiceRecord:
        instance, asker = self._instances[seat], self.stage.asker(seat)
        instance.start()
        instance.ready(asker)
        proof, version = instance.prove(asker), self.bench.service_versions.get(seat)
        # the host's own server has the CPUs that its system gives it
        cpus = list(self.stage.launch(seat).cpus) or ([] if seat.spec.tree else self.bench.cpus_of(seat.alias))
        return service_record(seat, instance, proof, self.folder, version=version, cpus=cpus)

    def must_run(self) -> None:
        """Raise InvalidTrial when a service ended during the load; behind a balancer another may have stood in."""
        self._must_be_live()
        states = self.bench.each(self._state, self._records)
        for seat, state in states.items():
            if not state.running:
                log = self._instances[seat].log().decode(errors="replace").strip()[-LAST_WORDS:]
                words = f"host {seat.alias}: {seat.spec.name} ended during the load"
                raise InvalidTrial(f"{words} with exit code {state.rc}: {log or 'it said nothing'}")

    def _must_be_live(self) -> None:
        """See that a host's own server still runs what it is to run: others may have reloaded it meanwhile."""
        own = [seat for seat in self._records if seat.spec.tree]
        for seat, proof in self.bench.each(self._proof, own).items():
            if proof.live is False:
                raise InvalidTrial(f"host {seat.alias}: {seat.spec.name} was changed during the load: {proof.evidence}")

    def _proof(self, seat: Seat) -> Proof:
        return self._instances[seat].prove(self.stage.asker(seat))

    def _state(self, seat: Seat) -> JobState:
        return self._instances[seat].state()

    @property
    def changes(self) -> dict[str, dict[str, str]]:
        """What services changed of their hosts beside their own folders, by host."""
        found: dict[str, dict[str, str]] = {}
        for seat in self._records:
            if changed := self._instances[seat].changes:
                found.setdefault(seat.alias, {}).update(changed)
        return found

    def count(self, when: Literal["before", "after"]) -> None:
        """Keep in their records what the services have counted so far."""
        for seat, counts in self.bench.each(self._counted, self._records).items():
            setattr(self._records[seat], f"counters_{when}", counts)

    def _counted(self, seat: Seat) -> dict[str, float]:
        return self._instances[seat].counters(self.stage.asker(seat))

    def ends(self) -> list[Callable[[], None]]:
        """Return the calls that end them, each keeping the end of the service's log first."""
        return [partial(self._end, seat) for seat in self._instances]

    def _end(self, seat: Seat) -> None:
        instance = self._instances[seat]
        try:
            keep(self.folder / f"log-{seat.alias}-{seat.role}", instance.log())
        finally:
            with self.bench.told():
                instance.stop()
            forget_job(self.bench.hosts[seat.alias], instance.name)
