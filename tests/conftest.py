"""Fixtures shared by all tests: a loopback lab of their own. The table of faults is in support/fault_plugin.py.

Programs are found where hosts find them: an ordinary user of Debian has no sbin folder in PATH, and nginx is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from loadbook.hosts.shell import search_path

# before a test module is imported: some ask for programs at once
os.environ["PATH"] = search_path()

pytest_plugins = ["skip_report", "phases", "xdist_groups"]

from fault_plugin import (  # noqa: E402, F401
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_runtest_logreport,
    pytest_terminal_summary,
)

# how long an example takes is a property of the machine, and of who else uses it
settings.register_profile("loadbook", deadline=None)
settings.load_profile("loadbook")

if TYPE_CHECKING:
    from loadbook.hosts.lab import Lab
    from loadbook.hosts.remote import RemoteHost


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab with the hosts `driver` and `web` on addresses of its own; ended with the test session."""
    from loopback_labs import own_lab

    with own_lab() as own:
        yield own


@pytest.fixture(scope="session")
def spaces() -> Iterator[Lab]:
    """A namespace lab with the hosts driver, web, web-2 and balancer; for tests marked `root`."""
    from loadbook.hosts.lab import plan_hosts
    from loopback_labs import own_lab

    roles = {role: (role,) for role in ("driver", "web")}
    with own_lab(kind="netns", hosts=plan_hosts(roles, {}, {"web": 2, "balancer": 1})) as own:
        yield own


@pytest.fixture
def connect_lab(lab: Lab) -> Iterator[Callable[..., RemoteHost]]:
    """`connect_lab(alias="driver", run_id="test")` returns an open host of the lab; closed after the test."""
    from loadbook.hosts.remote import connect

    opened: list[RemoteHost] = []

    def open_one(alias: str = "driver", run_id: str = "test") -> RemoteHost:
        opened.append(connect(lab.hosts_file, alias, run_id))
        return opened[-1]

    yield open_one
    for host in opened:
        host.close()
