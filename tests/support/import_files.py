"""Inputs for the tests of `loadbook import`: the fixture folder of results measured by hand, and conditions files."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from loadbook.store.paths import Layout
from recorded_run import REPO, with_studies

FIXTURES = REPO / "tests" / "fixtures"
BY_HAND = FIXTURES / "by-hand"


def project(root: Path) -> Layout:
    """Return an empty project."""
    return with_studies(root / "home")


def folder(root: Path) -> Path:
    """Return a copy of the fixture folder with results measured by hand."""
    return Path(shutil.copytree(BY_HAND, root / "by-hand"))


def rows(there: Path) -> list[dict[str, str]]:
    """Return the rows of a folder's conditions file."""
    with (there / "conditions.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(there: Path, printed: Sequence[Mapping[str, object]]) -> Path:
    """Write a folder's conditions file; the keys of the first row are the columns."""
    path = there / "conditions.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(printed[0]), restval="")
        writer.writeheader()
        writer.writerows(printed)
    return path


def capture(to: Path, tool: str, stem: str, *, whole: bool = True) -> str:
    """Copy a recorded output to the folder `to`, as a folder of all its files or only stdout; return its name."""
    files = {p.name.removeprefix(f"{stem}."): p for p in (FIXTURES / tool).glob(f"{stem}.*") if p.suffix != ".json"}
    assert "stdout" in files, f"no capture {tool}/{stem}"
    if not whole:
        shutil.copy(files["stdout"], to / f"{stem}.txt")
        return f"{stem}.txt"
    (to / stem).mkdir()
    for name, path in files.items():
        shutil.copy(path, to / stem / name)
    return stem
