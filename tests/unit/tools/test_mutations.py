"""A report that was cut, doubled, shuffled or mixed is refused or read right: never a wrong number, never NaN."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples, some
from loadbook.core.errors import ParseError
from loadbook.tools import base
from loadbook.tools.base import ParsedReport, ToolOutput
from tool_captures import attempt, capture, good, values, with_stdout

GOOD = {tool: [capture(path) for path in good(tool)] for tool in base.tool_names()}
# results of single requests have no end, and lines between them are none of their own
LOGS = ("jmeter", "vegeta", "k6")
reports = st.sampled_from(
    [
        (tool, captured)
        for tool, all_ in GOOD.items()
        for captured in all_
        if tool not in ("vegeta", "k6") or captured.stdout.startswith((b'{"latencies"', b'{\n "options"'))
    ]
)
SMALL = [
    (tool, path)
    for tool in GOOD
    for path in some([p for p in good(tool) if p.with_suffix(".stdout").stat().st_size < 1500], 3)
]
NOISE = st.lists(
    st.sampled_from(
        [
            b"httperf: warning: open file limit\r\n",
            b"\n",
            b"\x1b[0m50%\n",
            b"RH0:HTTP/1.1 200 OK\r\n",
            b"\xff\xfe\n",
            b"99,1239\n",
        ]
    ),
    max_size=5,
)


def whole(tool: str, captured: ToolOutput) -> dict[tuple[str, str], float]:
    return values(base.load_tool(tool).parse(captured))


@pytest.mark.parametrize(("tool", "path"), SMALL, ids=[path.stem for _, path in SMALL])
def test_report_truncated_at_any_byte_is_refused_or_read_correctly(tool: str, path: Path) -> None:
    """Cut anywhere from the end, or whole lines from the start: refused, or exactly the rows of the whole."""
    captured = capture(path)
    if tool in ("autocannon", "locust"):
        captured = replace(captured, stderr=b"")  # it has the table, which would be read
    expected = whole(tool, captured)
    length = len(captured.stdout)
    for size in {*range(0, length, 17), *range(length - 120, length)}:
        parsed = attempt(tool, replace(captured, stdout=captured.stdout[:size]))
        assert parsed is None or values(parsed) == expected, size
    lines = captured.stdout.splitlines(keepends=True)
    for first in range(1, len(lines)):
        parsed = attempt(tool, with_stdout(captured, lines[first:]))
        assert parsed is None or values(parsed) == expected, first


@given(reports, st.data())
@settings(max_examples=examples(150), deadline=None)
def test_report_with_repeated_or_moved_lines_is_refused_or_read_correctly(
    report: tuple[str, ToolOutput], data: st.DataObject
) -> None:
    tool, captured = report
    every = captured.stdout.splitlines(keepends=True)
    head, lines = every[:-60], every[-60:]
    take, put = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    if data.draw(st.booleans()):
        changed = [*lines[:put], lines[take], *lines[put:]]
    else:
        rest = lines[:take] + lines[take + 1 :]
        changed = [*rest[:put], lines[take], *rest[put:]]
    parsed = attempt(tool, with_stdout(captured, [*head, *changed]))
    assert parsed is None or agrees(parsed, whole(tool, captured))


def agrees(parsed: ParsedReport, expected: dict[tuple[str, str], float]) -> bool:
    """A warning of ab that stands there twice leaves open which answers were errors: fewer values, none differs."""
    found = values(parsed)
    unsure = "non_2xx" in dict(parsed.doubts)
    return found == expected or (unsure and all(expected[key] == found[key] for key in found.keys() & expected))


@given(reports, st.randoms(use_true_random=False))
@settings(max_examples=examples(60), deadline=None)
def test_report_with_shuffled_lines_is_refused_or_read_correctly(
    report: tuple[str, ToolOutput], random: object
) -> None:
    tool, captured = report
    lines = captured.stdout.splitlines(keepends=True)
    random.shuffle(lines)  # type: ignore[attr-defined]
    parsed = attempt(tool, with_stdout(captured, lines))
    assert parsed is None or values(parsed) == whole(tool, captured)


@given(reports, reports)
@settings(max_examples=examples(60), deadline=None)
def test_two_concatenated_reports_are_refused(one: tuple[str, ToolOutput], other: tuple[str, ToolOutput]) -> None:
    tool, captured = one
    if other[0] == tool:
        assert attempt(tool, replace(captured, stdout=captured.stdout + other[1].stdout)) is None


@given(reports, NOISE, st.sampled_from([b"\n", b"\r\n", b"\r\r\n"]), st.data())
@settings(max_examples=examples(150), deadline=None)
def test_report_is_read_with_any_line_ends_and_unrelated_lines_between(
    report: tuple[str, ToolOutput], noise: list[bytes], end: bytes, data: st.DataObject
) -> None:
    tool, captured = report
    lines = [re.sub(rb"[\r\n]+\Z", b"", line) + end for line in captured.stdout.splitlines(keepends=True)]
    in_one_piece = lines[0].strip() in (b"{", b"[")  # JSON over several lines
    for line in noise:
        place = data.draw(st.integers(0, 1 if in_one_piece else len(lines)))
        lines.insert(len(lines) if in_one_piece and place else place, line)
    assert whole(tool, with_stdout(captured, lines)) == whole(tool, captured)


@given(reports, reports, st.data())
@settings(max_examples=examples(100), deadline=None)
def test_report_with_lines_of_another_report_never_gives_impossible_values(
    one: tuple[str, ToolOutput], other: tuple[str, ToolOutput], data: st.DataObject
) -> None:
    lines = one[1].stdout.splitlines(keepends=True)[-40:]
    for line in data.draw(st.lists(st.sampled_from(other[1].stdout.splitlines(keepends=True)), max_size=4)):
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at : at + data.draw(st.integers(0, 1))] = [line]
    attempt(one[0], with_stdout(one[1], lines))


@given(reports, st.data())
@settings(max_examples=examples(200), deadline=None)
def test_report_with_changed_bytes_never_gives_impossible_values(
    report: tuple[str, ToolOutput], data: st.DataObject
) -> None:
    tool, captured = report
    raw = bytearray(captured.stdout)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + 1] = data.draw(
            st.sampled_from([b"", b"-", b"9", b"nan", b"inf", b".", b"\n", b"\0", b"k", b"m", b"e9"])
        )
    attempt(tool, replace(captured, stdout=bytes(raw)))


@given(st.binary(max_size=200), st.sampled_from(sorted(GOOD)))
@settings(max_examples=examples(100), deadline=None)
def test_arbitrary_bytes_are_refused(data: bytes, tool: str) -> None:
    with pytest.raises(ParseError):
        base.load_tool(tool).parse(ToolOutput(data))


FILED = [(tool, captured) for tool, all_ in GOOD.items() for captured in all_ if captured.files]


def changed_file(captured: ToolOutput, data: st.DataObject, change: Callable[[bytes], bytes]) -> ToolOutput:
    name = data.draw(st.sampled_from(sorted(captured.files)))
    return replace(captured, files={**captured.files, name: change(captured.files[name])})


@given(st.sampled_from(FILED), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_tool_file_truncated_at_any_byte_is_refused_or_read_correctly(
    report: tuple[str, ToolOutput], data: st.DataObject
) -> None:
    tool, captured = report
    cut = changed_file(captured, data, lambda whole: whole[: data.draw(st.integers(0, len(whole) - 1))])
    parsed = attempt(tool, cut)
    if tool in LOGS:  # a list of samples without an end: a cut between two of them cannot be seen
        return
    assert parsed is None or values(parsed) == whole(tool, captured)


@given(st.sampled_from(FILED), st.data())
@settings(max_examples=examples(150), deadline=None)
def test_tool_file_with_changed_bytes_never_gives_impossible_values(
    report: tuple[str, ToolOutput], data: st.DataObject
) -> None:
    def change(read: bytes) -> bytes:
        lines = read.splitlines(keepends=True)
        at, to = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        lines[at : at + 1] = data.draw(
            st.sampled_from([[], [lines[to]], [lines[at], lines[to]], [b"x,y\n"], [b"-1\n"]])
        )
        return b"".join(lines)

    attempt(report[0], changed_file(report[1], data, change))
