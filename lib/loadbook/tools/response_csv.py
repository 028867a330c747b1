"""CSVs of hey and oha: one row for each response, and none for a failed attempt, so that errors are not known.

Every row is checked. Times are the elements of the sorted times (nearest rank) or computed from all rows; those whose
step is more than a quarter of them are left out. `duration` is from the first start to the last end of a response.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from loadbook.core.compressed import open_plain
from loadbook.core.errors import ParseError
from loadbook.tools import base
from loadbook.tools.base import Measurement, ParsedReport, ToolOutput
from loadbook.tools.request_rows import STATISTIC_PERCENTS, timed_load_doubts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK_BYTES = 1 << 23
WHOLE_NUMBER, STATUS = r"\d{1,18}", r"[1-9]\d\d"


class Layout(NamedTuple):
    """Columns of one tool's CSV.

    `columns` maps the name of each column to the regular expression of its values, in the order of the file; the last
    `optional` ones may be missing. `start`, `time`, `status`, `part`, `first_byte`, `connect` and `received` are names
    of columns, "" for one that the tool does not write: a `part` of a request is never longer than its `time`.
    `step_s` is the step of all times, 0 for nanoseconds. `most` is the number of rows after which the tool forgets.
    """

    tool: str
    columns: dict[str, str]
    optional: int
    start: str
    time: str
    status: str
    part: str
    connect: str = ""
    first_byte: str = ""
    received: str = ""
    step_s: float = 0.0
    most: float = math.inf


class Load(NamedTuple):
    """What the command line asked for: seconds and requests (0 if not known), and the rate in 1/s (None without)."""

    seconds: float = 0.0
    requests: float = 0.0
    rate_per_s: float | None = None


_HEY = r"\d{1,9}\.\d{4}"
_OHA = r"\d{1,9}(?:\.\d{1,18})?"
HEY = Layout(
    "hey",
    {
        **dict.fromkeys(("response-time", "DNS+dialup", "DNS", "Request-write"), _HEY),
        **dict.fromkeys(("Response-delay", "Response-read"), _HEY),
        "status-code": STATUS,
        "offset": _HEY,
    },
    *(1, "offset", "response-time", "status-code", "Response-read"),
    step_s=1e-4,
    most=1e6,
)  # fmt: skip
OHA = Layout(
    "oha",
    {
        **dict.fromkeys(("request-start", "DNS", "DNS+dialup", "Response-delay", "request-duration"), _OHA),
        "bytes": WHOLE_NUMBER,
        "status": STATUS,
    },
    *(0, "request-start", "request-duration", "status", "Response-delay"),
    connect="DNS+dialup",
    first_byte="Response-delay",
    received="bytes",
)


class Responses(NamedTuple):
    """The rows of a CSV: how many have which status, and columns as arrays by name (seconds, bytes)."""

    statuses: Counter[int]
    columns: dict[str, NDArray[np.float64]]


def find_csv(layout: Layout, output: ToolOutput) -> tuple[str, bytes | Path] | None:
    """Return (name, content or path) of the CSV among the standard output and the files; None without one."""
    begin = ",".join([*layout.columns][:3]).encode()
    sources: dict[str, bytes | Path] = {"stdout": output.stdout, **output.files, **output.paths}
    found = [(name, data) for name, data in sources.items() if base.head_of(data).startswith(begin)]
    if len(found) > 1:
        raise ParseError(layout.tool, found[1][0], 1, f"a second CSV, beside {found[0][0]}")
    return found[0] if found else None


def read_csv(layout: Layout, file: str, data: bytes | Path) -> Responses:
    """Return the rows of a CSV; ParseError with the line of the first one that is cut, changed or impossible."""
    import numpy as np

    from loadbook.request_logs.stream import COPIED

    names = _header(layout, file, data)
    statuses, parts = Counter[int](), dict[str, list[Any]]()
    wanted = {layout.start, layout.time, layout.connect, layout.first_byte, layout.received, layout.part} & {*names}
    rows = 0
    for first, batch in _checked_batches(layout, file, data, names):
        rows += len(batch[layout.status])
        numbers = {name: _floats(batch[name]) for name in wanted}
        longer = np.flatnonzero(numbers[layout.part] > numbers[layout.time] + 2 * layout.step_s + 1e-9)
        if len(longer):
            text = f"{layout.part} is longer than {layout.time}, of which it is a part"
            raise ParseError(layout.tool, file, first + int(longer[0]), text)
        codes, counts = np.unique(_floats(batch[layout.status]).astype(int), return_counts=True)
        statuses.update(dict(zip(codes.tolist(), counts.tolist(), strict=True)))
        for name, values in numbers.items():
            parts.setdefault(name, []).append(values)
    if rows >= layout.most:
        raise ParseError(layout.tool, file, rows + 1, f"{rows:,} rows: {layout.tool} forgets every further response")
    empty = np.zeros(0)
    columns = {name: np.concatenate(parts.get(name, [empty])) for name in wanted}
    if row := _copied_row(columns, rows):
        raise ParseError(layout.tool, file, 2 + row, COPIED)
    return Responses(statuses, columns)


def _copied_row(columns: Mapping[str, NDArray[np.float64]], rows: int) -> int:
    """Return the row from which on the first COPIED_ROWS rows come again; 0 if they do not."""
    import numpy as np

    from loadbook.request_logs.stream import COPIED_ROWS

    places = max(0, rows - COPIED_ROWS + 1)
    is_copy = np.ones(places, bool)
    for place in range(min(COPIED_ROWS, rows)):
        for values in columns.values():
            is_copy &= values[place : place + places] == values[place]
    found = np.flatnonzero(is_copy[1:])
    return int(found[0]) + 1 if len(found) else 0


def _header(layout: Layout, file: str, data: bytes | Path) -> list[str]:
    line, end, _ = base.head_of(data).partition(b"\n")
    names = line.decode("utf-8", "replace").rstrip("\r").split(",")
    every = [*layout.columns]
    if not end or names not in (every, every[: len(every) - layout.optional]):
        raise ParseError(layout.tool, file, 1, f"line cut or changed; expected {','.join(every)!r}")
    return names


def _checked_batches(
    layout: Layout, file: str, data: bytes | Path, names: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line of its first row, columns of text by name) of each part of a CSV, after a check of every value."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    broken: list[int] = []

    def note(row: Any) -> str:
        broken.append(row.number)
        return "skip"

    reader = pa_csv.open_csv(
        pa.BufferReader(data) if isinstance(data, bytes) else pa.PythonFile(open_plain(data), mode="r"),
        pa_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, skip_rows=1, column_names=[*names]),
        pa_csv.ParseOptions(quote_char=False, ignore_empty_lines=False, invalid_row_handler=note),
        pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary()), strings_can_be_null=False),
    )
    first = blank_from = 2  # lines, counted from 1
    for batch in reader:
        columns = dict(zip(names, map(batch.column, names), strict=True))
        valid, filled = _valid_rows(layout, columns)
        rows = int(filled.nonzero()[0][-1]) + 1 if filled.any() else 0  # blank lines may stand at the end
        wrong = [first + int(row) for row in (~valid[:rows]).nonzero()[0][:1]]
        if rows and blank_from < first:
            wrong.append(blank_from)
        if wrong := [*wrong, *broken]:
            raise ParseError(layout.tool, file, min(wrong), "row cut or changed, or not of this CSV")
        yield first, {name: column[:rows] for name, column in columns.items()}
        blank_from = first + rows if rows else blank_from
        first += len(batch)
    if broken:
        raise ParseError(layout.tool, file, broken[0], "row cut or changed, or not of this CSV")


def _valid_rows(layout: Layout, columns: dict[str, Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which rows have a right value in each column, and which are not blank."""
    import numpy as np
    import pyarrow.compute as pc

    right = [pc.match_substring_regex(column, f"^(?:{layout.columns[name]})$") for name, column in columns.items()]
    lengths = [pc.binary_length(column) for column in columns.values()]
    valid = np.logical_and.reduce([column.to_numpy(zero_copy_only=False) for column in right])
    filled = np.logical_or.reduce([column.to_numpy() > 0 for column in lengths])
    return np.asarray(valid), np.asarray(filled)


def _floats(column: Any) -> NDArray[np.float64]:
    import pyarrow as pa

    values: NDArray[np.float64] = column.cast(pa.string()).cast(pa.float64()).to_numpy()
    return values


def parse(layout: Layout, file: str, data: bytes | Path, metric: str, load: Load, output: ToolOutput) -> ParsedReport:
    """Return the rows of a CSV, with its times as those of `metric`, such as "latency"."""
    responses = read_csv(layout, file, data)
    times_s = responses.columns[layout.time]
    start, end = _span(layout, responses, metric)
    seconds = end - start if end - start > layout.step_s / base.COARSE_STEP else 0.0
    rows = [*_count_rows(layout, responses, seconds, load)]
    timed = [row for row in _time_rows(layout, metric, times_s) if layout.step_s <= base.LARGEST_STEP * row.value]
    for name, column in (("ttfb", layout.first_byte), ("connect_time", layout.connect)):
        values = responses.columns[column][responses.columns[column] > 0] if column else times_s[:0]
        timed += [row for row in _time_rows(layout, name, values) if row.statistic in ("mean", "min", "max")]
    doubts = [*_doubts(layout, responses, seconds, load, output)]
    if any(layout.step_s > base.COARSE_STEP * row.value for row in timed if row.statistic != "sd") or len(
        timed
    ) == 0 < len(times_s):
        text = f"{layout.tool}'s times have steps of {1000 * layout.step_s:g} ms, too coarse for times this short"
        doubts.append(("coarse_times", text))
    return ParsedReport((*rows, *timed), doubts=tuple(doubts))


def _span(layout: Layout, responses: Responses, metric: str) -> tuple[float, float]:
    """Return the first start and the last end in seconds since the start of the run; both 0 if they are not known."""
    columns = responses.columns
    if layout.start not in columns or not len(columns[layout.start]):
        return 0.0, 0.0
    # a time from the intended start does not end at the actual start plus that time
    lasted = columns[layout.first_byte if metric == "latency_intended" else layout.time]
    return float(columns[layout.start].min()), float((columns[layout.start] + lasted).max())


def _count_rows(layout: Layout, responses: Responses, seconds: float, load: Load) -> Iterator[Measurement]:
    """Yield counts and rates; there is no row of all errors, as failed attempts are not known."""
    by_class = Counter[int]()
    for code, count in responses.statuses.items():
        by_class[code // 100] += count
    ok = by_class[2] + by_class[3]
    for metric, count in (("requests", responses.statuses.total()), ("ok", ok)):
        yield Measurement(metric, "count", count, "1", None)
        if seconds:
            yield Measurement(f"{metric}_per_s", "value", count / seconds, "1/s", None)
    if load.rate_per_s:
        yield Measurement("offered_per_s", "value", load.rate_per_s, "1/s", None)
    if seconds:
        yield Measurement("duration", "value", seconds, "s", None)
    failed = sum(count for code, count in responses.statuses.items() if code >= 400)
    yield Measurement("errors_status", "count", failed, "1", None)
    for digit in range(1, 6):
        yield Measurement(f"status_{digit}xx", "count", by_class[digit], "1", None)
    if layout.received:
        received = int(responses.columns[layout.received].sum())
        yield Measurement("bytes_read", "count", received, "B", None)
        if seconds:
            yield Measurement("bytes_per_s", "value", received / seconds, "B/s", None)


def _time_rows(layout: Layout, metric: str, times_s: NDArray[np.float64]) -> Iterator[Measurement]:
    """Yield mean, deviation (n - 1), extremes and percentiles (nearest rank); the last two as printed if rounded."""
    if not len(times_s):
        return
    ordered, number = sorted(times_s.tolist()), len(times_s)
    yield Measurement(metric, "mean", math.fsum(ordered) / number, "s", None)
    if number > 1:
        yield Measurement(metric, "sd", float(times_s.std(ddof=1)), "s", None)
    for statistic, percent in STATISTIC_PERCENTS.items():
        value = ordered[max(1, math.ceil(number * percent / 100 - 1e-9)) - 1]
        yield Measurement(metric, statistic, value, "s", f"{value:.4f}" if layout.step_s else None)


def _doubts(
    layout: Layout, responses: Responses, seconds: float, load: Load, output: ToolOutput
) -> Iterator[tuple[str, str]]:
    number = responses.statuses.total()
    text = f"{layout.tool}'s CSV has a row for each of {number:,} responses and none for a failed attempt"
    yield "failed_missing", f"{text}: errors are not known"
    if layout.start not in responses.columns:
        yield "no_times", f"a CSV of {layout.tool} without the column {layout.start!r}: no duration and no rates"
    if number < load.requests:
        yield "stopped_early", f"{number:,} responses to the {load.requests:g} requests that were asked for"
    elif seconds:
        why_late = "late ones are not made up, or attempts failed"
        yield from timed_load_doubts(f"{number:,} responses", number, seconds, load.seconds, load.rate_per_s, why_late)
    if output.exit_code:
        yield "exit_code", f"{layout.tool} ended with exit code {output.exit_code}"
