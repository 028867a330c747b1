"""`loadbook report`: what it prints, what it leaves, and how it ends."""

import json
import os
import time

import nbformat
import pytest

from loadbook.report.build import ensure_ingested
from mock_project import Arm, make_project
from report_maker import make_report

FEW = {"baseline": Arm(), "aa": Arm(check="aa"), "one": Arm(0.06, label="one")}
QUICK = {"notebooks": ("run_quality",)}


@pytest.fixture
def layout(tmp_path):
    return make_project(tmp_path, FEW, name="quick", blocks=6, **QUICK)  # type: ignore[arg-type]


def test_report_command_ends_with_verdicts_and_path(made):
    lines = made.output.strip().splitlines()
    assert made.exit_code == 0
    assert lines[0].startswith("▲ tcp_nopush on is faster by")
    assert sum("tcp_nopush on is faster by" in line for line in lines) == 1
    assert lines[-2] == f"report: {made.layout.reports / 'nginx-directives.html'}"
    assert lines[-1] == f"index: {made.layout.reports / 'index.html'}"


def test_report_command_stores_executed_notebooks_beside_processed_data(made):
    folder = made.layout.run("nginx-directives", "20261120T101500").processed / "notebooks"
    assert sorted(p.name for p in folder.iterdir()) == ["config_effects.ipynb", "run_quality.ipynb"]


def test_report_command_passes_parameters_to_notebooks_that_declare_them(layout):
    made = make_report(layout, "quick", "-p", "metric=latency")
    assert made.exit_code == 0, made.output
    book = nbformat.read(
        layout.run("quick", "20261120T101500").processed / "notebooks" / "run_quality.ipynb", as_version=4
    )
    injected = next(c.source for c in book.cells if "injected-parameters" in c.metadata.get("tags", []))
    assert 'metric = "latency"' in injected


def test_report_command_with_a_failed_notebook_continues_and_exits_with_3(tmp_path):
    layout = make_project(tmp_path, FEW, name="quick", blocks=6, **QUICK)  # type: ignore[arg-type]
    make_project(tmp_path, FEW, name="torn", blocks=6, **QUICK)  # type: ignore[arg-type]
    (layout.run("torn", "20261120T101500").table("trials")).write_bytes(b"not parquet")
    made = make_report(layout)
    assert made.exit_code == 3
    index = (layout.reports / "index.html").read_text()
    assert "no report:" in index
    assert "run_quality: cell" in index
    assert (layout.reports / "quick.html").is_file()
    assert not (layout.reports / "torn.html").exists()
    assert json.loads((layout.reports / "torn.summary.json").read_text())["failed"]


def test_report_command_rebuilds_tables_older_than_raw_data(layout, monkeypatch):
    ingested, printed = [], []
    monkeypatch.setattr("loadbook.ingestion.ingest.ingest", ingested.append)
    paths = layout.run("quick", "20261120T101500")
    ensure_ingested(paths, printed.append)
    assert (ingested, printed) == ([], [])
    later = time.time() + 60
    os.utime(paths.trials, (later, later))
    ensure_ingested(paths, printed.append)
    assert ingested == [paths]
    assert printed == ["ingesting run 20261120T101500"]
