"""Reports -> a run on disk like any other: whole, by one rename, or not at all."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from loadbook.design.plan import Plan, PlannedTrial, study_sha256
from loadbook.records import manifest
from loadbook.records.atomic import move
from loadbook.records.layout import RunPaths
from loadbook.records.ledger import Ledger
from loadbook.records.manifest import DriverRecord, Status, TrialRecord, write_json
from loadbook.records.schema import SCHEMA_VERSION
from loadbook.records.verify import own_files
from loadbook.tools import registry
from loadbook.trials.imported_files import all_files
from loadbook.trials.imported_reports import Report
from loadbook.trials.outputs import argv_of

DRIVER = "driver"
CONDITIONS = "conditions.csv"
Pair = tuple[PlannedTrial, Report]
OnFile = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Tell nobody of progress."""


@dataclass(frozen=True)
class Import:
    """Outputs that were checked: the study that they answer, its plan in order, and what the user should know."""

    folder: Path
    conditions: Path
    study_text: str
    plan: Plan
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.plan.study.name


def write_run(paths: RunPaths, made: Import, on_file: OnFile) -> None:
    """Make a run's folder under another name, then rename it; on any failure nothing of it is left."""
    part, run = paths.raw.with_name(f".{paths.raw.name}.part"), paths.raw.name
    try:
        part.mkdir(parents=True)
        new = RunPaths(part, part)
        new.study_toml.write_text(made.study_text, encoding="utf-8")
        shutil.copyfile(made.conditions, part / CONDITIONS)
        with Ledger(new.ledger) as ledger:
            ledger.append("run-started", trials=len(made.plan.trials))
            for done, (planned, report) in enumerate(made.pairs, 1):
                _keep(new, ledger, made.plan, run, planned, report)
                on_file(done, len(made.pairs))
            write_json(new.run_json, _run_json(run, made))
            write_json(new.plan, made.plan.to_json())
            ledger.append("run-ended", files=own_files(new))
        move(part, paths.raw)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _keep(paths: RunPaths, ledger: Ledger, plan: Plan, run: str, planned: PlannedTrial, report: Report) -> None:
    """Copy one output byte for byte, seal it with its record, and account for it."""
    record = _record(plan, run, planned, report)
    kept = f"{planned.trial}-attempt1"
    folder = paths.trial(planned.trial) if record.status == "ok" else paths.failed / kept
    folder.mkdir(parents=True)
    for pattern, path in all_files(report.source):
        shutil.copyfile(path, folder / pattern.format(host=record.drivers[0].host), follow_symlinks=False)
    for name in (record.drivers[0].stdout, record.drivers[0].stderr):
        (folder / name).touch()  # what was not kept is empty
    manifest.seal(folder, record)
    ledger.append("started", trial=planned.trial, attempt=1)
    sealed = manifest.sha256_file(folder / manifest.NAME)
    fields = {"trial": planned.trial, "attempt": 1, "status": record.status, "reason": record.reason}
    ledger.append("ended", **fields, final=True, sha256=sealed)


def _record(plan: Plan, run: str, planned: PlannedTrial, report: Report) -> TrialRecord:
    """Return what is known of a trial: what is not stays empty, so that gates call it unchecked."""
    said, study = report.condition, plan.study
    driver = _driver(report)
    failed = driver.rc not in (0, None)
    status: Status = "tool_failed" if failed else "ok"
    return TrialRecord(
        study=study.name,
        run=run,
        trial=planned.trial,
        treatment=planned.treatment,
        factors={name: str(level) for name, level in study.levels_of(planned.treatment).items()},
        block=planned.block,
        slot=planned.slot,
        attempt=1,
        status=status,
        reason=f"host {driver.host}: {report.tool} ended with exit code {driver.rc}" if failed else None,
        started=said.started,
        duration_s=said.duration,
        tool=report.tool,
        workload=_workload(report),
        drivers=[driver],
    )


def _workload(report: Report) -> dict[str, Any]:
    if not report.is_open:
        return {"tool": report.tool, "model": "closed"}
    return {"tool": report.tool, "model": "open", "rate_per_s": report.offered_per_s}


def _driver(report: Report) -> DriverRecord:
    source, host = report.source, report.condition.host or DRIVER
    return DriverRecord(
        host=host,
        argv=list(argv_of(source.command, registry.load(report.tool).binary)),
        rc=source.rc,
        stdout=f"stdout-{host}",
        stderr=f"stderr-{host}",
        files={name: f"{host}-{name}" for name in source.files},
        source=report.condition.file,
    )


def _run_json(run: str, made: Import) -> dict[str, Any]:
    plan, said, now = made.plan, [report.condition for _, report in made.pairs], time.time()
    hosts = dict.fromkeys(c.host or DRIVER for c in said)
    tools = {h: dict.fromkeys(r.tool for _, r in made.pairs if (r.condition.host or DRIVER) == h) for h in hosts}
    times = [c.started for c in said if c.started is not None]
    ends = [c.started + (c.duration or 0.0) for c in said if c.started is not None]
    timed = len(times) == len(said)
    return {
        "study": plan.study.name,
        "run": run,
        "subset": plan.subset,
        "schema_version": SCHEMA_VERSION,
        "started": min(times) if timed else now,
        "ended": max(ends) if timed else None,
        "loadbook_version": version("loadbook"),
        "git_revision": None,
        "git_dirty": None,
        "study_sha256": study_sha256(plan.study),
        "seed": None,
        "blocks": plan.blocks,
        "hosts": {host: {"roles": ["driver"]} for host in hosts},
        "tool_versions": {host: ", ".join(names) for host, names in tools.items()},
        "service_versions": {},
        "lab": False,
        "replay": None,
        "resumed": 0,
        "provenance": "imported",
        "imported": {"at": now, "timed": timed}
        | {"folder": _printable(made.folder.name), "conditions": _printable(made.conditions.name)},
    }


def _printable(name: str) -> str:
    """Return a file's name as JSON and a page can hold it, whatever bytes it has."""
    return "".join(c if c.isprintable() else "?" for c in name)
