"""Markdown, wikis and chats drop the blanks at the beginning of lines; a text without them is read as with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from loadbook.core.errors import ParseError
from loadbook.tools import base, wrk2
from loadbook.tools.base import ToolOutput
from loadbook.tools.line_patterns import clean_lines
from tool_captures import FIXTURES, attempt, capture, table

TEXT_TOOLS = sorted(name for name in base.tool_names() if base.load_tool(name).report_begin)
BINARY = ("12.13.0--gob.stdout",)
REQUESTS = ("12.13.0--csv.stdout",)  # rows of single requests have no end
CAPTURES = [
    (tool, path)
    for tool in TEXT_TOOLS
    for path in sorted((FIXTURES / tool).glob("*.stdout"))
    if path.name not in BINARY
]
WRK2 = b"""Running 10s test @ http://10.0.0.7/
2 threads and 20 connections
Thread calibration: mean lat.: 1.500ms, rate sampling interval: 10ms
Thread calibration: mean lat.: 1.600ms, rate sampling interval: 10ms
Thread Stats   Avg      Stdev     Max   +/- Stdev
Latency     1.40ms  600.00us   9.00ms   70.00%
Req/Sec   520.00    40.00   700.00     72.00%
10000 requests in 10.00s, 6.68MB read
Requests/sec:    999.95
Transfer/sec:    683.56KB
"""


def without_blanks(data: bytes) -> bytes:
    """Return a text without the blanks and tabs before its lines, and without colours."""
    return "\n".join(line.lstrip(" \t") for line in clean_lines(data)).encode()


def flattened(output: ToolOutput) -> ToolOutput:
    """Return an output whose texts have lost their indentation; files beside it stay as they are."""
    return replace(output, stdout=without_blanks(output.stdout), stderr=without_blanks(output.stderr))


@pytest.mark.parametrize(("tool", "path"), CAPTURES, ids=[f"{tool}-{path.stem}" for tool, path in CAPTURES])
def test_text_without_indentation_is_read_as_the_text_with_it(tool: str, path: Path) -> None:
    captured = capture(path.with_suffix(".json"))
    if (whole := attempt(tool, captured)) is not None:
        assert base.load_tool(tool).parse(flattened(captured)) == whole


@pytest.mark.parametrize(("tool", "path"), CAPTURES[::3], ids=[f"{tool}-{path.stem}" for tool, path in CAPTURES[::3]])
def test_text_without_indentation_that_is_cut_is_refused_or_read_as_the_whole(tool: str, path: Path) -> None:
    captured = capture(path.with_suffix(".json"))
    has_no_end = path.name in REQUESTS or captured.stdout.startswith((b"{", b"[", b"response-time,", b"request-start,"))
    if (whole := attempt(tool, captured)) is None or has_no_end:
        return
    if tool == "gatling" and captured.files:  # its JSON beside a text without a summary is read, with fewer numbers
        return
    flat = flattened(captured)
    lines = flat.stdout.splitlines(keepends=True)
    for place in range(0, len(lines), max(1, len(lines) // 25)):
        found = attempt(tool, replace(flat, stdout=b"".join(lines[:place]), stderr=b""))
        if found is not None:
            assert table(found.measurements) == table(whole.measurements)


def test_wrk2_without_indentation_has_its_numbers() -> None:
    rows = table(base.load_tool("wrk2").parse(ToolOutput(WRK2)).measurements)
    assert (rows["requests", "count"].value, rows["requests_per_s", "value"].value) == (10_000, 999.95)
    assert (rows["latency_intended", "mean"].text, rows["latency_intended", "max"].text) == ("1.40ms", "9.00ms")


def test_wrk2_without_indentation_is_not_a_report_of_wrk() -> None:
    with pytest.raises(ParseError, match="one of wrk2"):
        base.load_tool("wrk").parse(ToolOutput(WRK2))


def test_cut_line_without_indentation_is_named() -> None:
    with pytest.raises(ParseError, match="line cut or changed; expected 'Latency"):
        base.load_tool("wrk2").parse(ToolOutput(WRK2.replace(b"   9.00ms   70.00%", b"")))


def test_lines_that_look_like_rows_stay_other_lines_if_the_indentation_is_there() -> None:
    captured = capture(FIXTURES / "hey" / "0.1.5--mix500_text.json")
    noisy = replace(captured, stdout=captured.stdout + b"[1]\t4711\n99% in 5.0000 secs\n")
    assert base.load_tool("hey").parse(noisy) == base.load_tool("hey").parse(captured)


def test_calibration_line_matches_its_example() -> None:
    assert wrk2.CALIBRATION.line_regex.fullmatch(wrk2.CALIBRATION.example)


@pytest.mark.parametrize("way", [lambda text: text.expandtabs(), lambda text: re.sub(r"[ \t]+", " ", text)])
@pytest.mark.parametrize(
    "path",
    [
        "ab/2.3--n20000_c50",
        "ab/2.3--no_median_S",
        "bombardier/1.2.6--clean_text",
        "bombardier/1.2.6--dead_text",
        "hey/0.1.5--clean_text",
        "hey/0.1.5--mix500_text",
        "oha/1.16.0--clean_text",
        "wrk/4.1.0--tls",
        "wrk2/4.0.0--R2000_d14_latency",
    ],
)
def test_expanded_tabs_and_blanks_made_one_change_no_number(path: str, way: Callable[[str], str]) -> None:
    tool, captured = path.partition("/")[0], capture(FIXTURES / f"{path}.json")
    whole = base.load_tool(tool).parse(captured)
    assert base.load_tool(tool).parse(replace(captured, stdout=way(captured.stdout.decode()).encode())) == whole
