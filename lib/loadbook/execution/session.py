"""`run_study`, the entry point, and one session of a run (a process that runs some of its trials).

A session connects to the hosts, checks and records them, and removes jobs and host changes left by earlier sessions.
A resumed run must have the same hosts as at its start (`check_same_hosts`). Background load on the hosts is reported
before the run (`background_load`); during trials, validity rules check for it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple

from loadbook.core import clock
from loadbook.core.errors import DataError, UsageError
from loadbook.core.metrics import get_metric
from loadbook.core.units import first_lines
from loadbook.execution.attempt_store import AttemptStore
from loadbook.execution.background_load import background_load
from loadbook.execution.host_state import remove_stale_jobs
from loadbook.execution.loop import execute_plan
from loadbook.execution.placement import job_stem, preflight_stem
from loadbook.execution.power import forecast_power, noise_cost_text, underpowered_note
from loadbook.execution.preflight import preflight, treatments_text
from loadbook.execution.progress import Confirm, OnEvent, Progress, ignore_event, wait_for_hosts
from loadbook.execution.select import RunRequest, RunSelection, interim_analysis, select_run, stopping_points
from loadbook.execution.studies import load_study, study_file, unloaded_hosts
from loadbook.execution.testbed import Testbed, open_testbed, resolve_hosts_file
from loadbook.hosts.inventory import format_entry, read_hosts
from loadbook.hosts.monitors import gather_facts
from loadbook.hosts.replay import transcript_name
from loadbook.hosts.rollback import restore
from loadbook.modes.plain.run import run_of
from loadbook.store import atomic
from loadbook.store.ledger import Ledger
from loadbook.store.paths import EXAMPLES, Layout, RunPaths
from loadbook.store.run_record import RecordedHost, RunRecord, read_run_record, write_run_record
from loadbook.store.trial_record import SCHEMA_VERSION, read_json, write_json
from loadbook.store.verify import run_file_checksums
from loadbook.study.plan import study_sha256
from loadbook.tools.base import is_known_version
from loadbook.validity.treatments import configured_alike

# a reboot does not prevent resuming a run; the validity rule facts_differ then flags the later trials
VOLATILE_FACTS = ("boot_id",)
MAX_NAMED_CHANGES = 5


def hosts_record(testbed: Testbed) -> dict[str, RecordedHost]:
    """Return alias -> roles, CPUs (None: all) and, if known, link rate (Mbit/s) of every host, for run.json."""
    entries = testbed.inventory.hosts
    links = {alias: {"link_mbit": link} if (link := entries[alias].link_mbit) else {} for alias in testbed.hosts}
    return {
        alias: RecordedHost(roles=list(testbed.roles_of(alias)), cpus=testbed.cpus_of(alias) or None, **links[alias])
        for alias in testbed.hosts
    }


def check_same_hosts(testbed: Testbed, paths: RunPaths) -> None:
    """Raise UsageError if the hosts of a resumed run are not those at its start, or have changed.

    Compared are aliases, roles, CPUs and link rates, and the facts of kind "identity", such as the CPU model.
    """
    differences = list(_host_differences(testbed, paths))
    if differences:
        named = first_lines(differences, MAX_NAMED_CHANGES)
        raise UsageError(
            "\n  ".join([f"run {testbed.run} cannot go on with these hosts:", *named]),
            f"{_how_to_restore_hosts(testbed, read_run_record(paths).hosts)}, or: loadbook run "
            f"{testbed.plan.study.name} --new",
        )


def _how_to_restore_hosts(testbed: Testbed, before: dict[str, RecordedHost]) -> str:
    """Return a hint on how to get the run's original hosts back, such as a command that removes hosts from the lab."""
    had = Counter(role for host in before.values() for role in host.roles)
    has = Counter(role for alias in testbed.hosts for role in testbed.roles_of(alias))
    more = [f"{role}={had[role]}" for role in testbed.plan.study.roles if had[role] < has[role]]
    if not testbed.lab or not more:
        return "give the hosts file that it was begun with"
    return f"take from the lab what it has gained: loadbook lab up --roles {','.join(more)}"


def _host_differences(testbed: Testbed, paths: RunPaths) -> Iterator[str]:
    run = read_run_record(paths)
    before, now = run.hosts, hosts_record(testbed)
    if run.replay != testbed.replayed_run:
        yield "it was begun on real hosts" if run.replay is None else f"it is a replay of run {run.replay}"
    for alias in sorted({*before, *now}):
        if alias not in now or alias not in before:
            yield f"host {alias} is {'new' if alias in now else 'not there any more'}"
        elif before[alias] != now[alias]:
            yield f"host {alias} had {_host_text(before[alias])}, has {_host_text(now[alias])}"
        elif testbed.replayed_run is None:
            facts = gather_facts(testbed.hosts[alias])
            for name, fact in read_json(paths.facts / f"{alias}-before.json").items():
                new = facts.get(name, fact)["value"]
                if fact["kind"] == "identity" and name not in VOLATILE_FACTS and new != fact["value"]:
                    yield f"host {alias}: {name} was {fact['value']}, is {new}"


def _host_text(host: RecordedHost) -> str:
    cpus = ", ".join(map(str, host.cpus or ())) or "all"
    link = f" and a link of {host.link_mbit:g} Mbit/s" if host.link_mbit else ""
    return f"roles {', '.join(host.roles)} and CPUs {cpus}{link}"


REPLAY_HEADER = '# plays this run back: loadbook run STUDY --hosts THIS-FILE\nreplay = "."\n'


def replay_hosts_file(testbed: Testbed) -> str:
    """Return the text of a hosts file that replays the run: roles, prices and other settings, but no SSH logins."""
    inventory = testbed.inventory
    settings = {"currency": inventory.currency, "external": inventory.external}
    head = REPLAY_HEADER + "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items() if value)
    prices = [f"{json.dumps(role)} = {json.dumps(price)}" for role, price in inventory.external_prices.items()]
    external = ["\n".join(["[external_prices]", *prices, ""])] if prices else []
    entries = []
    for alias, host in testbed.hosts.items():
        entry = inventory.hosts[alias]
        required = {"roles": testbed.roles_of(alias), "address": host.address, "service_port": entry.service_port}
        price = {"price_per_month": entry.price_per_month}
        optional = {"cpus": entry.cpus, "link_mbit": entry.link_mbit, "may": entry.allow} | price
        entries.append(format_entry(alias, required | {key: value for key, value in optional.items() if value}))
    return "\n".join([head, *entries, *external])


# seconds to wait until the hosts have ended our jobs; after that they end them by themselves
CLOSE_S = 12.0
INTERRUPTED_CLOSE_S = 2.0


class RunSession:
    """Context manager of one session of a run; inside it, `testbed` holds the connected hosts."""

    testbed: Testbed

    def __init__(
        self,
        layout: Layout,
        request: RunRequest,
        selection: RunSelection,
        on_event: OnEvent,
        confirm: Confirm | None = None,
    ) -> None:
        self.layout, self.request, self.selection = layout, request, selection
        self.on_event, self.confirm, self.paths = on_event, confirm, selection.paths

    def __enter__(self) -> RunSession:
        plan, run, lock_policy = self.selection.plan, self.selection.run, self.request.lock_policy
        path = resolve_hosts_file(self.layout, plan, self.request.hosts)
        start = partial(open_testbed, self.layout, plan, run, path, lock_policy.break_lock)
        self.testbed = wait_for_hosts(start, path, lock_policy.wait_s, self.on_event)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Close every connection, which ends waiting threads and our jobs on the hosts."""
        self.testbed.close(INTERRUPTED_CLOSE_S if isinstance(error, KeyboardInterrupt) else CLOSE_S)

    def run(self) -> None:
        """Take the steps of a run (`RUN_STEPS`)."""
        for step in RUN_STEPS:
            if step.runs in ("all", "resumed" if self.selection.resumed else "new"):
                step.take(self)

    def _note(self, message: str) -> None:
        self.on_event(Progress("note", message))

    def check_hosts_of_resumed_run(self) -> None:
        """Check that the hosts are those at the run's start."""
        check_same_hosts(self.testbed, self.paths)

    def choose_execution(self) -> None:
        """Plan plain trials if hosts do not allow the mode and the study leaves the execution to loadbook."""
        plan = self.selection.plan
        if plan.execution_chosen and (reasons := list(run_of(plan.study).reasons_against(self.testbed))):
            plain = plan.with_plain_trials("; ".join(reasons))
            self.testbed.plan, self.selection = plain, replace(self.selection, plan=plain)
        self._note(f"execution: {self.selection.plan.execution_text}")

    def warn_of_other_load(self) -> None:
        """Report hosts of a loaded role that get no load, and load by others; the user may decline the run.

        Raises
        ------
        UsageError : the user declined; `confirm` is called only if other programs use the hosts.
        """
        for message in unloaded_hosts(self.selection.plan, None if self.testbed.lab else self.testbed.inventory):
            self._note(message)
        if not (messages := list(background_load(self.testbed))):
            return
        for alias, message in messages:
            self._note(f"warning: host {alias}: {message}")
        if cost := noise_cost_text(forecast_power(self.layout, self.selection.plan, self.request.hosts)):
            self._note(f"warning: {cost}")
        if self.confirm is not None and not self.confirm("Other programs use these hosts. Start the run all the same?"):
            hint = "stop them, or start all the same: loadbook run ... --yes"
            raise UsageError("not started: other programs use the hosts", hint)

    def roll_back_leftovers(self) -> None:
        """Undo changes that earlier runs left on these hosts; NotRestoredError if one cannot be undone."""
        live = [alias for alias, host in self.testbed.hosts.items() if host.live]
        for alias, done in self.testbed.map(lambda alias: restore(self.testbed.hosts[alias]), live).items():
            if done:
                self._note(f"host {alias}: put back what was left changed: {', '.join(done)}")

    def check_everything(self) -> None:
        """Check tools, services, files and every configuration on their hosts before any load.

        Raises the errors of `preflight.preflight`; what only deserves a warning is sent as a note.
        """
        plan, testbed = self.selection.plan, self.testbed
        self._note(f"checking {', '.join(testbed.hosts)} and every configuration")
        preflight(testbed, self.layout.study_raw(plan.study.name))
        for treatment, text in configured_alike(plan.study, testbed.configurations).items():
            self._note(f"warning: treatment {treatment} changes nothing: {text}")
        for (role, service, line), names in testbed.configuration_warnings.items():
            self._note(f"warning: {treatments_text(names)}, role {role}: {service} says \u201c{line}\u201d")
        for message in self._driver_notes():
            self._note(message)

    def announce(self) -> None:
        """Send the event that contains the run's id, after all checks and before a new run's folder exists."""
        self.on_event(Progress("note", self.selection.message, run=self.selection.run))

    def _driver_notes(self) -> Iterator[str]:
        """Yield notes on unknown versions of tools, and on metrics that cannot be combined from several drivers."""
        drivers, metric = self.testbed.drivers, self.selection.plan.study.metric
        for (alias, name), tool_version in self.testbed.tool_versions.items():
            if not is_known_version(self.testbed.tools[name], tool_version):
                yield f"host {alias}: {name} {tool_version} is new here: a report in another form will not be counted"
        if len(drivers) > 1:
            yield f"the load is shared among {', '.join(drivers)}"
            if get_metric(metric).kind == "time":
                yield f"{metric} of several drivers has a total only where the tool logs every request (docs/tools.md)"

    def stop_leftovers(self) -> None:
        """Stop the jobs of attempts whose controller died or that lost a host."""
        with Ledger(self.paths.ledger) as ledger:
            store = AttemptStore(self.testbed, self.paths, ledger)
            open_attempts = [(planned.trial, attempt) for planned, attempt in store.unfinished()]
        stems = [job_stem(self.selection.run, trial, attempt) for trial, attempt in [*open_attempts, *store.lost()]]
        remove_stale_jobs(self.testbed, [*stems, preflight_stem(self.selection.run)])

    def go_on(self) -> None:
        """Record that the run is resumed, or that blocks are added to it."""
        with Ledger(self.paths.ledger) as ledger:
            if self.selection.added_blocks:
                ledger.append("blocks-added", **self.selection.added_blocks)
            else:
                ledger.append("run-resumed")
        run = read_run_record(self.paths)
        write_run_record(self.paths, run.model_copy(update={"resumed": run.resumed + 1, "ended": None}))
        self._append_transcripts(self.paths.raw)

    def run_trials(self) -> None:
        """Run the remaining trials, up to the end of the plan or an interim analysis that decides every comparison."""
        plan = self.selection.plan
        with Ledger(self.paths.ledger) as ledger:
            store = AttemptStore(self.testbed, self.paths, ledger)
            for planned, attempt in store.unfinished():  # attempts whose controller died
                record = store.recover(planned, attempt)
                self._note(f"{planned.trial}, attempt {attempt}: {record.status} ({record.reason})")
            for blocks in stopping_points(plan, ledger.entries):
                execute_plan(self.testbed, store, self.on_event, blocks)
                if interim_analysis(self.layout, plan, self.selection.run, blocks, ledger, self.on_event):
                    break
            self.finish(store, blocks)

    def finish(self, store: AttemptStore, blocks: int) -> None:
        """Record the facts about the hosts again, and the run's end after `blocks` blocks."""
        self.testbed.set_trial(None)
        self._write_facts(self.paths.raw, "after")
        self._append_transcripts(self.paths.raw)
        for leftover in self.paths.raw.glob(".*.part"):  # temporary files of a controller that died
            leftover.unlink()
        write_run_record(self.paths, read_run_record(self.paths).model_copy(update={"ended": clock.now()}))
        early = {"blocks": blocks} if blocks < self.selection.plan.blocks else {}
        store.ledger.append("run-ended", **early, files=run_file_checksums(self.paths))

    def make_run_folder(self) -> None:
        """Create the run's folder under a temporary name and rename it, so that it is complete if it exists."""
        if note := underpowered_note(forecast_power(self.layout, self.selection.plan, self.request.hosts)):
            self._note(note)
        part = self.paths.raw.with_name(f".{self.selection.run}.part")
        for leftover in part.parent.glob(".*.part"):
            shutil.rmtree(leftover)
        new = RunPaths(part, part)
        try:
            atomic.write_atomic(new.study_toml, study_file(self.layout, self.request.study).read_bytes())
            self._write_facts(part, "before")
            self._append_transcripts(part)
            atomic.write_atomic(new.hosts_toml, replay_hosts_file(self.testbed).encode())
            write_json(new.plan_json, self.selection.plan.to_json())
            write_run_record(new, self._run_record())
            with Ledger(new.ledger) as ledger:
                ledger.append("run-started", trials=len(self.selection.plan.trials))
            atomic.move_folder(part, self.paths.raw)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _write_facts(self, raw: Path, when: str) -> None:
        facts_by_host = self.testbed.map(lambda alias: gather_facts(self.testbed.hosts[alias]), self.testbed.hosts)
        for alias, values in facts_by_host.items():
            write_json(raw / "facts" / f"{alias}-{when}.json", values)

    def _append_transcripts(self, raw: Path) -> None:
        """Append the hosts' answers to calls outside all trials to the run's transcripts."""
        for alias, host in self.testbed.hosts.items():
            transcript = raw / transcript_name(alias)
            earlier = transcript.read_bytes() if transcript.is_file() else b""
            atomic.write_atomic(transcript, earlier + host.take_transcript())

    def _run_record(self) -> RunRecord:
        plan, testbed = self.selection.plan, self.testbed
        git_revision, git_dirty = _git_state(self.layout.root)
        return RunRecord(
            study=plan.study.name,
            run=self.selection.run,
            subset=plan.subset,
            schema_version=SCHEMA_VERSION,
            started=clock.now(),
            ended=None,
            loadbook_version=version("loadbook"),
            git_revision=git_revision,
            git_dirty=git_dirty,
            study_sha256=study_sha256(plan.study),
            seed=plan.seed,
            blocks=plan.blocks,
            hosts=hosts_record(testbed),
            prices=testbed.inventory.price_record(),
            tool_versions={a: testbed.tool_versions_on(a) for a in testbed.drivers},
            service_versions=testbed.services_by_host(),
            delay=testbed.delay_method,
            lab=testbed.lab,
            hosts_file=str(self.request.hosts) if self.request.hosts else None,
            replay=testbed.replayed_run,
            resumed=0,
        )


class RunStep(NamedTuple):
    """One step of a run: what it does, the method that does it, and in which runs it is taken.

    `runs` is "new" or "resumed" for a step of such runs only; a run to which blocks are added counts as resumed.
    """

    purpose: str
    take: Callable[[RunSession], None]
    runs: Literal["all", "new", "resumed"] = "all"


# the steps of a run, in order; the hosts are connected and locked before the first and until after the last
RUN_STEPS = (
    RunStep("check that the hosts are those of its start", RunSession.check_hosts_of_resumed_run, "resumed"),
    RunStep("stop jobs that its earlier sessions left on the hosts", RunSession.stop_leftovers, "resumed"),
    RunStep("put back what any earlier run left changed on the hosts", RunSession.roll_back_leftovers),
    RunStep("report other programs on the hosts; the user may decline the run", RunSession.warn_of_other_load),
    RunStep(
        "plan plain trials if these hosts do not allow interleaved blocks, or another mode",
        RunSession.choose_execution,
        "new",
    ),
    RunStep("check tools, services, files and every configuration on the hosts", RunSession.check_everything),
    RunStep("announce the run", RunSession.announce),
    RunStep("make its folder: study, plan, hosts, facts of the hosts", RunSession.make_run_folder, "new"),
    RunStep("record that it goes on, or that blocks are added", RunSession.go_on, "resumed"),
    RunStep("run the trials that are left, with the interim analyses; then record its end", RunSession.run_trials),
)


def _git_state(root: Path) -> tuple[str | None, bool | None]:
    """Return the git revision of `root` and whether tracked files differ from it; (None, None) without git."""
    if not any((folder / ".git").exists() for folder in (root, *root.absolute().parents)):
        return None, None
    try:
        done = [
            subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, timeout=20, check=True)
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.SubprocessError):
        return None, None
    return done[0].stdout.strip(), bool(done[1].stdout.strip())


def run_study(
    layout: Layout, request: RunRequest, on_event: OnEvent = ignore_event, confirm: Confirm | None = None
) -> str:
    """Run a study's plan on hosts and return the run's id; an unfinished run is resumed exactly as planned.

    Parameters
    ----------
    on_event : function called with every event of the run (`progress.Progress`).
    confirm : asks the user whether to start although other programs use the hosts; None starts without asking.

    Raises
    ------
    UsageError : an unknown name, a study that changed since its unfinished run was planned, or a study that is running.
    StudyError : the study or hosts file is invalid; it lists every problem.
    DataError : a file on the controller cannot be written (disk full).
    LoadbookError : the run could not start or had to stop; the same call resumes it.
    KeyboardInterrupt : the user interrupted the run; the current trial was stopped and recorded as cancelled.
    """
    study = load_study(layout, request.study)
    if study.name in EXAMPLES:
        raise UsageError(f"a study cannot be called {study.name!r}", "that is a recorded run that comes with loadbook")
    if request.hosts is not None:
        read_hosts(request.hosts)  # report a missing file before the study is locked
    try:
        with atomic.hold_study_lock(layout.study_raw(study.name)) as taken_over:
            if taken_over:
                on_event(Progress("note", taken_over))
            selection = select_run(layout, study, request)
            # connect before importing the statistics libraries, so that an unusable host is reported quickly
            with RunSession(layout, request, selection, on_event, confirm) as session:
                session.run()
    except OSError as error:
        where = error.filename or layout.study_raw(study.name)
        if error.errno in atomic.DISK_FULL_ERRNOS:
            raise DataError(atomic.disk_full_message(error, where), atomic.DISK_FULL_HINT) from error
        raise DataError(
            f"{where}: {error.strerror or error}", f"set that right, then resume: loadbook run {request.study}"
        ) from error
    return selection.run
