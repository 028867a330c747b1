"""What `loadbook batch` says: progress on stderr while it lasts, what would be done, and what came of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from loadbook.cli.say import cell, echo
from loadbook.core.units import format_remaining_time, format_duration
from loadbook.records.layout import Layout

if TYPE_CHECKING:
    from loadbook.report.batch.rows import BatchRun
    from loadbook.report.batch.works import BatchJob
    from loadbook.trials.progress import Progress


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
    from loadbook.report.batch.lanes import timetable
    from loadbook.report.build import page_file_name

    left = [work for work in works if any(round_.entry_of(report).state != "done" for report in work.reports)]
    times = timetable(left, jobs)
    whole_s = max((end for _, end in times.values()), default=0.0)
    echo(f"batch {round_.batch}: {why}; what it would do, nothing was touched")
    trials = sum(work.trials for work in left)
    echo(f"{trials} trials, about {format_duration(whole_s)} in all; pages in {here.batch(round_.batch)}")
    for number, work in enumerate(sorted(works, key=lambda work: times.get(id(work), (0.0,))[0]), 1):
        when = times.get(id(work))
        start = f"after {format_duration(when[0])}" if when and when[0] else "at once" if when else "is done, not repeated"
        echo(f"\n{number}. {work.study} on {work.hosts_text}: {start}")
        if when:
            echo(f"   {work.trials} trials, about {format_duration(work.run_s)}; notebooks {', '.join(work.notebooks)}")
        for report in work.reports:
            said = ", ".join(f"{name} = {value}" for name, value in report.parameters.items())
            state = "done" if round_.entry_of(report).state == "done" else page_file_name(report.name, "", first=True)
            echo(f"   {state}" + (f": {said}" if said else ""))


def show(here: Layout, round_: BatchRun, as_json: bool) -> None:
    """Print what came of a round as a table, and where its page is."""
    from loadbook.report.batch.page import PAGE_FILE
    from loadbook.report.batch.rows import BATCH_FILE
    from loadbook.report.index import write_index

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

    from loadbook.report.batch.page import entry_views, tally

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
