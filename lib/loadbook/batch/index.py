"""The index page, reports/index.html: one row per study, newest run first.

Failed notebooks and batches are listed, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadbook.batch.jobs import read_batch_run
from loadbook.batch.page import PAGE_FILE, tally, utc_text
from loadbook.core.errors import DataError, ReportError
from loadbook.core.units import format_duration
from loadbook.report.blocks import check_texts, render, stylesheet
from loadbook.report.html import CONTENT_SECURITY_POLICY, forbidden_content
from loadbook.report.links import SUMMARY_SUFFIX, comparison_links
from loadbook.store.atomic import write_atomic
from loadbook.store.trial_record import read_json, write_json

SITE_FILE = "site.json"
MAX_INDEX_COMPARISONS = 5


@dataclass(frozen=True)
class IndexEntry:
    """One row: what a page's summary says, made ready to be shown.

    `comparisons` are links to comparisons of its runs.
    """

    summary: dict[str, Any]
    comparisons: Sequence[tuple[str, str]] = ()

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
    """Write what became of `loadbook report --all`, for the index (see batch.site)."""
    write_json(reports / SITE_FILE, summary)


def write_index(reports: Path) -> Path:
    """Write index.html over every summary in `reports` and return its path."""
    entries = sorted(_read_entries(reports), key=lambda e: (-e.summary["started"], e.summary["study"]))
    values = {"entries": entries, "site": _read_site(reports), "batches": _batch_rows(reports)}
    page = str(render("index.html.j2", **values, style=stylesheet(), policy=CONTENT_SECURITY_POLICY))
    found = forbidden_content(page)
    if found:
        raise ReportError(f"index.html: not written, it would hold {'; '.join(found[:5])}")
    write_atomic(reports / "index.html", page.encode())
    return reports / "index.html"


def _read_site(reports: Path) -> dict[str, Any] | None:
    """Return what the last `loadbook report --all` took, and what it could not run."""
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


def _batch_rows(reports: Path) -> list[dict[str, str]]:
    """Return name, day, tally and page of every batch, the newest first."""
    files = sorted(reports.glob("batch/*/batch.json"))
    if not files:
        return []
    rounds = []
    for path in files:
        with suppress(DataError):  # the next round of that batch says what is wrong with it
            rounds.append((path.parent, read_batch_run(path.parent)))
    found = sorted(((folder, one) for folder, one in rounds if one), key=lambda each: -each[1].began)
    return [
        {
            "name": one.batch,
            "began": utc_text(one.began),
            "tally": tally(one),
            "page": f"batch/{folder.name}/{PAGE_FILE}",
        }
        for folder, one in found
    ]


def _read_entries(reports: Path) -> Sequence[IndexEntry]:
    found = []
    for path in sorted(reports.glob(f"*{SUMMARY_SUFFIX}")):
        try:
            summary = read_json(path)
            found.append(IndexEntry(summary, comparison_links(reports, summary["study"])[:MAX_INDEX_COMPARISONS]))
        except DataError:
            path.unlink()  # ours, torn by a full disk, say; the next report of that study writes it again
    return found
