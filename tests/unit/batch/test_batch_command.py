"""`loadbook batch`: real workers, kernels and a recorded run; what is kept, said and returned, whatever is killed."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from batch_projects import BOTH, REPLAY, SAYS
from command_line import exit_code
from loadbook.store.paths import Layout
from recorded_run import INCLUDED, STUDIES, STUDY, with_studies


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


def test_batch_dry_run_prints_order_hours_and_pages(layout, monkeypatch, capsys):
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    assert exit_code(monkeypatch, "batch", str(batch_file(layout, *BOTH)), "--dry-run", "--jobs", "1") == 0
    said = capsys.readouterr().out
    assert said.startswith("batch nightly: a new round; what it would do, nothing was touched\n8 trials, about ")
    assert f"1. first on {REPLAY}: at once" in said
    assert f"2. second on {REPLAY}: after " in said
    assert "second-1-blocks-latency-hosts.html: metric = latency" in said
    assert not (layout.root / "reports").exists() and not (layout.root / "data").exists()


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ('[[entry]]\nstudy = "firts"', [], "entry.0.study (line 1): no study 'firts'"),
        ('[[entry]]\nstudy = "first"', ["--new", "--failed"], "--new begins another round"),
        ('[[entry]]\nstudy = "first"', ["--failed"], "has had no round yet"),
    ],
)
def test_batch_with_errors_exits_with_2_and_changes_nothing(layout, monkeypatch, capsys, text, words, said):
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    path = layout.root / "nightly.toml"
    path.write_text(text)
    assert exit_code(monkeypatch, "batch", str(path), *words) == 2
    assert said in capsys.readouterr().err
    assert not (layout.root / "data").exists()
