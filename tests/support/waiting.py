"""Waiting for conditions that other processes fulfil, with a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], limit_s: float = 10.0) -> None:
    """Return as soon as `condition()` is true; AssertionError if this takes longer than `limit_s` seconds."""
    deadline = time.monotonic() + limit_s
    while not (held := condition()) and time.monotonic() < deadline:  # asked once each: it may not hold again
        time.sleep(0.02)
    assert held
