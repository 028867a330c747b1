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
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadbook.core.errors import ParseError
from loadbook.requests.jtl_layout import TOOL, Layout
from loadbook.requests.rows import OUTCOME, Batch, Ints, Kind

TICK_US = 1000
TRANSACTION = "Number of samples in transaction"
NO_ANSWER = "Non HTTP response code"
SPAN_MAX_US = 30 * 86400 * 10**6
BACK_MAX_US = 30 * 60 * 10**6
_PART = re.compile(r"(.+?)((?:-\d{1,4})+)", re.DOTALL)
_STATUS = re.compile(r"[1-5]\d\d")
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
        answered = ~np.array([c.startswith(NO_ANSWER) for c in codes], bool)[code]
        succeeded = _numbers(table, "success")
        ok = answered & (status < 400) & (status >= 200 if succeeded is None else succeeded.astype(bool))
        outcome = np.where(
            ok, OUTCOME["ok"], np.where(status >= 400, OUTCOME["errors_status"], OUTCOME["errors_other"])
        )
        self._set_causes(outcome, ~answered, codes, code, messages, message)
        elapsed = _numbers(table, "elapsed")
        assert elapsed is not None
        if kinds is None:
            transaction = np.array([m.startswith(TRANSACTION) for m in messages], bool)[message]
            kind = np.where(transaction, np.uint8(Kind.TRANSACTION), np.uint8(Kind.REQUEST))
        else:
            kind = np.array(kinds, np.uint8)
        batch = Batch(
            labels, label, elapsed, outcome.astype(np.uint8), answered, status, kind, TICK_US,
            start_us=self._starts(table, elapsed, lines),
            first_byte=_numbers(table, "Latency"),
            received=_numbers(table, "bytes"),
        )  # fmt: skip
        self._set_aggregates(batch, table, lines)
        if kinds is None:
            self._set_parts(batch, table)
        return batch

    def _set_causes(
        self,
        outcome: Ints,
        failed: NDArray[np.bool_],
        codes: Sequence[str],
        code: Ints,
        messages: Sequence[str],
        message: Ints,
    ) -> None:
        if not failed.any():
            return
        pairs = code[failed] * np.int64(len(messages)) + message[failed]
        distinct, which = np.unique(pairs, return_inverse=True)
        causes = [cause(codes[pair // len(messages)], messages[pair % len(messages)]) for pair in distinct.tolist()]
        outcome[failed] = np.array(causes)[which]

    def _starts(self, table: pa.Table, elapsed: Ints, lines: Sequence[int]) -> Ints | None:
        stamps = _numbers(table, "timeStamp")
        if stamps is None or not len(stamps):
            return stamps
        start_us = (stamps - elapsed if self.layout.stamps_end else stamps) * TICK_US
        self._first_us = int(start_us[0]) if self._first_us is None else self._first_us
        far = np.abs(start_us - self._first_us) > SPAN_MAX_US
        if far.any():
            self._refuse(lines, far, "starts more than 30 days from the first row")
        ends_us = np.maximum.accumulate(np.append(self._latest_us, start_us + elapsed * TICK_US))
        if self.layout.stamp and self.layout.stamp.text:
            back = ends_us[:-1] - (start_us + elapsed * TICK_US) > BACK_MAX_US
            if back.any():
                self._refuse(lines, back, "local time goes back by more than 30 minutes (daylight saving?): save ms")
        self._latest_us = int(ends_us[-1])
        return start_us

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

    def _set_parts(self, batch: Batch, table: pa.Table) -> None:
        """Mark sub-results; only blocks with a label that could be one cost anything."""
        if not any(_PART.fullmatch(label) for label in batch.labels):
            return
        threads, thread = _texts(table, "threadName")
        starts = (np.zeros(len(batch), np.int64) if batch.start_us is None else batch.start_us).tolist()
        times = zip(thread.tolist(), batch.label.tolist(), starts, batch.elapsed.tolist(), strict=True)
        for row, (t, number, start_us, elapsed) in enumerate(times):
            label, end_us = batch.labels[number], start_us + elapsed * TICK_US
            if batch.kind[row] == Kind.TRANSACTION:
                continue
            family = self._families.get(threads[t])
            if family and (grown := _joined(family, label, start_us, end_us, batch.start_us is not None)):
                batch.kind[row] = Kind.PART
                self._families[threads[t]] = grown
            else:
                self._families[threads[t]] = Family(label, start_us, end_us, 0)


def _joined(family: Family, label: str, start_us: int, end_us: int, timed: bool) -> Family | None:
    """Return the family with one more sub-result, None if this row is none of it."""
    if not label.startswith(family.label + "-") or not re.fullmatch(
        r"\d{1,4}(-\d{1,4})*", label[len(family.label) + 1 :]
    ):
        return None
    if timed and not family.start_us - TICK_US <= start_us <= end_us <= family.end_us + TICK_US:
        return None
    number, *deeper = map(int, label[len(family.label) + 1 :].split("-"))
    if deeper:
        return family if number in (family.following, family.following - 1) else None
    return family._replace(following=number + 1) if number == family.following else None


def _texts(table: pa.Table, name: str) -> tuple[list[str], Ints]:
    """Return the distinct texts of a column and each row's number among them; [""] for a column that is not there."""
    if name not in table.column_names or not len(table):
        return [""], np.zeros(len(table), np.int32)
    column = table[name].combine_chunks()
    return column.dictionary.to_pylist(), column.indices.to_numpy()


def _numbers(table: pa.Table, name: str) -> Ints | None:
    return table[name].to_numpy() if name in table.column_names else None
