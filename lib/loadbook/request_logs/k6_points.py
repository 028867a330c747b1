"""Points of k6's metrics, from which single requests are read: `--out csv`, or `--out json` with one object a line.

k6 writes a row for every metric of a request (grafana/k6 `output/csv`, `output/json`). The row of `http_req_duration`
has its time (ms), its status and its error code, and the time of day at which it ended. In CSV that time is in whole
seconds unless K6_CSV_TIME_FORMAT asks for more. `dropped_iterations` counts the requests that no user was free for, and
`data_received` the bytes of all responses of an iteration.
loadbook's script adds the intended start to each row, as metadata: `due_us`, in us since the start of the load.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from io import BufferedReader
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from loadbook.core.errors import ParseError
from loadbook.modes.shared.spec import LEAST_LATENESS
from loadbook.request_logs import stream as log_stream
from loadbook.request_logs.stream import OUTCOME_CODES, Ints, LogRowKind, RecordBlock, RequestBatch

TOOL = "k6"
TIME_METRIC, DROPPED_METRIC, BYTES_METRIC = "http_req_duration", "dropped_iterations", "data_received"
CSV_COLUMNS = ("metric_name", "timestamp", "metric_value", "error_code", "name", "status")
TAGS = ("error_code", "name", "status")
POINT_SCHEMA = pa.schema(
    {
        "metric": pa.string(), "type": pa.string(),
        "data": pa.struct(
            {"time": pa.timestamp("ns", "UTC"), "value": pa.float64(),
             "tags": pa.struct(dict.fromkeys(TAGS, pa.string()))}
        ),
    }
)  # fmt: skip
METADATA, DUE_TEXT = "metadata", "due_us="
DUE_PATTERN = rf"(?:^|&){DUE_TEXT}(?P<due_us>\d{{1,15}})(?:&|$)"
US_PER_MS = 1000
# digits of a time stamp -> microseconds of its unit: seconds, milliseconds, microseconds, nanoseconds (a thousandth)
STAMP_US = {10: 1_000_000.0, 13: 1000.0, 16: 1.0, 19: 0.001}
MAX_TIME_MS = 10**9


class Points(NamedTuple):
    """The requests among the points (k6's rows) of one block, as columns.

    `ends_us` are ends in us since 1970, and `times_ms` durations. `status` and `error_code` are numbers as text, ""
    or "0" for none; `name` is k6's tag, usually the URL. `not_started` is the number of requests for which no user
    was free, and `rows` that of all points. `due_us` are the intended starts in us from the start of the schedule,
    -1 for a request without one; None if no request has one. `received` is the number of bytes; None without points
    of it.
    """

    ends_us: Ints
    times_ms: NDArray[np.float64]
    status: pa.Array
    error_code: pa.Array
    name: pa.Array
    not_started: int
    rows: int
    due_us: Ints | None = None
    received: int | None = None


def read_k6(stream: BufferedReader, file: str, properties: Mapping[str, str] | None = None) -> Iterator[RequestBatch]:
    """Yield the requests of a file in its order; ParseError for an empty file, another format, or an invalid row."""
    head = stream.peek(1)
    if not head.strip():
        raise ParseError(TOOL, file, 0, "the file is empty")
    is_json = head.lstrip().startswith(b"{")
    line, least = 1, (properties or {}).get(LEAST_LATENESS)
    told: set[bool] = set()
    columns: list[str] = []
    stamp_us = 0.0
    if not is_json:
        columns = stream.readline(4096).decode(errors="replace").strip().split(",")
        line += 1
        if missing := [name for name in CSV_COLUMNS if name not in columns]:
            raise ParseError(TOOL, file, 1, f"no points of k6: the header has no {', '.join(missing)}")
        stamp_us = _stamp_unit_us(stream, file, columns)
    blocks = log_stream.split_blocks(stream, quotes=not is_json)
    parse = _json_points if is_json else partial(_csv_points, columns=columns, stamp_us=stamp_us)
    for block, ready in log_stream.parsed_ahead(blocks, parse):
        if not block.is_complete:
            if line == 1 or len(block.data) > log_stream.MAX_RECORD_BYTES:
                raise ParseError(TOOL, file, line, f"not a point of k6's metrics: {log_stream.first_text(block.data)}")
            yield log_stream.torn_batch(block, line)
            continue
        if isinstance(ready.exception(), pa.ArrowInvalid):
            number, text = log_stream.first_bad_row(block, line, parse, is_csv=not is_json)
            raise ParseError(TOOL, file, number, f"not a point of k6's metrics: {text}")
        log_stream.refuse_copy(block, TOOL, file, line)
        points = ready.result()
        if len(points.ends_us):
            told.add(points.due_us is not None)
        if len(told) > 1 or (points.due_us is not None and (points.due_us < 0).any()):
            raise ParseError(TOOL, file, line, "here or below, some requests have an intended start and others do not")
        batch = _batch(points, file, line, exact=is_json or stamp_us < STAMP_US[10])
        yield replace(batch, least_lateness_us=int(least)) if least else batch
        line += log_stream.lines_of(block, points.rows)


def _stamp_unit_us(stream: BufferedReader, file: str, columns: list[str]) -> float:
    """Return the microseconds of the unit of the time stamps, by the digits of the first; 1 s without any row."""
    first = next(csv.reader([stream.peek(4096).decode(errors="replace").partition("\n")[0]]), [])
    if not first:
        return STAMP_US[10]
    stamp = dict(zip(columns, first, strict=False)).get("timestamp", "")
    if not stamp.isdecimal() or len(stamp) not in STAMP_US:
        text = f"the time stamp {stamp[:40]!r} is no number: K6_CSV_TIME_FORMAT must be unix or unix_micro"
        raise ParseError(TOOL, file, 2, text)
    return STAMP_US[len(stamp)]


def _csv_points(block: RecordBlock, columns: list[str], stamp_us: float) -> Points:
    """Return the points of a block of CSV; ArrowInvalid if it has a row that is no point."""
    types = {"metric_name": log_stream.TEXT_TYPE, "timestamp": pa.int64(), "metric_value": pa.float64()}
    types |= dict.fromkeys((*TAGS, *{METADATA}.intersection(columns)), pa.string())  # of every ninth row
    table = log_stream.parse_csv(block, columns, types)
    metric = table["metric_name"].combine_chunks()
    dropped, received = (_sum_of(table, metric, name) for name in (DROPPED_METRIC, BYTES_METRIC))
    requests = table.filter(_is(metric, TIME_METRIC))
    stamps = log_stream.to_numpy(requests["timestamp"])
    ends_us = (stamps * stamp_us).astype(np.int64) if stamp_us != 1 else stamps
    tags = {name: requests[name].combine_chunks() for name in TAGS}
    times_ms = requests["metric_value"].to_numpy()
    due_us = None
    if METADATA in columns and pc.any(pc.match_substring(requests[METADATA], DUE_TEXT)).as_py():
        due_texts = pc.struct_field(pc.extract_regex(requests[METADATA], DUE_PATTERN), "due_us")
        due_us = log_stream.to_numpy(pc.fill_null(due_texts, "-1").cast(pa.int64()))
    return Points(
        ends_us=ends_us, times_ms=times_ms, not_started=dropped or 0, rows=len(table), due_us=due_us, received=received,
        **tags,
    )  # fmt: skip


def _json_points(block: RecordBlock) -> Points:
    """Return the points of a block of JSON lines; ArrowInvalid if a line is no point and no metric."""
    table = log_stream.parse_json_lines(block, POINT_SCHEMA)
    points = table.filter(pc.equal(table["type"], "Point")).combine_chunks()
    data = points["data"].combine_chunks() if len(points) else pa.array([], POINT_SCHEMA.field("data").type)
    value, time = data.field("value"), data.field("time")
    metric = points["metric"].combine_chunks() if len(points) else pa.array([], pa.string())
    if table["type"].null_count or value.null_count or time.null_count or metric.null_count:
        raise pa.ArrowInvalid("a key is missing")
    of_requests = pc.equal(metric, TIME_METRIC)
    requests = data.filter(of_requests)
    all_tags = requests.field("tags")
    tags = {name: pc.fill_null(all_tags.field(name), "") for name in TAGS}
    ends_us = log_stream.to_numpy(requests.field("time").cast(pa.int64())) // 1000
    dropped, sizes = (value.filter(pc.equal(metric, name)) for name in (DROPPED_METRIC, BYTES_METRIC))
    times_ms = requests.field("value").to_numpy()
    return Points(
        ends_us=ends_us, times_ms=times_ms, not_started=_sum(dropped), rows=len(table),
        received=_sum(sizes) if len(sizes) else None, **tags,
    )  # fmt: skip


def _batch(points: Points, file: str, line: int, *, exact: bool) -> RequestBatch:
    times_ms = points.times_ms
    if len(times_ms) and not (np.isfinite(times_ms).all() and times_ms.min() >= 0 and times_ms.max() < MAX_TIME_MS):
        raise ParseError(TOOL, file, line, "here or below is a time of a request that is no time")
    status, codes = (_whole_numbers(column, file, line) for column in (points.status, points.error_code))
    if ((status != 0) & ((status < 100) | (status > 999))).any():
        raise ParseError(TOOL, file, line, "here or below is an impossible status")
    elapsed_us = np.floor(times_ms * US_PER_MS + 0.5).astype(np.int64)
    answered = status > 0
    start_us = points.ends_us - (elapsed_us if exact else 0)
    labels, label = log_stream.path_labels(points.name.dictionary_encode())
    return RequestBatch(
        labels, label, elapsed_us, _outcomes(status, codes), answered,
        status.astype(np.int16), np.full(len(status), LogRowKind.REQUEST, np.uint8), 1,
        start_us=start_us, exact_starts=exact, timed=answered, not_started=points.not_started,
        received_apart=points.received,
        lateness_us=start_us - points.due_us if exact and points.due_us is not None else None,
    )  # fmt: skip


def _outcomes(status: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the outcome of each attempt by its status, or by k6's error code if it had no response.

    Codes: 105x request time-out; 11xx DNS, 121x dial, 13xx TLS; 1201 broken pipe; other 12xx TCP, 16xx HTTP/2.
    """
    failed = status == 0
    conditions = {
        "ok": (status >= 200) & (status < 400),
        "errors_status": status >= 400,
        "errors_timeout": failed & (codes // 10 == 105),
        "errors_connect": failed & ((codes // 100 == 11) | (codes // 10 == 121) | (codes // 100 == 13)),
        "errors_write": failed & (codes == 1201),
        "errors_read": failed & ((codes // 100 == 12) | (codes // 100 == 16)),
    }
    choices = [np.uint8(OUTCOME_CODES[name]) for name in conditions]
    return np.select(list(conditions.values()), choices, np.uint8(OUTCOME_CODES["errors_other"]))


def _whole_numbers(texts: pa.Array, file: str, line: int) -> NDArray[np.int64]:
    """Return a column of numbers as text; an empty text is 0."""
    column = texts.dictionary_encode()
    values = column.dictionary.to_pylist()
    if not all(text == "" or (text.isdecimal() and len(text) < 6) for text in values):
        raise ParseError(TOOL, file, line, "here or below is a status or an error code that is no number")
    return np.array([int(text or 0) for text in values] or [0], np.int64)[log_stream.to_numpy(column.indices)]


def _is(column: pa.DictionaryArray, text: str) -> pa.Array:
    """Return a mask of the rows with this text."""
    wanted = pc.equal(column.dictionary, text)
    return wanted.take(column.indices)


def _sum_of(table: pa.Table, metric: pa.DictionaryArray, name: str) -> int | None:
    """Return the sum of all values of a metric; None if the block has none of it, as is told without a look at rows."""
    if not pc.any(pc.equal(metric.dictionary, name)).as_py():
        return None
    return _sum(table["metric_value"].filter(_is(metric, name)))


def _sum(values: pa.ChunkedArray | pa.Array) -> int:
    return round(pc.sum(values).as_py() or 0)
