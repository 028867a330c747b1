"""The testbed: the open hosts of a run with their roles, and the checks of a plan against the hosts file.

No plan puts load on targets that the hosts file does not name, or more than it allows. A limit holds for every host
that receives requests, since a balancer may send everything to one backend. Workloads are totals of all drivers, and so
are limits.
"""

from __future__ import annotations

import ipaddress
import json
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from loadbook.core.errors import PreflightError, SpecProblem, StudyError, UsageError
from loadbook.execution.deployment import (
    DELAY_ROLE,
    DELAY_SERVICE,
    Deployment,
    Placement,
    hosts_for_role,
    place_services,
)
from loadbook.execution.host_changes import needs_userspace_delay
from loadbook.execution.studies import service_folders
from loadbook.hosts.host import Host
from loadbook.hosts.inventory import HostEntry, HostsFile, read_hosts
from loadbook.hosts.keys import resolve_host_name
from loadbook.hosts.lab import lab_kind
from loadbook.hosts.lock import LockRequest
from loadbook.hosts.remote import connect
from loadbook.hosts.replay import RecordedRun, RecordingHost, ReplayHost, record_host
from loadbook.hosts.rollback import NotRestoredError
from loadbook.hosts.shell import cpu_list
from loadbook.services import ServiceSpec, load_service
from loadbook.store.paths import Layout
from loadbook.study.plan import Plan, PlannedTrial
from loadbook.study.treatments import Role, Setting
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Tool

# alias, entry -> the name or address of the host on the network
NameResolver = Callable[[str, HostEntry], str]
HANG_FACTOR = 3  # multiple of its expected time after which a load of a fixed number of requests is ended
LIMITS_HINT = "change the study, or what its hosts may get in the hosts file"
EXTERNAL_HINT = 'name it in the hosts file, above the hosts: external = ["host:port"], if you may put load on it'


def check_load_allowed(
    plan: Plan, inventory: HostsFile, source: Path, *, lab: bool = False, resolve_name: NameResolver = resolve_host_name
) -> None:
    """Refuse a plan that loads targets outside the hosts file, or more than it allows.

    Parameters
    ----------
    source : the hosts file.
    lab : whether it is a lab's; an external target must then be on this machine.
    resolve_name : network name of a host, by default from ~/.ssh/config.

    Raises
    ------
    StudyError : lists every refused host, key and treatment.
    """
    if inventory.replay is not None:  # no load is generated
        return
    if unlisted := list(_unlisted_targets(plan, inventory, lab, resolve_name)):
        raise StudyError(str(source), unlisted, EXTERNAL_HINT)
    if exceeded := list(_exceeded_limits(plan, inventory, resolve_name)):
        raise StudyError(str(source), exceeded, LIMITS_HINT)


def _unlisted_targets(plan: Plan, inventory: HostsFile, lab: bool, resolve_name: NameResolver) -> Iterator[SpecProblem]:
    """Yield the external addresses that are neither a host nor listed, with their treatments."""
    targets: dict[tuple[str, str], list[str]] = {}
    for treatment in plan.treatments:
        for role, setting in _loaded_roles(plan, treatment):
            if setting.external and not _is_listed(setting.external, inventory, lab, resolve_name):
                targets.setdefault((role, setting.external), []).append(treatment)
    for (role, address), treatments in targets.items():
        where = "in the lab, and is not on this machine" if lab else "not in the hosts file"
        yield SpecProblem(
            f"roles.{role}", f"{address} is {where} ({_treatments_text(treatments)}): no load is put on it"
        )


def _is_listed(external: str, inventory: HostsFile, lab: bool, resolve_name: NameResolver) -> bool:
    address = external.rpartition(":")[0].lower()
    if lab:
        return _is_loopback(address) or bool(_aliases_of_address(address, inventory, resolve_name))
    listed = {target.lower() for target in inventory.external}
    return external.lower() in listed or bool(_aliases_of_address(address, inventory, resolve_name))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _aliases_of_address(address: str, inventory: HostsFile, resolve_name: NameResolver) -> list[str]:
    return [
        a
        for a, entry in inventory.hosts.items()
        if (entry.address or resolve_name(a, entry)).lower() == address.lower()
    ]


def _loaded_roles(plan: Plan, treatment: str) -> Iterator[tuple[str, Setting]]:
    """Yield the roles that receive requests under a treatment, with their settings."""
    study = plan.study
    pending, visited = [study.target_of(treatment)], set[str]()
    while pending:
        role = pending.pop(0)
        if role not in visited:
            visited.add(role)
            setting = study.setting(treatment, role)
            yield role, setting
            pending += setting.backends


def _loaded_hosts(plan: Plan, treatment: str, inventory: HostsFile, resolve_name: NameResolver) -> list[str]:
    """Return the aliases of the hosts that receive requests under a treatment."""
    first, loaded = plan.study.target_of(treatment), dict[str, None]()
    for role, setting in _loaded_roles(plan, treatment):
        aliases = hosts_for_role(inventory, role, setting) if setting.service else []
        if setting.external:
            aliases = _aliases_of_address(setting.external.rpartition(":")[0], inventory, resolve_name)
        # the first host of the target role gets the load
        loaded |= dict.fromkeys(aliases[:1] if role == first and setting.service else aliases)
    return list(loaded)


def _exceeded_limits(plan: Plan, inventory: HostsFile, resolve_name: NameResolver) -> Iterator[SpecProblem]:
    """Yield exceeded limits of hosts, each once for every load, with its treatments."""
    exceeded: dict[tuple[str, str], list[str]] = {}
    for treatment in plan.treatments:
        work = plan.study.workload_of(treatment)
        for alias in _loaded_hosts(plan, treatment, inventory, resolve_name):
            for key, message in _limits_exceeded_by(work, inventory.hosts[alias]):
                exceeded.setdefault((f"hosts.{alias}.{key}", message), []).append(treatment)
    for (path, message), treatments in exceeded.items():
        yield SpecProblem(path, f"{message} ({_treatments_text(treatments)})")


def _limits_exceeded_by(work: Workload, entry: HostEntry) -> Iterator[tuple[str, str]]:
    """Yield the limits that a load exceeds, with a message."""
    rate, max_rate = work.rate_per_s, entry.max_requests_per_s
    if max_rate is not None and rate is None:
        remedy = "use an open load (workload.model = 'open' with rate_per_s), or take the cap away"
        yield "max_requests_per_s", f"{max_rate:g} at most, but a closed load has no rate of its own: {remedy}"
    elif max_rate is not None and rate is not None and rate > max_rate:
        yield "max_requests_per_s", f"{max_rate:g} at most, the load is of {rate:g} requests per second"
    if entry.max_connections is not None and _max_connections(work) > entry.max_connections:
        yield "max_connections", f"{entry.max_connections} at most, the load may have {_max_connections(work):,} open"
    if entry.max_load_s is not None and longest_load_s(work) > entry.max_load_s:
        yield "max_load_s", f"{entry.max_load_s:g} s at most, the load of a trial may last {longest_load_s(work):g} s"


def _max_connections(work: Workload) -> int:
    """Return the largest number of open connections of a load."""
    if not getattr(base.load_tool(work.tool), "opens_connections_at_rate", False):
        return work.connections
    return math.ceil((work.rate_per_s or 0.0) * work.timeout_s)


def longest_load_s(work: Workload) -> float:
    """Return the longest duration of a trial's load, seconds: warm-up, and load until it counts as hung."""
    return work.warmup_s + work.duration_s * (HANG_FACTOR if work.requests is not None else 1)


def _treatments_text(treatments: list[str]) -> str:
    return f"treatment{'s' if len(treatments) > 1 else ''} {', '.join(treatments)}"


MAX_NAMED_TREATMENTS = 3


def _role_settings(plan: Plan, role: str) -> list[Setting]:
    return [plan.study.setting(treatment, role) for treatment in plan.treatments]


def needed_hosts(plan: Plan) -> dict[str, int]:
    """Return the number of hosts that each role of a plan needs."""
    return {role: count for role in plan.study.roles if (count := _needed_host_count(plan, role))}


def needed_cpus(plan: Plan) -> int:
    """Return how many CPUs each host must have for the CPU numbers in a plan."""
    named = [setting.cpus for role in plan.study.roles for setting in _role_settings(plan, role) if setting.service]
    return max((max(cpu_list(cpus)) + 1 for cpus in named if cpus != "all"), default=1)


def _needed_host_count(plan: Plan, role: str) -> int:
    if _is_only_monitored(plan.study.roles[role]):
        return 1
    counts = [setting.hosts for setting in _role_settings(plan, role) if setting.service]
    return max(counts, default=0)


def _is_only_monitored(role: Role) -> bool:
    """Tell whether no service runs in a role (drivers, monitored hosts)."""
    return not any(setting.is_present for setting in (role, *map(role.variant_setting, role.variants)))


def used_hosts(plan: Plan, inventory: HostsFile) -> list[str]:
    """Return the aliases of the hosts that the plan uses, in the order of the hosts file."""
    used: set[str] = set()
    for role, spec in plan.study.roles.items():
        if _is_only_monitored(spec):
            used.update(inventory.with_role(role))
        for setting in _role_settings(plan, role):
            used.update(hosts_for_role(inventory, role, setting) if setting.service else ())
    return [alias for alias in inventory.hosts if alias in used]


def check_roles(plan: Plan, inventory: HostsFile) -> None:
    """Raise PreflightError when a role has too few hosts; it lists every such role."""
    missing = missing_roles(plan, inventory)
    if missing:
        roles_by_host = "; ".join(f"{a}: {', '.join(entry.roles)}" for a, entry in inventory.hosts.items()) or "no host"
        raise PreflightError(
            [f"{message} (hosts file: {roles_by_host})" for message in missing.values()],
            f"give a host the role in the hosts file: roles = [{', '.join(map(json.dumps, missing))}]",
        )


def missing_roles(plan: Plan, inventory: HostsFile) -> dict[str, str]:
    """Return role -> what the hosts file lacks of it."""
    return dict(_missing_roles(plan, inventory))


def _missing_roles(plan: Plan, inventory: HostsFile) -> Iterator[tuple[str, str]]:
    for role, count in needed_hosts(plan).items():
        available = len(inventory.with_role(role))
        if not available:
            yield role, f"no host has the role {role!r}"
        elif available < count:
            yield (
                role,
                f"{available} {'host has' if available == 1 else 'hosts have'} the role {role!r}, {count} are needed",
            )


def unloaded_hosts(plan: Plan, inventory: HostsFile | None = None) -> Iterator[str]:
    """Yield notes on hosts that get no load; `inventory`: hosts that are no lab of ours."""
    alone: dict[str, list[str]] = {}
    for name in plan.treatments:
        target = plan.study.target_of(name)
        if plan.study.setting(name, target).service and plan.study.setting(name, target).hosts > 1:
            alone.setdefault(target, []).append(name)
    for role, names in alone.items():
        of = ", ".join(names[:MAX_NAMED_TREATMENTS]) + (
            f" and {len(names) - MAX_NAMED_TREATMENTS} more" if names[MAX_NAMED_TREATMENTS:] else ""
        )
        yield f"all load goes to the first host of the role {role!r}, as nothing stands in front of them: {of}"
    for role, count in needed_hosts(plan).items() if inventory else ():
        spare = (
            inventory.with_role(role)[count:] if inventory and not _is_only_monitored(plan.study.roles[role]) else []
        )
        if spare:
            yield f"of the role {role!r} the study takes {count} (its key `hosts`): {', '.join(spare)} left out"


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
