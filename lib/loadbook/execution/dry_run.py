"""All steps of a run, host by host, listed by executing the code of a real run on hosts that only record calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from loadbook.core.errors import LoadbookError, PreflightError
from loadbook.core.text import host_port
from loadbook.execution import background_load, preflight
from loadbook.execution.attempt import Attempt
from loadbook.execution.deployment import Deployment, all_deployments
from loadbook.execution.host_changes import HostChangeJobs, host_changes_of, missing_permissions
from loadbook.execution.placement import CHANGES, Placement, job_name, job_stem, preflight_stem, uses_delay
from loadbook.execution.studies import check_load_allowed, missing_roles, needed_cpus, used_hosts
from loadbook.execution.testbed import Testbed, TestbedRequest, build_testbed
from loadbook.hosts import rollback
from loadbook.hosts.dry import CLOCK_COMMAND, TOKEN, DryRunHost, DryRunLog, DryRunStep
from loadbook.hosts.host import HttpResponse
from loadbook.hosts.inventory import HostsFile, read_hosts
from loadbook.hosts.jobs import job_folder
from loadbook.hosts.lab import lab_kind
from loadbook.hosts.monitors import gather_facts
from loadbook.hosts.remote import remote_host
from loadbook.hosts.script import Script
from loadbook.modes.plain.run import run_of
from loadbook.services import Instance, SystemInstance
from loadbook.services.build import BUILD_STATE_SCRIPT, build, build_command, program_folder_name
from loadbook.store.paths import Layout
from loadbook.study.plan import Plan, PlannedTrial

RUN, TRIAL = "RUN", "t0001"
STEM = job_stem(RUN, TRIAL, 1)
TIMEOUT_S = 1.0  # time limit of calls, which these hosts answer at once

# phase of an attempt -> its title; steps of the phase `configure` that change hosts are listed under CHANGES_TITLE
PHASE_TITLES = {
    "reset": "back to rest",
    "configure": "put and check",
    "start": "start and prove",
    "ask_before": "ask for the page, start the monitors",
    "load": "load",
    "ask_after": "after the load",
    "collect": "collect",
    "stop": "stop and put back",
}
CHANGES_TITLE = "change the hosts"


class InlineExecutor(Executor):
    """An executor that makes each call at once in the same thread, so that the order of steps is always the same."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call `fn` now and return its result as a finished future."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@dataclass
class DryRunPart:
    """One part of a run, such as a treatment: phases and their steps; `missing` lists reasons why it cannot run.

    A real run executes the part `repeats` times; `unit` names what is counted, such as "trial" or "block". `repeats`
    is 0 for the parts before the first and after the last trial. `phases` has (title, steps) of each phase, in order.
    """

    title: str
    repeats: int = 0
    unit: str = "trial"
    phases: list[tuple[str, list[DryRunStep]]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass
class DryRun:
    """A testbed whose hosts only record calls; `log` holds the recorded calls."""

    testbed: Testbed
    hosts: dict[str, DryRunHost]
    log: DryRunLog

    def attempt_phases(self, treatment: str) -> list[tuple[str, list[DryRunStep]]]:
        """Execute an attempt at a treatment on the recording hosts; return (title, steps) of its phases, in order."""
        with TemporaryDirectory(prefix="loadbook-dry-run-") as folder:
            study = self.testbed.plan.study
            load = self.testbed.plan.mode.first_load(study, study.workload_of(treatment))
            attempt = Attempt(self.testbed, PlannedTrial(TRIAL, treatment, 1, 1), 1, Path(folder), workload=load)
            notes = Notes.of_attempt(attempt)
            steps: dict[str, list[DryRunStep]] = {}
            for phase, call in attempt.phases().items():
                self.prepare_answers(attempt, phase)
                call()
                steps[phase] = list(notes.annotate(self.log.take(), phase))
            # a real run polls these from that phase on
            steps["ask_before"] += [
                DryRunStep(alias, "ask", (source,), "over the SSH connection, until the load is over")
                for source in attempt.monitors.polled_sources
                for alias in self.testbed.hosts
            ]
            attempt.stop()
            steps["stop"] = list(notes.annotate(self.log.take(), "stop"))
        return with_titles(steps, [attempt])

    def prepare_answers(self, attempt: Attempt, phase: str) -> None:
        """Set the HTTP responses and outputs that the attempt expects from services and page in this phase.

        `phase` is a key of `Attempt.phases`; only "start" and "ask_before" need answers.
        """
        instances, url = attempt.services.instances.values(), page_url(attempt)
        if phase == "ask_before" and (url,) not in [_request(instance, "prove") for instance in instances]:
            page = HttpResponse(attempt.workload.expect_status, {}, bytes(attempt.workload.expect_bytes or 0))
            self.log.responses[url] = page
        for instance in instances if phase == "start" else ():
            texts = {name: instance.rendered.expected.get(name, "") for name in ("ready", "prove")}
            for name, text in texts.items():
                if name in instance.rendered.commands:
                    self.log.outputs[_request(instance, name)] = "\n".join(texts.values()).encode()
                elif request := _request(instance, name):
                    status = instance.spec.ready.status if name == "ready" else 200
                    self.log.responses[request[0]] = HttpResponse(status, {}, text.encode())

    def preflight_steps(self) -> Iterator[DryRunStep]:
        """Yield the steps of the login and of the checks before the first trial."""
        testbed, hosts, notes = self.testbed, self.hosts, Notes(self.testbed)
        for host in hosts.values():
            host.open()
        for alias, host in hosts.items():
            rollback.restore(host)
            background_load.run_background_load_script(testbed, alias)
            preflight.run_preflight_script(testbed, alias)
        yield from notes.annotate(self.log.take())
        yield from run_of(testbed.plan.study).check_steps(self)
        for alias in testbed.drivers:
            for tool in testbed.tools.values():
                yield DryRunStep(alias, "run", tuple(tool.version_argv), f"version of {tool.name}")
            for launch in preflight.load_launches(testbed):
                launch.check_limits(hosts[alias])
            yield from notes.annotate(self.log.take())
        yield from self._service_check_steps()
        yield from self._change_check_steps()
        yield from self.facts_steps()

    def _service_check_steps(self) -> Iterator[DryRunStep]:
        """Yield the steps that check each service's version, and each different configuration once."""
        for placement in self.testbed.placements:
            if placement.spec.build:
                build(self.hosts[placement.alias], placement.spec)
                yield from Notes(self.testbed).annotate(self.log.take())
            if placement.spec.version:
                argv = tuple(placement.spec.version.argv)
                yield DryRunStep(placement.alias, "run", argv, f"version of {placement.spec.name}")
            checked = set()
            for deployment in all_deployments(self.testbed):
                if placement not in deployment.placements:
                    continue
                instance = deployment.make_instance(placement, preflight_stem(RUN), preflight.CHECK_LEASE_S, TOKEN)
                if instance.rendered.config_sha256 not in checked:
                    checked.add(instance.rendered.config_sha256)
                    instance.check()
                    instance.read_warnings()
                    instance.stop()
                    yield from Notes(self.testbed, [{placement: instance}]).annotate(self.log.take())

    def _change_check_steps(self) -> Iterator[DryRunStep]:
        """Yield the steps that make and undo every host change once, before the first trial."""
        testbed, checked = self.testbed, set[str]()
        if uses_delay(testbed.plan.study, testbed.plan.treatments):
            for alias in testbed.drivers:
                if "tc" in testbed.inventory.hosts[alias].allow:
                    rollback.has_netem(self.hosts[alias])
        for deployment in all_deployments(testbed):
            changes = HostChangeJobs(deployment, job_name(preflight_stem(RUN), CHANGES), preflight.CHECK_LEASE_S)
            if (key := repr(sorted(host_changes_of(deployment).items()))) not in checked:
                checked.add(key)
                changes.apply()
                changes.restore()
            notes = Notes(testbed, jobs={changes.name: partial(changes_note, changes)})
            yield from notes.annotate(self.log.take())

    def facts_steps(self) -> Iterator[DryRunStep]:
        """Yield the steps that read the facts about the hosts (kernel, CPU, limits, settings)."""
        for host in self.hosts.values():
            gather_facts(host)
        yield from (step._replace(note="kernel, CPU, limits, settings") for step in self.log.take())


def dry_run(layout: Layout, plan: Plan, hosts_file: Path) -> tuple[DryRun | None, list[DryRunPart]]:
    """Return the dry run (None if no treatment can run on these hosts) and the parts of the run in order.

    Raises UsageError and StudyError for an unusable hosts file; no host is touched.
    """
    inventory = read_hosts(hosts_file)
    check_load_allowed(plan, inventory, hosts_file, lab=bool(lab_kind(hosts_file)))
    missing = {name: missing_for_treatment(layout, plan, name, hosts_file, inventory) for name in plan.treatments}
    able = tuple(name for name in plan.treatments if not missing[name])
    trials = tuple(trial for trial in plan.trials if not missing[trial.treatment])
    run = _prepare(layout, replace(plan, treatments=able, trials=trials), hosts_file, inventory) if able else None
    mode = run_of(plan.study)
    reasons = list(mode.reasons_against(run.testbed)) if run else []
    if reasons and not plan.execution_chosen:
        raise PreflightError([f"{plan.mode.execution} blocks are not possible: {reason}" for reason in reasons])
    if reasons:
        return dry_run(layout, plan.with_plain_trials("; ".join(reasons)), hosts_file)
    parts, together = [], mode.block_part(run) if run else None
    alone = [trial for trial in plan.trials if not plan.mode.runs_together(plan, trial.block)]
    for name in plan.treatments:
        title = f"treatment {name}" + (f" ({label})" if (label := plan.study.label(name)) != name else "")
        repeats = plan.mode.loads_per_trial(plan.study) * sum(t.treatment == name for t in alone or plan.trials)
        if alone or together is None or missing[name]:
            phases = run.attempt_phases(name) if run and not missing[name] else []
            parts.append(DryRunPart(title, repeats, plan.mode.load_unit, phases, missing[name]))
    if together:
        parts.append(together)
    if run is None:
        return None, parts
    before = DryRunPart("once, before the first trial", phases=[("check everything", list(run.preflight_steps()))])
    after = DryRunPart("once, after the last trial", phases=[("facts of the hosts", list(run.facts_steps()))])
    return run, [before, *parts, after]


def missing_for_treatment(layout: Layout, plan: Plan, treatment: str, path: Path, inventory: HostsFile) -> list[str]:
    """Return messages about requirements of a treatment that a hosts file does not meet; empty if it can run."""
    alone = replace(plan, treatments=(treatment,))
    if missing := list(missing_roles(alone, inventory).values()):
        return missing
    try:
        run = _prepare(layout, alone, path, inventory)
        run.attempt_phases(treatment)
    except LoadbookError as error:
        return [error.message]
    return missing_permissions([Deployment(run.testbed, treatment)])


def _prepare(layout: Layout, plan: Plan, path: Path, inventory: HostsFile) -> DryRun:
    """Return a dry run of a plan; facts that only real hosts can report, such as their CPUs, are assumed."""
    log = DryRunLog()
    hosts = {
        alias: DryRunHost(remote_host(path, alias, RUN, hosts=inventory), inventory, log)
        for alias in used_hosts(plan, inventory)
    }
    drivers = inventory.with_role(plan.study.workload.role)
    by_kernel = all("tc" in inventory.hosts[alias].allow for alias in drivers)
    userspace_delay = uses_delay(plan.study, plan.treatments) and not by_kernel
    testbed = build_testbed(
        TestbedRequest(layout, plan, RUN, {**hosts}, inventory, userspace_delay, pool=InlineExecutor())
    )
    testbed.host_cpus = dict.fromkeys(hosts, tuple(range(needed_cpus(plan))))
    return DryRun(testbed, hosts, log)


def with_titles(
    steps: Mapping[str, Sequence[DryRunStep]], attempts: Sequence[Attempt]
) -> list[tuple[str, list[DryRunStep]]]:
    """Return (title, steps) of each phase, with the steps that change hosts below a title of their own.

    `steps` maps a phase (a key of `Attempt.phases`, or "stop") to its steps. Phases without steps are left out.
    """
    jobs = [attempt.host_changes.name for attempt in attempts]
    changes = [step for step in steps["configure"] if any(job in word for job in jobs for word in step.args[:2])]
    titled = [(PHASE_TITLES[phase], [s for s in own if s not in changes]) for phase, own in steps.items()]
    titled.insert(1, (CHANGES_TITLE, changes))
    return [(title, phase_steps) for title, phase_steps in titled if phase_steps]


def page_url(attempt: Attempt) -> str:
    """Return the URL of the page that an attempt's load requests."""
    target = attempt.deployment.target
    return f"{target.scheme}://{host_port(target.address, target.port)}{attempt.workload.path}"


def _request(instance: Instance, name: str) -> tuple[str, ...]:
    """Return the URL or arguments of a service's check (ready, prove, counters) or command; () if it has none."""
    if name in instance.rendered.commands:
        return instance.rendered.commands[name]
    checks = {"ready": instance.spec.ready, "prove": instance.spec.prove, "counters": instance.spec.counters}
    check, context = checks.get(name), instance.rendered.context
    if check is None:
        return ()
    if check.side:
        return (f"http://{host_port(context.address, context.side_port)}{check.path}",)
    return (f"{instance.rendered.scheme}://{host_port(context.address, context.port)}{check.path or '/'}",)


def changes_note(changes: HostChangeJobs, step: DryRunStep) -> str:
    """Return the note of a step that changes a host, or puts it back."""
    if step.action == "stop":
        return "puts back what was changed"
    made = host_changes_of(changes.deployment)[step.alias].to_record()
    return ", ".join(f"{key} {value}" for key, value in made.items())


class Notes:
    """Notes that explain the steps of a dry run, found by the service, job or request of each step.

    Parameters
    ----------
    instances : the services of an attempt or a check; several of them for the arms of a block.
    jobs : job name -> function that returns the note of a step of that job; not for jobs of services.
    page_urls : URLs of the page that the load requests.
    """

    def __init__(
        self,
        testbed: Testbed,
        instances: Sequence[Mapping[Placement, Instance]] = (),
        jobs: Mapping[str, Callable[[DryRunStep], str]] | None = None,
        page_urls: Sequence[str] = (),
    ) -> None:
        self.testbed, self.instances, self.jobs, self.page_urls = testbed, instances, jobs or {}, page_urls
        self._repeats: Counter[DryRunStep] = Counter()

    @classmethod
    def of_attempt(cls, attempt: Attempt) -> Notes:
        """Return the notes of an attempt; its services are added by the phase `configure`."""
        jobs: dict[str, Callable[[DryRunStep], str]] = {
            attempt.load.name: lambda step: attempt.workload.tool,
            attempt.load.warmup_name: lambda step: "warm-up",
            attempt.monitors.name: lambda step: "monitors",
            attempt.host_changes.name: partial(changes_note, attempt.host_changes),
        }
        return cls(attempt.testbed, [attempt.services.instances], jobs, [page_url(attempt)])

    def annotate(self, steps: Iterable[DryRunStep], phase: str = "") -> Iterator[DryRunStep]:
        """Yield the steps with notes, each followed by steps that the host then takes without another call.

        `phase` is a key of `Attempt.phases`, or "stop"; "" for steps outside an attempt.
        """
        for step in steps:
            notes = [self._note(step, phase), step.note]
            yield step._replace(note=", ".join(note for note in notes if note))
            if step.args[0] == BUILD_STATE_SCRIPT:
                yield from self._build_steps(step)
            for _, instance in self._instances_on(step.alias):
                if step.args[:2] == (rollback.OUTCOME_SCRIPT, job_folder(instance.name)):
                    assert isinstance(instance, SystemInstance)
                    yield DryRunStep(step.alias, "note", (), _reload_note(instance))

    def _note(self, step: DryRunStep, phase: str) -> str:
        if step.action == "script":
            script, *args = step.args
            return script.purpose_with(args) if isinstance(script, Script) else ""
        if step.action in ("run", "http"):
            return self._request_note(step, phase)
        if step.action in ("put", "job", "stop"):
            return self._job_note(step)
        if step.action == "fetch":
            folder, _, name = step.args[0].rpartition("/")
            job_note = self.jobs[folder.removeprefix("jobs/").split("/")[0]](step)
            if job_note == "monitors":
                return "what they saw"
            return "" if name.partition(".")[0] in ("stdout", "stderr") else "where it is there"
        return ""

    def _job_note(self, step: DryRunStep) -> str:
        word = step.args[0]
        job = word.split("/")[1] if word.startswith("jobs/") else word
        if job in self.jobs:
            return self.jobs[job](step)
        for placement, instance in self._instances_on(step.alias):
            if job == instance.name:
                return placement.role if step.action == "stop" else f"{placement.role}: {placement.spec.name}"
            if word.startswith(f"{instance.rendered.context.dir}/"):
                return placement.role
        return ""

    def _instances_on(self, alias: str | None = None) -> list[tuple[Placement, Instance]]:
        """Return the services on a host (None: on all hosts), with their placements."""
        placed = [item for instances in self.instances for item in instances.items()]
        return [(placement, instance) for placement, instance in placed if alias in (None, placement.alias)]

    def _build_steps(self, step: DryRunStep) -> Iterator[DryRunStep]:
        """Yield the steps that build a service's program if this step finds that it is missing on the host."""
        specs = [placement.spec for placement in self.testbed.placements if placement.spec.build]
        spec = next(spec for spec in specs if step.args[1].endswith(f"/{program_folder_name(spec)}"))
        assert spec.build is not None
        settings, argv = build_command(spec, "x86_64")
        args = ("env", *(f"{name}={value}" for name, value in settings.items()), *argv)
        yield DryRunStep(step.alias, "run", spec.build.version.argv, "if not: what builds it there")
        yield DryRunStep(step.alias, "run", args, "then, for its own machine; else here, and carried there")

    def _request_note(self, step: DryRunStep, phase: str) -> str:
        if step.args == CLOCK_COMMAND:
            return "its clock against ours, ten times" if phase == "start" else "its clock again"
        if step.args[0] in self.page_urls and phase in ("ask_before", "ask_after"):
            return "the page again" if phase == "ask_after" else "the page, as the load will get it"
        notes = []
        for placement, instance in self._instances_on():
            if step.action == "run" and placement.alias != step.alias:
                continue
            if step.args[0] == "tail" and step.args[-1] == instance.log_file:
                return f"{placement.role}: the end of its log"
            suffix = ", by and by" if isinstance(instance, SystemInstance) else ""
            texts = {name: f"{placement.role}: {name}" for name in ("prepare", "check", "effective")} | {
                "ready": "until it is ready",
                "prove": f"must say {instance.rendered.expected.get('prove')}{suffix}",
                "counters": "what it has counted",
            }
            notes += [text for name, text in texts.items() if _request(instance, name) == step.args]
        self._repeats[step] += 1
        # the same request may first check that a service is ready, and later which configuration it has
        return notes[min(self._repeats[step], len(notes)) - 1] if notes else ""


def _reload_note(instance: SystemInstance) -> str:
    """Return a note on the job that replaces the configuration files of a host's own server and reloads it."""
    system = instance.system
    replaced = ", ".join(f"{system.tree}/{name}" for name in instance.rendered.files)
    verb = "restart" if system.reload == "restart" else "reload"
    by_hand = "stop and start" if verb == "restart" else f"kill -s {system.reload} <{system.pid_file}>"
    return (
        f"keeps and replaces {replaced}; systemctl {verb} {system.unit or 'the unit'}, without systemd {by_hand}; "
        "at its end all of it back"
    )
