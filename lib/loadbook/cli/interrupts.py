"""Ctrl-C and SIGTERM while hosts are at work: the first ends everything in order, the second waits for nothing."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from types import FrameType

from loadbook.cli.say import echo, echo_now

EXIT_CODE = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)
THREADS_S = 0.5


@contextmanager
def interrupts(hosts_file: Path) -> Iterator[None]:
    """Turn each of these signals into KeyboardInterrupt, saying what happens now and what to do about `hosts_file`."""
    seen = 0

    def heard(signum: int, frame: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        echo_now(_SECOND.format(quote(str(hosts_file))) if seen > 1 else _FIRST)
        raise KeyboardInterrupt

    with hearing(heard):
        try:
            yield
        except KeyboardInterrupt:
            echo("stopped; the same command goes on with the next trial", err=True)
            _leave()
            raise


@contextmanager
def hearing(heard: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have `heard` called for Ctrl-C and SIGTERM, meanwhile only."""
    # a shell starts what it puts into the background deaf to Ctrl-C, and means it
    before = {s: signal.signal(s, heard) for s in SIGNALS if signal.getsignal(s) is not signal.SIG_IGN}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


_FIRST = "interrupted: the load is ended and hosts are put back; once more: without waiting"
_SECOND = "not waiting: hosts end and put back what is left by themselves; to see to it: loadbook restore --hosts {}"


def _leave() -> None:
    """End the process now if threads still wait for hosts that do not answer: everything is recorded by then."""
    deadline = time.monotonic() + THREADS_S
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(EXIT_CODE)
