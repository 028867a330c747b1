"""Every load generator that is installed here runs once against a real nginx, and its report is read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from jmeter_home import put_jmeter_on_path
from loadbook.hosts.shell import search_path
from loadbook.study.workload import Workload
from loadbook.tools.base import Target, run_tools
from page_server import measured, page_server

CONNECTIONS, RATE_PER_S = 2, 40.0


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with page_server(tmp_path_factory.mktemp("nginx")) as servers:
        yield servers.plain


@pytest.mark.parametrize("name", run_tools())
def test_load_generator_runs_and_its_report_is_read(
    name: str, web: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_jmeter_on_path(monkeypatch)
    tool = run_tools()[name]
    if not shutil.which(tool.binary, path=search_path()):
        pytest.skip(f"{name} is not installed: {tool.install_hint}")
    closed = "closed" in tool.load_models
    load = {"connections": CONNECTIONS} if closed else {"model": "open", "rate_per_s": RATE_PER_S, "connections": 2}
    got = measured(web, tmp_path, Workload.model_validate({"tool": name} | load))
    assert got["requests", "count"] > 0 == got.get(("errors", "count"), 0)
