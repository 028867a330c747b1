"""What one execution of a tool left behind, in a file or in a folder, as parsers get it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path, PurePosixPath

from loadbook.core.errors import DataError, ParseError
from loadbook.tools.base import Captured, Parsed, Tool

# files of a folder that are not the tool's own
OURS = frozenset({"stdout", "stderr", "cmd", "rc", "note", "wall"})


def captured(path: Path, binary: str) -> Captured:
    """Return what a file or folder holds of one execution of `binary`; DataError if there is no output to read.

    A folder holds `stdout`, and where they are known `stderr`, `cmd` (the command line), `rc` (the exit code) and the
    tool's own files under their own names; a file alone is what the tool printed.
    """
    if not path.is_dir():
        return Captured(read_bytes(path))
    files = {p.name: p for p in sorted(path.iterdir()) if p.is_file()}
    if "stdout" not in files:
        here = ", ".join(files) or "nothing"
        raise DataError(f"{path}: no file named stdout", f"the folder holds {here}; name the file to read instead")
    said = {name: read_bytes(files[name]).decode(errors="replace").strip() for name in ("cmd", "rc") if name in files}
    return Captured(
        stdout=read_bytes(files["stdout"]),
        stderr=read_bytes(files["stderr"]) if "stderr" in files else b"",
        rc=int(said["rc"]) if said.get("rc", "").isdecimal() else None,
        argv=argv_of(said.get("cmd", ""), binary),
        files={name: read_bytes(p) for name, p in files.items() if name not in OURS},
    )


def argv_of(command: str, binary: str) -> tuple[str, ...]:
    """Return the argument list of `binary` in a shell command line, also inside ``ssh host '...'``; () if none."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ()
    for i, word in enumerate(words):
        if re.fullmatch(re.escape(binary) + r"(?:-?0[\d.]*)?", PurePosixPath(word).name):  # weighttp05, weighttp-0.4
            return tuple(words[i:])
    inner = (argv_of(word, binary) for word in words if " " in word and word != command)
    return next((argv for argv in inner if argv), ())


def parsed(tool: Tool, path: Path, read: Captured) -> Parsed:
    """Parse what was read from `path`, naming the real file in errors."""
    try:
        return tool.parse(read)
    except ParseError as error:
        file = path / error.file if path.is_dir() else path
        raise ParseError(tool.name, str(file), error.line, error.reason) from None


def read_bytes(path: Path) -> bytes:
    """Return a file's content; DataError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
