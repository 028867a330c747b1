"""JTL files that were cut, doubled, shuffled or mixed: right figures or a refusal, never a guess or another error."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jtl_captures as jtl
import slow_jtl_reader as slow
from effort import examples
from loadbook.core.errors import ParseError
from loadbook.request_logs.read import summarise
from loadbook.request_logs.summary import Summary

PLAIN = jtl.capture("5.1.1--csv_names")
QUOTED = jtl.capture("5.1.1--messages")
OTHERS = [jtl.capture(name) for name in ("2.13--errors", "3.3--csv_names", "5.6.3--csv_few_columns", "5.6.3--csv_tab")]
XML = jtl.capture("5.6.3--xml_embedded")


def read(data: bytes) -> Summary:
    return summarise(data, "jmeter", file="out.jtl")


def check_sane(summary: Summary) -> None:
    total = summary.total()
    assert 0 <= total.ok <= total.answered <= total.attempts == total.ok + total.errors
    assert sum(total.classes.values()) == total.answered
    assert total.latency.count <= total.attempts
    assert sum(answered for _, answered, _, _ in summary.per_second_counts()) in (0, total.answered)


@given(st.integers(0, len(PLAIN)))
def test_jtl_truncated_at_any_byte_gives_its_complete_rows(end: int) -> None:
    data = PLAIN[:end]
    if b"\n" not in data:
        with pytest.raises(ParseError):
            read(data)
        return
    summary = read(data)
    jtl.same(jtl.reported(summary), slow.figures(slow.rows(data)))
    torn = not data.endswith(b"\n")
    assert summary.damage_counts == ({"torn": 1} if torn else {})
    assert not torn or summary.damage[0].line == data.count(b"\n") + 1


@given(st.integers(QUOTED.index(b"\n") + 1, len(QUOTED)))
def test_jtl_with_line_breaks_in_fields_truncated_at_any_byte_gives_its_complete_rows(end: int) -> None:
    summary = read(QUOTED[:end])
    whole = QUOTED[:end].rfind(b"http://127.0.0.1:18001/")
    assert summary.total().attempts <= QUOTED[:whole].count(b"http://127.0.0.1:18001/") + 1
    assert set(summary.damage_counts) <= {"torn"}


@given(st.lists(st.integers(1, 600), max_size=20), st.randoms())
def test_jtl_repeated_and_reordered_rows_are_all_counted(doubled: list[int], draw: random.Random) -> None:
    head, *rows = PLAIN.splitlines(keepends=True)
    rows += [rows[number - 1] for number in doubled]
    draw.shuffle(rows)
    data = head + b"".join(rows)
    jtl.same(jtl.reported(read(data)), slow.figures(slow.rows(data)))


@given(st.integers(1, 600), st.sampled_from(OTHERS), st.randoms())
def test_jtl_with_a_line_of_another_file_is_refused_with_the_line_number(
    at: int, other: bytes, draw: random.Random
) -> None:
    rows = PLAIN.splitlines(keepends=True)
    line = draw.choice(other.splitlines(keepends=True))
    rows.insert(at, line)
    if not line.strip() or line.count(b",") == rows[0].count(b","):
        return  # an empty line, or a row of the same form
    with pytest.raises(ParseError) as error:
        read(b"".join(rows))
    assert error.value.line == at + 1 or b'"' in line  # part of a field may open a quote that a later row closes


@given(st.sampled_from([PLAIN[:20_000], QUOTED, *OTHERS, XML]), st.data())
@settings(max_examples=examples(400))
def test_jtl_with_changed_bytes_gives_possible_values_or_is_refused(data: bytes, draw: st.DataObject) -> None:
    raw = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 6))):
        at = draw.draw(st.integers(0, len(raw) - 1))
        new = draw.draw(st.sampled_from([b"", b"-", b"7", b'"', b"\r", b"\n", b"\0", b",", b"\xff", b"<", b"&", b"\t"]))
        raw[at : at + draw.draw(st.integers(0, 2))] = new
    try:
        check_sane(read(bytes(raw)))
    except ParseError as error:
        assert (error.tool, error.file) == ("jmeter", "out.jtl")


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_read_or_refused_as_jtl(data: bytes) -> None:
    for start in (b"", PLAIN[:1000], XML[:600]):
        try:
            check_sane(read(start + data))
        except ParseError as error:
            assert error.tool == "jmeter"
