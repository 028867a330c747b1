"""Files with several reports; ``ab.log#3`` names the third report in ab.log."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple, TypeVar

from loadbook.core.errors import DataError
from loadbook.core.units import pluralize
from loadbook.ingestion.wrapping import has_beginnings, unwrap
from loadbook.tools import base
from loadbook.tools.base import Tool
from loadbook.tools.json_report import find_documents
from loadbook.tools.line_patterns import clean_lines

MAX_BYTES = 50_000_000
T = TypeVar("T")


def same_number(line: int) -> int:
    """Return the number of a line unchanged: of a text that is a whole file."""
    return line


class ReportText(NamedTuple):
    """One of the reports in a file: its content, and what was taken off (`unwrap`).

    `number_of` returns the number in the file of one of its lines, both from 1.
    """

    data: bytes
    number_of: Callable[[int], int] = same_number
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
            yield ReportText(part, partial(_number_in_file, text.numbers, lines_before), text.taken_off)
            lines_before += part.count(b"\n")


def _number_in_file(numbers: Sequence[int], lines_before: int, line: int) -> int:
    """Return the number of a line of a part of a text that has the lines `numbers` of a file (empty: all)."""
    place = lines_before + line
    return numbers[min(place, len(numbers)) - 1] if numbers else place


def _first_line(report: ReportText) -> int:
    """Return the number of a report's first line that is not empty."""
    return report.number_of(report.data[: len(report.data) - len(report.data.lstrip())].count(b"\n") + 1)


def choose_report(reports: Sequence[T], path: Path, number: int) -> T:
    """Return the report with this number (from 1) among those of a file; DataError if there is none."""
    if number > len(reports):
        raise DataError(f"{path.name} has {pluralize(len(reports), 'report')}, none with the number {number}")
    return reports[number - 1]


def split_reports(data: bytes) -> list[bytes]:
    """Return the reports in a file, one after the other, each with the lines before the next one.

    The first begins with the file, also if that has other lines first; a file without a known first line is one report.
    A report in JSON behind the text of the same tool belongs to it.

    Raises
    ------
    ValueError : a report lacks its first line, so that the number of reports is not known.
    """
    if not has_beginnings(data.decode(errors="replace")):
        return [data]
    lines = clean_lines(data)
    begins = _text_beginnings(lines)
    cuts = [0, *(line for line in begins if line > min(begins)), len(lines)]
    ends = sorted({tool.report_end for tool in _tools() if tool.report_end})
    for number, (start, stop) in enumerate(pairwise(cuts), 1):
        part = "\n".join(lines[start:stop])
        if any(len(re.findall(f"^(?:{end})", part, re.MULTILINE)) > 1 for end in ends):
            raise ValueError(f"report {number} has the end of another one, whose first line is missing")
    cuts = sorted({*cuts, *_json_cuts(lines, _json_beginnings(lines), begins)})
    rows = iter(BytesIO(data))
    return [b"".join(islice(rows, stop - start)) for start, stop in pairwise(cuts[:-1])] + [b"".join(rows)]


def _tools() -> list[Tool]:
    return [base.load_tool(name) for name in base.tool_names()]


def _text_beginnings(lines: Sequence[str]) -> dict[int, set[str]]:
    """Return line (from 0) -> tools that may have printed it, of the first lines of text reports."""
    text = "\n".join(lines)
    found: dict[int, set[str]] = {}
    for tool in _tools():
        for match in re.finditer(f"^(?:{tool.report_begin})", text, re.MULTILINE) if tool.report_begin else ():
            found.setdefault(text.count("\n", 0, match.start()), set()).add(tool.name)
    return dict(sorted(found.items()))


def _json_beginnings(lines: Sequence[str]) -> dict[int, set[str]]:
    """Return line (from 0) -> tools that may have written it, of reports in JSON."""
    found: dict[int, set[str]] = {}
    for tool in _tools():
        kind = list if tool.report_is_list else dict
        for line, _ in find_documents(lines, *tool.report_keys, kind=kind) if tool.report_keys else ():
            found.setdefault(line - 1, set()).add(tool.name)
    return found


def _json_cuts(
    lines: Sequence[str], documents: Mapping[int, set[str]], begins: Mapping[int, set[str]]
) -> Iterator[int]:
    """Yield the lines of reports in JSON that belong to no text before them."""
    text_of: set[str] = set()  # tools of the text before, as long as none of its reports in JSON was found
    text_at, is_first = 0, True
    for line in sorted({*begins, *documents}):
        if line in begins:
            text_of, text_at = set(begins[line]), line
        else:
            belongs = documents[line] & (text_of - _ended(lines[text_at:line], text_of))
            if not is_first and not belongs:
                yield line
            text_of = set()
        is_first = False


def _ended(lines: Sequence[str], names: set[str]) -> set[str]:
    """Return the other tools if the text has the last lines of a tool: it is then that tool's."""
    ended = {name for name in names if any(re.match(base.load_tool(name).report_end, line) for line in lines)}
    return names - ended if ended else set()
