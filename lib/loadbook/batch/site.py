"""The whole site by one call: every study's smoke variant is run where it was not yet, then every report is made.

What cannot be run here (a tool, a permission, a host that is missing) is kept with its reason and stands on the index.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadbook.core.errors import LoadbookError
from loadbook.execution.api import run_study
from loadbook.execution.progress import OnEvent
from loadbook.execution.studies import load_study
from loadbook.ingestion.workers import worker_processes
from loadbook.report import notebooks
from loadbook.report.build import BuiltReport, OnMessage, build_report
from loadbook.store.ledger import is_run_complete, read_current_plan
from loadbook.store.paths import Layout
from loadbook.store.run_record import read_run_record
from loadbook.study.model import Study
from loadbook.study.plan import parse_plan, study_sha256
from loadbook.study.reader import SMOKE_SUFFIX, is_variant, study_files

ReportTask = tuple[Layout, str, float]


@dataclass
class SiteStudy:
    """One study of the site: its run, what running and reporting took in seconds, or why it could not be run.

    `stood`: the run was there already.
    """

    study: str
    run: str | None = None
    stood: bool = False
    ran_s: float = 0.0
    reported_s: float = 0.0
    lacks: str | None = None


@dataclass
class SiteReport:
    """What came of one study's report: `built`, or the error that ended it, and the seconds that it took."""

    study: str
    built: BuiltReport | None
    error: str | None
    took_s: float


def smoke_study_names(layout: Layout) -> list[str]:
    """Return the smoke variant of every study that asks its own question."""
    return [path.stem + SMOKE_SUFFIX for path in study_files(layout.studies) if not is_variant(path)]


def run_smoke_studies(
    layout: Layout, hosts: Path | None, new: bool, on_event: OnEvent, on_message: OnMessage
) -> Iterator[SiteStudy]:
    """Run every smoke study, one after the other, and yield what came of each; what is done already is left alone.

    Parameters
    ----------
    hosts : hosts file; None is the lab.
    new : run also what has a finished run.

    Raises
    ------
    KeyboardInterrupt : the same call goes on with the study under way.
    """
    for name in smoke_study_names(layout):
        begun = time.monotonic()
        part = SiteStudy(name)
        try:
            study = load_study(layout, name)
            part.run = None if new else _finished_run(layout, study)
            part.stood = part.run is not None
            if part.run is None:
                on_message(f"{name}: {study.question}")
                part.run = run_study(layout, name, hosts, new=new or _study_changed(layout, study), on_event=on_event)
            part.ran_s = _run_duration_s(layout, part) if part.stood else time.monotonic() - begun
        except LoadbookError as error:
            part.lacks = _error_text(error)
        yield part


def _error_text(error: LoadbookError) -> str:
    """Return why a study could not be run in a sentence or two: of many reasons the first, with their number."""
    first, *others = [" ".join(line.split()) for line in error.message.splitlines()]
    why = " ".join([first, *others[:1]])
    more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
    return f"{why}{more}" + (f"; {error.hint}" if error.hint else "")


def _finished_run(layout: Layout, study: Study) -> str | None:
    """Return the newest run of a study if it is finished and of this very study."""
    runs = layout.runs(study.name)
    paths = layout.run(study.name, runs[-1]) if runs else None
    return runs[-1] if paths and is_run_complete(paths) and not _study_changed(layout, study) else None


def _run_duration_s(layout: Layout, part: SiteStudy) -> float:
    run = read_run_record(layout.run(part.study, str(part.run)))
    return (run.ended or run.started) - run.started


def _study_changed(layout: Layout, study: Study) -> bool:
    """Tell whether the newest run of a study was planned from another text of it."""
    runs = layout.runs(study.name)
    if not runs:
        return False
    paths = layout.run(study.name, runs[-1])
    return study_sha256(parse_plan(read_current_plan(paths), str(paths.plan_json)).study) != study_sha256(study)


def build_all_reports(
    layout: Layout, studies: Sequence[str], jobs: int, timeout_s: float = notebooks.TIMEOUT_S
) -> Iterator[SiteReport]:
    """Make the reports of studies that have a run, `jobs` at a time, and yield what came of each as it is done.

    `timeout_s` is what one cell of a notebook may take, in seconds.
    """
    work: list[ReportTask] = [(layout, study, timeout_s) for study in studies]
    if jobs == 1 or len(work) < 2:
        yield from map(_build_one_report, work)
        return
    from concurrent.futures import as_completed

    with worker_processes(jobs) as pool:
        for done in as_completed([pool.submit(_build_one_report, job) for job in work]):
            yield done.result()


def _build_one_report(job: ReportTask) -> SiteReport:
    """Make one report; an error becomes a text, so that the others go on."""
    layout, study, timeout_s = job
    begun = time.monotonic()
    built, error = None, None
    try:
        built = build_report(layout, study, "latest", (), lambda text: None, timeout_s)
        error = "; ".join(built.failed) or None
    except LoadbookError as failed:
        error = " ".join(failed.message.split())
    return SiteReport(study, built, error, time.monotonic() - begun)


def site_record(parts: Sequence[SiteStudy], began: float, reported_s: float) -> dict[str, Any]:
    """Return what the index says of the whole: when it began (epoch s), each part, seconds of all reports together."""
    ran_s = sum(part.ran_s for part in parts)
    return {
        "began": began,
        "ran_s": round(ran_s, 1),
        "reported_s": round(reported_s, 1),
        "parts": [asdict(part) for part in parts],
    }
