"""A real JMeter puts load on a real nginx by our plans and commands. Needs `make jmeter`; skipped without."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jmeter_home import NEEDS_JMETER, jmeter_load, put_jmeter_on_path
from loadbook.tools import base
from loadbook.tools.base import Target
from page_server import PageServer, measured, page_server

pytestmark = NEEDS_JMETER


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    put_jmeter_on_path(monkeypatch)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    with page_server(tmp_path_factory.mktemp("nginx")) as both:
        yield both


@pytest.fixture
def web(servers: PageServer) -> Target:
    return servers.plain


def test_live_jmeter_sends_tls_requests_with_headers_and_closed_connections(
    servers: PageServer, tmp_path: Path
) -> None:
    requested = jmeter_load(
        requests=40, headers={"X-Asked": r'a "\b" c;d', "X-Empty": ""}, path="/seen?a=%20&b=1", keepalive=False
    )
    got = measured(servers.plain, tmp_path, requested)
    assert got["requests", "count"] == got["status_2xx", "count"] == 40
    got = measured(servers.secure, tmp_path, jmeter_load(requests=20))  # -f: the first run's samples are gone
    assert got["ok", "count"] == 20 and got["connect_time", "max"] > 0


def test_live_jmeter_waits_the_think_time_and_counts_failed_connects(web: Target, tmp_path: Path) -> None:
    got = measured(web, tmp_path, jmeter_load(think_time_s=0.2, path="/unlike"), 2.0)
    assert got["errors_status", "count"] == got["requests", "count"] and 4 <= got["requests", "count"] <= 44
    got = measured(Target("127.0.0.1", 9), tmp_path, jmeter_load(requests=8))
    assert got["requests", "count"] == 0 and got["errors_connect", "count"] == got["errors", "count"] == 8


def test_live_jmeter_version_is_read() -> None:
    tool = base.load_tool("jmeter")
    done = subprocess.run(tool.version_argv, capture_output=True, timeout=60)
    assert tool.version(done.stdout, done.stderr) == "5.6.3"
