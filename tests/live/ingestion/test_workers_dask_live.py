"""`loadbook ingest --scheduler`: a real cluster of two workers on loopback, ended by the test."""

from __future__ import annotations

import pytest

from command_line import exit_code
from dask_cluster import cluster
from loadbook.ingestion import workers as scheduler
from recorded_run import STUDY, ingested_run

pytest.importorskip("distributed")


@pytest.fixture
def layout(tmp_path, monkeypatch):
    made = ingested_run(tmp_path)
    monkeypatch.setenv("LOADBOOK_HOME", str(made.root))
    return made


def test_dask_scheduler_without_workers_is_reported(layout, monkeypatch, capsys):
    monkeypatch.setattr(scheduler, "CONNECT_S", 1)
    assert exit_code(monkeypatch, "ingest", STUDY, "--scheduler", "tcp://127.0.0.1:9") == 3
    assert "no Dask scheduler answers" in capsys.readouterr().err
    with cluster(0) as none:
        assert exit_code(monkeypatch, "ingest", STUDY, "--scheduler", none.scheduler_address) == 3
    assert "has no workers" in capsys.readouterr().err
