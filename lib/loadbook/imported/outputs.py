"""Raw outputs to import: the CSV file of conditions, and the output files that it names.

Only regular files inside the imported folder are read.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path, PurePath
from typing import Any

from loadbook.core.csv_file import read_csv_rows
from loadbook.core.errors import DataError, LoadbookError, UsageError
from loadbook.core.text import did_you_mean_file
from loadbook.core.units import and_more, pluralize
from loadbook.ingestion import captured, report_files
from loadbook.store.paths import NAME_PATTERN
from loadbook.store.trial_record import sha256_file
from loadbook.study.problems import short_repr, suggestion
from loadbook.tools.base import ToolOutput

REQUIRED = ("file", "treatment", "block")
NEEDED = f"a header with {', '.join(REQUIRED)} and a row for each raw output are needed"
NUMBERS = ("duration", "offered_per_s")
OPTIONAL = ("tool", "host", "started", "duration", "offered_per_s", "stderr", "exit_code", "command")
FACTOR = "factor_"
MAX_NAMED_PROBLEMS = 50
MAX_NUMBER = 1e12
# accepted epoch seconds, 1973 to 2286, which excludes dates such as 20240305 and milliseconds
EPOCH_S = (1e8, 1e10)


@dataclass(frozen=True, order=True)
class ImportProblem:
    """One mistake, in a line of the CSV file (0: the whole file); `data` is whether it is in an output file."""

    line: int
    message: str
    data: bool = False


@dataclass(frozen=True)
class Condition:
    """One row of the CSV file, which describes one output.

    Texts are as given, "" for an empty cell. `started` is in epoch seconds, `duration` in s, `offered_per_s` in 1/s;
    each is None for an empty cell. `factors` maps factors to levels.
    """

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
    """Return an error that lists the mistakes: a DataError if all are in output files, else a UsageError."""
    ordered = sorted(set(problems))
    lines = [f"{path}: {pluralize(len(ordered), 'problem')}; nothing was imported"]
    lines += [f"  line {w.line}: {w.message}" if w.line else f"  {w.message}" for w in ordered[:MAX_NAMED_PROBLEMS]]
    lines += [f"  {more}"] if (more := and_more(len(ordered), MAX_NAMED_PROBLEMS)) else []
    kind = DataError if all(w.data for w in ordered) else UsageError
    error = kind("\n".join(lines), "correct these, then give the same command again")
    error.problems = ordered
    return error


def read_conditions(path: Path) -> tuple[list[Condition], list[ImportProblem]]:
    """Read a CSV file of conditions; return the valid rows, and the mistakes in the other rows.

    The separator is the header's: comma, semicolon or tab. The text is UTF-8 with or without a byte order mark.

    Raises
    ------
    UsageError : the file is no CSV, has no rows, or lacks a required column.
    """
    numbered = iter(read_csv_rows(path, UsageError, "name the CSV file by --conditions"))
    header_line, cells = next(numbered, (0, []))
    header = [_clean_cell(cell).lower().replace(" ", "_").replace("-", "_") for cell in cells]
    problems = list(_header_problems(header_line, header))
    if not all(name in header for name in REQUIRED):
        raise import_error(path, problems if header_line else [ImportProblem(0, f"it is empty; {NEEDED}")])
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
        raise import_error(path, [ImportProblem(0, f"it holds a header and no rows; {NEEDED}")])
    return conditions, problems


def _clean_cell(cell: str) -> str:
    """Return a cell without surrounding blanks, and with no-break spaces replaced by blanks."""
    return cell.replace("\u00a0", " ").strip()


def _header_problems(line: int, header: list[str]) -> Iterator[ImportProblem]:
    known = (*REQUIRED, *OPTIONAL)
    for name in dict.fromkeys(header):
        if name not in known and not name.startswith(FACTOR):
            problem = (
                f"unknown column {short_repr(name)}{suggestion(name, known)}" if name else "a column without a name"
            )
            yield ImportProblem(line, f"{problem}; a factor's column is called {FACTOR}<name>")
        if header.count(name) > 1:
            yield ImportProblem(line, f"{header.count(name)} columns are called {short_repr(name)}")
    for name in REQUIRED:
        if name not in header:
            yield ImportProblem(line, f"there is no column {name!r}")


def _parse_condition(line: int, cells: dict[str, str]) -> tuple[Condition | None, list[ImportProblem]]:
    """Return a row as a condition (None if it has mistakes), and its mistakes."""
    problems = [ImportProblem(line, f"no {name}") for name in REQUIRED if not cells[name]]
    odd = [name for name, text in cells.items() if not text.isprintable()]
    problems += [ImportProblem(line, f"{name} holds control characters") for name in odd]
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
    """Return a positive number, or None for an empty cell; ValueError for any other text."""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < MAX_NUMBER:
        raise ValueError(
            f"{short_repr(text)} is not a positive number (decimal point, no units or thousands separators)"
        )
    return value


def _parse_time(text: str) -> float | None:
    """Return an ISO 8601 time (UTC if it has no zone) or epoch seconds as epoch seconds; None for an empty cell."""
    for read in (float, datetime.fromisoformat) if text else ():
        try:
            value = read(text)
            if isinstance(value, datetime):
                value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            continue
        if EPOCH_S[0] <= value <= EPOCH_S[1]:
            return value
    if text:
        raise ValueError(f"{short_repr(text)} is no time such as 2024-03-05 14:02:11 or seconds since 1970")
    return None


@dataclass(frozen=True)
class OutputFiles:
    """The files of one raw output: `files` were written by the tool, `others` (cmd, rc, ...) were added by the user.

    `stdout` is the content itself if it is one of several reports in a file, with the number in it of each line
    (`number_of`) and what was `taken_off`, and None if the tool only wrote other files. `rc` is the exit code, None if
    not known, and `command` the command line, "" if not known.
    """

    condition: Condition
    stdout: Path | bytes | None
    stderr: Path | None = None
    rc: int | None = None
    command: str = ""
    files: Mapping[str, Path] = field(default_factory=dict)
    others: Mapping[str, Path] = field(default_factory=dict)
    number_of: Callable[[int], int] = report_files.same_number
    taken_off: tuple[str, ...] = ()

    def read_captured(self) -> ToolOutput:
        """Read the files for a parser; without the command line, which can be split only once the tool is known."""
        files = {captured.STDOUT: self.stdout, **self.files} if isinstance(self.stdout, Path) else self.files
        read = captured.read_output(files, self.stderr, self.rc)
        if isinstance(self.stdout, bytes):
            return replace(read, stdout=self.stdout, taken_off=self.taken_off)
        return read

    @cached_property
    def digests(self) -> frozenset[str]:
        """SHA-256 of every file that is not empty."""
        contents = [content for _, content in files_by_trial_name(self)]
        digests = {sha256_file(path) for path in contents if isinstance(path, Path) and path.stat().st_size}
        return frozenset(digests | {hashlib.sha256(text).hexdigest() for text in contents if isinstance(text, bytes)})


def find_outputs(folder: Path, conditions: list[Condition]) -> tuple[list[OutputFiles], list[ImportProblem]]:
    """Return the files of each condition, and the mistakes in file names; does not read the outputs."""
    outputs: list[OutputFiles] = []
    problems: list[ImportProblem] = []
    line_of: dict[tuple[Path, int], int] = {}
    numbers_of: dict[Path, set[bool]] = {}
    read_reports = cache(report_files.read_reports)  # a log is read once for all of its rows
    for condition in conditions:
        try:
            _, number = report_files.report_number(folder / condition.file)
            path = resolve_inside(folder, condition.file.removesuffix(f"#{number}") if number else condition.file)
            found = _output_files(folder, condition, path)
            if number:
                report = report_files.choose_report(read_reports(path), path, number)
                found = replace(found, stdout=report.data, number_of=report.number_of, taken_off=report.taken_off)
            outputs.append(found)
        except ValueError as error:
            problems.append(ImportProblem(condition.line, str(error)))
        except DataError as error:
            problems.append(ImportProblem(condition.line, error.message, data=True))
        else:
            if line_of.setdefault((path, number), condition.line) != condition.line:
                earlier = line_of[path, number]
                problems.append(ImportProblem(condition.line, f"{condition.file} is that of line {earlier}"))
            numbers_of.setdefault(path, set()).add(number > 0)
            if len(numbers_of[path]) > 1:
                text = f"{condition.file}: other lines name {path.name} whole, or one of its reports: name each report"
                problems.append(ImportProblem(condition.line, text))
    return outputs, problems


def resolve_inside(folder: Path, name: str) -> Path:
    """Return the path of `name` in `folder`; ValueError if it is missing, outside, unreadable or a symbolic link."""
    pure = PurePath(name)
    if pure.is_absolute() or ".." in pure.parts:
        raise ValueError(f"{short_repr(name)} leads out of the folder: name files by their path inside {folder}")
    path, mode = folder, 0
    for part in pure.parts:
        path = path / part
        try:
            mode = path.lstat().st_mode
        except OSError:
            hint = "; separate folders by /" if "\\" in name else did_you_mean_file(path)
            raise ValueError(f"no file {short_repr(name)} in {folder}{hint}") from None
        if stat.S_ISLNK(mode):
            problem = f"{part} is a symbolic link, which is not followed: put the file there"
            raise ValueError(f"{short_repr(name)}: {problem}")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ValueError(f"{short_repr(name)} is no file or folder below {folder}")
    if not os.access(path, os.R_OK):
        raise ValueError(f"{short_repr(name)} may not be read: permission denied")
    return path


def _output_files(folder: Path, condition: Condition, path: Path) -> OutputFiles:
    """Return the files of one row; its cells for stderr, exit code and command override files in an output folder."""
    files = {path.name if path.name.endswith(captured.STREAMED_SUFFIX) else "stdout": path}
    if path.is_dir():
        names = sorted(p.name for p in path.iterdir() if not p.is_dir() or p.is_symlink())
        if odd := next((name for name in names if not name.isprintable()), None):
            raise ValueError(f"{short_repr(path.name)} holds a file with the name {short_repr(odd)}: rename it")
        files = {name: resolve_inside(folder, str(path.relative_to(folder) / name)) for name in names}
    if "stdout" not in files and not any(name.endswith(captured.STREAMED_SUFFIX) for name in files):
        raise DataError(f"{condition.file} has no file named stdout; it holds {', '.join(files) or 'nothing'}")
    stderr = resolve_inside(folder, condition.stderr) if condition.stderr else files.get("stderr")
    if stderr is not None and stderr.is_dir():
        raise ValueError(f"stderr {short_repr(condition.stderr)} is a folder")
    code, command = condition.exit_code, condition.command
    if code and not code.isdecimal():
        code = _read_small_text(resolve_inside(folder, code))
    if not code and "rc" in files:
        code = _read_small_text(files["rc"])
    if code and not code.isdecimal():
        raise ValueError(f"exit code {short_repr(code)} is no whole number from 0")
    if command and " " not in command:
        command = _read_small_text(resolve_inside(folder, command))
    elif not command and "cmd" in files:
        command = _read_small_text(files["cmd"])
    own = {name: p for name, p in files.items() if name not in captured.RESERVED_NAMES}
    others = {name: p for name, p in files.items() if name in captured.RESERVED_NAMES - {"stdout", "stderr"}}
    return OutputFiles(condition, files.get("stdout"), stderr, int(code) if code else None, command, own, others)


def _read_small_text(path: Path) -> str:
    if path.is_dir() or path.stat().st_size > 100_000:
        raise ValueError(f"{path.name} is no small text file")
    return captured.read_bytes(path).decode(errors="replace").strip()


def files_by_trial_name(output: OutputFiles) -> Iterator[tuple[str, Path | bytes]]:
    """Yield (name in the trial's folder, path or content) for every file of an output.

    In a name, ``{host}`` stands for the driver's name.
    """
    if output.stdout:
        yield "stdout-{host}", output.stdout
    if output.stderr:
        yield "stderr-{host}", output.stderr
    for name, path in {**output.files, **output.others}.items():
        yield "{host}-" + name, path
