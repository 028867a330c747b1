"""Fuzz every parser, by hand: `python tests/unit/tools/fuzz.py [inputs per parser, default 100000] [seed] [tool ...]`.

Every input is a real capture whose output, or one file of the tool's own, was cut, doubled, shuffled, mixed with
another or changed in some bytes. A parser may refuse it with a ParseError or return sane rows
(`tool_cases.check_sane`); a capture cut from its end must give the rows of the whole or none.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from loadbook.tools import base
from loadbook.tools.base import ToolOutput
from tool_captures import attempt, capture, good, table

Change = Callable[[bytes, bytes, random.Random], bytes]


def _lines(change: Callable[[list[bytes], random.Random], None]) -> Change:
    def changed(data: bytes, other: bytes, draw: random.Random) -> bytes:
        lines = data.splitlines(keepends=True)
        change(lines, draw)
        return b"".join(lines)

    return changed


def _cut(data: bytes, other: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]


def _mix(data: bytes, other: bytes, draw: random.Random) -> bytes:
    lines, others = data.splitlines(keepends=True), other.splitlines(keepends=True)
    for _ in range(draw.randint(1, 5)):
        at = draw.randrange(len(lines))
        lines[at : at + draw.randint(0, 1)] = [draw.choice(others)]
    return b"".join(lines)


def _bytes(data: bytes, other: bytes, draw: random.Random) -> bytes:
    raw = bytearray(data)
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(raw))
        raw[at : at + draw.randint(0, 2)] = draw.choice(
            [b"", b"-", b"7", b"nan", b"inf", b"\r", b"\n", b"\0", b"e5", b"k"]
        )
    return bytes(raw)


def _double(lines: list[bytes], draw: random.Random) -> None:
    lines.insert(draw.randrange(len(lines)), draw.choice(lines))


def _drop(lines: list[bytes], draw: random.Random) -> None:
    del lines[draw.randrange(len(lines))]


CHANGES: tuple[Change, ...] = (
    _cut, _mix, _bytes, _lines(_double), _lines(_drop), _lines(lambda lines, draw: draw.shuffle(lines)),
    lambda data, other, draw: data[draw.randrange(len(data)) :],
    lambda data, other, draw: data + other,
    lambda data, other, draw: _bytes(_mix(data, other, draw), other, draw),
)  # fmt: skip


def fuzz(tool: str, inputs: int, draw: random.Random) -> int:
    """Return how many of the changed captures were read; raises where a parser misbehaves."""
    captures = [capture(path) for path in good(tool)]
    wholes = [table(base.load_tool(tool).parse(c).measurements) for c in captures]
    read = 0
    for _ in range(inputs):
        at, change = draw.randrange(len(captures)), draw.choice(CHANGES)
        part = draw.choice(("stdout", *captures[at].files))
        others = [other for c in captures if (other := _parts(c).get(part))]
        data = change(_parts(captures[at])[part] or b"\n", draw.choice(others or [b"\n"]), draw)
        parsed = attempt(tool, _with(captures[at], part, data))
        read += parsed is not None
        endless = tool == "jmeter" and part != "stdout"  # samples without an end: a cut between two cannot be seen
        assert change is not _cut or endless or parsed is None or table(parsed.measurements) == wholes[at], data
    return read


def _parts(captured: ToolOutput) -> dict[str, bytes]:
    return {"stdout": captured.stdout, **captured.files}


def _with(captured: ToolOutput, part: str, data: bytes) -> ToolOutput:
    if part == "stdout":
        return replace(captured, stdout=data)
    return replace(captured, files={**captured.files, part: data})


if __name__ == "__main__":
    requested = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for tool in sys.argv[3:] or base.tool_names():
        began = time.monotonic()
        read = fuzz(tool, requested, random.Random(f"{seed} {tool}"))
        took = time.monotonic() - began
        print(f"{tool}: {requested} inputs (seed {seed}), {read} read, the others refused, {took:.0f} s")
