"""The summary of a batch: a page with a row per entry, and the same rows as texts for a terminal."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadbook.batch.jobs import BATCH_FILE, BatchRun, EntryRecord, PageFiles
from loadbook.core.errors import ReportError
from loadbook.core.units import format_duration
from loadbook.report.blocks import check_texts
from loadbook.report.html import CONTENT_SECURITY_POLICY, fill_template, forbidden_content
from loadbook.report.palette import page_stylesheet
from loadbook.store.atomic import write_atomic

PAGE_FILE = "index.html"
HOME_LINK = "../../index.html"
STATE_GLYPHS = {"done": "✓", "failed": "✕", "stopped": "■", "running": "▶", "waiting": "…"}
# of an entry that is done: the result of its study's [ci], by exit code
CI_STATES = {1: "unacceptable", 4: "no verdict"}


@dataclass(frozen=True)
class EntryView:
    """One row of the summary: the texts of an entry."""

    entry: EntryRecord
    batch_file: str

    @property
    def state(self) -> str:
        """How far the entry is; of one that is done, the objection of its study's [ci]."""
        return CI_STATES.get(self.entry.exit_code, "done") if self.entry.state == "done" else self.entry.state

    @property
    def glyph(self) -> str:
        """A mark for the state, so that no colour is needed."""
        return STATE_GLYPHS.get(self.state, "✕")

    @property
    def request_texts(self) -> list[str]:
        """The options of the entry: how much of its study, and notebook parameters."""
        row = self.entry
        sizes = [f"subset {row.subset}" if row.subset else "", f"{row.blocks} blocks" if row.blocks else ""]
        sizes += [f"{row.more} blocks more" if row.more else ""]
        return [*filter(None, sizes), *(f"{name} = {value}" for name, value in row.parameters.items())]

    @property
    def hosts(self) -> str:
        """The hosts file by its name."""
        return "lab" if self.entry.hosts == "lab" else Path(self.entry.hosts).name

    @property
    def valid_trials(self) -> str:
        """How many of the planned trials count."""
        summary = self.entry.summary
        return f"{summary['valid']} of {summary['planned']}" if "valid" in summary else "–"

    @property
    def took(self) -> str:
        """How long run and reports took; a dash if nothing was done."""
        row = self.entry
        return format_duration(row.ran_s + row.reported_s) if row.ran_s or row.reported_s else "–"

    @property
    def verdict(self) -> dict[str, Any] | None:
        """Kind, word, glyph and sentence of the headline; None without a report."""
        verdict: dict[str, Any] | None = self.entry.summary.get("verdict")
        return verdict

    @property
    def checks(self) -> list[str]:
        """The checks of its run, each with its glyph."""
        return check_texts(self.entry.summary)

    @property
    def lines(self) -> list[str]:
        """Lines of an entry on a terminal: headline, checks, reason against it, next step."""
        verdict = [f"{self.verdict['glyph']} {self.verdict['sentence']}"] if self.verdict else []
        verdict += [" · ".join(self.checks)] if self.checks else []
        reason = [self.entry.reason] if self.entry.reason else []
        return [*verdict, *reason, *([f"next: {self.entry.next}"] if self.entry.next else [])] or ["–"]

    @property
    def page_files(self) -> list[tuple[str, PageFiles]]:
        """Name and files of each notebook that has any."""
        files = [one for one in self.entry.pages if one.page or one.executed]
        return [(one.notebook.removeprefix("run_").replace("_", " "), one) for one in files]

    @property
    def resume_command(self) -> str | None:
        """The command that resumes this entry; None if it is done."""
        if self.entry.state == "done":
            return None
        return f"loadbook batch {shlex.quote(self.batch_file)}" + (" --failed" if self.entry.state == "failed" else "")


def entry_views(batch_run: BatchRun) -> list[EntryView]:
    """Return the rows of a round."""
    return [EntryView(row, batch_run.file) for row in batch_run.entries]


def write_batch_page(folder: Path, batch_run: BatchRun) -> Path:
    """Write the summary page of a batch, whole or not at all, and return its path."""
    rows = entry_views(batch_run)
    took_s = (batch_run.ended or time.time()) - batch_run.began
    page = str(
        fill_template(
            "batch.html.j2",
            batch_run=batch_run,
            rows=rows,
            tally=tally(batch_run),
            json=BATCH_FILE,
            style=page_stylesheet(),
            policy=CONTENT_SECURITY_POLICY,
            home=HOME_LINK,
            began=utc_text(batch_run.began),
            at=utc_text(time.time()),
            took=format_duration(took_s),
        )
    )
    if found := forbidden_content(page, [HOME_LINK]):
        raise ReportError(f"{PAGE_FILE} of batch {batch_run.batch}: not written, it would hold {'; '.join(found[:5])}")
    write_atomic(folder / PAGE_FILE, page.encode())
    return folder / PAGE_FILE


def tally(batch_run: BatchRun) -> str:
    """Return how many entries are in which state: "3 of 4 done, 1 failed"."""
    states = [one.state for one in entry_views(batch_run)]
    done = sum(row.state == "done" for row in batch_run.entries)
    others = [state for state in (*CI_STATES.values(), "failed", "stopped", "running", "waiting") if state in states]
    return ", ".join([f"{done} of {len(states)} done", *(f"{states.count(state)} {state}" for state in others)])


def utc_text(at: float) -> str:
    """Return a time (epoch seconds) as readers see it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
