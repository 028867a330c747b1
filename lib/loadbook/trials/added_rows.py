"""Files of traces that were added to a run -> rows of its trials, and what was wrong with the files."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from loadbook.core.units import seconds
from loadbook.records.added import Added
from loadbook.records.manifest import TrialRecord, sha256_file
from loadbook.traces import kinds
from loadbook.traces.base import Problem, Traces

TIME_DIGITS = 4
POINT = ("metric", "item", "value", "unit")
Row = dict[str, Any]
Look = tuple[tuple[int, int], ...]


class AddedFiles(NamedTuple):
    """What was added to the run whose raw folder is `raw`."""

    raw: Path = Path()
    added: tuple[Added, ...] = ()

    def rows(self, record: TrialRecord) -> Iterator[Row]:
        """Yield what the files say of the time of one trial, times from the start of its measurement."""
        span, opened = span_of(record), opened_at(record)
        if span is None or opened is None:
            return
        for one in self.added:
            offset = _offset_s(record, one)
            keys = {"host": one.host, "role": one.role, "source": kinds.KINDS[one.kind].source}
            for point in _between(self.raw, one, span[0] + offset, span[1] + offset):
                t_s = round(float(point["t"]) - offset - opened, TIME_DIGITS)
                yield keys | {"t_s": t_s} | {name: point[name] for name in POINT}

    def problems(self, records: Sequence[TrialRecord]) -> Iterator[Row]:
        """Yield what was wrong with the files, and those of which nothing lies within any trial."""
        spans = [span for record in records if (span := span_of(record))]
        for one in self.added:
            traces = _read(self.raw, one, _look(self.raw, one))
            for problem in traces.problems:
                yield _row(one, problem)
            offset = one.offset_s or 0.0
            if traces.times and not any(_any_within(traces.times, a + offset, b + offset) for a, b in spans):
                yield _row(one, Problem("outside", _outside(traces, spans)))
            clocked = any(one.host in record.clocks for record in records)
            if one.offset_s is None and not clocked:
                said = f"the clock of host {one.host} was not compared with ours: taken as equal (--clock-offset)"
                yield _row(one, Problem("clock_not_known", said))


def _offset_s(record: TrialRecord, one: Added) -> float:
    """Return the host's clock minus ours: as it was said when the file was added, else as it was measured."""
    clock = record.clocks.get(one.host)
    if one.offset_s is not None:
        return one.offset_s
    return clock.offset_before_s if clock else 0.0


def span_of(record: TrialRecord) -> tuple[float, float] | None:
    """Return begin and end of a trial by our clock; None where that is not known."""
    if record.started is not None and record.duration_s is not None:
        return record.started, record.started + record.duration_s
    return record.window


def opened_at(record: TrialRecord) -> float | None:
    """Return when the measurement began, by our clock; of an imported trial when it was started."""
    return record.window[0] if record.window else record.started


def _row(one: Added, problem: Problem) -> Row:
    found = {"host": one.host, "file": one.read[0][0], "line": None, "level": "note"}
    return found | {"trial": None, "name": problem.name, "message": problem.message}


def _outside(traces: Traces, spans: Sequence[tuple[float, float]]) -> str:
    first, last = traces.times[0], traces.times[-1]
    if spans and first <= spans[-1][1] and last >= spans[0][0]:
        step, longest = seconds(traces.interval_s), seconds(max(b - a for a, b in spans))
        return f"no sample lies within a trial: one every {step}, trials of {longest} at most"
    return "no sample lies within the time of the run: is the clock's offset or the zone wrong?"


def _any_within(times: Sequence[float], start: float, end: float) -> bool:
    return bisect_left(times, start) < bisect_right(times, end)


def _between(raw: Path, one: Added, start: float, end: float) -> list[Row]:
    times, points = _sorted(raw, one, _look(raw, one))
    return points[bisect_left(times, start) : bisect_right(times, end)]


@lru_cache(maxsize=16)
def _sorted(raw: Path, one: Added, look: Look) -> tuple[list[float], list[Row]]:
    points: list[Row] = sorted(_read(raw, one, look).rows, key=itemgetter("t"))
    return [float(point["t"]) for point in points], points


@lru_cache(maxsize=16)
def _read(raw: Path, one: Added, look: Look) -> Traces:
    """Read the files of one host that are still as they were kept; another one is a problem."""
    changed = [name for name, sha256 in one.read if not _as_kept(raw / name, sha256)]
    said = [Problem("changed-file", f"{name} is missing or no longer matches its sha256") for name in changed]
    whole = {Path(n).name.partition("-")[2]: (raw / n).read_bytes() for n, _ in one.read if n not in changed}
    traces = kinds.read(one.kind, whole) if whole else Traces([], [], 0.0, [])
    return Traces(traces.rows, traces.times, traces.interval_s, [*said, *traces.problems])


def _look(raw: Path, one: Added) -> Look:
    """Return size and time of each file, so that what was read of another content is not used again."""
    paths = [raw / name for name, _ in one.read]
    seen = [path.stat() if path.is_file() else None for path in paths]
    return tuple((s.st_size, s.st_mtime_ns) if s else (0, 0) for s in seen)


def _as_kept(path: Path, sha256: str) -> bool:
    return path.is_file() and sha256_file(path) == sha256
