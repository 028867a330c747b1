"""Fixtures shared by all tests: a loopback lab of their own."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from loadbook.hosts.lab import Lab
    from loadbook.hosts.remote import RemoteHost


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab with the hosts `driver` and `web` on addresses of its own; ended with the test session."""
    from loadbook.hosts.lab import Lab

    folder = Path(tempfile.mkdtemp(prefix="lb-"))
    draw = random.Random(os.urandom(8))
    own = Lab(folder / "lab", net=f"127.{draw.randrange(10, 250)}.{draw.randrange(250)}")
    try:
        own.up()
        yield own
    finally:
        own.down()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def connect_lab(lab: Lab) -> Iterator[Callable[..., RemoteHost]]:
    """`connect_lab(alias="driver", run_id="test")` returns an open host of the lab; closed after the test."""
    from loadbook.hosts import connect

    opened: list[RemoteHost] = []

    def open_one(alias: str = "driver", run_id: str = "test") -> RemoteHost:
        opened.append(connect(lab.hosts_file, alias, run_id))
        return opened[-1]

    yield open_one
    for host in opened:
        host.close()
