"""`loadbook batch FILE`: run and report many studies by one call; the same call resumes the rest."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from loadbook.cli.terminal import EXIT_CODE, FIRST_INTERRUPT, echo, echo_now, print_table, signal_handlers
from loadbook.core.units import format_duration
from loadbook.store.paths import Layout, project_layout

if TYPE_CHECKING:
    from loadbook.batch.jobs import BatchJob, BatchRun
    from loadbook.batch.scheduler import BatchOptions

SECOND_INTERRUPT = "not waiting: hosts end and put back what is left by themselves (loadbook restore)"


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--dry-run", "dry", is_flag=True, help="Only print what would be done, in which order, and how long it takes."
)
@click.option("--new", is_flag=True, help="Begin a new round although the last one is not over.")
@click.option("--failed", is_flag=True, help="Of the last round, do again what failed.")
@click.option("--fail-fast", is_flag=True, help="Start nothing more after the first failure.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=4, show_default=True, help="Entries at a time, where hosts differ."
)
@click.option(
    "--wait-limit",
    type=click.FloatRange(min=0),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long an entry waits for hosts that another run uses.",
)
@click.option(
    "--timeout-s", type=click.IntRange(min=1), help="Seconds that one cell of a notebook may take; default: 600."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON instead of a table.")
def batch(
    file: Path,
    dry: bool,
    new: bool,
    failed: bool,
    fail_fast: bool,
    jobs: int,
    wait_limit: float,
    timeout_s: int | None,
    as_json: bool,
) -> None:
    """Run every study of a batch FILE and execute its notebooks; then a table, a summary page, and its JSON.

    The same command resumes after an interruption: what is done is not done again. A round that is over is followed by
    a new one. Exit code: the worst of any entry (1: a verdict that its study declares unacceptable).
    """
    from loadbook.batch.file import read_batch
    from loadbook.batch.jobs import batch_jobs, read_batch_run, start_batch_run
    from loadbook.batch.page import PAGE_FILE
    from loadbook.batch.scheduler import BatchOptions
    from loadbook.core.errors import UsageError
    from loadbook.report.notebooks import TIMEOUT_S
    from loadbook.store.atomic import hold_study_lock

    if new and failed:
        raise UsageError("--new begins another round, --failed goes on with the last one", "leave one of them out")
    layout, spec = project_layout(), read_batch(file)
    folder, batch_job_list = layout.batch(spec.name), batch_jobs(layout, spec)

    def start() -> tuple[BatchRun, str]:
        last = None if new else read_batch_run(folder)
        return start_batch_run(spec, batch_job_list, last, new=new, failed=failed)

    if dry:
        _print_dry_run(layout, batch_job_list, *start(), jobs)
        return
    with hold_study_lock(folder):
        batch_run, choice = start()
        echo(f"batch {spec.name}: {choice}; {folder / PAGE_FILE} shows how far it is", err=True)
        options = BatchOptions(jobs, fail_fast, wait_limit, timeout_s or TIMEOUT_S)
        interrupted = _run_batch(layout, batch_run, batch_job_list, options)
    _print_batch(layout, batch_run, as_json)
    sys.exit(EXIT_CODE if interrupted else batch_run.exit_code)


def _run_batch(layout: Layout, batch_run: BatchRun, jobs: list[BatchJob], options: BatchOptions) -> bool:
    """Execute the rest of a batch run; Ctrl-C or SIGTERM ends it, a second one at once; return whether it was."""
    from loadbook.batch.progress import ProgressDisplay
    from loadbook.batch.scheduler import BatchSession

    with ProgressDisplay(sys.stderr) as display:
        session = BatchSession(
            layout, batch_run, jobs, options,
            lambda job, name, event, remaining_s: display(event, name, remaining_s, key=id(job)),
        )  # fmt: skip

        def on_signal(signum: int, frame: FrameType | None) -> None:
            echo_now(SECOND_INTERRUPT if session.scheduler.stops else FIRST_INTERRUPT)
            session.scheduler.stop()

        with signal_handlers(on_signal):
            session.run()
    if session.scheduler.stops:
        echo("stopped; the same command goes on where it was", err=True)
    return bool(session.scheduler.stops)


def _print_dry_run(layout: Layout, jobs: list[BatchJob], batch_run: BatchRun, choice: str, max_parallel: int) -> None:
    """Print in which order the jobs would be done, when, and on which hosts; nothing is touched."""
    from loadbook.batch.scheduler import timetable
    from loadbook.report.build import page_file_name

    left = [job for job in jobs if any(batch_run.entry_of(report).state != "done" for report in job.reports)]
    times = timetable(left, max_parallel)
    whole_s = max((end for _, end in times.values()), default=0.0)
    echo(f"batch {batch_run.batch}: {choice}; what it would do, nothing was touched")
    trials = sum(job.trials for job in left)
    echo(f"{trials} trials, about {format_duration(whole_s)} in all; pages in {layout.batch(batch_run.batch)}")
    for number, job in enumerate(sorted(jobs, key=lambda job: times.get(id(job), (0.0,))[0]), 1):
        planned = times.get(id(job))
        if planned is None:
            start = "is done, not repeated"
        else:
            start = f"after {format_duration(planned[0])}" if planned[0] else "at once"
        echo(f"\n{number}. {job.study} on {job.hosts_text}: {start}")
        if planned:
            echo(f"   {job.trials} trials, about {format_duration(job.run_s)}; notebooks {', '.join(job.notebooks)}")
        for report in job.reports:
            parameters = ", ".join(f"{name} = {value}" for name, value in report.parameters.items())
            done = batch_run.entry_of(report).state == "done"
            page = "done" if done else page_file_name(report.name, "", first=True)
            echo(f"   {page}" + (f": {parameters}" if parameters else ""))


def _print_batch(layout: Layout, batch_run: BatchRun, as_json: bool) -> None:
    """Print the entries of a batch run as a table, and where its page is; write the index."""
    from loadbook.batch.index import write_index
    from loadbook.batch.jobs import BATCH_FILE
    from loadbook.batch.page import PAGE_FILE, entry_views, tally

    folder = layout.batch(batch_run.batch)
    write_index(layout.reports)
    if as_json:
        echo(batch_run.model_dump_json(indent=1))
        return
    views = entry_views(batch_run)
    rows = [(v.entry.name, f"{v.glyph} {v.state}", v.valid_trials, v.took, "\n".join(v.lines)) for v in views]
    verdict = "Verdict, or why there is none"
    print_table(("Entry", "State", "Valid", "Took", verdict), rows, fold=(verdict,), width=160, style="")
    echo(f"{tally(batch_run)}; exit code {batch_run.exit_code}")
    if resume := next((view.resume_command for view in views if view.resume_command), None):
        echo(f"to go on: {resume}")
    echo(f"page: {folder / PAGE_FILE}")
    echo(f"json: {folder / BATCH_FILE}")
