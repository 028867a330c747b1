"""One runner per study folder: an advisory lock that the kernel frees when its owner dies."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loadbook.core.errors import UsageError
from loadbook.core.units import seconds

NAME = ".lock"


@contextmanager
def only_runner(folder: Path) -> Iterator[None]:
    """Hold the lock of a study's folder; a second runner gets UsageError with the owner's pid and age."""
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{folder} is in use by {_owner(folder / NAME)}", "wait for it, or end it: kill <pid>"
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps({"pid": os.getpid(), "since": time.time()}).encode(), 0)
        yield
    finally:
        os.close(fd)


def _owner(path: Path) -> str:
    try:
        owner = json.loads(path.read_bytes())
        return f"process {owner['pid']}, started {seconds(max(0.0, time.time() - owner['since']))} ago"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process that has just started"
