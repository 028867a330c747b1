"""The jobs of a batch file and their record.

Studies, hosts files and notebooks of a batch file are read, and all mistakes are reported before a job starts. Entries
with the same study, hosts, subset and blocks share one run, of which each makes its own report: one `BatchJob`.

A batch run (round) executes all entries of a batch file once; its record, batch.json, is written after every change.
The same command resumes an unfinished batch run without repeating finished entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loadbook.batch.file import Batch, BatchEntry
from loadbook.core import clock
from loadbook.core.errors import DataError, LoadbookError, SpecProblem, StudyError, UsageError, unknown_name_error
from loadbook.core.metrics import METRICS
from loadbook.core.units import utc_text
from loadbook.execution.studies import check_load_allowed, check_roles, load_study, plan_study
from loadbook.hosts.inventory import HostsFile, read_hosts
from loadbook.hosts.keys import resolve_host_name
from loadbook.hosts.lab import lab_kind
from loadbook.report import notebooks, parameters
from loadbook.store.paths import Layout
from loadbook.store.trial_record import read_json, write_json
from loadbook.study.plan import Plan

# seconds that executing a notebook takes on a slow machine, for estimates
NOTEBOOK_S = 15.0
LOOPBACK_ADDRESS = re.compile(r"localhost$|127\.|::1$|\[::1\]")
MAX_ENTRY_NAME = 80


@dataclass(frozen=True)
class ReportJob:
    """One report: its name (of entry and pages), `BatchEntry.identity`, and the parameters of its notebooks."""

    name: str
    identity: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class BatchJob:
    """One measurement and the reports made of it.

    Parameters
    ----------
    study_source : name or file of the study, as an argument of `run_study`; `study` is the name of the study.
    hosts : the hosts file; None: the lab.
    blocks, more : number of blocks of a new run, and of blocks to add to the last one; None: not given.
    trials : number of trials that the job measures.
    machines : names and addresses of the hosts that the job uses; empty for a replay; None if one is this machine, so
        that no other job may run at the same time.
    run_s : expected duration of its trials in seconds.
    """

    study: str
    study_source: str
    question: str
    hosts: Path | None
    subset: str | None
    blocks: int | None
    more: int | None
    trials: int
    run_s: float
    notebooks: tuple[str, ...]
    machines: frozenset[str] | None
    reports: tuple[ReportJob, ...]

    @property
    def expected_s(self) -> float:
        """Expected duration of trials and notebooks together, seconds."""
        return self.run_s + NOTEBOOK_S * len(self.notebooks) * len(self.reports)

    @property
    def name(self) -> str:
        """The name of the job's entry; if it has several entries, the study and hosts of their run."""
        place = f" on {self.hosts.stem}" if self.hosts else ""
        return self.reports[0].name if len(self.reports) == 1 else f"{self.study}{place}"

    @property
    def hosts_text(self) -> str:
        """The path of the hosts file, or "the lab"."""
        return str(self.hosts or "the lab")


def batch_jobs(layout: Layout, batch: Batch) -> list[BatchJob]:
    """Return the jobs of a batch file in the file's order; no host is contacted.

    Raises StudyError, which lists every mistake with key path and line.
    """
    names, jobs, mistakes = _entry_names(batch.entries), list[BatchJob](), list[SpecProblem]()
    by_run: dict[str, list[BatchEntry]] = {}
    for entry in batch.entries:
        by_run.setdefault(entry.run_key, []).append(entry)
    for entries in by_run.values():
        job, wrong = _batch_job(layout, entries, names, [job.study for job in jobs if not job.more])
        mistakes += wrong
        jobs += [job] if job is not None else []
    used = {name for job in jobs for report in job.reports for name in report.parameters}
    unused = {name for entry in batch.entries for name in entry.batch_parameters} - used
    if not mistakes:
        message = "no notebook of these studies knows it"
        mistakes = [SpecProblem(f"parameters.{name}", message) for name in sorted(unused)]
    if mistakes:
        raise StudyError(str(batch.file), list(dict.fromkeys(mistakes)))
    return jobs


def _batch_job(
    layout: Layout, entries: list[BatchEntry], names: dict[str, str], studies_with_run: list[str]
) -> tuple[BatchJob | None, list[SpecProblem]]:
    """Return the job of some entries (None if invalid) and mistakes; `studies_with_run`: have a run when it starts."""
    entry, mistakes = entries[0], list[SpecProblem]()
    plan = _entry_plan(layout, entry, studies_with_run, mistakes)
    inventory = _entry_hosts_file(entry, plan, mistakes)
    if plan is None:
        return None, mistakes
    reports: list[ReportJob] = []
    for report in (_report_job(layout, one, plan, names, mistakes) for one in entries):
        # entries that differ only in parameters that no notebook of the study declares have the same report
        if report.parameters not in [other.parameters for other in reports]:
            reports.append(report)
    count = len(plan.trials) if not entry.more else entry.more * len(plan.treatments)
    job = BatchJob(
        study=plan.study.name, study_source=entry.study, question=plan.study.question, hosts=entry.hosts,
        subset=entry.subset, blocks=entry.blocks, more=entry.more, trials=count, run_s=count * plan.trial_s,
        notebooks=tuple(plan.study.notebooks),
        machines=None if entry.hosts is None else _machine_names(entry.hosts, inventory), reports=tuple(reports),
    )  # fmt: skip
    return job, mistakes


def _entry_plan(
    layout: Layout, entry: BatchEntry, studies_with_run: list[str], mistakes: list[SpecProblem]
) -> Plan | None:
    try:
        plan = plan_study(layout, load_study(layout, entry.study), entry.subset, entry.blocks)
    except LoadbookError as error:
        mistakes += _entry_problems(entry.location("study"), error)
        return None
    if entry.more and not layout.runs(plan.study.name) and plan.study.name not in studies_with_run:
        message = f"{plan.study.name} has no run yet to which blocks could be added"
        mistakes.append(SpecProblem(entry.location("more"), message))
    return plan


def _entry_hosts_file(entry: BatchEntry, plan: Plan | None, mistakes: list[SpecProblem]) -> HostsFile | None:
    """Return the hosts file of an entry, checked against its plan; None for the lab or if it cannot be read."""
    if entry.hosts is None:
        return None
    try:
        inventory = read_hosts(entry.hosts)
        if plan is not None:
            check_load_allowed(plan, inventory, entry.hosts, lab=bool(lab_kind(entry.hosts)))
            check_roles(plan, inventory)
    except LoadbookError as error:
        mistakes += _entry_problems(entry.location("hosts"), error, f"{entry.hosts}: ")
        return None
    return inventory


def _report_job(
    layout: Layout, entry: BatchEntry, plan: Plan, names: dict[str, str], mistakes: list[SpecProblem]
) -> ReportJob:
    """Return one report of a run; its parameters are checked against the study's notebooks."""
    known: dict[str, Any] = {}
    try:
        for name in plan.study.notebooks:
            known |= notebooks.declared_parameters(notebooks.find_notebook(layout, name))
        common = {name: value for name, value in entry.batch_parameters.items() if name in known}
        values = entry.entry_parameters | common
        parameters.validate_parameters(f"notebooks of {plan.study.name}", known, values)
    except UsageError as error:
        mistakes += _entry_problems(entry.location("parameters"), error)
        return ReportJob(names[entry.identity], entry.identity, {})
    for name, message in (("study", "is that of the entry"), ("run", "is the one that the entry makes")):
        if name in values:
            mistakes.append(SpecProblem(entry.location(f"parameters.{name}"), message))
    for name, kind, allowed in (("metric", "metric", METRICS), ("baseline", "treatment", plan.study.treatments)):
        if values.get(name, "") not in ("", *allowed):
            mistakes += _entry_problems(
                entry.location(f"parameters.{name}"), unknown_name_error(kind, values[name], allowed)
            )
    return ReportJob(names[entry.identity], entry.identity, values)


def _entry_problems(where: str, error: LoadbookError, prefix: str = "") -> Iterator[SpecProblem]:
    """Yield an error's problems as problems at `where` in a batch file; `prefix` is put before their message."""
    if isinstance(error, StudyError):
        yield from (SpecProblem(where, f"{error.source}: {one.path}: {one.message}") for one in error.problems)
    else:
        message = "; ".join(filter(None, [" ".join(error.message.split()), error.hint]))
        yield SpecProblem(where, message if prefix.rstrip(": ") in message else prefix + message)


def _machine_names(path: Path, inventory: HostsFile | None) -> frozenset[str] | None:
    """Return names and addresses of all hosts and external targets of a hosts file; None if one is this machine."""
    if inventory is None or inventory.replay is not None:
        return frozenset()
    named = {resolve_host_name(alias, entry).lower() for alias, entry in inventory.hosts.items()}
    named |= {entry.address.lower() for entry in inventory.hosts.values() if entry.address}
    named |= {external.rpartition(":")[0].lower() for external in inventory.external}
    return None if lab_kind(path) or any(map(LOOPBACK_ADDRESS.match, named)) else frozenset(named)


def _entry_names(entries: tuple[BatchEntry, ...]) -> dict[str, str]:
    """Return identity -> unique name of each entry (and its pages), made of the entry's values."""
    names: dict[str, str] = {}
    for entry in entries:
        short = _entry_name(entry, *entry.entry_parameters.values())
        long = _entry_name(entry, *entry.entry_parameters.values(), *entry.batch_parameters.values())
        free = [name for name in (short, long) if name not in {*names.values(), "index"}]
        names[entry.identity] = free[0] if free else f"{long}-{sha256(entry.identity.encode()).hexdigest()[:6]}"
    return names


def _entry_name(entry: BatchEntry, *values: Any) -> str:
    parts: list[Any] = [Path(entry.study).stem, entry.subset, entry.blocks and f"{entry.blocks}-blocks"]
    parts += [entry.more and f"{entry.more}-more", *values, entry.hosts and entry.hosts.stem]
    text = "-".join(str(part) for part in parts if part not in (None, ""))
    return re.sub(r"[^A-Za-z0-9._-]+|\.{2,}", "-", text).strip("-._")[:MAX_ENTRY_NAME] or "entry"


BATCH_FILE = "batch.json"
State = Literal["waiting", "running", "stopped", "done", "failed"]


class _FileModel(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class PageFiles(_FileModel):
    """Files made of a notebook: its page and the executed notebook, relative to batch.json; None if it failed."""

    notebook: str
    page: str | None = None
    executed: str | None = None


class EntryRecord(_FileModel):
    """One entry of a batch run: study and options, state and result.

    Attributes
    ----------
    blocks_after : number of blocks that the run has after those of `more` are added.
    ran_s, reported_s : seconds of run and report; the time of a shared run is recorded in its first entry only.
    summary : summary of the first page (verdict, sentences, number of valid trials).
    exit_code : exit code that the command line would have for this entry alone.
    """

    name: str
    identity: str
    study: str
    question: str
    hosts: str
    subset: str | None = None
    blocks: int | None = None
    more: int | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    state: State = "waiting"
    run: str | None = None
    blocks_after: int | None = None
    ran_s: float = 0.0
    reported_s: float = 0.0
    summary: dict[str, Any] = Field(default_factory=dict)
    pages: list[PageFiles] = Field(default_factory=list)
    reason: str | None = None
    next: str | None = None
    exit_code: int = 0

    @property
    def took_s(self) -> float:
        """Duration of run and reports together, seconds."""
        return self.ran_s + self.reported_s

    def fail(self, error: LoadbookError) -> None:
        """Record that the entry failed, with reason, next step and exit code of `error`."""
        self.state, self.exit_code = "failed", error.exit_code
        self.reason, self.next = " ".join(error.message.split()), error.hint


class BatchRun(_FileModel):
    """One execution of a batch file; `ended` is None until all entries (in the file's order) are done or failed.

    `batch` is the batch's name, `file` its absolute path. `began` and `ended` are epoch seconds; `sittings` is the
    number of times that the batch was started or resumed.
    """

    format: Literal[1] = 1
    batch: str
    file: str
    began: float
    ended: float | None = None
    sittings: int = 1
    exit_code: int = 0
    entries: list[EntryRecord]

    def entry_of(self, report: ReportJob) -> EntryRecord:
        """Return the entry of a report."""
        return next(entry for entry in self.entries if entry.identity == report.identity)

    def write(self, folder: Path) -> None:
        """Write batch.json to `folder`, with the highest exit code of all entries."""
        self.exit_code = max((entry.exit_code for entry in self.entries), default=0)
        write_json(folder / BATCH_FILE, self.model_dump(mode="json"))


def read_batch_run(folder: Path) -> BatchRun | None:
    """Return the last run of the batch whose pages are in `folder`; None if there is none; DataError if damaged."""
    path = folder / BATCH_FILE
    if not path.is_file():
        return None
    try:
        return BatchRun.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        message = f"{path} is no round of a batch: {first['loc']}: {first['msg']}"
        raise DataError(message, "--new begins another") from error


def start_batch_run(
    batch: Batch, jobs: list[BatchJob], last: BatchRun | None, *, new: bool, failed: bool
) -> tuple[BatchRun, str]:
    """Return the batch run to execute, and a text about it.

    The last run is resumed if it has not ended, or (with `failed`) to repeat its failed entries: entries are taken from
    the file as it is now, and those that are done are not repeated. Otherwise, or with `new`, a new run begins.

    UsageError: the last run is that of another batch file with the same name, or `failed` is set without a last run.
    """
    if last is not None and Path(last.file) != batch.file:
        message = f"a batch called {batch.name!r} is that of {last.file}"
        raise UsageError(message, 'give this one a name of its own, in its first line: name = "..."')
    if failed and last is None:
        raise UsageError(f"batch {batch.name!r} has had no round yet: nothing has failed", "leave --failed out")
    entries = [
        EntryRecord(
            name=report.name, identity=report.identity, parameters=report.parameters, study=job.study,
            question=job.question, hosts=str(job.hosts) if job.hosts else "lab", subset=job.subset, blocks=job.blocks,
            more=job.more,
        )
        for job in jobs for report in job.reports
    ]  # fmt: skip
    if last is None or new or (last.ended is not None and not failed):
        return BatchRun(batch=batch.name, file=str(batch.file), began=clock.now(), entries=entries), "a new round"
    known = {entry.identity: entry for entry in last.entries}
    for number, entry in enumerate(entries):
        before = known.pop(entry.identity, None)
        if before is not None and before.state == "done":
            entries[number] = before
        elif before is not None:
            entry.run, entry.blocks_after = before.run, before.blocks_after
    done = sum(entry.state == "done" for entry in entries)
    dropped = f"; no longer in the file: {', '.join(entry.name for entry in known.values())}" if known else ""
    text = f"going on with the round of {utc_text(last.began)} UTC: {done} of {len(entries)} entries are done{dropped}"
    return last.model_copy(update={"entries": entries, "ended": None, "sittings": last.sittings + 1}), text
