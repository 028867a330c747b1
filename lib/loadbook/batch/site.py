"""All reports by one command (`loadbook report --all`): run every smoke study without a run, then make every report.

The index lists studies that cannot be run here, with the reason (a missing tool, permission or host).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from loadbook.core import clock
from loadbook.core.errors import LoadbookError
from loadbook.execution.progress import OnEvent
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.execution.studies import load_study
from loadbook.ingestion.workers import worker_processes
from loadbook.report import notebooks
from loadbook.report.build import BuiltReport, OnMessage, build_report
from loadbook.store.ledger import is_run_complete, read_current_plan
from loadbook.store.paths import Layout
from loadbook.store.run_record import read_run_record
from loadbook.study.model import Study
from loadbook.study.plan import as_planned, study_sha256
from loadbook.study.reader import SMOKE_SUFFIX, is_variant, study_files


@dataclass
class SiteStudy:
    """One study: its run, the durations of run and report in seconds, or the reason why it could not run (`lacks`).

    `stood`: whether the run existed before; `ran_s` is then its recorded duration.
    """

    study: str
    run: str | None = None
    stood: bool = False
    ran_s: float = 0.0
    reported_s: float = 0.0
    lacks: str | None = None


@dataclass
class SiteReport:
    """The report of one study, and its duration in seconds; `error` is None if all of its notebooks succeeded.

    `built` is None if no report was made at all; it is there, beside `error`, if only some notebooks failed.
    """

    study: str
    built: BuiltReport | None
    error: str | None
    took_s: float


def run_smoke_studies(
    layout: Layout, hosts: Path | None, new: bool, on_event: OnEvent, on_message: OnMessage
) -> Iterator[SiteStudy]:
    """Run `NAME-smoke` of every study NAME one after the other, and yield each result.

    Variants of studies (article scale, includes without a question) are left out.
    Unless `new`, a study is not run again if its newest run is finished and the study has not changed since. `hosts` is
    a hosts file, None the lab. After KeyboardInterrupt, the same call resumes the interrupted run.
    """
    for name in [path.stem + SMOKE_SUFFIX for path in study_files(layout.studies) if not is_variant(path)]:
        started = clock.monotonic()
        part = SiteStudy(name)
        try:
            study = load_study(layout, name)
            finished, changed = _newest_run(layout, study)
            if finished and not (new or changed):
                record = read_run_record(layout.run(name, finished))
                part.run, part.stood, part.ran_s = finished, True, (record.ended or record.started) - record.started
            else:
                on_message(f"{name}: {study.question}")
                part.run = run_study(layout, RunRequest(name, hosts, new=new or changed), on_event=on_event)
                part.ran_s = clock.monotonic() - started
        except LoadbookError as error:
            # one or two sentences: the first two lines, the number of further ones, and the hint
            first, *others = [" ".join(line.split()) for line in error.message.splitlines()]
            more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
            part.lacks = " ".join([first, *others[:1]]) + more + (f"; {error.hint}" if error.hint else "")
        yield part


def _newest_run(layout: Layout, study: Study) -> tuple[str | None, bool]:
    """Return the newest run of a study (None if not finished), and whether the study has changed since its plan."""
    runs = layout.runs(study.name)
    if not runs:
        return None, False
    paths = layout.run(study.name, runs[-1])
    plan = read_current_plan(paths)
    changed = study_sha256(as_planned(study, plan)) != study_sha256(plan.study)
    return runs[-1] if is_run_complete(paths) else None, changed


def build_all_reports(
    layout: Layout, studies: Sequence[str], jobs: int, timeout_s: float = notebooks.TIMEOUT_S
) -> Iterator[SiteReport]:
    """Make the reports of the latest runs of `studies`, `jobs` at a time, and yield each result when it is complete.

    `timeout_s`: seconds that one cell of a notebook may take.
    """
    build = partial(_build_one_report, layout, timeout_s)
    if jobs == 1 or len(studies) < 2:
        yield from map(build, studies)
        return
    with worker_processes(jobs) as pool:
        for done in as_completed([pool.submit(build, study) for study in studies]):
            yield done.result()


def _build_one_report(layout: Layout, timeout_s: float, study: str) -> SiteReport:
    """Make one report; an error is returned as text, so that the other reports are still made."""
    started = clock.monotonic()
    built, error = None, None
    try:
        built = build_report(layout, study, "latest", (), lambda text: None, timeout_s)
        error = "; ".join(built.failed) or None
    except LoadbookError as failed:
        error = " ".join(failed.message.split())
    return SiteReport(study, built, error, clock.monotonic() - started)


def site_record(parts: Sequence[SiteStudy], began: float, reported_s: float) -> dict[str, Any]:
    """Return the record for the index: `began`, `ran_s`, `reported_s`, and `parts` as dicts.

    `began` is the start (epoch s), `reported_s` the duration of all reports in seconds.
    """
    ran_s = round(sum(part.ran_s for part in parts), 1)
    return {"began": began, "ran_s": ran_s, "reported_s": round(reported_s, 1), "parts": list(map(asdict, parts))}
