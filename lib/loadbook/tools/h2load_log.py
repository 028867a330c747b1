"""h2load's --log-file: one line per request that ended, `start in us since 1970, status (-1 failed), duration in us`.

h2load appends to the file, so that of a warm-up and a measurement in one folder, the measurement is at the end.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from loadbook.core.errors import ParseError
from loadbook.tools import per_second
from loadbook.tools.base import Sample

if TYPE_CHECKING:
    from loadbook.requests.histogram import Histogram

PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)


class Log(NamedTuple):
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


def name(argv: Sequence[str]) -> str | None:
    """Return the name of the log that a command asks for, without its folder; None if it asks for none."""
    for word, after in itertools.pairwise((*argv, "")):
        option, equals, value = word.partition("=")
        if option == "--log-file":
            return (value if equals else after).rpartition("/")[2] or None
    return None


def read(file: str, data: bytes, last: int) -> Log:
    """Return the `last` requests of a log; raise ParseError for a log with fewer lines, or a line that is not one."""
    from loadbook.requests.api import summarise
    from loadbook.requests.histogram import Histogram

    lines = data.count(b"\n")
    if lines < last or (not data.endswith(b"\n") and data):
        raise ParseError("h2load", file, lines, f"{lines} whole lines for the {last} requests of the summary")
    if not last:
        return Log(0, {}, Histogram())
    try:
        figures = summarise(_tail(data, lines - last), "h2load", file=file)
    except ParseError as error:
        raise ParseError("h2load", file, error.line and error.line + lines - last, error.reason) from None
    total = figures.total()
    return Log(total.answered, total.classes, total.latency, tuple(per_second.ended(figures)))


def _tail(data: bytes, lines: int) -> bytes:
    """Return what follows the first `lines` lines."""
    import numpy as np

    if not lines:
        return data
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    return data[int(ends[lines - 1]) + 1 :]
