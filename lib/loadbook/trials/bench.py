"""The bench: the hosts of a run, opened, with who drives and who serves. Shared by all of its trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TypeVar

from loadbook.design.plan import Plan, PlannedTrial
from loadbook.hosts.inventory import HostsFile
from loadbook.hosts.tape import TapedHost
from loadbook.services import ServiceSpec
from loadbook.tools.base import Target, Tool

T = TypeVar("T")
K = TypeVar("K")


@dataclass(frozen=True, eq=False)
class Seat:
    """One service of one role on one host, and the TCP port that it has there."""

    role: str
    alias: str
    spec: ServiceSpec
    port: int


@dataclass
class Bench:
    """What the trials of one run share; versions and boot ids are filled in by preflight.

    `tools` holds the load generators of all treatments by name, `tool_versions` a version by host alias and tool.
    `replay` is the id of the run that is played back, None where something really happens.
    """

    plan: Plan
    run: str
    lab: bool
    hosts: dict[str, TapedHost]
    inventory: HostsFile
    drivers: tuple[str, ...]
    seats: tuple[Seat, ...]
    target: Target
    tools: dict[str, Tool]
    pool: ThreadPoolExecutor
    replay: str | None = None
    tool_versions: dict[tuple[str, str], str] = field(default_factory=dict)
    service_versions: dict[Seat, str] = field(default_factory=dict)
    boot_ids: dict[str, str] = field(default_factory=dict)

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

    def cpus_of(self, alias: str) -> list[int]:
        """Return the CPU mask that the hosts file gives a host; empty: every CPU."""
        return list(self.inventory.hosts[alias].cpus or ())
