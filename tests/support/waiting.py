"""Waiting for conditions that other processes fulfil, and doing something meanwhile, with a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# how long tests wait for what happens at once on a calm machine: a limit costs time only where it fails
PATIENCE_S = 60.0


def wait_until(condition: Callable[[], object], limit_s: float = PATIENCE_S) -> None:
    """Return as soon as `condition()` is true; AssertionError if this takes longer than `limit_s` seconds."""
    deadline = time.monotonic() + limit_s
    while not (held := condition()) and time.monotonic() < deadline:  # asked once each: it may not hold again
        time.sleep(0.02)
    assert held


@contextmanager
def meanwhile(do: Callable[[], object]) -> Iterator[None]:
    """Do something in a thread while the block runs; its error is the block's."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            do()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join(120)
    if failed:
        raise failed[0]
