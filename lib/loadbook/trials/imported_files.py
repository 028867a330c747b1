"""From the names in a file of conditions to the files that they mean: only regular ones, only below the folder."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from loadbook.core.errors import DataError
from loadbook.design.problems import short_repr
from loadbook.tools.base import ToolOutput
from loadbook.trials.imported_csv import Condition, ImportProblem
from loadbook.trials.outputs import RESERVED_NAMES, STDOUT, STREAMED_SUFFIX, read_small_files, read_bytes


@dataclass(frozen=True)
class OutputFiles:
    """The files of one raw output: `files` are the tool's own, `others` (cmd, note, ...) are kept beside them."""

    condition: Condition
    stdout: Path | None
    stderr: Path | None = None
    rc: int | None = None
    command: str = ""
    files: Mapping[str, Path] = field(default_factory=dict)
    others: Mapping[str, Path] = field(default_factory=dict)

    def read_captured(self) -> ToolOutput:
        """Return the output as parsers get it, but for the command line, of which each tool knows its own part."""
        files, big = read_small_files({**({STDOUT: self.stdout} if self.stdout else {}), **self.files})
        return ToolOutput(
            stdout=files.pop(STDOUT, b""),
            stderr=read_bytes(self.stderr) if self.stderr else b"",
            exit_code=self.rc,
            files=files,
            paths=big,
        )


def find_outputs(folder: Path, conditions: list[Condition]) -> tuple[list[OutputFiles], list[ImportProblem]]:
    """Return the files of each condition, and what is wrong with their names; nothing but names and sizes is read."""
    outputs: list[OutputFiles] = []
    problems: list[ImportProblem] = []
    line_of: dict[Path, int] = {}
    for condition in conditions:
        try:
            path = resolve_inside(folder, condition.file)
            outputs.append(_output_files(folder, condition, path))
        except ValueError as error:
            problems.append(ImportProblem(condition.line, str(error)))
        except DataError as error:
            problems.append(ImportProblem(condition.line, error.message, data=True))
        else:
            if line_of.setdefault(path, condition.line) != condition.line:
                problems.append(ImportProblem(condition.line, f"{condition.file} is that of line {line_of[path]}"))
    return outputs, problems


def resolve_inside(folder: Path, name: str) -> Path:
    """Return the file or folder called `name` below `folder`; ValueError says why it may not be used."""
    pure = PurePath(name)
    if pure.is_absolute() or ".." in pure.parts:
        raise ValueError(f"{short_repr(name)} leads out of the folder: name files by their path inside {folder}")
    path, mode = folder, 0
    for part in pure.parts:
        path = path / part
        try:
            mode = path.lstat().st_mode
        except OSError:
            raise ValueError(_missing_file_text(folder, name, path)) from None
        if stat.S_ISLNK(mode):
            raise ValueError(f"{short_repr(name)}: {part} is a symbolic link, which is not followed: put the file there")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ValueError(f"{short_repr(name)} is no file or folder below {folder}")
    if not os.access(path, os.R_OK):
        raise ValueError(f"{short_repr(name)} may not be read: permission denied")
    return path


def _missing_file_text(folder: Path, name: str, missing: Path) -> str:
    readable = missing.parent.is_dir() and os.access(missing.parent, os.R_OK)
    names = [entry.name for entry in missing.parent.iterdir()] if readable else []
    near = difflib.get_close_matches(missing.name, names, n=1)
    hint = "; separate folders by /" if "\\" in name else f"; did you mean {short_repr(near[0])}?" if near else ""
    return f"no file {short_repr(name)} in {folder}{hint}"


def _output_files(folder: Path, condition: Condition, path: Path) -> OutputFiles:
    alone = {path.name if path.name.endswith(STREAMED_SUFFIX) else "stdout": path}
    files = _folder_files(folder, path) if path.is_dir() else alone
    if "stdout" not in files and not any(name.endswith(STREAMED_SUFFIX) for name in files):
        raise DataError(f"{condition.file} has no file named stdout; it holds {', '.join(files) or 'nothing'}")
    stderr = resolve_inside(folder, condition.stderr) if condition.stderr else files.get("stderr")
    if stderr is not None and stderr.is_dir():
        raise ValueError(f"stderr {short_repr(condition.stderr)} is a folder")
    return OutputFiles(
        condition,
        files.get("stdout"),
        stderr,
        _exit_code(folder, condition, files),
        _command(folder, condition, files),
        {name: p for name, p in files.items() if name not in RESERVED_NAMES},
        {name: p for name, p in files.items() if name in RESERVED_NAMES - {"stdout", "stderr"}},
    )


def _folder_files(folder: Path, path: Path) -> dict[str, Path]:
    """Return the files of a row's folder by name; folders in it are not part of an output."""
    names = sorted(p.name for p in path.iterdir() if not p.is_dir() or p.is_symlink())
    odd = next((name for name in names if not name.isprintable()), None)
    if odd is not None:
        raise ValueError(f"{short_repr(path.name)} holds a file with the name {short_repr(odd)}: rename it")
    relative = path.relative_to(folder)
    return {name: resolve_inside(folder, str(relative / name)) for name in names}


def _exit_code(folder: Path, condition: Condition, files: Mapping[str, Path]) -> int | None:
    """Return the exit code that the cell or the file named in it gives, else the folder's own, None if none does."""
    cell = condition.exit_code
    text = cell if not cell or cell.isdecimal() else _read_small_text(resolve_inside(folder, cell))
    if not text and "rc" in files:
        text = _read_small_text(files["rc"])
    if text and not text.isdecimal():
        raise ValueError(f"exit code {short_repr(text)} is no whole number from 0")
    return int(text) if text else None


def _command(folder: Path, condition: Condition, files: Mapping[str, Path]) -> str:
    """Return the command line that the cell holds or names a file with, else the folder's own."""
    cell = condition.command
    if cell and " " not in cell:
        return _read_small_text(resolve_inside(folder, cell))
    return cell or (_read_small_text(files["cmd"]) if "cmd" in files else "")


def _read_small_text(path: Path) -> str:
    if path.is_dir() or path.stat().st_size > 100_000:
        raise ValueError(f"{path.name} is no small text file")
    return read_bytes(path).decode(errors="replace").strip()


def files_by_kept_name(output: OutputFiles) -> Iterator[tuple[str, Path]]:
    """Yield every file of an output with the name under which its trial keeps it, `{host}` being the driver's name."""
    if output.stdout:
        yield "stdout-{host}", output.stdout
    if output.stderr:
        yield "stderr-{host}", output.stderr
    for name, path in {**output.files, **output.others}.items():
        yield "{host}-" + name, path
