"""Progress of a run on stderr: one live line on a terminal, a line per finished trial elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from loadbook.cli.say import cell
from loadbook.trials.progress import Progress as Event


class Reporter:
    """Context manager and receiver of a run's events (see `loadbook.trials.progress`)."""

    def __init__(self, stream: TextIO) -> None:
        self.console = Console(file=stream, highlight=False, soft_wrap=True)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        # no refresh by a clock: in the lab, drawing would take CPU from what is measured
        self.bar = Progress(
            *columns,
            console=self.console,
            transient=True,
            auto_refresh=False,
            disable=not self.console.is_terminal,
        )
        self.task: TaskID | None = None

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if event.kind == "trial-started":
            self._move(event)
        elif event.kind == "note" or event.status != "ok" or not self.console.is_terminal:
            self.console.print(cell(event.line()))
        if event.kind == "trial-ended":
            self._move(event)

    def _move(self, event: Event) -> None:
        text = f"block {event.block} of {event.blocks}  {event.trial} {event.treatment}{event.remaining_text()}"
        if self.task is None:
            self.task = self.bar.add_task(text, total=event.total)
        self.bar.update(self.task, description=text, completed=event.done)
        self.bar.refresh()

    def __enter__(self) -> Reporter:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.bar.stop()
