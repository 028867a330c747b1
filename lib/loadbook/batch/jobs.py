"""What a batch file means here: its studies, hosts files and notebooks read, every misfit named before anything runs.

Entries that measure alike share one run and differ in what is reported of it: together they are one `BatchJob`.

What came of a batch, kept in one file (batch.json) after every change: the summary for programs, and the way back.

A round is one pass over a batch file. Whoever calls again after an end that was none goes on with the same round:
what is done stays done.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loadbook.batch.file import Batch, BatchEntry
from loadbook.core.errors import DataError, LoadbookError, SpecProblem, StudyError, UsageError, unknown_name_error
from loadbook.core.metrics import METRICS
from loadbook.execution.studies import load_study
from loadbook.execution.testbed import check_load_allowed, check_roles
from loadbook.hosts.inventory import HostsFile, read_hosts
from loadbook.hosts.keys import resolve_host_name
from loadbook.hosts.lab import lab_kind
from loadbook.report import notebooks
from loadbook.report import notebooks as parameters
from loadbook.store.paths import Layout
from loadbook.store.trial_record import read_json, write_json
from loadbook.study.plan import Plan, make_plan

# what a notebook of ours takes on a slow machine, seconds: only estimates use it
NOTEBOOK_S = 15.0
FIXED_PARAMETERS = ("study", "run")
LOOPBACK_ADDRESS = re.compile(r"localhost$|127\.|::1$|\[::1\]")
MAX_ENTRY_NAME = 80


@dataclass(frozen=True)
class ReportJob:
    """One entry of a work: its name (of its row and pages), and the parameters of its notebooks."""

    name: str
    identity: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class BatchJob:
    """One measurement and the reports made of it.

    Parameters
    ----------
    study_source : the study as `run_study` takes it; `study` is its own name.
    machines : names and addresses of what it measures on or puts load on; empty for what is only played back. None:
        this machine, on which notebooks are executed, too.
    run_s : seconds that its trials are expected to take.
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
        """Seconds that everything is expected to take."""
        return self.run_s + NOTEBOOK_S * len(self.notebooks) * len(self.reports)

    @property
    def name(self) -> str:
        """What it is called while it lasts: like its entry, or like its run where it is of several."""
        place = f" on {self.hosts.stem}" if self.hosts else ""
        return self.reports[0].name if len(self.reports) == 1 else f"{self.study}{place}"

    @property
    def hosts_text(self) -> str:
        """The hosts file in words."""
        return str(self.hosts or "the lab")


def batch_jobs(layout: Layout, batch: Batch) -> list[BatchJob]:
    """Return what there is to do, in the file's order.

    Raises
    ------
    StudyError : everything that is wrong, each with its key path and line; no host was asked anything.
    """
    found: list[SpecProblem] = []
    names = _entry_names(batch.entries)
    jobs: list[BatchJob] = []
    known = set(_default_parameter_names(batch))
    for _, group in groupby(sorted(batch.entries, key=_order_of_first_entry(batch)), key=lambda entry: entry.run_key):
        entries = list(group)
        job, wrong = _batch_job(layout, entries, names, [w.study for w in jobs if not w.more])
        found += wrong
        if job is not None:
            jobs.append(job)
            known -= {name for report in job.reports for name in report.parameters}
    if not found:
        found = [SpecProblem(f"parameters.{name}", "no notebook of these studies knows it") for name in sorted(known)]
    if found:
        raise StudyError(str(batch.file), list(dict.fromkeys(found)))
    return jobs


def _default_parameter_names(batch: Batch) -> Iterator[str]:
    for entry in batch.entries:
        yield from entry.batch_parameters


def _order_of_first_entry(batch: Batch) -> Any:
    """Return a key that brings entries which share a run together, where the first of them stands."""
    first: dict[str, int] = {}
    for number, entry in enumerate(batch.entries):
        first.setdefault(entry.run_key, number)
    return lambda entry: first[entry.run_key]


def _batch_job(
    layout: Layout, entries: list[BatchEntry], names: dict[str, str], studies_with_run: list[str]
) -> tuple[BatchJob | None, list[SpecProblem]]:
    """Return a work, and what is wrong with it; `studies_with_run` are studies that have got a run by then."""
    entry, found = entries[0], list[SpecProblem]()
    plan = _entry_plan(layout, entry, studies_with_run, found)
    inventory = _entry_hosts_file(entry, plan, found)
    if plan is None:
        return None, found
    reports: list[ReportJob] = []
    for report in (_report_job(layout, one, plan, names, found) for one in entries):
        # those that differ in what no notebook of this study knows are one
        if report.parameters not in [other.parameters for other in reports]:
            reports.append(report)
    count = len(plan.trials) if not entry.more else entry.more * len(plan.treatments)
    job = BatchJob(
        study=plan.study.name,
        study_source=entry.study,
        question=plan.study.question,
        hosts=entry.hosts,
        subset=entry.subset,
        blocks=entry.blocks,
        more=entry.more,
        trials=count,
        run_s=count * plan.trial_s,
        notebooks=tuple(plan.study.notebooks),
        machines=None if entry.hosts is None else _machine_names(entry.hosts, inventory),
        reports=tuple(reports),
    )
    return job, found


def _entry_plan(
    layout: Layout, entry: BatchEntry, studies_with_run: list[str], found: list[SpecProblem]
) -> Plan | None:
    try:
        plan = make_plan(load_study(layout, entry.study), entry.subset, entry.blocks)
    except LoadbookError as error:
        found += _entry_problems(entry.location("study"), error)
        return None
    if entry.more and not layout.runs(plan.study.name) and plan.study.name not in studies_with_run:
        message = f"{plan.study.name} has no run yet to which blocks could be added"
        found.append(SpecProblem(entry.location("more"), message))
    return plan


def _entry_hosts_file(entry: BatchEntry, plan: Plan | None, found: list[SpecProblem]) -> HostsFile | None:
    """Return the hosts file of an entry, held against its plan."""
    if entry.hosts is None:
        return None
    try:
        inventory = read_hosts(entry.hosts)
        if plan is not None:
            check_load_allowed(plan, inventory, entry.hosts, lab=bool(lab_kind(entry.hosts)))
            check_roles(plan, inventory)
    except LoadbookError as error:
        found += _entry_problems(entry.location("hosts"), error, f"{entry.hosts}: ")
        return None
    return inventory


def _report_job(
    layout: Layout, entry: BatchEntry, plan: Plan, names: dict[str, str], found: list[SpecProblem]
) -> ReportJob:
    """Return one report of a run; its parameters are checked against the study's notebooks."""
    known: dict[str, Any] = {}
    try:
        for name in plan.study.notebooks:
            known |= notebooks.declared_parameters(notebooks.find_notebook(layout, name))
        values = entry.entry_parameters | {
            name: value for name, value in entry.batch_parameters.items() if name in known
        }
        parameters.validate_parameters(f"notebooks of {plan.study.name}", known, values)
    except UsageError as error:
        found += _entry_problems(entry.location("parameters"), error)
        return ReportJob(names[entry.identity], entry.identity, {})
    for name in set(FIXED_PARAMETERS) & set(values):
        message = "is that of the entry" if name == "study" else "is the one that the entry makes"
        found.append(SpecProblem(entry.location(f"parameters.{name}"), message))
    for name, kind, allowed in (("metric", "metric", METRICS), ("baseline", "treatment", plan.study.treatments)):
        if values.get(name, "") not in ("", *allowed):
            found += _entry_problems(
                entry.location(f"parameters.{name}"), unknown_name_error(kind, values[name], allowed)
            )
    return ReportJob(names[entry.identity], entry.identity, values)


def _entry_problems(where: str, error: LoadbookError, prefix: str = "") -> Iterator[SpecProblem]:
    """Yield what an error says as problems of a batch file: each of several; `prefix`: the file it is about."""
    if isinstance(error, StudyError):
        yield from (SpecProblem(where, f"{error.source}: {one.path}: {one.message}") for one in error.problems)
    else:
        message = "; ".join(filter(None, [" ".join(error.message.split()), error.hint]))
        yield SpecProblem(where, message if prefix.rstrip(": ") in message else prefix + message)


def _machine_names(path: Path, inventory: HostsFile | None) -> frozenset[str] | None:
    """Return every name by which a hosts file knows what is measured: of hosts, and of external targets."""
    if inventory is None or inventory.replay is not None:
        return frozenset()
    named = {resolve_host_name(alias, entry).lower() for alias, entry in inventory.hosts.items()}
    named |= {entry.address.lower() for entry in inventory.hosts.values() if entry.address}
    named |= {external.rpartition(":")[0].lower() for external in inventory.external}
    return None if lab_kind(path) or any(map(LOOPBACK_ADDRESS.match, named)) else frozenset(named)


def _entry_names(entries: tuple[BatchEntry, ...]) -> dict[str, str]:
    """Return identity -> a name for each entry's row and pages, made of what it says, the same in every call."""
    found: dict[str, str] = {}
    for entry in entries:
        plain, long = (
            _entry_name(entry, *entry.entry_parameters.values()),
            _entry_name(entry, *entry.entry_parameters.values(), *entry.batch_parameters.values()),
        )
        taken = {*found.values(), "index"}
        free = [name for name in (plain, long) if name not in taken]
        found[entry.identity] = free[0] if free else f"{long}-{sha256(entry.identity.encode()).hexdigest()[:6]}"
    return found


def _entry_name(entry: BatchEntry, *values: Any) -> str:
    parts: list[Any] = [Path(entry.study).stem, entry.subset, entry.blocks and f"{entry.blocks}-blocks"]
    parts += [entry.more and f"{entry.more}-more", *values, entry.hosts and entry.hosts.stem]
    text = "-".join(str(part) for part in parts if part not in (None, ""))
    return re.sub(r"[^A-Za-z0-9._-]+|\.{2,}", "-", text).strip("-._")[:MAX_ENTRY_NAME] or "entry"


BATCH_FILE = "batch.json"
INTERRUPTED = 130
State = Literal["waiting", "running", "stopped", "done", "failed"]


class _FileModel(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class PageFiles(_FileModel):
    """The page of a notebook, and the notebook as it was executed: names of files beside batch.json; None: failed."""

    notebook: str
    page: str | None = None
    executed: str | None = None


class EntryRecord(_FileModel):
    """One entry: what it was to do, how far it is, and what came of it.

    `blocks_after`: of added blocks, how many there are when they are done. `ran_s` and `reported_s` are seconds; the
    run of entries that share one is told by the first. `summary` is what the first page says (verdict, sentences,
    trials that count). `exit_code` is that of the command line for this entry alone.
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

    def fail(self, error: LoadbookError) -> None:
        """Keep why the entry failed, and what to do about it."""
        self.state, self.exit_code = "failed", error.exit_code
        self.reason, self.next = " ".join(error.message.split()), error.hint


class BatchRun(_FileModel):
    """One pass over a batch file: its rows in the file's order; `ended` is None until none of them is left to do."""

    format: Literal[1] = 1
    batch: str
    file: str
    began: float
    ended: float | None = None
    sittings: int = 1
    exit_code: int = 0
    entries: list[EntryRecord]

    @property
    def unfinished(self) -> list[EntryRecord]:
        """The rows that are not finished."""
        return [row for row in self.entries if row.state != "done"]

    def entry_of(self, report: ReportJob) -> EntryRecord:
        """Return the row of a report."""
        return next(row for row in self.entries if row.identity == report.identity)

    def write(self, folder: Path) -> None:
        """Write the file; the exit code is the worst of any row: the highest."""
        self.exit_code = max((row.exit_code for row in self.entries), default=0)
        write_json(folder / BATCH_FILE, self.model_dump(mode="json"))


def read_batch_run(folder: Path) -> BatchRun | None:
    """Return the last round of a batch, None if there was none; DataError for a file that holds none."""
    path = folder / BATCH_FILE
    if not path.is_file():
        return None
    try:
        return BatchRun.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(
            f"{path} is no round of a batch: {first['loc']}: {first['msg']}", "--new begins another"
        ) from error


def start_batch_run(
    batch: Batch, jobs: list[BatchJob], last: BatchRun | None, *, new: bool, failed: bool
) -> tuple[BatchRun, str]:
    """Return the round to do, and a sentence that says which it is.

    The last one goes on where it was if it has not ended, or with what `failed` in it; else a new one begins.

    Raises
    ------
    UsageError : the last round is that of another file with this name; `failed` without a round.
    """
    if last is not None and Path(last.file) != batch.file:
        message = f"a batch called {batch.name!r} is that of {last.file}"
        raise UsageError(message, 'give this one a name of its own, in its first line: name = "..."')
    if failed and last is None:
        raise UsageError(f"batch {batch.name!r} has had no round yet: nothing has failed", "leave --failed out")
    if last is None or new or (last.ended is not None and not failed):
        rows = [_new_entry_record(job, report) for job in jobs for report in job.reports]
        return BatchRun(batch=batch.name, file=str(batch.file), began=time.time(), entries=rows), "a new round"
    return _resume_batch_run(last, jobs)


def _resume_batch_run(last: BatchRun, jobs: list[BatchJob]) -> tuple[BatchRun, str]:
    """Return the last round as its file is now: rows that are done stay, the others are to be done."""
    known = {row.identity: row for row in last.entries}
    rows = []
    for job in jobs:
        for report in job.reports:
            row = _new_entry_record(job, report)
            before = known.pop(report.identity, None)
            if before is not None and before.state == "done":
                row = before
            elif before is not None:
                row.run, row.blocks_after = before.run, before.blocks_after
            rows.append(row)
    done = sum(row.state == "done" for row in rows)
    dropped = f"; no longer in the file: {', '.join(row.name for row in known.values())}" if known else ""
    text = f"going on with the round of {_utc_text(last.began)}: {done} of {len(rows)} entries are done{dropped}"
    return last.model_copy(update={"entries": rows, "ended": None, "sittings": last.sittings + 1}), text


def _new_entry_record(job: BatchJob, report: ReportJob) -> EntryRecord:
    return EntryRecord(
        name=report.name,
        identity=report.identity,
        study=job.study,
        question=job.question,
        hosts=str(job.hosts) if job.hosts else "lab",
        subset=job.subset,
        blocks=job.blocks,
        more=job.more,
        parameters=report.parameters,
    )


def _utc_text(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
