"""A log that holds a run twice is refused: its requests would count twice."""

from __future__ import annotations

import pytest

import jtl_captures as jtl
from loadbook.core.errors import ParseError
from loadbook.request_logs import stream
from loadbook.request_logs.read import summarise
from loadbook.tools import base
from loadbook.tools.base import ToolOutput
from tool_captures import FIXTURES

JTL = jtl.capture("5.6.3--csv_https")
K6 = (FIXTURES / "k6" / "1.8.1--points_csv.points.csv").read_bytes()
K6_JSON = (FIXTURES / "k6" / "1.8.1--points_json.points").read_bytes()
HEY = (FIXTURES / "hey" / "0.1.5--count_csv.stdout").read_bytes()


@pytest.mark.parametrize("size", [1 << 20, 3000])
@pytest.mark.parametrize(
    ("tool", "data", "header_lines"),
    [("jmeter", JTL, 1), ("k6", K6, 1), ("k6", K6_JSON, 0)],
    ids=["jtl", "csv", "json"],
)
def test_rows_that_come_again_are_refused_with_their_line(
    tool: str, data: bytes, header_lines: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "BLOCK_BYTES", size)
    lines = data.splitlines(keepends=True)
    rows = lines[header_lines:]
    assert summarise(data, tool).rows
    with pytest.raises(ParseError, match=f":{len(lines) + 1}: the first 5 rows come again here"):
        summarise(data + b"".join(rows), tool)
    again = [*lines, *rows[3:], *rows[:2]]
    assert summarise(b"".join(again), tool).rows  # not the same five


def test_jtl_without_times_of_day_may_repeat_its_rows() -> None:
    rows = b"elapsed,label,success\n" + b"5,home,true\n" * 40
    assert summarise(rows, "jmeter").total().attempts == 40


def test_csv_of_responses_that_holds_a_run_twice_is_refused() -> None:
    hey = base.load_tool("hey")
    head, _, rows = HEY.partition(b"\n")
    assert hey.parse(ToolOutput(HEY)).measurements
    with pytest.raises(ParseError, match="the file holds a run twice"):
        hey.parse(ToolOutput(head + b"\n" + rows + rows))
