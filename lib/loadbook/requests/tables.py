"""Logs of one plain line per request: h2load's --log-file and ab's -g, as batches of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader

import numpy as np
import pyarrow as pa
from pyarrow import csv

from loadbook.core.errors import ParseError
from loadbook.requests.arrow import to_numpy
from loadbook.requests.blocks import RecordBlock, split_blocks
from loadbook.requests.rows import OUTCOME_CODES, RequestBatch, Damage, Ints, LogRowKind, first_far_row


@dataclass(frozen=True)
class LineLogFormat:
    """One kind of log.

    Parameters
    ----------
    header : the first line, None where there is none.
    columns : those that are read, by their place.
    line_regex : what a line looks like.
    description : what a line is, for messages.
    is_valid : whether columns hold what `line_regex` allows.
    to_batch : makes a batch of the columns.
    """

    tool: str
    header: bytes | None
    columns: dict[int, str]
    line_regex: re.Pattern[bytes]
    description: str
    is_valid: Callable[[dict[str, Ints]], bool]
    to_batch: Callable[[dict[str, Ints]], RequestBatch]

    def read(self, stream: BufferedReader, file: str) -> Iterator[RequestBatch]:
        """Yield the rows of a file in its order; ParseError with the line for what is not a row of this log."""
        line, first_us = 1, None
        if not stream.peek(1):
            raise ParseError(self.tool, file, 0, "the file is empty")
        if self.header is not None:
            if stream.readline(len(self.header) + 2).rstrip(b"\r\n") != self.header:
                raise ParseError(self.tool, file, 1, f"does not begin with {self.header.decode()!r}")
            line += 1
        for block in split_blocks(stream, quotes=False):
            if not block.is_complete:
                yield self._torn_batch(block, file, line)
                continue
            batch = self.to_batch(self._columns(block, file, line))
            starts_us = batch.start_us if batch.start_us is not None else np.zeros(1, np.int64)
            first_us = int(starts_us[0]) if first_us is None else first_us
            if (row := first_far_row(starts_us, first_us)) is not None:
                raise ParseError(
                    self.tool, file, line + row, "the row here starts more than 30 days from the first row"
                )
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
            table = None
        columns = {name: to_numpy(table[name]) for name in self.columns.values()} if table is not None else {}
        if table is None or not self.is_valid(columns):
            self._raise_for_first_bad_line(block, file, line)
        return columns

    def _raise_for_first_bad_line(self, block: RecordBlock, file: str, line: int) -> None:
        """Raise ParseError for the first line of a block that is not one of this log, or of other width."""
        lines = block.data.removesuffix(b"\n").split(b"\n")
        for number, text in enumerate(lines, line):
            if not self.line_regex.fullmatch(text) or text.count(b"\t") != lines[0].count(b"\t"):
                raise ParseError(self.tool, file, number, f"not {self.description}: {text[:60].decode(errors='replace')!r}")
        raise ParseError(self.tool, file, line, f"here or below is a line that is not {self.description}")

    def _torn_batch(self, block: RecordBlock, file: str, line: int) -> RequestBatch:
        """Return a batch of no rows that says what the end of the file is."""
        if line == 1:
            raise ParseError(self.tool, file, 1, f"not {self.description}: {block.data[:60].decode(errors='replace')!r}")
        batch = self.to_batch({name: np.zeros(0, np.int64) for name in self.columns.values()})
        text = block.data[:60].decode(errors="replace")
        batch.damage = [Damage("torn", line, f"the file ends within a row, which is not counted: {text!r}")]
        return batch


def _h2load_valid(columns: dict[str, Ints]) -> bool:
    status = columns["status"]
    valid_status = (status == -1) | ((status >= 100) & (status < 600))
    return bool(valid_status.all()) and _all_within(columns["start"], 10**15, 10**16) and _all_within(columns["duration"], 0, 10**15)


def _ab_valid(columns: dict[str, Ints]) -> bool:
    times = (columns[name] for name in ("ctime", "dtime", "ttime", "wait"))
    return _all_within(columns["seconds"], 10**9, 10**10) and all(_all_within(time, 0, 10**9) for time in times)


def _all_within(values: Ints, low: int, end: int) -> bool:
    return bool(values.min() >= low and values.max() < end)


def _h2load_batch(columns: dict[str, Ints]) -> RequestBatch:
    """Make rows of h2load's log: -1 is a request that was lost with its connection, or timed out."""
    status = columns["status"]
    outcome = np.full(len(status), OUTCOME_CODES["errors_other"], np.uint8)
    outcome[(status >= 200) & (status < 400)] = OUTCOME_CODES["ok"]
    outcome[status >= 400] = OUTCOME_CODES["errors_status"]
    answered = status > 0
    return RequestBatch(
        [""], np.zeros(len(status), np.int32), columns["duration"], outcome, answered,
        np.where(answered, status, 0).astype(np.int16), _request_kinds(len(status)), 1,
        start_us=columns["start"], timed=answered,
    )  # fmt: skip


def _ab_batch(columns: dict[str, Ints]) -> RequestBatch:
    """Make rows of ab's -g: whole ms, starts in whole seconds, sorted by total time; it does not tell how one ended."""
    size = len(columns["ttime"])
    outcome, status = np.full(size, OUTCOME_CODES["unknown"], np.uint8), np.zeros(size, np.int16)
    return RequestBatch(
        [""], np.zeros(size, np.int32), columns["ttime"], outcome, np.ones(size, bool), status, _request_kinds(size), 1000,
        start_us=columns["seconds"] * 1_000_000, exact_starts=False, first_byte=columns["wait"],
    )  # fmt: skip


def _request_kinds(size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.full(size, LogRowKind.REQUEST, np.uint8)


# nghttp2 src/h2load.cc: start in us since 1970, status, duration in us; more columns may come
H2LOAD_LOG = LineLogFormat(
    "h2load", None, {0: "start", 1: "status", 2: "duration"},
    re.compile(rb"[1-9]\d{15}\t(?:-1|[1-5]\d\d)\t\d{1,15}(?:\t.*)?\r?"),
    "a start, a status and a duration", _h2load_valid, _h2load_batch,
)  # fmt: skip
# httpd support/ab.c, output_results: APR time text, seconds since 1970, then ms
AB_LOG = LineLogFormat(
    "ab", b"starttime\tseconds\tctime\tdtime\tttime\twait",
    {1: "seconds", 2: "ctime", 3: "dtime", 4: "ttime", 5: "wait"},
    re.compile(rb"[^\t]+\t[1-9]\d{9}(?:\t\d{1,9}){4}\r?"), "a row of six columns", _ab_valid, _ab_batch,
)  # fmt: skip
