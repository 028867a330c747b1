"""JMeter result files in CSV, 2.13 to 5.6, as batches of rows.

Blocks of rows are parsed by pyarrow, two at a time. A block that pyarrow rejects (a repeated header, a truncated or
foreign row, NULs, an unknown encoding) is read again record by record, which finds the line of the problem. Both
ways give the same columns, from which `jtl_rows` makes rows.

Accepted: repeated headers, empty lines, NULs before a row (a rotated log, a power failure), bytes that are not UTF-8,
line ends without quotes in a message. Skipped and reported with number and line: rows with NULs inside, samples
that never began, and a truncated last row. Every other defect raises ParseError.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from io import BufferedReader
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from loadbook.core.errors import ParseError
from loadbook.request_logs import jtl_rows, spreadsheets
from loadbook.request_logs import stream as log_stream
from loadbook.request_logs.jtl_rows import COLUMN_PROPERTIES, EPOCH_MS, INTEGERS, TOOL, BatchBuilder, JtlLayout
from loadbook.request_logs.stream import Damage, RecordBlock, RequestBatch

BOM = b"\xef\xbb\xbf"
# the columns that are used, and their types
COLUMN_TYPES = {
    "timeStamp": pa.int64(), "success": pa.bool_(), **dict.fromkeys(INTEGERS, pa.int64()),
    **dict.fromkeys(("label", "responseCode", "responseMessage", "threadName"), log_stream.TEXT_TYPE),
}  # fmt: skip
# those that are checked if no header names the columns
ASSUMED_TYPES = {
    name: log_stream.TEXT_TYPE if name in ("responseCode", "dataType", "URL") else pa.int64()
    for name in jtl_rows.ASSUMED_KINDS
}
MESSAGES = ("responseMessage", "failureMessage")
MAX_LINES = 100  # of one message
HEAD_BYTES = 1 << 16
_SEPARATOR_LINE = re.compile(rb"\"?sep=[,;\t|]\"?[,;\t|]*\r?\n")  # of Excel
_PREFIXED_COLUMN = re.compile(rf"(.*\W)(?:{'|'.join(COLUMN_PROPERTIES)})", re.DOTALL)
ParsedBlock = tuple[pa.Table, list[Damage], int]  # rows, damage, number of lines


class BadRowError(Exception):
    """Error for a record that is not a row: its line in the block (from 0) and the reason."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message


def read_strict(block: RecordBlock, layout: JtlLayout, names: Sequence[str]) -> tuple[pa.Table, list[Damage]]:
    """Return (table of a block's columns `names`, damage between its rows); BadRowError for an invalid row.

    `parse_block` calls it for blocks that pyarrow cannot parse. Lines of damage are counted from 0.
    """
    if not block.is_complete:
        return _build_table([], layout, names), _trailing_damage(bytes(block.data), layout)
    damage: list[Damage] = []
    records = _split_records(bytes(block.data), layout, damage)
    whole = _join_records(records, layout, damage)
    rows = [row for line, fields in whole if (row := _checked_fields(line, fields, layout, damage))]
    return _build_table(rows, layout, names), damage


def _trailing_damage(data: bytes, layout: JtlLayout) -> list[Damage]:
    """Return the damage of a last record without a line end: truncated, or NULs; BadRowError for an open quote."""
    content = data.rstrip(b"\0")
    nuls = len(data) - len(content)
    damage = [Damage("nul", 0, f"{nuls} NULs at the end of the file")] if nuls else []
    if not content.strip():
        return damage
    lines, size = content.split(b"\n")[1:], len(layout.columns)
    rows = (line.decode(errors="replace").rstrip("\r").split(layout.separator) for line in lines)
    is_followed = any(len(fields) >= size and layout.row_error(fields[:size]) is None for fields in rows)
    if len(content) > log_stream.MAX_RECORD_BYTES or is_followed:
        raise BadRowError(0, "a quote that is opened here is never closed")
    text = content[:60].decode(errors="replace")
    return [*damage, Damage("torn", 0, f"the file ends within a row, which is not counted: {text!r}")]


def _split_records(data: bytes, layout: JtlLayout, damage: list[Damage]) -> Iterator[tuple[int, list[str]]]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        bad_line = data.count(b"\n", 0, error.start)
        damage.append(Damage("encoding", bad_line, "not UTF-8; its other bytes are kept as \\xNN"))
        text = data.decode(errors="backslashreplace")
    lines = (line + "\n" for line in text.removesuffix("\n").split("\n"))
    reader = csv.reader(lines, delimiter=layout.separator, strict=True)
    while True:
        line = reader.line_num
        try:
            yield line, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise BadRowError(line, f"broken quoting: {error}") from None


def _join_records(
    records: Iterator[tuple[int, list[str]]], layout: JtlLayout, damage: list[Damage]
) -> Iterator[tuple[int, list[str]]]:
    """Yield the records, and rows in one piece that a line end without quotes around its message broke.

    Such rows are joined only if the line end is within a message, and every other field is what its column holds.
    """
    for line, fields in records:
        pieces = [fields]
        while len(pieces) <= MAX_LINES and _is_broken_in_a_message(_joined(pieces), layout):
            _, following = next(records, (0, None))
            if following is None:
                break
            pieces.append(following)
        joined = _joined(pieces)
        if len(pieces) > 1 and (len(pieces) > MAX_LINES or layout.row_error(joined)):
            hint = "put quotes around messages with line ends, or let JMeter write the file again"
            raise BadRowError(line, f"{layout.row_error(fields)}; {hint}")
        if len(pieces) > 1:
            damage.append(
                Damage("line_end", line, "a message with a line end and no quotes around it: read as one row")
            )
        yield line, joined


def _joined(pieces: Sequence[list[str]]) -> list[str]:
    """Return the fields of several records as those of one, with line ends between them."""
    fields = list(pieces[0])
    for piece in pieces[1:]:
        fields[-1:] = [f"{fields[-1]}\n{piece[0] if piece else ''}", *piece[1:]]
    return fields


def _is_broken_in_a_message(fields: list[str], layout: JtlLayout) -> bool:
    """Return whether the fields are the beginning of a row up to a message, each of them valid."""
    last = len(fields) - 1
    if not 0 < last < len(layout.columns) - 1 or layout.columns[last] not in MESSAGES or "\0" in "".join(fields):
        return False
    return not any(map(layout.field_error, layout.columns, layout.columns, fields))


def _checked_fields(line: int, fields: list[str], layout: JtlLayout, damage: list[Damage]) -> list[str] | None:
    """Return a row's fields; None for a record to skip (empty, repeated header, NULs); BadRowError for a bad row."""
    if not fields or tuple(fields) == layout.header:
        if fields:
            damage.append(Damage("header", line, "the header comes again: files or runs were joined"))
        return None
    if any("\0" in field for field in fields):
        fields[0] = fields[0].lstrip("\0")
        lost = layout.columns[0] != "timeStamp" or any("\0" in field for field in fields) or layout.row_error(fields)
        where = " within a row, which is not counted" if lost else " before a row"
        damage.append(Damage("nul", line, "NULs" + where))
        return None if lost else fields
    if "elapsed" in fields and sum(field in COLUMN_PROPERTIES for field in fields) > len(fields) / 2:
        text = "another header: a run with other columns was appended; give each run a file of its own"
        raise BadRowError(line, text)
    if fault := layout.row_error(fields):
        if len(fields) == len(layout.columns) and layout.has_not_begun(dict(zip(layout.columns, fields, strict=True))):
            damage.append(Damage("not_begun", line, jtl_rows.NOT_BEGUN))
            return None
        raise BadRowError(line, fault)
    return fields


def _build_table(rows: list[list[str]], layout: JtlLayout, names: Sequence[str]) -> pa.Table:
    places = {name: layout.columns.index(name) for name in names}
    return pa.table({name: layout.column_array(name, [row[i] for row in rows]) for name, i in places.items()})


def read_jtl_csv(
    stream: BufferedReader, file: str, properties: Mapping[str, str] | None = None
) -> Iterator[RequestBatch]:
    """Yield the rows of a file in order; `properties` as for `jtl_rows.find_layout`.

    Raises
    ------
    ParseError : the file is not a JTL, or has an invalid row; the rows before that row have been yielded.
    """
    layout, skipped = _read_head(stream, file, properties)
    rows, line = BatchBuilder(layout, file), 1 + skipped
    for block, ready in log_stream.parsed_ahead(log_stream.split_blocks(stream), partial(parse_block, layout=layout)):
        if layout.timestamp_format:
            log_stream.refuse_copy(block, TOOL, file, line)
        batch, line = _finish_block(ready, rows, line)
        yield batch


def _finish_block(ready: Future[ParsedBlock], rows: BatchBuilder, line: int) -> tuple[RequestBatch, int]:
    """Return one block's batch, which begins at `line`, and the line after it; lines in errors become the file's."""
    try:
        table, damage, lines = ready.result()
    except BadRowError as bad:
        raise ParseError(TOOL, rows.file, bad.line + line, bad.message) from None
    batch = rows.build(table, range(line, line + len(table)))
    batch.damage = [d._replace(line=d.line + line) for d in damage]
    if rows.layout.timestamp_format and rows.layout.timestamp_format.is_pattern and line <= 2:
        says = f"time stamps ({rows.layout.timestamp_format.description}) tell no zone"
        batch.damage.append(Damage("local_time", line, f"{says}: they are read as if they were UTC"))
    return batch, line + lines


def parse_block(block: RecordBlock, layout: JtlLayout) -> ParsedBlock:
    """Return the known columns of a block, the damage between its rows (lines from 0), and its number of lines."""
    if block.is_complete and b"\0" not in block.data:
        try:
            table = _parse_fast(block, layout)
        except pa.ArrowInvalid:
            pass
        else:
            return table, [], log_stream.lines_of(block, len(table))
    table, damage = read_strict(block, layout, [name for name in layout.columns if name in COLUMN_TYPES])
    return table, damage, block.data.count(b"\n")


def _parse_fast(block: RecordBlock, layout: JtlLayout) -> pa.Table:
    """Return the columns of a block as parsed by pyarrow; ArrowInvalid if a value does not fit its column's type."""
    if b"\r" in block.data and block.data.count(b"\r") != block.data.count(b"\r\n"):
        raise pa.ArrowInvalid("a carriage return alone")  # pyarrow would read it as a line end
    if block.has_quotes and not log_stream.well_quoted(block.data, layout.separator):
        raise pa.ArrowInvalid("a quote within a field")  # pyarrow would drop it
    types = {name: COLUMN_TYPES[name] for name in layout.columns if name in COLUMN_TYPES}
    if not any(text.encode() in block.data for text in (jtl_rows.TRANSACTION, jtl_rows.NO_ANSWER)):
        types.pop("responseMessage", None)  # not needed then, and a tenth of the time
    if layout.is_assumed:
        types |= {name: ASSUMED_TYPES[name] for name in layout.columns if name in ASSUMED_TYPES}
    if layout.timestamp_format and layout.timestamp_format.is_pattern:
        types["timeStamp"] = pa.string()
    table = arrow_csv.read_csv(
        pa.py_buffer(block.data),
        arrow_csv.ReadOptions(column_names=list(layout.columns), use_threads=False, block_size=len(block.data) + 1),
        arrow_csv.ParseOptions(
            delimiter=layout.separator, newlines_in_values=block.has_quotes, ignore_empty_lines=False
        ),
        arrow_csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=[],
            true_values=_spellings(spreadsheets.TRUE_WORDS),
            false_values=_spellings(spreadsheets.FALSE_WORDS),
        ),
    )
    return _checked_table(table, layout)


def _spellings(words: Iterable[str]) -> list[str]:
    """Return the spellings of truth values: JMeter reads any case; pandas and spreadsheets write these."""
    return [spelling for word in words for spelling in (word, word.capitalize(), word.upper())]


def _checked_table(table: pa.Table, layout: JtlLayout) -> pa.Table:
    """Return the table with time stamps in ms since 1970; ArrowInvalid for negative numbers or impossible stamps."""
    if layout.timestamp_format and layout.timestamp_format.is_pattern:
        texts = pc.replace_substring_regex(table["timeStamp"], *layout.timestamp_format.iso_substitution())
        column = table.schema.get_field_index("timeStamp")
        table = table.set_column(column, "timeStamp", texts.cast(pa.timestamp("ms")).cast(pa.int64()))
    for name in table.column_names:
        if not len(table) or not pa.types.is_int64(table[name].type):
            continue
        low, high = pc.min_max(table[name]).as_py().values()
        epoch = name == "timeStamp" and layout.timestamp_format is EPOCH_MS
        if low < (10**12 if epoch else 0) or high >= (10**13 if epoch else 10**18):
            raise pa.ArrowInvalid(f"{name} is out of range")
    if layout.is_assumed:
        _check_kinds(table, layout)
    return table


def _check_kinds(table: pa.Table, layout: JtlLayout) -> None:
    """Raise ArrowInvalid if a text of a column that no header names is not of the column's kind."""
    for name in table.column_names:
        if name in jtl_rows.ASSUMED_KINDS and table[name].type == log_stream.TEXT_TYPE:
            texts = pc.unique(table[name].cast(pa.string())).to_pylist()
            if any(layout.field_error(name, name, text) for text in texts):
                raise pa.ArrowInvalid(f"{name} is of another kind")


def _read_head(stream: BufferedReader, file: str, properties: Mapping[str, str] | None) -> tuple[JtlLayout, int]:
    """Return the layout and the number of lines before the first row; moves the stream to the first row."""
    head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
    before = len(BOM) if head.startswith(BOM) else 0
    separator_line = _SEPARATOR_LINE.match(head, before)
    start = before = separator_line.end() if separator_line else before
    start += len(head) - start - len(head[start:].lstrip(b"\0"))
    if not head[start:].strip():
        problem = "the file holds nothing but NULs or blanks" if head else "the file is empty"
        raise ParseError(TOOL, file, 0, problem)
    ends = [start, *(log_stream.record_ends(head[start:])[:2] + start).tolist()]
    first, second = (
        head[a:b].decode(errors="replace").rstrip("\r\n") for a, b in pairwise([*ends, len(head), len(head)][:3])
    )
    above = int(separator_line is not None)
    try:
        layout = jtl_rows.find_layout(file, first, second, properties)
    except ParseError as error:
        raise ParseError(TOOL, file, error.line + above, error.reason) from None
    if layout.header and (prefixed := _PREFIXED_COLUMN.fullmatch(layout.header[0])):
        text = f"before the header stands the prefix {prefixed[1]!r}, which not every line has, or the file is large"
        raise ParseError(TOOL, file, 1, f"{text}: take it off, such as by `cut -c{len(prefixed[1]) + 1}-`")
    if layout.header and len(ends) == 1:
        raise ParseError(TOOL, file, 1, "the file ends within its header")
    stream.read(ends[1] if layout.header else before)
    return layout, above + int(layout.header is not None)
