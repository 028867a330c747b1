"""From a hosts file (of real hosts or of a recording), or the lab, to the bench: who drives, who serves, the target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from loadbook.core.errors import UsageError
from loadbook.design.plan import Plan
from loadbook.hosts import connect
from loadbook.hosts.host import Host
from loadbook.hosts.host_lock import Claim
from loadbook.hosts.inventory import HostsFile, read_hosts
from loadbook.hosts.lab_plan import lab_kind
from loadbook.hosts.replay import Recording, ReplayHost
from loadbook.hosts.tape import TapedHost, taped
from loadbook.records.layout import Layout
from loadbook.services import ServiceSpec, load_service
from loadbook.tools import registry
from loadbook.trials.bench import Bench
from loadbook.trials.caps import must_be_allowed
from loadbook.trials.changes import needs_line
from loadbook.trials.roles import check_roles, needed_cpus, needed_hosts, used_hosts
from loadbook.trials.stage import LINE_SERVICE, seat_all
from loadbook.trials.studies import service_folders

THREADS = 16
MAX_SAID = 5


def hosts_path(layout: Layout, plan: Plan, hosts_file: Path | None) -> Path:
    """Return the hosts file that is meant: the lab's, which is brought up, where none is given."""
    return hosts_file or _lab_up(layout, plan)


def make_bench(layout: Layout, plan: Plan, run: str, path: Path, break_lock: str = "") -> Bench:
    """Return the bench of a run, its hosts opened and held.

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
    must_be_allowed(plan, inventory, path, lab=bool(lab_kind(path)))
    check_roles(plan, inventory)
    recording = _recording(path, inventory, plan)
    used = used_hosts(plan, inventory)
    claim = Claim(plan.study.name, run, evict=break_lock)
    if recording is None:
        opened = _opened(lambda alias: connect(path, alias, run, hosts=inventory, claim=claim), used)
    else:
        name = f"{plan.study.name}-{run}"  # two studies may begin in one second
        opened = _opened(
            lambda alias: _replayed(layout.replay / f"{name}-{alias}", recording, alias, inventory, run), used
        )
    hosts = {alias: taped(host, run) for alias, host in opened.items()}
    with _closed_on_error(hosts.values()):
        lined = needs_line(plan, hosts, inventory, inventory.with_role(plan.study.workload.role))
        return bench_of(layout, plan, run, hosts, inventory, lined=lined, lab=lab_kind(path), replay=recording)


def bench_of(
    layout: Layout,
    plan: Plan,
    run: str,
    hosts: dict[str, TapedHost],
    inventory: HostsFile,
    *,
    lined: bool,
    lab: str = "",
    replay: Recording | None = None,
) -> Bench:
    """Return the bench of these hosts; `lined`: a delay is made in userspace. Nothing is asked of any host."""
    drivers = tuple(inventory.with_role(plan.study.workload.role))
    specs = _services(plan, service_folders(layout), lined=lined)
    return Bench(
        plan=plan,
        run=run,
        lab=lab,
        hosts=hosts,
        inventory=inventory,
        drivers=drivers,
        seats=seat_all(plan.study, plan.treatments, inventory, specs, drivers),
        tools={name: registry.load(name) for name in plan.study.tools_of(plan.treatments)},
        pool=ThreadPoolExecutor(THREADS, thread_name_prefix="bench"),
        replay=replay.id if replay else None,
    )


def _services(plan: Plan, folders: Sequence[Path], *, lined: bool) -> dict[str, ServiceSpec]:
    """Return every service that a treatment runs, by name, and the delay in userspace where it is needed."""
    study = plan.study
    names = {study.setting(treatment, role).service for treatment in plan.treatments for role in study.roles}
    wanted = sorted(name for name in names if name) + ([LINE_SERVICE] if lined else [])
    return {name: load_service(name, folders) for name in wanted}


def _lab_up(layout: Layout, plan: Plan) -> Path:
    from loadbook.hosts.lab import Lab

    lab = Lab.at(layout.lab, needs=needed_hosts(plan), least=needed_cpus(plan))
    lab.up()
    return lab.hosts_file


def _recording(path: Path, inventory: HostsFile, plan: Plan) -> Recording | None:
    """Return the recorded run that a hosts file plays back, None for real hosts."""
    if inventory.replay is None:
        return None
    recording = Recording((path.absolute().parent / inventory.replay).resolve())
    missing = recording.missing(plan.trials)
    if missing:
        words = [f"{t.trial}: {t.treatment} in block {t.block}" for t in missing[:MAX_SAID]]
        more = [f"and {len(missing) - MAX_SAID} more"] if len(missing) > MAX_SAID else []
        lines = "\n  ".join([f"{path} plays run {recording.id} back, which does not hold:", *words, *more])
        raise UsageError(lines, "ask for the treatments and blocks of that run (--subset, --blocks)")
    return recording


def _replayed(folder: Path, recording: Recording, alias: str, inventory: HostsFile, run: str) -> Host:
    host = ReplayHost(recording, alias, inventory.hosts[alias].address or alias, folder, run)
    host.open()
    return host


def _opened(opened: Callable[[str], Host], aliases: Sequence[str]) -> dict[str, Host]:
    """Open all hosts, one after the other: the first key that is not trusted ends it before anything is run."""
    hosts: dict[str, Host] = {}
    with _closed_on_error(hosts.values()):
        for alias in aliases:
            hosts[alias] = opened(alias)
    return hosts


@contextmanager
def _closed_on_error(hosts: Iterable[Host]) -> Iterator[None]:
    """Close the hosts that are open by then when the block fails: a session that stayed would keep others away."""
    try:
        yield
    except BaseException:
        for host in hosts:
            host.close()
        raise
