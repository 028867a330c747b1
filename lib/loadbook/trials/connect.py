"""From a hosts file (of real hosts or of a recording), or the lab, to the bench: who drives, who serves, the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from loadbook.core.errors import UsageError
from loadbook.design.plan import Plan
from loadbook.hosts import connect
from loadbook.hosts.host import Host
from loadbook.hosts.inventory import HostsFile, read_hosts
from loadbook.hosts.replay import Recording, ReplayHost
from loadbook.hosts.tape import taped
from loadbook.records.layout import Layout
from loadbook.services import load_service
from loadbook.tools import registry
from loadbook.tools.base import Target
from loadbook.trials.bench import Bench, Seat
from loadbook.trials.preflight import check_roles
from loadbook.trials.studies import service_folders

THREADS = 16
HTTP_PORT = 80
LAB_RECORD = "lab.json"
MAX_SAID = 5


def make_bench(layout: Layout, plan: Plan, run: str, hosts_file: Path | None) -> Bench:
    """Return the bench of a run, its hosts opened; without a hosts file it is the lab's, brought up.

    Raises
    ------
    HostError : a host cannot be reached, or its key is not the trusted one.
    PreflightError, UsageError, ToolError : a role without a host, an unknown service, tool or target.
    """
    path = hosts_file or _lab_up(layout)
    inventory = read_hosts(path)
    check_roles(plan, inventory)
    recording = _recording(path, inventory, plan)
    seats = seat_all(plan, inventory, service_folders(layout))
    aim, scheme = target_of(plan, seats), plan.study.workload.scheme
    used = [a for a, entry in inventory.hosts.items() if set(entry.roles) & set(plan.study.roles)]
    if recording is None:
        hosts = _opened(lambda alias: connect(path, alias, run, hosts=inventory), used)
    else:
        hosts = _opened(lambda alias: _replayed(layout, recording, alias, inventory, run), used)
    return Bench(
        plan=plan,
        run=run,
        lab=(path.parent / LAB_RECORD).is_file(),
        hosts={alias: taped(host, run) for alias, host in hosts.items()},
        inventory=inventory,
        drivers=tuple(inventory.with_role(plan.study.workload.role)),
        seats=seats,
        target=aim if isinstance(aim, Target) else Target(hosts[aim.alias].address, aim.port, scheme),
        tools={name: registry.load(name) for name in plan.study.tools_of(plan.treatments)},
        pool=ThreadPoolExecutor(THREADS, thread_name_prefix="bench"),
        replay=recording.id if recording else None,
    )


def _lab_up(layout: Layout) -> Path:
    from loadbook.hosts.lab import Lab

    lab = Lab.at(layout.lab)
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


def _replayed(layout: Layout, recording: Recording, alias: str, inventory: HostsFile, run: str) -> Host:
    host = ReplayHost(recording, alias, inventory.hosts[alias].address or alias, layout.replay / f"{run}-{alias}", run)
    host.open()
    return host


def _opened(opened: Callable[[str], Host], aliases: Sequence[str]) -> dict[str, Host]:
    """Open all hosts, one after the other: the first key that is not trusted ends it before anything is run."""
    hosts: dict[str, Host] = {}
    try:
        for alias in aliases:
            hosts[alias] = opened(alias)
    except BaseException:
        for host in hosts.values():
            host.close()
        raise
    return hosts


def seat_all(plan: Plan, inventory: HostsFile, folders: Sequence[Path]) -> tuple[Seat, ...]:
    """Place every service of the study on the hosts of its role; two on one host get ports one apart."""
    taken: dict[str, int] = {}
    seats = []
    for role, spec in plan.study.roles.items():
        for alias in inventory.with_role(role) if spec.service else []:
            port = inventory.hosts[alias].service_port + taken.get(alias, 0)
            taken[alias] = taken.get(alias, 0) + 1
            seats.append(Seat(role, alias, load_service(str(spec.service), folders), port))
    return tuple(seats)


def target_of(plan: Plan, seats: Sequence[Seat]) -> Seat | Target:
    """Return what the load is aimed at: the first service of the workload's target role, or its external address."""
    role = plan.study.workload.target
    external = plan.study.roles[role].external
    if external is not None:
        address, _, port = external.partition(":")
        return Target(address, int(port or HTTP_PORT), plan.study.workload.scheme)
    seat = next((seat for seat in seats if seat.role == role), None)
    if seat is None:
        raise UsageError(f"the load's target {role!r} has neither a service nor an external address")
    return seat
