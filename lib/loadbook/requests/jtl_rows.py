"""Which rows of a JTL are requests, and how each ended: one rule for CSV and XML.

- A row whose responseMessage starts "Number of samples in transaction" is a transaction controller (the rule of
  JMeter's own report, `report/core/Sample.java`); its children have rows of their own.
- A row named label-0, label-1, ... that follows a row `label` of its thread and lies within its time is a sub-result (a
  redirect, an embedded resource), written so since 5.0; its parent's time holds it.
- A row whose SampleCount is not 1 stands for several requests.
- responseCode "Non HTTP response code: <exception>" means that no answer came. Else `success` is the truth, but for a
  status of 400 and above, which is never ok.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadbook.core.errors import ParseError
from loadbook.requests.arrow import to_numpy
from loadbook.requests.jtl_layout import TOOL, Layout
from loadbook.requests.rows import OUTCOME, Batch, Ints, Kind, far

TICK_US = 1000
TRANSACTION = "Number of samples in transaction"
NO_ANSWER = "Non HTTP response code"
BACK_MAX_US = 30 * 60 * 10**6
TAIL_ROWS = 1000
THREADS_MAX = 100_000
_PART = re.compile(r"(.+?)((?:-\d{1,4})+)", re.DOTALL)
_NUMBERS = re.compile(r"-(\d{1,4})((?:-\d{1,4})*)")
_STATUS = re.compile(r"[1-5][0-9][0-9]")
# found in "exception class: message" of an attempt without an answer, first match wins
_CAUSES = (
    ("errors_driver", r"Too many open files|BindException|requested address|OutOfMemory|unable to create"),
    ("errors_timeout", r"Timeout|timed out"),
    ("errors_connect", r"ConnectException|NoRouteToHost|UnknownHost|HttpHostConnect|Connection refused|unreachable"),
    ("errors_write", r"Broken pipe"),
    ("errors_read", r"SocketException|NoHttpResponse|ConnectionClosed|EOFException|TruncatedChunk|MalformedChunk"),
    ("errors_other", r""),
)


class Family(NamedTuple):
    """A row that may have sub-results: its label, its time in us, and the number that the next one must have."""

    label: str
    start_us: int
    end_us: int
    following: int


def cause(code: str, message: str) -> int:
    """Return the outcome of an attempt without an answer, from its response code and message."""
    return next(OUTCOME[name] for name, pattern in _CAUSES if re.search(pattern, f"{code}: {message}"))


class Rows:
    """Makes batches of the known columns of one file, block after block."""

    def __init__(self, layout: Layout, file: str) -> None:
        self.layout, self.file = layout, file
        self._families: dict[str, Family] = {}
        self._first_us: int | None = None
        self._latest_us = 0

    def batch(self, table: pa.Table, lines: Sequence[int], kinds: Sequence[Kind] | None = None) -> Batch:
        """Return the rows of a table of JTL columns; ParseError for impossible times or counts.

        `lines` says where each row is; `kinds` what it is, where that is known (XML).
        """
        labels, label = _texts(table, "label")
        codes, code = _texts(table, "responseCode")
        messages, message = _texts(table, "responseMessage")
        status = np.array([int(c) if _STATUS.fullmatch(c) else 0 for c in codes], np.int16)[code]
        answered = np.array([not c.startswith(NO_ANSWER) for c in codes], bool)[code]
        outcome = _outcomes(codes)[code * np.int32(2) + _succeeded(table, status)]
        if not answered.all():
            outcome[~answered] = _causes(codes, code[~answered], messages, message[~answered])
        if kinds is None:
            kind = np.array([Kind.TRANSACTION * m.startswith(TRANSACTION) for m in messages], np.uint8)[message]
        else:
            kind = np.array(kinds, np.uint8)
        elapsed = _numbers(table, "elapsed")
        if elapsed is None:
            raise ParseError(TOOL, self.file, lines[0] if lines else 0, "no sample with a time (elapsed, or t in XML)")
        batch = Batch(
            labels, label, elapsed, outcome, answered, status, kind, TICK_US,
            start_us=self._starts(table, elapsed, lines),
            first_byte=_numbers(table, "Latency"),
            received=_numbers(table, "bytes"),
            connect=_numbers(table, "Connect"),
        )  # fmt: skip
        self._set_aggregates(batch, table, lines)
        if kinds is None:
            self._set_parts(batch, *_texts(table, "threadName"))
        return batch

    def _starts(self, table: pa.Table, elapsed: Ints, lines: Sequence[int]) -> Ints | None:
        stamps = _numbers(table, "timeStamp")
        if stamps is None or not len(stamps):
            return stamps
        start_us = (stamps - elapsed if self.layout.stamps_end else stamps) * TICK_US
        self._first_us = int(start_us[0]) if self._first_us is None else self._first_us
        if (row := far(start_us, self._first_us)) is not None:
            raise ParseError(TOOL, self.file, lines[row], "the row here starts more than 30 days from the first row")
        if self.layout.stamp and self.layout.stamp.text:
            self._check_forward(start_us + elapsed * TICK_US, lines)
        return start_us

    def _check_forward(self, ends_us: Ints, lines: Sequence[int]) -> None:
        """Refuse local time that goes back; rows are written as they end."""
        latest_us = np.maximum.accumulate(np.append(self._latest_us, ends_us))
        back = latest_us[:-1] - ends_us > BACK_MAX_US
        if back.any():
            self._refuse(lines, back, "is more than 30 minutes before the rows above it (daylight saving?): save ms")
        self._latest_us = int(latest_us[-1])

    def _refuse(self, lines: Sequence[int], rows: NDArray[np.bool_], message: str) -> NoReturn:
        """Raise ParseError for the first of these rows."""
        raise ParseError(TOOL, self.file, lines[int(np.argmax(rows))], f"the row here {message}")

    def _set_aggregates(self, batch: Batch, table: pa.Table, lines: Sequence[int]) -> None:
        samples, failed = _numbers(table, "SampleCount"), _numbers(table, "ErrorCount")
        if samples is None or (samples == 1).all():
            return
        if failed is None or (failed > samples).any():
            self._refuse(lines, samples != 1, "stands for several requests but does not say how many of them failed")
        several = (samples != 1) & (batch.kind == Kind.REQUEST)
        batch.kind[several] = Kind.AGGREGATE
        batch.samples, batch.failed = np.where(several, samples, 1), np.where(several, failed, batch.outcome != 0)

    def _set_parts(self, batch: Batch, threads: list[str], thread: NDArray[np.integer]) -> None:
        """Mark sub-results; only a block with labels of such a form looks at its rows one by one."""
        bases = {match[1] for label in batch.labels if (match := _PART.fullmatch(label))}
        if bases & {*batch.labels, *(family.label for family in self._families.values())}:
            for row in self._walk(batch, threads, thread, 0):
                batch.kind[row] = Kind.PART
        else:  # the parent of the next block's first rows may be among the last ones here
            self._families.clear()
            for _ in self._walk(batch, threads, thread, max(0, len(batch) - TAIL_ROWS)):
                pass

    def _walk(self, batch: Batch, threads: list[str], thread: NDArray[np.integer], first: int) -> Iterator[int]:
        """Yield which rows are sub-results; keeps for each thread the row that its next ones may belong to."""
        timed = batch.start_us is not None
        starts = np.zeros(len(batch), np.int64) if batch.start_us is None else batch.start_us
        columns = (thread, batch.label, batch.kind, starts, starts + batch.elapsed * TICK_US)
        for row, (t, number, kind, start_us, end_us) in enumerate(
            zip(*(column[first:].tolist() for column in columns), strict=True), first
        ):
            if kind == Kind.TRANSACTION:
                continue
            family, label = self._families.pop(threads[t], None), batch.labels[number]
            grown = _joined(family, label, start_us, end_us, timed) if family else None
            self._families[threads[t]] = grown or Family(label, start_us, end_us, 0)
            if grown:
                yield row
            if len(self._families) > THREADS_MAX:
                del self._families[next(iter(self._families))]


def _joined(family: Family, label: str, start_us: int, end_us: int, timed: bool) -> Family | None:
    """Return the family with one more sub-result, None if this row is none of it."""
    match = _NUMBERS.fullmatch(label, len(family.label)) if label.startswith(family.label) else None
    if match is None:
        return None
    if timed and not family.start_us - TICK_US <= start_us <= end_us <= family.end_us + TICK_US:
        return None
    number = int(match[1])
    if match[2]:  # a sub-result of a sub-result
        return family if number in (family.following, family.following - 1) else None
    return family._replace(following=number + 1) if number == family.following else None


def _succeeded(table: pa.Table, status: NDArray[np.int16]) -> NDArray[np.int32]:
    """Return 1 where the tool calls a row a success, else 0; by its status where there is no such column."""
    if "success" in table.column_names:
        return to_numpy(table["success"]).astype(np.int32)
    return ((status >= 200) & (status < 400)).astype(np.int32)


def _outcomes(codes: Sequence[str]) -> NDArray[np.uint8]:
    """Return the outcome of an answered request at twice its code's number, plus 1 for a success."""
    outcomes = []
    for code in codes:
        bad = _STATUS.fullmatch(code) and int(code) >= 400
        outcomes += [OUTCOME["errors_status" if bad else name] for name in ("errors_other", "ok")]
    return np.array(outcomes, np.uint8)


def _causes(
    codes: Sequence[str], code: NDArray[np.integer], messages: Sequence[str], message: NDArray[np.integer]
) -> NDArray[np.uint8]:
    """Return the outcomes of attempts without an answer."""
    pairs, which = np.unique(code * np.int64(len(messages)) + message, return_inverse=True)
    found = [cause(codes[pair // len(messages)], messages[pair % len(messages)]) for pair in pairs.tolist()]
    return np.array(found, np.uint8)[which]


def _texts(table: pa.Table, name: str) -> tuple[list[str], NDArray[np.integer]]:
    """Return the distinct texts of a column and each row's number among them; [""] for a column that is not there."""
    if name not in table.column_names or not len(table):
        return [""], np.zeros(len(table), np.int32)
    column = table[name].combine_chunks() if table[name].num_chunks > 1 else table[name].chunk(0)
    return column.dictionary.to_pylist(), to_numpy(column.indices)


def _numbers(table: pa.Table, name: str) -> Ints | None:
    return to_numpy(table[name]) if name in table.column_names else None
