"""The bench: the hosts of a run, opened, with who drives and who serves. Shared by all of its trials."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from loadbook.design.plan import Plan, PlannedTrial
from loadbook.hosts.inventory import HostsFile
from loadbook.hosts.tape import TapedHost
from loadbook.hosts.undo import NotRestoredError
from loadbook.tools.base import Tool
from loadbook.trials.stage import LINE, Seat, Stage

T = TypeVar("T")
K = TypeVar("K")


@dataclass
class Bench:
    """What the trials of one run share; versions, CPUs and boot ids are filled in by preflight.

    `seats` are those of all treatments; `stage` tells what one of them needs.
    `tools` holds the load generators of all treatments by name, `tool_versions` a version by host alias and tool.
    `lab` is the kind of the lab, "" for other hosts; `replay` is the id of the run that is played back, None where
    something really happens. `over` is set when the sitting ends: whoever pauses then goes on. `not_restored` tells of
    hosts that are not as they were found.
    """

    plan: Plan
    run: str
    lab: str
    hosts: dict[str, TapedHost]
    inventory: HostsFile
    drivers: tuple[str, ...]
    seats: tuple[Seat, ...]
    tools: dict[str, Tool]
    pool: ThreadPoolExecutor
    replay: str | None = None
    tool_versions: dict[tuple[str, str], str] = field(default_factory=dict)
    service_versions: dict[Seat, str] = field(default_factory=dict)
    boot_ids: dict[str, str] = field(default_factory=dict)
    host_cpus: dict[str, tuple[int, ...]] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)
    not_restored: list[NotRestoredError] = field(default_factory=list)
    _stages: dict[str, Stage] = field(default_factory=dict)

    def stage(self, treatment: str) -> Stage:
        """Return what a treatment needs on the hosts."""
        return self._stages.setdefault(treatment, Stage(self, treatment))

    def scene(self, planned: PlannedTrial | None) -> None:
        """Tell every host which trial the calls that follow belong to; None: to the run as a whole."""
        for host in self.hosts.values():
            host.scene(planned)

    def begin(self, call: Callable[[K], T], keys: Iterable[K]) -> dict[K, Future[T]]:
        """Call `call` with every key at the same time, without waiting; `results` gives what comes of it."""
        return {key: self.pool.submit(call, key) for key in keys}

    def results(self, begun: dict[K, Future[T]]) -> dict[K, T]:
        """Wait until all of these bounded calls have ended; an error is raised only then."""
        wait(begun.values())
        return {key: future.result() for key, future in begun.items()}

    def each(self, call: Callable[[K], T], keys: Iterable[K]) -> dict[K, T]:
        """Call `call` with every key at the same time and return the results by key."""
        return self.results(self.begin(call, keys))

    def roles_of(self, alias: str) -> tuple[str, ...]:
        """Return the roles that a host has in this study, in the study's order."""
        return tuple(r for r in self.plan.study.roles if r in self.inventory.hosts[alias].roles)

    def tools_on(self, alias: str) -> str:
        """Return names and versions of a driver's load generators, for readers."""
        return ", ".join(f"{tool} {version}" for (host, tool), version in self.tool_versions.items() if host == alias)

    def services_by_host(self) -> dict[str, str]:
        """Return the names and versions of the services on each host, for readers."""
        found: dict[str, dict[str, None]] = {}
        for seat, version in self.service_versions.items():
            own = " (the host's own server)" if seat.spec.tree else ""
            found.setdefault(seat.alias, {})[f"{seat.spec.name} {version}{own}"] = None
        return {alias: ", ".join(names) for alias, names in found.items()}

    @property
    def delay(self) -> str | None:
        """How the delay that treatments ask for is made: by the kernel or in userspace; None: none asks."""
        study = self.plan.study
        if not any(study.setting(treatment, study.workload.role).delay_ms for treatment in self.plan.treatments):
            return None
        return "userspace" if any(seat.role == LINE for seat in self.seats) else "kernel"

    @contextmanager
    def told(self) -> Iterator[None]:
        """Note it when a host cannot be put back, so that all else can still be ended before the run says so."""
        try:
            yield
        except NotRestoredError as error:
            self.not_restored.append(error)

    def must_be_restored(self) -> None:
        """Raise NotRestoredError when a host is not as it was found."""
        if self.not_restored:
            raise self.not_restored[0]

    def pause(self, seconds: float) -> None:
        """Sleep, but no longer than the sitting lasts."""
        self.over.wait(seconds)

    def cpus_of(self, alias: str) -> list[int]:
        """Return the CPU mask that the hosts file gives a host; empty: every CPU."""
        return list(self.inventory.hosts[alias].cpus or ())
