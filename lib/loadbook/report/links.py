"""Small JSON files beside the pages: the summary of a study's report, and the two runs that a page compares."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from loadbook.core.errors import DataError
from loadbook.store.atomic import write_atomic
from loadbook.store.trial_record import read_json, write_json

_RUN_ID = re.compile(r"\d{8}\D?\d{6}[\w.-]*")
COMPARISON_SUFFIX = ".compared.json"
SUMMARY_SUFFIX = ".summary.json"


def write_summary(reports: Path, summary: dict[str, Any]) -> None:
    """Write a study's summary beside its pages; the index is made from these files alone."""
    write_json(reports / f"{summary['study']}{SUMMARY_SUFFIX}", summary)


def keep_other_pages(reports: Path, study: str, run: str) -> None:
    """Rename the pages of a study's last report if they are of another run than `run`: they get its id.

    The links among them are changed, too. Pages that were kept of `run` itself are removed: new ones are made.
    """
    for path in reports.glob(f"{study}*-{run}.html"):
        path.unlink()
    try:
        old = read_json(reports / f"{study}{SUMMARY_SUFFIX}")
        names = [old["page"], *(name for title, name in old.get("more", {}).items() if title != "history")]
        other = str(old["run"])
    except (DataError, KeyError, TypeError):
        return
    pages = [reports / name for name in names if (reports / name).is_file()]
    if other == run or not pages:
        return
    renamed = {page.name: f"{page.stem}-{other}.html" for page in pages}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for name, new in renamed.items():
            text = text.replace(f'href="{name}"', f'href="{new}"')
        write_atomic(reports / renamed[page.name], text.encode())


def earlier_pages(reports: Path, study: str, run: str) -> list[tuple[str, str]]:
    """Return text and page of the stored reports of earlier runs of a study, the newest first."""
    kept = {path.stem.removeprefix(f"{study}-"): path.name for path in reports.glob(f"{study}-*.html")}
    runs = sorted((name for name in kept if _RUN_ID.fullmatch(name) and name != run), reverse=True)
    return [(f"run {name}", kept[name]) for name in runs]


def write_comparison(page: Path, study: str, run: str, against: str) -> None:
    """Write beside a page which runs it compares."""
    write_json(page.with_suffix(COMPARISON_SUFFIX), {"study": study, "run": run, "against": against})


def comparison_links(reports: Path, study: str, run: str = "") -> list[tuple[str, str]]:
    """Return text and page of each comparison of two runs of a study, those of the newest runs first.

    Parameters
    ----------
    run : only comparisons that this run is part of, each called by its other run; empty: all.
    """
    found = [
        (_read_comparison(path), path.name.removesuffix(COMPARISON_SUFFIX) + ".html")
        for path in reports.glob(f"{study}-*{COMPARISON_SUFFIX}")
    ]
    own = [(one["run"], one["against"], page) for one, page in found if one.get("study") == study]
    selected = [one for one in sorted(own, reverse=True) if not run or run in one[:2]]
    return [(_link_label(run, newer, older), page) for newer, older, page in selected if (reports / page).is_file()]


def _link_label(run: str, newer: str, older: str) -> str:
    return f"compared with run {older if run == newer else newer}" if run else f"run {newer} against {older}"


def _read_comparison(path: Path) -> dict[str, Any]:
    """Return the stored summary of a comparison; nothing for a truncated file, which the next comparison replaces."""
    try:
        found = read_json(path)
    except DataError:
        return {}
    whole = isinstance(found, dict) and all(isinstance(found.get(key), str) for key in ("run", "against"))
    return found if whole else {}
