"""The testbed: the connected hosts of a run with their roles, services and tools, shared by all trials."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from loadbook.core import clock
from loadbook.core.errors import HostError, LoadbookError, UsageError
from loadbook.core.units import first_lines
from loadbook.execution import studies
from loadbook.execution.placement import DELAY_ROLE, DELAY_SERVICE, Placement, needs_userspace_delay, place_services
from loadbook.execution.progress import OnPhase, ignore_phase
from loadbook.hosts.host import ClockOffset, Host
from loadbook.hosts.inventory import HostsFile, read_hosts
from loadbook.hosts.jobs import LockRequest
from loadbook.hosts.lab import Lab, lab_kind
from loadbook.hosts.remote import connect
from loadbook.hosts.replay import RecordedRun, RecordingHost, ReplayHost, record_host
from loadbook.hosts.rollback import NotRestoredError
from loadbook.modes.plain.replay import replay_of
from loadbook.services import load_service
from loadbook.store.paths import Layout
from loadbook.study.plan import Plan, PlannedTrial
from loadbook.tools import base
from loadbook.tools.base import Tool

T = TypeVar("T")
K = TypeVar("K")


@dataclass(kw_only=True)
class Testbed:
    """The hosts of a run, shared by all of its trials; preflight fills in versions, CPUs and boot ids.

    `placements` are those of all treatments, `tools` the load generators by name, `tool_versions` versions by host
    alias and tool; `hosts`, `boot_ids` and `host_cpus` (numbers of the usable CPUs) are keyed by host alias,
    `drivers` are aliases. `lab` is the kind of the lab ("" for other hosts), `replayed_run` the id of the run that a
    replay repeats, `replayed_executions` the executions of its trials. `configurations` has role, host, service and
    digest of the configurations of each treatment; `configuration_warnings` maps role, service and a warning of its own
    check to treatments. `ended` is set at the end of the session and ends all pauses.
    `not_restored` collects errors of rollbacks. `on_phase` is called at the begin of a phase of a trial or block.
    """

    plan: Plan
    run: str
    lab: str
    hosts: dict[str, RecordingHost]
    inventory: HostsFile
    drivers: tuple[str, ...]
    placements: tuple[Placement, ...]
    tools: dict[str, Tool]
    pool: Executor
    replayed_run: str | None = None
    replayed_executions: frozenset[str] = frozenset()
    tool_versions: dict[tuple[str, str], str] = field(default_factory=dict)
    service_versions: dict[Placement, str] = field(default_factory=dict)
    configurations: dict[str, set[tuple[str, str, str, str]]] = field(default_factory=dict)
    configuration_warnings: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    boot_ids: dict[str, str] = field(default_factory=dict)
    host_cpus: dict[str, tuple[int, ...]] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)
    not_restored: list[NotRestoredError] = field(default_factory=list)
    on_phase: OnPhase = ignore_phase

    def set_trial(self, planned: PlannedTrial | None) -> None:
        """Set the trial to which the following calls to hosts belong; None: to the run, outside all trials."""
        for host in self.hosts.values():
            host.set_trial(planned)

    def submit(self, function: Callable[[K], T], keys: Iterable[K]) -> dict[K, Future[T]]:
        """Start a call of `function` for every key in the thread pool and return key -> future."""
        return {key: self.pool.submit(function, key) for key in keys}

    def results(self, futures: dict[K, Future[T]]) -> dict[K, T]:
        """Wait until all of these calls have ended, and return their results by key or raise the first error."""
        wait(futures.values())
        return {key: future.result() for key, future in futures.items()}

    def map(self, function: Callable[[K], T], keys: Iterable[K]) -> dict[K, T]:
        """Call `function` for all keys in parallel and return the results by key, or raise the first error."""
        return self.results(self.submit(function, keys))

    def submit_clocks(self) -> dict[str, Future[ClockOffset]]:
        """Start measuring the offset of every host's clock and return alias -> future."""
        return self.submit(lambda alias: self.hosts[alias].clock(), self.hosts)

    def run_within(self, calls: Sequence[Callable[[], None]], limit_s: float | None) -> None:
        """Make calls in parallel, ignoring loadbook's errors, and wait until they end.

        If some have not ended after `limit_s` seconds (None: no limit), all connections to hosts are dropped.
        """
        begun = [self.pool.submit(call) for call in calls]
        try:
            late = wait(begun, timeout=limit_s).not_done
        except BaseException:
            self.abandon()
            raise
        if late:
            self.abandon()
        for ended in set(begun) - late:
            with suppress(LoadbookError):  # the trial's status is already set and must not change
                ended.result()

    def reconnect(self) -> bool:
        """Open new connections to all hosts, waiting for lost ones; return whether all could be opened."""

        def reopen(alias: str) -> bool:
            try:
                self.hosts[alias].reopen()
            except HostError:
                return False
            return True

        return all(self.map(reopen, self.hosts).values())

    def abandon(self) -> None:
        """Drop every connection at once, which ends waiting threads; the hosts then end our jobs."""
        for host in self.hosts.values():
            host.abandon()

    def close(self, limit_s: float) -> None:
        """End the session: end all pauses, refuse further calls, and close all hosts within `limit_s` seconds."""

        def close(host: Host) -> None:
            with suppress(HostError):
                host.close()

        self.ended.set()
        self.pool.shutdown(wait=False, cancel_futures=True)
        # separate threads, since those of the pool may wait for the connections that are closed here
        threads = [threading.Thread(target=close, args=(host,), daemon=True) for host in self.hosts.values()]
        try:
            for thread in threads:
                thread.start()
            deadline = clock.monotonic() + limit_s
            for thread in threads:
                thread.join(max(0.0, deadline - clock.monotonic()))
        finally:
            self.abandon()

    def roles_of(self, alias: str) -> tuple[str, ...]:
        """Return the roles of a host in this study, in the study's order."""
        return tuple(r for r in self.plan.study.roles if r in self.inventory.hosts[alias].roles)

    def tool_versions_on(self, alias: str) -> str:
        """Return a text with names and versions of the load generators on a driver."""
        return ", ".join(f"{tool} {version}" for (host, tool), version in self.tool_versions.items() if host == alias)

    def services_by_host(self) -> dict[str, str]:
        """Return alias -> text with names and versions of the services on that host."""
        names_by_host: dict[str, dict[str, None]] = {}
        for placement, version in self.service_versions.items():
            own = " (the host's own server)" if placement.spec.tree else ""
            names_by_host.setdefault(placement.alias, {})[f"{placement.spec.name} {version}{own}"] = None
        return {alias: ", ".join(names) for alias, names in names_by_host.items()}

    @property
    def delay_method(self) -> str | None:
        """Method by which delays are made, "kernel" or "userspace"; None if no treatment has a delay."""
        study = self.plan.study
        if not any(study.setting(treatment, study.workload.role).delay_ms for treatment in self.plan.treatments):
            return None
        return "userspace" if any(placement.role == DELAY_ROLE for placement in self.placements) else "kernel"

    @contextmanager
    def collecting_restore_errors(self) -> Iterator[None]:
        """Collect a NotRestoredError in `not_restored` instead of raising it, so that the trial can be ended."""
        try:
            yield
        except NotRestoredError as error:
            self.not_restored.append(error)

    def check_restored(self) -> None:
        """Raise the first collected NotRestoredError; do nothing if there is none."""
        if self.not_restored:
            raise self.not_restored[0]

    def pause(self, seconds: float) -> None:
        """Sleep for `seconds`, or until the session ends."""
        clock.wait(self.ended, seconds)

    def cpus_of(self, alias: str) -> list[int]:
        """Return the numbers of the CPUs that the hosts file allows on a host; empty if every CPU may be used."""
        return list(self.inventory.hosts[alias].cpus or ())


THREADS = 16
MAX_NAMED_TRIALS = 5


def resolve_hosts_file(layout: Layout, plan: Plan, hosts_file: Path | None) -> Path:
    """Return the given hosts file; if it is None, start the lab with the hosts that the plan needs and return its."""
    if hosts_file:
        return hosts_file
    lab = Lab.load(layout.lab, min_hosts=studies.needed_hosts(plan), min_server_cpus=studies.needed_cpus(plan))
    lab.up()
    return lab.hosts_file


def open_testbed(layout: Layout, plan: Plan, run: str, path: Path, break_lock: str = "") -> Testbed:
    """Connect to the hosts of a run, lock them, and return its testbed.

    Parameters
    ----------
    break_lock : id of a lock owner whose sessions on these hosts are ended first; "" for none.

    Raises
    ------
    InUseError : another run uses one of the hosts; the others are released again.
    HostError : a host is unreachable, or its key is not the trusted one.
    PreflightError, UsageError, ToolError : a role has too few hosts; a service, tool or target is unknown.
    """
    inventory = read_hosts(path)
    studies.check_load_allowed(plan, inventory, path, lab=bool(lab_kind(path)))
    studies.check_roles(plan, inventory)
    replayed = _replayed_run_of(path, inventory, plan)
    claim = LockRequest(plan.study.name, run, evict_id=break_lock)

    def open_host(alias: str) -> Host:
        if replayed is None:
            return connect(path, alias, run, hosts=inventory, lock_request=claim)
        # the folder's name contains the study, too, since two runs may begin in the same second
        folder, address = layout.replay / f"{plan.study.name}-{run}-{alias}", inventory.hosts[alias].address or alias
        host = ReplayHost(replayed, alias, address, folder, run)
        host.open()
        return host

    hosts: dict[str, RecordingHost] = {}
    with _close_on_error(hosts.values()):
        # one after the other, so that the first untrusted key raises before further hosts are contacted
        for alias in studies.used_hosts(plan, inventory):
            hosts[alias] = record_host(open_host(alias), run)
        userspace_delay = needs_userspace_delay(plan, hosts, inventory, inventory.with_role(plan.study.workload.role))
        return build_testbed(
            TestbedRequest(layout, plan, run, hosts, inventory, userspace_delay, lab=lab_kind(path), replay=replayed)
        )


@dataclass(frozen=True)
class TestbedRequest:
    """What a testbed is built from: the plan, the run's id, and its hosts as they are connected and in the hosts file.

    `userspace_delay`: delays are made by a proxy. `lab` is the kind of the lab, "" for other hosts. `replay` is the
    run to replay; None for real hosts. `pool` executes parallel calls; None makes a pool of threads.
    """

    layout: Layout
    plan: Plan
    run: str
    hosts: dict[str, RecordingHost]
    inventory: HostsFile
    userspace_delay: bool
    lab: str = ""
    replay: RecordedRun | None = None
    pool: Executor | None = None


def build_testbed(request: TestbedRequest) -> Testbed:
    """Return the testbed of these hosts without contacting them."""
    plan, inventory, replay = request.plan, request.inventory, request.replay
    study, folders = plan.study, studies.service_folders(request.layout)
    drivers = tuple(inventory.with_role(study.workload.role))
    names = {study.setting(treatment, role).service for treatment in plan.treatments for role in study.roles}
    needed = [*sorted(name for name in names if name), *([DELAY_SERVICE] if request.userspace_delay else [])]
    specs = {name: load_service(name, folders) for name in needed}
    return Testbed(
        plan=plan,
        run=request.run,
        lab=request.lab,
        hosts=request.hosts,
        inventory=inventory,
        drivers=drivers,
        placements=place_services(study, plan.treatments, inventory, specs, drivers),
        tools={name: base.load_tool(name) for name in study.tools_of(plan.treatments)},
        pool=request.pool or ThreadPoolExecutor(THREADS, thread_name_prefix="testbed"),
        replayed_run=replay.id if replay else None,
        replayed_executions=replay.executions(plan.trials) if replay else frozenset(),
    )


def _replayed_run_of(path: Path, inventory: HostsFile, plan: Plan) -> RecordedRun | None:
    """Return the recorded run that a hosts file replays; None for real hosts."""
    if inventory.replay is None:
        return None
    recording = RecordedRun((path.absolute().parent / inventory.replay).resolve())
    replay_of(plan.study).check(plan, recording, path)
    if missing := recording.missing_trials(plan.trials):
        trials = first_lines([f"{t.trial}: {t.treatment} in block {t.block}" for t in missing], MAX_NAMED_TRIALS)
        lines = "\n  ".join([f"{path} plays run {recording.id} back, which does not hold:", *trials])
        raise UsageError(lines, "ask for the treatments and blocks of that run (--subset, --blocks)")
    return recording


@contextmanager
def _close_on_error(hosts: Iterable[Host]) -> Iterator[None]:
    """Close the connected hosts if the `with` block raises an error."""
    try:
        yield
    except BaseException:
        for host in hosts:
            host.close()
        raise
