"""What the controller asked a host's own monitor for while a trial ran, one answer after the other, as kept in a file.

The first line is ``loadbook-poll 1 SOURCE INTERVAL_S``. An answer stands between ``@ BEGUN ENDED`` (epoch seconds, our
clock, as the asker counts them) and ``@end``; it is whole only if that ends it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from loadbook.traces.base import Problem

_HEAD = re.compile(r"loadbook-poll 1 ([a-z-]{1,30}) (\d{1,5}(?:\.\d{1,6})?)", re.ASCII)
_BEGIN = re.compile(r"@ (\d{1,12}\.\d{1,9}) (\d{1,12}\.\d{1,9})", re.ASCII)


class Poll(NamedTuple):
    """One answer; `t` lies halfway between question and answer."""

    t: float
    lines: list[str]


class Polls(NamedTuple):
    """The whole answers of one source, in order of time."""

    source: str
    interval_s: float
    polls: list[Poll]


def header_line(source: str, interval_s: float) -> str:
    """Return the first line of such a file."""
    return f"loadbook-poll 1 {source} {interval_s:g}\n"


def format_poll(begun: float, ended: float, answer: str) -> str:
    """Return one answer as it is kept; a line of it that looks like a mark of ours cannot be told from one."""
    return f"@ {begun:.6f} {ended:.6f}\n{answer}{'' if answer.endswith(chr(10)) else chr(10)}@end\n"


def is_polled(data: bytes) -> bool:
    """Tell whether a file is one of these."""
    return data.startswith(b"loadbook-poll 1 ")


def read_polls(data: bytes, problems: list[Problem]) -> Polls | None:
    """Read such a file; None if it is none, torn answers become problems."""
    lines = data.decode("utf-8", "replace").split("\n")
    head = _HEAD.fullmatch(lines[0])
    if head is None or float(head[2]) <= 0:
        return None
    return Polls(head[1], float(head[2]), list(_polls(lines[1:], problems)))


def _polls(lines: Iterable[str], problems: list[Problem]) -> Iterable[Poll]:
    opened: Poll | None = None
    last = 0.0
    for number, line in enumerate([*lines, "@ 0.0 0.0"], 2):
        if line == "@end" and opened is not None:
            if opened.t <= last:
                problems.append(Problem("unreadable_sample", f"the answer that ends in line {number} is out of order"))
            else:
                last = opened.t
                yield opened
            opened = None
        elif begun := _BEGIN.fullmatch(line):
            if opened is not None:
                problems.append(Problem("torn_sample", f"the answer before line {number} has no end"))
            opened = Poll((float(begun[1]) + float(begun[2])) / 2, [])
        elif opened is not None:
            opened.lines.append(line)
