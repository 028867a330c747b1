"""The time, and waiting: no other module reads the time or sleeps (rule TID251 of ruff).

Tests replace `current` by a clock that they turn, so that what waits for minutes is tested in no time.
"""

from __future__ import annotations

import threading
import time


class Clock:
    """The clock of this machine."""

    def now(self) -> float:
        """Return the time in seconds since 1970; it jumps if someone sets the machine's clock."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; only differences mean something."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Return after this time."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for an event for this time at most; return whether it is set."""
        return event.wait(seconds)


current = Clock()


def now() -> float:
    """Return the time in seconds since 1970; it jumps if someone sets the machine's clock."""
    return current.now()


def monotonic() -> float:
    """Return seconds since an arbitrary moment; only differences mean something."""
    return current.monotonic()


def sleep(seconds: float) -> None:
    """Return after this time."""
    current.sleep(seconds)


def wait(event: threading.Event, seconds: float) -> bool:
    """Wait for an event for this time at most; return whether it is set."""
    return current.wait(event, seconds)
