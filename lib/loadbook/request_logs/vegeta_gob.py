"""Binary results of vegeta, as `vegeta attack` leaves them: a stream of Go's encoding/gob, read by array operations.

The stream is a sequence of messages, each with its length in front. The first ones define types: Result, a struct with
the columns of vegeta_rows in their order, and the types of its start (Time) and of its headers. Each further message is
one result, in which fields of value zero are left out. Numbers below 128 are one byte; others have their number of
bytes, negated, in front. A time is 15 bytes: version, seconds since the year 1, nanoseconds and zone.

Whole messages of a block are decoded together, field by field: a cursor for each message says where its next field is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadbook.core.errors import ParseError
from loadbook.request_logs import stream as log_stream
from loadbook.request_logs.stream import Bytes, Ints, RequestBatch
from loadbook.request_logs.vegeta_rows import CSV_COLUMNS, FEWEST_COLUMNS, INTERVAL_PROPERTY, TOOL, Rows

INT, UINT, BYTES, TEXT = 2, 3, 5, 6  # numbers of Go's own types, gob/type.go
MAP_TYPE, TIME_TYPE = 4, 5  # kinds of definitions, gob/type.go, wireType
# names of the fields of Result and their types; 0 is a type of its own
FIELDS = {
    "Attack": TEXT, "Seq": UINT, "Code": UINT, "Timestamp": 0, "Latency": INT, "BytesOut": UINT, "BytesIn": UINT,
    "Error": TEXT, "Body": BYTES, "Method": TEXT, "URL": TEXT, "Headers": 0,
}  # fmt: skip
COLUMN_OF = {name: name.lower() for name in FIELDS} | {"BytesOut": "bytes_out", "BytesIn": "bytes_in"}
assert set(COLUMN_OF.values()) == set(CSV_COLUMNS)
UNIX_EPOCH_S = 62_135_596_800  # seconds since the year 1
MAX_MESSAGE_BYTES = 1 << 28  # a result with its body
HEAD_BYTES = 1 << 16  # the definitions and the first result
PADDING = bytes(16)  # after the messages, so that a number at their end is read like others


def read_gob(stream: BufferedReader, file: str, properties: Mapping[str, str] | None = None) -> Iterator[RequestBatch]:
    """Yield the results of a file in its order; properties as for `vegeta_rows.read_vegeta`.

    Raises
    ------
    ParseError : the file is cut, has a message that is no result, or a result that is impossible; it names the byte at
        which the message begins. The results before it may have been yielded.
    """
    head = stream.read(HEAD_BYTES)
    layout = _read_layout(head, file)
    rows = Rows(file, (properties or {}).get(INTERVAL_PROPERTY), line=0)
    blocks = _split(stream, file, head[layout.end :], layout.end)
    for block, ready in log_stream.parsed_ahead(blocks, layout.table):
        error = ready.exception()
        if isinstance(error, _BadMessageError):
            raise _refusal(file, block.offset + block.begins[error.row], f"not a result of vegeta's: {error}")
        rows.offsets = block.offset + np.array(block.begins)
        yield rows.batch(ready.result(), 0)
    yield from rows.lost()


class Block(NamedTuple):
    """Whole messages: their bytes and PADDING, where each begins, where the last one ends, the offset in the file."""

    data: bytearray
    begins: list[int]
    end: int
    offset: int


class _BadMessageError(Exception):
    """The message of index `row` in its block is no result."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row = row


def _refusal(file: str, offset: int, text: str) -> ParseError:
    return ParseError(TOOL, file, 0, f"byte {offset}: {text}")


def _split(stream: BufferedReader, file: str, first: bytes, offset: int) -> Iterator[Block]:
    """Yield the messages of `first`, which is at `offset`, and of the rest of the stream, in blocks."""
    data, step = bytearray(first), log_stream.FIRST_BLOCK_BYTES
    while data:
        size = len(data)
        data += PADDING
        begins, end = _message_begins(data, size, file, offset)
        remainder = data[end:size]
        if begins:
            yield Block(data, begins, end, offset)
        offset += end
        data, step = log_stream.read_after(remainder, stream, step), log_stream.BLOCK_BYTES
    if remainder:
        raise _refusal(file, offset, "the file ends within the result that begins here")


def _message_begins(data: Bytes, size: int, file: str, offset: int) -> tuple[list[int], int]:
    """Return where the whole messages in the first `size` bytes begin, and where the last one ends.

    ParseError for a length that is impossible; `offset` is where `data` is in the file.
    """
    begins: list[int] = []
    at = 0
    add = begins.append
    while True:
        first = data[at]
        if first == 0xFE:
            after = at + 3 + (data[at + 1] << 8 | data[at + 2])
        elif first < 0x80:
            after = at + 1 + first
        else:
            width = 256 - first
            length = int.from_bytes(data[at + 1 : at + 1 + width], "big")
            if width > 8 or (at + width < size and length > MAX_MESSAGE_BYTES):
                raise _refusal(file, offset + at, "the length of a message is impossible")
            after = at + 1 + width + length
        if after > size:
            return begins, at
        add(at)
        at = after


class _Definition:
    """Cursor over one message that defines a type; IndexError if it is cut."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def unsigned(self) -> int:
        first = self.data[self.at]
        begin, width = self.at + 1, 0 if first < 0x80 else 256 - first
        self.at = begin + width
        return int.from_bytes(self.data[begin : self.at], "big") if width else first

    def signed(self) -> int:
        value = self.unsigned()
        return ~(value >> 1) if value & 1 else value >> 1

    def struct(self) -> dict[str, int]:
        """Return {name of a field: number of its type} of a struct's definition, behind the kind of the type."""
        self._expect(1)  # its name and number
        self._named()
        self._expect(1)  # its fields
        fields = dict(self._named() for _ in range(self.unsigned()))
        self._expect(0)
        self._expect(0)
        return fields

    def _named(self) -> tuple[str, int]:
        """Return a name and the number of a type, which are a struct of their own."""
        self._expect(1)
        begin = self.unsigned() + self.at  # the end of the name, while at is its beginning
        name, self.at = self.data[self.at : begin].decode(), begin
        self._expect(1)
        number = self.signed()
        self._expect(0)
        return name, number

    def _expect(self, number: int) -> None:
        if self.unsigned() != number:
            raise ValueError(f"not {number} at byte {self.at - 1}")


@dataclass(frozen=True)
class _Layout:
    """Fields of Result as a file defines them; `end` is the offset of the first message that is a result."""

    number: int
    fields: tuple[str, ...]
    end: int

    def table(self, block: Block) -> pa.Table:
        """Return the columns that `Rows` needs; _BadMessageError for the first message that is no result."""
        messages = _Messages(block)
        types = messages.uints(slice(None))
        messages.check(types % 2 == 1, "types are defined again: results of several attacks, to be read one by one")
        messages.check(types != 2 * self.number, "of another type")
        columns: dict[str, Any] = {}
        field = messages.deltas(slice(None)) - 1
        for index, name in enumerate(self.fields):
            here = field == index
            rows: Any = slice(None) if here.all() else np.flatnonzero(here)
            column = messages.column(name, rows)
            if column is not None:
                columns[COLUMN_OF[name]] = column
            step = messages.deltas(rows)
            field[rows] += np.where(step == 0, len(FIELDS), step)
        messages.check((field < len(FIELDS)) | (messages.at != messages.ends), "a field has another length")
        return pa.table(columns)


class _Messages:
    """The messages of a block, and for each of them a cursor `at`; methods read at the cursors and move them.

    `rows` are the messages that are read: their indexes, or a slice of all.
    """

    def __init__(self, block: Block) -> None:
        self.bytes = np.frombuffer(block.data, np.uint8)
        self.words: NDArray[np.uint64] = np.ndarray(len(block.data) - 7, "<u8", block.data, strides=(1,))
        self.at = np.array(block.begins)
        self.ends = np.append(self.at[1:], block.end)
        self.uints(slice(None))  # the lengths

    def check(self, wrong: NDArray[np.bool_], text: str, rows: Any = slice(None)) -> None:
        """Raise _BadMessageError for the first of `rows` that is wrong."""
        if wrong.any():
            raise _BadMessageError(int(np.arange(len(self.at))[rows][np.argmax(wrong)]), text)

    def deltas(self, rows: Any) -> Ints:
        """Return how many fields further the next one is, 0 at the end of the struct."""
        deltas = self.bytes[self.at[rows]].astype(np.int64)
        self.at[rows] += 1
        return deltas

    def uints(self, rows: Any) -> Ints:
        """Return unsigned numbers of up to seven bytes."""
        at = self.at[rows]
        word = self.words[at].byteswap()
        first = (word >> np.uint64(56)).view(np.int64)
        small = first < 0x80
        width = np.where(small, 0, 256 - first)
        self.check(width > 7, "a number is too large", rows)
        self._move(rows, at + 1 + width)
        shift = np.where(small, 0, 64 - 8 * width).view(np.uint64)
        return np.where(small, first, ((word << np.uint64(8)) >> shift).view(np.int64))

    def column(self, name: str, rows: Any) -> Any:
        """Return the values of a field, zero or empty for other messages than `rows`; None for a field not needed."""
        if name == "Timestamp":
            absent = np.ones(len(self.at), bool)
            absent[rows] = False
            self.check(absent, "it has no start")
            return self._times()
        if name == "Headers":
            self.at[rows] = self.ends[rows] - 1
            return None
        numbers = self.uints(rows)
        if FIELDS[name] in (TEXT, BYTES):
            begins = self.at[rows].copy()
            self._move(rows, begins + numbers)
            return self._texts(begins, numbers, rows) if name in ("Error", "URL") else None
        if name == "Latency":
            self.check((numbers & 1) == 1, "its latency is below zero", rows)
            numbers = numbers >> 1
        if name == "BytesOut":
            return None
        values = np.zeros(len(self.at), np.int64)
        values[rows] = numbers
        return values

    def _times(self) -> Ints:
        """Return the starts in ns since 1970; all messages have one."""
        at = self.at
        size, version = self.bytes[at], self.bytes[at + 1]  # version 2 has seconds of the zone
        self.check((size != 14 + version) | (version < 1) | (version > 2), "its start is no time of Go")
        seconds = self.words[at + 2].byteswap().view(np.int64) - UNIX_EPOCH_S
        nanoseconds = (self.words[at + 10].byteswap() >> np.uint64(32)).view(np.int64)
        self.check((abs(seconds) >= 9 * 10**9) | (nanoseconds >= 10**9), "its start is no time of Go")
        self._move(slice(None), at + 1 + size)
        return seconds * 10**9 + nanoseconds

    def _texts(self, begins: Ints, sizes: Ints, rows: Any) -> pa.DictionaryArray:
        """Return the texts at `begins` for `rows`, empty ones for others; _BadMessageError if one is no UTF-8."""
        lengths = np.zeros(len(self.at), np.int64)
        lengths[rows] = sizes
        ends = np.append(0, np.cumsum(lengths))
        places = np.repeat(begins - ends[:-1][rows], sizes) + np.arange(ends[-1])
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(self.bytes[places])]
        texts = pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers).dictionary_encode()
        numbers = log_stream.to_numpy(texts.indices)
        values = [_decoded(text) for text in texts.dictionary.to_pylist()]
        self.check(np.array([text is None for text in values], bool)[numbers], "a text is no UTF-8")
        return log_stream.dictionary_array(numbers, [text or "" for text in values])

    def _move(self, rows: Any, at: Ints) -> None:
        """Set the cursors; _BadMessageError if one is behind its message."""
        self.check(at > self.ends[rows], "a field is longer than its message", rows)
        self.at[rows] = at


def _decoded(text: bytes) -> str | None:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


def _read_layout(head: bytes, file: str) -> _Layout:
    """Return the layout that the definitions at the beginning of a file give."""
    kinds: dict[int, int] = {}
    fields: dict[str, int] = {}
    number = begin = after = 0
    while True:
        message = _Definition(head, begin)
        try:
            after = message.unsigned() + message.at
            kind_of = message.signed()
            if kind_of > 0:
                _check_layout(fields, kinds)
                return _Layout(number, tuple(fields), begin)
            kinds[-kind_of] = message.unsigned()
            if not number:
                number, fields = -kind_of, message.struct()
                if message.at != after:
                    raise ValueError("a definition has another length")
        except IndexError:
            raise _refusal(file, begin, "the file ends here, before the first result") from None
        except ValueError as error:
            text = "not the types of vegeta's results, or of a version that is not known"
            raise _refusal(file, begin, f"{text}: {error}") from None
        begin = after


def _check_layout(fields: Mapping[str, int], kinds: Mapping[int, int]) -> None:
    """Raise ValueError if the fields are not those of vegeta, of its types and in its order."""
    if list(fields) != list(FIELDS)[: len(fields)] or len(fields) < FEWEST_COLUMNS:
        raise ValueError(f"fields {', '.join(fields)}")
    for name, number in fields.items():
        kind = {"Timestamp": TIME_TYPE, "Headers": MAP_TYPE}.get(name)
        if number != FIELDS[name] if kind is None else kinds.get(number) != kind:
            raise ValueError(f"type of {name}")
