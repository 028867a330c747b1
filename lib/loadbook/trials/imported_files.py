"""From the names in a file of conditions to the files that they mean: only regular ones, only below the folder."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from loadbook.core.errors import DataError
from loadbook.design.problems import shown
from loadbook.tools.base import Captured
from loadbook.trials.imported_csv import Condition, Wrong
from loadbook.trials.outputs import OURS, STDOUT, STREAMED, held, read_bytes


@dataclass(frozen=True)
class Source:
    """The files of one raw output: `files` are the tool's own, `others` (cmd, note, ...) are kept beside them."""

    condition: Condition
    stdout: Path | None
    stderr: Path | None = None
    rc: int | None = None
    command: str = ""
    files: Mapping[str, Path] = field(default_factory=dict)
    others: Mapping[str, Path] = field(default_factory=dict)

    def captured(self) -> Captured:
        """Return the output as parsers get it, but for the command line, of which each tool knows its own part."""
        files, big = held({**({STDOUT: self.stdout} if self.stdout else {}), **self.files})
        return Captured(
            stdout=files.pop(STDOUT, b""),
            stderr=read_bytes(self.stderr) if self.stderr else b"",
            rc=self.rc,
            files=files,
            paths=big,
        )


def find_sources(folder: Path, conditions: list[Condition]) -> tuple[list[Source], list[Wrong]]:
    """Return the files of each condition, and what is wrong with their names; nothing but names and sizes is read."""
    sources: list[Source] = []
    wrong: list[Wrong] = []
    seen: dict[Path, int] = {}
    for condition in conditions:
        try:
            path = inside(folder, condition.file)
            sources.append(_source(folder, condition, path))
        except ValueError as error:
            wrong.append(Wrong(condition.line, str(error)))
        except DataError as error:
            wrong.append(Wrong(condition.line, error.message, data=True))
        else:
            if seen.setdefault(path, condition.line) != condition.line:
                wrong.append(Wrong(condition.line, f"{condition.file} is that of line {seen[path]}"))
    return sources, wrong


def inside(folder: Path, name: str) -> Path:
    """Return the file or folder called `name` below `folder`; ValueError says why it may not be used."""
    pure = PurePath(name)
    if pure.is_absolute() or ".." in pure.parts:
        raise ValueError(f"{shown(name)} leads out of the folder: name files by their path inside {folder}")
    path, mode = folder, 0
    for part in pure.parts:
        path = path / part
        try:
            mode = path.lstat().st_mode
        except OSError:
            raise ValueError(_not_there(folder, name, path)) from None
        if stat.S_ISLNK(mode):
            raise ValueError(f"{shown(name)}: {part} is a symbolic link, which is not followed: put the file there")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ValueError(f"{shown(name)} is no file or folder below {folder}")
    if not os.access(path, os.R_OK):
        raise ValueError(f"{shown(name)} may not be read: permission denied")
    return path


def _not_there(folder: Path, name: str, missing: Path) -> str:
    may = missing.parent.is_dir() and os.access(missing.parent, os.R_OK)
    there = [entry.name for entry in missing.parent.iterdir()] if may else []
    near = difflib.get_close_matches(missing.name, there, n=1)
    hint = "; separate folders by /" if "\\" in name else f"; did you mean {shown(near[0])}?" if near else ""
    return f"no file {shown(name)} in {folder}{hint}"


def _source(folder: Path, condition: Condition, path: Path) -> Source:
    alone = {path.name if path.name.endswith(STREAMED) else "stdout": path}
    own = _of_folder(folder, path) if path.is_dir() else alone
    if "stdout" not in own and not any(name.endswith(STREAMED) for name in own):
        raise DataError(f"{condition.file} has no file named stdout; it holds {', '.join(own) or 'nothing'}")
    stderr = inside(folder, condition.stderr) if condition.stderr else own.get("stderr")
    if stderr is not None and stderr.is_dir():
        raise ValueError(f"stderr {shown(condition.stderr)} is a folder")
    return Source(
        condition,
        own.get("stdout"),
        stderr,
        _exit_code(folder, condition, own),
        _command(folder, condition, own),
        {name: p for name, p in own.items() if name not in OURS},
        {name: p for name, p in own.items() if name in OURS - {"stdout", "stderr"}},
    )


def _of_folder(folder: Path, path: Path) -> dict[str, Path]:
    """Return the files of a row's folder by name; folders in it are not part of an output."""
    names = sorted(p.name for p in path.iterdir() if not p.is_dir() or p.is_symlink())
    odd = next((name for name in names if not name.isprintable()), None)
    if odd is not None:
        raise ValueError(f"{shown(path.name)} holds a file with the name {shown(odd)}: rename it")
    relative = path.relative_to(folder)
    return {name: inside(folder, str(relative / name)) for name in names}


def _exit_code(folder: Path, condition: Condition, own: Mapping[str, Path]) -> int | None:
    """Return the exit code that the cell or the file named in it gives, else the folder's own, None if none does."""
    given = condition.exit_code
    text = given if not given or given.isdecimal() else _small_text(inside(folder, given))
    if not text and "rc" in own:
        text = _small_text(own["rc"])
    if text and not text.isdecimal():
        raise ValueError(f"exit code {shown(text)} is no whole number from 0")
    return int(text) if text else None


def _command(folder: Path, condition: Condition, own: Mapping[str, Path]) -> str:
    """Return the command line that the cell holds or names a file with, else the folder's own."""
    given = condition.command
    if given and " " not in given:
        return _small_text(inside(folder, given))
    return given or (_small_text(own["cmd"]) if "cmd" in own else "")


def _small_text(path: Path) -> str:
    if path.is_dir() or path.stat().st_size > 100_000:
        raise ValueError(f"{path.name} is no small text file")
    return read_bytes(path).decode(errors="replace").strip()


def all_files(source: Source) -> Iterator[tuple[str, Path]]:
    """Yield every file of an output with the name under which its trial keeps it, `{host}` being the driver's name."""
    if source.stdout:
        yield "stdout-{host}", source.stdout
    if source.stderr:
        yield "stderr-{host}", source.stderr
    for name, path in {**source.files, **source.others}.items():
        yield "{host}-" + name, path
