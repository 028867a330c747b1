"""The testbed: the hosts of a run, opened, with who drives and who serves. Shared by all of its trials."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from loadbook.design.plan import Plan, PlannedTrial
from loadbook.hosts.inventory import HostsFile
from loadbook.hosts.tape import RecordingHost
from loadbook.hosts.undo import NotRestoredError
from loadbook.tools.base import Tool
from loadbook.trials.stage import DELAY_ROLE, Placement, Deployment

T = TypeVar("T")
K = TypeVar("K")


@dataclass
class Testbed:
    """What the trials of one run share; versions, CPUs and boot ids are filled in by preflight.

    `placements` are those of all treatments; `deployment` tells what one of them needs.
    `tools` holds the load generators of all treatments by name, `tool_versions` a version by host alias and tool.
    `lab` is the kind of the lab, "" for other hosts; `replay` is the id of the run that is played back, None where
    something really happens. `ended` is set when the sitting ends: whoever pauses then goes on. `not_restored` tells of
    hosts that are not as they were found.
    """

    plan: Plan
    run: str
    lab: str
    hosts: dict[str, RecordingHost]
    inventory: HostsFile
    drivers: tuple[str, ...]
    placements: tuple[Placement, ...]
    tools: dict[str, Tool]
    pool: ThreadPoolExecutor
    replayed_run: str | None = None
    tool_versions: dict[tuple[str, str], str] = field(default_factory=dict)
    service_versions: dict[Placement, str] = field(default_factory=dict)
    boot_ids: dict[str, str] = field(default_factory=dict)
    host_cpus: dict[str, tuple[int, ...]] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)
    not_restored: list[NotRestoredError] = field(default_factory=list)
    _deployments: dict[str, Deployment] = field(default_factory=dict)

    def deployment(self, treatment: str) -> Deployment:
        """Return what a treatment needs on the hosts."""
        return self._deployments.setdefault(treatment, Deployment(self, treatment))

    def set_trial(self, planned: PlannedTrial | None) -> None:
        """Tell every host which trial the calls that follow belong to; None: to the run as a whole."""
        for host in self.hosts.values():
            host.set_trial(planned)

    def submit(self, function: Callable[[K], T], keys: Iterable[K]) -> dict[K, Future[T]]:
        """Call `function` with every key at the same time, without waiting; `results` gives what comes of it."""
        return {key: self.pool.submit(function, key) for key in keys}

    def results(self, futures: dict[K, Future[T]]) -> dict[K, T]:
        """Wait until all of these bounded calls have ended; an error is raised only then."""
        wait(futures.values())
        return {key: future.result() for key, future in futures.items()}

    def map(self, function: Callable[[K], T], keys: Iterable[K]) -> dict[K, T]:
        """Call `function` with every key at the same time and return the results by key."""
        return self.results(self.submit(function, keys))

    def roles_of(self, alias: str) -> tuple[str, ...]:
        """Return the roles that a host has in this study, in the study's order."""
        return tuple(r for r in self.plan.study.roles if r in self.inventory.hosts[alias].roles)

    def tool_versions_on(self, alias: str) -> str:
        """Return names and versions of a driver's load generators, for readers."""
        return ", ".join(f"{tool} {version}" for (host, tool), version in self.tool_versions.items() if host == alias)

    def services_by_host(self) -> dict[str, str]:
        """Return the names and versions of the services on each host, for readers."""
        names_by_host: dict[str, dict[str, None]] = {}
        for placement, version in self.service_versions.items():
            own = " (the host's own server)" if placement.spec.tree else ""
            names_by_host.setdefault(placement.alias, {})[f"{placement.spec.name} {version}{own}"] = None
        return {alias: ", ".join(names) for alias, names in names_by_host.items()}

    @property
    def delay_method(self) -> str | None:
        """How the delay that treatments ask for is made: by the kernel or in userspace; None: none asks."""
        study = self.plan.study
        if not any(study.setting(treatment, study.workload.role).delay_ms for treatment in self.plan.treatments):
            return None
        return "userspace" if any(placement.role == DELAY_ROLE for placement in self.placements) else "kernel"

    @contextmanager
    def collecting_restore_errors(self) -> Iterator[None]:
        """Note it when a host cannot be put back, so that all else can still be ended before the run says so."""
        try:
            yield
        except NotRestoredError as error:
            self.not_restored.append(error)

    def check_restored(self) -> None:
        """Raise NotRestoredError when a host is not as it was found."""
        if self.not_restored:
            raise self.not_restored[0]

    def pause(self, seconds: float) -> None:
        """Sleep, but no longer than the sitting lasts."""
        self.ended.wait(seconds)

    def cpus_of(self, alias: str) -> list[int]:
        """Return the CPU mask that the hosts file gives a host; empty: every CPU."""
        return list(self.inventory.hosts[alias].cpus or ())
