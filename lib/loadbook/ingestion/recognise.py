"""Reports in files of unknown tools: which tool wrote each, and what it says.

The tool of an output is the one whose parser accepts it. A file may hold several reports, and a folder several files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from loadbook.core.errors import DataError, ParseError, UsageError
from loadbook.core.text import did_you_mean_file
from loadbook.ingestion import captured, report_files
from loadbook.ingestion.report_files import same_number
from loadbook.ingestion.row_prefixes import first_prefix
from loadbook.ingestion.wrapping import unwrap_rows
from loadbook.tools import base
from loadbook.tools.base import MAX_REPORT_BYTES, Measurement, ParsedReport, ToolOutput
from loadbook.tools.served_load import with_unserved_doubt

MAX_FILES = 2_000  # in one folder
HEAD_BYTES = 1 << 16  # of a large file
SAY_TOOL = "--tool (loadbook parse TOOL FILE)"


@dataclass(frozen=True)
class FoundReport:
    """One report in a file or folder; `name` is that of the file, with ``#2`` for the second of several.

    `parsed` is None if it cannot be read, and `error` is then the reason. `tool` is "" if it is not known. `taken_off`
    names what lay around the report (`wrapping`).
    """

    name: str
    tool: str
    parsed: ParsedReport | None
    error: str = ""
    taken_off: tuple[str, ...] = ()

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Rows of the report; empty if it cannot be read."""
        return self.parsed.measurements if self.parsed else ()


def try_tools(output: ToolOutput, command: str, names: Sequence[str]) -> dict[str, ParsedReport | ParseError]:
    """Return tool -> its report of an output, or its parser's error; `command` is the command line, "" if not known."""
    results: dict[str, ParsedReport | ParseError] = {}
    for name in names:
        tool = base.load_tool(name)
        argv = captured.find_argv(command, tool.binary) if command else output.argv
        try:
            results[name] = with_unserved_doubt(name, base.parse_output(tool, replace(output, argv=argv)))
        except ParseError as error:
            results[name] = error
    return results


def unreadable_reason(
    output: ToolOutput, place: str, errors: Sequence[ParseError], number_of: Callable[[int], int] = same_number
) -> str:
    """Return why no tool can read an output: the reasons of the tools that know it, else that none does.

    `place` is the file of the output, or the folder of its files; `number_of` returns the number of a line in its file.
    """
    if len(errors) > 1 and not (output.stdout.strip() or output.files or output.paths):
        return f"{place} is empty: the tool was killed, could not start, or wrote elsewhere"
    own = [error for error in errors if not error.is_of_another_program] if len(errors) > 1 else errors
    if not own:
        known = ", ".join(base.tool_names())
        return f"{place} is no report of any tool ({known}): if it should be one, say which by {SAY_TOOL}"
    if not output.stdout.strip():  # the report is in another file
        own = [error for error in own if not error.reason.startswith("empty")] or own
    by_reason: dict[str, list[str]] = {}
    for error in own:
        file = str(Path(place) / error.file) if Path(place).is_dir() else place
        line = f":{number_of(error.line)}" if error.line else ""
        by_reason.setdefault(f"{file}{line}: {error.reason}", []).append(error.tool)
    return "; or ".join(f"{reason} ({', '.join(tools)})" for reason, tools in by_reason.items())


def find_reports(path: Path, tool: str = "") -> list[FoundReport]:
    """Return the reports in a file (``FILE#2``: its second one), in a folder with a file `stdout`, or in any folder.

    Parameters
    ----------
    tool : the tool that wrote them; "" to find it out.

    Raises
    ------
    UsageError : there is no such file.
    DataError : it cannot be read, or not be split.
    """
    file, number = report_files.report_number(path)
    _require_readable(file)
    if _holds_outputs(path):
        return [report for each in _files_in(path) for report in _reports_or_reason(each, path, tool)]
    reports = list(_reports_of(file, file.name, tool))
    return [report_files.choose_report(reports, file, number)] if number else reports


def _require_readable(path: Path) -> None:
    """Raise UsageError unless there is a file or folder that can be looked at."""
    try:
        path.stat()
        if not path.is_file() and not path.is_dir():
            raise UsageError(f"{str(path)!r} is no regular file", "name a file that the tool wrote")
    except OSError as error:
        problem = f"no file or folder {str(path)!r}{did_you_mean_file(path)}"
        if isinstance(error, PermissionError):
            problem = f"{str(path)!r} cannot be read: {error.strerror}"
        raise UsageError(problem, "name a file that the tool wrote, or a folder with its files") from None


def _holds_outputs(path: Path) -> bool:
    """Return whether a path is a folder of outputs, not the folder of one output, which has a file `stdout`."""
    return path.is_dir() and not (path / captured.STDOUT).is_file()


def _files_in(folder: Path) -> list[Path]:
    """Return the files below a folder, and folders with a file `stdout`, in the order of the numbers in their names."""
    found: list[Path] = []
    for path in sorted(folder.iterdir(), key=natural_order):
        if path.name.startswith("."):
            continue
        if _holds_outputs(path):
            found += _files_in(path)
        else:
            found.append(path)
        if len(found) > MAX_FILES:
            raise DataError(f"{folder}: more than {MAX_FILES:,} files", "name a folder that holds outputs only")
    return found


def natural_order(path: Path) -> tuple[tuple[int, str], ...]:
    """Return a sorting key by which run-2 comes before run-10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name))


def _reports_or_reason(path: Path, folder: Path, tool: str) -> list[FoundReport]:
    """Return the reports in one of the files of a folder, or the reason why it cannot be read or split."""
    name = str(path.relative_to(folder))
    if not path.is_file() and not path.is_dir():
        return [FoundReport(name, tool, None, f"{path} is no regular file")]
    try:
        return list(_reports_of(path, name, tool))
    except DataError as error:
        return [FoundReport(name, tool, None, error.message)]


def _reports_of(path: Path, name: str, tool: str) -> Iterator[FoundReport]:
    """Yield the reports in one file, or that of a folder with a file `stdout`."""
    if path.is_dir():
        yield recognise(*captured.read_folder(path), name, str(path), tool)
        return
    is_large = captured.is_larger(path, MAX_REPORT_BYTES)
    if is_large and (wrapped := _wrapping_of_rows(path)):
        limit = f"files with it are read up to {MAX_REPORT_BYTES:,} bytes"
        reason = f"{path}: its rows have {wrapped}, and {limit}: take it off each line first, such as by `sed` or `cut`"
        yield FoundReport(name, tool, None, reason)
        return
    if is_large or captured.is_log(path):
        found = recognise(captured.read_file(path), "", name, str(path), tool)
        yield replace(found, error=_too_large(path)) if is_large and not found.parsed and _is_text(path) else found
        return
    texts = report_files.read_reports(path)
    for number, text in enumerate(texts, 1):
        which = f"#{number}" if len(texts) > 1 else ""
        output = ToolOutput(text.data, taken_off=text.taken_off)
        yield recognise(output, "", name + which, f"{path}{which}", tool, text.number_of)


def _is_text(path: Path) -> bool:
    """Return whether a file neither begins with rows of a log or a CSV nor is binary."""
    head = captured.read_bytes(path, HEAD_BYTES)
    is_header = b"elapsed" in head.partition(b"\n")[0]
    return b"\0" not in head and not is_header and first_prefix(head.decode(errors="replace")) is None


def _too_large(path: Path) -> str:
    """Return why a large text is not read, and what to do."""
    limit = f"{path}: {path.stat().st_size:,} bytes, of which at most {MAX_REPORT_BYTES:,} are read as a text"
    cut = f"`grep -n 'FIRST LINE' {path.name}` and `tail -n +NUMBER {path.name} | head -100 > report.txt`"
    return f"{limit}: cut the report out, such as by {cut}"


def _wrapping_of_rows(path: Path) -> str:
    """Return what lies around the rows of a large file, by its first lines; "" if nothing does."""
    head = captured.read_bytes(path, HEAD_BYTES)
    return " and ".join(unwrap_rows(head[: head.rfind(b"\n") + 1]).taken_off)


def recognise(
    output: ToolOutput,
    command: str,
    name: str,
    place: str,
    tool: str = "",
    number_of: Callable[[int], int] = same_number,
) -> FoundReport:
    """Return the report in an output as the tool that wrote it, or the one named, reads it.

    `command` is the command line, "" if it is not known; `place` and `number_of` are as in `unreadable_reason`.
    """
    results = try_tools(output, command, [tool] if tool else base.tool_names())
    taken = {name: result for name, result in results.items() if isinstance(result, ParsedReport)}
    errors = [result for result in results.values() if isinstance(result, ParseError)]
    if len(taken) == 1:
        ((writer, parsed),) = taken.items()
        if not Path(place).is_dir():
            doubts = ((doubt, _with_file(text, PurePath(name).name, number_of)) for doubt, text in parsed.doubts)
            parsed = replace(parsed, doubts=tuple(doubts))
        return FoundReport(name, writer, parsed, taken_off=output.taken_off)
    if taken:
        either = f"{place} may be a report of {' or of '.join(taken)}, or hold one of each"
        return FoundReport(name, "", None, f"{either}: split it, a file for each report, or say which by {SAY_TOOL}")
    own = [error.tool for error in errors if not error.is_of_another_program]
    likely = tool or (own[0] if len(own) == 1 else "")
    return FoundReport(name, likely, None, unreadable_reason(output, place, errors, number_of))


def _with_file(text: str, name: str, number_of: Callable[[int], int]) -> str:
    """Return the text of a doubt with the name of its file instead of "stdout", and the number of its line there."""
    if not (match := re.match(r"stdout(?::(\d+))?(?=[: ])", text)):
        return text
    line = f":{number_of(int(match[1]))}" if match[1] else ""
    return f"{name}{line}{text[match.end() :]}"
