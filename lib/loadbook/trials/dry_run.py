"""Everything that a run would do on its hosts, part by part, without touching one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

from loadbook.core.errors import LoadbookError
from loadbook.design.plan import Plan
from loadbook.hosts import guard, jobs, remote_host
from loadbook.hosts.facts import SYSCTLS
from loadbook.hosts.host_lock import LOCK
from loadbook.hosts.inventory import HostsFile, read_hosts
from loadbook.hosts.lab_plan import lab_kind
from loadbook.hosts.shell import cpu_list
from loadbook.hosts.tape import taped
from loadbook.records.layout import Layout
from loadbook.trials.bench import Bench
from loadbook.trials.caps import must_be_allowed
from loadbook.trials.changes import asks_for_delay, changes_of, forbidden
from loadbook.trials.connect import bench_of
from loadbook.trials.disturbed import SCRIPT
from loadbook.trials.disturbed import words as others
from loadbook.trials.dry_steps import RUN, TOKEN, Step, allowed, attempt_steps, built, changed, configured, put_back
from loadbook.trials.preflight import CHECK_LEASE_S, STATE, hex_address, load_launches, needed_ports
from loadbook.trials.roles import lacking, used_hosts
from loadbook.trials.stage import make_instance


@dataclass
class Part:
    """One part of a run: its phases, each with its steps; `lacks` says why it cannot be done on these hosts."""

    title: str
    trials: int = 0
    phases: list[tuple[str, list[Step]]] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)


def dry_run(layout: Layout, plan: Plan, hosts_file: Path) -> tuple[Bench | None, list[Part]]:
    """Return the bench, hosts not opened (None when no treatment can be done), and the parts of the run in order.

    Raises UsageError and StudyError for a hosts file that cannot be used; no host is asked anything.
    """
    inventory = read_hosts(hosts_file)
    must_be_allowed(plan, inventory, hosts_file, lab=bool(lab_kind(hosts_file)))
    lacks = {name: lacks_of(layout, plan, name, hosts_file, inventory) for name in plan.treatments}
    able = tuple(name for name in plan.treatments if not lacks[name])
    bench = _bench(layout, replace(plan, treatments=able), hosts_file, inventory) if able else None
    parts = [_treatment(bench, plan, name, lacks[name]) for name in plan.treatments]
    if bench is None:
        return None, parts
    before = Part("once, before the first trial", phases=[("check everything", list(_before(bench)))])
    after = Part("once, after the last trial", phases=[("facts of the hosts", list(_facts(bench)))])
    return bench, [before, *parts, after]


def lacks_of(layout: Layout, plan: Plan, treatment: str, path: Path, inventory: HostsFile) -> list[str]:
    """Return what a treatment lacks on the hosts of a file, as far as the file can tell."""
    alone = replace(plan, treatments=(treatment,))
    missing = list(lacking(alone, inventory).values())
    if missing:
        return missing
    try:
        bench = _bench(layout, alone, path, inventory)
        attempt_steps(bench, treatment)
    except LoadbookError as error:
        return [error.message]
    return forbidden([bench.stage(treatment)])


def _bench(layout: Layout, plan: Plan, path: Path, inventory: HostsFile) -> Bench:
    """Return the bench of hosts that are known but not opened; what only they could tell is assumed."""
    hosts = {alias: taped(remote_host(path, alias, RUN, hosts=inventory), RUN) for alias in used_hosts(plan, inventory)}
    drivers = inventory.with_role(plan.study.workload.role)
    lined = asks_for_delay(plan.study, plan.treatments) and not all(
        "tc" in inventory.hosts[alias].may for alias in drivers
    )
    bench = bench_of(layout, plan, RUN, hosts, inventory, lined=lined)
    bench.host_cpus = dict.fromkeys(hosts, tuple(range(_named_cpus(plan))))
    return bench


def _named_cpus(plan: Plan) -> int:
    """Return how many CPUs hosts must have at least, by what the treatments name: so many are assumed."""
    masks = {plan.study.setting(name, role).cpus for name in plan.treatments for role in plan.study.roles}
    return max((max(cpu_list(mask)) + 1 for mask in masks - {"all"}), default=1)


def _treatment(bench: Bench | None, plan: Plan, name: str, lacks: list[str]) -> Part:
    title = f"treatment {name}" + (f" ({label})" if (label := plan.study.label(name)) != name else "")
    trials = sum(trial.treatment == name for trial in plan.trials)
    return Part(title, trials, [] if bench is None or lacks else attempt_steps(bench, name), lacks)


def _before(bench: Bench) -> Iterator[Step]:
    """Yield what opening the hosts and `trials.preflight` do."""
    name, launcher = jobs.launcher()
    for alias, host in bench.hosts.items():
        yield Step(alias, "login", (host.workdir,), "makes this folder, and keeps to the CPUs of the hosts file")
        yield Step(alias, "put", (f"{host.workdir}/{name}",), "starts and ends jobs", launcher)
        lock = bench.inventory.hosts[alias].lock or LOCK
        yield Step(alias, "lock", (lock,), "for the whole run; refused, with its name, where another run holds it")
    for alias, host in bench.hosts.items():
        words = (STATE, host.workdir, hex_address(host.address), *needed_ports(bench, alias))
        yield put_back(alias)
        yield Step(alias, "script", (SCRIPT, *others(bench, alias)), "does anybody else use it?")
        yield Step(alias, "script", words, "free disk, CPUs, and that nothing listens on its ports")
    for alias in bench.drivers:
        for tool in bench.tools.values():
            yield Step(alias, "run", tool.version_argv, f"version of {tool.name}")
        for launch in load_launches(bench):
            yield from allowed(alias, launch)
    yield from _services(bench)
    yield from _changes(bench)
    yield from _facts(bench)


def _services(bench: Bench) -> Iterator[Step]:
    """Yield how versions are asked for, and every configuration is checked once."""
    for seat in bench.seats:
        if seat.spec.build:
            yield from built(seat, bench.hosts[seat.alias].workdir)
        if seat.spec.version:
            yield Step(seat.alias, "run", seat.spec.version.argv, f"version of {seat.spec.name}")
        seen = set()
        for stage in map(bench.stage, bench.plan.treatments):
            if seat not in stage.seats:
                continue
            instance = make_instance(stage, seat, f"{RUN}-preflight", CHECK_LEASE_S, TOKEN)
            if instance.rendered.config_sha256 not in seen:
                seen.add(instance.rendered.config_sha256)
                yield from configured(seat, instance)
                yield Step(seat.alias, "remove", (instance.rendered.place.dir,))


def _changes(bench: Bench) -> Iterator[Step]:
    """Yield how every change of a host is made once and put back."""
    name, seen = f"{RUN}-preflight-guard", set[str]()
    for alias in bench.drivers if asks_for_delay(bench.plan.study, bench.plan.treatments) else ():
        if "tc" in bench.inventory.hosts[alias].may:
            yield Step(alias, "script", (guard.NETEM,), "can its kernel delay? If not: the service delay-line instead")
    for stage in map(bench.stage, bench.plan.treatments):
        wanted = repr(sorted(changes_of(stage).items()))
        if wanted not in seen:
            seen.add(wanted)
            for step in changed(stage, name, CHECK_LEASE_S):
                yield step
                yield Step(step.alias, "stop", (name,), "puts back what was changed")
                yield put_back(step.alias, name)


def _facts(bench: Bench) -> Iterator[Step]:
    text = files("loadbook.hosts").joinpath("facts.sh").read_text(encoding="utf-8")
    for alias in bench.hosts:
        yield Step(alias, "script", (text, *SYSCTLS), "kernel, CPU, limits, settings")
