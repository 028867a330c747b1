"""The command line's one way to print: what hosts, files and studies say reaches a terminal as text alone.

How far something is, said while it lasts.

Ctrl-C and SIGTERM while hosts are at work: the first ends everything in order, the second waits for nothing.

Progress of a run on stderr: one live line on a terminal, a line per finished trial elsewhere.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, TextIO

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from loadbook.core.text import clean
from loadbook.execution.progress import Progress as Event

if TYPE_CHECKING:
    from rich.text import Text

STDERR = 2


def echo(said: object = "", *, err: bool = False) -> None:
    """Print one thing, results to stdout and all else to stderr (`err`), without control characters."""
    click.echo(clean(str(said)), err=err)


def echo_now(said: str) -> None:
    """Print one thing to stderr from a signal handler, which may have come while the buffer of stderr is written."""
    with suppress(OSError):
        os.write(STDERR, f"{clean(said)}\n".encode())


def cell(said: object) -> Text:
    """Return a cell of a rich table: no markup, no control characters."""
    from rich.text import Text

    return Text(clean(str(said)))


class Ticker:
    """Says how far something is, from its third second on: every few seconds, on a terminal in one line."""

    FIRST_S, EVERY_S = 2.0, 5.0

    def __init__(self, stream: TextIO, what: str) -> None:
        self.stream, self.what, self.live = stream, what, stream.isatty()
        self.next = time.monotonic() + self.FIRST_S
        self.said = False

    def __call__(self, done: int, total: int) -> None:
        """Tell that `done` of `total` are done."""
        if time.monotonic() < self.next and not (self.said and done == total):
            return
        self.said = True
        self.next = time.monotonic() + (0.2 if self.live else self.EVERY_S)
        end = ("\r" if done < total else "\n") if self.live else "\n"
        self.stream.write(f"{done} of {total} {self.what}{end}")
        self.stream.flush()


EXIT_CODE = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)
THREADS_S = 0.5


@contextmanager
def interrupts(hosts_file: Path) -> Iterator[None]:
    """Turn each of these signals into KeyboardInterrupt, saying what happens now and what to do about `hosts_file`."""
    seen = 0

    def heard(signum: int, frame: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        echo_now(_SECOND.format(quote(str(hosts_file))) if seen > 1 else _FIRST)
        raise KeyboardInterrupt

    with hearing(heard):
        try:
            yield
        except KeyboardInterrupt:
            echo("stopped; the same command goes on with the next trial", err=True)
            _leave()
            raise


@contextmanager
def hearing(heard: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have `heard` called for Ctrl-C and SIGTERM, meanwhile only."""
    # a shell starts what it puts into the background deaf to Ctrl-C, and means it
    before = {s: signal.signal(s, heard) for s in SIGNALS if signal.getsignal(s) is not signal.SIG_IGN}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


_FIRST = "interrupted: the load is ended and hosts are put back; once more: without waiting"
_SECOND = "not waiting: hosts end and put back what is left by themselves; to see to it: loadbook restore --hosts {}"


def _leave() -> None:
    """End the process now if threads still wait for hosts that do not answer: everything is recorded by then."""
    deadline = time.monotonic() + THREADS_S
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(EXIT_CODE)


class Reporter:
    """Context manager and receiver of a run's events (see `loadbook.execution.progress`)."""

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
