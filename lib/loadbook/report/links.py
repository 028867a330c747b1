"""Small JSON files beside the pages: the summary of a study's report, and the two runs that a page compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loadbook.core.errors import DataError
from loadbook.store.trial_record import read_json, write_json

COMPARISON_SUFFIX = ".compared.json"
SUMMARY_SUFFIX = ".summary.json"


def write_summary(reports: Path, summary: dict[str, Any]) -> None:
    """Write a study's summary beside its pages; the index is made from these files alone."""
    write_json(reports / f"{summary['study']}{SUMMARY_SUFFIX}", summary)


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
    """Return what was kept of a comparison; nothing of a torn file, which the next comparison writes again."""
    try:
        found = read_json(path)
    except DataError:
        return {}
    whole = isinstance(found, dict) and all(isinstance(found.get(key), str) for key in ("run", "against"))
    return found if whole else {}
