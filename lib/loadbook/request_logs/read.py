"""Selection of the log reader by tool, readers of the logs of h2load and ab, and the parquet writer of requests."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from loadbook.core.compressed import BROKEN, open_plain
from loadbook.core.errors import ParseError, ToolError
from loadbook.core.go_programs import GOB_RESULT
from loadbook.request_logs import gatling_log, gatling_rows, jtl_csv, jtl_xml, k6_points, vegeta_gob, vegeta_rows
from loadbook.request_logs import stream as log_stream
from loadbook.request_logs.stream import Ints, LogRowKind, RecordBlock, RequestBatch
from loadbook.request_logs.summary import Summary
from loadbook.store.atomic import atomic_path

SCHEMA_VERSION = 1
SCHEMA = pa.schema(
    [
        pa.field("driver", log_stream.TEXT_TYPE, nullable=False),
        pa.field("start_us", pa.int64()),
        pa.field("elapsed_us", pa.int64(), nullable=False),
        pa.field("label", log_stream.TEXT_TYPE, nullable=False),
        pa.field("kind", log_stream.TEXT_TYPE, nullable=False),
        pa.field("outcome", log_stream.TEXT_TYPE, nullable=False),
        pa.field("answered", pa.bool_(), nullable=False),
        pa.field("status", pa.int16()),
        pa.field("received", pa.int64()),
        pa.field("first_byte_us", pa.int64()),
        pa.field("samples", pa.int64()),
        pa.field("failed", pa.int64()),
    ],
    metadata={"loadbook_requests_schema": str(SCHEMA_VERSION)},
)
KIND_NAMES = [kind.name.lower() for kind in LogRowKind]
# start times ascend, so their differences are small; the other columns have few distinct values
_START_COLUMN = "start_us"
BUFFER_BYTES = 1 << 16


class RequestWriter:
    """Writer of a parquet file of requests; if the `with` block raises an error, no file is left.

    A thread writes a batch while the caller reads the next one.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, 0
        self._under_way: Future[None] | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            part = stack.enter_context(atomic_path(self.path))
            self._writer = stack.enter_context(
                pq.ParquetWriter(
                    part,
                    SCHEMA,
                    compression="snappy",
                    use_dictionary=[name for name in SCHEMA.names if name not in (_START_COLUMN, "answered")],
                    write_statistics=[_START_COLUMN, "elapsed_us"],
                    column_encoding={_START_COLUMN: "DELTA_BINARY_PACKED"},
                )
            )
            stack.callback(self._wait)  # once the thread has ended
            self._thread = stack.enter_context(ThreadPoolExecutor(1))
            self._exit_stack = stack.pop_all()
        return self

    def write(self, batch: RequestBatch, driver: str = "") -> None:
        """Add the rows of one batch, with the name of the driver (load generator's host) whose log it is."""
        if len(batch):
            self._wait()
            self._under_way = self._thread.submit(self._write, batch, driver)
            self.rows += len(batch)

    def _write(self, batch: RequestBatch, driver: str) -> None:
        self._writer.write_table(to_table(batch, driver), row_group_size=len(batch))

    def _wait(self) -> None:
        """Wait until the batch under way is written; raises the error of its writing."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def __exit__(self, *error: Any) -> None:
        self._exit_stack.__exit__(*error)


def to_table(batch: RequestBatch, driver: str = "") -> pa.Table:
    """Return a batch as a table with the schema SCHEMA: times in us, null for values that the log does not have."""
    kinds, outcomes = (batch.kind, KIND_NAMES), (batch.outcome, log_stream.OUTCOME_NAMES)
    numbered = {"kind": kinds, "outcome": outcomes, "label": (batch.label, batch.labels)}
    columns = {
        "driver": log_stream.dictionary_array(np.zeros(len(batch), np.int32), [driver]),
        "start_us": _nullable_column(batch.start_us, 1, len(batch)),
        "elapsed_us": _nullable_column(batch.elapsed, batch.tick_us, len(batch)),
        **{name: log_stream.dictionary_array(*column) for name, column in numbered.items()},
        "answered": log_stream.from_numpy(batch.answered),
        "status": log_stream.from_numpy(batch.status, batch.status != 0),
        "received": _nullable_column(batch.received, 1, len(batch)),
        "first_byte_us": _nullable_column(batch.first_byte, batch.tick_us, len(batch)),
        "samples": _nullable_column(batch.samples, 1, len(batch)),
        "failed": _nullable_column(batch.failed, 1, len(batch)),
    }
    return pa.table(columns, schema=SCHEMA)


def _nullable_column(values: Ints | None, factor: int, size: int) -> pa.Array:
    if values is None:
        return pa.nulls(size, pa.int64())
    return log_stream.from_numpy(values * factor if factor != 1 else values)


@dataclass(frozen=True)
class LineLogFormat:
    """Format of a log with one line of tab-separated columns per request.

    Parameters
    ----------
    header : the first line, None if the log has no header.
    columns : position -> name of the columns that are read.
    line_regex : regular expression of a valid line.
    description : the content of a line, for error messages.
    is_valid : function of {name of a column: values}: whether all values are in the ranges that `line_regex` allows.
    to_batch : function that converts {name of a column: values} to a batch.
    """

    tool: str
    header: bytes | None
    columns: dict[int, str]
    line_regex: re.Pattern[bytes]
    description: str
    is_valid: Callable[[dict[str, Ints]], bool]
    to_batch: Callable[[dict[str, Ints]], RequestBatch]

    def read(self, stream: BufferedReader, file: str) -> Iterator[RequestBatch]:
        """Yield the rows of a file in its order; ParseError with the line number for an invalid row."""
        line, first_us = 1, None
        if not stream.peek(1):
            raise ParseError(self.tool, file, 0, "the file is empty")
        if self.header is not None:
            if stream.readline(len(self.header) + 2).rstrip(b"\r\n") != self.header:
                raise ParseError(self.tool, file, 1, f"does not begin with {self.header.decode()!r}")
            line += 1
        for block in log_stream.split_blocks(stream, quotes=False):
            if not block.is_complete:
                if line == 1:
                    raise ParseError(self.tool, file, 1, f"not {self.description}: {log_stream.first_text(block.data)}")
                yield log_stream.torn_batch(block, line)
                continue
            batch = self.to_batch(self._columns(block, file, line))
            starts_us = batch.start_us if batch.start_us is not None else np.zeros(1, np.int64)
            first_us = int(starts_us[0]) if first_us is None else first_us
            if (row := log_stream.first_far_row(starts_us, first_us)) is not None:
                far = "the row here starts more than 30 days from the first row"
                raise ParseError(self.tool, file, line + row, far)
            line += len(batch)
            yield batch

    def _columns(self, block: RecordBlock, file: str, line: int) -> dict[str, Ints]:
        count = block.data[: block.data.find(b"\n")].count(b"\t") + 1
        names = [self.columns.get(index, f"column {index}") for index in range(count)]
        try:
            table = csv.read_csv(
                pa.py_buffer(block.data),
                csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block.data) + 1),
                csv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False),
                csv.ConvertOptions(
                    column_types=dict.fromkeys(self.columns.values(), pa.int64()),
                    include_columns=list(self.columns.values()),
                    null_values=[],
                ),
            )
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            pass
        else:
            columns = {name: log_stream.to_numpy(table[name]) for name in self.columns.values()}
            if self.is_valid(columns):
                return columns
        lines = bytes(block.data).removesuffix(b"\n").split(b"\n")
        for number, text in enumerate(lines, line):
            if not self.line_regex.fullmatch(text) or text.count(b"\t") != lines[0].count(b"\t"):
                raise ParseError(self.tool, file, number, f"not {self.description}: {log_stream.first_text(text)}")
        raise ParseError(self.tool, file, line, f"here or below is a line that is not {self.description}")


def _h2load_valid(columns: dict[str, Ints]) -> bool:
    status, start, duration = columns["status"], columns["start"], columns["duration"]
    valid_status = bool(((status == -1) | ((status >= 100) & (status < 600))).all())
    return valid_status and _all_within(start, 10**15, 10**16) and _all_within(duration, 0, 10**15)


def _ab_valid(columns: dict[str, Ints]) -> bool:
    times = (columns[name] for name in ("ctime", "dtime", "ttime", "wait"))
    return _all_within(columns["seconds"], 10**9, 10**10) and all(_all_within(time, 0, 10**9) for time in times)


def _all_within(values: Ints, low: int, end: int) -> bool:
    return bool(values.min() >= low and values.max() < end)


def _h2load_batch(columns: dict[str, Ints]) -> RequestBatch:
    """Convert columns of h2load's log; the status -1 is a request that timed out or was lost with its connection."""
    status = columns["status"]
    outcome = np.full(len(status), log_stream.OUTCOME_CODES["errors_other"], np.uint8)
    outcome[(status >= 200) & (status < 400)] = log_stream.OUTCOME_CODES["ok"]
    outcome[status >= 400] = log_stream.OUTCOME_CODES["errors_status"]
    answered = status > 0
    return RequestBatch(
        [""], np.zeros(len(status), np.int32), columns["duration"], outcome, answered,
        np.where(answered, status, 0).astype(np.int16), np.full(len(status), LogRowKind.REQUEST, np.uint8), 1,
        start_us=columns["start"], timed=answered,
    )  # fmt: skip


def _ab_batch(columns: dict[str, Ints]) -> RequestBatch:
    """Convert columns of ab's -g file: times in ms, starts in whole seconds, sorted by total time, no outcomes."""
    size = len(columns["ttime"])
    outcome, status = np.full(size, log_stream.OUTCOME_CODES["unknown"], np.uint8), np.zeros(size, np.int16)
    return RequestBatch(
        [""], np.zeros(size, np.int32), columns["ttime"], outcome, np.ones(size, bool), status,
        np.full(size, LogRowKind.REQUEST, np.uint8), 1000,
        start_us=columns["seconds"] * 1_000_000, exact_starts=False, first_byte=columns["wait"],
    )  # fmt: skip


# nghttp2 src/h2load.cc: start in us since 1970, status, duration in us; newer versions may add columns
H2LOAD_LOG = LineLogFormat(
    "h2load", None, {0: "start", 1: "status", 2: "duration"},
    re.compile(rb"[1-9]\d{15}\t(?:-1|[1-5]\d\d)\t\d{1,15}(?:\t.*)?\r?"),
    "a start, a status and a duration", _h2load_valid, _h2load_batch,
)  # fmt: skip
# httpd support/ab.c, output_results: start as text, start in seconds since 1970, four times in ms
AB_LOG = LineLogFormat(
    "ab", b"starttime\tseconds\tctime\tdtime\tttime\twait",
    {1: "seconds", 2: "ctime", 3: "dtime", 4: "ttime", 5: "wait"},
    re.compile(rb"[^\t]+\t[1-9]\d{9}(?:\t\d{1,9}){4}\r?"), "a row of six columns", _ab_valid, _ab_batch,
)  # fmt: skip
LINE_LOGS = {"h2load": H2LOAD_LOG, "ab": AB_LOG}


@contextmanager
def _broken_as_parse_error(tool: str, name: str) -> Iterator[None]:
    """Raise a ParseError for a compressed log that is cut or broken."""
    try:
        yield
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ParseError(tool, name, 0, f"the compressed file is cut or broken: {error}") from None


def read_batches(
    source: Path | bytes,
    tool: str,
    *,
    file: str | None = None,
    properties: Mapping[str, str] | None = None,
    start: int = 0,
) -> Iterator[RequestBatch]:
    """Yield the rows of a per-request log in the order of the file; arguments and errors as for `summarise`."""
    name = file or (source.name if isinstance(source, Path) else "results")
    with _broken_as_parse_error(tool, name):
        raw: Any = open_plain(source) if isinstance(source, Path) else io.BytesIO(source)
    if start:
        raw.seek(start)
    with io.BufferedReader(raw, BUFFER_BYTES) as stream, _broken_as_parse_error(tool, name):
        if tool == "jmeter":
            is_xml = stream.peek(64).removeprefix(jtl_csv.BOM).lstrip().startswith(b"<")
            yield from (jtl_xml.read_jtl_xml if is_xml else jtl_csv.read_jtl_csv)(stream, name, properties)
        elif tool == vegeta_rows.TOOL:
            is_gob = GOB_RESULT.match(stream.peek(64))
            yield from (vegeta_gob.read_gob if is_gob else vegeta_rows.read_vegeta)(stream, name, properties)
        elif tool == k6_points.TOOL:
            yield from k6_points.read_k6(stream, name, properties)
        elif tool == gatling_rows.TOOL:
            is_binary = stream.peek(1).startswith(b"\0")
            yield from (gatling_log.read_binary if is_binary else gatling_rows.read_text)(stream, name)
        elif tool in LINE_LOGS:
            yield from LINE_LOGS[tool].read(stream, name)
        else:
            raise ToolError(
                f"tool {tool} writes no per-request log that is read", "jmeter, vegeta, k6, gatling, h2load and ab do"
            )


def summarise(
    source: Path | bytes,
    tool: str,
    *,
    file: str | None = None,
    properties: Mapping[str, str] | None = None,
    store: RequestWriter | None = None,
    driver: str = "",
    start: int = 0,
) -> Summary:
    """Read a log once and return its summary; `Summary.merge` adds other files and drivers.

    Parameters
    ----------
    source : the file, or its bytes.
    tool : `jmeter` (CSV or XML, distinguished by content), `vegeta` (CSV, JSON lines or gob, likewise), `k6` (CSV or
        JSON lines), `gatling` (simulation.log, text or binary), `h2load` (--log-file) or `ab` (-g).
    file : the file's name in messages; by default that of the path.
    properties : JMeter properties of the run (names without `-J`), None if they are not known. A CSV without a header
        is then read only if its rows have the default columns of JMeter 2.x, 3.x, or 4 and 5. For vegeta:
        `interval_ns`, the time between two scheduled starts, if the rate is constant. For vegeta and k6:
        `least_lateness_us`, if the log has a part of a generator's requests (`RequestBatch.least_lateness_us`).
    store : open parquet writer that also receives the rows; it may receive the logs of several drivers in turn.
    driver : name of the log's driver, for the store.
    start : offset in bytes of the first line to read, behind the lines of an earlier run.

    Raises
    ------
    ParseError : the log is empty, of another format, or has an invalid row. A header without rows is valid and means
        that there were no requests.
    """
    summary = Summary()
    for batch in read_batches(source, tool, file=file, properties=properties, start=start):
        summary.add(batch)
        if store is not None:
            store.write(batch, driver)
    summary.settle_schedule()
    return summary
