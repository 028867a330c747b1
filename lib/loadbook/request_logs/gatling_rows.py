"""Rows of Gatling's simulation.log: outcomes of requests, and the reader of the text that versions 3.4 to 3.12 write.

The text has one tab-separated record a line: ASSERTION lines, one RUN (class, name, start in ms, description, version),
then USER, REQUEST (groups with commas, name, start, end, OK or KO, message), GROUP and ERROR. Versions up to 3.3 have
a column more. An ERROR is a request that was never built; groups sum up requests. Neither is an attempt.

- OK is an answer that passed its checks. KO is an answer if its message is that of a check: `<check>, found <value>`,
  and a bad status if the check is that of the status (400 and above). No other status is in the log.
- KO with an exception or `Request timeout` had no response. With other messages, such as those that a simulation makes
  up, this is not known: damage "failed_unknown", counted as without a response.
- An end of -2^63 marks a message that no request asked for (WebSocket, SSE): it is left out.

Sources: `LogFileDataWriter.scala`, `LogFileReader.scala`, `Check.scala` and `Validator.scala` of gatling/gatling, and
logs of 3.10.5 and 3.12.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from io import BufferedReader
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from loadbook.core.errors import ParseError
from loadbook.core.metrics import error_class
from loadbook.request_logs import stream as log_stream
from loadbook.request_logs.stream import OUTCOME_CODES, Damage, Ints, LogRowKind, RecordBlock, RequestBatch

TOOL = "gatling"
TICK_US = 1000
MAX_REQUEST_MS = 86_400_000  # a day: a number above it is damaged
TOO_LONG = "the request here takes more than a day"
MIN_START_MS, END_START_MS = 10**12, 10**13  # 2001 to 2286
GROUP_SEPARATOR = " / "  # as in the summary that Gatling prints
TEXT_VERSIONS = re.compile(r"3\.(?:[4-9]|1[0-2])(?:[.\-].*)?")
_UNASKED_END = b"-9223372036854775808"
_STATUS_CHECK = re.compile(r"status\.find\..*, (?:but actually |unexpectedly )?found (\d{3})", re.DOTALL)
_CHECK = re.compile(r", (?:but actually |unexpectedly )?found |(?:extraction|preparation|resolution) crashed: ")
_NO_RESPONSE = re.compile(r"(?:[a-z]\w*\.)+[A-Z]\w*|Request timeout|Premature close|Connection refused")
# outcome, pattern in the message of an attempt without a response; the first match wins
FAILURE_PATTERNS = (
    ("errors_driver", r"Too many open files|BindException|requested address|OutOfMemory"),
    ("errors_timeout", r"[Tt]imeout|timed out"),
    ("errors_connect", r"ConnectException|NoRouteToHost|UnknownHost|Connection refused|unreachable"),
    ("errors_write", r"Broken pipe"),
    ("errors_read", r"[Pp]remature ?[Cc]lose|reset by peer|ClosedChannel|SocketException|EOFException"),
)
_NUMBER = rb"\d{13}"
_RUN = re.compile(rb"RUN\t[^\t]*\t[^\t]*\t(\d{13})\t[^\t]*\t([^\t\r]+)\r?")
_REQUEST = re.compile(rb"REQUEST\t[^\t]*\t[^\t]*\t%b\t(?:%b|%b)\t(?:OK|KO)\t[^\t]*" % (_NUMBER, _NUMBER, _UNASKED_END))
_OTHER = re.compile(
    rb"USER\t[^\t]*\t(?:START|END)\t%b|GROUP\t[^\t]*\t%b\t%b\t\d+\t(?:OK|KO)|ERROR\t[^\t]*\t%b"
    % (_NUMBER, _NUMBER, _NUMBER, _NUMBER)
)
_COLUMNS = {"kind": pa.string(), "groups": log_stream.TEXT_TYPE, "name": log_stream.TEXT_TYPE, "start": pa.int64(),
            "end": pa.int64(), "ok": log_stream.TEXT_TYPE, "message": log_stream.TEXT_TYPE}  # fmt: skip


def outcome_of(message: str) -> tuple[str, bool, bool]:
    """Return (outcome, whether there was an answer, whether that is clear) of a KO request with this message."""
    if status := _STATUS_CHECK.fullmatch(message):
        return ("errors_status" if int(status[1]) >= 400 else "errors_other"), True, True
    if _NO_RESPONSE.match(message):
        return error_class(message, FAILURE_PATTERNS), False, True
    is_check = _CHECK.search(message) is not None
    return "errors_other", is_check, is_check


class Outcomes:
    """Outcomes of the messages of KO requests, by the number of each message."""

    def __init__(self, messages: Sequence[str] = ()) -> None:
        self.codes: list[int] = []
        self.answered: list[bool] = []
        self.clear: list[bool] = []
        self.messages: list[str] = []
        for message in messages:
            self.add(message)

    def add(self, message: str) -> None:
        """Add the next message."""
        name, answered, clear = outcome_of(message)
        self.messages.append(message)
        self.codes.append(OUTCOME_CODES[name])
        self.answered.append(answered)
        self.clear.append(clear)

    def batch(
        self, labels: list[str], label: NDArray[Any], start_ms: Ints, end_ms: Ints, ok: NDArray[np.bool_], message: Ints
    ) -> RequestBatch:
        """Return the rows of requests; times in ms since 1970, `message` has the numbers of the messages."""
        size = len(label)
        code = np.where(ok, OUTCOME_CODES["ok"], np.array(self.codes, np.uint8)[message]).astype(np.uint8)
        answered = ok | np.array(self.answered, bool)[message]
        damage = []
        unclear = ~ok & ~np.array(self.clear, bool)[message]
        if unclear.any():
            first = self.messages[int(message[np.argmax(unclear)])][:60]
            text = f"of {np.count_nonzero(unclear)} failed requests it is not known whether they had a response"
            damage = [Damage("failed_unknown", 0, f"{text}; the message of the first is {first!r}")]
        return RequestBatch(
            labels, label, end_ms - start_ms, code, answered, np.zeros(size, np.int16),
            np.full(size, LogRowKind.REQUEST, np.uint8), TICK_US, start_us=start_ms * 1000, timed=answered,
            damage=damage,
        )  # fmt: skip


def label_of(groups: Sequence[str], name: str) -> str:
    """Return the label of a request: its groups and its name, as Gatling's summary shows them."""
    return GROUP_SEPARATOR.join((*groups, name))


def read_text(stream: BufferedReader, file: str) -> Iterator[RequestBatch]:
    """Yield the requests of a text log in its order.

    Raises
    ------
    ParseError : it is of an unknown version or has an impossible line, whose number it names. The requests before it
        may have been yielded.
    """
    reader = _TextReader(file)
    for block in log_stream.split_blocks(stream, quotes=False):
        if not block.is_complete:
            if reader.first_ms is None or len(block.data) > log_stream.MAX_RECORD_BYTES:
                raise reader.refusal(reader.line, f"not a record of Gatling's: {log_stream.first_text(block.data)}")
            yield log_stream.torn_batch(block, reader.line)
            continue
        yield reader.batch(block)
    if reader.first_ms is None:
        raise reader.refusal(reader.line, "the file ends before its line RUN")


class _TextReader:
    """State of a text log: the number of the next line, and the start of the run once its line was read."""

    def __init__(self, file: str) -> None:
        self.file, self.line = file, 1
        self.first_ms: int | None = None

    def refusal(self, line: int, text: str) -> ParseError:
        return ParseError(TOOL, self.file, line, text)

    def batch(self, block: RecordBlock) -> RequestBatch:
        """Return the requests of whole lines; ParseError for the first line that is impossible."""
        requests, numbers = [], []
        for number, line in enumerate(bytes(block.data).replace(b"\r\n", b"\n")[:-1].split(b"\n"), self.line):
            if self.first_ms is None:
                self._read_run(line, number)
            elif line.startswith(b"REQUEST\t"):
                if not _REQUEST.fullmatch(line):
                    raise self.refusal(number, f"not a request of Gatling's: {log_stream.first_text(line)}")
                if _UNASKED_END not in line:
                    requests.append(line)
                    numbers.append(number)
            elif not _OTHER.fullmatch(line):
                raise self.refusal(number, f"not a record of Gatling's: {log_stream.first_text(line)}")
        self.line += block.data.count(b"\n")
        return self._rows(requests, numbers)

    def _read_run(self, line: bytes, number: int) -> None:
        if line.startswith(b"ASSERTION\t"):
            return
        match = _RUN.fullmatch(line)
        if match is None:
            raise self.refusal(number, f"not the line RUN of Gatling's log: {log_stream.first_text(line)}")
        version = match[2].decode(errors="replace")
        if not TEXT_VERSIONS.fullmatch(version):
            raise self.refusal(number, f"a log of Gatling {version[:40]}; those of 3.4 to 3.12 are read as text")
        self.first_ms = int(match[1])

    def _rows(self, lines: Sequence[bytes], numbers: Sequence[int]) -> RequestBatch:
        data = b"".join(line + b"\n" for line in lines)
        if not data:
            none = np.zeros(0, np.int64)
            return Outcomes([""]).batch([""], none, none, none, none.astype(bool), none)
        try:
            table = arrow_csv.read_csv(
                pa.py_buffer(data),
                arrow_csv.ReadOptions(column_names=list(_COLUMNS), use_threads=False, block_size=len(data) + 1),
                arrow_csv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False),
                arrow_csv.ConvertOptions(column_types=_COLUMNS, null_values=[], strings_can_be_null=False),
            )
        except pa.ArrowInvalid:
            bad = next((n for n, line in zip(numbers, lines, strict=True) if not _is_utf8(line)), numbers[0])
            raise self.refusal(bad, "here or below is a text that is no UTF-8") from None
        columns = {name: table[name].combine_chunks() for name in ("groups", "name", "ok", "message")}
        start_ms, end_ms = log_stream.to_numpy(table["start"]), log_stream.to_numpy(table["end"])
        self._check(start_ms, end_ms, numbers)
        groups, names = columns["groups"].dictionary.to_pylist(), columns["name"].dictionary.to_pylist()
        pair = log_stream.to_numpy(columns["groups"].indices) * np.int64(len(names))
        pairs, label = np.unique(pair + log_stream.to_numpy(columns["name"].indices), return_inverse=True)
        parts = [(groups[at // len(names)], names[at % len(names)]) for at in pairs.tolist()]
        labels = [label_of(group.split(",") if group else (), name) for group, name in parts]
        ok = np.array([text == "OK" for text in columns["ok"].dictionary.to_pylist()], bool)
        messages = Outcomes(columns["message"].dictionary.to_pylist())
        message = log_stream.to_numpy(columns["message"].indices)
        ok = ok[log_stream.to_numpy(columns["ok"].indices)]
        return messages.batch(labels, label, start_ms, end_ms, ok, message)

    def _check(self, start_ms: Ints, end_ms: Ints, numbers: Sequence[int]) -> None:
        """Raise ParseError for a request that ends before it starts, takes over a day, or is far from the start."""
        if (backward := end_ms < start_ms).any():
            raise self.refusal(numbers[int(np.argmax(backward))], "the request here ends before it starts")
        if (too_long := end_ms - start_ms > MAX_REQUEST_MS).any():
            raise self.refusal(numbers[int(np.argmax(too_long))], TOO_LONG)
        first_us = (self.first_ms or 0) * 1000
        for times in (start_ms, end_ms):
            if (far := log_stream.first_far_row(times * 1000, first_us)) is not None:
                raise self.refusal(numbers[far], "the request here is more than 30 days from the run's start")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
