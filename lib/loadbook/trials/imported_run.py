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
from loadbook.records.atomic import move_folder
from loadbook.records.layout import RunPaths
from loadbook.records.ledger import Ledger
from loadbook.records.manifest import DriverRecord, Status, TrialRecord, write_json
from loadbook.records.schema import SCHEMA_VERSION
from loadbook.records.verify import run_file_checksums
from loadbook.tools import registry
from loadbook.trials.imported_files import files_by_kept_name
from loadbook.trials.imported_reports import ToolReport
from loadbook.trials.outputs import find_argv

DEFAULT_DRIVER = "driver"
CONDITIONS_FILE = "conditions.csv"
PlannedOutput = tuple[PlannedTrial, ToolReport]
OnFile = Callable[[int, int], None]


def ignore_progress(done: int, total: int) -> None:
    """Tell nobody of progress."""


@dataclass(frozen=True)
class CheckedImport:
    """Outputs that were checked: the study that they answer, its plan in order, and what the user should know."""

    folder: Path
    conditions: Path
    study_text: str
    plan: Plan
    pairs: tuple[PlannedOutput, ...]
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.plan.study.name


def write_run(paths: RunPaths, checked: CheckedImport, on_file: OnFile) -> None:
    """Make a run's folder under another name, then rename it; on any failure nothing of it is left."""
    part, run = paths.raw.with_name(f".{paths.raw.name}.part"), paths.raw.name
    try:
        part.mkdir(parents=True)
        new = RunPaths(part, part)
        new.study_toml.write_text(checked.study_text, encoding="utf-8")
        shutil.copyfile(checked.conditions, part / CONDITIONS_FILE)
        with Ledger(new.ledger) as ledger:
            ledger.append("run-started", trials=len(checked.plan.trials))
            for done, (planned, report) in enumerate(checked.pairs, 1):
                _write_trial(new, ledger, checked.plan, run, planned, report)
                on_file(done, len(checked.pairs))
            write_json(new.run_json, _run_json(run, checked))
            write_json(new.plan_json, checked.plan.to_json())
            ledger.append("run-ended", files=run_file_checksums(new))
        move_folder(part, paths.raw)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write_trial(paths: RunPaths, ledger: Ledger, plan: Plan, run: str, planned: PlannedTrial, report: ToolReport) -> None:
    """Copy one output byte for byte, seal it with its record, and account for it."""
    record = _trial_record(plan, run, planned, report)
    failed_name = f"{planned.trial}-attempt1"
    folder = paths.trial(planned.trial) if record.status == "ok" else paths.failed / failed_name
    folder.mkdir(parents=True)
    for pattern, path in files_by_kept_name(report.source):
        shutil.copyfile(path, folder / pattern.format(host=record.drivers[0].host), follow_symlinks=False)
    for name in (record.drivers[0].stdout, record.drivers[0].stderr):
        (folder / name).touch()  # what was not kept is empty
    manifest.seal_trial(folder, record)
    ledger.append("started", trial=planned.trial, attempt=1)
    sealed = manifest.sha256_file(folder / manifest.RECORD_NAME)
    fields = {"trial": planned.trial, "attempt": 1, "status": record.status, "reason": record.reason}
    ledger.append("ended", **fields, final=True, sha256=sealed)


def _trial_record(plan: Plan, run: str, planned: PlannedTrial, report: ToolReport) -> TrialRecord:
    """Return what is known of a trial: what is not stays empty, so that gates call it unchecked."""
    condition, study = report.condition, plan.study
    driver = _driver_record(report)
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
        started=condition.started,
        duration_s=condition.duration,
        tool=report.tool,
        workload=_workload_record(report),
        drivers=[driver],
    )


def _workload_record(report: ToolReport) -> dict[str, Any]:
    if not report.is_open:
        return {"tool": report.tool, "model": "closed"}
    return {"tool": report.tool, "model": "open", "rate_per_s": report.offered_per_s}


def _driver_record(report: ToolReport) -> DriverRecord:
    source, host = report.source, report.condition.host or DEFAULT_DRIVER
    return DriverRecord(
        host=host,
        argv=list(find_argv(source.command, registry.load_tool(report.tool).binary)),
        rc=source.rc,
        stdout=f"stdout-{host}",
        stderr=f"stderr-{host}",
        files={name: f"{host}-{name}" for name in source.files},
        source=report.condition.file,
    )


def _run_json(run: str, checked: CheckedImport) -> dict[str, Any]:
    plan, conditions, now = checked.plan, [report.condition for _, report in checked.pairs], time.time()
    hosts = dict.fromkeys(c.host or DEFAULT_DRIVER for c in conditions)
    tools = {h: dict.fromkeys(r.tool for _, r in checked.pairs if (r.condition.host or DEFAULT_DRIVER) == h) for h in hosts}
    times = [c.started for c in conditions if c.started is not None]
    ends = [c.started + (c.duration or 0.0) for c in conditions if c.started is not None]
    timed = len(times) == len(conditions)
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
        | {"folder": _printable(checked.folder.name), "conditions": _printable(checked.conditions.name)},
    }


def _printable(name: str) -> str:
    """Return a file's name as JSON and a page can hold it, whatever bytes it has."""
    return "".join(c if c.isprintable() else "?" for c in name)
