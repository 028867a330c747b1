"""Gatling's binary simulation.log, as versions 3.13 to 3.15 write it; `gatling_rows` says what its records mean.

Numbers are big-endian. A record begins with the byte of its kind: 0 the run, first and once; 1 a request, 2 a user,
3 a group, 4 an error. Times are ms after the run's start, in four bytes. A text is its length in bytes, the bytes and
Java's coder: 0 for Latin-1, 1 for UTF-16 in the byte order of the machine, here little-endian; an empty text has no
coder. A cached text is its number, from 1 on in order, and the text; where it comes again, its number negated alone.

So almost all records have sizes that a few bytes tell. A pattern finds where they begin; those with a new text are
written anew without it. Then all requests of a block are decoded together.

Sources: `LogFileDataWriter.scala`, `LogFileReader.scala`, `RecordHeader.scala` and `StringInternals.java` of
gatling/gatling (binary since October 2024), and logs of 3.13.0, 3.13.5, 3.14.9 and 3.15.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BufferedReader
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadbook.core.errors import ParseError
from loadbook.request_logs import stream as log_stream
from loadbook.request_logs.gatling_rows import (
    END_START_MS,
    MAX_REQUEST_MS,
    MIN_START_MS,
    TOO_LONG,
    TOOL,
    Outcomes,
    label_of,
)
from loadbook.request_logs.stream import Damage, Ints, RequestBatch

REQUEST, USER, GROUP, ERROR = 1, 2, 3, 4
BINARY_VERSIONS = re.compile(r"3\.1[3-5](?:[.\-].*)?")
HEAD_BYTES = 1 << 20  # the record of the run, with its scenarios and assertions
MAX_TEXT_BYTES = 1 << 16  # Gatling's own buffer has 8192
MAX_GROUPS = 100  # one within another
PADDING = bytes(32)  # after the records, so that the last one is read like others
# records with no new text, by up to seven groups; others are read one by one
_TEXT = rb"[\x80-\xff]..."
_PATHS = rb"|".join(rb"\x%02x(?:%b){%d}" % (count, _TEXT, count) for count in range(8))
_RECORD = rb"\x01\0\0\0(?:%b)%b.{9}%b|\x02.{9}|\x03\0\0\0(?:%b).{13}|\x04%b.{4}" % (
    _PATHS, _TEXT, _TEXT, _PATHS.partition(b"|")[2], _TEXT
)  # fmt: skip
_KNOWN_RECORD = re.compile(_RECORD, re.DOTALL)
CODERS = ("latin-1", "utf-16-le")


class _CutError(Exception):
    """The data end within a record."""


class _BadRecordError(Exception):
    """A record is impossible."""


def read_binary(stream: BufferedReader, file: str) -> Iterator[RequestBatch]:
    """Yield the requests of a binary log in its order.

    Raises
    ------
    ParseError : it is of an unknown version or has an impossible record; it names the byte at which that begins. The
        requests before it may have been yielded.
    """
    head = stream.read(HEAD_BYTES)
    cursor = _Cursor(head, 1, len(head))
    try:
        run = _Run(cursor)
    except _CutError:
        raise _refusal(file, 0, "the file ends within its first record, that of the run") from None
    except _BadRecordError as error:
        raise _refusal(file, 0, str(error)) from None
    log = _Log(file, run, cursor.at)
    data, step = bytearray(head[cursor.at :]), log_stream.FIRST_BLOCK_BYTES
    remainder = bytearray()
    while data:
        batch, remainder = log.batch(data)
        yield batch
        data, step = log_stream.read_after(remainder, stream, step), log_stream.BLOCK_BYTES
    if remainder:
        text = f"byte {log.offset}: the file ends within the record that begins here, which is not counted"
        yield log_stream.empty_batch(Damage("torn", 0, text))


def _refusal(file: str, offset: int, text: str) -> ParseError:
    return ParseError(TOOL, file, 0, f"byte {offset}: {text}")


class _Cursor:
    """Cursor over records; _CutError behind `size`, _BadRecordError for an impossible text."""

    def __init__(self, data: bytes | bytearray, at: int, size: int) -> None:
        self.data, self.at, self.size = data, at, size

    def take(self, count: int) -> bytes:
        begin, self.at = self.at, self.at + count
        if self.at > self.size:
            raise _CutError
        return bytes(self.data[begin : self.at])

    def number(self, count: int = 4) -> int:
        return int.from_bytes(self.take(count), "big", signed=True)

    def length(self, limit: int = MAX_TEXT_BYTES) -> int:
        if not 0 <= (length := self.number()) <= limit:
            raise _BadRecordError("a length or a number of texts is impossible")
        return length

    def text(self) -> str:
        if not (length := self.length()):
            return ""
        data, coder = self.take(length), self.number(1)
        if coder not in (0, 1) or (coder and length % 2):
            raise _BadRecordError("a text has no coder of Java's")
        return data.decode(CODERS[coder], errors="replace")


class _Run:
    """The record of the run: its start in ms since 1970 and the number of scenarios."""

    def __init__(self, cursor: _Cursor) -> None:
        version = cursor.text()
        if not BINARY_VERSIONS.fullmatch(version):
            raise _BadRecordError(f"a log of Gatling {version[:40]!r}; those of 3.13 to 3.15 are read as binary")
        cursor.text()  # the class
        self.start_ms = cursor.number(8)
        if not MIN_START_MS <= self.start_ms < END_START_MS:
            raise _BadRecordError("the start of the run is impossible")
        cursor.text()  # the description
        self.scenarios = cursor.length()
        for _ in range(self.scenarios):
            cursor.text()
        for _ in range(cursor.length()):
            cursor.take(cursor.length(HEAD_BYTES))  # an assertion
        # end of a message that no request asked for: -2^63 as ms after the start, cut to four bytes
        self.unasked_end = (-self.start_ms + 2**31) % 2**32 - 2**31


class _Log:
    """State of a log: the offset of the next record, and the texts that were cached."""

    def __init__(self, file: str, run: _Run, offset: int) -> None:
        self.file, self.run, self.offset = file, run, offset
        self.texts: list[str] = [""]  # the numbers begin with 1
        self.outcomes = Outcomes([""])

    def batch(self, data: bytearray) -> tuple[RequestBatch, bytearray]:
        """Return the requests of the whole records in `data`, and the bytes behind these."""
        size = len(data)
        begins, places, end, problem = self._find_records(data)
        remainder = data[end:size]
        block = _Records(data, places)
        rows = self._check(block, begins)
        if problem:
            raise _refusal(self.file, self.offset + end, problem)
        batch = self._rows(block, rows)
        self.offset += end
        return batch, remainder

    def _find_records(self, data: bytearray) -> tuple[Ints, Ints, int, str]:
        """Return where records begin, where they are to be read, the end of the last one, and what is wrong there.

        Records with new texts are appended to `data` with the numbers of these alone.
        """
        size, at, problem = len(data), 0, ""
        parts: list[Ints] = []
        count = 0
        moved: list[tuple[int, bytes]] = []
        while at < size:
            starts = []
            while match := _KNOWN_RECORD.match(data, at, size):  # one after the other
                starts.append(at)
                at = match.end()
            if starts:
                parts.append(np.array(starts))
                count += len(starts)
                continue
            cursor = _Cursor(data, at, size)
            try:
                record = self._without_texts(cursor)
            except _CutError:
                break
            except _BadRecordError as error:
                problem = str(error)
                break
            moved.append((count, record))
            parts.append(np.array([at]))
            count += 1
            at = cursor.at
        begins = np.concatenate([np.zeros(0, np.int64), *parts])
        places = begins.copy() if moved else begins
        for row, record in moved:
            places[row] = len(data)
            data += record
        data += PADDING
        return begins, places, at, problem

    def _without_texts(self, cursor: _Cursor) -> bytes:
        """Return a record with the negated numbers of its texts alone; its texts are added to the cache."""
        new: list[str] = []
        kind = cursor.take(1)
        if kind[0] == USER:
            return kind + cursor.take(9)
        if kind[0] not in (REQUEST, GROUP, ERROR):
            raise _BadRecordError(f"a record of the unknown kind {kind[0]}")
        parts = [kind]
        if kind[0] != ERROR:
            count = cursor.length(MAX_GROUPS - 1)
            if kind[0] == GROUP and not count:
                raise _BadRecordError("a group without a name")
            parts.append(count.to_bytes(4, "big"))
            parts += [self._number(cursor, new) for _ in range(count)]
        if kind[0] == REQUEST:
            parts += [self._number(cursor, new), cursor.take(9), self._number(cursor, new)]
        elif kind[0] == GROUP:
            parts.append(cursor.take(13))
        else:
            parts += [self._number(cursor, new), cursor.take(4)]
        for text in new:
            self.texts.append(text)
            self.outcomes.add(text.strip())
        return b"".join(parts)

    def _number(self, cursor: _Cursor, new: list[str]) -> bytes:
        """Return the negated number of a cached text; a new one is added to `new`."""
        number, following = cursor.number(), len(self.texts) + len(new)
        if number > 0:
            if number != following:
                raise _BadRecordError(f"a new text has the number {number}, not {following}")
            new.append(cursor.text())
            number = -number
        elif not -following < number < 0:
            raise _BadRecordError(f"text {-number} was not there before")
        return number.to_bytes(4, "big", signed=True)

    def _check(self, block: _Records, begins: Ints) -> Ints:
        """Return the rows of requests; ParseError for the first record whose numbers are impossible."""
        kind = block.kinds()
        rows = np.flatnonzero(kind == REQUEST)
        users, groups = np.flatnonzero(kind == USER), np.flatnonzero(kind == GROUP)
        texts = -len(self.texts)

        def refuse(which: NDArray[np.int64], wrong: NDArray[np.bool_], text: str) -> None:
            if wrong.any():
                raise _refusal(self.file, self.offset + begins[int(which[np.argmax(wrong)])], text)

        scenario = block.numbers(users, 1)
        refuse(users, (scenario < 0) | (scenario >= self.run.scenarios), "a user of no scenario of the run")
        refuse(users, block.bytes_at(users, 5) > 1, "a user who neither starts nor ends")
        for which in (rows, groups):
            count = block.numbers(which, 1)
            refuse(which, (count < 0) | (count >= MAX_GROUPS), "the number of groups is impossible")
            refuse(which, block.bytes_at(which, 17 + 4 * count) > 1, "neither OK nor KO")
        errors = np.flatnonzero(kind == ERROR)
        number = block.numbers(errors, 1)
        refuse(errors, (number >= 0) | (number <= texts), "a text that was not there before")
        for which, more in ((rows, 1), (groups, 0)):
            count = block.numbers(which, 1) + more
            for place in range(int(count.max(initial=0))):
                named = which[count > place]
                number = block.numbers(named, 5 + 4 * place)
                refuse(named, (number >= 0) | (number <= texts), "a text that was not there before")
        count = block.numbers(rows, 1)
        number = block.numbers(rows, 18 + 4 * count)
        refuse(rows, (number >= 0) | (number <= texts), "a text that was not there before")
        start, end = block.numbers(rows, 9 + 4 * count), block.numbers(rows, 13 + 4 * count)
        asked = end != self.run.unasked_end
        refuse(rows, (end < start) & asked, "the request here ends before it starts")
        refuse(rows, (end - start > MAX_REQUEST_MS) & asked, TOO_LONG)
        return rows

    def _rows(self, block: _Records, rows: Ints) -> RequestBatch:
        """Return the rows of the requests in a block that was checked."""
        count = block.numbers(rows, 1)
        end = block.numbers(rows, 13 + 4 * count)
        if (unasked := end == self.run.unasked_end).any():
            rows, count, end = rows[~unasked], count[~unasked], end[~unasked]
        labels, label = self._labels(block, rows, count)
        start_ms = block.numbers(rows, 9 + 4 * count) + self.run.start_ms
        ok = block.bytes_at(rows, 17 + 4 * count) == 1
        message = -block.numbers(rows, 18 + 4 * count)
        return self.outcomes.batch(labels, label, start_ms, end + self.run.start_ms, ok, message)

    def _labels(self, block: _Records, rows: Ints, count: Ints) -> tuple[list[str], NDArray[np.int64]]:
        """Return (labels, index of each row's label): the groups of a request and its name."""
        paths: list[tuple[int, ...]] = [()]
        path = np.zeros(len(rows), np.int64)
        for place in range(int(count.max(initial=-1)) + 1):
            here: Any = slice(None) if (count >= place).all() else np.flatnonzero(count >= place)
            number = -block.numbers(rows[here], 5 + 4 * place)
            keys, index = _distinct(path[here] * len(self.texts) + number, len(paths) * len(self.texts))
            path[here] = index + len(paths)
            paths += [(*paths[key // len(self.texts)], key % len(self.texts)) for key in keys.tolist()]
        texts = ([self.texts[number] for number in path_] for path_ in paths)
        return [label_of(names[:-1], names[-1]) if names else "" for names in texts], path


class _Records:
    """Whole records: the bytes, and where each is to be read; methods return numbers of some of them."""

    def __init__(self, data: bytearray, places: Ints) -> None:
        self.bytes = np.frombuffer(data, np.uint8)
        self.words: NDArray[np.int32] = np.ndarray(len(data) - 3, ">i4", data, strides=(1,))
        self.places = places

    def kinds(self) -> NDArray[np.uint8]:
        return self.bytes[self.places]

    def numbers(self, rows: Ints, ahead: Ints | int) -> Ints:
        """Return the four-byte numbers that are so many bytes behind the beginnings of the records."""
        return self.words[self.places[rows] + ahead].astype(np.int64)

    def bytes_at(self, rows: Ints, ahead: Ints | int) -> NDArray[np.uint8]:
        return self.bytes[self.places[rows] + ahead]


def _distinct(values: Ints, end: int) -> tuple[Ints, Ints]:
    """Return the distinct values, which are below `end`, and the index of each value among them."""
    if end > 4 * len(values) + 1000:
        distinct, index = np.unique(values, return_inverse=True)
        return distinct, index
    distinct = np.flatnonzero(np.bincount(values, minlength=end))
    index = np.zeros(end, np.int64)
    index[distinct] = np.arange(len(distinct))
    return distinct, index[values]
