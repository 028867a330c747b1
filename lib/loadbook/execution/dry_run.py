"""What one attempt does on its hosts, step by step, read off the objects that it uses; nothing is done.

The order is that of `trial.Attempt`; tests hold it against what recorded and real runs asked their hosts.

Everything that a run would do on its hosts, part by part, without touching one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from loadbook.core.errors import LoadbookError
from loadbook.execution.attempt import Attempt
from loadbook.execution.deployment import Deployment, Placement, changes_job_name, make_instance
from loadbook.execution.host_changes import host_changes_of, missing_permissions, uses_delay
from loadbook.execution.host_state import HOST_STATE_SCRIPT
from loadbook.execution.load import FIRST_STEP
from loadbook.execution.preflight import CHECK_LEASE_S, PREFLIGHT_SCRIPT, hex_address, load_launches, needed_ports
from loadbook.execution.session import BACKGROUND_LOAD_SCRIPT
from loadbook.execution.session import script_arguments as others
from loadbook.execution.testbed import Testbed, build_testbed, check_load_allowed, missing_roles, used_hosts
from loadbook.hosts import jobs, rollback
from loadbook.hosts.facts import SYSCTLS
from loadbook.hosts.host import Job
from loadbook.hosts.inventory import HostsFile, read_hosts
from loadbook.hosts.lab import lab_kind
from loadbook.hosts.lock import DEFAULT_LOCK_FILE
from loadbook.hosts.remote import remote_host
from loadbook.hosts.replay import record_host
from loadbook.hosts.shell import cpu_list
from loadbook.services import Instance, SystemInstance
from loadbook.services.build import BUILD_STATE_SCRIPT, BUILT_FOLDER, build_command, program_folder_name
from loadbook.services.instance import LIMITS_SCRIPT, LISTENING_SCRIPT, LOG_TAIL_BYTES, PIDS_SCRIPT, LaunchOptions
from loadbook.services.spec import Probe
from loadbook.services.system import SYSTEM_START_TIMEOUT_S
from loadbook.store.paths import Layout
from loadbook.study.plan import Plan, PlannedTrial
from loadbook.tools.base import Target

RUN, TRIAL, TOKEN = "RUN", "t0001", "000000000000"
SAMPLER = "sampler"
CLOCK = ("date", "+%s.%N")


class DryRunStep(NamedTuple):
    """One thing that would be done on one host.

    `call` is login, lock, run, script, put, job, http, fetch, stop or remove; `words` are its argument list, path, URL
    or job's name (of a job: its name, then the argument list of one step); `data` is the content of a file that is put.
    """

    alias: str
    action: str
    args: tuple[str, ...]
    note: str = ""
    data: bytes = b""


Steps = Iterator[DryRunStep]


def attempt_steps(testbed: Testbed, treatment: str) -> list[tuple[str, list[DryRunStep]]]:
    """Return the phases of an attempt at a treatment, each with its steps in order."""
    attempt = Attempt(testbed, PlannedTrial(TRIAL, treatment, 1, 1), 1, Path())
    deployment, lease_s = attempt.deployment, attempt.host_changes.lease_s
    instances = {
        placement: make_instance(deployment, placement, attempt.stem, lease_s, TOKEN)
        for placement in deployment.placements
    }
    phases = {
        "back to rest": (
            DryRunStep(a, "script", (HOST_STATE_SCRIPT,), "until nothing is left of the last trial")
            for a in testbed.hosts
        ),
        "change the hosts": change_steps(deployment, changes_job_name(attempt.stem), lease_s),
        "put and check": (
            step for placement, instance in instances.items() for step in configure_steps(placement, instance)
        ),
        "start and prove": _start_steps(deployment, instances),
        "ask for the page, start the monitors": _monitor_steps(attempt),
        "load": _load_steps(attempt, instances),
        "after the load": _after_load_steps(attempt, instances),
        "collect": _collect_steps(attempt),
        "stop and put back": _stop_steps(attempt, instances),
    }
    return [(title, phase_steps) for title, steps in phases.items() if (phase_steps := list(steps))]


def change_steps(deployment: Deployment, name: str, lease_s: float) -> Steps:
    """Yield the jobs that change hosts for a treatment."""
    for alias, changes in host_changes_of(deployment).items():
        note = ", ".join(f"{key} {value}" for key, value in changes.to_record().items())
        address = deployment.testbed.hosts[alias].address
        yield from _job_steps(alias, rollback.changes_job(name, changes, lease_s, address), note)
        yield outcome_step(alias, name, rollback.CHANGES_TIMEOUT_S)


def outcome_step(alias: str, name: str, limit_s: float) -> DryRunStep:
    """Return how the job that changes a host is asked."""
    args = (rollback.OUTCOME_SCRIPT, jobs.job_folder(name), str(round(limit_s * 50)))
    return DryRunStep(alias, "script", args, "were the changes made, or refused?")


def restore_step(alias: str, name: str = "") -> DryRunStep:
    """Return how a host is asked what is left to be put back, by a job or by anybody."""
    return DryRunStep(
        alias,
        "script",
        (rollback.rollback_script(), *rollback.restore_args(name)),
        "puts back what is left changed, if anything",
    )


def configure_steps(placement: Placement, instance: Instance) -> Steps:
    """Yield what `Instance.check` does: build, files, the service's own commands."""
    launch = instance.launch
    if isinstance(instance, SystemInstance):
        for path, data in instance.new_files.items():
            yield DryRunStep(placement.alias, "put", (path,), placement.role, data)
        yield DryRunStep(
            placement.alias,
            "script",
            (rollback.rollback_script(), *instance.stage_args),
            _system_service_note(instance, "stage"),
        )
        return
    if instance.spec.build:
        yield from build_steps(placement, instance.host.workdir)
    yield from launch_check_steps(placement.alias, launch)
    for name, data in instance.rendered.files.items():
        yield DryRunStep(placement.alias, "put", (f"{instance.rendered.context.dir}/{name}",), placement.role, data)
    for name in ("prepare", "check", "effective"):
        if name in instance.rendered.commands:
            yield DryRunStep(placement.alias, "run", instance.rendered.commands[name], f"{placement.role}: {name}")


def launch_check_steps(alias: str, launch: LaunchOptions) -> Steps:
    """Yield how a host is asked whether a process may have what it is to be started with."""
    if launch.cpus or launch.nofile is not None:
        yield DryRunStep(alias, "script", (LIMITS_SCRIPT, launch.cpu_list), "may it have these CPUs and open files?")


def build_steps(placement: Placement, workdir: str) -> Steps:
    """Yield how a program that comes as sources is looked for and, when it is not there, built."""
    spec = placement.spec
    assert spec.build is not None
    folder = f"{workdir}/{BUILT_FOLDER}/{program_folder_name(spec)}"
    yield DryRunStep(
        placement.alias, "script", (BUILD_STATE_SCRIPT, folder, *spec.build.needs), f"is {spec.name} built?"
    )
    settings, argv = build_command(spec, "x86_64")
    args = ("env", *(f"{name}={value}" for name, value in settings.items()), *argv)
    yield DryRunStep(placement.alias, "run", spec.build.version.argv, "if not: what builds it there")
    yield DryRunStep(placement.alias, "run", args, "then, for its own machine; else here, and carried there")


def _start_steps(deployment: Deployment, instances: dict[Placement, Instance]) -> Steps:
    for alias in deployment.testbed.hosts:
        yield DryRunStep(alias, "run", CLOCK, "its clock against ours, ten times")
    for placement in (placement for placements in deployment.start_groups() for placement in placements):
        instance, client = instances[placement], deployment.client_host(placement).alias
        yield from _job_steps(placement.alias, instance.job, f"{placement.role}: {placement.spec.name}")
        if isinstance(instance, SystemInstance):
            yield from _reload_steps(placement, instance, client)
            continue
        if instance.spec.ready.tcp:
            yield DryRunStep(placement.alias, "script", (LISTENING_SCRIPT, f"{instance.port:04X}"), "until it listens")
        else:
            yield _probe_step(instance, placement, client, "ready", instance.spec.ready, "until it is ready")
        if instance.spec.prove and instance.rendered.contains_config_id:
            yield _probe_step(
                instance,
                placement,
                client,
                "prove",
                instance.spec.prove,
                f"must say {instance.rendered.expected['prove']}",
            )
        yield DryRunStep(
            placement.alias, "script", (PIDS_SCRIPT, "LEADER", instance.spec.process_name), "its processes"
        )


def _reload_steps(placement: Placement, instance: SystemInstance, client: str) -> Steps:
    """Yield what follows when the job of the host's own server replaces its files."""
    yield outcome_step(placement.alias, instance.name, SYSTEM_START_TIMEOUT_S)
    yield DryRunStep(placement.alias, "note", (), _system_service_note(instance, "start"))
    if "effective" in instance.rendered.commands:
        yield DryRunStep(
            placement.alias, "run", instance.rendered.commands["effective"], f"{placement.role}: effective"
        )
    if instance.spec.prove and instance.rendered.contains_config_id:
        yield _probe_step(
            instance,
            placement,
            client,
            "prove",
            instance.spec.prove,
            f"must say {instance.rendered.expected['prove']}, by and by",
        )
    else:
        yield _probe_step(instance, placement, client, "ready", instance.spec.ready, "until it is ready")
    yield DryRunStep(
        placement.alias,
        "script",
        (rollback.rollback_script(), *instance.settle_args),
        "until no process of before is left",
    )
    yield DryRunStep(placement.alias, "script", (rollback.rollback_script(), *instance.server_args), "its processes")


def _system_service_note(instance: SystemInstance, phase: str) -> str:
    """Return in words what the host does by itself, with its commands."""
    system, check = instance.system, " ".join(instance.rendered.commands["check"])
    if phase == "stage":
        return f"copies {system.tree}, puts the new files into the copy: {check}"
    unit = system.unit or "the unit"
    files = ", ".join(f"{system.tree}/{name}" for name in instance.rendered.files)
    verb = "restart" if system.reload == "restart" else "reload"
    by_hand = "stop and start" if verb == "restart" else f"kill -s {system.reload} <{system.pid_file}>"
    return f"keeps and replaces {files}; systemctl {verb} {unit}, without systemd {by_hand}; at its end all of it back"


def _probe_step(
    instance: Instance, placement: Placement, client: str, name: str, probe: Probe, note: str
) -> DryRunStep:
    """Return how a running service is asked, as `services.instance.hear` does."""
    if name in instance.rendered.commands:
        return DryRunStep(placement.alias, "run", instance.rendered.commands[name], note)
    place, path = instance.rendered.context, probe.path or "/"
    if probe.side:
        return DryRunStep(placement.alias, "http", (f"http://{place.address}:{place.side_port}{path}",), note)
    return DryRunStep(client, "http", (f"{instance.scheme}://{instance.address}:{instance.port}{path}",), note)


def _monitor_steps(attempt: Attempt) -> Steps:
    yield from _page_steps(attempt, "the page, as the load will get it")
    for alias in _sampled_hosts(attempt):
        yield from _job_steps(alias, attempt.monitors.job_on(alias), "monitors")
    for source in attempt.monitors.sources:
        if source != SAMPLER:
            yield from (
                DryRunStep(a, "ask", (source,), "over the SSH connection, until the load is over")
                for a in attempt.testbed.hosts
            )


def _sampled_hosts(attempt: Attempt) -> list[str]:
    return list(attempt.testbed.hosts) if SAMPLER in attempt.monitors.sources else []


def _page_steps(attempt: Attempt, note: str) -> Steps:
    target: Target = attempt.deployment.target
    url = f"{target.scheme}://{target.address}:{target.port}{attempt.workload.path}"
    for alias in attempt.testbed.drivers:
        yield DryRunStep(alias, "http", (url,), note)


def _counter_steps(attempt: Attempt, instances: dict[Placement, Instance]) -> Steps:
    for placement, instance in instances.items():
        if instance.spec.counters and instance.has_counters:
            client = attempt.deployment.client_host(placement).alias
            yield _probe_step(instance, placement, client, "counters", instance.spec.counters, "what it has counted")


def _load_steps(attempt: Attempt, instances: dict[Placement, Instance]) -> Steps:
    yield from _counter_steps(attempt, instances)
    for alias in attempt.testbed.drivers:
        yield from _job_steps(alias, attempt.load.job_on(alias), attempt.workload.tool)


def _after_load_steps(attempt: Attempt, instances: dict[Placement, Instance]) -> Steps:
    for alias in _sampled_hosts(attempt):
        yield DryRunStep(alias, "stop", (attempt.monitors.name,), "monitors")
        yield DryRunStep(alias, "fetch", (f"jobs/{attempt.monitors.name}/stdout.{FIRST_STEP}",), "what they saw")
    yield from _counter_steps(attempt, instances)
    for alias in attempt.testbed.hosts:
        yield DryRunStep(alias, "run", CLOCK, "its clock again")
    yield from _page_steps(attempt, "the page again")


def _collect_steps(attempt: Attempt) -> Steps:
    for alias in attempt.testbed.drivers:
        job = attempt.load.job_on(alias)
        for number in range(len(job.steps), 0, -1):
            for stream in ("stdout", "stderr"):
                yield DryRunStep(alias, "fetch", (f"jobs/{job.name}/{stream}.{number}",))
        for name in attempt.load.tool.expected_files(attempt.load.shares[alias]):
            yield DryRunStep(alias, "fetch", (f"jobs/{job.name}/{name}",), "where it is there")


def _stop_steps(attempt: Attempt, instances: dict[Placement, Instance]) -> Steps:
    for placement, instance in instances.items():
        if log := instance.log_file:
            yield DryRunStep(
                placement.alias,
                "run",
                ("tail", "-c", str(LOG_TAIL_BYTES), log),
                f"{placement.role}: the end of its log",
            )
        yield from _end_job_steps(placement.alias, instance.name, placement.role)
        if isinstance(instance, SystemInstance):
            yield restore_step(placement.alias, instance.name)
        yield DryRunStep(placement.alias, "remove", (instance.rendered.context.dir,))
    for alias in attempt.testbed.drivers:
        yield from _end_job_steps(alias, attempt.load.name, attempt.workload.tool)
    for alias in _sampled_hosts(attempt):
        yield from _end_job_steps(alias, attempt.monitors.name, "monitors")
    for alias in host_changes_of(attempt.deployment):
        yield from _end_job_steps(alias, attempt.host_changes.name, "puts back what was changed")
        yield restore_step(alias, attempt.host_changes.name)


def _end_job_steps(alias: str, name: str, note: str) -> Steps:
    yield DryRunStep(alias, "stop", (name,), note)
    yield DryRunStep(alias, "remove", (jobs.job_folder(name),))


def _job_steps(alias: str, job: Job, note: str) -> Steps:
    """Yield the files of a job and each of its steps, as they are typed on the host."""
    for name, data in job.files.items():
        yield DryRunStep(alias, "put", (f"{jobs.job_folder(job.name)}/{name}",), note, data)
    for argv in job.steps:
        yield DryRunStep(alias, "job", (job.name, *_env_prefix(job), *argv), f"{note}, for {job.lease_s:.0f} s at most")


def _env_prefix(job: Job) -> Sequence[str]:
    return ["env", *(f"{name}={value}" for name, value in job.env.items())] if job.env else []


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
    hosts = {
        alias: record_host(remote_host(path, alias, RUN, hosts=inventory), RUN) for alias in used_hosts(plan, inventory)
    }
    drivers = inventory.with_role(plan.study.workload.role)
    userspace_delay = uses_delay(plan.study, plan.treatments) and not all(
        "tc" in inventory.hosts[alias].allow for alias in drivers
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
    """Yield what opening the hosts and `run.preflight` do."""
    name, launcher = jobs.launcher_script()
    for alias, host in testbed.hosts.items():
        yield DryRunStep(alias, "login", (host.workdir,), "makes this folder, and keeps to the CPUs of the hosts file")
        yield DryRunStep(alias, "put", (f"{host.workdir}/{name}",), "starts and ends jobs", launcher)
        lock = testbed.inventory.hosts[alias].lock or DEFAULT_LOCK_FILE
        yield DryRunStep(
            alias, "lock", (lock,), "for the whole run; refused, with its name, where another run holds it"
        )
    for alias, host in testbed.hosts.items():
        args = (PREFLIGHT_SCRIPT, host.workdir, hex_address(host.address), *needed_ports(testbed, alias))
        yield restore_step(alias)
        yield DryRunStep(
            alias, "script", (BACKGROUND_LOAD_SCRIPT, *others(testbed, alias)), "does anybody else use it?"
        )
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
        if "tc" in testbed.inventory.hosts[alias].allow:
            yield DryRunStep(
                alias,
                "script",
                (rollback.NETEM_SCRIPT,),
                "can its kernel delay? If not: the service delay-line instead",
            )
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
