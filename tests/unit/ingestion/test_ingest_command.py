"""`loadbook ingest`: results on stdout, progress on stderr when it takes long, exit codes."""

from __future__ import annotations

import io
import shutil

import pytest

from command_line import exit_code
from loadbook.cli import terminal
from recorded_run import STUDY, copy_recorded_run, run_of


@pytest.fixture
def layout(tmp_path, monkeypatch):
    made = copy_recorded_run(tmp_path)
    monkeypatch.setenv("LOADBOOK_HOME", str(made.root))
    return made


def test_ingest_command_prints_the_same_with_and_without_cache(layout, monkeypatch, capsys):
    printed = []
    for _ in range(2):
        assert exit_code(monkeypatch, "ingest", STUDY) == 0
        printed.append(capsys.readouterr())
    assert printed[0].out == printed[1].out
    assert (
        "31 of 32 planned trials are valid (1 trial: the load generator failed, host driver: wrk ended"
        in printed[0].out
    )
    assert "; doubtful, but counted: " in printed[0].out and " doubt" not in printed[0].out.split("; ")[-1]


def test_ingest_command_progress_goes_to_stderr(layout, monkeypatch, capsys):
    monkeypatch.setattr(terminal.ProgressDisplay, "COUNT_AFTER_S", 0)
    assert exit_code(monkeypatch, "ingest", STUDY) == 0
    printed = capsys.readouterr()
    assert "0 of 32 trials read\n" in printed.err
    assert "trials read" not in printed.out


def test_ingest_command_progress_is_one_line_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(terminal.ProgressDisplay, "COUNT_AFTER_S", 0)
    display = terminal.ProgressDisplay(Terminal())
    on_count = display.counter("trials read")
    for done in (1, 2):
        on_count(done, 2)
    assert display.stream.getvalue() == "1 of 2 trials read\r2 of 2 trials read\n"  # type: ignore[attr-defined]


def test_ingest_command_without_trials_is_an_error(layout, monkeypatch, capsys):
    for name in ("trials", "failed"):
        shutil.rmtree(run_of(layout) / name)
    assert exit_code(monkeypatch, "ingest", STUDY) == 4
    assert "has no trial yet" in capsys.readouterr().err
