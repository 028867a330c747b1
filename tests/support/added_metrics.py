"""Files of other monitors, added to the recorded run."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from loadbook.cli import cli
from loadbook.core.errors import LoadbookError
from loadbook.store.paths import Layout
from recorded_run import STUDY, copy_recorded_run


def project_to_add_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """Make a project with the recorded run, and work in it until the test ends."""
    layout = copy_recorded_run(tmp_path)
    monkeypatch.chdir(layout.root)
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    return layout


def added(layout: Layout, *words: object) -> tuple[int, str]:
    """Call `loadbook traces` with these words; return its exit code and what it said."""
    done = CliRunner().invoke(cli, ["traces", STUDY, *map(str, words)])
    if isinstance(done.exception, LoadbookError):
        raise done.exception
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.exit_code, done.output
