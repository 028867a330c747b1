"""Results of vegeta's requests, one row each, as `vegeta encode` writes them: CSV, or one JSON object a line.

Columns and their order are those of vegeta's `lib/results.go`: start (ns since 1970), status, latency (ns), bytes out,
bytes in, error, body, attack, sequence number, method, URL, response headers. Older versions lack the last three.
Status 0 is an attempt without a whole response. The rows are in the order in which the requests ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BufferedReader

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from loadbook.core.errors import ParseError
from loadbook.core.go_programs import FAILURE_PATTERNS
from loadbook.core.metrics import error_class
from loadbook.modes.shared.spec import LEAST_LATENESS
from loadbook.request_logs import stream as log_stream
from loadbook.request_logs.stream import OUTCOME_CODES, Damage, Ints, LogRowKind, RecordBlock, RequestBatch

TOOL = "vegeta"
# name in JSON -> column in CSV
CSV_COLUMNS = ("timestamp", "code", "latency", "bytes_out", "bytes_in", "error", "body", "attack", "seq",
               "method", "url", "headers")  # fmt: skip
FEWEST_COLUMNS = 9
TYPES = {
    "timestamp": pa.int64(), "code": pa.int16(), "latency": pa.int64(), "bytes_in": pa.int64(), "seq": pa.int64(),
    "error": log_stream.TEXT_TYPE, "url": log_stream.TEXT_TYPE,
}  # fmt: skip
INTERVAL_PROPERTY = "interval_ns"
NS_PER_US = 1000
MIN_START_NS, MAX_START_NS, MAX_LATENCY_NS = 10**18, 9 * 10**18, 10**15
MAX_REQUESTS = 100_000_000


def read_vegeta(
    stream: BufferedReader, file: str, properties: Mapping[str, str] | None = None
) -> Iterator[RequestBatch]:
    """Yield the rows of a file in its order.

    With the property `interval_ns` (nanoseconds between two scheduled starts of a constant rate) batches have
    `lateness_us`. With `least_lateness_us`, which is that of all requests of an attack, the file has the requests of
    one of its targets, so that sequence numbers are missing.

    Raises
    ------
    ParseError : the file is empty or of another format, has an invalid row, or a sequence number twice (results of
        several attacks); the rows before it have been yielded.
    """
    head = stream.peek(1)
    if not head.strip():
        raise ParseError(TOOL, file, 0, "the file is empty")
    is_json = head.lstrip().startswith(b"{")
    known = properties or {}
    rows = Rows(file, known.get(INTERVAL_PROPERTY), known.get(LEAST_LATENESS))
    blocks = log_stream.split_blocks(stream, quotes=not is_json)
    parse = _json_table if is_json else _csv_table
    for block, ready in log_stream.parsed_ahead(blocks, parse):
        if not block.is_complete:
            yield rows.torn(block)
            continue
        if isinstance(ready.exception(), pa.ArrowInvalid):
            number, text = log_stream.first_bad_row(block, rows.line, parse, is_csv=not is_json)
            raise ParseError(TOOL, file, number, f"not a row of vegeta's results: {text}")
        table = ready.result()
        yield rows.batch(table, log_stream.lines_of(block, len(table)))
    if rows.least_lateness_us is None:
        yield from rows.lost()


class Rows:
    """Builder of batches: number of the next line, the first start, and which sequence numbers there were.

    A file without lines has line 0, and before each batch `offsets`, the byte at which each of its rows begins.
    """

    def __init__(self, file: str, interval_ns: str | None, least_lateness_us: str | None = None, line: int = 1) -> None:
        self.file, self.line = file, line
        self.least_lateness_us = int(least_lateness_us) if least_lateness_us else None
        self.offsets: Ints | None = None
        self.interval_ns = int(interval_ns) if interval_ns else None
        self.first_ns: int | None = None
        self.seen = np.zeros(0, bool)

    def batch(self, table: pa.Table, lines: int) -> RequestBatch:
        """Return the rows of a table, which are on so many lines; ParseError if one is impossible."""
        start_ns, code = log_stream.to_numpy(table["timestamp"]), log_stream.to_numpy(table["code"])
        latency_ns, seq = log_stream.to_numpy(table["latency"]), log_stream.to_numpy(table["seq"])
        self._check(start_ns, code, latency_ns)
        self._check_numbers(seq)
        labels, label = [""], np.zeros(len(code), np.int32)
        if "url" in table.column_names:
            labels, label = log_stream.path_labels(table["url"].combine_chunks())
        answered = code > 0
        self.line += lines
        start_us, elapsed_us = ((ns + NS_PER_US // 2) // NS_PER_US for ns in (start_ns, latency_ns))
        return RequestBatch(
            labels, label, elapsed_us, _outcomes(code, table["error"]), answered, code.astype(np.int16),
            np.full(len(code), LogRowKind.REQUEST, np.uint8), 1,
            start_us=start_us, timed=answered, received=log_stream.to_numpy(table["bytes_in"]),
            lateness_us=None if self.interval_ns is None else start_us - seq * self.interval_ns // NS_PER_US,
            least_lateness_us=self.least_lateness_us,
        )  # fmt: skip

    def torn(self, block: RecordBlock) -> RequestBatch:
        """Return an empty batch with the damage "torn" for a last row without a line end."""
        if self.line == 1 or len(block.data) > log_stream.MAX_RECORD_BYTES:
            raise ParseError(
                TOOL, self.file, self.line, f"not a row of vegeta's results: {log_stream.first_text(block.data)}"
            )
        return log_stream.torn_batch(block, self.line)

    def lost(self) -> Iterator[RequestBatch]:
        """Yield an empty batch with the damage "lost" if sequence numbers are missing below the highest one."""
        if missing := len(self.seen) - int(self.seen.sum()):
            text = f"{missing} of the first {len(self.seen)} requests have no row: vegeta was killed, or rows were lost"
            yield log_stream.empty_batch(Damage("lost", self.line, text))

    def _check_numbers(self, seq: Ints) -> None:
        """Raise ParseError for a sequence number that is impossible or was there before."""
        lowest, highest = int(seq.min()), int(seq.max())
        if lowest < 0 or highest >= MAX_REQUESTS:
            raise self._refusal(0, f"a sequence number is not below {MAX_REQUESTS:,}")
        if highest >= len(self.seen):
            self.seen = np.concatenate([self.seen, np.zeros(highest + 1 - len(self.seen), bool)])
        of_batch, seen_before = self.seen[lowest : highest + 1], self.seen[seq]
        before = np.count_nonzero(of_batch)
        self.seen[seq] = True
        if np.count_nonzero(of_batch) != before + len(seq):
            numbers, counts = np.unique(seq, return_counts=True)
            again = np.append(seq[seen_before], numbers[counts > 1])[0]
            text = f"request {again} is there twice: results of several attacks, which must be read one by one"
            raise self._refusal(0, text)

    def _check(self, start_ns: Ints, code: NDArray[np.integer], latency_ns: Ints) -> None:
        """Raise ParseError with the number of the first row whose start, status or latency is impossible."""
        bad = (start_ns < MIN_START_NS) | (start_ns >= MAX_START_NS) | (latency_ns < 0) | (latency_ns >= MAX_LATENCY_NS)
        bad |= (code != 0) & ((code < 100) | (code > 999))
        if bad.any():
            text = "start, status or latency is impossible"
            raise self._refusal(int(np.argmax(bad)), text)
        self.first_ns = int(start_ns[0]) if self.first_ns is None else self.first_ns
        far = log_stream.first_far_row(start_ns // NS_PER_US, self.first_ns // NS_PER_US)
        if far is not None:
            text = "the row here starts more than 30 days from the first row"
            raise self._refusal(far, text)

    def _refusal(self, row: int, text: str) -> ParseError:
        """Return the error for a row of the batch."""
        if self.offsets is None:
            return ParseError(TOOL, self.file, self.line + row, text)
        return ParseError(TOOL, self.file, 0, f"byte {self.offsets[row]}: {text}")


def _csv_table(block: RecordBlock) -> pa.Table:
    """Return the columns in TYPES of a block of CSV; ArrowInvalid if it has a row that is none of vegeta's."""
    end = log_stream.record_ends(block.data)[0] if block.has_quotes else block.data.find(b"\n") + 1
    first = block.data[:end]
    options = arrow_csv.ReadOptions(autogenerate_column_names=True, use_threads=False, block_size=len(first) + 1)
    in_quotes = arrow_csv.ParseOptions(newlines_in_values=True)
    names = CSV_COLUMNS[: arrow_csv.read_csv(pa.py_buffer(first), options, in_quotes).num_columns]
    if len(names) < FEWEST_COLUMNS:
        raise pa.ArrowInvalid("too few columns")
    return log_stream.parse_csv(block, names, {name: kind for name, kind in TYPES.items() if name in names})


def _json_table(block: RecordBlock) -> pa.Table:
    """Return the columns in TYPES of a block of JSON lines; ArrowInvalid if a line is no result of vegeta."""
    types = TYPES | {"timestamp": pa.timestamp("ns", "UTC"), "error": pa.string(), "url": pa.string()}
    table = log_stream.parse_json_lines(block, pa.schema(types))
    if any(table[name].null_count for name in types):
        raise pa.ArrowInvalid("a key is missing")
    starts_ns = table["timestamp"].cast(pa.int64())
    return pa.table(
        {name: starts_ns if name == "timestamp" else table[name].cast(kind) for name, kind in TYPES.items()}
    )


def _outcomes(code: NDArray[np.integer], errors: pa.ChunkedArray) -> NDArray[np.uint8]:
    """Return the outcome of each attempt from its status, or from the error's text if it had no response."""
    outcome = np.full(len(code), OUTCOME_CODES["errors_other"], np.uint8)
    outcome[(code >= 200) & (code < 400)] = OUTCOME_CODES["ok"]
    outcome[code >= 400] = OUTCOME_CODES["errors_status"]
    if (code == 0).any():
        column = errors.combine_chunks()
        classes = [OUTCOME_CODES[error_class(text, FAILURE_PATTERNS)] for text in column.dictionary.to_pylist()]
        outcome[code == 0] = np.array(classes, np.uint8)[log_stream.to_numpy(column.indices)[code == 0]]
    return outcome
