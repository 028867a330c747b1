"""Files that appear whole or not at all, and say what they needed where the disk is full."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loadbook.core.units import size

# no room on the disk, in our quota, or within what this process may write (ulimit -f)
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
FULL_HINT = "free some space there, then give the same command again: nothing half-written was kept"


class NoRoomError(OSError):
    """A file of ours for which there is no room; `filename` is its path, `strerror` says what it needed."""


@contextmanager
def room(path: Path, need: int | None = None) -> Iterator[None]:
    """Say of a full disk which file it was, how many bytes it needed at least, and how many are free."""
    try:
        yield
    except NoRoomError:
        raise
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise no_room(path, need, os.strerror(error.errno or errno.ENOSPC)) from error


def no_room(path: Path, need: int | None, why: str) -> NoRoomError:
    """Return the error of a file that needs so many bytes (None: not known) where there are too few."""
    wanted = f"{size(need)} needed, " if need else ""
    return NoRoomError(errno.ENOSPC, f"no room: {wanted}{size(free_bytes(path))} free ({why})", str(path))


def said_of(error: OSError, where: str | Path = ".") -> str:
    """Return what to say of a full disk: which file, what it needed where that is known, and what is free."""
    if not isinstance(error, NoRoomError):
        error = no_room(Path(error.filename or where), None, error.strerror or str(error))
    return f"{error.filename}: {error.strerror}"


def free_bytes(path: Path) -> int:
    """Return what is free for us on the disk of a path that need not exist yet."""
    there = next((folder for folder in (path, *path.absolute().parents) if folder.exists()), Path("/"))
    return shutil.disk_usage(there).free


@contextmanager
def appearing(path: Path, need: int | None = None) -> Iterator[Path]:
    """Yield another name beside `path`; what the block writes there is `path` once the block is over.

    It is on the disk by then: the file, and its name in the folder. Fails the block, what was there stays as it was.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with room(path, need):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield part
            to_disk(part)
            part.replace(path)
            to_disk(path.parent)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: another name, fsync, rename, fsync of the folder."""
    with appearing(path, len(data)) as part:
        part.write_bytes(data)


def move(staged: Path, final: Path) -> None:
    """Have a whole folder appear under its final name, when every file in it is on the disk."""
    with room(final):
        for path in [*staged.rglob("*"), staged]:
            to_disk(path)
        final.parent.mkdir(parents=True, exist_ok=True)
        staged.rename(final)
        for folder in {staged.parent, final.parent}:
            to_disk(folder)


def to_disk(path: Path) -> None:
    """Have the kernel write a file, or the names in a folder, to the disk (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
