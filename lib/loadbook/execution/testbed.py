"""The testbed: the open hosts of a run with their roles, services and tools."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from loadbook.core.errors import UsageError
from loadbook.execution.deployment import (
    DELAY_ROLE,
    DELAY_SERVICE,
    Deployment,
    Placement,
    place_services,
)
from loadbook.execution.host_changes import needs_userspace_delay
from loadbook.execution.plan_checks import check_load_allowed, check_roles, needed_cpus, needed_hosts, used_hosts
from loadbook.execution.studies import service_folders
from loadbook.hosts.host import Host
from loadbook.hosts.inventory import HostsFile, read_hosts
from loadbook.hosts.jobs import LockRequest
from loadbook.hosts.lab import lab_kind
from loadbook.hosts.remote import connect
from loadbook.hosts.replay import RecordedRun, RecordingHost, ReplayHost, record_host
from loadbook.hosts.rollback import NotRestoredError
from loadbook.services import ServiceSpec, load_service
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
    alias and tool. `lab` is the kind of the lab, "" for other hosts; `replayed_run` is the id of a run that is played
    back. `ended` is set at the end of the session and ends all pauses. `not_restored` collects errors of rollbacks.
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
    tool_versions: dict[tuple[str, str], str] = field(default_factory=dict)
    service_versions: dict[Placement, str] = field(default_factory=dict)
    boot_ids: dict[str, str] = field(default_factory=dict)
    host_cpus: dict[str, tuple[int, ...]] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)
    not_restored: list[NotRestoredError] = field(default_factory=list)
    _deployments: dict[str, Deployment] = field(default_factory=dict)

    def deployment(self, treatment: str) -> Deployment:
        """Return the deployment of a treatment."""
        return self._deployments.setdefault(treatment, Deployment(self, treatment))

    def set_trial(self, planned: PlannedTrial | None) -> None:
        """Set the trial to which the following calls belong; None: the run as a whole."""
        for host in self.hosts.values():
            host.set_trial(planned)

    def submit(self, function: Callable[[K], T], keys: Iterable[K]) -> dict[K, Future[T]]:
        """Submit a call of `function` for every key; `results` waits for them."""
        return {key: self.pool.submit(function, key) for key in keys}

    def results(self, futures: dict[K, Future[T]]) -> dict[K, T]:
        """Wait for all of these calls; an error is raised only then."""
        wait(futures.values())
        return {key: future.result() for key, future in futures.items()}

    def map(self, function: Callable[[K], T], keys: Iterable[K]) -> dict[K, T]:
        """Call `function` for every key at the same time and return the results by key."""
        return self.results(self.submit(function, keys))

    def roles_of(self, alias: str) -> tuple[str, ...]:
        """Return the roles of a host in this study, in the study's order."""
        return tuple(r for r in self.plan.study.roles if r in self.inventory.hosts[alias].roles)

    def tool_versions_on(self, alias: str) -> str:
        """Return names and versions of a driver's load generators."""
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
        """How delays are made: kernel or userspace; None when no treatment has one."""
        study = self.plan.study
        if not any(study.setting(treatment, study.workload.role).delay_ms for treatment in self.plan.treatments):
            return None
        return "userspace" if any(placement.role == DELAY_ROLE for placement in self.placements) else "kernel"

    @contextmanager
    def collecting_restore_errors(self) -> Iterator[None]:
        """Collect NotRestoredError, so that the rest of the trial can still be ended."""
        try:
            yield
        except NotRestoredError as error:
            self.not_restored.append(error)

    def check_restored(self) -> None:
        """Raise the first collected NotRestoredError."""
        if self.not_restored:
            raise self.not_restored[0]

    def pause(self, seconds: float) -> None:
        """Sleep, at most until the session ends."""
        self.ended.wait(seconds)

    def cpus_of(self, alias: str) -> list[int]:
        """Return the CPU mask that the hosts file gives a host; empty: every CPU."""
        return list(self.inventory.hosts[alias].cpus or ())


THREADS = 16
MAX_NAMED_TRIALS = 5


def resolve_hosts_file(layout: Layout, plan: Plan, hosts_file: Path | None) -> Path:
    """Return the given hosts file, else that of the lab, which is started."""
    return hosts_file or _start_lab(layout, plan)


def open_testbed(layout: Layout, plan: Plan, run: str, path: Path, break_lock: str = "") -> Testbed:
    """Return the testbed of a run, its hosts open and locked.

    Parameters
    ----------
    break_lock : id of an owner whose sessions on these hosts are ended first.

    Raises
    ------
    InUseError : another run uses a host; none is locked then.
    HostError : a host cannot be reached, or its key is not the trusted one.
    PreflightError, UsageError, ToolError : a role without a host, an unknown service, tool or target.
    """
    inventory = read_hosts(path)
    check_load_allowed(plan, inventory, path, lab=bool(lab_kind(path)))
    check_roles(plan, inventory)
    replayed = _replayed_run_of(path, inventory, plan)
    used = used_hosts(plan, inventory)
    claim = LockRequest(plan.study.name, run, evict_id=break_lock)
    if replayed is None:
        opened = _open_all(lambda alias: connect(path, alias, run, hosts=inventory, lock_request=claim), used)
    else:
        name = f"{plan.study.name}-{run}"  # two studies may begin in one second
        opened = _open_all(
            lambda alias: _open_replay_host(layout.replay / f"{name}-{alias}", replayed, alias, inventory, run), used
        )
    hosts = {alias: record_host(host, run) for alias, host in opened.items()}
    with _close_on_error(hosts.values()):
        userspace_delay = needs_userspace_delay(plan, hosts, inventory, inventory.with_role(plan.study.workload.role))
        return build_testbed(
            layout, plan, run, hosts, inventory, userspace_delay=userspace_delay, lab=lab_kind(path), replay=replayed
        )


def build_testbed(
    layout: Layout,
    plan: Plan,
    run: str,
    hosts: dict[str, RecordingHost],
    inventory: HostsFile,
    *,
    userspace_delay: bool,
    lab: str = "",
    replay: RecordedRun | None = None,
    pool: Executor | None = None,
) -> Testbed:
    """Return the testbed of these hosts; `userspace_delay`: a delay is made in userspace.

    No host is touched; `pool` is a pool of threads by default.
    """
    drivers = tuple(inventory.with_role(plan.study.workload.role))
    specs = _load_services(plan, service_folders(layout), userspace_delay=userspace_delay)
    return Testbed(
        plan=plan,
        run=run,
        lab=lab,
        hosts=hosts,
        inventory=inventory,
        drivers=drivers,
        placements=place_services(plan.study, plan.treatments, inventory, specs, drivers),
        tools={name: base.load_tool(name) for name in plan.study.tools_of(plan.treatments)},
        pool=pool or ThreadPoolExecutor(THREADS, thread_name_prefix="testbed"),
        replayed_run=replay.id if replay else None,
    )


def _load_services(plan: Plan, folders: Sequence[Path], *, userspace_delay: bool) -> dict[str, ServiceSpec]:
    """Return the services of all treatments by name, and the delay in userspace where it is needed."""
    study = plan.study
    names = {study.setting(treatment, role).service for treatment in plan.treatments for role in study.roles}
    needed = sorted(name for name in names if name) + ([DELAY_SERVICE] if userspace_delay else [])
    return {name: load_service(name, folders) for name in needed}


def _start_lab(layout: Layout, plan: Plan) -> Path:
    from loadbook.hosts.lab import Lab

    lab = Lab.load(layout.lab, min_hosts=needed_hosts(plan), min_server_cpus=needed_cpus(plan))
    lab.up()
    return lab.hosts_file


def _replayed_run_of(path: Path, inventory: HostsFile, plan: Plan) -> RecordedRun | None:
    """Return the recorded run that a hosts file plays back, None for real hosts."""
    if inventory.replay is None:
        return None
    recording = RecordedRun((path.absolute().parent / inventory.replay).resolve())
    missing = recording.missing_trials(plan.trials)
    if missing:
        missing_trials = [f"{t.trial}: {t.treatment} in block {t.block}" for t in missing[:MAX_NAMED_TRIALS]]
        more = [f"and {len(missing) - MAX_NAMED_TRIALS} more"] if len(missing) > MAX_NAMED_TRIALS else []
        lines = "\n  ".join([f"{path} plays run {recording.id} back, which does not hold:", *missing_trials, *more])
        raise UsageError(lines, "ask for the treatments and blocks of that run (--subset, --blocks)")
    return recording


def _open_replay_host(folder: Path, recording: RecordedRun, alias: str, inventory: HostsFile, run: str) -> Host:
    host = ReplayHost(recording, alias, inventory.hosts[alias].address or alias, folder, run)
    host.open()
    return host


def _open_all(open_host: Callable[[str], Host], aliases: Sequence[str]) -> dict[str, Host]:
    """Open the hosts one after the other; the first untrusted key ends it before anything is run."""
    hosts: dict[str, Host] = {}
    with _close_on_error(hosts.values()):
        for alias in aliases:
            hosts[alias] = open_host(alias)
    return hosts


@contextmanager
def _close_on_error(hosts: Iterable[Host]) -> Iterator[None]:
    """Close the hosts that are open when the block fails."""
    try:
        yield
    except BaseException:
        for host in hosts:
            host.close()
        raise
