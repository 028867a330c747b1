"""h2load's --log-file: one line per request that ended, `start in us since 1970, status (-1 failed), duration in us`.

h2load appends to the file, so that of a warm-up and a measurement in one folder, the measurement is at the end.
"""

from __future__ import annotations

import io
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from loadbook.core.errors import ParseError
from loadbook.tools import per_second
from loadbook.tools.base import Sample

if TYPE_CHECKING:
    from loadbook.requests.histogram import Histogram

BLOCK_BYTES = 8 << 20
PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)


class RequestLog(NamedTuple):
    """What a log says of one run: how many requests were answered, by class of status too, their exact times, rates."""

    answered: int
    classes: Mapping[int, int]
    times: Histogram
    samples: tuple[Sample, ...] = ()

    @property
    def times_us(self) -> Counter[int]:
        """Times in us, and how often each occurred."""
        values, counts = self.times.cells
        return Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))


def log_file_name(argv: Sequence[str]) -> str | None:
    """Return the name of the log that a command asks for, without its folder; None if it asks for none."""
    for word, next_word in itertools.pairwise((*argv, "")):
        option, equals, value = word.partition("=")
        if option == "--log-file":
            return (value if equals else next_word).rpartition("/")[2] or None
    return None


def read_log(file: str, source: bytes | Path, last: int) -> RequestLog:
    """Return the `last` requests of a log; raise ParseError for a log with fewer lines, or a line that is not one."""
    from loadbook.requests.api import summarise
    from loadbook.requests.histogram import Histogram

    lines, is_complete = _count_lines(source)
    if lines < last or not is_complete:
        raise ParseError("h2load", file, lines, f"{lines} whole lines for the {last} requests of the summary")
    if not last:
        return RequestLog(0, {}, Histogram())
    try:
        figures = summarise(source, "h2load", file=file, start=_offset_after(source, lines - last))
    except ParseError as error:
        raise ParseError("h2load", file, error.line and error.line + lines - last, error.reason) from None
    total = figures.total()
    return RequestLog(total.answered, total.classes, total.latency, tuple(per_second.per_second_samples(figures)))


def _read_blocks(source: bytes | Path) -> Iterator[bytes]:
    with source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as file:
        while block := file.read(BLOCK_BYTES):
            yield block


def _count_lines(source: bytes | Path) -> tuple[int, bool]:
    """Return the number of line ends, and whether the last byte is one of them."""
    lines, last = 0, b"\n"
    for block in _read_blocks(source):
        lines, last = lines + block.count(b"\n"), block[-1:]
    return lines, last == b"\n"


def _offset_after(source: bytes | Path, lines: int) -> int:
    """Return the offset behind the first `lines` lines."""
    import numpy as np

    start = 0
    for block in _read_blocks(source) if lines else ():
        count = block.count(b"\n")
        if count >= lines:
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
            return start + int(ends[lines - 1]) + 1
        start, lines = start + len(block), lines - count
    return start
