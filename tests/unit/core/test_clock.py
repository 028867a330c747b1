"""The clock of this machine makes a call again and again; waiting ends with what is waited for, or with the time."""

from __future__ import annotations

import threading

from loadbook.core.clock import Clock, wait_until
from turned_clock import TurnedClock


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


def test_wait_ends_with_the_first_true_answer(clock: TurnedClock) -> None:
    answers = iter([False, "", True, False])
    assert wait_until(lambda: next(answers), 60.0, 0.5)
    assert clock.slept == [0.5, 0.5] and next(answers) is False


def test_wait_ends_after_its_time_and_asks_at_least_once(clock: TurnedClock) -> None:
    calls = list[int]()
    assert not wait_until(lambda: calls.append(1), 3.0, 1.0)
    assert clock.slept == [1.0] * 3 and len(calls) == 4
    assert not wait_until(lambda: calls.append(1), 0.0)
    assert len(calls) == 5
