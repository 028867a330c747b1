"""The namespace lab: hosts of their own, apart from each other and from this machine; nothing of it stays."""

from __future__ import annotations

import os

from click.testing import CliRunner

from loadbook.cli.hosts import lab as lab_command
from loadbook.core.errors import UsageError


def test_namespace_lab_without_root_suggests_the_loopback_lab(tmp_path, monkeypatch):
    for name in ("studies", "notebooks"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("LOADBOOK_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    done = CliRunner().invoke(lab_command, ["up", "--kind", "netns"])
    assert isinstance(done.exception, UsageError)
    assert "needs root" in done.exception.message
    assert "--kind loopback" in str(done.exception.hint)
    assert not (tmp_path / ".cache" / "lab" / "lab.json").exists()
