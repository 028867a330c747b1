"""Shared by all commands: arguments and options, output, progress, and handling of Ctrl-C.

Every command prints through `echo` and `print_table`, which remove control characters from texts of hosts, files and
studies. During a run, the first Ctrl-C or SIGTERM ends everything in order, and a second one ends the command without
waiting.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from shlex import quote
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from loadbook.core import clock
from loadbook.core.errors import LoadbookError, UsageError, unknown_name_error
from loadbook.core.text import clean, did_you_mean, one_line
from loadbook.core.units import format_remaining_time, pluralize
from loadbook.store.paths import project_layout

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID
    from rich.text import Text

    from loadbook.execution.progress import Progress


def _complete_study(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return names for shell completion: the project's studies (with a file or a run) that begin with `incomplete`."""
    try:
        layout = project_layout()
    except LoadbookError:
        return []
    names = {path.stem for path in layout.studies.glob("*.toml")} | set(layout.studies_with_runs())
    return sorted(name for name in names if name.startswith(incomplete))


class CommandGroup(click.Group):
    """A group of commands whose error for a mistyped command names the most similar one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the called command and its arguments; UnknownNameError lists the commands."""
        if args[0] not in self.list_commands(ctx) and not ctx.resilient_parsing:
            of_group = f"of {ctx.command_path}" if ctx.parent else ""
            raise unknown_name_error("command", args[0], self.list_commands(ctx), of_group)
        return super().resolve_command(ctx, args)


def usage_error(error: click.ClickException) -> UsageError:
    """Return a mistake on the command line that click found as an error of loadbook: what is wrong, and what is next.

    click's texts are kept, but begin with the command and a small letter.
    """
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return UsageError(error.format_message())
    _, _, command = context.command_path.partition(" ")
    where, hint = f"{command}: " if command else "", f"{context.command_path} --help"
    if isinstance(error, click.NoSuchOption):
        options = [name for parameter in context.command.get_params(context) for name in parameter.opts if "--" in name]
        return UsageError(f"{where}no option {error.option_name!r}{did_you_mean(error.option_name, options)}", hint)
    if isinstance(error, click.MissingParameter) and error.param and error.param.name == "study":
        hint = "loadbook studies has them all"
    message = error.format_message().rstrip(".")
    return UsageError(f"{where}{message[:1].lower()}{message[1:]}", hint)


study_argument = click.argument("study", shell_complete=_complete_study)
optional_study_argument = click.argument("study", required=False, shell_complete=_complete_study)
studies_argument = click.argument("studies", nargs=-1, metavar="[STUDY]...", shell_complete=_complete_study)

hosts_option = click.option(
    "--hosts", "hosts_file", type=click.Path(path_type=Path), help="Hosts file; default: the lab's."
)
run_option = click.option("--run", "run_id", default="latest", show_default=True, metavar="RUN", help="Run id.")


_Command = TypeVar("_Command", bound=Callable[..., Any])


def json_option(content: str) -> Callable[[_Command], _Command]:
    """Return a decorator that adds the option `--json`; its help text has `content`, what the JSON contains."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print JSON: {content}.")


STDERR = 2
WIDE = 200  # columns of a table that is written to a file or pipe


def echo(text: object = "", *, err: bool = False) -> None:
    """Print a text without control characters: to stdout, or with `err` or `--json` to stderr."""
    click.echo(clean(str(text)), err=err or _prints_json())


def _prints_json() -> bool:
    """Return whether the command was called with `--json`: then stdout is only for its document."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.params.get("as_json"))


def print_json(document: object) -> None:
    """Print a document of dictionaries, lists, texts and numbers to stdout as indented JSON; NaN, infinity: null."""
    click.echo(clean(json.dumps(_without_nan(document), indent=1, ensure_ascii=False, allow_nan=False)))


def json_line(document: object) -> str:
    """Return a document of dictionaries, lists, texts and numbers as one line of JSON; NaN, infinity: null."""
    return json.dumps(_without_nan(document), allow_nan=False)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def echo_next_step(hint: str | None) -> None:
    """Print the hint of an error to stderr as the next step; print nothing if there is no hint."""
    if hint:
        echo(f"  next: {hint}", err=True)


def can_ask() -> bool:
    """Return whether a user at a terminal can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> bool:
    """Ask a yes/no question on the terminal; return True for "y" or "yes", else False."""
    echo(f"{question} [y/N]", err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def echo_now(text: str) -> None:
    """Print a text to stderr without Python's buffer, which a signal handler must not use."""
    with suppress(OSError):
        os.write(STDERR, f"{clean(text)}\n".encode())


def picture_columns() -> int:
    """Return the width of stdout in columns, for text charts; 0 with `--json`, or if it is no terminal with UTF-8."""
    is_shown = sys.stdout.isatty() and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return shutil.get_terminal_size().columns if is_shown and not _prints_json() else 0


def cell(text: object) -> Text:
    """Return a text as a cell of a rich table, in which markup has no effect and control characters are removed."""
    from rich.text import Text

    return text if isinstance(text, Text) else Text(clean(str(text)))


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = (),
    fold: Sequence[str] = (), title: str = "", min_width: int = 0, width: int = WIDE, style: str = "bold",
) -> None:  # fmt: skip
    """Print a table, to stderr if `--json` was given; as wide as the terminal, or `width` columns in a file or pipe.

    `right` and `fold` are headings of the columns that are right-aligned, and of those whose text may be wrapped. On a
    terminal narrower than `min_width`, lines are wrapped by the terminal. `style` is rich's style of the headings.
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
    console = Console(highlight=False, stderr=_prints_json())
    console.width = max(console.width, min_width) if console.is_terminal else width
    console.print(table)


_NUMBER = re.compile(r"\d[\d,.]*")


@dataclass
class _ShownRun:
    """A run whose progress is shown: its last event, and what has ended since the last line about it.

    `noted`: treatment, status and reason without its numbers -> the first such trial, and the number of further ones.
    """

    name: str
    event: Progress
    came_s: float = 0.0
    batch_remaining_s: float = 0.0
    ended: list[Progress] = field(default_factory=list)
    noted: dict[tuple[str | None, ...], tuple[Progress, int]] = field(default_factory=dict)

    def line(self, now_s: float) -> str:
        """Return the line on the run at this time (monotonic seconds): block, trial, phase, time left."""
        event, spent_s = self.event, max(0.0, now_s - self.came_s)
        parts = ["  ".join(event.place), event.phase_text(spent_s), event.remaining_text(spent_s)]
        return ", ".join(part for part in parts if part) + self._batch_text()

    def named(self, text: str) -> str:
        """Return a text after the run's name, if it has one."""
        return f"{self.name}  {text}" if self.name else text

    def _batch_text(self) -> str:
        return f"; batch: {format_remaining_time(self.batch_remaining_s)}" if self.batch_remaining_s else ""

    def note_failure(self, event: Progress) -> Progress:
        """Return the end of a failed trial with its reason, or with the trial that failed first for the same reason."""
        key = (event.treatment, event.status, _NUMBER.sub("#", event.message))
        first, more = self.noted.get(key, (event, -1))
        self.noted[key] = first, more + 1
        return event if first is event else replace(event, message=f"{event.status}, as {first.trial}")

    def ended_line(self, failures: Sequence[Progress]) -> str:
        """Return a line on the trials that have ended together; `failures` are those of them that failed."""
        last, number = self.ended[-1], len(self.ended)
        if number == 1:
            return (failures or self.ended)[-1].line() + self._batch_text()
        ok = f"{number} trials ok" if not failures else f"{number - len(failures)} of {number} trials ok"
        reasons = [f"; {one.trial} {one.treatment}: {one_line(one.message).rstrip('.')}" for one in failures]
        text = f"[{last.done}/{last.total}] {last.place[0]}: {ok}{''.join(reasons)}"
        return (failures or self.ended)[-1].with_remaining(text) + self._batch_text()

    def repeated_lines(self) -> list[str]:
        """Return a line on each reason for which further trials failed, and forget the reasons."""
        noted = list(self.noted.values())
        self.noted.clear()
        return [
            f"{first.trial} {first.treatment}: {first.status}, the same in {pluralize(more, 'more trial')}"
            for first, more in noted
            if more
        ]


class ProgressDisplay:
    """Progress of runs on a stream: live bars on a terminal, else plain lines; a context manager around the runs.

    On a terminal, the line of a bar moves every second; the bar counts trials that have ended. Elsewhere one line is
    printed for each trial or block that ends, one a second at most, and one after 30 s without any.
    """

    COUNT_AFTER_S, COUNT_EVERY_S, LIVE_COUNT_EVERY_S = 2.0, 5.0, 0.2
    TICK_S, LINE_EVERY_S, HEARTBEAT_S = 1.0, 1.0, 29.0  # with the second until the next tick: 30 s

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.started = stream, clock.monotonic()
        self._runs: dict[Hashable, _ShownRun] = {}
        self._tasks: dict[Hashable, TaskID] = {}
        self._lock = threading.RLock()  # events come in one thread, ticks in another
        self._printed_s, self._line_s = self.started, -math.inf  # times of the last text, and line on ended trials

    @cached_property
    def _console(self) -> Console:
        from rich.console import Console

        return Console(file=self.stream, highlight=False, soft_wrap=True)

    @cached_property
    def _bars(self) -> Bars:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bars

        columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=20), MofNCompleteColumn())
        # drawn at events and once a second, since in the lab drawing takes CPU time from the measurement
        live = self._console.is_terminal
        return Bars(*columns, console=self._console, transient=True, auto_refresh=False, disable=not live)

    def __enter__(self) -> ProgressDisplay:
        self._bars.start()
        self._end_ticks = clock.every(self.TICK_S, self._tick)
        return self

    def __exit__(self, *_: object) -> None:
        self._end_ticks()
        self._bars.stop()
        for run in self._runs.values():
            self._print_repeated(run)

    def __call__(self, event: Progress, name: str = "", batch_remaining_s: float = 0.0, key: Hashable = None) -> None:
        """Show an event of a run.

        If several runs are shown, `name` is the run's name and `key` identifies its progress bar. `batch_remaining_s`
        is the expected time in seconds until all runs have ended; 0 if not known.
        """
        with self._lock:
            if event.run and (before := self._runs.pop(key, None)):  # a new run, in place of one that may have been cut
                self._print_repeated(before)
            if event.kind == "note":
                self._print(f"{name}  {event.line()}" if name else event.line())
                return
            run = self._runs.setdefault(key, _ShownRun(name, event))
            run.event, run.came_s, run.batch_remaining_s = event, clock.monotonic(), batch_remaining_s
            if event.kind == "trial-ended":
                self._show_end(run, event)
            self._draw(key)

    def _show_end(self, run: _ShownRun, event: Progress) -> None:
        """Print the end of a trial, or of all trials that were measured together."""
        run.ended.append(event)
        if event.beside:
            return
        failures = [run.note_failure(one) for one in run.ended if one.status != "ok"]
        now_s, is_last = clock.monotonic(), event.done == event.total
        if self._console.is_terminal:
            for one in failures:
                if one in run.ended:  # the others have the reason of an earlier trial
                    self._print(run.named(one.line()))
        elif is_last or now_s - self._line_s >= self.LINE_EVERY_S or any(one in run.ended for one in failures):
            self._line_s = now_s
            self._print(run.named(run.ended_line(failures)))
        run.ended = []
        if is_last:
            self._print_repeated(run)

    def _print_repeated(self, run: _ShownRun) -> None:
        for line in run.repeated_lines():
            self._print(run.named(line))

    def _draw(self, key: Hashable) -> None:
        run = self._runs[key]
        text, event = run.named(run.line(clock.monotonic())), run.event
        if key not in self._tasks:
            self._tasks[key] = self._bars.add_task(text, total=event.total)
        visible = event.done < event.total
        self._bars.update(self._tasks[key], description=text, completed=event.done, total=event.total, visible=visible)
        self._bars.refresh()

    def _tick(self) -> None:
        """Show the seconds that have passed; without a terminal, only after 30 s without a line."""
        with self._lock, suppress(OSError):  # an error of the stream is raised at the next event
            now_s, is_live = clock.monotonic(), self._console.is_terminal
            is_due = now_s - self._printed_s >= self.HEARTBEAT_S
            for key, run in self._runs.items():
                if is_live:
                    self._draw(key)
                elif is_due and run.event.kind != "trial-ended":
                    self._print(run.named(f"[{run.event.done}/{run.event.total}] {run.line(now_s)}"))

    def step(self, text: str) -> None:
        """Print a text after the number of seconds since this object was made."""
        self._print(f"{clock.monotonic() - self.started:5.1f} s  {text}")

    def _print(self, text: str) -> None:
        from rich.text import Text

        self._printed_s = clock.monotonic()
        self._console.print(Text(clean(text)))

    def counter(self, unit: str) -> Callable[[int, int], None]:
        """Return a function(done, total) that shows "3 of 9 <unit>", after 2 s at the earliest and then repeatedly."""
        live = self.stream.isatty()
        next_time, shown = clock.monotonic() + self.COUNT_AFTER_S, False

        def on_count(done: int, total: int) -> None:
            nonlocal next_time, shown
            if clock.monotonic() < next_time and not (shown and done == total):
                return
            shown = True
            next_time = clock.monotonic() + (self.LIVE_COUNT_EVERY_S if live else self.COUNT_EVERY_S)
            end = "\r" if live and done < total else "\n"
            self.stream.write(f"{done} of {total} {unit}{end}")
            self.stream.flush()

        return on_count


EXIT_CODE = 130
THREADS_S = 0.5
FIRST_INTERRUPT = "interrupted: the load is ended and hosts are put back; press Ctrl-C again to stop without waiting"
SECOND_INTERRUPT = (
    "not waiting: hosts end and put back what is left by themselves; to see to it: loadbook restore --hosts {}"
)


@contextmanager
def handle_interrupts(hosts_file: Path, resume: str) -> Iterator[None]:
    """Run a `with` block in which Ctrl-C and SIGTERM raise KeyboardInterrupt, and print what the signal does.

    The first signal prints that hosts are put back, a second one the command that does it later. When the block has
    ended, the command that resumes is printed, and the exception is raised again. If a thread still waits for a host
    after `THREADS_S` seconds, the process ends at once with exit code 130.

    Parameters
    ----------
    hosts_file : the hosts file, for the command that frees hosts after a second signal.
    resume : command that resumes the run.
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
            exit_if_threads_hang()
            raise


@contextmanager
def signal_handlers(
    on_signal: Callable[[int, FrameType | None], None], *, even_ignored: bool = False
) -> Iterator[None]:
    """Call `on_signal` for Ctrl-C and SIGTERM inside the context.

    Signals that are ignored stay ignored unless `even_ignored`: a shell starts background commands with Ctrl-C ignored.
    """
    both = (signal.SIGINT, signal.SIGTERM)
    heard = [s for s in both if even_ignored or signal.getsignal(s) is not signal.SIG_IGN]
    before = {number: signal.signal(number, on_signal) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_if_threads_hang() -> None:
    """End the process if threads still wait for unresponsive hosts; all results have been recorded before."""
    deadline = clock.monotonic() + THREADS_S
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0.0, deadline - clock.monotonic()))
            if thread.is_alive():
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(EXIT_CODE)
