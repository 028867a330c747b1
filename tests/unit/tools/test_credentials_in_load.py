"""A login in a load would stand in the study, its records and every driver's process list: no tool takes one."""

from __future__ import annotations

import pytest

from loadbook.core.errors import ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target

pytestmark = pytest.mark.fault(54)
TARGET = Target("192.0.2.1", 80, "http")
MODELS = {"httperf": "open", "wrk2": "open"}


def load(tool: str, **more: object) -> Workload:
    rate = {"model": "open", "rate_per_s": 100.0} if tool in MODELS else {}
    needs = {"requests": 1000} if tool == "weighttp" else {}
    return Workload.model_validate({"tool": tool, "connections": 10} | rate | needs | more)


@pytest.mark.parametrize("header", ["Authorization", "authorization", "Proxy-Authorization", "Cookie", "X-API-Key"])
@pytest.mark.parametrize("tool", base.run_tools())
def test_headers_with_credentials_are_refused_without_printing_them(tool: str, header: str) -> None:
    with pytest.raises(ToolError, match="a login in a study would stand in data") as refused:
        base.load_tool(tool).command(load(tool, headers={header: "Bearer hunter2"}), TARGET, 10)
    assert "hunter2" not in refused.value.message + (refused.value.hint or "")


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("wrk", ("-H", "Authorization: Bearer hunter2")),
        ("wrk", ("-Hcookie: hunter2",)),
        ("wrk", ("--header=Authorization:hunter2",)),
        ("h2load", ("-H", "x-auth-token: hunter2")),
        ("ab", ("-A", "me:hunter2")),
        ("ab", ("-Ame:hunter2",)),
        ("ab", ("-P", "me:hunter2")),
        ("ab", ("-C", "session=hunter2")),
        ("httperf", ("--add-header=Cookie: hunter2\\n",)),
    ],
)
def test_options_with_credentials_are_refused_without_printing_them(tool: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ToolError) as refused:
        base.load_tool(tool).command(load(tool, extra=words), TARGET, 10)
    assert "hunter2" not in refused.value.message + (refused.value.hint or "")


def test_headers_and_scripts_without_credentials_are_accepted() -> None:
    argv = base.load_tool("wrk").command(load("wrk", headers={"X-Bench": "1", "Accept": "*/*"}), TARGET, 10)
    assert "X-Bench: 1" in argv
    assert "-s" in base.load_tool("wrk").command(load("wrk", extra=("-s", "/root/login.lua")), TARGET, 10)


@pytest.mark.parametrize("query", ["?token=hunter2", "?a=1&access_token=hunter2", "?API_KEY=hunter2", "?sig=hunter2"])
def test_path_with_a_token_is_refused_without_printing_it(query: str) -> None:
    with pytest.raises(ToolError, match="a login in a study would stand in data") as refused:
        base.load_tool("wrk").command(load("wrk", path=f"/page{query}"), TARGET, 10)
    assert "hunter2" not in refused.value.message + (refused.value.hint or "")


@pytest.mark.parametrize("path", ["/token", "/?tokens=3", "/?page=2&sort=key", "/?author=me", "/?design=1"])
def test_path_with_harmless_query_parameters_is_accepted(path: str) -> None:
    assert base.load_tool("wrk").command(load("wrk", path=path), TARGET, 10)
