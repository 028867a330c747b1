"""Notebooks that end in the middle."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from loadbook.report import blocks
from loadbook.store.paths import Layout
from mock_project import Arm, make_project

FEW = {"baseline": Arm(), "aa": Arm(check="aa")}
DONE_CELL = f"from IPython.display import display; display({{'{blocks.DONE_MIME}': {{'study': study}}}}, raw=True)"
# says who it is, and waits to be killed
WAITS = "import os, time, pathlib; pathlib.Path(r'{}').write_text(str(os.getpid())); time.sleep({})"


def write(layout: Layout, name: str, *cells: str) -> None:
    """Write a notebook with these cells."""
    first = new_code_cell('study = "s"\nrun = "latest"', metadata={"tags": ["parameters"]})
    book = new_notebook(cells=[first, *map(new_code_cell, (*cells, DONE_CELL))])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, layout.notebooks / f"{name}.ipynb")


def project_with_victim(root: Path) -> Layout:
    """Make three studies with a run each; the one in the middle has a notebook of its own, `victim`."""
    for name, books in (("first", ["swift"]), ("middle", ["victim", "swift"]), ("third", ["swift"])):
        made = make_project(root, FEW, name=name, blocks=2, traces=False, notebooks=books)
    write(made, "swift", "1 + 1")
    return made


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False
