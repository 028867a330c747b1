"""Projects with batch files, whose notebooks are replaced by quick ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from loadbook.report import blocks
from loadbook.store.paths import Layout
from recorded_run import FIXTURE, INCLUDED, REPO, STUDIES, STUDY, with_studies

REPLAY = next(FIXTURE.iterdir()) / "hosts.toml"
SUMMARY = {
    "valid": 4, "planned": 4, "started": 1.0, "ended": 2.0, "question": "Which?",
    "verdict": {"kind": "better", "word": "faster", "glyph": "▲", "sentence": "one is faster by 6 %."},
}  # fmt: skip
SAYS = (
    f"from IPython.display import display; display({{'{blocks.DONE_MIME}': {{**{SUMMARY}, 'study': study}}}}, raw=True)"
)
BOTH = ('study = "first"', 'study = "second"\nparameters.metric = ["ok_per_s", "latency"]')


def write(layout: Layout, *cells: str) -> None:
    """Write the notebook `swift` with these cells."""
    first = new_code_cell('study = "s"\nrun = "latest"\nmetric = ""', metadata={"tags": ["parameters"]})
    book = new_notebook(cells=[first, *map(new_code_cell, (*cells, SAYS))])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, layout.notebooks / "swift.ipynb")


def project_of_replays(root: Path) -> Layout:
    """Make a project with two studies that the recording plays, one block each, whose notebook is a swift one."""
    home = with_studies(root)
    text = (STUDIES / INCLUDED).read_text()
    (home.studies / INCLUDED).write_text(text.replace('["config_effects", "run_quality"]', '["swift"]'))
    study = (STUDIES / f"{STUDY}.toml").read_text()
    for name in ("first", "second"):
        (home.studies / f"{name}.toml").write_text(study.replace(f'name = "{STUDY}"', f'name = "{name}"'))
    write(home)
    return home


def batch_file(layout: Layout, *entries: str) -> Path:
    """Write the batch file `nightly.toml` with these entries, one block each."""
    path = layout.root / "nightly.toml"
    lines = [f'[[entry]]\nhosts = "{REPLAY}"\nblocks = 1\n{entry}\n' for entry in entries]
    path.write_text("\n".join(lines))
    return path


def kept(layout: Layout) -> dict[str, Any]:
    """Return what the batch has kept of its entries."""
    printed: dict[str, Any] = json.loads((layout.batch("nightly") / "batch.json").read_text())
    return printed


def project_of_a_site(root: Path) -> Layout:
    """Make a project with a study that the recording can play, one that it cannot, a torn one and a variant."""
    here = Layout(root)
    here.studies.mkdir()
    shutil.copytree(REPO / "notebooks", here.notebooks)
    text = (STUDIES / INCLUDED).read_text()
    kept = text.replace('notebooks = ["config_effects", "run_quality"]', 'notebooks = ["run_quality"]')
    (here.studies / INCLUDED).write_text(kept)
    other = kept.replace('name = "nginx-directives"', 'name = "other"').replace('tool = "wrk"', 'tool = "ab"')
    (here.studies / "other.toml").write_text(other)
    (here.studies / "torn.toml").write_text('name = "torn"\nquestion = "Is it whole?"\n')
    (here.studies / "wide.toml").write_text(f'include = "{INCLUDED}"\nname = "wide"\nblocks = 40\n')
    return here
