"""Outputs of load generators as files: which files belong to one execution, and what its command line was."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from loadbook.core.compressed import BROKEN, open_plain, plain_name
from loadbook.core.errors import DataError, ParseError
from loadbook.ingestion import report_files
from loadbook.ingestion.wrapping import unwrap
from loadbook.tools import base
from loadbook.tools.base import MAX_REPORT_BYTES, ParsedReport, Tool, ToolOutput

# endings of single files that are not standard output; size in bytes above which files are read as streams
STREAMED_SUFFIX, MAX_READ_BYTES = ".jtl", 64 << 20
STDOUT = "stdout"
# files of a folder that the tool did not write
RESERVED_NAMES = frozenset({"stdout", "stderr", "cmd", "rc", "note", "wall"})


def read_captured(path: Path, binary: str) -> ToolOutput:
    """Return the output of one execution of `binary` from a file or folder; DataError if there is none.

    A folder contains `stdout`, optionally `stderr`, `cmd` (command line) and `rc` (exit code), and the tool's own
    files; a single file is the tool's standard output, and ``FILE#3`` the third report in it.
    """
    file, number = report_files.report_number(path)
    if number:
        return ToolOutput(report_files.choose_report(report_files.read_reports(file), file, number).data)
    if not path.is_dir():
        return read_file(path)
    output, command = read_folder(path)
    return replace(output, argv=find_argv(command, binary))


def read_folder(path: Path) -> tuple[ToolOutput, str]:
    """Return the output of one execution from a folder, and its command line ("" if not known), as `read_captured`."""
    files = {p.name: p for p in sorted(path.iterdir()) if p.is_file()}
    if STDOUT not in files:
        here = ", ".join(files) or "nothing"
        raise DataError(f"{path}: no file named stdout", f"the folder holds {here}; name the file to read instead")
    texts = {name: read_bytes(files[name]).decode(errors="replace").strip() for name in ("cmd", "rc") if name in files}
    own = {name: p for name, p in files.items() if name == STDOUT or name not in RESERVED_NAMES}
    exit_code = int(texts["rc"]) if texts.get("rc", "").isdecimal() else None
    return read_output(own, files.get("stderr"), exit_code), texts.get("cmd", "")


def read_file(path: Path) -> ToolOutput:
    """Return the output of one execution from a single file: its standard output, or a log of requests (``.jtl``)."""
    name = plain_name(path.name)
    return read_output({name if name.endswith(STREAMED_SUFFIX) else STDOUT: path})


def read_output(
    files: Mapping[str, Path], stderr: Path | None = None, exit_code: int | None = None, argv: Sequence[str] = ()
) -> ToolOutput:
    """Return the output of one execution from its files (name -> path); that named STDOUT is its standard output.

    Small files are read now, large ones later as streams. What lies around a report is taken off (`wrapping`), and
    the ending of a compressed file. DataError: a file cannot be read.
    """
    contents, big = {}, {}
    for file, path in files.items():
        name, limit = plain_name(file), MAX_REPORT_BYTES if file == STDOUT else MAX_READ_BYTES
        content = read_bytes(path, limit + 1)
        if len(content) > limit:
            big[name] = path
        else:
            contents[name] = content
    taken_off: tuple[str, ...] = ()
    if STDOUT in contents and len(texts := unwrap(contents[STDOUT])) == 1:
        contents[STDOUT], taken_off = texts[0].data, texts[0].taken_off
    stdout, errors = contents.pop(STDOUT, b""), read_bytes(stderr) if stderr else b""
    return ToolOutput(stdout, errors, exit_code, tuple(argv), contents, big, taken_off)


def find_argv(command: str, binary: str) -> tuple[str, ...]:
    """Return the argument list of `binary` in a shell command line, also inside ``ssh host '...'``; () if not found."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ()
    for i, word in enumerate(words):
        if re.fullmatch(re.escape(binary) + r"(?:-?0[\d.]*)?", PurePosixPath(word).name):  # weighttp05, weighttp-0.4
            return tuple(words[i:])
    inner = (find_argv(word, binary) for word in words if " " in word and word != command)
    return next((argv for argv in inner if argv), ())


def parse_output(tool: Tool, path: Path, captured: ToolOutput) -> ParsedReport:
    """Parse the output read from `path` (file or folder); ParseError names that file, or the file in that folder."""
    try:
        return base.parse_output(tool, captured)
    except ParseError as error:
        file = path / error.file if path.is_dir() else path
        raise ParseError(tool.name, str(file), error.line, error.reason) from None


def read_bytes(path: Path, limit: int = MAX_READ_BYTES) -> bytes:
    """Return the first `limit` bytes of what a file holds, uncompressed; DataError if it cannot be read."""
    try:
        with open_plain(path) as file:
            return file.read(limit)
    except BROKEN as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else f"cut or broken: {error}"
        raise DataError(f"{path}: cannot be read: {reason}") from None
