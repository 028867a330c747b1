"""One process at a time in a study's folder: an advisory lock that the kernel frees when its owner dies."""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loadbook.core.errors import UsageError
from loadbook.core.units import format_duration

LOCK_FILE = ".lock"


@contextmanager
def hold_study_lock(folder: Path) -> Iterator[str]:
    """Hold the lock of a study's folder; a second runner gets UsageError with the owner's process, host and age.

    Yields a sentence about the previous owner if it died without releasing the lock, else "".
    """
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "wait for it, or end it there: kill its process"
            raise UsageError(f"{folder} is in use by {_owner_text(folder / LOCK_FILE)}", hint) from None
        dead_owner = _owner_text(folder / LOCK_FILE) if os.fstat(fd).st_size else ""
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "user": getpass.getuser(), "since": time.time()}
        os.pwrite(fd, json.dumps(owner).encode().ljust(os.fstat(fd).st_size), 0)
        try:
            yield dead_owner and f"the lock of {dead_owner}, which died, is taken over"
        finally:
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def _owner_text(path: Path) -> str:
    try:
        owner = json.loads(path.read_bytes())
        age = format_duration(max(0.0, time.time() - owner["since"]))
        return f"process {owner['pid']} of {owner['user']} on {owner['host']}, started {age} ago"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process that has just started"
