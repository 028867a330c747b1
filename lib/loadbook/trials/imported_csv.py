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
from loadbook.design.problems import shown, suggest
from loadbook.records.layout import NAME

REQUIRED = ("file", "treatment", "block")
NUMBERS = ("duration", "offered_per_s")
OPTIONAL = ("tool", "host", "started", "duration", "offered_per_s", "stderr", "exit_code", "command")
FACTOR = "factor_"
DELIMITERS = ",;\t"
MAX_BYTES = 50_000_000
MAX_SAID = 50
TOO_MUCH = 1e12
# seconds since 1970 from 1973 to 2286: neither a date written as 20240305 nor milliseconds
EPOCH_S = (1e8, 1e10)
UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, order=True)
class Wrong:
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


def refuse(path: Path, wrong: Iterable[Wrong]) -> LoadbookError:
    """Return the error that names every mistake: a UsageError, or a DataError when only the outputs are at fault."""
    found = sorted(set(wrong))
    lines = [f"{path}: {len(found)} problem{'s' if len(found) != 1 else ''}; nothing was imported"]
    lines += [f"  line {w.line}: {w.message}" if w.line else f"  {w.message}" for w in found[:MAX_SAID]]
    lines += [f"  and {len(found) - MAX_SAID} more"] if len(found) > MAX_SAID else []
    kind = DataError if all(w.data for w in found) else UsageError
    return kind("\n".join(lines), "correct these, then give the same command again")


def read_conditions(path: Path) -> tuple[list[Condition], list[Wrong]]:
    """Read a file of conditions; rows that cannot be understood are left out and named.

    Commas, semicolons or tabs separate, as in the header; UTF-8 with or without a byte order mark.

    Raises
    ------
    UsageError : the file cannot be read as CSV at all, holds no rows, or lacks a column that is required.
    """
    numbered = _rows(path, _text(path))
    header_line, cells = next(numbered, (0, []))
    header = [_clean(cell).lower().replace(" ", "_").replace("-", "_") for cell in cells]
    wrong = list(_header_problems(header_line, header))
    if not all(name in header for name in REQUIRED):
        raise refuse(path, wrong if header_line else [Wrong(0, f"it is empty; {_wanted()}")])
    found: list[Condition] = []
    for line, row in numbered:
        if len(row) != len(header):
            wrong.append(Wrong(line, f"{len(row)} cells where the header has {len(header)}"))
            continue
        condition, mistakes = _condition(line, dict(zip(header, map(_clean, row), strict=True)))
        wrong += mistakes
        if condition is not None:
            found.append(condition)
    if not found and not wrong:
        raise refuse(path, [Wrong(0, f"it holds a header and no rows; {_wanted()}")])
    return found, wrong


def _clean(cell: str) -> str:
    """Return a cell without the blanks that spreadsheets leave."""
    return cell.replace("\u00a0", " ").strip()


def _wanted() -> str:
    return f"a header with {', '.join(REQUIRED)} and a row for each raw output are needed"


def _text(path: Path) -> str:
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


def _rows(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
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


def _header_problems(line: int, header: list[str]) -> Iterator[Wrong]:
    known = (*REQUIRED, *OPTIONAL)
    for name in dict.fromkeys(header):
        if name not in known and not name.startswith(FACTOR):
            what = f"unknown column {shown(name)}{suggest(name, known)}" if name else "a column without a name"
            yield Wrong(line, f"{what}; a factor's column is called {FACTOR}<name>")
        if header.count(name) > 1:
            yield Wrong(line, f"{header.count(name)} columns are called {shown(name)}")
    for name in REQUIRED:
        if name not in header:
            yield Wrong(line, f"there is no column {name!r}")


def _condition(line: int, cells: dict[str, str]) -> tuple[Condition | None, list[Wrong]]:
    """Return a row as a condition, None if that cannot be, and what is wrong with it."""
    wrong = [Wrong(line, f"no {name}") for name in REQUIRED if not cells[name]]
    wrong += [Wrong(line, f"{n} holds control characters") for n, text in cells.items() if not text.isprintable()]
    if cells.get("host") and not NAME.match(cells["host"]):
        wrong.append(Wrong(line, f"host {shown(cells['host'])}: use letters, digits, '.', '_' and '-'"))
    values: dict[str, Any] = {name: cells[name] for name in (*REQUIRED, *OPTIONAL) if name in cells}
    for name in ("started", *NUMBERS):
        try:
            values[name] = _time(cells.get(name, "")) if name == "started" else _number(cells.get(name, ""))
        except ValueError as error:
            wrong.append(Wrong(line, f"{name}: {error}"))
    if wrong:
        return None, wrong
    factors = {name.removeprefix(FACTOR): text for name, text in cells.items() if name.startswith(FACTOR)}
    return Condition(line, **values, factors=factors), []


def _number(text: str) -> float | None:
    """Return a positive number, None for an empty cell."""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < TOO_MUCH:
        raise ValueError(f"{shown(text)} is not a positive number (no units, no thousands separators)")
    return value


def _time(text: str) -> float | None:
    """Return an ISO 8601 time (UTC unless it says otherwise) or a number of epoch seconds as epoch seconds."""
    if not text:
        return None
    found = next((t for read in (float, _iso_time) if (t := _in_range(read, text)) is not None), None)
    if found is None:
        raise ValueError(f"{shown(text)} is no time such as 2024-03-05 14:02:11 or seconds since 1970")
    return found


def _iso_time(text: str) -> float:
    given = datetime.fromisoformat(text)
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()


def _in_range(read: Callable[[str], float], text: str) -> float | None:
    try:
        value = read(text)
    except (ValueError, OverflowError):
        return None
    return value if EPOCH_S[0] <= value <= EPOCH_S[1] else None
