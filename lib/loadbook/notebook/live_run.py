"""Run a study from a notebook cell: show its plan, run it with live progress, ingest it, show its state.

The run is a separate process (`notebook.detached`); one output of the cell, updated in place, shows its progress. A
browser page opened while the cell is busy would not show it, so the cell ends, while the run continues, when the last
page is closed or another one is opened. Executing the same cell again shows the run again.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from markupsafe import Markup

from loadbook.batch.commands import command_arguments
from loadbook.core import clock
from loadbook.core.errors import DataError, LoadbookError, UsageError
from loadbook.core.units import format_bytes, format_duration, format_percent
from loadbook.execution.power import forecast_power, power_lines
from loadbook.execution.studies import load_study, plan_study
from loadbook.ingestion.ingest import ingest as ingest_run
from loadbook.notebook.compare import Displayable, styled
from loadbook.notebook.detached import DetachedRun, RunState, find_detached_run, start_detached_run
from loadbook.report.blocks import DONE_MIME, Block, note, note_block
from loadbook.report.nodes import Column, HtmlOnly, Paragraph, Strong, Table
from loadbook.store.ledger import is_run_complete
from loadbook.store.paths import project_layout
from loadbook.store.tables import load_run
from loadbook.study.plan import left_out_text

PEEKING_WARNING = "Peeking decides nothing: verdicts come when the plan is done, or at a look that the study declared."
BACKGROUND_HINT = (
    "■ stops it. Closing this tab or restarting the kernel does not: run this cell again to see how far it is."
)
PAGES_EVERY_S, PAGES_TIMEOUT_S = 0.9, 2.0
REFRESH_S, KERNEL_EXIT_S = 1.0, 2.0
MAX_NOTES, MAX_ROWS = 3, 20
ERRORS_BY_EXIT_CODE = {UsageError.exit_code: UsageError, DataError.exit_code: DataError}


@dataclass
class OpenPages:
    """Counts browser pages connected to this kernel; `address`: the kernel's URL at its Jupyter server, "" if none.

    `token` is sent to the server with each request.
    """

    address: str = ""
    token: str = field(default="", repr=False)
    _number: int = 0
    _next_time: float = 0.0

    def changed(self) -> bool:
        """Return whether the last page was closed or another one opened; False within 0.9 s of the last call.

        Both are checked, since a browser may keep the connection of a page that was left for minutes. It is also
        False if there is no address, or the server does not answer.
        """
        if not self.address or clock.monotonic() < self._next_time:
            return False
        self._next_time = clock.monotonic() + PAGES_EVERY_S
        number = self.number()
        if number is None:
            return False
        before, self._number = self._number, number
        return before > 0 and (number == 0 or number > before)

    def number(self) -> int | None:
        """Return the number of pages (GET /api/kernels/<id> of the server, "connections"); None without an answer."""
        request = Request(self.address, headers={"Authorization": f"token {self.token}"})  # noqa: S310 - http only
        try:
            with build_opener(ProxyHandler({})).open(request, timeout=PAGES_TIMEOUT_S) as answer:
                return int(json.load(answer)["connections"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def open_pages() -> OpenPages:
    """Return the pages of this process's kernel, whose Jupyter server is found by the file with its address.

    Outside of a kernel, or without that file, the result has no address.
    """
    if "ipykernel" not in sys.modules:
        return OpenPages()
    from ipykernel.connect import get_connection_file

    try:
        kernel = Path(get_connection_file())
        server = json.loads((kernel.parent / f"jpserver-{os.getppid()}.json").read_bytes())
        return pages_of_server(server, kernel.stem.removeprefix("kernel-"))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return OpenPages()


def pages_of_server(server: dict[str, str], kernel: str) -> OpenPages:
    """Return the pages of a kernel; the result has no address if its server uses TLS or a Unix socket.

    Parameters
    ----------
    server : "url" and "token" of the Jupyter server, as in its file jpserver-<pid>.json.
    kernel : id of the kernel.
    """
    if not server["url"].startswith("http://"):
        return OpenPages()
    return OpenPages(f"{server['url']}api/kernels/{kernel}", server["token"])


class WatchingStoppedError(KeyboardInterrupt):
    """The page was closed or opened again, so the cell ends; the run continues and the same cell shows it again."""

    def _render_traceback_(self) -> list[str]:
        return [
            "The page was left or opened again, so this cell ended. The run goes on: the same cell shows how far it is."
        ]


class RunStoppedError(KeyboardInterrupt):
    """The user interrupted the cell, which stopped the run; the same call resumes it."""

    def _render_traceback_(self) -> list[str]:
        return ["Stopped; the trial under way is recorded as cancelled. Run this cell again to go on."]


@dataclass(frozen=True, repr=False)
class RunProgress(Displayable):
    """Progress of a run at the time `now` (epoch seconds)."""

    state: RunState
    now: float

    @property
    def line(self) -> str:
        """One line with block, trial, phase, number of trials done and the time left."""
        return self.state.line(self.now)

    def _block(self) -> Block:
        """Return progress bar, progress line, numbers of failed trials, estimates so far, and the last notes."""
        state = self.state
        rows = [[one["label"], format_percent(one["change"]), str(one["blocks"])] for one in state.estimates]
        heads = (Column("So far, against its baseline"), Column("Change", True), Column("Blocks", True))
        table = Table("Running estimate", heads, rows[:MAX_ROWS]) if rows and not state.ended else None
        bad = ", ".join(f"{n} {status}" for status, n in state.not_ok.items())
        notes = state.notes[-MAX_NOTES:]
        bar = Markup('<div class="progress"><div style="width: {}%"></div></div>').format(round(100 * state.share))
        return Block(
            HtmlOnly(bar),
            Paragraph(Strong(self.line)),
            Paragraph(f"Not ok: {bad}") if bad else None,
            *([table, note(PEEKING_WARNING)] if table else []),
            *map(note, notes),
            None if state.ended else HtmlOnly(note(BACKGROUND_HINT)),
        )


def follow(run: DetachedRun, show: Callable[[RunProgress], None] | None = None) -> str:
    """Show a run until it ends and return its id.

    Parameters
    ----------
    show : called with the progress whenever its line changes; default: `display_updater()`.

    Raises
    ------
    LoadbookError : the run had to stop; the message is the reason.
    RunStoppedError : the user interrupted the cell, which stopped the run.
    WatchingStoppedError : the page that showed the cell was closed, or opened again; the run continues.
    """
    show, last_line = show or display_updater(), ""
    try:
        pages = open_pages()
        while True:
            # in this order, so that the last state is read after the end of the process
            alive, state = run.is_alive(), run.state()
            progress = RunProgress(state, clock.now())
            if progress.line != last_line:
                show(progress)
                last_line = progress.line
            if ended := state.ended:
                if ended["kind"] == "ran":
                    return str(ended["run"])
                if ended["kind"] == "stopped":
                    raise LoadbookError("stopped", "the same call goes on with the next trial")
                raise ERRORS_BY_EXIT_CODE.get(ended["exit_code"], LoadbookError)(ended["error"], ended["hint"])
            if not alive:
                message = f"the run's process ended without a word: {run.log_tail() or 'killed?'}"
                raise LoadbookError(message, "the same call goes on with what is not done")
            if pages.changed():
                raise WatchingStoppedError
            clock.sleep(REFRESH_S)
    except WatchingStoppedError:
        raise
    except KeyboardInterrupt:
        if kernel_is_exiting():
            raise WatchingStoppedError from None
        run.stop()
        show(RunProgress(run.state(), clock.now()))
        raise RunStoppedError from None


def kernel_is_exiting() -> bool:
    """Return whether the interrupt was sent because the kernel is about to exit or restart."""
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    with contextlib.suppress(KeyboardInterrupt):
        if hasattr(shell, "kernel"):
            clock.wait_until(lambda: shell.exit_now, KERNEL_EXIT_S, 0.05)
    return bool(getattr(shell, "exit_now", False))


def display_updater() -> Callable[[RunProgress], None]:
    """Return a function that shows progress in one output of the cell, or as lines on stderr outside of notebooks."""
    if "IPython" in sys.modules:
        from IPython import get_ipython
        from IPython.display import display

        if get_ipython() is not None:
            handle = display(RunProgress(RunState(), clock.now()), display_id=True)
            return handle.update
    return lambda progress: print(progress.line, file=sys.stderr, flush=True)


def plan(study: str, subset: str = "", blocks: int = 0) -> Block:
    """Show the plan of a new run: treatments, trials, hours, disk space, detectable differences; contacts no host.

    Parameters
    ----------
    study : a name in studies/, a .toml file, or "NAME-smoke".
    subset, blocks : subset and number of blocks; "" and 0 take the study's own.

    Raises
    ------
    UsageError, StudyError : a wrong name, or mistakes in the study, all of them at once.
    """
    layout = project_layout()
    planned = plan_study(layout, load_study(layout, study), subset or None, blocks or None)
    rows = [
        ["treatments", ", ".join(planned.study.label(name) for name in planned.treatments)],
        ["trials", f"{len(planned.trials)} ({planned.blocks_text} of {len(planned.treatments)})"],
        *([["", left_out_text(planned.left_out)]] if planned.left_out else []),
        ["takes about", format_duration(planned.hours * 3600)],
        ["disk", f"about {format_bytes(planned.disk_bytes)}"],
    ]
    rows += [line.split(maxsplit=1) for line in power_lines(forecast_power(layout, planned)) if line[0] != " "]
    table = Table("Plan", [Column(study), Column("", wrap=True)], rows)
    return styled(Block(table))


def run(
    study: str, hosts: str = "", subset: str = "", resume: str = "", execute: bool = False, new: bool = False
) -> Block:
    """Run a study, or resume its unfinished run, and show the progress; without `execute`, do nothing.

    The run is a separate process: closing the tab or restarting the kernel does not end it, and the same call shows it
    again. Interrupting the cell stops the run, and the same call resumes it. A study whose latest run is complete is
    not run again unless `new`.

    Parameters
    ----------
    study : a name in studies/, a .toml file, or "NAME-smoke".
    hosts : path of the hosts file, relative to the project's folder; "" for the loopback lab.
    subset, resume : subset of treatments, and id of the unfinished run to resume; "" for the study's own, the latest.
    execute : False does nothing, so that a notebook can be executed without starting a run.
    new : start a new run although the latest is complete or unfinished.

    Raises
    ------
    UsageError, StudyError : a wrong name, or a mistake in the study; nothing was started.
    LoadbookError : the run had to stop; the message has the reason and the next step.
    """
    layout = project_layout()
    name = load_study(layout, study).name
    if not execute:
        return text_block("Nothing was executed. With execute = True the study is run, or its unfinished run resumed.")
    folder = layout.study_raw(name)
    under_way = find_detached_run(folder)
    done = layout.runs(name)
    if under_way is None:
        if done and not (new or resume) and is_run_complete(layout.run(name, done[-1])):
            return text_block(f"Run {done[-1]} of {study} is complete. To run it anew: new = True.")
        options = {"--hosts": layout.root / hosts if hosts else None, "--subset": subset or None}
        others = ["--estimates", *(["--new"] if new else [])]
        arguments = command_arguments("run", study, options | {"--resume": resume or None}, others)
        under_way = start_detached_run(layout, folder, arguments)
    return text_block(f"Run {follow(under_way)} of {study} is complete.")


def ingest(study: str, run: str = "latest") -> Block:
    """Rebuild the tables of a run from its raw data and show how many trials they hold.

    Raises
    ------
    UsageError : no such study or run.
    DataError : raw files cannot be read; the message lists them.
    """
    layout = project_layout()
    if not layout.runs(study):
        return text_block(f"{load_study(layout, study).name} has no run yet.")
    result = ingest_run(layout.run(study, layout.resolve_run(study, run)))
    counts = f"{result.trials} of {result.planned} trials are there, {result.valid} count"
    return text_block(f"{counts}; {result.problems_text}.")


def state(study: str, run: str = "latest") -> Block:
    """Show for each treatment the numbers of planned trials, of trials that ended without error, and of valid trials.

    Raises
    ------
    UsageError : no such study or run.
    DataError : the run has no tables yet, or they cannot be read.
    """
    layout = project_layout()
    done = {"notebook": "run_study", "study": study, "run": None}
    if not layout.runs(study):
        load_study(layout, study)
        return Block(text_block("The first run is one parameter away: execute = True."), data={DONE_MIME: done})
    data = load_run(layout, study, run)
    planned = [planned.treatment for planned in data.plan.trials]
    rows = []
    for name in data.plan.treatments:
        own = data.trials[data.trials["treatment"] == name]
        ok = int((own["status"] == "ok").sum())
        rows.append([data.study.label(name), *map(str, (planned.count(name), len(own), ok, int(own["valid"].sum())))])
    heads = ("Planned", "Executed", "Ended well", "Count")
    table = Table("State", [Column("Treatment"), *(Column(h, True) for h in heads)], rows)
    return styled(Block(table, note(f"Run {data.run} of {study}."), data={DONE_MIME: done | {"run": data.run}}))


def text_block(text: str) -> Block:
    """Return a sentence as a block with the style of the reports."""
    return styled(note_block(text))
