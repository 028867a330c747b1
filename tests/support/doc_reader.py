"""Execution of the steps of a documentation page in a fresh project, with a separate home folder."""

from __future__ import annotations

import json
import os
import pty
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import exit_code
from doc_pages import ROOT, Command, File, seen, steps
from loadbook.hosts import ssh_config
from loadbook.hosts.lab import Lab
from own_ssh import own_ssh

COPIED = ("studies", "notebooks", "docs", "lib", "scripts")
FILES = ("pyproject.toml", "README.md", "requirements.lock")
GIT_CLONE = shutil.ignore_patterns("__pycache__", "*.egg-info")
LONGEST_S = 900


class Reader:
    """One reader: `root` is their clone, `home` their home folder; `lab` provides hosts (None: the page needs none)."""

    def __init__(self, folder: Path, lab: Lab | None = None) -> None:
        self.root, self.home, self.bin = folder / "loadbook", folder / "home", folder / "bin"
        for name in COPIED:
            shutil.copytree(ROOT / name, self.root / name, ignore=GIT_CLONE)
        for name in FILES:
            shutil.copy(ROOT / name, self.root)
        (self.home / ".ssh").mkdir(parents=True)
        # the configuration and the known hosts that a reader's ssh finds in their home folder
        known = ("-o", f"UserKnownHostsFile={self.home}/.ssh/known_hosts", "-o", "StrictHostKeyChecking=accept-new")
        for name in ("ssh", "scp"):
            own_ssh(self.bin, self.home / ".ssh/config", *known, program=name)
        self._places = _places(lab) if lab else {}
        self.write(File("~/.ssh/config", ""))

    def write(self, file: File) -> None:
        """Write a file of a page; hosts in it get the ports, keys, folders and locks of the lab."""
        path = Path(file.path.replace("~", str(self.home), 1)) if file.path.startswith("~") else self.root / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._in_the_lab(path.name, file.text), encoding="utf-8")

    def _in_the_lab(self, name: str, text: str) -> str:
        if name == "config":
            return "".join(_way(alias, at) for alias, at in self._places.items()) + text
        if name == "hosts.toml":
            for alias, at in self._places.items():
                keys = "".join(f"{key} = {json.dumps(at[key])}\n" for key in ("workdir", "lock", "service_port"))
                text = text.replace(f"[hosts.{alias}]", f"[hosts.{alias}]\n{keys}#", 1)
        return text

    def type(self, command: Command) -> None:
        """Run a command in a shell, answer its questions, and assert that its output matches the page."""
        ours, theirs = pty.openpty()
        os.write(ours, command.typed.encode())
        where: dict[str, Any] = {"cwd": self.root, "env": self._environment(), "stdin": theirs, "timeout": LONGEST_S}
        try:
            done = subprocess.run(
                ["sh", "-c", command.line],
                **where,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
        finally:
            os.close(ours)
            os.close(theirs)
        self._must_be(command, done.returncode, done.stdout)

    def _must_be(self, command: Command, code: int, out: str) -> None:
        out = out.replace(f"{self.root}/", "")
        assert code == 0, f"$ {command.line}\n{out}\nexit code {code}"
        assert seen(command.printed, out), f"$ {command.line}\n{out}\nand the page says:\n{command.printed}"

    def _environment(self) -> Mapping[str, str]:
        own = self.root / ".venv" / "bin"
        path = [str(self.bin), str(own if own.is_dir() else Path(sys.executable).parent), os.environ["PATH"]]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LOADBOOK", "PYTEST"))}
        library = {} if own.is_dir() else {"PYTHONPATH": str(self.root / "lib")}
        return kept | {"HOME": str(self.home), "PATH": ":".join(path), "PYTHONUNBUFFERED": "1"} | library

    def call(self, command: Command, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        """Run a command of loadbook that asks nothing in this process, and assert that its output matches the page."""
        words = shlex.split(command.line)
        if words[0] != "loadbook" or set(words) & {">", ">>", "|"}:
            return self.type(command)
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.setenv("PATH", f"{self.bin}:{os.environ['PATH']}")
        ssh_config.ask_ssh.cache_clear()  # a command is a process of its own
        monkeypatch.delenv("LOADBOOK_HOME", raising=False)
        monkeypatch.chdir(self.root)
        capfd.readouterr()
        code = exit_code(monkeypatch, *words[1:])
        printed = capfd.readouterr()
        self._must_be(command, code, printed.out + printed.err)
        return None


def walk(reader: Reader, page: str, renamed: Mapping[str, str] | None = None) -> None:
    """Execute all steps of a page."""
    for step in steps(page, renamed):
        if isinstance(step, File):
            reader.write(step)
        else:
            reader.type(step)


def without_hosts(command: Command) -> bool:
    """Return whether a command needs no host and no results of a run."""
    words = command.line.split()
    if words[0] != "loadbook":
        return words[0] not in ("ssh", "scp", ".", "scripts/setup.sh")
    return words[1] not in ("hosts", "doctor", "report", "run") or "--dry-run" in words


def _places(lab: Lab) -> dict[str, dict[str, object]]:
    """Return {alias: the settings of its host in the lab that differ from other hosts}."""
    return dict(tomllib.loads(lab.hosts_file.read_text())["hosts"])


def _way(alias: str, at: Mapping[str, object]) -> str:
    """Return the entry of a lab host for ~/.ssh/config, to precede the page's entry: ssh uses the first value."""
    lines = [f"HostName {at['host_name']}", f"Port {at['port']}", f"User {at['user']}"]
    keys = [f"IdentityFile {at['identity_file']}", "IdentitiesOnly yes"]
    return "\n    ".join([f"Host {alias}", *lines, *keys]) + "\n\n"
