"""Classification of JTL rows: which are requests, and how each ended; the same for CSV and XML.

- A row whose responseMessage starts "Number of samples in transaction" is a transaction controller (the rule of
  JMeter's own report, `report/core/Sample.java`); its children have rows of their own.
- A row named label-0, label-1, ... that follows a row `label` of its thread and lies within its time is a sub-result (a
  redirect, an embedded resource), written so since 5.0; the time of its parent includes it.
- A row whose SampleCount is not 1 stands for several requests.
- responseCode "Non HTTP response code: <exception>" means that there was no response. Otherwise `success` decides,
  except that a status of 400 and above is never ok.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadbook.core.errors import ParseError
from loadbook.request_logs.jtl_layout import TOOL, JtlLayout
from loadbook.request_logs.stream import OUTCOME_CODES, Ints, LogRowKind, RequestBatch, first_far_row, to_numpy

TICK_US = 1000
TRANSACTION = "Number of samples in transaction"
NO_ANSWER = "Non HTTP response code"
MAX_BACKWARD_US = 30 * 60 * 10**6
TAIL_ROWS = 1000
MAX_THREADS = 100_000
_SUB_RESULT_LABEL = re.compile(r"(.+?)((?:-\d{1,4})+)", re.DOTALL)
_SUB_RESULT_NUMBERS = re.compile(r"-(\d{1,4})((?:-\d{1,4})*)")
_STATUS = re.compile(r"[1-5][0-9][0-9]")
# found in "exception class: message" of an attempt without an answer, first match wins
_FAILURE_PATTERNS = (
    ("errors_driver", r"Too many open files|BindException|requested address|OutOfMemory|unable to create"),
    ("errors_timeout", r"Timeout|timed out"),
    ("errors_connect", r"ConnectException|NoRouteToHost|UnknownHost|HttpHostConnect|Connection refused|unreachable"),
    ("errors_write", r"Broken pipe"),
    ("errors_read", r"SocketException|NoHttpResponse|ConnectionClosed|EOFException|TruncatedChunk|MalformedChunk"),
    ("errors_other", r""),
)


class SubResultParent(NamedTuple):
    """A row that may have sub-results: its label, its time in us, and the number that the next one must have."""

    label: str
    start_us: int
    end_us: int
    next_number: int


def failure_outcome(code: str, message: str) -> int:
    """Return the outcome of an attempt without an answer, from its response code and message."""
    return next(OUTCOME_CODES[name] for name, pattern in _FAILURE_PATTERNS if re.search(pattern, f"{code}: {message}"))


class BatchBuilder:
    """Makes batches of the known columns of one file, block after block."""

    def __init__(self, layout: JtlLayout, file: str) -> None:
        self.layout, self.file = layout, file
        self._parents: dict[str, SubResultParent] = {}
        self._first_us: int | None = None
        self._latest_us = 0

    def build(self, table: pa.Table, lines: Sequence[int], kinds: Sequence[LogRowKind] | None = None) -> RequestBatch:
        """Return the rows of a table of JTL columns; ParseError for impossible times or counts.

        `lines` are the line numbers of the rows; `kinds` are their kinds where known (XML).
        """
        labels, label = _column_texts(table, "label")
        codes, code = _column_texts(table, "responseCode")
        messages, message = _column_texts(table, "responseMessage")
        status = np.array([int(c) if _STATUS.fullmatch(c) else 0 for c in codes], np.int16)[code]
        answered = np.array([not c.startswith(NO_ANSWER) for c in codes], bool)[code]
        outcome = _answered_outcomes(codes)[code * np.int32(2) + _success_flags(table, status)]
        if not answered.all():
            outcome[~answered] = _failure_outcomes(codes, code[~answered], messages, message[~answered])
        if kinds is None:
            kind = np.array([LogRowKind.TRANSACTION * m.startswith(TRANSACTION) for m in messages], np.uint8)[message]
        else:
            kind = np.array(kinds, np.uint8)
        elapsed = _column_numbers(table, "elapsed")
        if elapsed is None:
            raise ParseError(TOOL, self.file, lines[0] if lines else 0, "no sample with a time (elapsed, or t in XML)")
        batch = RequestBatch(
            labels, label, elapsed, outcome, answered, status, kind, TICK_US,
            start_us=self._start_times(table, elapsed, lines),
            first_byte=_column_numbers(table, "Latency"),
            received=_column_numbers(table, "bytes"),
            connect=_column_numbers(table, "Connect"),
        )  # fmt: skip
        self._set_aggregates(batch, table, lines)
        if kinds is None:
            self._mark_sub_results(batch, *_column_texts(table, "threadName"))
        return batch

    def _start_times(self, table: pa.Table, elapsed: Ints, lines: Sequence[int]) -> Ints | None:
        stamps = _column_numbers(table, "timeStamp")
        if stamps is None or not len(stamps):
            return stamps
        start_us = (stamps - elapsed if self.layout.timestamps_are_ends else stamps) * TICK_US
        self._first_us = int(start_us[0]) if self._first_us is None else self._first_us
        if (row := first_far_row(start_us, self._first_us)) is not None:
            raise ParseError(TOOL, self.file, lines[row], "the row here starts more than 30 days from the first row")
        if self.layout.timestamp_format and self.layout.timestamp_format.is_pattern:
            self._check_monotonic(start_us + elapsed * TICK_US, lines)
        return start_us

    def _check_monotonic(self, ends_us: Ints, lines: Sequence[int]) -> None:
        """Refuse local time that goes back; rows are written as they end."""
        latest_us = np.maximum.accumulate(np.append(self._latest_us, ends_us))
        goes_back = latest_us[:-1] - ends_us > MAX_BACKWARD_US
        if goes_back.any():
            self._raise_for_first(
                lines, goes_back, "is more than 30 minutes before the rows above it (daylight saving?): save ms"
            )
        self._latest_us = int(latest_us[-1])

    def _raise_for_first(self, lines: Sequence[int], rows: NDArray[np.bool_], message: str) -> NoReturn:
        """Raise ParseError for the first of these rows."""
        raise ParseError(TOOL, self.file, lines[int(np.argmax(rows))], f"the row here {message}")

    def _set_aggregates(self, batch: RequestBatch, table: pa.Table, lines: Sequence[int]) -> None:
        samples, failed = _column_numbers(table, "SampleCount"), _column_numbers(table, "ErrorCount")
        if samples is None or (samples == 1).all():
            return
        if failed is None or (failed > samples).any():
            self._raise_for_first(
                lines, samples != 1, "stands for several requests but does not say how many of them failed"
            )
        several = (samples != 1) & (batch.kind == LogRowKind.REQUEST)
        batch.kind[several] = LogRowKind.AGGREGATE
        batch.samples, batch.failed = np.where(several, samples, 1), np.where(several, failed, batch.outcome != 0)

    def _mark_sub_results(self, batch: RequestBatch, threads: list[str], thread: NDArray[np.integer]) -> None:
        """Mark sub-results; only a block with labels of such a form looks at its rows one by one."""
        bases = {match[1] for label in batch.labels if (match := _SUB_RESULT_LABEL.fullmatch(label))}
        if bases & {*batch.labels, *(parent.label for parent in self._parents.values())}:
            for row in self._find_sub_results(batch, threads, thread, 0):
                batch.kind[row] = LogRowKind.PART
        else:  # the parent of the next block's first rows may be among the last ones here
            self._parents.clear()
            for _ in self._find_sub_results(batch, threads, thread, max(0, len(batch) - TAIL_ROWS)):
                pass

    def _find_sub_results(
        self, batch: RequestBatch, threads: list[str], thread: NDArray[np.integer], first: int
    ) -> Iterator[int]:
        """Yield which rows are sub-results; keeps for each thread the row that its next ones may belong to."""
        timed = batch.start_us is not None
        starts = np.zeros(len(batch), np.int64) if batch.start_us is None else batch.start_us
        columns = (thread, batch.label, batch.kind, starts, starts + batch.elapsed * TICK_US)
        for row, (t, number, kind, start_us, end_us) in enumerate(
            zip(*(column[first:].tolist() for column in columns), strict=True), first
        ):
            if kind == LogRowKind.TRANSACTION:
                continue
            parent, label = self._parents.pop(threads[t], None), batch.labels[number]
            next_parent = _with_sub_result(parent, label, start_us, end_us, timed) if parent else None
            self._parents[threads[t]] = next_parent or SubResultParent(label, start_us, end_us, 0)
            if next_parent:
                yield row
            if len(self._parents) > MAX_THREADS:
                del self._parents[next(iter(self._parents))]


def _with_sub_result(
    parent: SubResultParent, label: str, start_us: int, end_us: int, timed: bool
) -> SubResultParent | None:
    """Return the family with one more sub-result, None if this row is none of it."""
    match = _SUB_RESULT_NUMBERS.fullmatch(label, len(parent.label)) if label.startswith(parent.label) else None
    if match is None:
        return None
    if timed and not parent.start_us - TICK_US <= start_us <= end_us <= parent.end_us + TICK_US:
        return None
    number = int(match[1])
    if match[2]:  # a sub-result of a sub-result
        return parent if number in (parent.next_number, parent.next_number - 1) else None
    return parent._replace(next_number=number + 1) if number == parent.next_number else None


def _success_flags(table: pa.Table, status: NDArray[np.int16]) -> NDArray[np.int32]:
    """Return 1 where the tool calls a row a success, else 0; by its status where there is no such column."""
    if "success" in table.column_names:
        return to_numpy(table["success"]).astype(np.int32)
    return ((status >= 200) & (status < 400)).astype(np.int32)


def _answered_outcomes(codes: Sequence[str]) -> NDArray[np.uint8]:
    """Return the outcome of an answered request at twice its code's number, plus 1 for a success."""
    outcomes = []
    for code in codes:
        bad = _STATUS.fullmatch(code) and int(code) >= 400
        outcomes += [OUTCOME_CODES["errors_status" if bad else name] for name in ("errors_other", "ok")]
    return np.array(outcomes, np.uint8)


def _failure_outcomes(
    codes: Sequence[str], code: NDArray[np.integer], messages: Sequence[str], message: NDArray[np.integer]
) -> NDArray[np.uint8]:
    """Return the outcomes of attempts without an answer."""
    pairs, which = np.unique(code * np.int64(len(messages)) + message, return_inverse=True)
    outcomes = [
        failure_outcome(codes[pair // len(messages)], messages[pair % len(messages)]) for pair in pairs.tolist()
    ]
    return np.array(outcomes, np.uint8)[which]


def _column_texts(table: pa.Table, name: str) -> tuple[list[str], NDArray[np.integer]]:
    """Return the distinct texts of a column and each row's number among them; [""] for a column that is not there."""
    if name not in table.column_names or not len(table):
        return [""], np.zeros(len(table), np.int32)
    column = table[name].combine_chunks() if table[name].num_chunks > 1 else table[name].chunk(0)
    return column.dictionary.to_pylist(), to_numpy(column.indices)


def _column_numbers(table: pa.Table, name: str) -> Ints | None:
    return to_numpy(table[name]) if name in table.column_names else None
