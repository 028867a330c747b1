"""Columns and time stamps of JMeter result files in CSV.

The columns come from the file's header, or without one from the run's recorded properties. Time stamps are milliseconds
since 1970, or text by a SimpleDateFormat pattern (`timestamp_format`). Text has no zone: it is read as UTC, which is
right for durations and seconds, not for times of day. It must hold milliseconds, or rows could not be ordered.

Facts from CSVSaveService.java, SampleSaveConfiguration.java and jmeter.properties of apache/jmeter, and from files that
2.13, 3.3, 5.1.1 and 5.6.3 wrote. The order of columns is fixed; properties choose which are there.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from loadbook.core.errors import ParseError

# those of CsvSampleReader and of the manual that hold milliseconds
KNOWN_PATTERNS = ("yyyy/MM/dd HH:mm:ss.SSS", "yyyy-MM-dd HH:mm:ss.SSS", "yyyy-MM-dd'T'HH:mm:ss.SSS")
_PATTERN_LETTERS = {
    "yyyy": r"(?P<year>\d{4})", "MM": r"(?P<month>\d\d)", "dd": r"(?P<day>\d\d)", "HH": r"(?P<hour>\d\d)",
    "mm": r"(?P<minute>\d\d)", "ss": r"(?P<second>\d\d)", "SSS": r"(?P<ms>\d{3})",
}  # fmt: skip
_ISO = r"\g<year>-\g<month>-\g<day>T\g<hour>:\g<minute>:\g<second>.\g<ms>"


@dataclass(frozen=True)
class TimestampFormat:
    """One format of time stamps: its description, its regular expression, and whether it is a date pattern."""

    description: str
    regex: re.Pattern[str]
    is_pattern: bool = True

    def parse_ms(self, text: str) -> int | None:
        """Return a text as milliseconds since 1970; None for another form, or a day that does not exist."""
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
        """Return a pattern and a replacement for RE2 that turn such a text into ISO 8601 without a zone."""
        order = list(self.regex.groupindex)
        replacement = re.sub(r"\\g<(\w+)>", lambda m: f"\\{order.index(m[1]) + 1}", _ISO)
        return f"^{self.regex.pattern}$", replacement


# 13 digits: from 2001 to 2286; fewer are seconds, or the tail of a torn number
EPOCH_MS = TimestampFormat("milliseconds since 1970 (13 digits)", re.compile(r"[1-9][0-9]{12}"), is_pattern=False)


def parse_timestamp_pattern(pattern: str) -> TimestampFormat:
    """Return the stamps of a SimpleDateFormat pattern; ValueError for unknown letters or without milliseconds."""
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
SAVE_PREFIX = "jmeter.save.saveservice."
# column(s) -> the property that saves them; in the order of the file
COLUMN_PROPERTIES = {
    "timeStamp": "timestamp_format", "elapsed": "time", "label": "label", "responseCode": "response_code",
    "responseMessage": "response_message", "threadName": "thread_name", "dataType": "data_type",
    "success": "successful", "failureMessage": "assertion_results_failure_message", "bytes": "bytes",
    "sentBytes": "sent_bytes", "grpThreads": "thread_counts", "allThreads": "thread_counts", "URL": "url",
    "Filename": "filename", "Latency": "latency", "Encoding": "encoding", "SampleCount": "sample_count",
    "ErrorCount": "sample_count", "Hostname": "hostname", "IdleTime": "idle_time", "Connect": "connect_time",
}  # fmt: skip
_UNSAVED = {"Filename", "Encoding", "SampleCount", "ErrorCount", "Hostname"}
# what is saved by default, newest first: 4.0 and later, 3.x, 2.x
UNSAVED_BY_GENERATION = (
    _UNSAVED,
    _UNSAVED | {"URL"},
    _UNSAVED | {"URL", "failureMessage", "sentBytes", "IdleTime", "Connect"},
)
INTEGERS = ("elapsed", "bytes", "Latency", "Connect", "SampleCount", "ErrorCount")  # those that are used
SEPARATORS = (",", "\t", ";", "|")
_INTEGER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class JtlLayout:
    """Columns, separator and time stamps of one file.

    Parameters
    ----------
    columns : names in the order of the file.
    separator : one character.
    timestamp_format : how time stamps are written; None without a column of them.
    header : the file's header as fields; None when it has none.
    timestamps_are_ends : time stamps are those of the end (`sampleresult.timestamp.start=false`), not of the start.
    """

    columns: tuple[str, ...]
    separator: str
    timestamp_format: TimestampFormat | None
    header: tuple[str, ...] | None = None
    timestamps_are_ends: bool = False

    def has_column(self, column: str) -> bool:
        """Return whether the file has this column."""
        return column in self.columns

    def row_error(self, fields: Sequence[str]) -> str | None:
        """Return the error of a row (its number or form of fields), None if it is valid."""
        if len(fields) != len(self.columns):
            return (
                f"{len(fields)} fields where {len(self.columns)} columns are expected: "
                "a torn row, or another run appended with other columns"
            )
        for column, text in zip(self.columns, fields, strict=True):
            if column in INTEGERS and not _INTEGER.fullmatch(text):
                return f"{column} is not a whole number: {text[:40]!r}"
            if column == "success" and text.lower() not in ("true", "false"):
                return f"success is neither true nor false: {text[:40]!r}"
            if column == "timeStamp" and self.timestamp_format and self.timestamp_format.parse_ms(text) is None:
                return f"timeStamp is not {self.timestamp_format.description}: {text[:40]!r}"
        return None


def find_layout(file: str, first: str, second: str, properties: Mapping[str, str] | None) -> JtlLayout:
    """Return the layout of a file from its first two lines; ParseError if it is no JTL.

    Parameters
    ----------
    properties : the run's JMeter properties as given (`-J`), None where they are not known. A file without a header can
        then be read only if it has the twelve columns of 2.x.
    """
    known_properties = properties or {}
    ends = known_properties.get("sampleresult.timestamp.start", "true") == "false"
    layout = _layout_from_header(file, first, known_properties) or _layout_from_properties(first, properties)
    if layout is None:
        raise ParseError(TOOL, file, 1, f"neither the header of a JTL nor a row of known columns: {first[:80]!r}")
    return replace(
        layout,
        timestamp_format=_timestamp_format(file, layout, second if layout.header else first, known_properties),
        timestamps_are_ends=ends,
    )


def split_fields(line: str, separator: str) -> list[str]:
    """Return the fields of one record; csv.Error for broken quoting."""
    return next(csv.reader([line], delimiter=separator, strict=True), [])


def _layout_from_header(file: str, line: str, properties: Mapping[str, str]) -> JtlLayout | None:
    separators = (_separator(properties),) if SAVE_PREFIX + "default_delimiter" in properties else SEPARATORS
    for separator in separators:
        try:
            fields = split_fields(line, separator)
        except csv.Error:
            continue
        names = tuple(_canonical_name(field, fields) for field in fields)
        if (
            len(names) < 2
            or sum(name in COLUMN_PROPERTIES for name in names) * 2 < len(names)
            or "elapsed" not in names
        ):
            continue
        if len(set(names)) < len(names):
            raise ParseError(TOOL, file, 1, "a column occurs twice in the header")
        if not {"success", "responseCode"} & set(names):
            raise ParseError(TOOL, file, 1, "neither success nor responseCode was saved: nothing says what failed")
        return JtlLayout(names, separator, None, tuple(fields))
    return None


def _canonical_name(name: str, names: Sequence[str]) -> str:
    """Return a header's name as JMeter spells it; the manual spells some (latency) otherwise than the files."""
    if name in COLUMN_PROPERTIES:
        return name
    same = [spelled for spelled in COLUMN_PROPERTIES if spelled.lower() == name.lower()]
    return same[0] if same and same[0] not in names else name


def _layout_from_properties(line: str, properties: Mapping[str, str] | None) -> JtlLayout | None:
    generations = UNSAVED_BY_GENERATION[-1:] if properties is None else UNSAVED_BY_GENERATION
    for separator in SEPARATORS if properties is None else (_separator(properties),):
        try:
            fields = split_fields(line, separator)
        except csv.Error:
            continue
        for unsaved in generations:
            layout = JtlLayout(_saved_columns(unsaved, properties or {}), separator, None)
            is_match = layout.row_error(fields) is None and len(fields) > 2
            if is_match and (
                not layout.has_column("timeStamp")
                or EPOCH_MS.parse_ms(fields[0]) is not None
                or _detect_timestamp_format(fields[0])
            ):
                return layout
    return None


def _saved_columns(unsaved: set[str], properties: Mapping[str, str]) -> tuple[str, ...]:
    names = []
    for column, key in COLUMN_PROPERTIES.items():
        value = properties.get(SAVE_PREFIX + key, "")
        if value not in ("false", "none") and (value or column not in unsaved):
            names.append(column)
    variables = properties.get("sample_variables", "")
    return (*names, *(name.strip() for name in variables.split(",") if name.strip()))


def _separator(properties: Mapping[str, str]) -> str:
    delimiter = properties.get(SAVE_PREFIX + "default_delimiter", ",")
    return "\t" if delimiter == "\\t" else delimiter[:1] or ","


def _detect_timestamp_format(text: str) -> TimestampFormat | None:
    return next((s for s in map(parse_timestamp_pattern, KNOWN_PATTERNS) if s.regex.fullmatch(text)), None)


def _timestamp_format(file: str, layout: JtlLayout, line: str, properties: Mapping[str, str]) -> TimestampFormat | None:
    """Return the time stamp format of a file from the recorded properties, else from its first row."""
    if not layout.has_column("timeStamp"):
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
