"""One of several reports in a file, named ``ab.log#3``: the third report in ab.log."""

from __future__ import annotations

import os
import re
from pathlib import Path

from loadbook.core.errors import DataError
from loadbook.core.units import pluralize
from loadbook.tools.base import split_reports
from loadbook.tools.line_patterns import utf_16_text

MAX_BYTES = 50_000_000


def report_number(path: Path) -> tuple[Path, int]:
    """Return path and number of the report that a path such as ``ab.log#3`` names; 0 for a whole file or folder."""
    name, _, number = path.name.rpartition("#")
    if not name or not re.fullmatch(r"[1-9][0-9]{0,5}", number) or os.path.lexists(path):
        return path, 0
    return path.with_name(name), int(number)


def read_report(path: Path, number: int) -> bytes:
    """Return the report with this number (from 1) in a text file; DataError if there is none."""
    if path.is_dir():
        raise DataError(f"{path.name} is a folder: the number of a report stands behind the name of a file")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"{path.name} is larger than {MAX_BYTES:,} bytes", "split it")
        data = path.read_bytes()
        if encoding := utf_16_text(data):
            raise DataError(f"{path.name}{encoding}")
        reports = split_reports(data)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{path.name} cannot be split: {error}", "split it by hand, a file for each report") from None
    if number > len(reports):
        raise DataError(f"{path.name} has {pluralize(len(reports), 'report')}, none with the number {number}")
    return reports[number - 1]
