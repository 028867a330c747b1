"""reports/index.html: one row per study, newest run first, failed notebooks as rows too. Our own page, autoescaped."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadbook.core.errors import DataError, ReportError
from loadbook.core.units import seconds
from loadbook.records.atomic import write_atomic
from loadbook.records.manifest import read_json, write_json
from loadbook.report import compared
from loadbook.report.blocks import render, stylesheet
from loadbook.report.html import POLICY, forbidden
from loadbook.report.summary import checks

SUFFIX = ".summary.json"
SITE = "site.json"
MAX_COMPARED = 5


@dataclass(frozen=True)
class Entry:
    """One row: what a page's summary says, made ready to be shown; `compared` are links to comparisons of its runs."""

    summary: dict[str, Any]
    compared: Sequence[tuple[str, str]] = ()

    @property
    def date(self) -> str:
        """The day on which the run began, UTC."""
        return datetime.fromtimestamp(self.summary["started"], UTC).strftime("%Y-%m-%d %H:%M")

    @property
    def duration(self) -> str:
        """How long the run took; a dash for one that never ended."""
        ended = self.summary.get("ended")
        return seconds(ended - self.summary["started"]) if ended else "–"

    @property
    def checks(self) -> list[str]:
        """The checks of its run, each with its glyph."""
        return checks(self.summary)


def keep(reports: Path, summary: dict[str, Any]) -> None:
    """Write a study's summary beside its pages; the index is made from these files alone."""
    write_json(reports / f"{summary['study']}{SUFFIX}", summary)


def keep_site(reports: Path, said: dict[str, Any]) -> None:
    """Write what became of `loadbook report --all`, for the index (see report.site)."""
    write_json(reports / SITE, said)


def write_index(reports: Path) -> Path:
    """Write index.html over every summary in `reports` and return its path."""
    entries = sorted(_entries(reports), key=lambda e: (-e.summary["started"], e.summary["study"]))
    told = {"entries": entries, "site": _site(reports), "batches": _batches(reports)}
    page = str(render("index.html.j2", **told, style=stylesheet(), policy=POLICY))
    found = forbidden(page)
    if found:
        raise ReportError(f"index.html: not written, it would hold {'; '.join(found[:5])}")
    write_atomic(reports / "index.html", page.encode())
    return reports / "index.html"


def _site(reports: Path) -> dict[str, Any] | None:
    """Return what the last `loadbook report --all` took, and what it could not run."""
    path = reports / SITE
    if not path.is_file():
        return None
    try:
        said = read_json(path)
    except DataError:
        path.unlink()
        return None
    began = datetime.fromtimestamp(said["began"], UTC).strftime("%Y-%m-%d %H:%M")
    lacking = [part for part in said["parts"] if part["lacks"]]
    took = {key: seconds(said[f"{key}_s"]) for key in ("ran", "reported")}
    return took | {"began": began, "studies": len(said["parts"]), "lacking": lacking}


def _batches(reports: Path) -> list[dict[str, str]]:
    """Return name, day, tally and page of every batch, the newest first."""
    files = sorted(reports.glob("batch/*/batch.json"))
    if not files:
        return []
    from loadbook.report.batch.page import PAGE, day, tally
    from loadbook.report.batch.rows import read_round

    rounds = []
    for path in files:
        with suppress(DataError):  # the next round of that batch says what is wrong with it
            rounds.append((path.parent, read_round(path.parent)))
    found = sorted(((folder, one) for folder, one in rounds if one), key=lambda each: -each[1].began)
    return [
        {"name": one.batch, "began": day(one.began), "tally": tally(one), "page": f"batch/{folder.name}/{PAGE}"}
        for folder, one in found
    ]


def _entries(reports: Path) -> Sequence[Entry]:
    found = []
    for path in sorted(reports.glob(f"*{SUFFIX}")):
        try:
            summary = read_json(path)
            found.append(Entry(summary, compared.links(reports, summary["study"])[:MAX_COMPARED]))
        except DataError:
            path.unlink()  # ours, torn by a full disk, say; the next report of that study writes it again
    return found
