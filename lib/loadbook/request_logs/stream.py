"""Common output of the log readers: batches of rows as arrays, with the same columns for every tool.

Also: splitting of a stream into blocks of whole records at line ends outside quotes, and conversion between numpy and
pyarrow without copies and without importing pandas (0.3 s).

pyarrow reads the blocks: it refuses every row with another number of fields, and numbers equal texts as it reads.
polars 2.1 accepts short rows, and takes as long for the same columns once its texts are numbered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from enum import IntEnum
from io import BufferedIOBase
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv
from pyarrow import json as arrow_json

from loadbook.core.errors import ParseError

Ints = NDArray[np.int64]
Bytes = bytes | bytearray
B = TypeVar("B")
T = TypeVar("T")
# outcomes of an attempt, which are also names of metrics; ok must be the first
OUTCOMES = (
    "ok", "errors_connect", "errors_timeout", "errors_read", "errors_write",
    "errors_status", "errors_length", "errors_driver", "errors_other",
)  # fmt: skip
OUTCOME_NAMES = (*OUTCOMES, "unknown")  # ab's log has no outcomes
OUTCOME_CODES = {name: code for code, name in enumerate(OUTCOME_NAMES)}
MAX_SPAN_US = 30 * 86400 * 10**6
BLOCK_BYTES = 5 << 20
FIRST_BLOCK_BYTES = 1 << 18  # most logs are small
COPIED_ROWS = 5  # that are the same by their times are a copy
COPIED = f"the first {COPIED_ROWS} rows come again here: the file holds a run twice; remove one of its copies"
PARSERS = 2  # blocks that are parsed at a time
MAX_RECORD_BYTES = 1 << 20  # a record longer than this is a quote that was never closed
TEXT_TYPE = pa.dictionary(pa.int32(), pa.string())


class LogRowKind(IntEnum):
    """Kind of a log row; totals include only requests, and the counts (not times) of aggregates."""

    REQUEST = 0
    TRANSACTION = 1  # JMeter's transaction controller: its children have rows of their own
    PART = 2  # JMeter's sub-result: a redirect or embedded resource, already in its parent's time
    AGGREGATE = 3  # several requests in one row (SampleCount is not 1), without the time of each


def first_far_row(start_us: Ints, first_us: int) -> int | None:
    """Return the index of the first row that starts over 30 days before or after `first_us`; None if there is none.

    `start_us` must not be empty.
    """
    if max(first_us - int(start_us.min()), int(start_us.max()) - first_us) <= MAX_SPAN_US:
        return None
    return int(np.argmax(np.abs(start_us - first_us) > MAX_SPAN_US))


class Damage(NamedTuple):
    """A defect of a log file: `name` of its kind (torn: the last row is cut; nul, ...), line (from 1) and message."""

    name: str
    line: int
    message: str


@dataclass
class RequestBatch:
    """Consecutive rows of one log; arrays have one element per row. Times are whole ticks of `tick_us` microseconds.

    Parameters
    ----------
    label : index of each row's label in `labels`.
    elapsed : duration in ticks.
    outcome : index of the outcome in OUTCOME_NAMES.
    answered : whether a response of any status was received.
    status : HTTP status, 0 if there is none.
    kind : value of LogRowKind.
    start_us : microseconds since 1970 by the driver's clock; None if the log has no times of day.
    exact_starts : False if starts are whole seconds (ab), which are too coarse for a duration.
    timed : whether the row's duration is that of a request; None if this is so for all rows.
    first_byte : ticks to the first byte; received : bytes; each None if the log lacks them.
    connect : ticks to open the connection, 0 if none was opened; None if the log lacks them.
    samples, failed : JMeter's SampleCount and ErrorCount, None if all rows are single requests.
    not_started : number of requests that should have started, but for which no user of the tool was free.
    received_apart : bytes that the log counts apart from its requests; None if it has no such rows.
    lateness_us : microseconds from each request's place in an even schedule to its start, all shifted by one unknown
        number (the start of the schedule); None if the requests had no schedule, or it is not known.
    least_lateness_us : the least of all these numbers, of requests that the log does not have, too; None if not known.
    damage : defects of the file between the rows.
    """

    labels: list[str]
    label: NDArray[np.integer]
    elapsed: Ints
    outcome: NDArray[np.uint8]
    answered: NDArray[np.bool_]
    status: NDArray[np.int16]
    kind: NDArray[np.uint8]
    tick_us: int
    start_us: Ints | None = None
    exact_starts: bool = True
    timed: NDArray[np.bool_] | None = None
    first_byte: Ints | None = None
    received: Ints | None = None
    connect: Ints | None = None
    samples: Ints | None = None
    failed: Ints | None = None
    lateness_us: Ints | None = None
    least_lateness_us: int | None = None
    not_started: int = 0
    received_apart: int | None = None
    damage: list[Damage] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.elapsed)

    def started_since(self, started_s: float | None) -> RequestBatch:
        """Return the rows that started at `started_s` (s since 1970, driver's clock) or later.

        Returns all rows if it is None, or if the log has no exact starts.
        """
        if started_s is None or self.start_us is None or not self.exact_starts:
            return self
        return self.take(self.start_us >= int(started_s * 1e6))

    def take(self, mask: NDArray[np.bool_]) -> RequestBatch:
        """Return the rows where `mask` is true, with an empty list of damage."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        taken: dict[str, Any] = {name: a[mask] if isinstance(a, np.ndarray) else a for name, a in arrays.items()}
        return RequestBatch(**taken | {"damage": [], "not_started": 0, "received_apart": None})


class RecordBlock(NamedTuple):
    """Bytes of whole records; `is_complete` is False only for a truncated last record, in a block of its own.

    `has_quotes` is whether the bytes contain a double quote, so that a line end may be part of a field. `copy_line` is
    the line, counted from the first one of the block, at which the first COPIED_ROWS records of the stream come again
    (below 0 if they begin in the block before), None if they do not.
    """

    data: Bytes
    has_quotes: bool
    is_complete: bool
    copy_line: int | None = None


def first_text(data: Bytes) -> str:
    """Return the first 60 bytes as text in quotes, for error messages."""
    return repr(data[:60].decode(errors="replace"))


def empty_batch(damage: Damage) -> RequestBatch:
    """Return a batch without rows, for a defect behind the last row."""
    none = np.zeros(0, np.int64)
    statuses, codes = none.astype(np.int16), none.astype(np.uint8)
    return RequestBatch([""], none, none, codes, none.astype(bool), statuses, codes, 1, start_us=none, damage=[damage])


def torn_batch(block: RecordBlock, line: int) -> RequestBatch:
    """Return an empty batch with the damage "torn" for a last row without a line end."""
    message = f"the file ends within a row, which is not counted: {first_text(block.data)}"
    return empty_batch(Damage("torn", line, message))


def parse_csv(block: RecordBlock, names: Sequence[str], types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return the columns that are keys of `types` from a block of CSV whose columns are `names`, without a header.

    ArrowInvalid if a value does not have its column's type.
    """
    return arrow_csv.read_csv(
        pa.py_buffer(block.data),
        arrow_csv.ReadOptions(column_names=list(names), use_threads=False, block_size=len(block.data) + 1),
        arrow_csv.ParseOptions(newlines_in_values=block.has_quotes, ignore_empty_lines=False),
        arrow_csv.ConvertOptions(column_types=dict(types), include_columns=list(types), null_values=[]),
    )


def parse_json_lines(block: RecordBlock, schema: pa.Schema) -> pa.Table:
    """Return the keys in `schema` of a block of JSON objects, one a line, with null for missing ones.

    ArrowInvalid for a line that is no object, or a value of another type.
    """
    return arrow_json.read_json(
        pa.py_buffer(block.data),
        arrow_json.ReadOptions(use_threads=False, block_size=len(block.data) + 1),
        arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def path_labels(names: pa.DictionaryArray) -> tuple[list[str], NDArray[np.int32]]:
    """Return (labels, index of each row's label) of requests by their names.

    The label of a URL is its path, since hosts differ between trials; that of another name is the name.
    """
    labels = [_path_label(name) for name in names.dictionary.to_pylist()]
    return labels or [""], to_numpy(names.indices).astype(np.int32)


def _path_label(name: str) -> str:
    try:
        return urlsplit(name).path if "://" in name else name
    except ValueError:  # an address in brackets that is none
        return name


def split_blocks(stream: BufferedIOBase, size: int | None = None, quotes: bool = True) -> Iterator[RecordBlock]:
    """Split a stream at line ends into blocks of about `size` bytes; the rest after the last one is incomplete.

    A line end is inside quotes if an odd number of quotes precedes it in its block, since quotes within a quoted field
    are doubled. If `quotes` is False, every line end counts. A record longer than MAX_RECORD_BYTES ends the blocks as
    an incomplete one, which readers reject.
    """
    remainder, limit = bytearray(), size or BLOCK_BYTES
    step = min(limit, FIRST_BLOCK_BYTES)
    copies: _Copies | None = None
    while data := read_after(remainder, stream, step):
        step = limit
        has_quotes = b'"' in data
        end = data.rfind(b"\n") + 1
        if quotes and has_quotes:
            ends = record_ends(data)
            end = int(ends[-1]) if len(ends) else 0
        if not end and len(remainder) > MAX_RECORD_BYTES:
            remainder = data
            break
        remainder = data[end:]
        if end:
            del data[end:]
            copies = copies or _Copies(data)
            yield RecordBlock(data, has_quotes, True, copies.line_in(data))
    if remainder:
        yield RecordBlock(remainder, b'"' in remainder, False)


class _Copies:
    """Search for the first COPIED_ROWS records of a stream in its blocks, whose first one is `data`."""

    def __init__(self, data: Bytes) -> None:
        ends = record_ends(data[:FIRST_BLOCK_BYTES])
        self._rows = bytes(data[: ends[COPIED_ROWS - 1]]) if len(ends) >= COPIED_ROWS else b""
        self._before = b""  # the end of the block before, in which they may begin
        self._is_first = True

    def line_in(self, data: Bytes) -> int | None:
        """Return the line of the next block, counted from its first one, at which they begin; None if they do not."""
        if not self._rows:
            return None
        found = (self._before + data[: len(self._rows)]).find(self._rows)
        if 0 <= found < len(self._before):
            return -self._before.count(b"\n", found)
        found = data.find(self._rows, self._is_first)
        self._before, self._is_first = bytes(data[1 - len(self._rows) :]), False
        return data.count(b"\n", 0, found) if found >= 0 else None


def refuse_copy(block: RecordBlock, tool: str, file: str, line: int) -> None:
    """Raise ParseError if a log holds its first rows twice; the block begins at `line`.

    Rows have times of day: the same rows again are the same requests, which would count twice.
    """
    if block.copy_line is not None:
        raise ParseError(tool, file, line + block.copy_line, COPIED)


def read_after(start: bytearray, stream: BufferedIOBase, size: int) -> bytearray:
    """Return `start` and up to `size` further bytes of the stream, copied once; nothing at its end."""
    data = bytearray(len(start) + size)
    with memoryview(data) as view:
        view[: len(start)] = start
        count = stream.readinto(view[len(start) :])
    del data[len(start) + count if count else 0 :]
    return data


def parsed_ahead(blocks: Iterable[B], parse: Callable[[B], T]) -> Iterator[tuple[B, Future[T]]]:
    """Yield each block with the future of `parse(block)`, in order; PARSERS threads parse later blocks meanwhile."""
    with ThreadPoolExecutor(PARSERS) as pool:
        waiting: deque[tuple[B, Future[T]]] = deque()
        for block in blocks:
            waiting.append((block, pool.submit(parse, block)))
            if len(waiting) > PARSERS:
                yield waiting.popleft()
        yield from waiting


def first_bad_row(
    block: RecordBlock, line: int, parse: Callable[[RecordBlock], object], *, is_csv: bool
) -> tuple[int, str]:
    """Return the line and the quoted beginning of the first row that `parse` refuses, of a block that begins at `line`.

    `parse` raises ArrowInvalid for every block that has this row.
    """
    data = bytes(block.data)
    ends = record_ends(data) if is_csv else np.flatnonzero(np.frombuffer(data, np.uint8) == 0x0A) + 1

    def is_refused(row: int) -> bool:
        try:
            parse(RecordBlock(data[: ends[row]], block.has_quotes, True))
        except pa.ArrowInvalid:
            return True
        return False

    bad = bisect_left(range(len(ends) - 1), True, key=is_refused)  # the last one, if none before is
    start = int(ends[bad - 1]) if bad else 0
    return line + data.count(b"\n", 0, start), first_text(data[start : ends[bad]].rstrip(b"\r\n"))


def lines_of(block: RecordBlock, rows: int) -> int:
    """Return the number of lines of a block of `rows` rows; only quotes can contain further line ends."""
    return block.data.count(b"\n") if block.has_quotes else rows


def record_ends(data: Bytes) -> NDArray[np.int64]:
    """Return the offset after each line end that is not inside quotes; `data` begins at the start of a record."""
    text = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(text == 0x22)
    ends = np.flatnonzero(text == 0x0A)
    return ends[np.searchsorted(quotes, ends) % 2 == 0] + 1


def well_quoted(data: Bytes, separator: str) -> bool:
    """Return whether quotes only enclose whole fields or are doubled within them; `data` consists of whole records."""
    text = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(text == 0x22)
    opening, closing = quotes[::2], quotes[1::2]
    before = text[np.maximum(opening - 1, 0)]
    after = text[np.minimum(closing + 1, len(text) - 1)]
    starts = (opening == 0) | np.isin(before, (ord(separator), 0x0A, 0x22))
    return bool(starts.all() and np.isin(after, (ord(separator), 0x0A, 0x0D, 0x22)).all())


def to_numpy(array: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return an arrow array of integers or booleans without nulls as a numpy array."""
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    assert not array.null_count
    if not len(array):
        return np.zeros(0, bool if pa.types.is_boolean(array.type) else np.int64)
    buffer, end = array.buffers()[1], array.offset + len(array)
    if pa.types.is_boolean(array.type):
        return np.unpackbits(np.frombuffer(buffer, np.uint8), count=end, bitorder="little")[array.offset :].astype(bool)
    kind = np.dtype(f"i{array.type.bit_width // 8}")
    return np.frombuffer(buffer, kind, len(array), array.offset * kind.itemsize)


def from_numpy(values: NDArray[Any], is_known: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return integers or booleans as an arrow array, with null where `is_known` is false."""
    kind = pa.from_numpy_dtype(values.dtype)
    data = np.packbits(values, bitorder="little") if values.dtype == bool else np.ascontiguousarray(values)
    valid = None if is_known is None or is_known.all() else pa.py_buffer(np.packbits(is_known, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(data)])


def encode_texts(values: Sequence[str]) -> pa.DictionaryArray:
    """Return texts as a dictionary-encoded array; the dictionary has each text once, in order of first occurrence."""
    numbers: dict[str, int] = {}
    column = np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int32)
    return dictionary_array(column, list(numbers))


def dictionary_array(numbers: NDArray[Any], values: Sequence[str]) -> pa.DictionaryArray:
    """Return a dictionary-encoded array with the dictionary `values` and the indices `numbers`."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    texts = pa.Array.from_buffers(pa.string(), len(values), buffers)
    return pa.DictionaryArray.from_arrays(from_numpy(numbers.astype(np.int32, copy=False)), texts)
