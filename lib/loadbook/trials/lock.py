"""One runner per study folder: an advisory lock that the kernel frees when its owner dies."""

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
from loadbook.core.units import seconds

NAME = ".lock"


@contextmanager
def only_runner(folder: Path) -> Iterator[str]:
    """Hold the lock of a study's folder; a second runner gets UsageError with the owner's process, host and age.

    Yields a sentence about an owner that died, whose lock this was; "" when the last one ended as it should.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "wait for it, or end it there: kill its process"
            raise UsageError(f"{folder} is in use by {_owner(folder / NAME)}", hint) from None
        died = _owner(folder / NAME) if os.fstat(fd).st_size else ""
        own = {"pid": os.getpid(), "host": socket.gethostname(), "user": getpass.getuser(), "since": time.time()}
        os.pwrite(fd, json.dumps(own).encode().ljust(os.fstat(fd).st_size), 0)
        try:
            yield died and f"the lock of {died}, which died, is taken over"
        finally:
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def _owner(path: Path) -> str:
    try:
        owner = json.loads(path.read_bytes())
        age = seconds(max(0.0, time.time() - owner["since"]))
        return f"process {owner['pid']} of {owner['user']} on {owner['host']}, started {age} ago"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process that has just started"
