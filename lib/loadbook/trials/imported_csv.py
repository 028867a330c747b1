"""A CSV file of conditions -> one `Condition` per row, and everything that is wrong with it, each with its line."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadbook.core.errors import DataError, LoadbookError, UsageError
from loadbook.design.problems import short_repr, suggestion
from loadbook.records.layout import NAME_PATTERN

REQUIRED = ("file", "treatment", "block")
NUMBERS = ("duration", "offered_per_s")
OPTIONAL = ("tool", "host", "started", "duration", "offered_per_s", "stderr", "exit_code", "command")
FACTOR = "factor_"
DELIMITERS = ",;\t"
MAX_BYTES = 50_000_000
MAX_NAMED_PROBLEMS = 50
MAX_NUMBER = 1e12
# seconds since 1970 from 1973 to 2286: neither a date written as 20240305 nor milliseconds
EPOCH_S = (1e8, 1e10)
UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, order=True)
class ImportProblem:
    """One mistake: the line of the CSV file (0: the file as a whole), and whether it is the outputs' (exit code 4)."""

    line: int
    message: str
    data: bool = False


@dataclass(frozen=True)
class Condition:
    """What the user says of one raw output: texts as given, times in seconds (`started`: epoch, `duration`)."""

    line: int
    file: str
    treatment: str
    block: str
    tool: str = ""
    host: str = ""
    stderr: str = ""
    exit_code: str = ""
    command: str = ""
    started: float | None = None
    duration: float | None = None
    offered_per_s: float | None = None
    factors: Mapping[str, str] = field(default_factory=dict)


def import_error(path: Path, problems: Iterable[ImportProblem]) -> LoadbookError:
    """Return the error that names every mistake: a UsageError, or a DataError when only the outputs are at fault."""
    ordered = sorted(set(problems))
    lines = [f"{path}: {len(ordered)} problem{'s' if len(ordered) != 1 else ''}; nothing was imported"]
    lines += [f"  line {w.line}: {w.message}" if w.line else f"  {w.message}" for w in ordered[:MAX_NAMED_PROBLEMS]]
    lines += [f"  and {len(ordered) - MAX_NAMED_PROBLEMS} more"] if len(ordered) > MAX_NAMED_PROBLEMS else []
    kind = DataError if all(w.data for w in ordered) else UsageError
    return kind("\n".join(lines), "correct these, then give the same command again")


def read_conditions(path: Path) -> tuple[list[Condition], list[ImportProblem]]:
    """Read a file of conditions; rows that cannot be understood are left out and named.

    Commas, semicolons or tabs separate, as in the header; UTF-8 with or without a byte order mark.

    Raises
    ------
    UsageError : the file cannot be read as CSV at all, holds no rows, or lacks a column that is required.
    """
    numbered = _csv_rows(path, _read_csv_text(path))
    header_line, cells = next(numbered, (0, []))
    header = [_clean_cell(cell).lower().replace(" ", "_").replace("-", "_") for cell in cells]
    problems = list(_header_problems(header_line, header))
    if not all(name in header for name in REQUIRED):
        raise import_error(path, problems if header_line else [ImportProblem(0, f"it is empty; {_required_text()}")])
    conditions: list[Condition] = []
    for line, row in numbered:
        if len(row) != len(header):
            problems.append(ImportProblem(line, f"{len(row)} cells where the header has {len(header)}"))
            continue
        condition, row_problems = _parse_condition(line, dict(zip(header, map(_clean_cell, row), strict=True)))
        problems += row_problems
        if condition is not None:
            conditions.append(condition)
    if not conditions and not problems:
        raise import_error(path, [ImportProblem(0, f"it holds a header and no rows; {_required_text()}")])
    return conditions, problems


def _clean_cell(cell: str) -> str:
    """Return a cell without the blanks that spreadsheets leave."""
    return cell.replace("\u00a0", " ").strip()


def _required_text() -> str:
    return f"a header with {', '.join(REQUIRED)} and a row for each raw output are needed"


def _read_csv_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES:,} bytes: is it the file of conditions?")
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name the CSV file by --conditions") from error
    if data.startswith(UTF16) or b"\0" in data:
        raise UsageError(f"{path} is not UTF-8 text", 'save it as "CSV UTF-8"')
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UsageError(
            f"{path}:{line}: the byte 0x{data[error.start]:02x} is not UTF-8 text", 'save it as "CSV UTF-8"'
        ) from error


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the file's rows with the line on which each begins; blank ones are left out."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(DELIMITERS, key=first.count)
    reader, line = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise UsageError(f"{path}:{line}: not CSV: {error}", "a quote that is not closed?") from error


def _header_problems(line: int, header: list[str]) -> Iterator[ImportProblem]:
    known = (*REQUIRED, *OPTIONAL)
    for name in dict.fromkeys(header):
        if name not in known and not name.startswith(FACTOR):
            problem = f"unknown column {short_repr(name)}{suggestion(name, known)}" if name else "a column without a name"
            yield ImportProblem(line, f"{problem}; a factor's column is called {FACTOR}<name>")
        if header.count(name) > 1:
            yield ImportProblem(line, f"{header.count(name)} columns are called {short_repr(name)}")
    for name in REQUIRED:
        if name not in header:
            yield ImportProblem(line, f"there is no column {name!r}")


def _parse_condition(line: int, cells: dict[str, str]) -> tuple[Condition | None, list[ImportProblem]]:
    """Return a row as a condition, None if that cannot be, and what is wrong with it."""
    problems = [ImportProblem(line, f"no {name}") for name in REQUIRED if not cells[name]]
    problems += [ImportProblem(line, f"{n} holds control characters") for n, text in cells.items() if not text.isprintable()]
    if cells.get("host") and not NAME_PATTERN.match(cells["host"]):
        problems.append(ImportProblem(line, f"host {short_repr(cells['host'])}: use letters, digits, '.', '_' and '-'"))
    values: dict[str, Any] = {name: cells[name] for name in (*REQUIRED, *OPTIONAL) if name in cells}
    for name in ("started", *NUMBERS):
        try:
            values[name] = _parse_time(cells.get(name, "")) if name == "started" else _parse_number(cells.get(name, ""))
        except ValueError as error:
            problems.append(ImportProblem(line, f"{name}: {error}"))
    if problems:
        return None, problems
    factors = {name.removeprefix(FACTOR): text for name, text in cells.items() if name.startswith(FACTOR)}
    return Condition(line, **values, factors=factors), []


def _parse_number(text: str) -> float | None:
    """Return a positive number, None for an empty cell."""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < MAX_NUMBER:
        raise ValueError(f"{short_repr(text)} is not a positive number (no units, no thousands separators)")
    return value


def _parse_time(text: str) -> float | None:
    """Return an ISO 8601 time (UTC unless it says otherwise) or a number of epoch seconds as epoch seconds."""
    if not text:
        return None
    epoch_s = next((t for read in (float, _parse_iso_time) if (t := _parse_in_range(read, text)) is not None), None)
    if epoch_s is None:
        raise ValueError(f"{short_repr(text)} is no time such as 2024-03-05 14:02:11 or seconds since 1970")
    return epoch_s


def _parse_iso_time(text: str) -> float:
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _parse_in_range(read: Callable[[str], float], text: str) -> float | None:
    try:
        value = read(text)
    except (ValueError, OverflowError):
        return None
    return value if EPOCH_S[0] <= value <= EPOCH_S[1] else None
