"""Outputs of load generators as files: which files belong to one execution, and what its command line was."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from loadbook.core.compressed import BROKEN, compression, open_plain, plain_name
from loadbook.core.errors import DataError
from loadbook.ingestion.wrapping import unwrap, unwrap_rows
from loadbook.tools.base import MAX_REPORT_BYTES, ToolOutput

# endings of single files that are not standard output; size in bytes above which files are read as streams
STREAMED_SUFFIX, MAX_READ_BYTES = ".jtl", 64 << 20
STDOUT = "stdout"
# files of a folder that the tool did not write
RESERVED_NAMES = frozenset({"stdout", "stderr", "cmd", "rc", "note", "wall"})


def read_folder(path: Path) -> tuple[ToolOutput, str]:
    """Return the output of one execution from a folder, and its command line, "" if that is not known.

    The folder contains `stdout`, optionally `stderr`, `cmd` (command line) and `rc` (exit code), and the tool's own
    files. DataError without a `stdout`.
    """
    files = {p.name: p for p in sorted(path.iterdir()) if p.is_file()}
    if STDOUT not in files:
        here = ", ".join(files) or "nothing"
        raise DataError(f"{path}: no file named stdout", f"the folder holds {here}; name the file to read instead")
    texts = {name: read_bytes(files[name]).decode(errors="replace").strip() for name in ("cmd", "rc") if name in files}
    own = {name: p for name, p in files.items() if name == STDOUT or name not in RESERVED_NAMES}
    exit_code = int(texts["rc"]) if texts.get("rc", "").isdecimal() else None
    return read_output(own, files.get("stderr"), exit_code), texts.get("cmd", "")


def is_log(path: Path) -> bool:
    """Return whether a file is a log of requests by its name (``.jtl``), not a standard output."""
    return plain_name(path.name).endswith(STREAMED_SUFFIX)


def read_file(path: Path) -> ToolOutput:
    """Return the output of one execution from a single file: its standard output, or a log of requests."""
    return read_output({plain_name(path.name) if is_log(path) else STDOUT: path})


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
        if is_larger(path, limit):
            big[name] = path
        else:
            contents[name] = read_bytes(path)
    taken_off: tuple[str, ...] = ()
    for name, data in contents.items():
        if name.endswith(STREAMED_SUFFIX) and len(data) <= MAX_REPORT_BYTES and (rows := unwrap_rows(data)).taken_off:
            contents[name], taken_off = rows.data, rows.taken_off
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


def is_larger(path: Path, limit: int) -> bool:
    """Return whether a file holds more than `limit` bytes, uncompressed; DataError if it cannot be read."""
    try:
        with path.open("rb") as file:
            if compression(file.read(4)) is None:
                return path.stat().st_size > limit
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    return len(read_bytes(path, limit + 1)) > limit


def read_bytes(path: Path, limit: int = MAX_READ_BYTES) -> bytes:
    """Return the first `limit` bytes of what a file holds, uncompressed; DataError if it cannot be read."""
    try:
        with open_plain(path) as file:
            return file.read(limit)
    except BROKEN as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else f"cut or broken: {error}"
        raise DataError(f"{path}: cannot be read: {reason}") from None
