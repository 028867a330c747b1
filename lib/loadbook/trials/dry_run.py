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
from loadbook.hosts.host_lock import DEFAULT_LOCK_FILE
from loadbook.hosts.inventory import HostsFile, read_hosts
from loadbook.hosts.lab_plan import lab_kind
from loadbook.hosts.shell import cpu_list
from loadbook.hosts.tape import record_host
from loadbook.records.layout import Layout
from loadbook.trials.bench import Testbed
from loadbook.trials.caps import check_load_allowed
from loadbook.trials.changes import uses_delay, host_changes_of, missing_permissions
from loadbook.trials.connect import build_testbed
from loadbook.trials.disturbed import BACKGROUND_LOAD_SCRIPT
from loadbook.trials.disturbed import script_arguments as others
from loadbook.trials.dry_steps import RUN, TOKEN, DryRunStep, launch_check_steps, attempt_steps, build_steps, change_steps, configure_steps, restore_step
from loadbook.trials.preflight import CHECK_LEASE_S, PREFLIGHT_SCRIPT, hex_address, load_launches, needed_ports
from loadbook.trials.roles import missing_roles, used_hosts
from loadbook.trials.stage import make_instance


@dataclass
class DryRunPart:
    """One part of a run: its phases, each with its steps; `missing` says why it cannot be done on these hosts."""

    title: str
    trials: int = 0
    phases: list[tuple[str, list[DryRunStep]]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def dry_run(layout: Layout, plan: Plan, hosts_file: Path) -> tuple[Testbed | None, list[DryRunPart]]:
    """Return the testbed, hosts not opened (None when no treatment can be done), and the parts of the run in order.

    Raises UsageError and StudyError for a hosts file that cannot be used; no host is asked anything.
    """
    inventory = read_hosts(hosts_file)
    check_load_allowed(plan, inventory, hosts_file, lab=bool(lab_kind(hosts_file)))
    missing = {name: missing_for_treatment(layout, plan, name, hosts_file, inventory) for name in plan.treatments}
    able = tuple(name for name in plan.treatments if not missing[name])
    testbed = _unopened_testbed(layout, replace(plan, treatments=able), hosts_file, inventory) if able else None
    parts = [_treatment_part(testbed, plan, name, missing[name]) for name in plan.treatments]
    if testbed is None:
        return None, parts
    before = DryRunPart("once, before the first trial", phases=[("check everything", list(_preflight_steps(testbed)))])
    after = DryRunPart("once, after the last trial", phases=[("facts of the hosts", list(_facts_steps(testbed)))])
    return testbed, [before, *parts, after]


def missing_for_treatment(layout: Layout, plan: Plan, treatment: str, path: Path, inventory: HostsFile) -> list[str]:
    """Return what a treatment lacks on the hosts of a file, as far as the file can tell."""
    alone = replace(plan, treatments=(treatment,))
    missing = list(missing_roles(alone, inventory).values())
    if missing:
        return missing
    try:
        testbed = _unopened_testbed(layout, alone, path, inventory)
        attempt_steps(testbed, treatment)
    except LoadbookError as error:
        return [error.message]
    return missing_permissions([testbed.deployment(treatment)])


def _unopened_testbed(layout: Layout, plan: Plan, path: Path, inventory: HostsFile) -> Testbed:
    """Return the testbed of hosts that are known but not opened; what only they could tell is assumed."""
    hosts = {alias: record_host(remote_host(path, alias, RUN, hosts=inventory), RUN) for alias in used_hosts(plan, inventory)}
    drivers = inventory.with_role(plan.study.workload.role)
    userspace_delay = uses_delay(plan.study, plan.treatments) and not all(
        "tc" in inventory.hosts[alias].may for alias in drivers
    )
    testbed = build_testbed(layout, plan, RUN, hosts, inventory, userspace_delay=userspace_delay)
    testbed.host_cpus = dict.fromkeys(hosts, tuple(range(_min_cpus(plan))))
    return testbed


def _min_cpus(plan: Plan) -> int:
    """Return how many CPUs hosts must have at least, by what the treatments name: so many are assumed."""
    masks = {plan.study.setting(name, role).cpus for name in plan.treatments for role in plan.study.roles}
    return max((max(cpu_list(mask)) + 1 for mask in masks - {"all"}), default=1)


def _treatment_part(testbed: Testbed | None, plan: Plan, name: str, missing: list[str]) -> DryRunPart:
    title = f"treatment {name}" + (f" ({label})" if (label := plan.study.label(name)) != name else "")
    trials = sum(trial.treatment == name for trial in plan.trials)
    return DryRunPart(title, trials, [] if testbed is None or missing else attempt_steps(testbed, name), missing)


def _preflight_steps(testbed: Testbed) -> Iterator[DryRunStep]:
    """Yield what opening the hosts and `trials.preflight` do."""
    name, launcher = jobs.launcher_script()
    for alias, host in testbed.hosts.items():
        yield DryRunStep(alias, "login", (host.workdir,), "makes this folder, and keeps to the CPUs of the hosts file")
        yield DryRunStep(alias, "put", (f"{host.workdir}/{name}",), "starts and ends jobs", launcher)
        lock = testbed.inventory.hosts[alias].lock or DEFAULT_LOCK_FILE
        yield DryRunStep(alias, "lock", (lock,), "for the whole run; refused, with its name, where another run holds it")
    for alias, host in testbed.hosts.items():
        args = (PREFLIGHT_SCRIPT, host.workdir, hex_address(host.address), *needed_ports(testbed, alias))
        yield restore_step(alias)
        yield DryRunStep(alias, "script", (BACKGROUND_LOAD_SCRIPT, *others(testbed, alias)), "does anybody else use it?")
        yield DryRunStep(alias, "script", args, "free disk, CPUs, and that nothing listens on its ports")
    for alias in testbed.drivers:
        for tool in testbed.tools.values():
            yield DryRunStep(alias, "run", tool.version_argv, f"version of {tool.name}")
        for launch in load_launches(testbed):
            yield from launch_check_steps(alias, launch)
    yield from _service_check_steps(testbed)
    yield from _change_check_steps(testbed)
    yield from _facts_steps(testbed)


def _service_check_steps(testbed: Testbed) -> Iterator[DryRunStep]:
    """Yield how versions are asked for, and every configuration is checked once."""
    for placement in testbed.placements:
        if placement.spec.build:
            yield from build_steps(placement, testbed.hosts[placement.alias].workdir)
        if placement.spec.version:
            yield DryRunStep(placement.alias, "run", placement.spec.version.argv, f"version of {placement.spec.name}")
        seen = set()
        for deployment in map(testbed.deployment, testbed.plan.treatments):
            if placement not in deployment.placements:
                continue
            instance = make_instance(deployment, placement, f"{RUN}-preflight", CHECK_LEASE_S, TOKEN)
            if instance.rendered.config_sha256 not in seen:
                seen.add(instance.rendered.config_sha256)
                yield from configure_steps(placement, instance)
                yield DryRunStep(placement.alias, "remove", (instance.rendered.context.dir,))


def _change_check_steps(testbed: Testbed) -> Iterator[DryRunStep]:
    """Yield how every change of a host is made once and put back."""
    name, seen = f"{RUN}-preflight-guard", set[str]()
    for alias in testbed.drivers if uses_delay(testbed.plan.study, testbed.plan.treatments) else ():
        if "tc" in testbed.inventory.hosts[alias].may:
            yield DryRunStep(alias, "script", (guard.NETEM_SCRIPT,), "can its kernel delay? If not: the service delay-line instead")
    for deployment in map(testbed.deployment, testbed.plan.treatments):
        changes = repr(sorted(host_changes_of(deployment).items()))
        if changes not in seen:
            seen.add(changes)
            for step in change_steps(deployment, name, CHECK_LEASE_S):
                yield step
                yield DryRunStep(step.alias, "stop", (name,), "puts back what was changed")
                yield restore_step(step.alias, name)


def _facts_steps(testbed: Testbed) -> Iterator[DryRunStep]:
    text = files("loadbook.hosts").joinpath("facts.sh").read_text(encoding="utf-8")
    for alias in testbed.hosts:
        yield DryRunStep(alias, "script", (text, *SYSCTLS), "kernel, CPU, limits, settings")
