"""Files and folders written whole or not at all; errors of a full disk with the space that was needed."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loadbook.core.units import format_bytes

# no space on the disk, in our quota, or within the limit of this process (ulimit -f)
DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
DISK_FULL_HINT = "free some space there, then give the same command again: nothing half-written was kept"


class DiskFullError(OSError):
    """No space for a file of loadbook; `filename` is its path, `strerror` has the bytes needed."""


@contextmanager
def explain_disk_full(path: Path, needed_bytes: int | None = None) -> Iterator[None]:
    """Turn the error of a full disk into `DiskFullError`: the file, bytes needed at least, bytes free."""
    try:
        yield
    except DiskFullError:
        raise
    except OSError as error:
        if error.errno not in DISK_FULL_ERRNOS:
            raise
        raise disk_full_error(path, needed_bytes, os.strerror(error.errno or errno.ENOSPC)) from error


def disk_full_error(path: Path, needed_bytes: int | None, cause: str) -> DiskFullError:
    """Return the error for a file of `needed_bytes` (None: not known)."""
    needed = f"{format_bytes(needed_bytes)} needed, " if needed_bytes else ""
    return DiskFullError(errno.ENOSPC, f"no room: {needed}{format_bytes(free_bytes(path))} free ({cause})", str(path))


def disk_full_message(error: OSError, where: str | Path = ".") -> str:
    """Return the message for a full disk: the file, bytes needed where they are known, bytes free."""
    if not isinstance(error, DiskFullError):
        error = disk_full_error(Path(error.filename or where), None, error.strerror or str(error))
    return f"{error.filename}: {error.strerror}"


def free_bytes(path: Path) -> int:
    """Return the bytes that we may use on the disk of a path, which need not exist yet."""
    existing = next((folder for folder in (path, *path.absolute().parents) if folder.exists()), Path("/"))
    return shutil.disk_usage(existing).free


@contextmanager
def atomic_path(path: Path, needed_bytes: int | None = None) -> Iterator[Path]:
    """Yield a temporary path beside `path`; the file that the block writes there becomes `path` at its end.

    File and folder entry are synced to the disk. If the block fails, an existing file stays as it was.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with explain_disk_full(path, needed_bytes):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield part
            fsync_path(part)
            part.replace(path)
            fsync_path(path.parent)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: another name, fsync, rename, fsync of the folder."""
    with atomic_path(path, len(data)) as part:
        part.write_bytes(data)


def move_folder(staged: Path, final: Path) -> None:
    """Rename a folder to its final name, after every file in it is on the disk."""
    with explain_disk_full(final):
        for path in [*staged.rglob("*"), staged]:
            fsync_path(path)
        final.parent.mkdir(parents=True, exist_ok=True)
        staged.rename(final)
        for folder in {staged.parent, final.parent}:
            fsync_path(folder)


def fsync_path(path: Path) -> None:
    """Sync a file, or the names in a folder, to the disk (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
