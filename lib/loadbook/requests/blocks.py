"""A stream cut into blocks of whole records: at line ends that are not inside quotes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 8 << 20
MAX_RECORD_BYTES = 1 << 20  # a record longer than this is a quote that was never closed


class RecordBlock(NamedTuple):
    """Bytes of whole records, but for the last block of a stream, whose `is_complete` is False when a record is torn."""

    data: bytes
    has_quotes: bool
    is_complete: bool


def split_blocks(stream: BinaryIO, size: int | None = None, quotes: bool = True) -> Iterator[RecordBlock]:
    """Cut a stream into blocks of about `size` bytes (BLOCK_BYTES); what follows the last line end is not whole.

    A line end is inside quotes when an odd number of quotes lies before it in its block: writers double the quotes
    within a quoted field. A record longer than RECORD_MAX is handed on as it is, for the reader to refuse.
    """
    remainder = b""
    while data := stream.read(size or BLOCK_BYTES):
        quoted = quotes and (b'"' in data or b'"' in remainder)
        end = _last_record_end(remainder + data) - len(remainder) if quoted else data.rfind(b"\n") + 1
        if end <= 0 and len(remainder) <= MAX_RECORD_BYTES:
            remainder += data
            continue
        if end <= 0:
            break
        yield RecordBlock(b"".join((remainder, memoryview(data)[:end])), quoted, True)
        remainder = data[end:]
    if remainder:
        yield RecordBlock(remainder, b'"' in remainder, False)


def _last_record_end(data: bytes) -> int:
    ends = record_ends(data)
    return int(ends[-1]) if len(ends) else 0


def record_ends(data: bytes) -> NDArray[np.int64]:
    """Return the offsets behind all line ends that are not inside quotes; `data` begins with a record."""
    text = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(text == 0x22)
    ends = np.flatnonzero(text == 0x0A)
    return ends[np.searchsorted(quotes, ends) % 2 == 0] + 1


def well_quoted(data: bytes, separator: str) -> bool:
    """Return whether quotes stand only around whole fields, or doubled within them; `data` is whole records."""
    text = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(text == 0x22)
    opening, closing = quotes[::2], quotes[1::2]
    before = text[np.maximum(opening - 1, 0)]
    after = text[np.minimum(closing + 1, len(text) - 1)]
    starts = (opening == 0) | np.isin(before, (ord(separator), 0x0A, 0x22))
    return bool(starts.all() and np.isin(after, (ord(separator), 0x0A, 0x0D, 0x22)).all())
