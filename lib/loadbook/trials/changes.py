"""What a trial changes of its hosts beside starting services: kernel settings, the network toward the target, quotas.

Each changed host has one job that sets everything, reads it back, and puts it back when the job ends, however it ends
(`hosts.guard`). Only what the hosts file allows is changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loadbook.core.errors import HostError, UsageError
from loadbook.design.plan import Plan
from loadbook.design.study import Study
from loadbook.hosts import guard, undo
from loadbook.hosts.host import Host
from loadbook.hosts.inventory import HostsFile, Permit
from loadbook.trials.evidence import InvalidTrial
from loadbook.trials.load import forget_job
from loadbook.trials.stage import LINE, Stage

MAX_REASONS = 3


def needs_line(plan: Plan, hosts: Mapping[str, Host], inventory: HostsFile, drivers: Iterable[str]) -> bool:
    """Tell whether a delay that treatments ask for has to be made in userspace, on the driver's own host.

    Raises
    ------
    UsageError : it would have to, and cannot: several drivers, or a loss of packets.
    """
    study, drivers = plan.study, list(drivers)
    settings = [study.setting(treatment, study.workload.role) for treatment in plan.treatments]
    if not asks_for_delay(study, plan.treatments):
        return False
    if all("tc" in inventory.hosts[alias].may and guard.has_netem(hosts[alias]) for alias in drivers):
        return False
    how = f'netem in the kernel of {", ".join(drivers)} and may = ["tc"] in the hosts file'
    if any(setting.loss for setting in settings):
        raise UsageError("a share of lost packets can only be made by the kernel", f"it needs {how}")
    if len(drivers) > 1:
        raise UsageError("a delay in userspace is made for one driver only", f"use one driver, or {how}")
    return True


def asks_for_delay(study: Study, treatments: Iterable[str]) -> bool:
    """Tell whether any of the treatments puts a delay or a loss on the way to the target."""
    settings = [study.setting(treatment, study.workload.role) for treatment in treatments]
    return any(setting.delay_ms or setting.loss for setting in settings)


def forbidden(stages: Iterable[Stage]) -> list[str]:
    """Return what treatments need of hosts although the hosts file does not allow it, a line for each host."""
    mays: dict[str, Sequence[Permit]] = {}
    wanted: dict[str, dict[Permit, None]] = {}
    reasons: dict[str, dict[str, None]] = {}
    for stage in stages:
        for alias, why, permits in _permits(stage):
            mays[alias] = stage.bench.inventory.hosts[alias].may
            if lacking := [permit for permit in permits if permit not in mays[alias]]:
                wanted.setdefault(alias, {}).update(dict.fromkeys(lacking))
                reasons.setdefault(alias, {})[why] = None
    said = [guard.not_allowed(alias, mays[alias], list(wanted[alias]), _few(reasons[alias])) for alias in wanted]
    return [words for words in said if words]


def _few(reasons: Iterable[str]) -> str:
    every = list(reasons)
    more = f" and {len(every) - MAX_REASONS} more" if len(every) > MAX_REASONS else ""
    return ", ".join(every[:MAX_REASONS]) + more


def _permits(stage: Stage) -> Iterator[tuple[str, str, Sequence[Permit]]]:
    """Yield, for each host, who needs what."""
    yield from ((seat.alias, f"service {seat.spec.name}", seat.spec.needs) for seat in stage.seats)
    yield from ((alias, f"treatment {stage.treatment}", own.permits()) for alias, own in changes_of(stage).items())


def changes_of(stage: Stage) -> dict[str, guard.Changes]:
    """Return host -> what the treatment changes of it; hosts that stay as they are do not appear.

    UsageError: roles of one host would have it differently.
    """
    found: dict[str, guard.Changes] = {}
    for alias, own in (*_of_services(stage), *_of_drivers(stage)):
        known = found.get(alias, guard.Changes())
        _must_agree(stage, alias, known, own)
        found[alias] = known | own
    return {alias: changes for alias, changes in found.items() if changes.permits()}


def _must_agree(stage: Stage, alias: str, one: guard.Changes, other: guard.Changes) -> None:
    both = {name: (value, other.sysctls.get(name, value)) for name, value in one.sysctls.items()}
    if "tc" in one.permits() and "tc" in other.permits():
        both |= {name: (getattr(one, name), getattr(other, name)) for name in ("rate_mbit", "toward")}
    for name, (first, second) in both.items():
        if str(first) != str(second):
            raise UsageError(
                f"host {alias} is to have {name} = {first} and {second} under treatment {stage.treatment}",
                "roles on one host share its kernel and its network: give them one value, or hosts of their own",
            )


def _of_services(stage: Stage) -> Iterator[tuple[str, guard.Changes]]:
    for seat in stage.seats:
        setting = stage.setting(seat.role)
        quotas = {seat.role: setting.cpu_quota} if setting.cpu_quota else {}
        sysctls, accepts = {**seat.spec.sysctls, **setting.sysctls}, tuple(stage.also_at(seat))
        # toward everybody: who asks may have another address than the one that it is known by
        yield seat.alias, guard.Changes(sysctls, 0.0, 0.0, setting.rate_mbit, "", quotas, accepts, seat.tables)


def _of_drivers(stage: Stage) -> Iterator[tuple[str, guard.Changes]]:
    setting = stage.setting(stage.study.workload.role)
    by_kernel = 0.0 if any(seat.role == LINE for seat in stage.seats) else setting.delay_ms
    shaped = by_kernel or setting.loss or setting.rate_mbit
    for alias in stage.bench.drivers:
        yield (
            alias,
            guard.Changes(
                sysctls=setting.sysctls,
                delay_ms=by_kernel,
                loss=setting.loss,
                rate_mbit=setting.rate_mbit,
                toward=stage.target.address if shaped else "",
            ),
        )


@dataclass
class Guards:
    """The jobs that change the hosts for one trial; `name` is that of the job on every host."""

    stage: Stage
    name: str
    lease_s: float
    _set: list[str] = field(default_factory=list)

    def set_up(self) -> dict[str, dict[str, Any]]:
        """Change what the treatment changes, and return it by host for the record; HostError when one is refused."""
        changes = changes_of(self.stage)
        for alias, wanted in changes.items():
            self._set.append(alias)
            guard.set_up(self.stage.bench.hosts[alias], self.name, wanted, self.lease_s)
        # a host of which only leftovers of a service would be removed is not changed
        return {alias: said for alias, wanted in changes.items() if (said := wanted.said())}

    def must_hold(self) -> None:
        """Raise InvalidTrial when changes were put back before the load was over."""
        for alias in self._set:
            if not self.stage.bench.hosts[alias].state(self.name).running:
                raise InvalidTrial(f"host {alias}: what was changed for the trial was put back during the load")

    def restore(self) -> None:
        """Put everything back; what cannot be reached is put back by the host itself.

        What a host could not put back is noted in the bench (`must_be_restored`).
        """
        for alias in self._set:
            host = self.stage.bench.hosts[alias]
            with contextlib.suppress(HostError):
                with self.stage.bench.told():
                    undo.end(host, self.name)
                forget_job(host, self.name)
        self._set.clear()
