"""Blocks of a JTL that are not all plain rows, record by record: what is broken is named with its line.

Mended without guessing: a header that comes again, empty lines, NULs before a row (a log that was rotated, or a machine
that lost power), bytes that are not UTF-8. Left out, counted and located: rows with NULs inside, and the end of a file
that was cut within a row. Everything else is refused.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from loadbook.requests.arrow import encode_texts, from_numpy
from loadbook.requests.blocks import MAX_RECORD_BYTES, RecordBlock
from loadbook.requests.jtl_layout import INTEGERS, COLUMN_PROPERTIES, JtlLayout
from loadbook.requests.rows import Damage


class BadRowError(Exception):
    """A record that is no row: its line in the block, from 0, and why."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message


def read_strict(block: RecordBlock, layout: JtlLayout, names: Sequence[str]) -> tuple[pa.Table, list[Damage]]:
    """Return the columns `names` of a block and what lay between its rows; BadRowError for what cannot be read."""
    if not block.is_complete:
        return _build_table([], layout, names), _trailing_damage(block.data, layout)
    damage: list[Damage] = []
    rows = [row for line, fields in _split_records(block.data, layout, damage) if (row := _checked_fields(line, fields, layout, damage))]
    return _build_table(rows, layout, names), damage


def _trailing_damage(data: bytes, layout: JtlLayout) -> list[Damage]:
    """Return what the end of a file without a line end is: a row that was cut, NULs, or (BadRowError) an open quote."""
    content = data.rstrip(b"\0")
    nuls = [Damage("nul", 0, f"{len(data) - len(content)} NULs at the end of the file")] if len(content) < len(data) else []
    if not content.strip():
        return nuls
    if len(content) > MAX_RECORD_BYTES or any(_looks_like_row(line, layout) for line in content.split(b"\n")[1:]):
        raise BadRowError(0, "a quote that is opened here is never closed")
    return [
        *nuls,
        Damage("torn", 0, f"the file ends within a row, which is not counted: {content[:60].decode(errors='replace')!r}"),
    ]


def _looks_like_row(line: bytes, layout: JtlLayout) -> bool:
    fields = line.decode(errors="replace").rstrip("\r").split(layout.separator)
    return len(fields) >= len(layout.columns) and layout.row_error([*fields[: len(layout.columns)]]) is None


def _split_records(data: bytes, layout: JtlLayout, damage: list[Damage]) -> Iterator[tuple[int, list[str]]]:
    lines = (line + "\n" for line in _decode(data, damage).removesuffix("\n").split("\n"))
    reader = csv.reader(lines, delimiter=layout.separator, strict=True)
    while True:
        line = reader.line_num
        try:
            yield line, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise BadRowError(line, f"broken quoting: {error}") from None


def _decode(data: bytes, damage: list[Damage]) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start)
        damage.append(Damage("encoding", line, "not UTF-8; its other bytes are kept as \\xNN"))
        return data.decode(errors="backslashreplace")


def _checked_fields(line: int, fields: list[str], layout: JtlLayout, damage: list[Damage]) -> list[str] | None:
    """Return a row's fields; None for a record that is none but may be there; BadRowError otherwise."""
    if not fields or tuple(fields) == layout.header:
        if fields:
            damage.append(Damage("header", line, "the header comes again: files or runs were joined"))
        return None
    if any("\0" in field for field in fields):
        fields[0] = fields[0].lstrip("\0")
        lost = layout.columns[0] != "timeStamp" or any("\0" in field for field in fields) or layout.row_error(fields)
        damage.append(
            Damage("nul", line, "NULs" + (" within a row, which is not counted" if lost else " before a row"))
        )
        return None if lost else fields
    if "elapsed" in fields and sum(field in COLUMN_PROPERTIES for field in fields) > len(fields) / 2:
        raise BadRowError(
            line, "another header: a run with other columns was appended; give each run a file of its own"
        )
    if fault := layout.row_error(fields):
        raise BadRowError(line, fault)
    return fields


def _build_table(rows: list[list[str]], layout: JtlLayout, names: Sequence[str]) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for name in names:
        index = layout.columns.index(name)
        values = [row[index] for row in rows]
        if name == "timeStamp" and layout.timestamp_format:
            columns[name] = from_numpy(np.array([layout.timestamp_format.parse_ms(value) for value in values], np.int64))
        elif name in INTEGERS:
            columns[name] = from_numpy(np.array(list(map(int, values)), np.int64))
        elif name == "success":
            columns[name] = from_numpy(np.array([value == "true" for value in values], bool))
        else:
            columns[name] = encode_texts(values)
    return pa.table(columns)
