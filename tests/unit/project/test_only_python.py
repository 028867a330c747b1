"""What tests/unit refuses: each of these fails a test, also where the failure is caught or happens in a thread."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import queue
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

import pytest

import only_python
from loadbook.core import clock as loadbook_clock
from turned_clock import TurnedClock

Failed = pytest.fail.Exception


def _bind() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))


def _select() -> None:
    read, write = os.pipe()
    try:
        select.select([read], [], [], 0.06)
    finally:
        os.close(read)
        os.close(write)


REFUSED: dict[str, Callable[[], object]] = {
    "a process": lambda: subprocess.run(["true"], check=False),
    "a shell": lambda: os.system("true"),
    "a fork": os.fork,
    "a worker process": lambda: multiprocessing.get_context("spawn").Process(target=int).start(),
    "a connection": lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
    "a server": _bind,
    "a pause": lambda: time.sleep(0.06),  # noqa: TID251
    "the time": lambda: time.time(),  # noqa: TID251
    "a stop watch": lambda: time.monotonic(),  # noqa: TID251
    "the CPU's time": lambda: time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID),
    "an event that does not come": lambda: threading.Event().wait(0.06),
    "a queue without an item": lambda: queue.Queue[int]().get(timeout=0.06),
    "a result that does not come": lambda: Future[int]().result(0.06),
    "a pause of an event loop": lambda: asyncio.run(asyncio.sleep(0.06)),
    "a limit of an event loop": lambda: asyncio.run(asyncio.wait_for(asyncio.Event().wait(), 0.06)),
    "a file that is not ready": _select,
    "a name server": lambda: socket.getfqdn(),
}


@pytest.mark.parametrize("what", REFUSED)
def test_unit_test_that_needs_more_than_python_fails(what: str) -> None:
    with only_python.guarded(), pytest.raises(Failed, match="such a test belongs in tests/live"):
        REFUSED[what]()


def test_unit_test_fails_even_if_the_refusal_is_caught_in_a_thread() -> None:
    def quietly() -> None:
        with suppress(BaseException):
            subprocess.run(["true"], check=False)

    with only_python.guarded():
        thread = threading.Thread(target=quietly)
        thread.start()
        thread.join(60)
        with pytest.raises(Failed, match="starts a process"):
            only_python.check()


def test_short_pause_a_wait_for_what_comes_and_files_are_allowed(tmp_path) -> None:
    with only_python.guarded():
        time.sleep(0.001)  # noqa: TID251
        came = threading.Event()
        thread = threading.Thread(target=came.set)
        thread.start()
        assert came.wait(60)
        thread.join(60)
        (tmp_path / "file").write_text("x")
        only_python.check()


def test_loadbooks_clock_moves_only_when_a_test_or_a_pause_turns_it(clock: TurnedClock) -> None:
    began = loadbook_clock.monotonic()
    assert loadbook_clock.monotonic() - began < 0.001
    clock.turn(3600)
    loadbook_clock.sleep(60)
    assert not loadbook_clock.wait(threading.Event(), 40)
    assert loadbook_clock.monotonic() - began == pytest.approx(3700, abs=0.01)
    assert clock.slept == [60, 40]
