"""A clock that stands nearly still until a test, or code that sleeps, turns it: waits of minutes take no time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from loadbook.core.clock import Clock

# other threads come to run at each wait; this long, whatever a wait should take
YIELD_S = 0.001
# files that a test writes have real times: to this clock, they are a minute old
AHEAD_S = 60.0
# no two readings are equal, as on real machines
READING_S = 0.00001


@dataclass(eq=False)
class _Repeated:
    """A call that is made every so many seconds, and the time at which it is due."""

    seconds: float
    call: Callable[[], None]
    due: float


class TurnedClock(Clock):
    """Seconds that pass only by `turn`, `sleep` and `wait`; `slept` has every pause, in order.

    What is called every so many seconds is called by these, in the same thread, once if several calls are due.
    """

    def __init__(self) -> None:
        self.began = time.time() + AHEAD_S
        self.passed = 0.0
        self.slept: list[float] = []
        self._repeated: list[_Repeated] = []

    def now(self) -> float:
        self.turn(READING_S)
        return self.began + self.passed

    def monotonic(self) -> float:
        self.turn(READING_S)
        return 1000.0 + self.passed

    def turn(self, seconds: float) -> None:
        """Let time pass."""
        self.passed += seconds
        for repeated in list(self._repeated):
            if self.passed >= repeated.due:
                repeated.due = self.passed + repeated.seconds
                repeated.call()

    def every(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        repeated = _Repeated(seconds, call, self.passed + seconds)
        self._repeated.append(repeated)
        return lambda: self._repeated.remove(repeated)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        time.sleep(min(seconds, YIELD_S))
        self.turn(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.slept.append(seconds)
        if event.wait(min(seconds, YIELD_S)):
            return True
        self.turn(seconds)
        return event.is_set()
