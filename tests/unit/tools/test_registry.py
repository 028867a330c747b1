"""Adding one file adds a tool: to the registry, to `loadbook parse`, and to what error messages name."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import loadbook.tools
from loadbook.cli.data import parse
from loadbook.core.errors import ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Measurement, Target, ToolOutput

DOC = Path(__file__).parents[3] / "docs" / "extending.md"
TOY = next(block for block in re.findall(r"```python\n(.*?)```", DOC.read_text(), re.DOTALL) if "class Toy" in block)


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[str]:
    """One file in one folder on the package's path, and nothing else."""
    (tmp_path / "toy.py").write_text(TOY)
    loadbook.tools.__path__.append(str(tmp_path))
    yield "toy"
    loadbook.tools.__path__.remove(str(tmp_path))
    sys.modules.pop("loadbook.tools.toy", None)


def test_registry_lists_the_known_tools() -> None:
    assert base.tool_names() == sorted(base.tool_names()) and {"httperf", "wrk"} <= set(base.tool_names())
    assert "httperf" in base.tool_names("open") and "wrk" in base.tool_names("closed")
    assert "wrk" not in base.tool_names("open") and "httperf" not in base.tool_names("closed")
    for name in base.tool_names():
        tool = base.load_tool(name)
        assert tool.name == name
        if not tool.load_models:  # its reports are read, but it is not run
            continue
        assert tool.version_argv[0] == tool.binary and tool.install_hint
        assert ("apt-get install" in tool.install_hint) == (name in {"ab", "h2load", "httperf", "siege", "wrk"}), (
            tool.install_hint
        )


def test_unknown_tool_error_lists_the_known_ones() -> None:
    with pytest.raises(ToolError, match="unknown tool 'wkr'") as refusal:
        base.load_tool("wkr")
    assert refusal.value.hint == f"known tools: {', '.join(base.tool_names())}"


def test_new_tool_needs_only_one_file(toy: str, tmp_path: Path) -> None:
    assert "toy" in base.tool_names()
    load = Workload(tool=toy, model="open", rate_per_s=5, path="/a")
    command = ["toy", "-d", "2.5", "-r", "5/1", "http://h:80/a"]
    assert base.load_tool(toy).command(load, Target("h", 80), 2.5) == command
    with pytest.raises(ToolError, match="open-loop") as refusal:
        base.load_tool("wrk").command(load, Target("h", 80), 2)
    assert refusal.value.hint == f"tools that can: {', '.join(base.tool_names('open'))}" and "toy" in refusal.value.hint

    (tmp_path / "out").write_text("toy: 12 answers in 3.5 s\n")
    displayed = CliRunner().invoke(parse, [toy, str(tmp_path / "out"), "--json"])
    assert displayed.exit_code == 0 and '"value": 12,' in displayed.stdout and '"value": 3.5,' in displayed.stdout


def test_tools_that_support_a_workload_are_listed() -> None:
    target = Target("192.0.2.1", 80)
    assert {"ab", "h2load", "weighttp"} <= set(base.capable_tools(Workload(tool="wrk", requests=500), target))
    assert "wrk" not in base.capable_tools(Workload(tool="wrk", requests=500), target)
    thinking = base.capable_tools(Workload(tool="ab", think_time_s=0.1, extra=("-l",)), target)
    assert "wrk" in thinking and not {"ab", "h2load", "httperf", "weighttp"} & set(thinking)
    assert not {"weighttp"} & set(
        base.capable_tools(Workload(tool="ab", requests=500), target._replace(scheme="https"))
    )


def test_tools_with_the_same_name_are_refused(toy: str, tmp_path: Path) -> None:
    (tmp_path / "toy_again.py").write_text(TOY)
    with pytest.raises(ToolError, match="two modules"):
        base.tool_names()
    sys.modules.pop("loadbook.tools.toy_again")


def test_tool_without_the_base_class_gets_its_default_methods(toy: str, tmp_path: Path) -> None:
    text = TOY.replace("(base.Tool)", "").replace('"toy"', '"plain"')
    (tmp_path / "plain.py").write_text(text)
    plain = base.load_tool("plain")
    assert plain.extra_timeout_s == 0 and list(plain.expected_files(Workload(tool="plain"))) == []
    sys.modules.pop("loadbook.tools.plain")


@pytest.mark.parametrize(
    ("text", "value", "step"),
    [
        ("1.40ms", 0.0014, 1e-5),
        ("12", 0.012, 1e-3),
        ("1,234.5", 1234.5, 0.1),
        ("1.5e+03", 1500.0, 100.0),
        ("669.113µs", 669.113e-6, 1e-9),
        ("1m30s", 90.0, 1.0),
        ("1h2m3.25s", 3723.25, 0.01),
        ("0.00", 0.0, None),
        (None, 1.5, None),
    ],
)
def test_resolution_is_the_step_of_the_last_printed_digit(text: str | None, value: float, step: float | None) -> None:
    assert Measurement("latency", "mean", value, "s", text).resolution == (step and pytest.approx(step))


def test_step_of_the_tool_takes_the_place_of_that_of_the_digits() -> None:
    row = Measurement("latency", "p99", 0.12, "s", "120", 0.01)
    assert row.resolution == 0.01 and row._replace(step=None).resolution == pytest.approx(0.001)
    assert row.as_row() == {
        "metric": "latency", "statistic": "p99", "value": 0.12, "unit": "s", "text": "120", "resolution": 0.01
    }  # fmt: skip


@pytest.mark.parametrize(("moved", "doubts"), [(20, ["redirects"]), (11, ["redirects"]), (10, []), (0, [])])
def test_report_whose_answers_are_mostly_redirects_is_doubtful(moved: int, doubts: list[str]) -> None:
    codes = {"301": moved, "200": 20 - moved}
    report: dict[str, object] = {"latencies": dict.fromkeys(("mean", "50th", "95th", "99th", "max"), 4_100_000)}
    report |= {"bytes_in": {"total": 0}, "duration": 10**9, "wait": 0, "requests": 20, "rate": 20.0, "success": 1}
    report |= {"status_codes": {code: count for code, count in codes.items() if count}, "errors": []}
    parsed = base.parse_output(base.load_tool("vegeta"), ToolOutput(json.dumps(report).encode()))
    assert [name for name, _ in parsed.doubts] == doubts
    assert not doubts or parsed.doubts[0][1].startswith(f"{moved} of 20 responses were redirects")
