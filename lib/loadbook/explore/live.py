"""The progress of a run in one output of a cell, updated in place: however long the run, the notebook stays small."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loadbook.core import errors
from loadbook.core.errors import LoadbookError
from loadbook.core.units import format_remaining_time, format_duration
from loadbook.explore.cards import Card
from loadbook.explore.pages import Pages, pages
from loadbook.explore.peek import WARNING, said
from loadbook.explore.runner import Runner
from loadbook.report.blocks import Block, render_block
from loadbook.report.tables import Column, Table, table_text, table_markup

EVERY_S, LEAVE_S = 1.0, 2.0
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
        text = [self.line, *([f"not ok: {bad}"] if bad else []), *([table_text(table), WARNING] if table else []), *notes]
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
        time.sleep(EVERY_S)


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
