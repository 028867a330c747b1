"""`loadbook ingest --scheduler`: a real cluster of two workers on loopback, ended by the test."""

from __future__ import annotations

import shutil

import pytest

from command_line import exit_code
from dask_cluster import cluster
from loadbook.ingestion import ingest as ingest_module
from recorded_run import STUDY, ingested_run

distributed = pytest.importorskip("distributed")


@pytest.fixture
def layout(tmp_path, monkeypatch):
    made = ingested_run(tmp_path)
    monkeypatch.setenv("LOADBOOK_HOME", str(made.root))
    return made


def test_ingest_with_dask_workers_gives_the_same_tables(layout, monkeypatch, capsys):
    paths = layout.run(STUDY, layout.resolve_run(STUDY))
    alone = {p.name: p.read_bytes() for p in paths.processed.glob("*.parquet")}
    shutil.rmtree(paths.processed)
    monkeypatch.setattr(ingest_module, "PART_BYTES", 100_000)
    with cluster(2) as two, distributed.Client(two) as client, distributed.get_task_stream(client) as stream:
        assert exit_code(monkeypatch, "ingest", STUDY, "--scheduler", two.scheduler_address) == 0
    assert {p.name: p.read_bytes() for p in paths.processed.glob("*.parquet")} == alone
    printed = capsys.readouterr()
    assert "31 of 32 planned trials are valid" in printed.out
    assert "in this process" not in printed.err
    assert len({task["worker"] for task in stream.data}) == 2
