"""What a run that is under way looks like so far: estimates without intervals or verdicts.

The pages that show what this kernel does, as its Jupyter server counts them.

Is anybody there to be told? A kernel that is busy answers nobody, and a page that comes back does not get
the output of a cell that began before. So a cell that only watches ends when the last page has gone or another came.

The progress of a run in one output of a cell, updated in place: however long the run, the notebook stays small.

The verbs of the notebook run_study: plan, run or resume, ingest, state. What they do, trials and design do.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import ProxyHandler, Request, build_opener

from loadbook.core import errors
from loadbook.core.errors import LoadbookError
from loadbook.core.units import format_bytes, format_duration, format_percent, format_remaining_time
from loadbook.execution.power import forecast_power, power_lines
from loadbook.execution.studies import load_study
from loadbook.ingestion.ingest import ingest as ingest_run
from loadbook.notebook.display import Card, styled
from loadbook.notebook.process import Runner, Wish, attached, start
from loadbook.report.blocks import Block, Column, Table, render, render_block, table_markup, table_text
from loadbook.report.notebooks import DONE_MIME
from loadbook.report.page import note_block
from loadbook.store.ledger import is_run_complete
from loadbook.store.paths import Layout, project_layout
from loadbook.store.tables import RunData, load_run
from loadbook.study.plan import make_plan

if TYPE_CHECKING:
    import pandas as pd

WARNING = "Peeking decides nothing: verdicts come when the plan is done, or at a look that the study declared."


def estimates(layout: Layout, study: str, run: str) -> list[list[Any]]:
    """Make the tables of a run as far as it is; return label, change (ratio minus 1) and blocks of each treatment."""
    from loadbook.execution.studies import load_study
    from loadbook.ingestion.ingest import ingest

    name = load_study(layout, study).name
    run = layout.resolve_run(name, run)
    ingest(layout.run(name, run))
    data = load_run(layout, name, run)
    wide = data.values(data.study.metric)
    wide = wide[wide["valid"]].pivot(index="block", columns="treatment", values="value")
    return [one for name in data.plan["treatments"] if (one := _one(data, wide, name))]


def _one(data: RunData, wide: pd.DataFrame, name: str) -> list[Any] | None:
    base = data.study.repeated_treatment(name) or data.study.baseline_of(name)
    if name == base or not {name, base} <= set(wide.columns):
        return None
    ratios = (wide[name] / wide[base]).dropna()
    change = float(ratios.median()) - 1 if len(ratios) else math.nan
    return [data.study.label(name), change, len(ratios)] if math.isfinite(change) else None


def said(row: list[Any]) -> list[str]:
    """Return one estimate as cells."""
    label, change, blocks = row
    return [str(label), format_percent(change), str(blocks)]


EVERY_S, LIMIT_S = 0.9, 2.0


@dataclass
class Pages:
    """The pages connected to this kernel; `address` is what its server says of it, "" outside of a server."""

    address: str = ""
    token: str = field(default="", repr=False)
    _seen: int = 0
    _next: float = 0.0

    def changed(self) -> bool:
        """Tell whether the last page has gone or another has come; asked again within 0.9 s, it says no.

        Both: a browser may keep the page that it left, with its connection, for minutes.
        """
        if not self.address or time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + EVERY_S
        number = self.number()
        if number is None:
            return False
        before, self._seen = self._seen, number
        return before > 0 and (number == 0 or number > before)

    def number(self) -> int | None:
        """Return how many there are, None where the server does not say (GET /api/kernels/<id>, "connections")."""
        request = Request(self.address, headers={"Authorization": f"token {self.token}"})  # noqa: S310 - http only
        try:
            with build_opener(ProxyHandler({})).open(request, timeout=LIMIT_S) as answer:
                return int(json.load(answer)["connections"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def pages() -> Pages:
    """Return the pages of this process's kernel: the server that started it tells its address in a file of its own."""
    if "ipykernel" not in sys.modules:
        return Pages()
    from ipykernel.connect import get_connection_file

    try:
        kernel = Path(get_connection_file())
        server = json.loads((kernel.parent / f"jpserver-{os.getppid()}.json").read_bytes())
        return of_server(server, kernel.stem.removeprefix("kernel-"))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return Pages()


def of_server(server: dict[str, str], kernel: str) -> Pages:
    """Return the pages of a kernel by what its server wrote of itself; those behind TLS or a socket are not asked."""
    address = server["url"]
    return Pages(f"{address}api/kernels/{kernel}", server["token"]) if address.startswith("http://") else Pages()


LIVE_EVERY_S, LEAVE_S = 1.0, 2.0
SHOWN_NOTES, SHOWN_ROWS = 3, 20
KEEPS_ON = "■ stops it. Closing this tab or restarting the kernel does not: run this cell again to see how far it is."


class LeftError(KeyboardInterrupt):
    """Nobody looked any more, or somebody new; the cell ended, the run goes on, and the kernel is free to show it."""

    def _render_traceback_(self) -> list[str]:
        return [
            "The page was left or opened again, so this cell ended. The run goes on: the same cell shows how far it is."
        ]


class StoppedError(KeyboardInterrupt):
    """The cell was interrupted, and so was the run; the same call goes on."""

    def _render_traceback_(self) -> list[str]:
        return ["Stopped; the trial under way is recorded as cancelled. Run this cell again to go on."]


@dataclass(frozen=True, repr=False)
class Watched(Card):
    """How far a run is: `state` is what its process kept (`runner.Keeper`), `now` epoch seconds."""

    state: dict[str, Any]
    now: float

    @property
    def line(self) -> str:
        """Block, trial, how many are done and the time that is left, in one line."""
        event, ended = self.state.get("event"), self.state.get("ended")
        if ended:
            done = f"{event['done']} of {event['total']} trials" if event else "no trial"
            how = "complete" if "run" in ended else ended["error"].splitlines()[0]
            return f"{done} in {format_duration(ended['at'] - self.state['began'])}: {how}"
        if not event:
            return "starting: hosts, tools and every configuration are checked first"
        left = event["remaining_s"]
        spent = max(0.0, self.now - self.state["at"]) if event["kind"] == "trial-started" else 0.0
        time_left = "" if left is None else f" · {format_remaining_time(max(1.0, left - spent))}"
        where = f"block {event['block']} of {event['blocks']} · {event['trial']} {event['treatment']}"
        return f"{where} · {event['done']} of {event['total']} trials done{time_left}"

    @property
    def share(self) -> float:
        """How much of the plan is done, 0 to 1."""
        event = self.state.get("event")
        return min(1.0, event["done"] / event["total"]) if event and event["total"] else 0.0

    def _shown(self) -> Block:
        """Return the bar, the line, trials that did not end well, the running estimate, and the last notes."""
        over = "ended" in self.state
        rows = [said(row) for row in self.state.get("so_far", [])]
        heads = (Column("So far, against its baseline"), Column("Change", True), Column("Blocks", True))
        table = Table("Running estimate", heads, rows[:SHOWN_ROWS]) if rows and not over else None
        bad = ", ".join(f"{n} {status}" for status, n in self.state.get("bad", {}).items())
        notes = self.state.get("notes", [])[-SHOWN_NOTES:]
        text = [
            self.line,
            *([f"not ok: {bad}"] if bad else []),
            *([table_text(table), WARNING] if table else []),
            *notes,
        ]
        return render_block(
            "progress.html.j2", "\n".join(text), percent=round(100 * self.share), line=self.line, bad=bad, notes=notes,
            table=table_markup(table) if table else None, warning=WARNING, hint="" if over else KEEPS_ON,
        )  # fmt: skip


def follow(runner: Runner, show: Callable[[Watched], None] | None = None) -> str:
    """Show a run until it ends and return its id.

    Raises
    ------
    LoadbookError : it could not go on; the message says why.
    StoppedError : the cell was interrupted; so is the run.
    LeftError : the page that showed the cell was closed, or opened again; the run goes on.
    """
    show = show or shower()
    try:
        return _follow(runner, show, pages())
    except LeftError:
        raise
    except KeyboardInterrupt:
        if kernel_ends():
            raise LeftError from None
        runner.stop()
        show(Watched(runner.state(), time.time()))
        raise StoppedError from None


def kernel_ends() -> bool:
    """Tell whether an interrupt is the first step of a restart: Jupyter interrupts a kernel, then tells it to end."""
    found: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    deadline = time.monotonic() + (LEAVE_S if hasattr(found, "kernel") else 0.0)
    with contextlib.suppress(KeyboardInterrupt):
        while time.monotonic() < deadline and not found.exit_now:
            time.sleep(0.05)
    return bool(getattr(found, "exit_now", False))


def _follow(runner: Runner, show: Callable[[Watched], None], readers: Pages) -> str:
    last = ""
    while True:
        alive, state = runner.alive(), runner.state()  # in this order: what it kept last is read after its end
        now = Watched(state, time.time())
        if now.line != last:
            show(now)
            last = now.line
        if "ended" in state:
            return _end(state["ended"])
        if not alive:
            words = runner.last_words()
            raise LoadbookError(f"the run's process ended without a word: {words or 'killed?'}", AGAIN)
        if readers.changed():
            raise LeftError
        time.sleep(LIVE_EVERY_S)


AGAIN = "the same call goes on with what is not done"


def _end(ended: dict[str, Any]) -> str:
    if "run" in ended:
        return str(ended["run"])
    kind = getattr(errors, str(ended["kind"]), None)
    plain_kind = kind in (errors.UsageError, errors.DataError, errors.ToolError)
    raise (kind if plain_kind and kind else LoadbookError)(ended["error"], ended["hint"])


def shower() -> Callable[[Watched], None]:
    """Return what shows progress here: one output of a cell, updated in place; lines on stderr outside of notebooks."""
    if "IPython" in sys.modules:
        from IPython import get_ipython
        from IPython.display import display

        if get_ipython() is not None:
            handle = display(Watched({}, time.time()), display_id=True)
            return handle.update
    return lambda now: print(now.line, file=sys.stderr, flush=True)


def plan(study: str, subset: str = "", blocks: int = 0) -> Block:
    """Show what a new run would do: treatments, trials, hours, disk, what it can find at recorded noise; no network.

    Parameters
    ----------
    study : a name in studies/, a .toml file, or "NAME-smoke".
    subset, blocks : instead of the study's own; 0 blocks are those.

    Raises
    ------
    UsageError, StudyError : a wrong name, or mistakes in the study, all of them at once.
    """
    home = project_layout()
    planned = make_plan(load_study(home, study), subset or None, blocks or None)
    rows = [
        ["treatments", ", ".join(planned.study.label(name) for name in planned.treatments)],
        ["trials", f"{len(planned.trials)} ({planned.blocks} blocks of {len(planned.treatments)})"],
        ["takes about", format_duration(planned.hours * 3600)],
        ["disk", f"about {format_bytes(planned.disk_bytes)}"],
    ]
    rows += [line.split(maxsplit=1) for line in power_lines(forecast_power(home, planned)) if line[0] != " "]
    table = Table("Plan", [Column(study), Column("", wrap=True)], rows)
    return styled(Block(str(table_markup(table)), table_text(table)))


def run(
    study: str, hosts: str = "", subset: str = "", resume: str = "", execute: bool = False, new: bool = False
) -> Block:
    """Run a study and show how far it is, or go on with its unfinished run; without `execute` only say so.

    The run is a process of its own: closing the tab or restarting the kernel does not end it, and the same call shows
    it again. Interrupting the cell stops it, and the same call goes on. A study whose latest run is complete is not
    run again unless `new`.

    Parameters
    ----------
    study : a name in studies/, a .toml file, or "NAME-smoke".
    hosts : hosts file, by its path from the project's folder; empty is the loopback lab.
    subset, resume : names; empty for the study's own subset and for the latest unfinished run.
    execute : False does nothing, so that a notebook can be opened and run without a risk.
    new : start a new run although the latest is complete or unfinished.

    Raises
    ------
    UsageError, StudyError : a wrong name, or a mistake in the study; nothing was started.
    LoadbookError : the run could not go on; the message says why and what to do.
    """
    home = project_layout()
    name = load_study(home, study).name
    if not execute:
        return running_said(
            "Nothing was executed. With execute = True the study is run, or its unfinished run resumed."
        )
    folder = home.study_raw(name)
    runner = attached(folder)
    done = home.runs(name)
    if runner is None and done and not (new or resume) and is_run_complete(home.run(name, done[-1])):
        return running_said(f"Run {done[-1]} of {study} is complete. To run it anew: new = True.")
    found = follow(runner or start(home, folder, Wish(study, hosts, subset, resume, new)))
    return running_said(f"Run {found} of {study} is complete.")


def ingest(study: str, run: str = "latest") -> Block:
    """Rebuild the tables of a run from its raw data and show how many trials they hold.

    Raises
    ------
    UsageError : no such study or run.
    DataError : raw files that cannot be read; the message names them.
    """
    home = project_layout()
    if not home.runs(study):
        return running_said(f"{load_study(home, study).name} has no run yet.")
    found = ingest_run(home.run(study, home.resolve_run(study, run)))
    problems = ", ".join(f"{n} {level}" for level, n in found.problems.items()) or "none"
    return running_said(
        f"{found.trials} of {found.planned} trials are there, {found.valid} count. Problems: {problems}."
    )


def state(study: str, run: str = "latest") -> Block:
    """Show per treatment how many trials were planned, ended well, and count.

    Raises
    ------
    UsageError : no such study or run.
    DataError : the run has no tables yet, or they cannot be read.
    """
    home = project_layout()
    done = {"notebook": "run_study", "study": study, "run": None}
    if not home.runs(study):
        load_study(home, study)
        return replace(running_said("The first run is one parameter away: execute = True."), data={DONE_MIME: done})
    data = load_run(home, study, run)
    planned = [t["treatment"] for t in data.plan["trials"]]
    rows = []
    for name in data.plan["treatments"]:
        own = data.trials[data.trials["treatment"] == name]
        ok = int((own["status"] == "ok").sum())
        rows.append([data.study.label(name), *map(str, (planned.count(name), len(own), ok, int(own["valid"].sum())))])
    heads = ("Planned", "Executed", "Ended well", "Count")
    table = Table("State", [Column("Treatment"), *(Column(h, True) for h in heads)], rows)
    html = table_markup(table) + render("note.html.j2", text=f"Run {data.run} of {study}.")
    return styled(Block(str(html), table_text(table), {DONE_MIME: done | {"run": data.run}}))


def running_said(text: str) -> Block:
    """Return a sentence that looks in a cell of its own as it does on a page."""
    return styled(note_block(text))
