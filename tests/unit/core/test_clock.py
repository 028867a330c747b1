"""The clock of this machine makes a call again and again until it is told to end."""

from __future__ import annotations

import threading

from loadbook.core.clock import Clock


def test_call_is_made_again_and_again_until_its_end() -> None:
    calls, third = list[str](), threading.Event()

    def call() -> None:
        calls.append(threading.current_thread().name)
        if len(calls) == 3:
            third.set()

    end = Clock().every(0.001, call)
    assert third.wait(10)
    end()
    number = len(calls)
    assert set(calls) == {"ticks"} and not any(one.name == "ticks" for one in threading.enumerate())
    assert len(calls) == number
