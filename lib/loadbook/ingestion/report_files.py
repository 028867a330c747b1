"""Files with several text reports; ``ab.log#3`` names the third report in ab.log."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path

from loadbook.core.errors import DataError
from loadbook.core.units import pluralize
from loadbook.tools import base
from loadbook.tools.line_patterns import clean_lines, utf_16_text

MAX_BYTES = 50_000_000


def report_number(path: Path) -> tuple[Path, int]:
    """Return path and number (from 1) of the report that a path such as ``ab.log#3`` names; else the path and 0.

    A file whose own name ends so is a whole file.
    """
    name, _, number = path.name.rpartition("#")
    if not name or not re.fullmatch(r"[1-9][0-9]{0,5}", number) or os.path.lexists(path):
        return path, 0
    return path.with_name(name), int(number)


def read_reports(path: Path) -> list[bytes]:
    """Return the text reports in a file; DataError if it cannot be read or split."""
    if path.is_dir():
        raise DataError(f"{path.name} is a folder: the number of a report stands behind the name of a file")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"{path.name} is larger than {MAX_BYTES:,} bytes", "split it")
        data = path.read_bytes()
        if encoding := utf_16_text(data):
            raise DataError(f"{path.name}{encoding}")
        return split_reports(data)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{path.name} cannot be split: {error}", "split it by hand, a file for each report") from None


def choose_report(reports: Sequence[bytes], path: Path, number: int) -> bytes:
    """Return the report with this number (from 1) among those of a file; DataError if there is none."""
    if number > len(reports):
        raise DataError(f"{path.name} has {pluralize(len(reports), 'report')}, none with the number {number}")
    return reports[number - 1]


def split_reports(data: bytes) -> list[bytes]:
    """Return the text reports in a file, one after the other, each with the lines before the next one.

    The first begins with the file, also if that has other lines first; a file without a known first line is one report.

    Raises
    ------
    ValueError : a report lacks its first line, so that the number of reports is not known.
    """
    tools = [tool for tool in map(base.load_tool, base.tool_names()) if tool.report_begin]
    begin, end = (
        "|".join(sorted({f"(?:{line})" for line in lines}))
        for lines in ([tool.report_begin for tool in tools], [tool.report_end for tool in tools])
    )
    parts = re.split(f"^(?={begin})", "\n".join(clean_lines(data)), flags=re.MULTILINE)
    parts[:2] = ["".join(parts[:2])]  # what stands before the first of the first lines
    for number, part in enumerate(parts, 1):
        if len(re.findall(f"^(?:{end})", part, re.MULTILINE)) > 1:
            raise ValueError(f"report {number} has the end of another one, whose first line is missing")
    lines = iter(BytesIO(data))
    return [b"".join(islice(lines, part.count("\n"))) for part in parts[:-1]] + [b"".join(lines)]
