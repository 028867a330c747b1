"""Reads CSV files that people made: with line numbers for messages, any of the usual separators, and UTF-8 only."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from loadbook.core.errors import DataError, UsageError

SEPARATORS = (",", ";", "\t")
MAX_BYTES = 50_000_000
UTF16 = (b"\xff\xfe", b"\xfe\xff")
SAVE_HINT = 'save it as "CSV UTF-8"'


def read_csv_rows(
    path: Path, error: type[DataError | UsageError] = DataError, hint: str | None = None
) -> list[tuple[int, list[str]]]:
    """Return (line on which it begins, from 1; cells) for each row of a file that is not blank.

    The separator is the most frequent one in the first line. A byte order mark is left out.

    Parameters
    ----------
    error : class of the error for a file that is no CSV; its message has the line.
    hint : what to do if the file cannot be opened.

    Raises
    ------
    UsageError : the file cannot be read, or has more than 50 MB.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES:,} bytes: is it the right CSV file?")
        data = path.read_bytes()
    except OSError as raised:
        raise UsageError(f"{path}: {raised.strerror}", hint) from raised
    if data.startswith(UTF16) or b"\0" in data:
        raise error(f"{path} is not UTF-8 text", SAVE_HINT)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as raised:
        line = data[: raised.start].count(b"\n") + 1
        raise error(f"{path}:{line}: the byte 0x{data[raised.start]:02x} is not UTF-8 text", SAVE_HINT) from raised
    return list(_rows(path, text, error))


def _rows(path: Path, text: str, error: type[DataError | UsageError]) -> Iterator[tuple[int, list[str]]]:
    first = next((line for line in text.splitlines() if line.strip()), "")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(SEPARATORS, key=first.count), strict=True)
    line = 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as raised:
        raise error(f"{path}:{line}: not CSV: {raised}", "a quote that is not closed?") from raised
