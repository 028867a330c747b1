"""Files with several reports; ``ab.log#3`` names the third report in ab.log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from loadbook.core.errors import DataError
from loadbook.core.units import pluralize
from loadbook.ingestion.wrapping import unwrap
from loadbook.tools import base
from loadbook.tools.line_patterns import clean_lines

MAX_BYTES = 50_000_000


class ReportText(NamedTuple):
    """One of the reports in a file: its content, the lines of the file before it, and what was taken off (`unwrap`)."""

    data: bytes
    lines_before: int = 0
    taken_off: tuple[str, ...] = ()


def report_number(path: Path) -> tuple[Path, int]:
    """Return path and number (from 1) of the report that a path such as ``ab.log#3`` names; else the path and 0.

    A file whose own name ends so is a whole file.
    """
    name, _, number = path.name.rpartition("#")
    if not name or not re.fullmatch(r"[1-9][0-9]{0,5}", number) or os.path.lexists(path):
        return path, 0
    return path.with_name(name), int(number)


def read_reports(path: Path) -> list[ReportText]:
    """Return the reports in a file in the order of their lines; DataError if it cannot be read or split."""
    if path.is_dir():
        raise DataError(f"{path.name} is a folder: the number of a report stands behind the name of a file")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"{path.name} is larger than {MAX_BYTES:,} bytes", "split it")
        reports = list(_reports_in(path.read_bytes(), path.name))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{path.name} cannot be split: {error}", "split it by hand, a file for each report") from None
    return sorted(reports, key=_first_line)


def _reports_in(data: bytes, name: str) -> Iterator[ReportText]:
    for text in unwrap(data, name):
        lines_before = 0
        for part in split_reports(text.data):
            yield ReportText(part, lines_before, text.taken_off)
            lines_before += part.count(b"\n")


def _first_line(report: ReportText) -> int:
    """Return the place of a report's first line in its file."""
    return report.lines_before + report.data[: len(report.data) - len(report.data.lstrip())].count(b"\n")


def choose_report(reports: Sequence[ReportText], path: Path, number: int) -> ReportText:
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
    begin = "|".join(sorted({f"(?:{tool.report_begin})" for tool in tools}))
    ends = sorted({tool.report_end for tool in tools})
    parts = re.split(f"^(?={begin})", "\n".join(clean_lines(data)), flags=re.MULTILINE)
    parts[:2] = ["".join(parts[:2])]  # what stands before the first of the first lines
    for number, part in enumerate(parts, 1):
        if any(len(re.findall(f"^(?:{end})", part, re.MULTILINE)) > 1 for end in ends):
            raise ValueError(f"report {number} has the end of another one, whose first line is missing")
    lines = iter(BytesIO(data))
    return [b"".join(islice(lines, part.count("\n"))) for part in parts[:-1]] + [b"".join(lines)]
