"""Gatling's binary log and its text: the same rows from logs that are written here, and refusals of changed ones."""

from __future__ import annotations

import random
import re
import struct
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.core.errors import ParseError
from loadbook.request_logs import stream as log_stream
from loadbook.request_logs.read import summarise
from loadbook.request_logs.summary import Summary
from tool_captures import FIXTURES

START_MS = 1_795_967_733_743
CAPTURE = (FIXTURES / "gatling" / "3.14.9--log_mix.simulation.log").read_bytes()
MESSAGES = (
    "",
    "status.find.in(200), but actually found 500",
    "j.n.ConnectException: refused",
    "own words",
    "ä, found 你",
)


class Request(NamedTuple):
    groups: tuple[str, ...] = ()
    name: str = "Home"
    start: int = 0
    elapsed: int = 40
    message: str = ""


def number(value: int) -> bytes:
    return struct.pack(">i", value)


def text(value: str) -> bytes:
    wide = any(ord(letter) > 255 for letter in value)
    data = value.encode("utf-16-le" if wide else "latin-1")
    return number(len(data)) + data + (bytes([wide]) if data else b"")


def run(version: str = "3.14.9", start_ms: int = START_MS) -> bytes:
    head = b"\0" + text(version) + text("Sim") + struct.pack(">q", start_ms) + text("")
    return head + number(1) + text("Buyers") + number(1) + number(3) + b"abc"


def binary(requests: list[Request]) -> bytes:
    known: dict[str, int] = {}

    def cached(value: str) -> bytes:
        if value in known:
            return number(-known[value])
        known[value] = len(known) + 1
        return number(known[value]) + text(value)

    data = run()
    for groups, name, start, elapsed, message in requests:
        data += b"\x02" + number(0) + b"\x01" + number(start)
        path = number(len(groups)) + b"".join(map(cached, groups))
        data += b"\x01" + path + cached(name) + number(start) + number(start + elapsed)
        data += bytes([not message]) + cached(message)
        if groups:
            path = number(len(groups)) + b"".join(map(cached, groups))
            data += b"\x03" + path + number(start) + number(start + elapsed) + number(elapsed) + b"\x01"
        data += b"\x04" + cached("not built") + number(start)
    return data


def lines(requests: list[Request]) -> bytes:
    rows = ["ASSERTION\tAAE=", f"RUN\tSim\tsim\t{START_MS}\t \t3.12.0"]
    for groups, name, start, elapsed, message in requests:
        at, end = START_MS + start, START_MS + start + elapsed
        rows += [f"USER\tBuyers\tSTART\t{at}"]
        rows += [f"REQUEST\t{','.join(groups)}\t{name}\t{at}\t{end}\t{'KO' if message else 'OK'}\t{message or ' '}"]
        rows += [f"GROUP\t{','.join(groups)}\t{at}\t{end}\t{elapsed}\tOK"] if groups else []
        rows += [f"ERROR\tnot built\t{at}"]
    return "".join(f"{row}\n" for row in rows).encode()


def read(data: bytes) -> Summary:
    return summarise(data, "gatling", file="s.log")


def figures(summary: Summary) -> object:
    tallies = summary.labels.items()
    labels = {name: (t.outcomes, t.answered, t.latency.times_us()) for name, t in tallies}
    return labels, summary.first_start_us, summary.last_end_us, summary.damage_counts


REQUESTS = st.builds(
    Request,
    st.lists(st.sampled_from(["Shop", "In", "你"]), max_size=9).map(tuple),
    st.sampled_from(["Home", "Käse", "你 好"]),
    st.integers(0, 10**6),
    st.integers(0, 10**5),
    st.sampled_from(MESSAGES),
)


@given(st.lists(REQUESTS, min_size=1, max_size=30), st.integers(30, 500))
def test_binary_log_gives_the_rows_of_the_same_requests_in_text(requests: list[Request], block: int) -> None:
    from_text = figures(read(lines(requests)))
    data = binary(requests)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("loadbook.request_logs.gatling_log.HEAD_BYTES", 200)
        patch.setattr(log_stream, "FIRST_BLOCK_BYTES", block)
        patch.setattr(log_stream, "BLOCK_BYTES", block)
        by_blocks = read(data)
    whole = figures(read(data))
    assert whole == from_text
    assert figures(by_blocks)[:3] == whole[:3]


def test_outcomes_and_times_are_those_of_the_requests() -> None:
    summary = read(binary([Request(message=message, start=i) for i, message in enumerate(MESSAGES)]))
    total = summary.total()
    assert dict(total.outcomes) == {"ok": 1, "errors_status": 1, "errors_connect": 1, "errors_other": 2}
    assert total.answered == 3 and summary.duration_s == 0.044 and summary.damage_counts == {"failed_unknown": 1}


def test_cut_log_is_torn_or_has_only_whole_records() -> None:
    data = binary([Request(("Shop",), start=i) for i in range(5)])
    for size in range(len(run()), len(data)):
        summary = read(data[:size])
        assert set(summary.damage_counts) <= {"torn"}
        assert not summary.labels or summary.total().attempts <= 5
    for size in range(1, len(run())):
        with pytest.raises(ParseError, match="byte 0: the file ends within its first record"):
            read(data[:size])
    with pytest.raises(ParseError):
        read(b"")
    torn = read(lines([Request()])[:-3])
    assert torn.damage_counts == {"torn": 1} and torn.total().attempts == 1


def test_changed_end_changes_just_its_value() -> None:
    data = binary([Request(), Request(start=5)])
    changed = read(data.replace(number(45), number(46)))
    assert changed.total().latency.times_us() == {40_000: 1, 41_000: 1}
    assert changed.total().ok == 2


def test_capture_with_changed_bits_is_refused_or_has_possible_numbers() -> None:
    draw = random.Random(28)
    for _ in range(1500):
        data = bytearray(CAPTURE)
        data[draw.randrange(1, len(data))] ^= 1 << draw.randrange(8)
        try:
            total = read(bytes(data)).total()
        except ParseError as error:
            assert re.match(r"byte \d+: ", str(error.reason))
            continue
        assert total.attempts <= 170 and total.ok + total.errors == total.attempts


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (b"\x05", "unknown kind 5"),
        (b"\0", "unknown kind 0"),
        (b"\x02" + number(1) + b"\x01" + number(0), "no scenario"),
        (b"\x02" + number(0) + b"\x02" + number(0), "neither starts nor ends"),
        (b"\x04" + number(-99) + number(0), "was not there before"),
        (b"\x04" + number(99) + text("x") + number(0), "a new text has the number 99"),
        (b"\x01" + number(-1), "impossible"),
        (b"\x01" + number(0) + number(-1) + number(9) + number(8) + b"\x01" + number(-2), "ends before it starts"),
        (b"\x01" + number(0) + number(-1) + number(9) + number(9) + b"\x02" + number(-2), "neither OK nor KO"),
        (b"\x04" + number(4) + number(1) + b"x\x02" + number(0), "no coder"),
    ],
)
def test_impossible_record_is_refused_with_its_byte(broken: bytes, words: str) -> None:
    good = binary([Request()])
    with pytest.raises(ParseError, match=words) as refused:
        read(good + broken)
    assert f"byte {len(good)}: " in str(refused.value)


def test_unknown_versions_are_refused() -> None:
    with pytest.raises(ParseError, match=r"byte 0: a log of Gatling '3.16.0'; those of 3.13 to 3.15"):
        read(run("3.16.0"))
    with pytest.raises(ParseError, match="the start of the run is impossible"):
        read(run(start_ms=5))
    with pytest.raises(ParseError, match=r"s.log:2: a log of Gatling 3.3.1; those of 3.4 to 3.12"):
        read(lines([]).replace(b"3.12.0", b"3.3.1"))


@pytest.mark.parametrize(
    ("old", "new"), [(b"OK", b"ok"), (b"START", b"Start"), (b"\tHome", b""), (b"ERROR", b"WARN"), (b"REQUEST", b"R")]
)
def test_impossible_line_is_refused_with_its_number(old: bytes, new: bytes) -> None:
    data = lines([Request()])
    line = data[: data.index(old)].count(b"\n") + 1
    with pytest.raises(ParseError) as refused:
        read(data.replace(old, new))
    assert refused.value.line == line


def test_message_that_no_request_asked_for_is_no_request() -> None:
    unasked = lines([Request(), Request(start=1)]).replace(str(START_MS + 41).encode(), b"-9223372036854775808")
    assert read(unasked).total().attempts == 1
    low = (-START_MS + 2**31) % 2**32 - 2**31
    assert read(binary([Request(), Request(start=1)]).replace(number(41), number(low))).total().attempts == 1
