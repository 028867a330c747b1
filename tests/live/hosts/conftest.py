"""A lab of one host with settings of its own for sshd, and SSH agents."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from loadbook.core.errors import HostError
from loadbook.hosts import sshd
from loadbook.hosts.lab import Lab
from waiting import wait_until


@pytest.fixture
def server(tmp_path, monkeypatch) -> Iterator[Callable[..., Lab]]:
    """`server("PasswordAuthentication yes", ...)` returns a lab of one host with these settings, up."""
    made = []

    def lab(*settings: str) -> Lab:
        monkeypatch.setattr(sshd, "CONFIG_TEMPLATE", "\n".join([*settings, sshd.CONFIG_TEMPLATE]))
        made.append(Lab(tmp_path / "lab", hosts={"web": ("web",)}, net_prefix="127.251.8"))
        with suppress(HostError):  # `up` tries the login, which may be what is impossible here
            made[-1].up()
        return made[-1]

    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    yield lab
    for one in made:
        one.down()


@pytest.fixture
def agent(tmp_path) -> Iterator[Callable[[Sequence[Path]], Path]]:
    """`agent(files)` starts an SSH agent that holds these keys, in this order, and returns its socket."""
    started = []

    def start(files: Sequence[Path]) -> Path:
        path = tmp_path / f"agent-{len(started)}"
        started.append(subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL))
        wait_until(path.exists)
        env = {"SSH_AUTH_SOCK": str(path), "PATH": "/usr/bin:/bin"}
        subprocess.run(["ssh-add", "-q", *map(str, files)], env=env, check=True, stdin=subprocess.DEVNULL, timeout=60)
        return path

    yield start
    for process in started:
        process.terminate()
        process.wait()
