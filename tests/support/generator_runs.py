"""Runs of one block by today's load generators."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.hosts.shell import search_path
from loadbook.ingestion.ingest import ingest
from loadbook.tools.base import load_tool
from recorded_run import with_studies

STUDY = """
include = "aa.toml"
name = "{tool}"
blocks = 1
execution = "{execution}"

[workload]
tool = "{tool}"
connections = 3
duration_s = 2
warmup_s = 1
headers = {{ X-Asked = 'a "\\b" <c>' }}
{load}
"""
OPEN = 'model = "open"\nrate_per_s = 100'


def measured(
    lab: Lab, home: Path, tool: str, load: str, files: dict[str, str] | None = None, execution: str = "plain"
) -> tuple[dict, set[str]]:
    """Return the values of the last trial of a run with one block, and the names of doubts of all its trials."""
    found = load_tool(tool)
    if not shutil.which(found.binary, path=search_path()):
        pytest.skip(f"{tool} is not installed: {found.install_hint}, or make generators")
    layout = with_studies(home)
    for name, text in (files or {}).items():
        (layout.studies / name).write_text(text)
    study = STUDY.format(tool=tool, load=load, execution=execution)
    if files:
        study = study.replace(study[study.index("headers") : study.index("\n", study.index("headers"))], "")
    (layout.studies / f"{tool}.toml").write_text(study)
    paths = layout.run(tool, run_study(layout, RunRequest(tool, lab.hosts_file)))
    done = ingest(paths)
    assert done.trials == done.planned == 2
    trials = pq.read_table(paths.table("trials")).to_pylist()
    assert {(trial["status"], trial["reason"]) for trial in trials} == {("ok", None)}
    rows = pq.read_table(paths.table("measurements")).to_pylist()
    last = max(row["trial"] for row in rows)
    values = {(r["metric"], r["statistic"]): r["value"] for r in rows if r["trial"] == last and r["driver"] == "*"}
    return values, {row["name"] for row in pq.read_table(paths.table("problems")).to_pylist()}
