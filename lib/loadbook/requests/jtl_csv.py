"""JMeter result files in CSV, 2.13 to 5.6, as batches of rows.

Blocks that are what the header says go through pyarrow, two at a time. A block that pyarrow refuses (a repeated header,
a torn or foreign row, NULs, an unknown encoding) is read again record by record (`jtl_strict`), which finds the line or
mends what can be mended without guessing. Both make the same columns, and `jtl_rows` makes rows of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from io import BufferedReader
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from loadbook.core.errors import ParseError
from loadbook.requests import jtl_layout, jtl_strict
from loadbook.requests.arrow import TEXT_TYPE
from loadbook.requests.blocks import RecordBlock, split_blocks, record_ends, well_quoted
from loadbook.requests.jtl_layout import INTEGERS, TOOL, JtlLayout
from loadbook.requests.jtl_rows import NO_ANSWER, TRANSACTION, BatchBuilder
from loadbook.requests.jtl_stamp import EPOCH_MS
from loadbook.requests.rows import RequestBatch, Damage

BOM = b"\xef\xbb\xbf"
# the columns that are used, as they are declared
COLUMN_TYPES = {
    "timeStamp": pa.int64(), "success": pa.bool_(), **dict.fromkeys(INTEGERS, pa.int64()),
    **dict.fromkeys(("label", "responseCode", "responseMessage", "threadName"), TEXT_TYPE),
}  # fmt: skip
WORKERS = 2
HEAD_BYTES = 1 << 16
ParsedBlock = tuple[pa.Table, list[Damage], int]  # the last is the number of lines


def read_jtl_csv(stream: BufferedReader, file: str, properties: Mapping[str, str] | None = None) -> Iterator[RequestBatch]:
    """Yield the rows of a file in order.

    Parameters
    ----------
    file : its name in messages.
    properties : JMeter properties of the run, where known; see `jtl_layout.find_layout`.

    Raises
    ------
    ParseError : not a JTL; a row that is not one, with its line. Rows before it have been yielded.
    """
    layout, skipped = _read_head(stream, file, properties)
    rows, line = BatchBuilder(layout, file), 1 + skipped
    with ThreadPoolExecutor(WORKERS) as pool:
        waiting: deque[Future[ParsedBlock]] = deque()
        for block in split_blocks(stream):
            waiting.append(pool.submit(parse_block, block, layout))
            if len(waiting) > WORKERS:
                batch, line = _finish_block(waiting.popleft(), rows, line)
                yield batch
        while waiting:
            batch, line = _finish_block(waiting.popleft(), rows, line)
            yield batch


def _finish_block(ready: Future[ParsedBlock], rows: BatchBuilder, line: int) -> tuple[RequestBatch, int]:
    """Return the batch of one block, and the line after it; line numbers of errors and damage become the file's."""
    try:
        table, damage, lines = ready.result()
    except jtl_strict.BadRowError as bad:
        raise ParseError(TOOL, rows.file, bad.line + line, bad.message) from None
    batch = rows.build(table, range(line, line + len(table)))
    batch.damage = [d._replace(line=d.line + line) for d in damage]
    if rows.layout.timestamp_format and rows.layout.timestamp_format.is_pattern and line <= 2:
        says = f"time stamps ({rows.layout.timestamp_format.description}) tell no zone: they are read as if they were UTC"
        batch.damage.append(Damage("local_time", line, says))
    return batch, line + lines


def parse_block(block: RecordBlock, layout: JtlLayout) -> ParsedBlock:
    """Return the known columns of a block, what lay between its rows, and its number of lines (all counted from 0)."""
    if block.is_complete and b"\0" not in block.data:
        try:
            table = _parse_fast(block, layout)
        except pa.ArrowInvalid:
            pass
        else:
            return table, [], block.data.count(b"\n") if block.has_quotes else len(table)
    table, damage = jtl_strict.read_strict(block, layout, [name for name in layout.columns if name in COLUMN_TYPES])
    return table, damage, block.data.count(b"\n")


def _parse_fast(block: RecordBlock, layout: JtlLayout) -> pa.Table:
    """Return the columns by pyarrow; ArrowInvalid where anything is not as declared."""
    if b"\r" in block.data and block.data.count(b"\r") != block.data.count(b"\r\n"):
        raise pa.ArrowInvalid("a carriage return alone")  # which pyarrow would take for a line end
    if block.has_quotes and not well_quoted(block.data, layout.separator):
        raise pa.ArrowInvalid("a quote within a field")  # which pyarrow would leave out
    types = {name: COLUMN_TYPES[name] for name in layout.columns if name in COLUMN_TYPES}
    if not any(text.encode() in block.data for text in (TRANSACTION, NO_ANSWER)):
        types.pop("responseMessage", None)  # says nothing else that is asked of it, and takes a tenth of the time
    if layout.timestamp_format and layout.timestamp_format.is_pattern:
        types["timeStamp"] = pa.string()
    table = csv.read_csv(
        pa.py_buffer(block.data),
        csv.ReadOptions(column_names=list(layout.columns), use_threads=False, block_size=len(block.data) + 1),
        csv.ParseOptions(delimiter=layout.separator, newlines_in_values=block.has_quotes, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=[],
            true_values=["true"],
            false_values=["false"],
        ),
    )
    return _checked_table(table, layout)


def _checked_table(table: pa.Table, layout: JtlLayout) -> pa.Table:
    """Return the table with time stamps in ms; ArrowInvalid for negative numbers and impossible time stamps."""
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
    return table


def _read_head(stream: BufferedReader, file: str, properties: Mapping[str, str] | None) -> tuple[JtlLayout, int]:
    """Return the layout and the number of lines before the first row; the stream is left at the first row."""
    head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
    start = len(BOM) if head.startswith(BOM) else 0
    start += len(head) - start - len(head[start:].lstrip(b"\0"))
    if not head[start:].strip():
        raise ParseError(
            TOOL, file, 0, "the file is empty" if not head else "the file holds nothing but NULs or blanks"
        )
    ends = [start, *(record_ends(head[start:])[:2] + start).tolist()]
    first, second = (
        head[a:b].decode(errors="replace").rstrip("\r\n") for a, b in pairwise([*ends, len(head), len(head)][:3])
    )
    layout = jtl_layout.find_layout(file, first, second, properties)
    if layout.header and len(ends) == 1:
        raise ParseError(TOOL, file, 1, "the file ends within its header")
    stream.read(ends[1] if layout.header else len(BOM) * head.startswith(BOM))
    return layout, int(layout.header is not None)
