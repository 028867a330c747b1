"""`loadbook batch FILE`: many studies run and reported by one call, and gone on with by the same one."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from loadbook.cli.interrupts import EXIT_CODE, hearing
from loadbook.cli.say import echo, echo_now
from loadbook.records.layout import Layout, project_layout

if TYPE_CHECKING:
    from loadbook.report.batch.rows import BatchRun
    from loadbook.report.batch.sitting import BatchOptions
    from loadbook.report.batch.works import BatchJob


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--dry-run", "dry", is_flag=True, help="Only say what would be done, in which order, and how long it takes."
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

    The same command goes on where it was stopped: what is done is not done again. A round that is over is followed by a
    new one. Exit code: the worst of any entry (1: a verdict that its study declares unacceptable).
    """
    from loadbook.cli.batch_said import dry_run, show
    from loadbook.core.errors import UsageError
    from loadbook.design.batch_file import read_batch
    from loadbook.report.batch.page import PAGE_FILE
    from loadbook.report.batch.rows import start_batch_run, read_batch_run
    from loadbook.report.batch.sitting import BatchOptions
    from loadbook.report.batch.works import batch_jobs
    from loadbook.report.notebooks import TIMEOUT_S
    from loadbook.trials.lock import hold_study_lock

    if new and failed:
        raise UsageError("--new begins another round, --failed goes on with the last one", "leave one of them out")
    here, read = project_layout(), read_batch(file)
    works = batch_jobs(here, read)
    how = BatchOptions(jobs, fail_fast, wait_limit, timeout_s or TIMEOUT_S)
    if dry:
        last = None if new else read_batch_run(here.batch(read.name))
        dry_run(here, works, *start_batch_run(read, works, last, new=new, failed=failed), jobs)
        return
    with hold_study_lock(here.batch(read.name)):
        last = None if new else read_batch_run(here.batch(read.name))
        round_, why = start_batch_run(read, works, last, new=new, failed=failed)
        echo(f"batch {read.name}: {why}; {here.batch(read.name) / PAGE_FILE} shows how far it is", err=True)
        interrupted = _sit(here, round_, works, how)
    show(here, round_, as_json)
    sys.exit(EXIT_CODE if interrupted else round_.exit_code)


def _sit(here: Layout, round_: BatchRun, works: list[BatchJob], how: BatchOptions) -> bool:
    """Do what is left of a round, ended by Ctrl-C or SIGTERM, at once by the second; tell whether it was."""
    from loadbook.cli.batch_said import Reporter
    from loadbook.report.batch.sitting import BatchSession

    with Reporter(sys.stderr) as reporter:
        sitting = BatchSession(here, round_, works, how, reporter)

        def heard(signum: int, frame: FrameType | None) -> None:
            echo_now(_AGAIN if sitting.scheduler.stops else _FIRST)
            sitting.scheduler.stop()

        with hearing(heard):
            sitting.run()
    if sitting.scheduler.stops:
        echo("stopped; the same command goes on where it was", err=True)
    return bool(sitting.scheduler.stops)


_FIRST = "interrupted: every load is ended and hosts are put back; once more: without waiting"
_AGAIN = "not waiting: hosts end and put back what is left by themselves (loadbook restore)"
