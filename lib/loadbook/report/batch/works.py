"""What a batch file means here: its studies, hosts files and notebooks read, every misfit named before anything runs.

Entries that measure alike share one run and differ in what is reported of it: together they are one `BatchJob`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from loadbook.core.errors import LoadbookError, SpecProblem, StudyError, UsageError
from loadbook.core.metrics import METRICS
from loadbook.core.names import unknown_name_error
from loadbook.design.batch_file import Batch, BatchEntry
from loadbook.design.plan import Plan, make_plan
from loadbook.hosts.inventory import HostsFile, read_hosts
from loadbook.hosts.lab_plan import lab_kind
from loadbook.hosts.ssh_config import resolve_host_name
from loadbook.records.layout import Layout
from loadbook.report import notebooks, parameters
from loadbook.trials.caps import check_load_allowed
from loadbook.trials.roles import check_roles
from loadbook.trials.studies import load_study

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


def _entry_plan(layout: Layout, entry: BatchEntry, studies_with_run: list[str], found: list[SpecProblem]) -> Plan | None:
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


def _report_job(layout: Layout, entry: BatchEntry, plan: Plan, names: dict[str, str], found: list[SpecProblem]) -> ReportJob:
    """Return one report of a run; its parameters are checked against the study's notebooks."""
    known: dict[str, Any] = {}
    try:
        for name in plan.study.notebooks:
            known |= notebooks.declared_parameters(notebooks.find_notebook(layout, name))
        values = entry.entry_parameters | {name: value for name, value in entry.batch_parameters.items() if name in known}
        parameters.validate_parameters(f"notebooks of {plan.study.name}", known, values)
    except UsageError as error:
        found += _entry_problems(entry.location("parameters"), error)
        return ReportJob(names[entry.identity], entry.identity, {})
    for name in set(FIXED_PARAMETERS) & set(values):
        message = "is that of the entry" if name == "study" else "is the one that the entry makes"
        found.append(SpecProblem(entry.location(f"parameters.{name}"), message))
    for name, kind, allowed in (("metric", "metric", METRICS), ("baseline", "treatment", plan.study.treatments)):
        if values.get(name, "") not in ("", *allowed):
            found += _entry_problems(entry.location(f"parameters.{name}"), unknown_name_error(kind, values[name], allowed))
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
        plain, long = _entry_name(entry, *entry.entry_parameters.values()), _entry_name(entry, *entry.entry_parameters.values(), *entry.batch_parameters.values())
        taken = {*found.values(), "index"}
        free = [name for name in (plain, long) if name not in taken]
        found[entry.identity] = free[0] if free else f"{long}-{sha256(entry.identity.encode()).hexdigest()[:6]}"
    return found


def _entry_name(entry: BatchEntry, *values: Any) -> str:
    parts: list[Any] = [Path(entry.study).stem, entry.subset, entry.blocks and f"{entry.blocks}-blocks"]
    parts += [entry.more and f"{entry.more}-more", *values, entry.hosts and entry.hosts.stem]
    text = "-".join(str(part) for part in parts if part not in (None, ""))
    return re.sub(r"[^A-Za-z0-9._-]+|\.{2,}", "-", text).strip("-._")[:MAX_ENTRY_NAME] or "entry"
