"""What one attempt does on its hosts, step by step, read off the objects that it uses; nothing is done.

The order is that of `trial.Attempt`; tests hold it against what recorded and real runs asked their hosts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from loadbook.design.plan import PlannedTrial
from loadbook.hosts import guard, jobs, undo
from loadbook.hosts.host import Job
from loadbook.services import Instance, SystemInstance
from loadbook.services.asking import LISTENING
from loadbook.services.build import LOOK
from loadbook.services.instance import LOG_BYTES, PIDS
from loadbook.services.launch import ALLOWED, Launch
from loadbook.services.questions import Question
from loadbook.services.recipe import command, folder_name
from loadbook.services.render import BUILT
from loadbook.services.system import START_S
from loadbook.tools.base import Target
from loadbook.trials.bench import Bench
from loadbook.trials.changes import changes_of
from loadbook.trials.load import FIRST_STEP
from loadbook.trials.names import guard_name
from loadbook.trials.reset import SCRIPT
from loadbook.trials.stage import Seat, Stage, make_instance
from loadbook.trials.trial import Attempt

RUN, TRIAL, TOKEN = "RUN", "t0001", "000000000000"
SAMPLER = "sampler"
CLOCK = ("date", "+%s.%N")


class Step(NamedTuple):
    """One thing that would be done on one host.

    `call` is login, lock, run, script, put, job, http, fetch, stop or remove; `words` are its argument list, path, URL
    or job's name (of a job: its name, then the argument list of one step); `data` is the content of a file that is put.
    """

    alias: str
    call: str
    words: tuple[str, ...]
    note: str = ""
    data: bytes = b""


Steps = Iterator[Step]


def attempt_steps(bench: Bench, treatment: str) -> list[tuple[str, list[Step]]]:
    """Return the phases of an attempt at a treatment, each with its steps in order."""
    attempt = Attempt(bench, PlannedTrial(TRIAL, treatment, 1, 1), 1, Path())
    stage, lease_s = attempt.stage, attempt.guards.lease_s
    instances = {seat: make_instance(stage, seat, attempt.stem, lease_s, TOKEN) for seat in stage.seats}
    phases = {
        "back to rest": (Step(a, "script", (SCRIPT,), "until nothing is left of the last trial") for a in bench.hosts),
        "change the hosts": changed(stage, guard_name(attempt.stem), lease_s),
        "put and check": (step for seat, one in instances.items() for step in configured(seat, one)),
        "start and prove": _started(stage, instances),
        "ask for the page, start the monitors": _watched(attempt),
        "load": _loaded(attempt, instances),
        "after the load": _asked_after(attempt, instances),
        "collect": _collected(attempt),
        "stop and put back": _stopped(attempt, instances),
    }
    return [(title, found) for title, steps in phases.items() if (found := list(steps))]


def changed(stage: Stage, name: str, lease_s: float) -> Steps:
    """Yield the jobs that change hosts for a treatment."""
    for alias, changes in changes_of(stage).items():
        said = ", ".join(f"{key} {value}" for key, value in changes.said().items())
        own = stage.bench.hosts[alias].address
        yield from _job(alias, guard.job(name, changes, lease_s, own), said)
        yield outcome(alias, name, guard.READY_S)


def outcome(alias: str, name: str, limit_s: float) -> Step:
    """Return how the job that changes a host is asked."""
    words = (undo.OUTCOME, jobs.folder(name), str(round(limit_s * 50)))
    return Step(alias, "script", words, "were the changes made, or refused?")


def put_back(alias: str, name: str = "") -> Step:
    """Return how a host is asked what is left to be put back, by a job or by anybody."""
    return Step(
        alias, "script", (undo.script(), *undo.restore_words(name)), "puts back what is left changed, if anything"
    )


def configured(seat: Seat, instance: Instance) -> Steps:
    """Yield what `Instance.check` does: build, files, the service's own commands."""
    launch = instance.launch
    if isinstance(instance, SystemInstance):
        for path, data in instance.new.items():
            yield Step(seat.alias, "put", (path,), seat.role, data)
        yield Step(seat.alias, "script", (undo.script(), *instance.stage_words), _said(instance, "stage"))
        return
    if instance.spec.build:
        yield from built(seat, instance.host.workdir)
    yield from allowed(seat.alias, launch)
    for name, data in instance.rendered.files.items():
        yield Step(seat.alias, "put", (f"{instance.rendered.place.dir}/{name}",), seat.role, data)
    for name in ("prepare", "check", "effective"):
        if name in instance.rendered.commands:
            yield Step(seat.alias, "run", instance.rendered.commands[name], f"{seat.role}: {name}")


def allowed(alias: str, launch: Launch) -> Steps:
    """Yield how a host is asked whether a process may have what it is to be started with."""
    if launch.cpus or launch.nofile is not None:
        yield Step(alias, "script", (ALLOWED, launch.cpu_list), "may it have these CPUs and open files?")


def built(seat: Seat, workdir: str) -> Steps:
    """Yield how a program that comes as sources is looked for and, when it is not there, built."""
    spec = seat.spec
    assert spec.build is not None
    folder = f"{workdir}/{BUILT}/{folder_name(spec)}"
    yield Step(seat.alias, "script", (LOOK, folder, *spec.build.needs), f"is {spec.name} built?")
    settings, argv = command(spec, "x86_64")
    words = ("env", *(f"{name}={value}" for name, value in settings.items()), *argv)
    yield Step(seat.alias, "run", spec.build.version.argv, "if not: what builds it there")
    yield Step(seat.alias, "run", words, "then, for its own machine; else here, and carried there")


def _started(stage: Stage, instances: dict[Seat, Instance]) -> Steps:
    for alias in stage.bench.hosts:
        yield Step(alias, "run", CLOCK, "its clock against ours, ten times")
    for seat in (seat for seats in stage.levels() for seat in seats):
        one, asker = instances[seat], stage.asker(seat).alias
        yield from _job(seat.alias, one.job, f"{seat.role}: {seat.spec.name}")
        if isinstance(one, SystemInstance):
            yield from _reloaded(seat, one, asker)
            continue
        if one.spec.ready.tcp:
            yield Step(seat.alias, "script", (LISTENING, f"{one.port:04X}"), "until it listens")
        else:
            yield _question(one, seat, asker, "ready", one.spec.ready, "until it is ready")
        if one.spec.prove and one.rendered.tells:
            yield _question(one, seat, asker, "prove", one.spec.prove, f"must say {one.rendered.says['prove']}")
        yield Step(seat.alias, "script", (PIDS, "LEADER", one.spec.process_name), "its processes")


def _reloaded(seat: Seat, one: SystemInstance, asker: str) -> Steps:
    """Yield what follows when the job of the host's own server replaces its files."""
    yield outcome(seat.alias, one.name, START_S)
    yield Step(seat.alias, "note", (), _said(one, "start"))
    if "effective" in one.rendered.commands:
        yield Step(seat.alias, "run", one.rendered.commands["effective"], f"{seat.role}: effective")
    if one.spec.prove and one.rendered.tells:
        yield _question(one, seat, asker, "prove", one.spec.prove, f"must say {one.rendered.says['prove']}, by and by")
    else:
        yield _question(one, seat, asker, "ready", one.spec.ready, "until it is ready")
    yield Step(seat.alias, "script", (undo.script(), *one.settle_words), "until no process of before is left")
    yield Step(seat.alias, "script", (undo.script(), *one.server_words), "its processes")


def _said(one: SystemInstance, what: str) -> str:
    """Return in words what the host does by itself, with its commands."""
    own, check = one.system, " ".join(one.rendered.commands["check"])
    if what == "stage":
        return f"copies {own.tree}, puts the new files into the copy: {check}"
    unit = own.unit or "the unit"
    files = ", ".join(f"{own.tree}/{name}" for name in one.rendered.files)
    verb = "restart" if own.reload == "restart" else "reload"
    by_hand = "stop and start" if verb == "restart" else f"kill -s {own.reload} <{own.pid_file}>"
    return f"keeps and replaces {files}; systemctl {verb} {unit}, without systemd {by_hand}; at its end all of it back"


def _question(one: Instance, seat: Seat, asker: str, name: str, question: Question, note: str) -> Step:
    """Return how a running service is asked, as `services.asking.hear` does."""
    if name in one.rendered.commands:
        return Step(seat.alias, "run", one.rendered.commands[name], note)
    place, path = one.rendered.place, question.path or "/"
    if question.side:
        return Step(seat.alias, "http", (f"http://{place.address}:{place.side_port}{path}",), note)
    return Step(asker, "http", (f"{one.scheme}://{one.address}:{one.port}{path}",), note)


def _watched(attempt: Attempt) -> Steps:
    yield from _page(attempt, "the page, as the load will get it")
    for alias in _sampled(attempt):
        yield from _job(alias, attempt.watch.job_on(alias), "monitors")
    for source in attempt.watch.sources:
        if source != SAMPLER:
            yield from (
                Step(a, "ask", (source,), "over the SSH connection, until the load is over")
                for a in attempt.bench.hosts
            )


def _sampled(attempt: Attempt) -> list[str]:
    return list(attempt.bench.hosts) if SAMPLER in attempt.watch.sources else []


def _page(attempt: Attempt, note: str) -> Steps:
    target: Target = attempt.stage.target
    url = f"{target.scheme}://{target.address}:{target.port}{attempt.workload.path}"
    for alias in attempt.bench.drivers:
        yield Step(alias, "http", (url,), note)


def _counted(attempt: Attempt, instances: dict[Seat, Instance]) -> Steps:
    for seat, one in instances.items():
        if one.spec.counters and one.counts:
            asker = attempt.stage.asker(seat).alias
            yield _question(one, seat, asker, "counters", one.spec.counters, "what it has counted")


def _loaded(attempt: Attempt, instances: dict[Seat, Instance]) -> Steps:
    yield from _counted(attempt, instances)
    for alias in attempt.bench.drivers:
        yield from _job(alias, attempt.load.job_on(alias), attempt.workload.tool)


def _asked_after(attempt: Attempt, instances: dict[Seat, Instance]) -> Steps:
    for alias in _sampled(attempt):
        yield Step(alias, "stop", (attempt.watch.name,), "monitors")
        yield Step(alias, "fetch", (f"jobs/{attempt.watch.name}/stdout.{FIRST_STEP}",), "what they saw")
    yield from _counted(attempt, instances)
    for alias in attempt.bench.hosts:
        yield Step(alias, "run", CLOCK, "its clock again")
    yield from _page(attempt, "the page again")


def _collected(attempt: Attempt) -> Steps:
    for alias in attempt.bench.drivers:
        job = attempt.load.job_on(alias)
        for number in range(len(job.steps), 0, -1):
            for stream in ("stdout", "stderr"):
                yield Step(alias, "fetch", (f"jobs/{job.name}/{stream}.{number}",))
        for name in attempt.load.tool.expected_files(attempt.load.shares[alias]):
            yield Step(alias, "fetch", (f"jobs/{job.name}/{name}",), "where it is there")


def _stopped(attempt: Attempt, instances: dict[Seat, Instance]) -> Steps:
    for seat, one in instances.items():
        if log := one.log_file:
            yield Step(seat.alias, "run", ("tail", "-c", str(LOG_BYTES), log), f"{seat.role}: the end of its log")
        yield from _ended(seat.alias, one.name, seat.role)
        if isinstance(one, SystemInstance):
            yield put_back(seat.alias, one.name)
        yield Step(seat.alias, "remove", (one.rendered.place.dir,))
    for alias in attempt.bench.drivers:
        yield from _ended(alias, attempt.load.name, attempt.workload.tool)
    for alias in _sampled(attempt):
        yield from _ended(alias, attempt.watch.name, "monitors")
    for alias in changes_of(attempt.stage):
        yield from _ended(alias, attempt.guards.name, "puts back what was changed")
        yield put_back(alias, attempt.guards.name)


def _ended(alias: str, name: str, note: str) -> Steps:
    yield Step(alias, "stop", (name,), note)
    yield Step(alias, "remove", (jobs.folder(name),))


def _job(alias: str, job: Job, note: str) -> Steps:
    """Yield the files of a job and each of its steps, as they are typed on the host."""
    for name, data in job.files.items():
        yield Step(alias, "put", (f"{jobs.folder(job.name)}/{name}",), note, data)
    for argv in job.steps:
        yield Step(alias, "job", (job.name, *_exported(job), *argv), f"{note}, for {job.lease_s:.0f} s at most")


def _exported(job: Job) -> Sequence[str]:
    return ["env", *(f"{name}={value}" for name, value in job.env.items())] if job.env else []
