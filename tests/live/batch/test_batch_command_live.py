"""`loadbook batch`: real workers, kernels and a recorded run; what is kept, said and returned, whatever is killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from batch_projects import BOTH, REPLAY, SAYS
from controller_processes import loadbook
from loadbook.report import notebooks
from loadbook.store.paths import Layout
from recorded_run import INCLUDED, STUDIES, STUDY, with_studies

PATIENCE_S = 200  # kernels of a machine that is busy come up slowly


def write(layout: Layout, *cells: str) -> None:
    first = new_code_cell('study = "s"\nrun = "latest"\nmetric = ""', metadata={"tags": ["parameters"]})
    book = new_notebook(cells=[first, *map(new_code_cell, (*cells, SAYS))])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, layout.notebooks / "swift.ipynb")


@pytest.fixture
def layout(tmp_path):
    """A project with two studies that the recording plays, one block each, whose notebook is a swift one."""
    home = with_studies(tmp_path / "home")
    text = (STUDIES / INCLUDED).read_text()
    (home.studies / INCLUDED).write_text(text.replace('["config_effects", "run_quality"]', '["swift"]'))
    study = (STUDIES / f"{STUDY}.toml").read_text()
    for name in ("first", "second"):
        (home.studies / f"{name}.toml").write_text(study.replace(f'name = "{STUDY}"', f'name = "{name}"'))
    write(home)
    return home


def batch_file(layout: Layout, *entries: str) -> Path:
    path = layout.root / "nightly.toml"
    lines = [f'[[entry]]\nhosts = "{REPLAY}"\nblocks = 1\n{entry}\n' for entry in entries]
    path.write_text("\n".join(lines))
    return path


def kept(layout: Layout) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((layout.batch("nightly") / "batch.json").read_text())
    return said


def test_batch_entry_is_run_reported_and_listed(layout):
    done = loadbook(layout, "batch", str(batch_file(layout, BOTH[0])), "--json")
    out, err = done.communicate(timeout=PATIENCE_S)
    assert done.returncode == 0, err
    (row,) = kept(layout)["entries"]
    assert json.loads(out) == kept(layout)
    assert (row["state"], row["run"], row["summary"]["valid"]) == ("done", *layout.runs("first"), 4)
    assert notebooks.read_sentinel(layout.batch("nightly") / row["pages"][0]["executed"])
    assert "[4/4] block 1 of 1" in err and "1 of 1 entries are over" in err
