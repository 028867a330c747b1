"""Which pages compare two runs: a small file beside each says of which study and runs it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loadbook.core.errors import DataError
from loadbook.records.manifest import read_json, write_json

SUFFIX = ".compared.json"


def keep(page: Path, study: str, run: str, against: str) -> None:
    """Write beside a page which runs it compares."""
    write_json(page.with_suffix(SUFFIX), {"study": study, "run": run, "against": against})


def links(reports: Path, study: str, run: str = "") -> list[tuple[str, str]]:
    """Return text and page of each comparison of two runs of a study, those of the newest runs first.

    Parameters
    ----------
    run : only comparisons that this run is part of, each called by its other run; empty: all.
    """
    found = [(_kept(path), path.name.removesuffix(SUFFIX) + ".html") for path in reports.glob(f"{study}-*{SUFFIX}")]
    own = [(one["run"], one["against"], page) for one, page in found if one.get("study") == study]
    mine = [one for one in sorted(own, reverse=True) if not run or run in one[:2]]
    return [(_text(run, newer, older), page) for newer, older, page in mine if (reports / page).is_file()]


def _text(run: str, newer: str, older: str) -> str:
    return f"compared with run {older if run == newer else newer}" if run else f"run {newer} against {older}"


def _kept(path: Path) -> dict[str, Any]:
    """Return what was kept of a comparison; nothing of a torn file, which the next comparison writes again."""
    try:
        found = read_json(path)
    except DataError:
        return {}
    whole = isinstance(found, dict) and all(isinstance(found.get(key), str) for key in ("run", "against"))
    return found if whole else {}
