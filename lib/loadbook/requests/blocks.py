"""A stream cut into blocks of whole records: at line ends that are not inside quotes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 8 << 20
RECORD_MAX = 1 << 20  # a record longer than this is a quote that was never closed


class Block(NamedTuple):
    """Bytes of whole records, but for the last block of a stream, whose `whole` is False when a record is torn."""

    data: bytes
    quoted: bool
    whole: bool


def blocks(stream: BinaryIO, size: int | None = None, quotes: bool = True) -> Iterator[Block]:
    """Cut a stream into blocks of about `size` bytes (BLOCK_BYTES); what follows the last line end is not whole.

    A line end is inside quotes when an odd number of quotes lies before it in its block: writers double the quotes
    within a quoted field. A record longer than RECORD_MAX is handed on as it is, for the reader to refuse.
    """
    rest = b""
    while data := stream.read(size or BLOCK_BYTES):
        quoted = quotes and (b'"' in data or b'"' in rest)
        end = _last_end(rest + data) - len(rest) if quoted else data.rfind(b"\n") + 1
        if end <= 0 and len(rest) <= RECORD_MAX:
            rest += data
            continue
        if end <= 0:
            break
        yield Block(b"".join((rest, memoryview(data)[:end])), quoted, True)
        rest = data[end:]
    if rest:
        yield Block(rest, b'"' in rest, False)


def _last_end(data: bytes) -> int:
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
