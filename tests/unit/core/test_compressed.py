"""Files in UTF-16 are read as UTF-8, in blocks, compressed or not; binary logs are not taken for such."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from loadbook.core import compressed
from tool_captures import FIXTURES

TEXT = "timeStamp,elapsed,label\r\n1795213013466,264,Grüße 😀\r\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("form", ["plain", "gzip", "zstd"])
def test_utf_16_is_read_as_utf_8(encoding: str, form: str, tmp_path: Path) -> None:
    data = (TEXT * 5000).encode(encoding)
    packed = {"plain": data, "gzip": gzip.compress(data), "zstd": pa.compress(data, "zstd", asbytes=True)}[form]
    (tmp_path / "out.jtl").write_bytes(packed)
    with compressed.open_plain(tmp_path / "out.jtl") as file:
        assert file.read() == (TEXT * 5000).encode()


@pytest.mark.parametrize("form", ["plain", "gzip", "zstd"])
def test_utf_8_stays_byte_for_byte(form: str, tmp_path: Path) -> None:
    data = TEXT.encode()
    packed = {"plain": data, "gzip": gzip.compress(data), "zstd": pa.compress(data, "zstd", asbytes=True)}[form]
    (tmp_path / "out.jtl").write_bytes(packed)
    with compressed.open_plain(tmp_path / "out.jtl") as file:
        assert file.read(len(data)) == data


@settings(max_examples=examples(50))
@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 7))
def test_utf_16_is_divided_anywhere(text: str, size: int) -> None:
    source = io.BytesIO(text.encode("utf-16-le"))
    reader = compressed._Utf8(source, "utf-16-le")
    parts = bytearray()
    while part := reader.read(size):
        parts += part
    assert parts.decode() == text.removeprefix("\ufeff")


def test_cut_utf_16_is_marked(tmp_path: Path) -> None:
    (tmp_path / "out.jtl").write_bytes(TEXT.encode("utf-16")[:-1])
    with compressed.open_plain(tmp_path / "out.jtl") as file:
        assert file.read() == TEXT.encode()[:-1] + "\ufffd".encode()


@pytest.mark.parametrize("pattern", ["gatling/**/*.log", "vegeta/*.bin", "vegeta/*.gob", "*/*.stdout", "*/*.jtl"])
def test_captures_are_no_utf_16(pattern: str) -> None:
    assert not [path for path in FIXTURES.glob(pattern) if compressed.utf_16(path.read_bytes()[:64])]
