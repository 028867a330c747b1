"""Calls of the command `loadbook` in the test's own process."""

from __future__ import annotations

import pytest

from loadbook.cli import main


def exit_code(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Call `loadbook WORDS` and return its exit code; capsys of pytest captures its output."""
    monkeypatch.setattr("sys.argv", ["loadbook", *words])
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0
