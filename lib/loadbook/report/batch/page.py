"""The summary of a batch: a page with a row per entry, and the same rows as lines of a table for a terminal."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadbook.core.errors import ReportError
from loadbook.core.units import seconds
from loadbook.records.atomic import write_atomic
from loadbook.report.batch.rows import NAME, Made, Round, Row
from loadbook.report.blocks import render, stylesheet
from loadbook.report.html import POLICY, forbidden
from loadbook.report.summary import checks

PAGE = "index.html"
HOME = "../../index.html"
GLYPHS = {"done": "✓", "failed": "✕", "stopped": "■", "running": "▶", "waiting": "…"}
# of an entry that is done: what the build gate of its study makes of it, by exit code
GATED = {1: "unacceptable", 4: "no verdict"}


@dataclass(frozen=True)
class Shown:
    """One row made ready to be shown."""

    row: Row
    file: str

    @property
    def state(self) -> str:
        """How far the entry is; of one that is done, what the build gate of its study says against it."""
        return GATED.get(self.row.exit_code, "done") if self.row.state == "done" else self.row.state

    @property
    def glyph(self) -> str:
        """A mark for the state, so that no colour is needed."""
        return GLYPHS.get(self.state, "✕")

    @property
    def asked(self) -> list[str]:
        """What the entry asks for beside its study: how much of it, and notebook parameters."""
        row = self.row
        sizes = [f"subset {row.subset}" if row.subset else "", f"{row.blocks} blocks" if row.blocks else ""]
        sizes += [f"{row.more} blocks more" if row.more else ""]
        return [*filter(None, sizes), *(f"{name} = {value}" for name, value in row.parameters.items())]

    @property
    def hosts(self) -> str:
        """The hosts file by its name."""
        return "lab" if self.row.hosts == "lab" else Path(self.row.hosts).name

    @property
    def counted(self) -> str:
        """How many of the planned trials count."""
        said = self.row.summary
        return f"{said['valid']} of {said['planned']}" if "valid" in said else "–"

    @property
    def took(self) -> str:
        """How long run and reports took; a dash for what was not done."""
        row = self.row
        return seconds(row.ran_s + row.reported_s) if row.ran_s or row.reported_s else "–"

    @property
    def verdict(self) -> dict[str, Any] | None:
        """Kind, word, glyph and sentence of the headline; None without a report."""
        found: dict[str, Any] | None = self.row.summary.get("verdict")
        return found

    @property
    def checks(self) -> list[str]:
        """The checks of its run, each with its glyph."""
        return checks(self.row.summary)

    @property
    def lines(self) -> list[str]:
        """The headline, what speaks against it, and what to do next, as a terminal shows them."""
        verdict = [f"{self.verdict['glyph']} {self.verdict['sentence']}"] if self.verdict else []
        verdict += [" · ".join(self.checks)] if self.checks else []
        against = [self.row.reason] if self.row.reason else []
        return [*verdict, *against, *([f"next: {self.row.next}"] if self.row.next else [])] or ["–"]

    @property
    def made(self) -> list[tuple[str, Made]]:
        """What to call each notebook, and its files, where there is one."""
        there = [one for one in self.row.pages if one.page or one.executed]
        return [(one.notebook.removeprefix("run_").replace("_", " "), one) for one in there]

    @property
    def again(self) -> str | None:
        """The command that goes on with this entry; None for one that is done."""
        if self.row.state == "done":
            return None
        return f"loadbook batch {shlex.quote(self.file)}" + (" --failed" if self.row.state == "failed" else "")


def shown(round_: Round) -> list[Shown]:
    """Return the rows of a round, made ready."""
    return [Shown(row, round_.file) for row in round_.entries]


def write(folder: Path, round_: Round) -> Path:
    """Write the summary page of a batch, whole or not at all, and return its path."""
    rows = shown(round_)
    took_s = (round_.ended or time.time()) - round_.began
    page = str(render(
        "batch.html.j2", round=round_, rows=rows, tally=tally(round_), json=NAME, style=stylesheet(), policy=POLICY,
        home=HOME, began=day(round_.began), at=day(time.time()), took=seconds(took_s),
    ))  # fmt: skip
    if found := forbidden(page, [HOME]):
        raise ReportError(f"{PAGE} of batch {round_.batch}: not written, it would hold {'; '.join(found[:5])}")
    write_atomic(folder / PAGE, page.encode())
    return folder / PAGE


def tally(round_: Round) -> str:
    """Return how many entries are in which state: "3 of 4 done, 1 failed"."""
    states = [one.state for one in shown(round_)]
    done = sum(row.state == "done" for row in round_.entries)
    others = [state for state in (*GATED.values(), "failed", "stopped", "running", "waiting") if state in states]
    return ", ".join([f"{done} of {len(states)} done", *(f"{states.count(state)} {state}" for state in others)])


def day(at: float) -> str:
    """Return a time (epoch seconds) as readers see it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
