"""From a hosts file (of real hosts or of a recording), or the lab, to the testbed: who drives, who serves, the target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from loadbook.core.errors import UsageError
from loadbook.design.plan import Plan
from loadbook.hosts import connect
from loadbook.hosts.host import Host
from loadbook.hosts.host_lock import LockRequest
from loadbook.hosts.inventory import HostsFile, read_hosts
from loadbook.hosts.lab_plan import lab_kind
from loadbook.hosts.replay import RecordedRun, ReplayHost
from loadbook.hosts.tape import RecordingHost, record_host
from loadbook.records.layout import Layout
from loadbook.services import ServiceSpec, load_service
from loadbook.tools import registry
from loadbook.trials.bench import Testbed
from loadbook.trials.caps import check_load_allowed
from loadbook.trials.changes import needs_userspace_delay
from loadbook.trials.roles import check_roles, needed_cpus, needed_hosts, used_hosts
from loadbook.trials.stage import DELAY_SERVICE, place_services
from loadbook.trials.studies import service_folders

THREADS = 16
MAX_NAMED_TRIALS = 5


def resolve_hosts_file(layout: Layout, plan: Plan, hosts_file: Path | None) -> Path:
    """Return the hosts file that is meant: the lab's, which is brought up, where none is given."""
    return hosts_file or _start_lab(layout, plan)


def open_testbed(layout: Layout, plan: Plan, run: str, path: Path, break_lock: str = "") -> Testbed:
    """Return the testbed of a run, its hosts opened and held.

    Parameters
    ----------
    break_lock : id of an owner whose sessions on these hosts are ended first.

    Raises
    ------
    InUseError : another run uses a host; none is held then.
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
        return build_testbed(layout, plan, run, hosts, inventory, userspace_delay=userspace_delay, lab=lab_kind(path), replay=replayed)


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
) -> Testbed:
    """Return the testbed of these hosts; `userspace_delay`: a delay is made in userspace. Nothing is asked of any host."""
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
        tools={name: registry.load_tool(name) for name in plan.study.tools_of(plan.treatments)},
        pool=ThreadPoolExecutor(THREADS, thread_name_prefix="bench"),
        replayed_run=replay.id if replay else None,
    )


def _load_services(plan: Plan, folders: Sequence[Path], *, userspace_delay: bool) -> dict[str, ServiceSpec]:
    """Return every service that a treatment runs, by name, and the delay in userspace where it is needed."""
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
    """Open all hosts, one after the other: the first key that is not trusted ends it before anything is run."""
    hosts: dict[str, Host] = {}
    with _close_on_error(hosts.values()):
        for alias in aliases:
            hosts[alias] = open_host(alias)
    return hosts


@contextmanager
def _close_on_error(hosts: Iterable[Host]) -> Iterator[None]:
    """Close the hosts that are open by then when the block fails: a session that stayed would keep others away."""
    try:
        yield
    except BaseException:
        for host in hosts:
            host.close()
        raise
