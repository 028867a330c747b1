"""Locust's files of `--csv`: `_stats.csv` and `_stats_history.csv`, the state of its last flush and not of the end.

Locust writes both once a second while it runs, and not at its end: requests after the last flush are missing, and a
run of a second may have none at all. The history has rates and percentiles of the last seconds only; of the whole run
it has counts, median, mean and extremes, and no duration.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from loadbook.core.errors import ParseError
from loadbook.tools import line_patterns
from loadbook.tools.base import ToolOutput
from loadbook.tools.locust_text import TOTAL, Entry, Figures, check_entries, figures, rounded_step_ms

STATS, HISTORY = b"Type,Name,Request Count,", b"Timestamp,User Count,Type,Name,"
_TIMES = {"mean": "Average", "min": "Min", "max": "Max", "median": "Median"}
_COUNT, _NUMBER = re.compile(r"\d{1,15}"), re.compile(r"\d{1,15}(?:\.\d{1,20})?(?:e-\d{1,2})?")
_PERCENT = re.compile(r"\d+(?:\.\d+)?%")


def read_csv(output: ToolOutput) -> Figures | None:
    """Return the figures of the CSV among the standard output and the files; None if there is none.

    `_stats.csv` is read if both are there: it has rates and percentiles of the whole run.
    """
    sources = {"stdout": output.stdout, **output.files}
    for begin, read in ((STATS, _stats), (HISTORY, _history)):
        found = {name: data for name, data in sources.items() if data.startswith(begin)}
        if len(found) > 1:
            raise ParseError("locust", [*found][1], 1, "a second CSV of the same kind")
        for file, data in found.items():
            total, source = read(file, _table(file, data))
            made = figures(file, total, source)
            return made._replace(doubts=(*_flush_doubts(file), *made.doubts))
    return None


def _flush_doubts(file: str) -> Iterator[tuple[str, str]]:
    """Yield the doubt about every CSV."""
    text = f"{file} is the state of Locust's last flush, up to a second before the end: requests are missing"
    yield "last_flush", text


def _table(file: str, data: bytes) -> list[tuple[int, dict[str, str]]]:
    """Return (line, fields by column) of every row; ParseError for one with too few or too many values."""
    lines = line_patterns.clean_lines(data)
    names, *rows = csv.reader(lines, strict=True)
    table = []
    for number, row in enumerate(rows, 2):
        if len(row) == len(names):
            table.append((number, dict(zip(names, row, strict=True))))
        elif row or any(rows[number - 1 :]):
            raise ParseError("locust", file, number, f"row cut or changed: {','.join(row)[:60]!r}")
    if not table or table[-1][1]["Name"] != TOTAL or data[-1:] != b"\n":
        raise ParseError("locust", file, len(table) + 1, f"report is not complete: its last row is not {TOTAL!r}")
    return table


def _stats(file: str, table: Sequence[tuple[int, dict[str, str]]]) -> tuple[Entry, str]:
    """Return the row of the whole run of `_stats.csv`, which is the sum of all others."""
    entries = [_entry(file, number, row, "", " Response Time") for number, row in table]
    if [entry.name for entry in entries].count(f" {TOTAL}") != 1:
        raise ParseError("locust", file, 1, line_patterns.second_report(f",{TOTAL},"))
    check_entries(file, entries)
    return entries[-1], "CSV"


def _history(file: str, table: Sequence[tuple[int, dict[str, str]]]) -> tuple[Entry, str]:
    """Return the last row of the whole run of `_stats_history.csv`; its counts never fall."""
    last = Entry(1, "", 0, 0, {}, None)
    stamps = [_value(file, number, row, "Timestamp", _COUNT) for number, row in table]
    if [*map(int, stamps)] != sorted(map(int, stamps)):
        raise ParseError("locust", file, 2, "the time stamps do not ascend")
    for _, moment in groupby(table, lambda numbered: numbered[1]["Timestamp"]):
        entries = [_entry(file, number, row, "Total ", " Response Time") for number, row in moment]
        check_entries(file, entries)
        if entries[-1].requests < last.requests or entries[-1].failures < last.failures:
            raise ParseError("locust", file, entries[-1].line, "a count of the whole run falls: two runs in one file")
        last = entries[-1]
    return last, "history"


def _entry(file: str, number: int, row: dict[str, str], before: str, after: str) -> Entry:
    requests, failures = (
        int(_value(file, number, row, f"{before}{kind} Count", _COUNT)) for kind in ("Request", "Failure")
    )
    if failures > requests:
        raise ParseError("locust", file, number, f"{failures} failures of {requests} requests")
    texts = {name: _value(file, number, row, f"{before}{column}{after}") for name, column in _TIMES.items()}
    name = f"{row['Type']} {row['Name']}"
    rates = (_value(file, number, row, "Requests/s"), _value(file, number, row, "Failures/s"))
    percentiles = {
        f"p{column[:-1]}": _value(file, number, row, column)
        for column in row
        if _PERCENT.fullmatch(column) and row[column] != "N/A"
    }
    _value(file, number, row, f"{before}Average Content Size")
    times = {key: (text, 1e-6 if key != "median" else rounded_step_ms(text)) for key, text in texts.items()}
    if not before:
        times |= {key: (text, rounded_step_ms(text)) for key, text in percentiles.items()}
    return Entry(number, name, requests, failures, times if requests else {}, None if before else rates, 1e-9)


def _value(file: str, number: int, row: dict[str, str], column: str, pattern: re.Pattern[str] = _NUMBER) -> str:
    """Return a value as printed; ParseError if it is missing, or no number."""
    text = row.get(column)
    if text is None or not pattern.fullmatch(text):
        raise ParseError("locust", file, number, f"{column!r} is missing, or no number: {str(text)[:60]!r}")
    return text
