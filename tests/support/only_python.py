"""Guards of tests/unit: a test that starts a process, uses a socket, waits or reads the clock fails.

Python's audit events report the first two, whatever library causes them. Functions that wait are replaced for the whole
session: a pause above 0.05 s fails, and a wait for something that did not come in that time. So are the clocks of
`time`: to read one fails for loadbook and its tests. Each test has a fake clock (turned_clock.py) behind
`loadbook.core.clock`.
"""

from __future__ import annotations

import asyncio
import multiprocessing.process
import select
import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.font_manager  # noqa: F401  # the first time that a user imports it, it starts fc-list
import pytest
import urllib3.util.connection  # noqa: F401  # binds a socket when it is imported, to see whether there is IPv6

ROOT = Path(__file__).parents[2]
OURS = tuple(str(ROOT / folder) for folder in ("lib", "tests", "benchmarks"))
ALLOWED = (str(ROOT / "tests/support/turned_clock.py"),)
PROCESSES = {
    "subprocess.Popen",
    "os.system",
    "os.fork",
    "os.forkpty",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "pty.spawn",
}
SOCKETS = {
    "socket.connect",
    "socket.bind",
    "socket.sendto",
    "socket.sendmsg",
    "socket.getaddrinfo",
    "socket.gethostbyaddr",
    "socket.gethostbyname",
    "socket.getnameinfo",
}
LONGEST_PAUSE_S = 0.05
CLOCKS = (
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
    "thread_time",
    "thread_time_ns",
    "clock_gettime",
    "clock_gettime_ns",
)
SELECTORS = (selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector)

PATCH = pytest.MonkeyPatch()
# what the current test did, also in threads and where code under test catches the failure; None: no test runs
_done: list[str] | None = None


def refuse(what: str) -> None:
    """Note what the current test does, and fail it there."""
    if _done is not None:
        thread = threading.current_thread()
        if thread is not threading.main_thread():
            what = f"{what} in the thread {thread.name}, perhaps of an earlier test"
        _done.append(what)
        pytest.fail(f"{what}: such a test belongs in tests/live")


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _done is None:
        return
    if event in PROCESSES:
        refuse(f"starts a process ({event} {str(arguments[:1])[:80]})")
    if event in SOCKETS:
        refuse(f"uses a socket ({event} {str(arguments[1:2])[:80]})")


def _guard_time() -> None:
    real_sleep = time.sleep

    def sleep(seconds: float) -> None:
        if seconds > LONGEST_PAUSE_S:
            refuse(f"sleeps for {seconds:g} s")
        real_sleep(seconds)

    def refusing(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def read(*arguments: Any) -> Any:
            caller = sys._getframe(1).f_code.co_filename
            if _done is not None and caller.startswith(OURS) and caller not in ALLOWED:
                refuse(f"reads time.{name} in {caller}")
            return real(*arguments)

        return read

    PATCH.setattr(time, "sleep", sleep)
    for name in CLOCKS:
        PATCH.setattr(time, name, refusing(name, getattr(time, name)))


def _guard_waits() -> None:
    """Events, queues and futures wait by conditions, event loops and timers by selectors."""

    def refusing_if_in_vain(wait: Callable[..., Any], place: int, came: Callable[..., object]) -> Callable[..., Any]:
        """`place` is the timeout's among the arguments; `came` is called with those before it and the result."""

        def wait_at_most(*arguments: Any, **named: Any) -> Any:
            result = wait(*arguments, **named)
            timeout = arguments[place] if len(arguments) > place else named.get("timeout")
            if timeout is not None and timeout > LONGEST_PAUSE_S and not came(*arguments[:place], result):
                refuse(f"waits in vain for {timeout:g} s")
            return result

        return wait_at_most

    waits: tuple[tuple[Any, str, int, Callable[..., object]], ...] = (
        (threading.Condition, "wait", 1, lambda condition, held: held),
        (threading.Thread, "join", 1, lambda thread, none: not thread.is_alive()),
        *((kind, "select", 1, lambda selector, ready: ready) for kind in SELECTORS),
        (select, "select", 3, lambda reading, writing, failing, ready: any(ready)),
    )
    for owner, name, place, came in waits:
        PATCH.setattr(owner, name, refusing_if_in_vain(getattr(owner, name), place, came))
    real_sleep = asyncio.sleep

    async def sleep(delay: float, result: Any = None) -> Any:
        if delay > LONGEST_PAUSE_S:
            refuse(f"sleeps for {delay:g} s")
        return await real_sleep(delay, result)

    PATCH.setattr(asyncio, "sleep", sleep)


def _guard_multiprocessing() -> None:
    real_start = multiprocessing.process.BaseProcess.start

    def start(process: multiprocessing.process.BaseProcess) -> None:
        refuse("starts a process (multiprocessing)")
        real_start(process)

    PATCH.setattr(multiprocessing.process.BaseProcess, "start", start)


def install() -> None:
    """Guard this process from now on; only what happens inside `guarded` is refused."""
    sys.addaudithook(_audit)
    _guard_time()
    _guard_waits()
    _guard_multiprocessing()


@contextmanager
def guarded() -> Iterator[None]:
    """Refuse all but Python while the block runs."""
    global _done
    before, _done = _done, []
    try:
        yield
    finally:
        _done = before


def check() -> None:
    """Fail if something was refused since the block began: a thread, or code under test, may have caught it."""
    if _done:
        pytest.fail(f"{_done[0]}: such a test belongs in tests/live")
