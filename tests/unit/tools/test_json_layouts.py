"""A report in JSON is read in any layout and between other lines, in linear time; one that is cut is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from loadbook.core.errors import ParseError
from loadbook.tools import base, json_report
from loadbook.tools.base import ToolOutput
from loadbook.tools.json_report import find_documents, find_report
from tool_captures import attempt, capture, cases, values

BEFORE = b"[INFO] 12:00:01 suite {started}\n[1/2] load [====>  ] 50%\n{not JSON: [1, 2\nresult of the load: "
AFTER = b"\n[INFO] passed: {1 of 1}\n{}\n[ ]\n[3, 4]\n"
Change = Callable[[bytes], bytes]


def only_json(captured: ToolOutput) -> ToolOutput | None:
    """Return a capture with its report in JSON alone; None for one that has none, or rows of single requests."""
    for data in (captured.stdout, *captured.files.values()):
        text = data.decode(errors="replace")
        for start in re.finditer(r"^[\[{](?!\"(?:attack|type|metric)\":)", text, re.MULTILINE):
            with suppress(ValueError):
                _, end = json.JSONDecoder().raw_decode(text, start.start())
                return replace(captured, stdout=text[start.start() : end].encode(), files={})
    return None


def json_captures() -> dict[str, tuple[str, ToolOutput]]:
    """Return {name: (tool, capture)} of all recorded reports in JSON that are read."""
    found = {}
    for tool in base.tool_names():
        for path in sorted(
            {*cases(tool), *(p.with_suffix(".json") for p in Path(cases(tool)[0]).parent.glob("*.cmd"))}
        ):
            captured = path.with_suffix(".stdout").exists() and only_json(capture(path))
            if captured and attempt(tool, captured):
                found[f"{tool}-{path.stem}"] = (tool, captured)
    return found


CAPTURES = json_captures()


def indented(data: bytes) -> bytes:
    return json.dumps(json.loads(data), indent=2).encode()


def on_one_line(data: bytes) -> bytes:
    return json.dumps(json.loads(data), separators=(",", ":")).encode()


def in_a_log(change: Change, data: bytes) -> bytes:
    return BEFORE + change(data) + AFTER


@pytest.mark.parametrize("name", CAPTURES)
def test_report_in_json_is_read_in_any_layout_and_place(name: str) -> None:
    tool, captured = CAPTURES[name]
    expected = base.load_tool(tool).parse(captured)
    for change in (indented, on_one_line, partial(in_a_log, indented), partial(in_a_log, on_one_line)):
        parsed = base.load_tool(tool).parse(replace(captured, stdout=change(captured.stdout)))
        assert values(parsed) == values(expected)
        assert parsed.doubts == expected.doubts and parsed.span == expected.span


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.parametrize("change", [indented, on_one_line])
def test_report_in_json_that_is_cut_is_refused(name: str, change: Change) -> None:
    tool, captured = CAPTURES[name]
    whole = change(captured.stdout)
    captured = replace(captured, stderr=b"")  # fortio's has the text, which would be read
    for size in {*range(1, len(whole), max(1, len(whole) // 20)), len(whole) - 1}:
        for after in (b"", AFTER):
            assert attempt(tool, replace(captured, stdout=BEFORE + whole[:size] + after)) is None, size
    with pytest.raises(ParseError, match="its JSON ends early or is broken"):
        base.load_tool(tool).parse(replace(captured, stdout=BEFORE + whole[:-1]))


@pytest.mark.parametrize("name", CAPTURES)
def test_two_reports_in_json_are_refused(name: str) -> None:
    tool, captured = CAPTURES[name]
    two = on_one_line(captured.stdout) + b"\n" + indented(captured.stdout)
    with pytest.raises(ParseError, match="two in one output"):
        base.load_tool(tool).parse(replace(captured, stdout=two))


def test_every_tool_with_reports_in_json_is_tried() -> None:
    assert {tool for tool, _ in CAPTURES.values()} == {
        *(
            "artillery",
            "autocannon",
            "bombardier",
            "fortio",
            "gatling",
            "k6",
            "locust",
            "oha",
            "siege",
            "vegeta",
            "weighttp",
        )
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', [(1, {"a": 1})]),
        ('x\n50% {"a":\n1} y\n{"a": 2}', [(2, {"a": 1}), (4, {"a": 2})]),
        ('{"b": {"a": 1}}', []),
        ('[{"a": 1}]', []),
        ('{"a": NaN}', [(1, None)]),
        ('{"a": 1, "a": 2}', [(1, None)]),
        ('{"b": {"c": NaN}, "d": {"a": 1}}', [(1, None)]),
        ('"b": {"a": 1}}', [(1, None)]),
        ('{"a": 1}, {"a": 2}]', [(1, None), (1, None)]),
        ('{"b": x, "c": {"a": 1}}', [(1, None)]),
        ('{"b": "{\\"a\\": 1}"}', []),
        ('{"a": "' + "x" * 10_000 + '", "b": ' + "1" * 3000 + "}", [(1, {"a": "x" * 10_000, "b": int("1" * 3000)})]),
        ('{"a": ' + "[" * 100_000, [(1, None)]),
        ('{"a": ' + "1" * 5000 + "}", [(1, None)]),
    ],
)
def test_documents_are_found_with_their_lines(text: str, found: list[tuple[int, object]]) -> None:
    assert find_documents(text.split("\n"), "a") == found


def test_array_is_a_report_where_the_tool_writes_one() -> None:
    contents = {"stdout": b'{"a": 0}\n[1] [{"a": 1}, {"a": 2}] x'}
    found = find_report("locust", contents, "a", kind=list)
    assert found is not None and found.line == 2 and found.value == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    "part", ['{"a": x\n', '{"a": x ', '{"b": {"c": [1, 2, {"d": "\n', '{"b": 1}\n', '{"b\\" ', '{"b": [[[', "[{"]
)
def test_an_output_is_decoded_a_few_times_at_most(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's error of a broken JSON counts the lines of all that it was given: with 8 MB each time it takes hours."""
    decoded = []

    class Counter(json.JSONDecoder):
        def raw_decode(self, s: str, idx: int = 0) -> tuple[object, int]:
            decoded.append(len(s))
            return super().raw_decode(s, idx)

    monkeypatch.setattr(json_report, "_STRICT", Counter())
    text = part * ((1 << 19) // len(part)) + '\n{"a": 1}'
    assert len(text) > 500_000
    find_documents(text.split("\n"), "a")
    assert max(decoded) < 4 * len(text) and sum(decoded) < 5000 * (text.count("{") + text.count("[")) + 4 * len(text)
