"""What an attempt is called: its jobs on the hosts, its folders here, and its record before anything is known of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from loadbook.design.plan import PlannedTrial
from loadbook.records.layout import RunPaths
from loadbook.records.manifest import TrialRecord

if TYPE_CHECKING:
    from loadbook.trials.bench import Testbed


def job_stem(run: str, trial: str, attempt: int) -> str:
    """Return what the names of all jobs of one attempt begin with."""
    return f"{run}-{trial}-a{attempt}"


def preflight_stem(run: str) -> str:
    """Return what the names of the jobs and folders of a run's checks begin with."""
    return f"{run}-preflight"


def load_job_name(stem: str) -> str:
    """Return the name of the load's job."""
    return f"{stem}-load"


def monitor_job_name(stem: str) -> str:
    """Return the name of the monitors' job."""
    return f"{stem}-monitor"


def service_job_name(stem: str, role: str) -> str:
    """Return the name of a service's job and folder."""
    return f"{stem}-{role}"


def changes_job_name(stem: str) -> str:
    """Return the name of the job that changes a host's settings and puts them back."""
    return f"{stem}-guard"


def job_names(stem: str, roles: Iterable[str]) -> list[str]:
    """Return the names of all jobs that an attempt may have on a host, the one that puts settings back last."""
    return [load_job_name(stem), monitor_job_name(stem), *(service_job_name(stem, role) for role in roles), changes_job_name(stem)]


def staging_folder(paths: RunPaths, trial: str, attempt: int) -> Path:
    """Return the folder in which an attempt is put together; it vanishes when the attempt is published."""
    return paths.raw / "staging" / f"{trial}-attempt{attempt}"


def failed_folder(paths: RunPaths, trial: str, attempt: int) -> Path:
    """Return the folder in which a failed attempt is kept."""
    return paths.failed / f"{trial}-attempt{attempt}"


def initial_record(testbed: Testbed, planned: PlannedTrial, attempt: int) -> TrialRecord:
    """Return the record of an attempt of which nothing is known but that it was begun."""
    study = testbed.plan.study
    load = study.workload_of(planned.treatment)
    return TrialRecord(
        study=study.name,
        run=testbed.run,
        trial=planned.trial,
        treatment=planned.treatment,
        factors={name: str(level) for name, level in study.levels_of(planned.treatment).items()},
        block=planned.block,
        slot=planned.slot,
        attempt=attempt,
        status="lost",
        reason="the controller ended during this attempt",
        tool=load.tool,
        tool_version=next((v for (_, tool), v in testbed.tool_versions.items() if tool == load.tool), None),
        workload=load.model_dump(mode="json"),
    )
