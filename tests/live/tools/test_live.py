"""The real wrk, httperf and ab put load on a real nginx of one page, by our commands, and what they print is read."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from capacity_study import NEEDS_VEGETA
from loadbook.hosts.shell import search_path
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target
from page_server import PageServer, measured, page_server
from waiting import PATIENCE_S

NEEDS_SIEGE = pytest.mark.skipif(
    not shutil.which("siege", path=search_path()), reason=f"no siege: {base.load_tool('siege').install_hint}"
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    with page_server(tmp_path_factory.mktemp("nginx")) as both:
        yield both


@pytest.fixture
def web(servers: PageServer) -> Target:
    return servers.plain


@pytest.fixture
def secure(servers: PageServer) -> Target:
    return servers.secure


def test_live_wrk_counts_as_many_requests_as_the_server(web: Target, tmp_path: Path) -> None:
    got = measured(web, tmp_path, Workload(tool="wrk", connections=4, threads=2))
    assert got["requests", "count"] > 100 and got["ok", "count"] == got["requests", "count"]
    assert got["errors", "count"] == 0 and got["duration", "value"] > 0.9
    assert {s for m, s in got if m == "latency"} == {"min", "mean", "sd", "max", "p50", "p75", "p90", "p99", "p99.9"}
    assert got["bytes_read", "count"] % got["requests", "count"] == 0  # the script's counts are exact


def test_live_httperf_counts_as_many_requests_as_the_server(web: Target, tmp_path: Path) -> None:
    load = Workload(tool="httperf", model="open", rate_per_s=100, calls_per_connection=2)
    got = measured(web, tmp_path, load)
    assert got["requests", "count"] == got["status_2xx", "count"] == 100
    assert got["offered_per_s", "value"] == 100 and got["errors", "count"] == 0


@pytest.mark.parametrize("keepalive", [True, False])
def test_live_ab_counts_as_many_requests_as_the_server(web: Target, tmp_path: Path, keepalive: bool) -> None:
    load = Workload(tool="ab", connections=4, keepalive=keepalive, extra=("-g", "plot.tsv"))
    got = measured(web, tmp_path, load)
    assert got["requests", "count"] > 100 and got["ok", "count"] == got["requests", "count"]
    assert got["errors", "count"] == 0 and got["duration", "value"] > 0.9
    assert got["latency", "min"] > 0 and (("connect_time", "mean") in got) != keepalive
    assert got["bytes_read", "count"] >= 100 * got["requests", "count"]


def test_live_h2load_counts_as_many_requests_as_the_server(web: Target, tmp_path: Path) -> None:
    load = Workload(tool="h2load", connections=5, threads=2, extra=("--log-file=h2load.log",))
    warm = measured(web, tmp_path, load, 0.5)  # h2load appends to its log
    got = measured(web, tmp_path, load)
    assert (
        got["requests", "count"] > 100 and got["ok", "count"] == got["requests", "count"] == got["status_2xx", "count"]
    )
    assert got["errors", "count"] == 0 and (warm["duration", "value"], got["duration", "value"]) == (0.5, 1)
    assert got["latency", "min"] <= got["latency", "p50"] <= got["latency", "p99.9"] <= got["latency", "max"] + 1e-5
    requested = {"X-Asked": r'a "\b" c;d', "Host": "a.b"}
    got = measured(web, tmp_path, load.model_copy(update={"headers": requested, "path": "/seen"}), 0.2)
    assert got["status_2xx", "count"] == got["requests", "count"] > 0
    got = measured(web, tmp_path, load.model_copy(update={"path": "/unlike"}), 0.2)
    assert got["errors_status", "count"] == got["requests", "count"] > 0 == got["ok", "count"]


@NEEDS_SIEGE
def test_live_siege_counts_as_many_requests_as_the_server(web: Target, secure: Target, tmp_path: Path) -> None:
    load = Workload(tool="siege", connections=4, headers={"X-Asked": r'a "\b" c;d'})
    got = measured(web, tmp_path, load, 2)
    assert got["requests", "count"] > 100 and got["ok", "count"] == got["requests", "count"]
    assert got["errors", "count"] == 0 and got["duration", "value"] > 0.9
    got = measured(web, tmp_path, load.model_copy(update={"requests": 40}))
    assert got["ok", "count"] == got["requests", "count"] == 40
    got = measured(secure, tmp_path, load.model_copy(update={"requests": 40}))
    assert got["ok", "count"] == got["requests", "count"] == 40
    load = load.model_copy(update={"requests": 40, "keepalive": False, "path": "/seen"})
    got = measured(web, tmp_path, load)
    assert got["ok", "count"] == got["requests", "count"] == 40
    got = measured(web, tmp_path, load.model_copy(update={"path": "/unlike"}))
    assert got["errors_status", "count"] == got["requests", "count"] == 40 and got["ok", "count"] == 0


@NEEDS_SIEGE
def test_live_siege_version_is_read() -> None:
    tool = base.load_tool("siege")
    done = subprocess.run(tool.version_argv, capture_output=True, timeout=PATIENCE_S, env={"PATH": search_path()})
    assert tool.version(done.stdout, done.stderr)[0].isdigit()


@pytest.mark.parametrize(
    "requested", [{"tool": "wrk", "connections": 1}, {"tool": "httperf", "model": "open", "rate_per_s": 20}]
)
def test_live_tools_send_headers_and_count_errors(web: Target, tmp_path: Path, requested: dict[str, object]) -> None:
    headers = {"X-Asked": r'a "\b" c;d', "X-Empty": ""}
    load = Workload.model_validate(requested | {"headers": headers, "path": "/seen", "keepalive": False})
    got = measured(web, tmp_path, load)
    assert got["ok", "count"] == got["requests", "count"] > 0
    got = measured(web, tmp_path, load.model_copy(update={"path": "/unlike"}))
    assert got["errors_status", "count"] == got["requests", "count"] > 0 == got["ok", "count"]


@pytest.mark.parametrize("name", ["wrk", "httperf", "ab", "h2load"])
def test_live_tool_versions_are_read(name: str) -> None:
    tool = base.load_tool(name)
    done = subprocess.run(tool.version_argv, capture_output=True, timeout=PATIENCE_S)
    assert tool.version(done.stdout, done.stderr)[0].isdigit()


CLOSED, OPEN = {"connections": 2}, {"model": "open", "rate_per_s": 40.0}


@pytest.mark.parametrize(
    "requested", [{"tool": name} | CLOSED for name in ("wrk", "ab", "h2load")] + [{"tool": "httperf"} | OPEN]
)
def test_live_tools_request_https_urls(secure: Target, tmp_path: Path, requested: dict[str, object]) -> None:
    got = measured(secure, tmp_path, Workload.model_validate(requested))
    assert got["ok", "count"] == got["requests", "count"] > 10 and got["errors", "count"] == 0


@pytest.mark.parametrize(
    "requested", [{"tool": name} | CLOSED for name in ("ab", "h2load")] + [{"tool": "httperf"} | OPEN]
)
def test_live_tools_send_the_configured_number_of_requests(
    web: Target, tmp_path: Path, requested: dict[str, object]
) -> None:
    got = measured(web, tmp_path, Workload.model_validate(requested | {"requests": 37}))
    assert got["ok", "count"] == got["requests", "count"] == 37


def test_live_wrk_thinks_before_each_request(web: Target, tmp_path: Path) -> None:
    got = measured(web, tmp_path, Workload(tool="wrk", connections=4, think_time_s=0.1))
    assert 0 < got["requests", "count"] <= 44  # a second of four connections with ten each


def test_live_wrk_runs_a_user_script(web: Target, tmp_path: Path) -> None:
    (tmp_path / "seen.lua").write_text('wrk.path = "/seen"; wrk.headers["X-Asked"] = [[a "\\b" c;d]]\n')
    got = measured(web, tmp_path, Workload(tool="wrk", connections=2, path="/unlike", extra=("-s", "seen.lua")))
    assert got["ok", "count"] == got["requests", "count"] > 100 and ("latency", "p99") in got


@NEEDS_VEGETA
def test_live_vegeta_tells_times_from_both_starts(web: Target, tmp_path: Path) -> None:
    got = measured(web, tmp_path, Workload(tool="vegeta", model="open", rate_per_s=200, connections=4))
    assert 0 < got["requests", "count"] == got["ok", "count"] <= 205
    assert got["offered_per_s", "value"] == 200 and got["errors", "count"] == 0
    assert got["latency_intended", "max"] >= got["service_time", "max"] > 0


@NEEDS_VEGETA
def test_live_vegeta_keeps_to_its_connections_in_a_closed_loop(web: Target, secure: Target, tmp_path: Path) -> None:
    got = measured(web, tmp_path, Workload(tool="vegeta", connections=3))
    assert got["ok", "count"] == got["requests", "count"] > 100 and got["duration", "value"] > 0.9
    assert got["requests_per_s", "value"] * got["latency", "mean"] < 3.1  # Little's law
    headers = {"X-Asked": r'a "\b" c;d'}
    load = Workload(tool="vegeta", connections=2, headers=headers, path="/seen", keepalive=False)
    got = measured(web, tmp_path, load)
    assert got["ok", "count"] == got["requests", "count"] > 0
    got = measured(web, tmp_path, load.model_copy(update={"path": "/unlike"}))
    assert got["errors_status", "count"] == got["requests", "count"] > 0 == got["ok", "count"]
    got = measured(secure, tmp_path, Workload(tool="vegeta", connections=2))
    assert got["ok", "count"] == got["requests", "count"] > 10


@NEEDS_VEGETA
def test_live_vegeta_uses_a_targets_file_at_the_study_s_target(web: Target, tmp_path: Path) -> None:
    plan = 'GET http://shop.example/\n\nGET http://shop.example/seen\nX-Asked: a "\\b" c;d\n'
    load = Workload(tool="vegeta", model="open", rate_per_s=100, plan="targets.txt", plan_text=plan)
    got = measured(web, tmp_path, load)
    assert 0 < got["requests", "count"] == got["ok", "count"] <= 103


@NEEDS_VEGETA
def test_live_vegeta_version_is_read() -> None:
    tool = base.load_tool("vegeta")
    done = subprocess.run(tool.version_argv, capture_output=True, timeout=PATIENCE_S, env={"PATH": search_path()})
    assert tool.version(done.stdout, done.stderr).startswith("12")
