"""Reasons of failed requests in the logs of services that are kept with a trial."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from loadbook.core.errors import LoadbookError
from loadbook.core.text import one_line
from loadbook.ingestion.trial_rows import ALL_DRIVERS, TrialRows
from loadbook.services.spec import load_service

ERROR_LOG = "error_log"
MAX_CHARS = 160


def add_failure_reasons(rows: TrialRows, folder: Path, changed: Collection[str]) -> None:
    """Add a note for each service of a trial with failed requests: the most frequent reason in its log."""
    counts = [m for m in rows.measurements if (m["driver"], m["statistic"]) == (ALL_DRIVERS, "count")]
    totals = {m["metric"]: m["value"] for m in counts}
    other_than_2xx = totals.get("requests", 0) - totals["status_2xx"] if "status_2xx" in totals else 0
    if any(value for name, value in totals.items() if name.startswith("errors")) or other_than_2xx > 0:
        for name, host, reason in _reasons(rows, folder, changed):
            rows.add_problem(ERROR_LOG, reason, level="note", host=host, file=name)


def _reasons(rows: TrialRows, folder: Path, changed: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the file of a log, the service's host and the most frequent reason in the log."""
    for service in rows.record.services:
        name = f"log-{service.host}-{service.role}"
        if name not in rows.record.files or name in changed:
            continue
        try:
            errors = load_service(service.service).errors
        except LoadbookError:  # a service of the user's own, which this process may not see
            continue
        log = (folder / name).read_text(encoding="utf-8", errors="replace")
        if errors and (reason := errors.usual_failure(log)):
            yield name, service.host, one_line(reason)[:MAX_CHARS]
