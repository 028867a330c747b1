"""vegeta's binary results: right rows from streams that are written here, and a refusal of what is cut or changed."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from loadbook.core.errors import ParseError
from loadbook.request_logs import stream as log_stream
from loadbook.request_logs import vegeta_gob
from loadbook.request_logs.read import read_batches, summarise
from loadbook.request_logs.stream import RequestBatch
from tool_captures import FIXTURES

CAPTURE = (FIXTURES / "vegeta" / "12.13.0--gob.stdout").read_bytes()
RESULT, TIME, HEADER, VALUES = 64, 65, 67, 66  # numbers of types, as vegeta 12 gives them
START_NS = 1_795_383_688_999_650_536
CSV_FIELDS = ("Timestamp", "Code", "Latency", "BytesOut", "BytesIn", "Error", "Body", "Attack", "Seq", "Method", "URL")


def unsigned(number: int) -> bytes:
    if number < 128:
        return bytes([number])
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes([256 - len(data)]) + data


def signed(number: int) -> bytes:
    return unsigned(number << 1 if number >= 0 else ~number << 1 | 1)


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return unsigned(len(data)) + data


def message(content: bytes) -> bytes:
    return unsigned(len(content)) + content


def named(name: str, number: int) -> bytes:
    return b"\x01" + text(name) + b"\x01" + signed(number) + b"\0"


def definitions(types: Mapping[str, int] = vegeta_gob.FIELDS, shift: int = 0, kind_of_time: int = 5) -> bytes:
    own = {"Timestamp": TIME + shift, "Headers": HEADER + shift}
    struct = b"".join(named(name, own.get(name, number)) for name, number in types.items())
    result = b"\x03\x01" + named("Result", RESULT + shift) + b"\x01" + unsigned(len(types)) + struct + b"\0\0"
    time = bytes([kind_of_time]) + b"\x01" + named("Time", TIME + shift) + b"\0\0"
    header = b"\x04\x01" + named("Header", HEADER + shift) + b"\x01\x0c\x01" + signed(VALUES + shift) + b"\0\0"
    texts = b"\x02\x01\x02" + signed(VALUES + shift) + b"\0\x01\x0c\0\0"
    kinds = {RESULT: result, TIME: time, HEADER: header, VALUES: texts}
    return b"".join(message(signed(-number - shift) + kind) for number, kind in kinds.items())


def result(shift: int = 0, zone: bytes = b"\x01\x00\x3c", **values: object) -> bytes:
    """Return one result; `zone` is the version of the time, and its zone."""
    values = {"Timestamp": START_NS, "Code": 200, "Latency": 530_041, "Method": "GET", "URL": "http://a/b?c=1"} | values
    content, last = signed(RESULT + shift), -1
    for place, (name, kind) in enumerate(vegeta_gob.FIELDS.items()):
        if not (value := values.get(name)):
            continue
        content += unsigned(place - last)
        last = place
        if name == "Timestamp":
            seconds, ns = divmod(int(value), 10**9)  # type: ignore[call-overload]
            time = (seconds + vegeta_gob.UNIX_EPOCH_S).to_bytes(8, "big") + ns.to_bytes(4, "big")
            content += text(zone[:1] + time + zone[1:])
        elif name == "Headers":
            content += b"\x01" + text("Server") + b"\x01" + text(str(value))
        elif kind in (vegeta_gob.TEXT, vegeta_gob.BYTES):
            content += text(value)  # type: ignore[arg-type]
        else:
            content += (signed if kind == vegeta_gob.INT else unsigned)(value)  # type: ignore[arg-type]
    return message(content + b"\0")


def csv_row(**values: object) -> bytes:
    values = {"Timestamp": START_NS, "Code": 200, "Latency": 530_041, "Method": "GET", "URL": "http://a/b?c=1"} | values
    columns = [str(values.get(name, "" if vegeta_gob.FIELDS[name] > 3 else 0)) for name in CSV_FIELDS]
    return (",".join('"' + column.replace('"', '""') + '"' for column in columns) + ",\n").encode()


def read(data: bytes) -> list[RequestBatch]:
    return list(read_batches(data, "vegeta", file="r.bin", properties={"interval_ns": "10000000"}))


def columns(batches: Sequence[RequestBatch]) -> dict[str, list[object]]:
    batches = [batch for batch in batches if len(batch)]
    found = {f.name: [getattr(batch, f.name) for batch in batches] for f in fields(RequestBatch)}
    names = [name for batch in batches for name in np.array(batch.labels, object)[batch.label]]
    arrays = {name: np.concatenate(all_).tolist() for name, all_ in found.items() if isinstance(all_[0], np.ndarray)}
    return arrays | {"label": names}


SEVERAL: list[dict[str, Any]] = [
    {"Attack": "ä", "Headers": "nginx"},
    {"Seq": 1, "Timestamp": START_NS + 7_000_001, "Code": 503, "BytesIn": 5_000_000_000, "Body": b"x" * 300},
    {"Seq": 2, "Timestamp": START_NS + 9, "Code": 0, "Error": 'Get "http://a/": EOF', "Latency": 2**48},
    {"Seq": 300, "BytesOut": 7, "URL": "http://b:81/ü", "Headers": "x" * 200},
    {"Seq": 4, "Code": 0, "Error": "dial tcp: connection refused", "Latency": 0},
    {"Seq": 3, "Method": "", "URL": "http://a/b?c=1"},
]


def test_results_are_those_of_the_same_rows_in_csv() -> None:
    gob = definitions() + b"".join(result(**values) for values in SEVERAL)
    csv = b"".join(csv_row(**values) for values in SEVERAL)
    assert columns(read(gob)) == columns(read(csv))


@pytest.mark.parametrize("block_bytes", [1, 100, 5000])
def test_results_are_the_same_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch, block_bytes: int) -> None:
    data = definitions() + b"".join(result(Seq=i, Latency=1000 * i, Body=b"b" * (i % 700)) for i in range(1500))
    whole = columns(read(data))
    assert whole["elapsed"] == list(range(1500))
    monkeypatch.setattr(log_stream, "BLOCK_BYTES", 997 * block_bytes)
    monkeypatch.setattr(log_stream, "FIRST_BLOCK_BYTES", block_bytes * 50)
    monkeypatch.setattr(vegeta_gob, "HEAD_BYTES", 400)
    assert columns(read(data)) == whole


def test_body_that_is_longer_than_a_block_is_read() -> None:
    data = definitions() + result(Body=b"b" * 10_000_000) + result(Seq=1, Body=b"b" * 9_000_000)
    assert columns(read(data))["status"] == [200, 200]


def test_other_numbers_of_types_fewer_columns_and_zones_with_seconds_are_read() -> None:
    plain = columns(read(definitions() + result()))
    assert columns(read(definitions(shift=9) + result(shift=9))) == plain
    assert columns(read(definitions() + result(zone=b"\x02\x00\x3c\x07"))) == plain
    old = {name: kind for name, kind in vegeta_gob.FIELDS.items() if name not in ("Method", "URL", "Headers")}
    assert columns(read(definitions(old) + result(Method="", URL=""))) == plain | {"label": [""]}


def test_capture_that_is_cut_is_refused_or_has_only_whole_results() -> None:
    ends = [match.start() for match in re.finditer(rb"(?:\xfe..|\xff.)\xff\x80[\x02\x03]", CAPTURE, re.DOTALL)]
    assert len(ends) == 60
    for size in sorted({*range(1, len(CAPTURE), 29), *ends}):
        if size in ends[1:]:  # between two results, which cannot be seen
            assert summarise(CAPTURE[:size], "vegeta").total().attempts == ends.index(size)
            continue
        with pytest.raises(ParseError) as refused:
            read(CAPTURE[:size])
        begin = max(end for end in (0, *ends) if end < size or end == 0)
        assert size <= ends[0] or f"r.bin: byte {begin}: the file ends " in str(refused.value)


def test_capture_with_changed_bits_is_refused_or_has_possible_numbers() -> None:
    draw = random.Random(28)
    for _ in range(1000):
        data = bytearray(CAPTURE)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        try:
            total = summarise(bytes(data), "vegeta").total()
        except ParseError:
            continue
        assert total.attempts == 60 and total.ok + total.errors == 60


def test_changed_digit_of_a_latency_changes_just_its_value() -> None:
    data = definitions() + result() + result(Seq=1)
    changed = columns(read(data.replace(signed(530_041), signed(530_041 + 65_536 * 4), 1)))
    assert changed["elapsed"] == [792, 530]
    assert changed | {"elapsed": []} == columns(read(data)) | {"elapsed": []}


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ({"Latency": vegeta_gob.UINT}, "type of Latency"),
        ({"Seq": vegeta_gob.INT}, "type of Seq"),
        ({"Bytes": vegeta_gob.UINT}, "fields Attack, .*Bytes"),
    ],
)
def test_results_with_other_fields_or_types_are_refused(types: dict[str, int], words: str) -> None:
    with pytest.raises(ParseError, match=rf"r.bin: byte \d+: .*version that is not known: {words}"):
        read(definitions(vegeta_gob.FIELDS | types) + result())


def test_fields_in_another_order_and_times_of_another_kind_are_refused() -> None:
    swapped = {name: vegeta_gob.FIELDS[name] for name in ("Attack", "Code", "Seq", *list(vegeta_gob.FIELDS)[3:])}
    for head, words in ((definitions(swapped), "fields Attack, Code, Seq"), (definitions(kind_of_time=6), "Timestamp")):
        with pytest.raises(ParseError, match=words):
            read(head + result())


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (result(Seq=1).replace(signed(530_041), signed(-530_041)), "latency is below zero"),
        (result(Seq=1, Code=99), "start, status or latency is impossible"),
        (result(Seq=1, Code=70_000), "start, status or latency is impossible"),
        (result(Seq=1, Latency=2**52), "start, status or latency is impossible"),
        (result(Seq=1, Latency=2**60), "a number is too large"),
        (result(Seq=1, Timestamp=0), "it has no start"),
        (result(Seq=1, Timestamp=START_NS + 31 * 86_400 * 10**9), "30 days"),
        (result(Seq=1, zone=b"\x03\x00\x3c"), "its start is no time of Go"),
        (result(Seq=1, URL=b"http://a/\xff"), "a text is no UTF-8"),
        (result(), "request 0 is there twice"),
        (result(shift=1), "of another type"),
        (definitions() + result(), "types are defined again: results of several attacks"),
        (b"\0", "not a result"),
        (b"\xf0" + bytes(30), "length of a message is impossible"),
        (b"\xf8" + b"\x7f" * 30, "length of a message is impossible"),
        (message(result(Seq=1)[1:] + b"\0"), "a field has another length"),
        (message(result(Seq=1)[1:-1] + b"\x0d\0"), "a field has another length"),
        (result(Seq=1).replace(b"\x0ehttp", b"\x7fhttp"), "a field is longer than its message"),
        (result(Seq=1).replace(b"\x0ehttp", b"\x0dhttp"), "a field has another length"),
    ],
)
def test_message_that_is_no_possible_result_is_refused_with_its_byte(broken: bytes, words: str) -> None:
    good = definitions() + result()
    with pytest.raises(ParseError, match=words) as refused:
        read(good + broken + result(Seq=2))
    assert f"r.bin: byte {len(good)}: " in str(refused.value) or "twice" in words


def test_missing_results_are_a_doubt() -> None:
    summary = summarise(definitions() + result() + result(Seq=3), "vegeta")
    assert summary.damage_counts == {"lost": 1} and summary.total().attempts == 2
