"""Option `--events` of commands that take long: each event is a line of JSON on stdout (docs/ci.md lists them).

Batches and notebooks start commands with it and read the lines.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, Any

import click

from loadbook.cli import terminal
from loadbook.core import clock
from loadbook.core.errors import LoadbookError, UsageError
from loadbook.store.atomic import DISK_FULL_ERRNOS, DISK_FULL_HINT, disk_full_message
from loadbook.store.paths import Layout

if TYPE_CHECKING:
    from loadbook.execution.progress import OnEvent, Progress

Send = Callable[..., None]  # arguments: the kind of a line, and its fields by keyword
DEFECT_HINT = "a defect of loadbook: the traceback is on stderr, of a run in a notebook in its .progress.log"

events_option = click.option("--events", is_flag=True, help="Print each event as one line of JSON, and no text.")
estimates_option = click.option(
    "--estimates", is_flag=True, help="With --events: after each block also the changes so far, without verdicts."
)
attached_option = click.option(
    "--attached", is_flag=True, help="With --events: a line on stdin stops like Ctrl-C, the end of stdin ends at once."
)


@contextmanager
def event_lines(attached: bool) -> Iterator[Send]:
    """Yield a function send(kind, **fields) that prints a line of JSON; errors and Ctrl-C end the process.

    The last line is then of the kind "failed" or "stopped". If `attached`, a line on stdin acts as Ctrl-C, and the
    end of stdin ends the process at once. All other output to stdout goes to stderr. SIGINT and SIGTERM interrupt,
    even if they were ignored by the parent.
    """
    from loadbook.execution.progress import EVENTS_FORMAT  # imports paramiko
    from loadbook.hosts.jobs import process_start_ticks

    stream = sys.stdout

    def send(kind: str, **fields: Any) -> None:
        stream.write(terminal.json_line({"kind": kind, "at": clock.now(), "pid": os.getpid()} | fields) + "\n")
        stream.flush()

    with terminal.signal_handlers(signal.default_int_handler, even_ignored=True):
        try:
            with redirect_stdout(sys.stderr):
                send("started", format=EVENTS_FORMAT, process_start=int(process_start_ticks(os.getpid())))
                if attached:
                    threading.Thread(target=_obey_stdin, args=(threading.get_ident(),), daemon=True).start()
                yield send
        except KeyboardInterrupt:
            send("stopped")
            terminal.exit_if_threads_hang()
            sys.exit(terminal.EXIT_CODE)
        except Exception as caught:
            error = _as_loadbook_error(caught)
            with suppress(OSError):  # the disk of the lines may be full
                send("failed", error=error.message, hint=error.hint, exit_code=error.exit_code)
            sys.exit(error.exit_code)


def _obey_stdin(main_thread: int) -> None:
    while sys.stdin.readline():
        signal.pthread_kill(main_thread, signal.SIGINT)
    os._exit(terminal.EXIT_CODE)


def _as_loadbook_error(error: Exception) -> LoadbookError:
    """Return an error with a next step; print the traceback of a defect to stderr."""
    if isinstance(error, LoadbookError):
        return error
    if isinstance(error, OSError) and error.errno in DISK_FULL_ERRNOS:
        return LoadbookError(disk_full_message(error), DISK_FULL_HINT)
    is_defect = not isinstance(error, OSError)
    if is_defect:
        traceback.print_exception(error)
    return LoadbookError(f"{type(error).__name__}: {error}", DEFECT_HINT if is_defect else None)


def check_events(events: bool, attached: bool, as_json: bool, estimates: bool = False) -> None:
    """Raise UsageError for options that contradict `--events`, or need it."""
    if (attached or estimates) and not events:
        raise UsageError(f"{'--attached' if attached else '--estimates'} goes with --events")
    if events and as_json:
        raise UsageError("--events and --json both print to stdout", "leave one of them out")


def run_events(send: Send, layout: Layout, study: str, estimates: bool) -> OnEvent:
    """Return a function that prints a run's events and, with `estimates`, the changes so far after each block.

    A change is a treatment's ratio to its baseline minus 1, the median over blocks. Changes are calculated
    between trials, not during a load.
    """
    runs: list[str] = []

    def on_event(event: Progress) -> None:
        runs.extend([event.run] if event.run else [])
        send(**event.to_message())
        if estimates and event.ends_block:
            send("estimates", estimates=_estimates(layout, study, runs[-1] if runs else "latest"))

    return on_event


def _estimates(layout: Layout, study: str, run: str) -> list[dict[str, Any]]:
    from loadbook.execution.estimates import running_estimates

    try:
        return [estimate._asdict() for estimate in running_estimates(layout, study, run)]
    except (LoadbookError, ValueError, KeyError) as error:
        print(f"no running estimate: {error}", file=sys.stderr, flush=True)
        return []
