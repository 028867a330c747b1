"""scripts/generators.py installs a load generator unless SSH logins of this user find it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "generators.py"


@pytest.fixture
def script(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("generators", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"/usr/bin:/bin:{tmp_path / 'own'}")
    commands: list[list[str]] = []
    monkeypatch.setattr(module, "commands", commands, raising=False)

    def run(command, **options):
        commands.append(command)
        return SimpleNamespace(returncode=0, stdout="go version go1.27.3 linux/amd64")

    monkeypatch.setattr(module.subprocess, "run", run)
    for name in ("vegeta", "go"):
        program = tmp_path / "own" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    return module


def test_program_in_the_users_own_bin_is_there(script, tmp_path, capsys):
    (tmp_path / "own").rename(tmp_path / "bin")
    assert script.install("vegeta", tmp_path) == 0
    assert f"vegeta is there: {tmp_path}/bin/vegeta" in capsys.readouterr().err
    assert not script.commands


def test_program_that_ssh_logins_do_not_find_is_named_and_installed(script, tmp_path, capsys):
    assert script.install("vegeta", tmp_path) == 0
    assert f"vegeta at {tmp_path}/own/vegeta is not on the PATH of ssh logins" in capsys.readouterr().err
    assert "go install" in script.commands[-1][-1]
