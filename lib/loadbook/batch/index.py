"""Two index pages: of a batch, with a row per entry (also printed on a terminal); of all reports, a row per study."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from loadbook.batch.jobs import BATCH_FILE, BatchRun, EntryRecord, read_batch_run
from loadbook.core import clock
from loadbook.core.errors import DataError
from loadbook.core.units import format_duration, utc_text
from loadbook.report import html
from loadbook.report.blocks import check_texts
from loadbook.report.strips import summary_strip
from loadbook.store.trial_record import read_json, write_json

PAGE_FILE, SITE_FILE = "index.html", "site.json"
HOME_LINK = f"../../{PAGE_FILE}"
STATE_GLYPHS = {"done": "✓", "failed": "✕", "stopped": "■", "running": "▶", "waiting": "…"}
# exit code -> state of an entry that is done, from the conditions in its study's [ci] table
CI_STATES = {1: "unacceptable", 4: "no verdict"}
MAX_INDEX_LINKS = 5  # links per study to comparisons of runs, and as many to earlier runs


def entry_rows(batch_run: BatchRun) -> list[dict[str, Any]]:
    """Return a row for each entry of a batch run, for its page and for a terminal: name of a part -> text or texts.

    `entry` is the EntryRecord itself. `state` is its state or, if it is done but did not pass its gate,
    "unacceptable" or "no verdict". `lines` are verdict, checks, reason and next step. `resume_command` is None for a
    done entry.
    """
    return [_entry_row(entry, batch_run.file) for entry in batch_run.entries]


def _entry_row(entry: EntryRecord, batch_file: str) -> dict[str, Any]:
    summary, verdict, checks = entry.summary, entry.summary.get("verdict"), check_texts(entry.summary)
    requests = {"subset {}": entry.subset, "{} blocks": entry.blocks, "{} blocks more": entry.more}
    parameters = [f"{name} = {value}" for name, value in entry.parameters.items()]
    next_step = entry.next or summary.get("next")
    lines = [
        f"{verdict['glyph']} {verdict['sentence']}" if verdict else "",
        " · ".join(checks),
        entry.reason,
        f"next: {next_step}" if next_step else "",
    ]
    state = CI_STATES.get(entry.exit_code, "done") if entry.state == "done" else entry.state
    resume = f"loadbook batch {shlex.quote(batch_file)}" + " --failed" * (entry.state == "failed")
    files = [one for one in entry.pages if one.page or one.executed]
    return {
        "entry": entry,
        "state": state,
        "glyph": STATE_GLYPHS.get(state, "✕"),  # the state can be seen without colours
        "request_texts": [*(text.format(value) for text, value in requests.items() if value), *parameters],
        "hosts": Path(entry.hosts).name,
        "valid_trials": f"{summary['valid']} of {summary['planned']}" if "valid" in summary else "–",
        "took": format_duration(entry.took_s) if entry.took_s else "–",
        "verdict": verdict,
        "strip": summary_strip(summary),
        "checks": checks,
        "lines": [line for line in lines if line] or ["–"],
        "page_files": [(one.notebook.removeprefix("run_").replace("_", " "), one) for one in files],
        "resume_command": None if entry.state == "done" else resume,
    }


def write_batch_page(folder: Path, batch_run: BatchRun) -> Path:
    """Write the summary page of a batch by an atomic rename, and return its path."""
    return _write_page(
        folder, f"{PAGE_FILE} of batch {batch_run.batch}", "batch.html.j2", [HOME_LINK],
        batch_run=batch_run, rows=entry_rows(batch_run), tally=tally(batch_run), json=BATCH_FILE, home=HOME_LINK,
        began=f"{utc_text(batch_run.began)} UTC", at=f"{utc_text(clock.now())} UTC",
        took=format_duration((batch_run.ended or clock.now()) - batch_run.began),
    )  # fmt: skip


def tally(batch_run: BatchRun) -> str:
    """Return a text with the number of entries in each state, such as "3 of 4 done, 1 failed".

    Entries that did not pass their gate ("unacceptable", "no verdict") count as done, too.
    """
    states = [row["state"] for row in entry_rows(batch_run)]
    done = sum(entry.state == "done" for entry in batch_run.entries)
    others = [state for state in (*CI_STATES.values(), "failed", "stopped", "running", "waiting") if state in states]
    return ", ".join([f"{done} of {len(states)} done", *(f"{states.count(state)} {state}" for state in others)])


def write_site_summary(reports: Path, summary: dict[str, Any]) -> None:
    """Write the record of `loadbook report --all` (`batch.site.site_record`) to a file that `write_index` reads."""
    write_json(reports / SITE_FILE, summary)


def write_index(reports: Path) -> Path:
    """Write the index page of all reports, with a row per study about its newest run, and return its path."""
    batches = _read_batches(reports)
    newest: dict[str, dict[str, Any]] = {}
    for summary in _read_summaries(reports, batches):
        known = newest.get(summary["study"])
        if known is None or summary["started"] > known["started"]:
            newest[summary["study"]] = summary
    entries = [
        {
            "summary": summary,
            "comparisons": html.comparison_links(reports, study)[:MAX_INDEX_LINKS],
            "earlier": html.earlier_pages(reports, study, summary["run"])[:MAX_INDEX_LINKS],
            "date": utc_text(summary["started"]),
            "duration": _duration_text(summary),
            "checks": check_texts(summary),
            "strip": summary_strip(summary),
        }
        for study, summary in sorted(newest.items(), key=lambda item: (-item[1]["started"], item[0]))
    ]
    rows = [
        {"name": run.batch, "began": f"{utc_text(run.began)} UTC", "tally": tally(run),
         "page": f"batch/{folder}/{PAGE_FILE}"}
        for folder, run in batches
    ]  # fmt: skip
    values = {"entries": entries, "site": _read_site(reports), "batches": rows}
    return _write_page(reports, PAGE_FILE, "index.html.j2", (), **values)


def _duration_text(summary: Mapping[str, Any]) -> str:
    """Return how long a run measured, without its pauses; an unfinished run has no duration."""
    if not summary.get("ended"):
        return "–"
    return format_duration(summary["ended"] - summary["started"] - summary.get("paused_s", 0.0))


def _read_summaries(reports: Path, batches: list[tuple[str, BatchRun]]) -> Iterator[dict[str, Any]]:
    """Yield the summaries of `loadbook report`, then those of batch entries without notebook parameters."""
    for path in sorted(reports.glob(f"*{html.SUMMARY_SUFFIX}")):
        try:
            yield read_json(path)
        except DataError:  # the next report writes it again
            path.unlink()
    for folder, run in batches:
        for entry in run.entries:
            summary = entry.summary
            if entry.state == "done" and not entry.parameters and {"study", "started", "page"} <= set(summary):
                more = {name: f"batch/{folder}/{page}" for name, page in summary.get("more", {}).items()}
                yield summary | {"page": f"batch/{folder}/{summary['page']}", "more": more}


def _read_batches(reports: Path) -> list[tuple[str, BatchRun]]:
    """Return folder and last run of every batch, the newest first; damaged files are left out."""
    batches = []
    for path in sorted(reports.glob(f"batch/*/{BATCH_FILE}")):
        with suppress(DataError):
            if run := read_batch_run(path.parent):
                batches.append((path.parent.name, run))
    return sorted(batches, key=lambda batch: -batch[1].began)


def _read_site(reports: Path) -> dict[str, Any] | None:
    """Return the durations of the last `loadbook report --all`, and studies that it could not run; None if no file."""
    path = reports / SITE_FILE
    if not path.is_file():
        return None
    try:
        summary = read_json(path)
    except DataError:
        path.unlink()
        return None
    lacking = [part for part in summary["parts"] if part["lacks"]]
    took = {key: format_duration(summary[f"{key}_s"]) for key in ("ran", "reported")}
    return took | {"began": utc_text(summary["began"]), "studies": len(summary["parts"]), "lacking": lacking}


def _write_page(folder: Path, title: str, template: str, allowed_links: Collection[str], **values: Any) -> Path:
    """Write index.html of a folder, and return its path; ReportError for forbidden content."""
    html.write_page(folder / PAGE_FILE, title, template, allowed_links, **values)
    return folder / PAGE_FILE
