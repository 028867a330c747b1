"""What one execution of a tool left behind, in a file or in a folder, as parsers get it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from loadbook.core.errors import DataError, ParseError
from loadbook.tools import registry
from loadbook.tools.base import MAX_REPORT_BYTES, ToolOutput, ParsedReport, Tool

# a file alone of this ending is not what the tool printed; and what is bigger than this is read as a stream
STREAMED_SUFFIX, MAX_READ_BYTES = ".jtl", 64 << 20
STDOUT = "stdout"
# files of a folder that are not the tool's own
RESERVED_NAMES = frozenset({"stdout", "stderr", "cmd", "rc", "note", "wall"})


def read_captured(path: Path, binary: str) -> ToolOutput:
    """Return what a file or folder holds of one execution of `binary`; DataError if there is no output to read.

    A folder holds `stdout`, and where they are known `stderr`, `cmd` (the command line), `rc` (the exit code) and the
    tool's own files under their own names; a file alone is what the tool printed.
    """
    if not path.is_dir():
        contents, big = read_small_files({path.name if path.name.endswith(STREAMED_SUFFIX) else STDOUT: path})
        return ToolOutput(contents.pop(STDOUT, b""), files=contents, paths=big)
    files = {p.name: p for p in sorted(path.iterdir()) if p.is_file()}
    if STDOUT not in files:
        here = ", ".join(files) or "nothing"
        raise DataError(f"{path}: no file named stdout", f"the folder holds {here}; name the file to read instead")
    texts = {name: read_bytes(files[name]).decode(errors="replace").strip() for name in ("cmd", "rc") if name in files}
    contents, big = read_small_files({name: p for name, p in files.items() if name == STDOUT or name not in RESERVED_NAMES})
    return ToolOutput(
        stdout=contents.pop(STDOUT, b""),
        stderr=read_bytes(files["stderr"]) if "stderr" in files else b"",
        exit_code=int(texts["rc"]) if texts.get("rc", "").isdecimal() else None,
        argv=find_argv(texts.get("cmd", ""), binary),
        files=contents,
        paths=big,
    )


def read_small_files(files: Mapping[str, Path]) -> tuple[dict[str, bytes], dict[str, Path]]:
    """Return the content of files, and where those lie that are too big to be held; STDOUT is what the tool printed."""
    limits = {name: MAX_REPORT_BYTES if name == STDOUT else MAX_READ_BYTES for name in files}
    big = {name: path for name, path in files.items() if _file_size(path) > limits[name]}
    return {name: read_bytes(path) for name, path in files.items() if name not in big}, big


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def find_argv(command: str, binary: str) -> tuple[str, ...]:
    """Return the argument list of `binary` in a shell command line, also inside ``ssh host '...'``; () if none."""
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
    """Parse what was read from `path`, naming the real file in errors."""
    try:
        return registry.parse_output(tool, captured)
    except ParseError as error:
        file = path / error.file if path.is_dir() else path
        raise ParseError(tool.name, str(file), error.line, error.reason) from None


def read_bytes(path: Path) -> bytes:
    """Return a file's first HELD_BYTES; DataError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_READ_BYTES)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
