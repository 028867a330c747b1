"""Output of the commands, and their end by Ctrl-C.

Texts of hosts, files and studies reach a terminal without control characters: every command prints through `echo` and
`print_table`. Ctrl-C and SIGTERM while hosts are at work: the first ends everything in order, the second waits for
nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from loadbook.core.text import clean

if TYPE_CHECKING:
    from rich.text import Text

STDERR = 2
WIDE = 200  # columns of a table that goes to a file or pipe


def echo(text: object = "", *, err: bool = False) -> None:
    """Print a text without control characters: results to stdout, all else to stderr (`err`)."""
    click.echo(clean(str(text)), err=err)


def confirm(question: str) -> bool:
    """Ask a question on the terminal; anything but yes is no."""
    echo(f"{question} [y/N]", err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def echo_now(text: str) -> None:
    """Print a text to stderr from a signal handler, which may interrupt a write to the buffer of stderr."""
    with suppress(OSError):
        os.write(STDERR, f"{clean(text)}\n".encode())


def cell(text: object) -> Text:
    """Return a cell of a rich table: no markup, no control characters."""
    from rich.text import Text

    return text if isinstance(text, Text) else Text(clean(str(text)))


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[str] = (),
    fold: Sequence[str] = (),
    title: str = "",
    min_width: int = 0,
    width: int = WIDE,
    style: str = "bold",
) -> None:
    """Print a table to stdout; a terminal's lines are never cut, a file or pipe has lines of `width` columns.

    Parameters
    ----------
    right, fold : headings of the columns that are right-aligned, and of those whose text may be broken.
    min_width : of a terminal: below it the terminal breaks the lines.
    style : of the headings, as rich names it.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(title=cell(title) if title else None, title_justify="left", box=None, pad_edge=False)
    table.header_style = style
    for heading in headings:
        options: dict[str, Any] = {"overflow": "fold"} if heading in fold else {"no_wrap": True}
        table.add_column(heading, justify="right" if heading in right else "left", **options)
    for row in rows:
        table.add_row(*map(cell, row))
    console = Console(highlight=False)
    console.width = max(console.width, min_width) if console.is_terminal else width
    console.print(table)


EXIT_CODE = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)
THREADS_S = 0.5
FIRST_INTERRUPT = "interrupted: the load is ended and hosts are put back; once more: without waiting"
SECOND_INTERRUPT = (
    "not waiting: hosts end and put back what is left by themselves; to see to it: loadbook restore --hosts {}"
)


@contextmanager
def handle_interrupts(hosts_file: Path, resume: str) -> Iterator[None]:
    """Turn each of these signals into KeyboardInterrupt, and print the consequences and the advice for the hosts.

    Parameters
    ----------
    resume : the command that goes on with the run.
    """
    count = 0

    def on_signal(signum: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        echo_now(SECOND_INTERRUPT.format(quote(str(hosts_file))) if count > 1 else FIRST_INTERRUPT)
        raise KeyboardInterrupt

    with signal_handlers(on_signal):
        try:
            yield
        except KeyboardInterrupt:
            echo(f"stopped; to resume with the next trial: {resume}", err=True)
            _exit_if_threads_hang()
            raise


@contextmanager
def signal_handlers(on_signal: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call `on_signal` for Ctrl-C and SIGTERM inside the context."""
    # a shell starts a background command with Ctrl-C ignored, on purpose
    before = {s: signal.signal(s, on_signal) for s in SIGNALS if signal.getsignal(s) is not signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_if_threads_hang() -> None:
    """End the process if threads still wait for unresponsive hosts; everything is recorded by then."""
    deadline = time.monotonic() + THREADS_S
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(EXIT_CODE)
