"""The time, and waiting: no other module reads the time or sleeps (rule TID251 of ruff).

Tests replace `current` by a clock that they turn, so that what waits for minutes is tested in no time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

LONGEST_CALL_S = 5.0  # waited for the end of a repeated call that is under way


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

    def every(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Call `call` in a thread after every `seconds` s; return a function that ends this.

        That function waits 5 s at most for a call that is under way.
        """
        ended = threading.Event()

        def repeat() -> None:
            while not ended.wait(seconds):
                call()

        thread = threading.Thread(target=repeat, name="ticks", daemon=True)
        thread.start()

        def end() -> None:
            ended.set()
            thread.join(LONGEST_CALL_S)

        return end


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


def every(seconds: float, call: Callable[[], None]) -> Callable[[], None]:
    """Call `call` in a thread after every `seconds` s; return a function that ends this (see `Clock.every`)."""
    return current.every(seconds, call)


def wait_until(is_true: Callable[[], object], limit_s: float, pause_s: float = 0.01) -> bool:
    """Call `is_true` every `pause_s` seconds until it returns a true value; return False after `limit_s` seconds."""
    end = monotonic() + limit_s
    while not is_true():
        if monotonic() >= end:
            return False
        sleep(pause_s)
    return True
