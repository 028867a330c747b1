"""h2load's --log-file: one line per request that ended, `start in us since 1970, status (-1 failed), duration in us`.

h2load appends to the file, so that of a warm-up and a measurement in one folder, the measurement is at the end.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from loadbook.core.errors import ParseError

PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
_LINE = re.compile(rb"\d{1,20}\t(-1|\d{1,3})\t(\d{1,15})(?:\t.*)?\r?")


class Log(NamedTuple):
    """What a log says of the requests of one run: statuses, and in ascending order the times of the answered in us."""

    statuses: list[int]
    times_us: list[int]


def name(argv: Sequence[str]) -> str | None:
    """Return the name of the log that a command asks for, without its folder; None if it asks for none."""
    for word, after in itertools.pairwise((*argv, "")):
        option, equals, value = word.partition("=")
        if option == "--log-file":
            return (value if equals else after).rpartition("/")[2] or None
    return None


def read(file: str, data: bytes, last: int) -> Log:
    """Return the `last` requests of a log; raise ParseError for a log with fewer lines, or a line that is not one."""
    text = data.split(b"\n")
    if text.pop() or len(text) < last:
        raise ParseError("h2load", file, len(text), f"{len(text)} whole lines for the {last} requests of the summary")
    statuses, times = [], []
    for number, line in enumerate(text[len(text) - last :], len(text) - last + 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ParseError("h2load", file, number, f"not a start, a status and a duration: {line[:60]!r}")
        status = int(match[1])
        statuses.append(status)
        if status != -1:
            times.append(int(match[2]))
    return Log(statuses, sorted(times))


def percentile(log: Log, percent: float) -> float:
    """Return the time in s that `percent` % of the answered requests did not exceed (nearest rank)."""
    rank = max(1, math.ceil(percent / 100 * len(log.times_us) - 1e-9))
    return log.times_us[rank - 1] / 1e6
