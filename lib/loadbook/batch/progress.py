"""Progress of runs: the state of one run as a record, and its display on a terminal or as plain lines.

A notebook renders the same record in one output of a cell (`notebook.live_run`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from loadbook.core.text import clean
from loadbook.core.units import format_duration, format_remaining_time

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from loadbook.execution.progress import Progress

MAX_NOTES = 5
STARTING = "starting: hosts, tools and every configuration are checked first"


@dataclass
class RunState:
    """How far a run is, updated by its events.

    Attributes
    ----------
    pid, process_start : the process that runs it, and when it began (clock ticks since boot).
    started, event_time : epoch seconds.
    event : the last event of a trial.
    notes : the last notes.
    not_ok : status -> trials that ended with it.
    estimates : label, change (ratio minus 1) and blocks of each treatment so far.
    ended : None, {"run": id}, or {"error", "hint", "exit_code"}; each with "at", epoch seconds.
    """

    study: str
    pid: int = 0
    process_start: int | None = None
    started: float = field(default_factory=time.time)
    event: Progress | None = None
    event_time: float = 0.0
    notes: list[str] = field(default_factory=list)
    not_ok: dict[str, int] = field(default_factory=dict)
    estimates: list[list[Any]] = field(default_factory=list)
    ended: dict[str, Any] | None = None

    def update(self, event: Progress) -> None:
        """Take in one event."""
        if event.kind == "note":
            self.notes = [*self.notes, event.message][-MAX_NOTES:]
            return
        self.event, self.event_time = event, time.time()
        if event.kind == "trial-ended" and event.status != "ok":
            status = str(event.status)
            self.not_ok[status] = self.not_ok.get(status, 0) + 1

    @property
    def completes_block(self) -> bool:
        """Whether the last event ended the last trial of a block."""
        event = self.event
        if event is None or event.kind != "trial-ended" or not (event.blocks and event.done):
            return False
        return event.done % max(1, event.total // event.blocks) == 0

    @property
    def share(self) -> float:
        """How much of the plan is done, 0 to 1."""
        return min(1.0, self.event.done / self.event.total) if self.event and self.event.total else 0.0

    def line(self, now: float) -> str:
        """Return block, trial, how many are done and the time that is left at `now` (epoch s), in one line."""
        event = self.event
        if self.ended:
            done = f"{event.done} of {event.total} trials" if event else "no trial"
            outcome = "complete" if "run" in self.ended else self.ended["error"].splitlines()[0]
            return f"{done} in {format_duration(self.ended['at'] - self.started)}: {outcome}"
        if event is None:
            return STARTING
        spent_s = max(0.0, now - self.event_time) if event.kind == "trial-started" else 0.0
        remaining_s = event.remaining_s
        left = "" if remaining_s is None else f" · {format_remaining_time(max(1.0, remaining_s - spent_s))}"
        where = f"block {event.block} of {event.blocks} · {event.trial} {event.treatment}"
        return f"{where} · {event.done} of {event.total} trials done{left}"

    def to_record(self) -> dict[str, Any]:
        """Return the state as JSON holds it."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> RunState:
        """Return the state that `to_record` gave; TypeError for another record."""
        from loadbook.execution.progress import Progress

        event = record.get("event")
        return cls(**record | {"event": Progress(**event) if event else None})


class ProgressDisplay:
    """Progress on a stream: live bars on a terminal, plain lines elsewhere; a context manager while runs are shown."""

    COUNT_AFTER_S, COUNT_EVERY_S, LIVE_COUNT_EVERY_S = 2.0, 5.0, 0.2

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.started = stream, time.monotonic()
        self._tasks: dict[Hashable, TaskID] = {}

    @cached_property
    def _console(self) -> Console:
        from rich.console import Console

        return Console(file=self.stream, highlight=False, soft_wrap=True)

    @cached_property
    def _bars(self) -> Bars:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bars

        columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=20), MofNCompleteColumn())
        # no refresh by a clock: in the lab, drawing would take CPU from the measurement
        live = self._console.is_terminal
        return Bars(*columns, console=self._console, transient=True, auto_refresh=False, disable=not live)

    def __enter__(self) -> ProgressDisplay:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, event: Progress, name: str = "", batch_remaining_s: float = 0.0, key: Hashable = None) -> None:
        """Show an event of a run.

        Parameters
        ----------
        name : of the run, where several are shown.
        batch_remaining_s : expected seconds to the end of all runs; 0 if not known.
        key : tells the runs apart whose bars are live at the same time.
        """
        prefix = f"{name}  " if name else ""
        batch = f"; batch: {format_remaining_time(batch_remaining_s)}" if batch_remaining_s else ""
        if event.kind == "note":
            self._print(prefix + event.line())
            return
        if event.kind == "trial-ended" and (event.status != "ok" or not self._console.is_terminal):
            self._print(f"{prefix}{event.line()}{batch}")
        where = prefix or f"block {event.block} of {event.blocks}  "
        text = f"{where}{event.trial} {event.treatment}{event.remaining_text()}{batch}"
        if key not in self._tasks:
            self._tasks[key] = self._bars.add_task(text, total=event.total)
        visible = event.done < event.total
        self._bars.update(self._tasks[key], description=text, completed=event.done, visible=visible)
        self._bars.refresh()

    def step(self, text: str) -> None:
        """Print a line with the seconds since the display began."""
        self._print(f"{time.monotonic() - self.started:5.1f} s  {text}")

    def _print(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(clean(text)))

    def counter(self, unit: str) -> Callable[[int, int], None]:
        """Return a function that shows "3 of 9 <unit>", from the third second on and then every few seconds."""
        live = self.stream.isatty()
        next_time, shown = time.monotonic() + self.COUNT_AFTER_S, False

        def on_count(done: int, total: int) -> None:
            nonlocal next_time, shown
            if time.monotonic() < next_time and not (shown and done == total):
                return
            shown = True
            next_time = time.monotonic() + (self.LIVE_COUNT_EVERY_S if live else self.COUNT_EVERY_S)
            end = "\r" if live and done < total else "\n"
            self.stream.write(f"{done} of {total} {unit}{end}")
            self.stream.flush()

        return on_count
