"""Writes files and folders completely or not at all; lock of a study's folder; errors of a full disk.

The lock of a study's folder is advisory; the kernel releases it when the process that holds it ends.
"""

from __future__ import annotations

import errno
import fcntl
import getpass
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loadbook.core import clock
from loadbook.core.errors import UsageError
from loadbook.core.units import format_bytes, format_duration

# no space on the disk, in the user's quota, or within the limit of this process (ulimit -f)
DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
DISK_FULL_HINT = "free some space there, then give the same command again: nothing half-written was kept"


class DiskFullError(OSError):
    """No space for a file of loadbook.

    `filename` is its path, `strerror` a text with the bytes needed (if known) and the bytes free.
    """


@contextmanager
def explain_disk_full(path: Path, needed_bytes: int | None = None) -> Iterator[None]:
    """Replace the error of a full disk by `DiskFullError` with the file, the bytes needed, and the bytes free."""
    try:
        yield
    except DiskFullError:
        raise
    except OSError as error:
        if error.errno not in DISK_FULL_ERRNOS:
            raise
        raise disk_full_error(path, needed_bytes, os.strerror(error.errno or errno.ENOSPC)) from error


def disk_full_error(path: Path, needed_bytes: int | None, cause: str) -> DiskFullError:
    """Return the error for a file that needs `needed_bytes` (None: not known); `cause` ends its message."""
    needed = f"{format_bytes(needed_bytes)} needed, " if needed_bytes else ""
    return DiskFullError(errno.ENOSPC, f"no room: {needed}{format_bytes(free_bytes(path))} free ({cause})", str(path))


def disk_full_message(error: OSError, where: str | Path = ".") -> str:
    """Return the message for a full disk: the file, the bytes needed if known, and the bytes free.

    `where` is the path to name if the error has none.
    """
    if not isinstance(error, DiskFullError):
        error = disk_full_error(Path(error.filename or where), None, error.strerror or str(error))
    return f"{error.filename}: {error.strerror}"


def free_bytes(path: Path) -> int:
    """Return the bytes that this user may still write to the disk of a path, which need not exist yet."""
    existing = next((folder for folder in (path, *path.absolute().parents) if folder.exists()), Path("/"))
    return shutil.disk_usage(existing).free


@contextmanager
def atomic_path(path: Path, needed_bytes: int | None = None) -> Iterator[Path]:
    """Yield a temporary path beside `path`; a file written there is renamed to `path` when the block ends.

    The file and its folder are synced to the disk. If the block fails, an existing file stays unchanged.
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
    """Write a file completely or not at all: temporary name, fsync, rename, fsync of the folder."""
    with atomic_path(path, len(data)) as part:
        part.write_bytes(data)


def move_folder(staged: Path, final: Path) -> None:
    """Rename a folder to its final name after syncing all files in it to the disk."""
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


LOCK_FILE = ".lock"


@contextmanager
def hold_study_lock(folder: Path) -> Iterator[str]:
    """Hold the lock of a study's folder; UsageError names process, host and age of another run that holds it.

    Yields a sentence on the previous holder if it died without releasing the lock, else "".
    """
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner_text, kill = _lock_owner(folder / LOCK_FILE)
            raise UsageError(f"{folder} is in use by {owner_text}", f"wait for its end{kill}") from None
        dead_owner = _lock_owner(folder / LOCK_FILE)[0] if os.fstat(fd).st_size else ""
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "user": getpass.getuser(), "since": clock.now()}
        os.pwrite(fd, json.dumps(owner).encode().ljust(os.fstat(fd).st_size), 0)
        try:
            yield dead_owner and f"the lock of {dead_owner}, which died, is taken over"
        finally:
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def is_study_locked(folder: Path) -> bool:
    """Return whether a run of another process holds the lock of a study's folder."""
    try:
        with (folder / LOCK_FILE).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _lock_owner(path: Path) -> tuple[str, str]:
    """Return a text on the process that holds a lock, and ", or ..." with the command that ends it; "" if unknown."""
    try:
        owner = json.loads(path.read_bytes())
        age = format_duration(max(0.0, clock.now() - owner["since"]))
        where = "" if owner["host"] == socket.gethostname() else f" on {owner['host']}"
        kill = f", or end it{where}: kill {int(owner['pid'])}"
        return f"process {owner['pid']} of {owner['user']} on {owner['host']}, started {age} ago", kill
    except (OSError, ValueError, KeyError, TypeError):
        return "another process that has just started", ""
