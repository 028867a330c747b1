"""Every capture parses to the rows that a second reading gave, or is refused for the right reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_corpus import TABLE

from loadbook.core.errors import ParseError
from loadbook.tools import base
from loadbook.tools.base import ToolOutput
from tool_captures import FIXTURES, capture, cases, check_sane, good

ALL = [(tool, path) for tool in base.tool_names() for path in cases(tool)]


@pytest.mark.parametrize("tool", base.tool_names())
def test_every_tool_has_recorded_outputs_of_good_and_failed_runs(tool: str) -> None:
    assert len(good(tool)) >= 3, f"add captures of {tool} to {FIXTURES / tool} (docs/extending.md, 'Add a tool')"
    assert len(cases(tool)) > len(good(tool)), f"add captures of {tool} without a report: usage text, killed"
    captured = {path.stem for path in (FIXTURES / tool).glob("*.stdout")}
    expected = {path.stem for path in cases(tool)} | {case.name for case in TABLE if case.tool == tool}
    assert captured == expected, "each .stdout needs a .json beside it, or a line in corpus.txt"


@pytest.mark.parametrize(("tool", "path"), ALL, ids=[f"{tool}-{path.stem}" for tool, path in ALL])
def test_recorded_output_is_parsed_to_its_expected_rows(tool: str, path: Path) -> None:
    expected = json.loads(path.read_text())
    if "error" in expected:
        with pytest.raises(ParseError, match=f"{tool}: stdout.*{expected['error']}"):
            base.load_tool(tool).parse(capture(path))
        return
    parsed = base.load_tool(tool).parse(capture(path))
    check_sane(parsed)
    rows = [row._replace(value=pytest.approx(row.value, rel=1e-12))._asdict() for row in parsed.measurements]  # type: ignore
    assert [{key: row[key] for key in row if key != "step"} for row in rows] == expected["rows"]
    assert [name for name, _ in parsed.doubts] == expected["doubts"]


@pytest.mark.parametrize("tool", base.tool_names())
def test_output_of_another_tool_is_refused(tool: str) -> None:
    for other in base.tool_names():
        for path in good(other) if other != tool else ():
            with pytest.raises(ParseError, match=f"no report of {tool}|usage"):
                base.load_tool(tool).parse(capture(path))


@pytest.mark.parametrize("tool", base.tool_names())
def test_output_of_another_tool_is_known_as_such(tool: str) -> None:
    """`loadbook import` shows the reasons of the tools whose output it may be."""
    for other in base.tool_names():
        for path in good(other)[:2] if other != tool else ():
            with pytest.raises(ParseError) as caught:
                base.parse_output(base.load_tool(tool), ToolOutput(capture(path).stdout or b"-"))
            assert caught.value.is_of_another_program, (path, caught.value)
