"""Rows of JMeter result files, the same for CSV and XML: columns, time stamps, and outcome of each request.

The columns of a CSV file come from its header, or without one from the run's recorded properties, which choose among
columns in a fixed order. Time stamps are milliseconds since 1970, or text in a SimpleDateFormat pattern
(`timestamp_format`) with milliseconds. Text has no time zone: it is read as UTC, which is right for durations and for
seconds since the start, but not for times of day.

- A row whose responseMessage starts with "Number of samples in transaction" is a transaction controller (the rule of
  JMeter's own report, `report/core/Sample.java`); its children have rows of their own.
- A row named label-0, label-1, ... that follows a row `label` of its thread and lies within its time is a sub-result (a
  redirect, an embedded resource; since JMeter 5.0); the time of its parent includes it.
- A row whose SampleCount is not 1 stands for several requests.
- responseCode "Non HTTP response code: <exception>" means that there was no response. Otherwise `success` decides,
  except that a status of 400 and above is never ok.

Sources: CSVSaveService.java, SampleSaveConfiguration.java and jmeter.properties of apache/jmeter, and files written by
2.13, 3.3, 5.1.1 and 5.6.3.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadbook.core.errors import ParseError
from loadbook.core.metrics import error_class
from loadbook.request_logs import stream
from loadbook.request_logs.spreadsheets import FALSE_WORDS, TRUE_WORDS, changed_hint
from loadbook.request_logs.stream import (
    OUTCOME_CODES,
    Ints,
    LogRowKind,
    RequestBatch,
    encode_texts,
    from_numpy,
    to_numpy,
)

# patterns in CsvSampleReader.java and in JMeter's manual that include milliseconds
KNOWN_PATTERNS = ("yyyy/MM/dd HH:mm:ss.SSS", "yyyy-MM-dd HH:mm:ss.SSS", "yyyy-MM-dd'T'HH:mm:ss.SSS")
_PATTERN_LETTERS = {
    "yyyy": r"(?P<year>\d{4})", "MM": r"(?P<month>\d\d)", "dd": r"(?P<day>\d\d)", "HH": r"(?P<hour>\d\d)",
    "mm": r"(?P<minute>\d\d)", "ss": r"(?P<second>\d\d)", "SSS": r"(?P<ms>\d{3})",
}  # fmt: skip
_ISO = r"\g<year>-\g<month>-\g<day>T\g<hour>:\g<minute>:\g<second>.\g<ms>"
SAVE_PREFIX = "jmeter.save.saveservice."
# column -> the property that includes it in the file; columns in the order of the file
COLUMN_PROPERTIES = {
    "timeStamp": "timestamp_format", "elapsed": "time", "label": "label", "responseCode": "response_code",
    "responseMessage": "response_message", "threadName": "thread_name", "dataType": "data_type",
    "success": "successful", "failureMessage": "assertion_results_failure_message", "bytes": "bytes",
    "sentBytes": "sent_bytes", "grpThreads": "thread_counts", "allThreads": "thread_counts", "URL": "url",
    "Filename": "filename", "Latency": "latency", "Encoding": "encoding", "SampleCount": "sample_count",
    "ErrorCount": "sample_count", "Hostname": "hostname", "IdleTime": "idle_time", "Connect": "connect_time",
}  # fmt: skip
_UNSAVED = {"Filename", "Encoding", "SampleCount", "ErrorCount", "Hostname"}
# columns that are not saved by default: 4.0 and later, 3.x, 2.x
UNSAVED_BY_GENERATION = (
    _UNSAVED,
    _UNSAVED | {"URL"},
    _UNSAVED | {"URL", "failureMessage", "sentBytes", "IdleTime", "Connect"},
)
# of files without a header and without known properties: 2.x before and after it had the numbers of threads
DEFAULTS_WITHOUT_HEADER = (*UNSAVED_BY_GENERATION, UNSAVED_BY_GENERATION[-1] | {"grpThreads", "allThreads"})
INTEGERS = ("elapsed", "bytes", "Latency", "Connect", "SampleCount", "ErrorCount")  # integers that are used
# what every row must have in columns that no header names
ASSUMED_KINDS = {
    **dict.fromkeys(("sentBytes", "grpThreads", "allThreads", "IdleTime"), re.compile(r"[0-9]{1,18}")),
    "responseCode": re.compile(r"[1-5][0-9][0-9]|(?:Non HTTP response code.*)?", re.DOTALL),
    "dataType": re.compile(r"text|bin|"),
    "URL": re.compile(r"null|(?:[A-Za-z][A-Za-z0-9+.-]*:.*)?", re.DOTALL),
}
SEPARATORS = (",", "\t", ";", "|")
WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")
TICK_US = 1000
TRANSACTION = "Number of samples in transaction"
NOT_BEGUN = "a sample at time 0, which was stopped before it began: it is an error, and in no other number"
NO_ANSWER = "Non HTTP response code"
MAX_BACKWARD_US = 30 * 60 * 10**6
TAIL_ROWS = 1000
MAX_THREADS = 100_000
_SUB_RESULT_LABEL = re.compile(r"(.+?)((?:-\d{1,4})+)", re.DOTALL)
_SUB_RESULT_NUMBERS = re.compile(r"-(\d{1,4})((?:-\d{1,4})*)")
_STATUS = re.compile(r"[1-5][0-9][0-9]")
# outcome, pattern in "exception class: message" of an attempt without a response; the first match wins
_FAILURE_PATTERNS = (
    ("errors_driver", r"Too many open files|BindException|requested address|OutOfMemory|unable to create"),
    ("errors_timeout", r"Timeout|timed out"),
    ("errors_connect", r"ConnectException|NoRouteToHost|UnknownHost|HttpHostConnect|Connection refused|unreachable"),
    ("errors_write", r"Broken pipe"),
    ("errors_read", r"SocketException|NoHttpResponse|ConnectionClosed|EOFException|TruncatedChunk|MalformedChunk"),
)


@dataclass(frozen=True)
class TimestampFormat:
    """One format of time stamps, read as UTC; `regex` matches a whole stamp.

    `is_pattern` is False for milliseconds since 1970, True for a date whose parts are the regex's named groups.
    """

    description: str
    regex: re.Pattern[str]
    is_pattern: bool = True

    def parse_ms(self, text: str) -> int | None:
        """Return a time stamp as milliseconds since 1970; None for another format or an impossible date."""
        match = self.regex.fullmatch(text)
        if match is None or not self.is_pattern:
            return int(text) if match else None
        parts = {name: int(value) for name, value in match.groupdict().items()}
        ms = parts.pop("ms")
        try:
            return int(datetime(**parts, tzinfo=UTC).timestamp()) * 1000 + ms
        except ValueError:
            return None

    def iso_substitution(self) -> tuple[str, str]:
        """Return (pattern, replacement) for RE2 that convert a time stamp to ISO 8601 without a time zone."""
        order = list(self.regex.groupindex)
        replacement = re.sub(r"\\g<(\w+)>", lambda m: f"\\{order.index(m[1]) + 1}", _ISO)
        return f"^{self.regex.pattern}$", replacement


# 13 digits: from 2001 to 2286; fewer digits are seconds, or the rest of a truncated number
EPOCH_MS = TimestampFormat("milliseconds since 1970 (13 digits)", re.compile(r"[1-9][0-9]{12}"), is_pattern=False)


def parse_timestamp_pattern(pattern: str) -> TimestampFormat:
    """Return the format of a pattern of Java's SimpleDateFormat, such as ``yyyy/MM/dd HH:mm:ss.SSS``.

    ValueError unless the pattern has each of the parts in this example, and no others.
    """
    regex = ""
    for quoted, letters, other in re.findall(r"'([^']*)'|([A-Za-z]+)|(.)", pattern, re.DOTALL):
        if letters and letters not in _PATTERN_LETTERS:
            raise ValueError(f"time stamps {pattern!r}: {letters!r} is not read (use ms, or yyyy MM dd HH mm ss SSS)")
        regex += _PATTERN_LETTERS[letters] if letters else re.escape(quoted or other)
    missing = [letters for letters in _PATTERN_LETTERS if _PATTERN_LETTERS[letters] not in regex]
    if missing:
        raise ValueError(f"time stamps {pattern!r} lack {' '.join(missing)}: rows cannot be placed in time (save ms)")
    return TimestampFormat(pattern, re.compile(regex, re.ASCII))


TOOL = "jmeter"


@dataclass(frozen=True)
class JtlLayout:
    """Columns, separator and time stamps of one file.

    Parameters
    ----------
    columns : names in the order of the file.
    separator : one character.
    timestamp_format : format of the column timeStamp; None without that column.
    header : the fields of the file's header; None if it has no header.
    is_assumed : no header and no property tells the columns: each row must have their kinds (ASSUMED_KINDS).
    timestamps_are_ends : time stamps are ends of requests (`sampleresult.timestamp.start=false`), not starts.
    """

    columns: tuple[str, ...]
    separator: str
    timestamp_format: TimestampFormat | None
    header: tuple[str, ...] | None = None
    timestamps_are_ends: bool = False
    is_assumed: bool = False

    def row_error(self, fields: Sequence[str]) -> str | None:
        """Return the message for a row with a wrong number of fields or an invalid field; None if the row is valid."""
        if len(fields) != len(self.columns):
            expected = f"{len(fields)} fields where {len(self.columns)} columns are expected"
            return f"{expected}: a torn row, or another run appended with other columns"
        errors = (self.field_error(column, column, text) for column, text in zip(self.columns, fields, strict=True))
        return next((error for error in errors if error), None)

    def has_not_begun(self, fields: Mapping[str, str]) -> bool:
        """Return whether a row, given as {column: text}, is a sample that was stopped before it began.

        JMeter writes 0 as its time. It has failed, and has no status.
        """
        failed = fields.get("success", "false").lower() in FALSE_WORDS
        has_status = _STATUS.fullmatch(fields.get("responseCode", "")) is not None
        is_zero = self.timestamp_format is EPOCH_MS and fields.get("timeStamp") == "0"
        others = ((column, text) for column, text in fields.items() if column != "timeStamp")
        return is_zero and failed and not has_status and not any(self.field_error(c, c, text) for c, text in others)

    def field_error(self, column: str, name: str, text: str) -> str | None:
        """Return the message for an invalid field, which the file calls `name`; None if it is valid."""
        if column in INTEGERS and not WHOLE_NUMBER.fullmatch(text):
            return f"{name} is not a whole number: {text[:40]!r}{changed_hint(text)}"
        if column == "success" and text.lower() not in (*TRUE_WORDS, *FALSE_WORDS):
            return f"{name} is neither true nor false: {text[:40]!r}"
        if column == "timeStamp" and text == "0":
            return f"{name} is 0, but the sample has an answer: remove such rows, and read the others"
        if column == "timeStamp" and self.timestamp_format and self.timestamp_format.parse_ms(text) is None:
            return f"{name} is not {self.timestamp_format.description}: {text[:40]!r}{changed_hint(text)}"
        if self.is_assumed and column in ASSUMED_KINDS and not ASSUMED_KINDS[column].fullmatch(text):
            return f"not the {len(self.columns)} default columns of JMeter: no {name}: {text[:40]!r}"
        return None

    def column_array(self, column: str, values: list[str]) -> pa.Array:
        """Return a column's valid values as numbers (stamps: ms since 1970), booleans or dictionary-encoded texts."""
        if column == "timeStamp" and self.timestamp_format and self.timestamp_format.is_pattern:
            return from_numpy(np.array([self.timestamp_format.parse_ms(value) for value in values], np.int64))
        if column in (*INTEGERS, "timeStamp"):
            return from_numpy(np.array(list(map(int, values)), np.int64))
        if column == "success":
            return from_numpy(np.array([value.lower() in TRUE_WORDS for value in values], bool))
        return encode_texts(values)


def find_layout(file: str, first: str, second: str, properties: Mapping[str, str] | None) -> JtlLayout:
    """Return the layout of a file from its first two lines; ParseError if it is no JTL (JMeter's results).

    Parameters
    ----------
    file : the file's name in error messages.
    properties : the run's JMeter properties (names without `-J`), None if not known. A file without a header is then
        readable only if every row has the kinds of the default columns of JMeter 2.x (10 or 12), 3.x or 4 and 5.
    """
    known_properties = properties or {}
    ends = known_properties.get("sampleresult.timestamp.start", "true") == "false"
    layout = _layout_from_header(file, first, known_properties) or _layout_from_properties(first, properties)
    if layout is None:
        raise ParseError(TOOL, file, 1, f"neither the header of a JTL nor a row of known columns: {first[:80]!r}")
    stamps = _timestamp_format(file, layout, second if layout.header else first, known_properties)
    return replace(layout, timestamp_format=stamps, timestamps_are_ends=ends)


def _split_by_each(line: str, separators: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield (separator, fields) for each separator with which the line is valid CSV."""
    for separator in separators:
        try:
            yield separator, next(csv.reader([line], delimiter=separator, strict=True), [])
        except csv.Error:
            continue


def _layout_from_header(file: str, line: str, properties: Mapping[str, str]) -> JtlLayout | None:
    separators = (_separator(properties),) if SAVE_PREFIX + "default_delimiter" in properties else SEPARATORS
    spellings = {column.lower(): column for column in COLUMN_PROPERTIES}
    for separator, every in _split_by_each(line, separators):
        fields = [*every]
        while fields and not fields[-1]:  # a spreadsheet's empty columns
            fields.pop()
        # JMeter's manual spells some columns differently (latency) from its files
        spelled = [spellings.get(field.lower(), field) for field in fields]
        names = tuple(f if f in COLUMN_PROPERTIES or s in fields else s for f, s in zip(fields, spelled, strict=True))
        known = sum(name in COLUMN_PROPERTIES for name in names)
        if len(names) < 2 or known * 2 < len(names) or "elapsed" not in names:
            continue
        if len(set(names)) < len(names):
            raise ParseError(TOOL, file, 1, "a column occurs twice in the header")
        if not {"success", "responseCode"} & set(names):
            raise ParseError(TOOL, file, 1, "neither success nor responseCode was saved: nothing says what failed")
        empty = tuple(f"empty column {place}" for place in range(len(fields), len(every)))
        return JtlLayout((*names, *empty), separator, None, tuple(every))
    return None


def _layout_from_properties(line: str, properties: Mapping[str, str] | None) -> JtlLayout | None:
    generations = DEFAULTS_WITHOUT_HEADER if properties is None else UNSAVED_BY_GENERATION
    separators = SEPARATORS if properties is None else (_separator(properties),)
    for separator, fields in _split_by_each(line, separators):
        for unsaved in generations:
            layout = JtlLayout(
                _saved_columns(unsaved, properties or {}), separator, None, is_assumed=properties is None
            )
            if len(fields) < 3 or layout.row_error(fields) is not None:
                continue
            is_timed = EPOCH_MS.parse_ms(fields[0]) is not None or _detect_timestamp_format(fields[0])
            if "timeStamp" not in layout.columns or is_timed:
                return layout
    return None


def _saved_columns(unsaved: set[str], properties: Mapping[str, str]) -> tuple[str, ...]:
    saved = {column: properties.get(SAVE_PREFIX + key, "") for column, key in COLUMN_PROPERTIES.items()}
    names = [c for c, value in saved.items() if value not in ("false", "none") and (value or c not in unsaved)]
    variables = properties.get("sample_variables", "")
    return (*names, *(name.strip() for name in variables.split(",") if name.strip()))


def _separator(properties: Mapping[str, str]) -> str:
    delimiter = properties.get(SAVE_PREFIX + "default_delimiter", ",")
    return "\t" if delimiter == "\\t" else delimiter[:1] or ","


def _detect_timestamp_format(text: str) -> TimestampFormat | None:
    return next((s for s in map(parse_timestamp_pattern, KNOWN_PATTERNS) if s.regex.fullmatch(text)), None)


def _timestamp_format(file: str, layout: JtlLayout, line: str, properties: Mapping[str, str]) -> TimestampFormat | None:
    """Return the time stamp format given by the recorded properties, else that of the first row."""
    if "timeStamp" not in layout.columns:
        return None
    pattern = properties.get(SAVE_PREFIX + "timestamp_format", "ms")
    if pattern not in ("ms", "none"):
        try:
            return parse_timestamp_pattern(pattern)
        except ValueError as error:
            raise ParseError(TOOL, file, 1, str(error)) from None
    fields = line.split(layout.separator)
    column = layout.columns.index("timeStamp")
    return (_detect_timestamp_format(fields[column]) if len(fields) > column else None) or EPOCH_MS


class SubResultParent(NamedTuple):
    """A row whose sub-results are labelled ``<label>-0``, ``<label>-1``, ...; `next_number` is that of the next one.

    Times are in us since 1970; without time stamps, starts are 0.
    """

    label: str
    start_us: int
    end_us: int
    next_number: int


class BatchBuilder:
    """Converter of the columns of one file, block after block, to batches of rows."""

    def __init__(self, layout: JtlLayout, file: str) -> None:
        self.layout, self.file = layout, file
        self._parents: dict[str, SubResultParent] = {}
        self._first_us: int | None = None
        self._latest_us = 0

    def build(self, table: pa.Table, lines: Sequence[int], kinds: Sequence[LogRowKind] | None = None) -> RequestBatch:
        """Return the rows of a table of JTL columns; ParseError for impossible times or counts.

        `table` has at least the column elapsed; numbers are integers and texts are dictionary-encoded. `lines` are
        the line numbers of the rows, and `kinds` their kinds, None for CSV. Call it in the order of the file.
        """
        labels, label = _column_texts(table, "label")
        codes, code = _column_texts(table, "responseCode")
        messages, message = _column_texts(table, "responseMessage")
        status = np.array([int(c) if _STATUS.fullmatch(c) else 0 for c in codes], np.int16)[code]
        answered = np.array([not c.startswith(NO_ANSWER) for c in codes], bool)[code]
        success = to_numpy(table["success"]) if "success" in table.column_names else (status >= 200) & (status < 400)
        outcome = _answered_outcomes(codes)[code * np.int32(2) + success.astype(np.int32)]
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
        if (row := stream.first_far_row(start_us, self._first_us)) is not None:
            raise ParseError(TOOL, self.file, lines[row], "the row here starts more than 30 days from the first row")
        if self.layout.timestamp_format and self.layout.timestamp_format.is_pattern:
            ends_us = start_us + elapsed * TICK_US  # JMeter writes rows in the order of their ends
            latest_us = np.maximum.accumulate(np.append(self._latest_us, ends_us))
            goes_back = latest_us[:-1] - ends_us > MAX_BACKWARD_US
            if goes_back.any():
                message = "is more than 30 minutes before the rows above it (daylight saving?): save ms"
                self._raise_for_first(lines, goes_back, message)
            self._latest_us = int(latest_us[-1])
        return start_us

    def _raise_for_first(self, lines: Sequence[int], rows: NDArray[np.bool_], message: str) -> NoReturn:
        """Raise ParseError with the line of the first row where `rows` is true."""
        raise ParseError(TOOL, self.file, lines[int(np.argmax(rows))], f"the row here {message}")

    def _set_aggregates(self, batch: RequestBatch, table: pa.Table, lines: Sequence[int]) -> None:
        samples, failed = _column_numbers(table, "SampleCount"), _column_numbers(table, "ErrorCount")
        if samples is None or (samples == 1).all():
            return
        if failed is None or (failed > samples).any():
            message = "stands for several requests but does not say how many of them failed"
            self._raise_for_first(lines, samples != 1, message)
        several = (samples != 1) & (batch.kind == LogRowKind.REQUEST)
        batch.kind[several] = LogRowKind.AGGREGATE
        batch.samples, batch.failed = np.where(several, samples, 1), np.where(several, failed, batch.outcome != 0)

    def _mark_sub_results(self, batch: RequestBatch, threads: list[str], thread: NDArray[np.integer]) -> None:
        """Set the kind of sub-results; rows are searched one by one only if some labels have the form label-0."""
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
        """Yield the indices of sub-results from row `first` on; remembers each thread's last possible parent row."""
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
    """Return the parent with its next number if the row is its sub-result, else None."""
    match = _SUB_RESULT_NUMBERS.fullmatch(label, len(parent.label)) if label.startswith(parent.label) else None
    if match is None:
        return None
    if timed and not parent.start_us - TICK_US <= start_us <= end_us <= parent.end_us + TICK_US:
        return None
    number = int(match[1])
    if match[2]:  # a sub-result of a sub-result
        return parent if number in (parent.next_number, parent.next_number - 1) else None
    return parent._replace(next_number=number + 1) if number == parent.next_number else None


def _answered_outcomes(codes: Sequence[str]) -> NDArray[np.uint8]:
    """Return the outcomes of answered requests, by 2 * i for a failure and 2 * i + 1 for a success with codes[i]."""
    bad = [bool(_STATUS.fullmatch(code)) and int(code) >= 400 for code in codes]
    names = [("errors_status", "errors_status") if is_bad else ("errors_other", "ok") for is_bad in bad]
    return np.array([OUTCOME_CODES[name] for pair in names for name in pair], np.uint8)


def _failure_outcomes(
    codes: Sequence[str], code: NDArray[np.integer], messages: Sequence[str], message: NDArray[np.integer]
) -> NDArray[np.uint8]:
    """Return the outcomes of attempts without a response, derived from their response codes and messages."""
    pairs, which = np.unique(code * np.int64(len(messages)) + message, return_inverse=True)
    texts = [f"{codes[pair // len(messages)]}: {messages[pair % len(messages)]}" for pair in pairs.tolist()]
    names = [error_class(text, _FAILURE_PATTERNS) for text in texts]
    return np.array([OUTCOME_CODES[name] for name in names], np.uint8)[which]


def _column_texts(table: pa.Table, name: str) -> tuple[list[str], NDArray[np.integer]]:
    """Return the distinct texts of a column and each row's index among them; [""] and zeros for a missing column."""
    if name not in table.column_names or not len(table):
        return [""], np.zeros(len(table), np.int32)
    column = table[name].combine_chunks() if table[name].num_chunks > 1 else table[name].chunk(0)
    return column.dictionary.to_pylist(), to_numpy(column.indices)


def _column_numbers(table: pa.Table, name: str) -> Ints | None:
    return to_numpy(table[name]) if name in table.column_names else None
