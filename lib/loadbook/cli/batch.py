"""What `loadbook batch` says: progress on stderr while it lasts, what would be done, and what came of it.

`loadbook batch FILE`: many studies run and reported by one call, and gone on with by the same one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO

import click

from loadbook.cli.progress import EXIT_CODE, cell, echo, echo_now, hearing
from loadbook.core.units import format_duration, format_remaining_time
from loadbook.store.paths import Layout, project_layout

if TYPE_CHECKING:
    from loadbook.batch.jobs import BatchJob, BatchRun
    from loadbook.batch.scheduler import BatchOptions
    from loadbook.execution.progress import Progress


class Reporter:
    """Receives what happens; on a terminal a live line for each work, elsewhere a line for each trial."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
        from rich.progress import Progress as Bars

        self.console = Console(file=stream, highlight=False, soft_wrap=True)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=20), MofNCompleteColumn())
        # no refresh by a clock: in the lab, drawing would take CPU from what is measured
        live = self.console.is_terminal
        self.bars = Bars(*columns, console=self.console, transient=True, auto_refresh=False, disable=not live)
        self.tasks: dict[int, TaskID] = {}

    def __call__(self, work: BatchJob, name: str, event: Progress, left_s: float) -> None:
        """Show one event of a work, and how long the whole batch still takes."""
        whole = f"; batch: {format_remaining_time(left_s)}" if left_s else ""
        if event.kind == "note":
            self.console.print(cell(f"{name}  {event.line()}"))
        elif event.kind == "trial-ended" and (event.status != "ok" or not self.console.is_terminal):
            self.console.print(cell(f"{name}  {event.line()}{whole}"))
        if event.kind != "note":
            self._move(id(work), f"{name}  {event.trial} {event.treatment}{event.remaining_text()}{whole}", event)

    def _move(self, key: int, text: str, event: Progress) -> None:
        if key not in self.tasks:
            self.tasks[key] = self.bars.add_task(text, total=event.total)
        over = event.done >= event.total
        self.bars.update(self.tasks[key], description=text, completed=event.done, visible=not over)
        self.bars.refresh()

    def __enter__(self) -> Reporter:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()


def dry_run(here: Layout, works: list[BatchJob], round_: BatchRun, why: str, jobs: int) -> None:
    """Say in which order what would be done, when, and on which hosts; nothing is touched."""
    from loadbook.batch.scheduler import timetable
    from loadbook.report.build import page_file_name

    left = [work for work in works if any(round_.entry_of(report).state != "done" for report in work.reports)]
    times = timetable(left, jobs)
    whole_s = max((end for _, end in times.values()), default=0.0)
    echo(f"batch {round_.batch}: {why}; what it would do, nothing was touched")
    trials = sum(work.trials for work in left)
    echo(f"{trials} trials, about {format_duration(whole_s)} in all; pages in {here.batch(round_.batch)}")
    for number, work in enumerate(sorted(works, key=lambda work: times.get(id(work), (0.0,))[0]), 1):
        when = times.get(id(work))
        start = (
            f"after {format_duration(when[0])}" if when and when[0] else "at once" if when else "is done, not repeated"
        )
        echo(f"\n{number}. {work.study} on {work.hosts_text}: {start}")
        if when:
            echo(f"   {work.trials} trials, about {format_duration(work.run_s)}; notebooks {', '.join(work.notebooks)}")
        for report in work.reports:
            said = ", ".join(f"{name} = {value}" for name, value in report.parameters.items())
            state = "done" if round_.entry_of(report).state == "done" else page_file_name(report.name, "", first=True)
            echo(f"   {state}" + (f": {said}" if said else ""))


def show(here: Layout, round_: BatchRun, as_json: bool) -> None:
    """Print what came of a round as a table, and where its page is."""
    from loadbook.batch.index import write_index
    from loadbook.batch.jobs import BATCH_FILE
    from loadbook.batch.page import PAGE_FILE

    folder = here.batch(round_.batch)
    write_index(here.reports)
    if as_json:
        echo(round_.model_dump_json(indent=1))
        return
    _table(round_)
    echo(f"page: {folder / PAGE_FILE}")
    echo(f"json: {folder / BATCH_FILE}")


def _table(round_: BatchRun) -> None:
    from rich.console import Console
    from rich.table import Table

    from loadbook.batch.page import entry_views, tally

    table = Table(box=None, pad_edge=False, header_style="")
    for head in ("Entry", "State", "Valid", "Took"):
        table.add_column(head, no_wrap=True)
    table.add_column("Verdict, or why there is none", overflow="fold")
    for one in entry_views(round_):
        row = (one.entry.name, f"{one.glyph} {one.state}", one.valid_trials, one.took, "\n".join(one.lines))
        table.add_row(*map(cell, row))
    console = Console(file=sys.stdout, highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else 160)
    console.print(table)
    echo(f"{tally(round_)}; exit code {round_.exit_code}")
    for one in entry_views(round_):
        if one.resume_command:
            echo(f"to go on: {one.resume_command}")
            break


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
    from loadbook.batch.file import read_batch
    from loadbook.batch.jobs import batch_jobs, read_batch_run, start_batch_run
    from loadbook.batch.page import PAGE_FILE
    from loadbook.batch.scheduler import BatchOptions
    from loadbook.core.errors import UsageError
    from loadbook.report.notebooks import TIMEOUT_S
    from loadbook.store.lock import hold_study_lock

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
    from loadbook.batch.scheduler import BatchSession

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
