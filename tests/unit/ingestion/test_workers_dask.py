"""`loadbook ingest --scheduler`: a real cluster of two workers on loopback, ended by the test."""

from __future__ import annotations

import pytest

from command_line import exit_code
from recorded_run import STUDY, ingested_run


@pytest.fixture
def layout(tmp_path, monkeypatch):
    made = ingested_run(tmp_path)
    monkeypatch.setenv("LOADBOOK_HOME", str(made.root))
    return made


def test_invalid_address_of_a_dask_scheduler_is_a_usage_error(layout, monkeypatch, capsys):
    assert exit_code(monkeypatch, "ingest", STUDY, "--scheduler", "nosuch://x") == 2
    assert "is no address of a Dask scheduler" in capsys.readouterr().err
