"""docs/batch.md: its file is right, plain papermill takes every notebook as shown, systemd takes the units."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest
from papermill.cli import _resolve_type

from command_line import exit_code
from loadbook.batch.file import EntrySpec, read_batch
from loadbook.report.notebooks import declared_parameters
from loadbook.report.parameters import check_injected
from recorded_run import REPO

PAGE = (REPO / "docs/batch.md").read_text()
PLAIN = [shlex.split(line, comments=True) for line in re.findall(r"^papermill .*$", PAGE, re.MULTILINE)]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def given(words: list[str]) -> dict[str, Any]:
    """Return the parameters of a command line, as papermill reads them."""
    return {words[k + 1]: _resolve_type(words[k + 2]) for k, word in enumerate(words) if word == "-p"}


def test_batch_page_example_file_is_valid(tmp_path):
    (text,) = blocks("toml")
    (tmp_path / "shown.toml").write_text(text)
    assert len(read_batch(tmp_path / "shown.toml").entries) == 6


def test_batch_page_dry_run_prints_as_documented(monkeypatch, capsys):
    line = next(line for line in PAGE.splitlines() if line.startswith("loadbook batch"))
    monkeypatch.chdir(REPO)
    assert exit_code(monkeypatch, *shlex.split(line, comments=True)[1:]) == 0
    printed = capsys.readouterr().out
    assert "4. known-cost-smoke on the lab: after" in printed
    assert "known-cost-smoke-latency.html: metric = latency" in printed


def test_batch_page_explains_every_key_of_the_batch_file():
    rows = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE, re.MULTILINE))))
    assert rows >= set(EntrySpec.model_fields)


def test_batch_page_lists_every_notebook():
    known = {path.stem for path in (REPO / "notebooks").glob("*.ipynb")}
    assert {Path(words[1]).stem for words in PLAIN} == known


@pytest.mark.parametrize("words", PLAIN, ids=lambda words: f"{Path(words[1]).stem}-{words[4]}")
def test_batch_page_papermill_parameters_are_valid(words, tmp_path):
    values, out = given(words), tmp_path / words[2]
    assert set(values) <= set(declared_parameters(REPO / words[1]))
    made = papermill.execute_notebook(REPO / words[1], out, values, prepare_only=True, progress_bar=False)
    cells = [cell.source for cell in made.cells if cell.cell_type == "code"]
    check_injected(cells[:2])  # raises where the notebook's own first cell would
    assert nbformat.read(out, as_version=4).cells
