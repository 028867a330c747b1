"""The index page, reports/index.html: one row per study with its newest run, failed notebooks, batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadbook.batch.jobs import BATCH_FILE, BatchRun, read_batch_run
from loadbook.batch.page import PAGE_FILE, tally, utc_text
from loadbook.core.errors import DataError, ReportError
from loadbook.core.units import format_duration
from loadbook.report.blocks import check_texts
from loadbook.report.html import (
    CONTENT_SECURITY_POLICY,
    SUMMARY_SUFFIX,
    comparison_links,
    earlier_pages,
    fill_template,
    forbidden_content,
)
from loadbook.report.palette import page_stylesheet
from loadbook.store.atomic import write_atomic
from loadbook.store.trial_record import read_json, write_json

SITE_FILE = "site.json"
MAX_INDEX_LINKS = 5  # of a study, to comparisons and to earlier runs each


@dataclass(frozen=True)
class IndexEntry:
    """One row: a study's newest report, links to comparisons of its runs and to reports of earlier ones."""

    summary: dict[str, Any]
    comparisons: Sequence[tuple[str, str]] = ()
    earlier: Sequence[tuple[str, str]] = ()

    @property
    def date(self) -> str:
        """The day on which the run began, UTC."""
        return datetime.fromtimestamp(self.summary["started"], UTC).strftime("%Y-%m-%d %H:%M")

    @property
    def duration(self) -> str:
        """How long the run took; a dash for one that never ended."""
        ended = self.summary.get("ended")
        return format_duration(ended - self.summary["started"]) if ended else "–"

    @property
    def checks(self) -> list[str]:
        """The checks of its run, each with its glyph."""
        return check_texts(self.summary)


def write_site_summary(reports: Path, summary: dict[str, Any]) -> None:
    """Write the outcome of `loadbook report --all` for the index (see batch.site)."""
    write_json(reports / SITE_FILE, summary)


def write_index(reports: Path) -> Path:
    """Write index.html over every summary in `reports` and return its path."""
    batches = _read_batches(reports)
    newest: dict[str, dict[str, Any]] = {}
    for summary in (*_read_summaries(reports), *_batch_summaries(batches)):
        known = newest.get(summary["study"])
        if known is None or summary["started"] > known["started"]:
            newest[summary["study"]] = summary
    entries = [
        IndexEntry(
            s,
            comparison_links(reports, name)[:MAX_INDEX_LINKS],
            earlier_pages(reports, name, s["run"])[:MAX_INDEX_LINKS],
        )
        for name, s in newest.items()
    ]
    entries.sort(key=lambda entry: (-entry.summary["started"], entry.summary["study"]))
    rows = [
        {"name": run.batch, "began": utc_text(run.began), "tally": tally(run), "page": f"batch/{folder}/{PAGE_FILE}"}
        for folder, run in batches
    ]
    values = {"entries": entries, "site": _read_site(reports), "batches": rows}
    page = str(fill_template("index.html.j2", **values, style=page_stylesheet(), policy=CONTENT_SECURITY_POLICY))
    if forbidden := forbidden_content(page):
        raise ReportError(f"index.html: not written, it would hold {'; '.join(forbidden[:5])}")
    write_atomic(reports / "index.html", page.encode())
    return reports / "index.html"


def _read_summaries(reports: Path) -> Iterator[dict[str, Any]]:
    """Yield the summaries of `loadbook report`; a torn one is removed, as the study's next report writes it again."""
    for path in sorted(reports.glob(f"*{SUMMARY_SUFFIX}")):
        try:
            yield read_json(path)
        except DataError:
            path.unlink()


def _batch_summaries(batches: list[tuple[str, BatchRun]]) -> Iterator[dict[str, Any]]:
    """Yield the summaries of batches' entries that answer a study's own question, with links to their pages."""
    for folder, run in batches:
        for entry in run.entries:
            summary = entry.summary
            if entry.state != "done" or entry.parameters or not {"study", "started", "page"} <= set(summary):
                continue
            more = {name: f"batch/{folder}/{page}" for name, page in summary.get("more", {}).items()}
            yield summary | {"page": f"batch/{folder}/{summary['page']}", "more": more}


def _read_batches(reports: Path) -> list[tuple[str, BatchRun]]:
    """Return folder and last round of every batch, the newest first; the next round reports a broken file."""
    batches = []
    for path in sorted(reports.glob(f"batch/*/{BATCH_FILE}")):
        with suppress(DataError):
            if run := read_batch_run(path.parent):
                batches.append((path.parent.name, run))
    return sorted(batches, key=lambda batch: -batch[1].began)


def _read_site(reports: Path) -> dict[str, Any] | None:
    """Return the times of the last `loadbook report --all`, and the studies that it could not run."""
    path = reports / SITE_FILE
    if not path.is_file():
        return None
    try:
        summary = read_json(path)
    except DataError:
        path.unlink()
        return None
    began = datetime.fromtimestamp(summary["began"], UTC).strftime("%Y-%m-%d %H:%M")
    lacking = [part for part in summary["parts"] if part["lacks"]]
    took = {key: format_duration(summary[f"{key}_s"]) for key in ("ran", "reported")}
    return took | {"began": began, "studies": len(summary["parts"]), "lacking": lacking}
