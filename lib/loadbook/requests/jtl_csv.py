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
from loadbook.requests.arrow import TEXT
from loadbook.requests.blocks import Block, blocks, record_ends, well_quoted
from loadbook.requests.jtl_layout import INTEGERS, TOOL, Layout
from loadbook.requests.jtl_rows import NO_ANSWER, TRANSACTION, Rows
from loadbook.requests.jtl_stamp import EPOCH_MS
from loadbook.requests.rows import Batch, Damage

BOM = b"\xef\xbb\xbf"
# the columns that are used, as they are declared
TYPES = {
    "timeStamp": pa.int64(), "success": pa.bool_(), **dict.fromkeys(INTEGERS, pa.int64()),
    **dict.fromkeys(("label", "responseCode", "responseMessage", "threadName"), TEXT),
}  # fmt: skip
WORKERS = 2
HEAD_BYTES = 1 << 16
Columns = tuple[pa.Table, list[Damage], int]  # the last is the number of lines


def read(stream: BufferedReader, file: str, properties: Mapping[str, str] | None = None) -> Iterator[Batch]:
    """Yield the rows of a file in order.

    Parameters
    ----------
    file : its name in messages.
    properties : JMeter properties of the run, where known; see `jtl_layout.find`.

    Raises
    ------
    ParseError : not a JTL; a row that is not one, with its line. Rows before it have been yielded.
    """
    layout, skipped = _head(stream, file, properties)
    rows, line = Rows(layout, file), 1 + skipped
    with ThreadPoolExecutor(WORKERS) as pool:
        waiting: deque[Future[Columns]] = deque()
        for block in blocks(stream):
            waiting.append(pool.submit(columns, block, layout))
            if len(waiting) > WORKERS:
                batch, line = _take(waiting.popleft(), rows, line)
                yield batch
        while waiting:
            batch, line = _take(waiting.popleft(), rows, line)
            yield batch


def _take(ready: Future[Columns], rows: Rows, line: int) -> tuple[Batch, int]:
    """Return the batch of one block, and the line after it; line numbers of errors and damage become the file's."""
    try:
        table, damage, lines = ready.result()
    except jtl_strict.BadRowError as bad:
        raise ParseError(TOOL, rows.file, bad.line + line, bad.message) from None
    batch = rows.batch(table, range(line, line + len(table)))
    batch.damage = [d._replace(line=d.line + line) for d in damage]
    if rows.layout.stamp and rows.layout.stamp.text and line <= 2:
        says = f"time stamps ({rows.layout.stamp.says}) tell no zone: they are read as if they were UTC"
        batch.damage.append(Damage("local_time", line, says))
    return batch, line + lines


def columns(block: Block, layout: Layout) -> Columns:
    """Return the known columns of a block, what lay between its rows, and its number of lines (all counted from 0)."""
    if block.whole and b"\0" not in block.data:
        try:
            table = _fast(block, layout)
        except pa.ArrowInvalid:
            pass
        else:
            return table, [], block.data.count(b"\n") if block.quoted else len(table)
    table, damage = jtl_strict.read(block, layout, [name for name in layout.columns if name in TYPES])
    return table, damage, block.data.count(b"\n")


def _fast(block: Block, layout: Layout) -> pa.Table:
    """Return the columns by pyarrow; ArrowInvalid where anything is not as declared."""
    if b"\r" in block.data and block.data.count(b"\r") != block.data.count(b"\r\n"):
        raise pa.ArrowInvalid("a carriage return alone")  # which pyarrow would take for a line end
    if block.quoted and not well_quoted(block.data, layout.separator):
        raise pa.ArrowInvalid("a quote within a field")  # which pyarrow would leave out
    types = {name: TYPES[name] for name in layout.columns if name in TYPES}
    if not any(text.encode() in block.data for text in (TRANSACTION, NO_ANSWER)):
        types.pop("responseMessage", None)  # says nothing else that is asked of it, and takes a tenth of the time
    if layout.stamp and layout.stamp.text:
        types["timeStamp"] = pa.string()
    table = csv.read_csv(
        pa.py_buffer(block.data),
        csv.ReadOptions(column_names=list(layout.columns), use_threads=False, block_size=len(block.data) + 1),
        csv.ParseOptions(delimiter=layout.separator, newlines_in_values=block.quoted, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=[],
            true_values=["true"],
            false_values=["false"],
        ),
    )
    return _checked(table, layout)


def _checked(table: pa.Table, layout: Layout) -> pa.Table:
    """Return the table with time stamps in ms; ArrowInvalid for negative numbers and impossible time stamps."""
    if layout.stamp and layout.stamp.text:
        texts = pc.replace_substring_regex(table["timeStamp"], *layout.stamp.iso())
        at = table.schema.get_field_index("timeStamp")
        table = table.set_column(at, "timeStamp", texts.cast(pa.timestamp("ms")).cast(pa.int64()))
    for name in table.column_names:
        if not len(table) or not pa.types.is_int64(table[name].type):
            continue
        low, high = pc.min_max(table[name]).as_py().values()
        epoch = name == "timeStamp" and layout.stamp is EPOCH_MS
        if low < (10**12 if epoch else 0) or high >= (10**13 if epoch else 10**18):
            raise pa.ArrowInvalid(f"{name} is out of range")
    return table


def _head(stream: BufferedReader, file: str, properties: Mapping[str, str] | None) -> tuple[Layout, int]:
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
    layout = jtl_layout.find(file, first, second, properties)
    if layout.header and len(ends) == 1:
        raise ParseError(TOOL, file, 1, "the file ends within its header")
    stream.read(ends[1] if layout.header else len(BOM) * head.startswith(BOM))
    return layout, int(layout.header is not None)
