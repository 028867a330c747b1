"""Fixtures of tests with real servers, SSH, processes, kernels and browsers: labs, hosts, services, a report."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from loadbook.services.spec import SIDE_PORT_OFFSET
from local_host import LocalHost
from mock_project import make_project
from ports import held_port, held_ports
from report_maker import Made, make_report
from shared_builds import Running, runner, share_built

if TYPE_CHECKING:
    from loadbook.hosts.lab import Lab
    from loadbook.hosts.remote import RemoteHost
    from misbehaving_tools import MisbehavingLab


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


@pytest.fixture(scope="module")
def lab_of_fakes(tmp_path_factory):
    """A lab whose hosts look for tools in a folder of fakes first, and that folder."""
    from loopback_labs import own_lab
    from misbehaving_tools import home_for_fakes

    with ExitStack() as stack:
        # only while this lab starts: another lab may start during these tests
        with home_for_fakes(tmp_path_factory.mktemp("fakes")) as bin_:
            lab = stack.enter_context(own_lab())
        yield lab, bin_


@pytest.fixture
def misbehaving_lab(lab_of_fakes, tmp_path) -> Iterator[MisbehavingLab]:
    """A project on that lab; its fakes go with the test."""
    from misbehaving_tools import MisbehavingLab
    from recorded_run import with_studies

    lab, bin_ = lab_of_fakes
    yield MisbehavingLab(lab, bin_, with_studies(tmp_path / "home"))
    for file in bin_.iterdir():
        file.unlink()


@pytest.fixture
def here() -> Iterator[LocalHost]:
    # the folder of a test may have a longer path than the 107 bytes that a unix socket's name can have
    with tempfile.TemporaryDirectory(prefix="lb-", ignore_cleanup_errors=True) as folder:
        host = LocalHost(Path(folder) / "work")
        yield host
        host.close()


@pytest.fixture
def port() -> Iterator[int]:
    """A port that nobody else gets during the test."""
    with held_port() as held:
        yield held


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that keeps what is built for all tests of a session."""
    return tmp_path_factory.mktemp("built")


@pytest.fixture
def running(here: LocalHost, built: Path) -> Iterator[Running]:
    """`running("go-app", extra, **variables)` returns a proven Instance; stopped after the test."""
    share_built(here, built)
    with runner(here) as start:
        yield start


@pytest.fixture
def free_ports() -> Iterator[list[int]]:
    """Three ports, each with its side port, that nobody else gets during the test."""
    with held_ports(3, SIDE_PORT_OFFSET) as held:
        yield held


@pytest.fixture(scope="session")
def made(tmp_path_factory: Any) -> Made:
    """The usual mock study: one treatment of every verdict, both checks, one doubt."""
    layout = make_project(Path(tmp_path_factory.mktemp("project")))
    return make_report(layout)
