"""Guards of tests/unit: a test that starts a process, uses a socket, waits or reads the clock fails.

Python's audit events report the first two, whatever library causes them. Functions of `time` are replaced for the whole
session: a pause above 0.05 s fails for everyone, a look at the clock for loadbook and its tests. Each has its fake
clock (turned_clock.py) behind `loadbook.core.clock`.
"""

from __future__ import annotations

import multiprocessing.process
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

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
SOCKETS = {"socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"}
LONGEST_PAUSE_S = 0.05
CLOCKS = (
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "thread_time",
)

PATCH = pytest.MonkeyPatch()
# what the current test did, also in threads and where code under test catches the failure; None: no test runs
_done: list[str] | None = None


def refuse(what: str) -> None:
    """Note what the current test does, and fail it there."""
    if _done is not None:
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

    def refusing(name: str, real: Callable[[], Any]) -> Callable[[], Any]:
        def read() -> Any:
            caller = sys._getframe(1).f_code.co_filename
            if _done is not None and caller.startswith(OURS) and caller not in ALLOWED:
                refuse(f"reads time.{name} in {caller}")
            return real()

        return read

    PATCH.setattr(time, "sleep", sleep)
    for name in CLOCKS:
        PATCH.setattr(time, name, refusing(name, getattr(time, name)))


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
