"""What sampler.sh printed -> whole samples of the kernel's counters (proc(5)), or problems."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_HUGE = 1e15
_NET = re.compile(r"\s*(\S+):((?:\s+\d+){16})\s*")
_MEMORY = re.compile(r"(\w+):\s+(\d+) kB")
_LOAD = re.compile(r"(\d+\.\d+) \d+\.\d+ \d+\.\d+ \d+/\d+ \d+")


class Problem(NamedTuple):
    """What could not be read or does not add up; `t` (epoch s, host clock) where it has a time."""

    name: str
    message: str
    t: float | None = None


class Header(NamedTuple):
    """First line of a capture: clock (epoch s) and uptime (s) at one instant, ticks per s, bytes per page."""

    now: float
    uptime: float
    hz: float
    page: float
    interval_s: float


class Process(NamedTuple):
    """CPU time used (ticks), resident pages, and the start time that tells a reused id."""

    ticks: int
    pages: int
    born: int


@dataclass
class Sample:
    """One whole sample: counters by item. `t` is epoch seconds by the host's clock; memory in bytes."""

    t: float
    cpus: dict[str, list[int]] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    net: dict[str, tuple[int, int]] = field(default_factory=dict)
    levels: dict[str, float] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)


def read_header(line: str) -> Header | None:
    """Read the first line; None if it is not one of ours."""
    numbers = re.fullmatch(r"loadbook-sampler 1((?: \d+(?:\.\d+)?){5})", line, re.ASCII)
    if not numbers:
        return None
    header = Header(*map(float, numbers[1].split()))
    usable = max(header) < _HUGE and min(header.hz, header.page, header.interval_s) > 0
    return header if usable else None


def read_samples(lines: Sequence[str], header: Header, problems: list[Problem]) -> Iterator[Sample]:
    """Yield whole samples in order of time; torn or unreadable ones become problems."""
    last = -math.inf
    block: list[str] = []
    for number, line in enumerate([*lines, "@"], 2):
        if line == "." and block:
            sample = _sample(block, header)
            if sample is None or sample.t <= last:
                problems.append(Problem("unreadable_sample", f"the sample that ends in line {number}"))
            else:
                last = sample.t
                yield sample
            block = []
        elif line.startswith("@"):
            if block:
                problems.append(Problem("torn_sample", f"the sample before line {number} has no end"))
            block = [line]
        elif block:
            block.append(line)


def _sample(block: list[str], header: Header) -> Sample | None:
    """Read one sample's lines; None if they hold no time or anything else than numbers where those belong."""
    watched = [word.rpartition(":") for word in block[0].split()[2:]]
    labels = {pid: label for label, _, pid in watched}
    try:
        sample = Sample(header.now + _seconds(block[1].split()[0]) - header.uptime)
        for line in block[2:]:
            _read_line(line, sample, labels)
    except (ValueError, IndexError):
        return None
    return sample if sample.cpus else None


def _read_line(line: str, sample: Sample, labels: Mapping[str, str]) -> None:
    word = line.partition(" ")[0]
    if line.startswith("cpu"):
        sample.cpus["all" if word == "cpu" else word] = [_count(n) for n in line.split()[1:9]]
    # what must be in a line before a pattern is tried: most lines are none of these, and there are millions
    elif line.endswith("kB") and (found := _MEMORY.fullmatch(line)):
        sample.memory[found[1]] = _count(found[2]) * 1024
    elif ":" in line and (found := _NET.fullmatch(line)):
        counters = found[2].split()
        sample.net[found[1]] = (_count(counters[0]), _count(counters[8]))
    elif "." in word and (found := _LOAD.fullmatch(line)):
        sample.levels["load1"] = _seconds(found[1])
    elif line.startswith("TCP:"):
        fields = line.split()
        sample.levels["sockets_tcp_inuse"] = _count(fields[fields.index("inuse") + 1])
        sample.levels["sockets_tcp_tw"] = _count(fields[fields.index("tw") + 1])
    elif word in labels and ") " in line:
        rest = line.rpartition(") ")[2].split()
        ticks = _count(rest[11]) + _count(rest[12])
        sample.processes[f"{labels[word]}:{word}"] = Process(ticks, _count(rest[21]), _count(rest[19]))


def _count(text: str) -> int:
    """Read one of the kernel's counters; ValueError for what is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise ValueError(text)
    return int(text)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < _HUGE:
        raise ValueError(text)
    return value
